"""Labels for whole files: a record in, the same record with its label out, in a memory that does not grow."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from suite.data.label_columns import KNOWN
from suite.data.packed import SUFFIXES, unpack, unpacked_suffix
from suite.data.record_files import check_surrogates, decode_lines, parse_json_lines
from suite.data.separated import csv_rows, tab_fields
from suite.data.sources import File
from suite.data.tables import has_header
from suite.errors import ConfigError, DataError
from suite.files import write_atomic
from suite.tasks.classify.pipeline import Classified, Classifier, check_pairs
from suite.tasks.classify.zero_shot import ZeroShot
from suite.wording import count

RECORDS, CHARACTERS = 512, 1 << 20  # at most at a time
KINDS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "txt"}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What became of the records.

    Attributes:
        records: in all; each has its line in the output.
        empty: those without text, which have no label and no probability.
        unsure: those without a label because none is probable enough.
        in_pieces: those longer than the model reads at once.
        columns: names of what was added.
    """

    records: int
    empty: int
    unsure: int
    in_pieces: int
    columns: tuple[str, ...]


class _Row(NamedTuple):
    """A record: fields of a table, or a JSON object."""

    where: str
    fields: list[str] | dict[str, Any]
    text: str
    pair: str | None = None


class _Input(NamedTuple):
    """A file that is being read. `names` are its columns; None where it does not name them."""

    kind: str
    names: list[str] | None
    rows: Iterator[_Row]
    delimiter: str = "\t"
    end: str = "\n"


