"""Files of many texts, translated record by record into another file; a run that stopped goes on where it was.

Until it is whole, the result lies beside its place in a file OUTPUT.part, whose first line says what it belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.data.documents import check_surrogates, json_lines, read_bytes, read_text
from suite.data.files import write_atomic
from suite.errors import ConfigError, DataError

if TYPE_CHECKING:
    from suite.tasks.translate.pipeline import Translation

Kind = Literal["tsv", "jsonl", "txt"]
Translate = Callable[[Sequence[str]], Sequence["Translation"]]

ADDED = ("translation", "translation_source", "translation_score", "translation_warnings")
RECORDS, CHARACTERS = 64, 20_000  # at most, between two writes


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record of the input.

    Args:
        text: what is translated.
        row: the line of a table or text, without its end, or the object of a JSON line.
        end: of the line.
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
        kind: a table with tabs, JSON lines, or a text a line.
        head: the table's line of column names, with its end; "" where there is none.
        records: in order.
    """

    kind: Kind
    head: str
    records: list[Record]


def read_records(path: Path, *, column: str = "1", field: str = "text") -> Records:
    """Read a .tsv, .jsonl or .txt file, perhaps gzipped.

    Args:
        path: the file; anything but .tsv, .tab and .jsonl is a text a line.
        column: of a table: a number from 1, or a name, which the first line must then have.
        field: of JSON objects.

    Raises:
        DataError: the file cannot be read, or a line lacks the column or field; the line is named.
    """
    suffix = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return Records(kind="jsonl", head="", records=list(_objects(path, field)))
    lines = [(line.removesuffix("\r"), "\r\n" if line.endswith("\r") else "\n") for line in read_text(path).split("\n")]
    if lines[-1][0] == "":
        lines.pop()
    if suffix not in (".tsv", ".tab"):
        records = [Record(text=line, row=line, end=end, place=place) for place, (line, end) in enumerate(lines, 1)]
        return Records(kind="txt", head="", records=records)
    head, first = "", 0
    if column.isdecimal() and int(column) >= 1:
        index = int(column) - 1
    else:
        names = lines[0][0].split("\t") if lines else []
        if column not in names:
            raise DataError(f"{path}, line 1: no column {column!r}; there are {', '.join(names) or 'none'}")
        index, first = names.index(column), 1
        head = f"{lines[0][0]}\ttranslation{lines[0][1]}"
    records = []
    for place, (line, end) in enumerate(lines[first:], first + 1):
        cells = line.split("\t")
        if len(cells) <= index:
            raise DataError(
                f"{path}, line {place}: column {index + 1} is asked for, and there are {len(cells)}: {line[:60]!r}"
            )
        records.append(Record(text=cells[index], row=line, end=end, place=place))
    return Records(kind="tsv", head=head, records=records)


def _objects(path: Path, field: str) -> Iterator[Record]:
    for place, record in json_lines(path):
        where = f"{path}, line {place}"
        if not isinstance(record, dict):
            raise DataError(f"{where}: a JSON object is needed on each line, not {type(record).__name__}")
        if not isinstance(record.get(field), str):
            raise DataError(f"{where}: no text in a field {field!r}; there are {', '.join(record) or 'none'} (--field)")
        if taken := [name for name in ADDED if name in record]:
            raise DataError(f"{where}: there is a field {taken[0]!r} already; rename it")
        check_surrogates(record[field], where)
        yield Record(text=record[field], row=record, place=place)


def line_of(kind: Kind, record: Record, result: Translation) -> str:
    """The line that a record becomes, with its end."""
    if kind == "txt":
        return result.text + record.end
    if kind == "tsv":
        return f"{record.row}\t{result.text}{record.end}"
    added = (result.text, result.source, result.score, list(result.warnings))
    return json.dumps({**record.row, **dict(zip(ADDED, added, strict=True))}, ensure_ascii=False) + "\n"


def translate_file(
    source: Path,
    output: Path,
    translate: Translate,
    settings: Mapping[str, Any],
    *,
    column: str = "1",
    field: str = "text",
    progress: Callable[[int, int], object] = lambda done, total: None,
    doubt: Callable[[Record, Translation], object] = lambda record, result: None,
) -> tuple[int, int]:
    """Translate each record of a file, or go on with it.

    Tables get one more column, JSON objects the fields `translation`, `translation_source`, `translation_score` and
    `translation_warnings`; a text file becomes the same lines translated.

    Args:
        source: see `read_records`.
        output: written when all is done.
        translate: texts to translations.
        settings: what decides the result, plain JSON; a run goes on only with the same.
        column, field: see `read_records`.
        progress: called with how many records are done, and how many there are.
        doubt: called with each new translation that has warnings.

    Returns:
        records translated now, and records in all.

    Raises:
        DataError: the input cannot be read, or what lies at `output` is not from it.
        ConfigError: the result would overwrite the input.
    """
    if output.exists() and output.samefile(source):
        raise ConfigError(f"{output} is the input; name another file to write to")
    if output.suffix == ".gz":
        raise ConfigError(f"{output}: results are written as they are, not gzipped; leave out .gz")
    found = read_records(source, column=column, field=field)
    total = len(found.records)
    part = output.with_name(output.name + ".part")
    if output.exists():
        if read_bytes(output).count(b"\n") - bool(found.head) != total:
            raise DataError(f"{output} exists and is not the result of {source}: remove it, or name another file")
        part.unlink(missing_ok=True)
        return 0, total
    about = {"input": hashlib.sha256(read_bytes(source)).hexdigest(), "column": column, "field": field, **settings}
    resumed = done = _resume(part, about)
    progress(done, total)
    with part.open("ab") as file:
        for chunk in _chunks(found.records[done:]):
            results = translate([record.text for record in chunk])
            lines = [line_of(found.kind, record, result) for record, result in zip(chunk, results, strict=True)]
            file.write("".join(lines).encode())
            file.flush()
            for record, result in zip(chunk, results, strict=True):
                if result.warnings:
                    doubt(record, result)
            done += len(chunk)
            progress(done, total)
    content = part.read_bytes()
    write_atomic(output, found.head.encode() + content[content.index(b"\n") + 1 :])
    part.unlink()
    return total - resumed, total


def _resume(part: Path, about: Mapping[str, Any]) -> int:
    """Begin the file of finished records, or cut off an unfinished line at its end; returns how many it has.

    Raises:
        DataError: it is of another run.
    """
    line = json.dumps(about, ensure_ascii=False, sort_keys=True).encode() + b"\n"
    content = part.read_bytes() if part.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if not whole:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(line)
        return 0
    try:
        before = json.loads(whole[: whole.index(b"\n")])
    except ValueError as error:
        raise DataError(f"{part} is in the way, and is no unfinished translation: remove it") from error
    if other := [name for name in {**about, **before} if about.get(name) != before.get(name)]:
        raise DataError(
            f"{part} was begun with another {' and '.join(sorted(other))}; go on as it was begun, or remove it"
        )
    if len(whole) < len(content):
        with part.open("rb+") as file:
            file.truncate(len(whole))
    return whole.count(b"\n") - 1


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
