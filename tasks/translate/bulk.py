"""Files of many texts, translated record by record into another file; a run that stopped goes on where it was.

Until it is whole, the result lies beside its place in a file OUTPUT.part, whose first line says what it belongs to.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.data.packed import SUFFIXES, unpacked_suffix
from suite.data.record_files import check_surrogates, json_lines, text_lines
from suite.data.separated import csv_rows
from suite.data.sources import File
from suite.errors import ConfigError, DataError
from suite.files import write_atomic
from suite.wording import count

if TYPE_CHECKING:
    from suite.tasks.translate.pipeline import Translation

Kind = Literal["tsv", "csv", "jsonl", "txt"]
Translate = Callable[[Sequence[str]], Sequence["Translation"]]

ADDED = ("translation", "translation_source", "translation_score", "translation_warnings")
RECORDS, CHARACTERS = 64, 20_000  # at most, between two writes
_KINDS: dict[str, Kind] = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_TEXT = re.compile(r"|\.txt|\.[a-z]{2}")  # suffixes; parallel texts are told apart by their language: news.en, news.de


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record of the input.

    Args:
        text: what is translated.
        row: the row of a table or the line of a text as it stands there, without its end, or the object of a JSON line.
        end: of the row or line.
        place: its line, from 1.
    """

    text: str
    row: Any
    end: str = "\n"
    place: int


@dataclass(frozen=True, kw_only=True)
class Records:
    """An input file.

    Args:
        kind: a table with tabs, one as CSV, JSON lines, or a text a line.
        delimiter: of a table.
        head: what stands before the results: a byte order mark, and a table's row of column names; mostly "".
        records: in order.
    """

    kind: Kind
    delimiter: str = ""
    head: str = ""
    records: list[Record]


def read_records(path: Path, *, column: str | None = None, field: str | None = None) -> Records:
    """Read a .tsv, .csv, .jsonl or .txt file, perhaps packed.

    Args:
        path: the file.
        column: of a table: a number from 1, or a name, which the first row must then have (None: 1).
        field: of JSON objects (None: text).

    Raises:
        DataError: the file cannot be read, or a row lacks the column or field; its line is named.
        ConfigError: it is of another kind, or of one that has no columns or fields.
    """
    suffix = unpacked_suffix(path)
    kind = _KINDS.get(suffix, "txt")
    table, objects = kind in ("tsv", "csv"), kind == "jsonl"
    if suffix not in _KINDS and not _TEXT.fullmatch(suffix):
        raise ConfigError(
            f"{path}: {suffix} files are not supported; use a table (.tsv, .tab, .csv), JSON lines (.jsonl, .ndjson) "
            "or one text per line (.txt, a language such as .en, or no suffix)"
        )
    if column is not None and not table:
        raise ConfigError(
            f"{path}: --column is for tables; {'use --field for JSON lines' if objects else 'leave it out'}"
        )
    if field is not None and not objects:
        raise ConfigError(
            f"{path}: --field is for JSON lines; {'use --column for a table' if table else 'leave it out'}"
        )
    if objects:
        return Records(kind=kind, records=list(_objects(path, field or "text")))
    lines = list(text_lines(path, keep_mark=True))
    mark = "\ufeff" if lines and lines[0].startswith("\ufeff") else ""  # without it Excel takes no .csv for UTF-8
    if mark:
        lines[0] = lines[0].removeprefix(mark)
    if not table:
        parts = enumerate(map(_end, lines), 1)
        records = [Record(text=row, row=row, end=end, place=place) for place, (row, end) in parts]
        return Records(kind=kind, head=mark, records=records)
    if kind == "csv":
        delimiter, parsed = csv_rows(lines, str(path))
        rows = list(_whole_rows(path, lines, parsed))
        mark += "".join(lines[: rows[0][0] - 1]) if rows else ""  # such as Excel's sep=;
    else:
        delimiter = "\t"
        rows = [(place, line, _end(line)[0].split("\t")) for place, line in enumerate(lines, 1)]
    if (column := column or "1").isdecimal() and int(column) >= 1:
        index = int(column) - 1
    else:
        names = rows[0][2] if rows else []
        if column not in names:
            raise DataError(f"{path}, line 1: no column {column!r}; available: {', '.join(names) or 'none'}")
        index = names.index(column)
        row, end = _end(rows.pop(0)[1])
        mark += f"{row}{delimiter}translation{end}"
    records = []
    for place, line, cells in rows:
        row, end = _end(line)
        if len(cells) <= index:
            raise DataError(f"{path}, line {place}: no column {index + 1}, only {len(cells)}: {row[:60]!r}")
        records.append(Record(text=cells[index], row=row, end=end, place=place))
    return Records(kind=kind, delimiter=delimiter, head=mark, records=records)


def _end(line: str) -> tuple[str, str]:
    """A line without its end, and the end; a last line that has none gets one."""
    row = line.removesuffix("\n").removesuffix("\r")
    return row, line[len(row) :] if line.endswith("\n") else "\n"