def classify_file(
    classifier: Classifier | ZeroShot,
    source: Path | None = None,
    output: Path | None = None,
    *,
    column: str = "text",
    pair: str = "",
    min_probability: float = 0.0,
    as_json: bool = False,
    progress: Callable[[int, int], object] = lambda records, size: None,
) -> Summary:
    """Label every record of a file.

    Tables and JSON objects keep what they have and get a `label` and a `probability`, from a classifier of several
    labels also `labels`, a JSON list; where such a column is there already, the new ones begin with `predicted_`. A
    text a line becomes label, probability and text, with tabs between. The label of an unsure record is empty, and of
    a record without text the probability too.

    Args:
        classifier: what labels the texts.
        source: a .csv, .tsv, .jsonl or .txt (a text a line) file, perhaps packed (None: standard input, a text a
            line).
        output: a .csv, .tsv, .jsonl or .txt file, which appears when all is done (None: standard output, in the
            format of the input).
        column: with the text: a name, which is in the first line of a table, or a number from 1. By number, the first
            line is taken for names or a record as `suite.data.tables.has_header` says.
        pair: column with the second text.
        min_probability: below it a record is unsure.
        as_json: write JSON lines to standard output.
        progress: called with the records just done, and how many bytes of the source are read.

    Raises:
        DataError: the input cannot be read, lacks the column, or does not fit the output's format.
        ConfigError: a file's format is not one of these.
    """
    if source is not None:
        File.of(source)  # a pipe or a device is refused
    kind = "txt" if source is None else _kind(source)
    written = _kind(output) if output is not None else "jsonl" if as_json else kind
    if output is not None and output.suffix in SUFFIXES:
        raise ConfigError(f"{output}: the output is not compressed; leave out {output.suffix}")
    if written != "jsonl" and kind == "jsonl":
        raise ConfigError(f"{output}: JSON objects may have different fields; write to a .jsonl file")
    if written == "txt" and kind != "txt":
        raise ConfigError(f"{output}: a table cannot be written as lines of text; write to a .csv, .tsv or .jsonl file")
    typed = source is None and sys.stdin.isatty()
    check_pairs(classifier.pairs, bool(pair))  # before anything is written
    done: list[Summary] = []

    def write(file: IO[str]) -> None:
        with nullcontext(sys.stdin.buffer) if source is None else source.open("rb") as stream:
            name = "standard input" if source is None else str(source)
            ending = "" if source is None else source.suffix
            lines = decode_lines(unpack(stream, name, suffix=ending, close=False), name)
            found = _read(lines, name, kind, column, pair)
            if written == "jsonl":
                _require_distinct(found.names or [], name)
            summary = _label(
                classifier,
                found,
                written,
                file,
                min_probability,
                most=1 if typed else RECORDS,
                progress=lambda count: progress(count, 0 if source is None else stream.tell()),
            )
        done.append(summary)

    def fill(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            write(file)

    if output is None:
        write(sys.stdout)
    else:
        write_atomic(output, fill)
    return done[0]


def _kind(path: Path) -> str:
    suffix = unpacked_suffix(path)
    if suffix not in KINDS:
        raise ConfigError(f"{path}: the name must end in one of {', '.join(KINDS)}")
    return KINDS[suffix]


# ---- reading


def _read(lines: Iterator[str], name: str, kind: str, column: str, pair: str) -> _Input:
    if kind == "txt":
        texts = (_Row(f"{name}, line {number}", [line], line) for number, line in enumerate(map(_bare, lines), 1))
        return _Input(kind, ["text"], texts)
    if kind == "jsonl":
        return _Input(kind, None, _objects(lines, name, column, pair))
    first = next(lines, "")
    end = "\r\n" if first.endswith("\r\n") else "\n"
    lines = chain([first], lines)
    rows: Iterator[tuple[int, list[str]]] = ((number, tab_fields(line)[0]) for number, line in enumerate(lines, 1))
    delimiter = "\t"
    if kind == "csv":
        delimiter, rows = csv_rows(lines, name)
    start = list(islice(rows, RECORDS if column.isdecimal() else 1)) if first else []
    if not start:
        raise DataError(f"{name}: no rows")
    rows = chain(start, rows)
    named = not column.isdecimal() or has_header([row for _, row in start], KNOWN)
    names = [cell.strip() for cell in next(rows)[1]] if named else None
    width = len(start[0][1])
    places = [_place(names, width, wanted, name) for wanted in (column, pair) if wanted]  # before anything is written
    return _Input(kind, names, _table(rows, name, width, places), delimiter, end)


def _bare(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _table(rows: Iterator[tuple[int, list[str]]], name: str, width: int, places: Sequence[int]) -> Iterator[_Row]:
    for number, row in rows:
        if row in ([], [""]):  # a blank line is a record without text, so that the output has as many
            row = [""] * width
        if len(row) != width:
            raise DataError(f"{name}, line {number}: {count(len(row), 'field')}, but the first line has {width}")
        yield _Row(f"{name}, line {number}", row, *(row[place] for place in places))


def _place(names: list[str] | None, width: int, column: str, name: str) -> int:
    if names is not None and column in names:
        _require_distinct([one for one in names if one == column], name)
        return names.index(column)
    if column.isdecimal() and 1 <= int(column) <= width:
        return int(column) - 1
    there = f"available: {', '.join(names)[:300]}" if names is not None else f"available: 1 to {width}, without names"
    raise DataError(f"{name}: no column {column!r}; {there}")


def _require_distinct(names: Sequence[str], name: str) -> None:
    if twice := [one for place, one in enumerate(names) if one in names[:place]]:
        raise DataError(f"{name}: two columns are called {twice[0]!r}")


def _objects(lines: Iterator[str], name: str, column: str, pair: str) -> Iterator[_Row]:
    for number, record in parse_json_lines(lines, name):  # a blank line is no record
        where = f"{name}, line {number}"
        if not isinstance(record, dict):
            raise DataError(f"{where}: each line must be a JSON object, not {type(record).__name__}")
        text, other = (_value(record, wanted, where) if wanted else None for wanted in (column, pair))
        yield _Row(where, record, text or "", other)


def _value(record: Mapping[str, Any], column: str, where: str) -> str:
    if column not in record:
        raise DataError(f"{where}: no column {column!r}; available: {', '.join(record)[:300] or 'none'}")
    value = record[column]
    if value is None:  # no text, as an empty one
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: column {column!r} contains {type(value).__name__}, not text")
    check_surrogates(value, where)
    return value


# ---- labelling and writing


def _label(
    classifier: Classifier | ZeroShot,
    found: _Input,
    written: str,
    file: IO[str],
    min_probability: float,
    *,
    most: int,
    progress: Callable[[int], object],
) -> Summary:
    added: tuple[str, ...] = ()
    if found.kind != "jsonl":
        added = _added(found.names or (), classifier.multi, "the first line")
        if found.names is not None and written in ("csv", "tsv"):
            file.write(_line([*found.names, *added], written, found))
    records = empty = unsure = in_pieces = 0
    for chunk in _chunks(found.rows, most):
        added = added or _added(chunk[0].fields, classifier.multi, chunk[0].where)
        asked = [row for row in chunk if row.text.strip()]
        texts = [row.text if row.pair is None else (row.text, row.pair) for row in asked]
        answers = iter(classifier(texts, min_probability=min_probability) if texts else [])
        for row in chunk:
            answer = next(answers) if row.text.strip() else None
            empty += answer is None
            unsure += answer is not None and answer.label is None
            in_pieces += answer is not None and answer.pieces > 1
            file.write(_result(row, answer, added, written, found))
        file.flush()
        records += len(chunk)
        progress(len(chunk))
    return Summary(records=records, empty=empty, unsure=unsure, in_pieces=in_pieces, columns=added)


def _chunks(rows: Iterator[_Row], most: int) -> Iterator[list[_Row]]:
    """Records that are labelled together."""
    chunk: list[_Row] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row.text) + len(row.pair or "")
        if len(chunk) >= most or size >= CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _added(there: Collection[str], multi: bool, where: str) -> tuple[str, ...]:
    """Names of the new columns, none of which is there already."""
    names = ("label", "probability", *(["labels"] if multi else []))
    if not any(name in there for name in names):
        return names
    names = tuple(f"predicted_{name}" for name in names)
    if taken := [name for name in names if name in there]:
        raise DataError(f"{where}: there is already a column {taken[0]!r}; rename or remove it")
    return names


def _result(row: _Row, answer: Classified | None, added: tuple[str, ...], written: str, found: _Input) -> str:
    """The line that a record becomes, with its end."""
    label = None if answer is None else answer.label
    odds = None if answer is None else round(answer.probability, 6)
    labels = [] if answer is None else list(answer.labels)
    if written == "jsonl":
        names = found.names or [str(place) for place, _ in enumerate(row.fields, 1)]
        record = row.fields if isinstance(row.fields, dict) else dict(zip(names, row.fields, strict=True))
        if taken := [name for name in added if name in record]:
            raise DataError(
                f"{row.where}: there is a column {taken[0]!r}, which the first record does not have; rename it"
            )
        new = dict(zip(added, (label, odds, labels), strict=False))
        try:
            line = json.dumps({**record, **new}, ensure_ascii=False, allow_nan=False) + "\n"
        except (ValueError, RecursionError) as error:
            raise DataError(f"{row.where}: cannot be written as JSON ({error})") from None
        check_surrogates(line, row.where)
        return line
    cells = [label or "", "" if odds is None else f"{odds:.6f}", json.dumps(labels, ensure_ascii=False)][: len(added)]
    if written == "txt":
        return "\t".join([*cells, row.text]) + "\n"
    return _line([*row.fields, *cells], written, found)


def _line(cells: list[str], written: str, found: _Input) -> str:
    """A row of a table."""
    if written == "csv":
        delimiter = found.delimiter if found.kind == "csv" else ","
        risky = (delimiter, '"', "\r", "\n")
        quoted = [
            '"' + cell.replace('"', '""') + '"' if any(sign in cell for sign in risky) else cell for cell in cells
        ]
        return delimiter.join(quoted) + found.end
    for cell in cells:
        if any(sign in cell for sign in "\t\r\n"):
            raise DataError(
                f"{cell[:60]!r} cannot be written to a .tsv file, where fields have no tab or line end; use a .csv"
            )
    return "\t".join(cells) + found.end