def _whole_rows(
    path: Path, lines: Sequence[str], rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, str, list[str]]]:
    """Where each row of a CSV file begins, the row as it stands there, and its cells; blank lines are passed over."""
    found = list(rows)
    width = next((len(cells) for _, cells in found if cells), 0)
    ends = [*(start for start, _ in found[1:]), len(lines) + 1]
    for (start, cells), end in zip(found, ends, strict=False):
        if cells and len(cells) != width:
            raise DataError(
                f"{path}, line {start}: {count(len(cells), 'cell')}, but the first row has {width}; quote texts that "
                "contain the separator"
            )
        if cells:
            yield start, "".join(lines[start - 1 : end - 1]), cells


def _objects(path: Path, field: str) -> Iterator[Record]:
    for place, record in json_lines(path):
        where = f"{path}, line {place}"
        if not isinstance(record, dict):
            raise DataError(f"{where}: each line must be a JSON object, not {type(record).__name__}")
        if not isinstance(record.get(field), str):
            raise DataError(f"{where}: no text in field {field!r}; available: {', '.join(record) or 'none'} (--field)")
        if taken := [name for name in ADDED if name in record]:
            raise DataError(f"{where}: there is already a field {taken[0]!r}; rename it")
        check_surrogates(record, where)  # all of it is written again
        yield Record(text=record[field], row=record, place=place)


def line_of(found: Records, record: Record, result: Translation) -> str:
    """What a record of a file becomes, with its end."""
    if found.kind == "txt":
        return result.text + record.end
    if found.kind != "jsonl":
        cell = result.text
        if found.kind == "csv" and any(sign in cell for sign in (found.delimiter, '"', "\n", "\r")):
            cell = '"' + cell.replace('"', '""') + '"'
        return f"{record.row}{found.delimiter}{cell}{record.end}"
    added = (result.text, result.source, result.score, list(result.warnings))
    return json.dumps({**record.row, **dict(zip(ADDED, added, strict=True))}, ensure_ascii=False) + "\n"


def translate_file(
    source: Path,
    output: Path,
    translate: Translate,
    settings: Mapping[str, Any],
    *,
    column: str | None = None,
    field: str | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    doubt: Callable[[Record, Translation], object] = lambda record, result: None,
) -> tuple[int, int]:
    """Translate each record of a file, or go on with it.

    Tables get one more column, JSON objects the fields `translation`, `translation_source`, `translation_score` and
    `translation_warnings`; a text file becomes the same lines translated.

    Args:
        source: see `read_records`.
        output: written when all is done; there must be none yet, because it does not tell whose result it is.
        translate: texts to translations.
        settings: what decides the result, plain JSON; a run goes on only with the same.
        column, field: see `read_records`.
        progress: called with how many records are done, and how many there are.
        doubt: called with each new translation that has warnings.

    Returns:
        records translated now, and records in all.

    Raises:
        DataError: the input cannot be read, or the unfinished result is not from it.
        ConfigError: the result would overwrite something, or a column or field is asked for that cannot be.
    """
    if output.is_dir():
        raise ConfigError(f"{output} is a directory; give the name of a file to write to")
    if output.exists() and output.samefile(source):
        raise ConfigError(f"{output} is the input; write to another file")
    if output.suffix in SUFFIXES:
        raise ConfigError(f"{output}: the output is not compressed; leave out {output.suffix}")
    part = output.with_name(output.name + ".part")
    found = read_records(source, column=column, field=field)
    total = len(found.records)
    with File.of(source).open() as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    about = {"input": digest, "column": column, "field": field, **settings}
    resumed = done = _finished(part, about)
    if output.exists() and done < total:
        raise ConfigError(f"{output} already exists; remove it to translate again, or write to another file")
    progress(done, total)
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab" if done else "wb") as file:
        if not done:
            file.write(json.dumps(about, sort_keys=True).encode() + b"\n")
        for chunk in _chunks(found.records[done:]):
            results = translate([record.text for record in chunk])
            lines = [line_of(found, record, result) for record, result in zip(chunk, results, strict=True)]
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
            file.flush()
            for record, result in zip(chunk, results, strict=True):
                if result.warnings:
                    doubt(record, result)
            done += len(chunk)
            progress(done, total)
    whole = (found.head + "".join(map(json.loads, part.read_bytes().splitlines()[1:]))).encode()
    if output.exists() and output.read_bytes() != whole:  # equal where a run was stopped between the next two lines
        raise ConfigError(f"{output} already exists; remove it and give the same command again")
    write_atomic(output, whole)
    part.unlink()
    return total - resumed, total


def _finished(part: Path, about: Mapping[str, Any]) -> int:
    """How many records a file of finished ones has; an unfinished line at its end is cut off.

    Raises:
        DataError: it is of another run.
    """
    content = part.read_bytes() if part.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if not whole:
        return 0
    try:
        before = json.loads(whole[: whole.index(b"\n")])
    except ValueError:
        before = None
    if not isinstance(before, dict):
        raise DataError(f"{part} is not an unfinished translation; remove it")
    done = whole.count(b"\n") - 1
    other = [name for name in {**about, **before} if about.get(name) != before.get(name)]
    if done and other:
        raise DataError(
            f"{part} was started with a different {' and '.join(sorted(other))}; resume with the same, or remove it"
        )
    with part.open("rb+") as file:
        file.truncate(len(whole))
    return done


def _chunks(records: Sequence[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    size = 0
    for record in records:
        if chunk and (len(chunk) == RECORDS or size + len(record.text) > CHARACTERS):
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += len(record.text)
    if chunk:
        yield chunk
