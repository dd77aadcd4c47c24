"""Read files as text, as lines, or as records of CSV, TSV, JSON lines, JSON and parquet with their line numbers.

Files are read line by line, so a file may be larger than memory. All but parquet is UTF-8.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from suite.data.packed import SUFFIXES, Damaged, first_line
from suite.data.separated import csv_rows, tab_fields
from suite.data.sources import File
from suite.errors import DataError
from suite.wording import count

LONGEST = 64 << 20  # bytes; a file with a longer line is not taken for text in lines

_BATCH = 256  # rows of parquet read at a time


class Lines(Protocol):
    """A stream of bytes to read lines from."""

    def readline(self, size: int, /) -> bytes: ...


class Record(NamedTuple):
    """A record with its position in the file.

    Args:
        where: position for messages: "FILE, line N", "FILE, line N, record M" (JSON list), "FILE, record N" (parquet).
        place: line number, for parquet the record number, from 1.
        value: list of cells of CSV or TSV (empty for a blank line), a JSON value, or a dict of parquet columns.
    """

    where: str
    place: int
    value: Any


def read_records(file: File, *, key: str = "", note: Callable[[str], object] = lambda text: None) -> Iterator[Record]:
    """Yield the records of a file, whose suffix says how to read it.

    Args:
        file: .csv, .tsv, .tab, .jsonl, .ndjson, .json (a list of records, JSON lines, or several lists by name) or
            .parquet.
        key: name of the list to read, for a .json file with several lists.
        note: called with messages about the file for the user.

    Raises:
        DataError: the file cannot be read, which may show only while reading; the message says where.
    """
    match file.suffix:
        case ".csv":
            return _read_csv(file, note)
        case ".tsv" | ".tab":
            return _read_tsv(file, note)
        case ".json":
            return _read_json(file, key)
        case ".jsonl" | ".ndjson":
            values = parse_json_lines(text_lines(file), file.name)
            return (Record(f"{file.name}, line {number}", number, value) for number, value in values)
        case ".parquet":
            return open_parquet(file).rows()
    raise DataError(f"{file.name}: not a file of records; those end in .csv .tsv .tab .jsonl .ndjson .json .parquet")


# ---- text


def read_text(file: File | Path) -> str:
    """Return the text of a file, with line ends unchanged and without a byte order mark."""
    file = File.of(file) if isinstance(file, Path) else file
    return decode(file.read(), file.name).removeprefix("\ufeff")


def text_lines(file: File | Path) -> Iterator[str]:
    """Yield the lines of a file with their line ends; see `decode_lines`."""
    file = File.of(file) if isinstance(file, Path) else file
    with file.open() as stream:
        yield from decode_lines(stream, file.name)


def decode(content: bytes, name: str) -> str:
    """Decode UTF-8; an error names the line and the byte."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise DataError(_not_utf8(name, number, content[error.start], error.start)) from None


def decode_lines(stream: Lines, name: str, *, keep_mark: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 stream. Lines end only at line feeds, which are kept.

    Args:
        stream: decompressed bytes.
        name: name of the file, for errors.
        keep_mark: whether to keep a byte order mark at the start of the first line.

    Raises:
        DataError: a line is not UTF-8 or longer than `LONGEST`, or the stream is damaged; the message names the line.
    """
    number, offset = 1, 0
    try:
        while line := stream.readline(LONGEST + 1):
            if len(line) > LONGEST:
                raise DataError(f"{name}, line {number}: longer than {LONGEST >> 20} MiB, too long for one record")
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                raise DataError(_not_utf8(name, number, byte, offset + error.start)) from None
            yield text.removeprefix("\ufeff") if number == 1 and not keep_mark else text
            offset += len(line)
            number += 1
    except Damaged as error:
        raise DataError(f"{name}, line {number}: cannot be read ({error.reason})") from None


def _not_utf8(name: str, line: int, byte: int, offset: int) -> str:
    return f"{name}, line {line}: not UTF-8, byte {byte:#04x} at offset {offset}; convert it"


def check_surrogates(value: Any, where: str) -> None:
    """Raise DataError for half of a surrogate pair, which JSON can hold and UTF-8 cannot.

    Args:
        value: a string or any JSON value, which is searched recursively.
        where: position of the value, for the message.
    """
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            try:
                part.encode()
            except UnicodeEncodeError as error:
                raise DataError(f"{where}: half of a surrogate pair at character {error.start} of the text") from None
        elif isinstance(part, dict):
            parts += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            parts += part


# ---- JSON


def parse_json_lines(lines: Iterable[str], name: str) -> Iterator[tuple[int, Any]]:
    """Yield each line's number and JSON value; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, parse_json(line, name, number)


def parse_json(line: str, name: str, number: int, *, finite: bool = False) -> Any:
    """Return the JSON value on a line.

    Args:
        line: with or without its end.
        name, number: file name and line number, for errors.
        finite: whether to refuse NaN and infinite numbers, which Python reads and writes although JSON lacks them.

    Raises:
        DataError: the line is not JSON.
    """
    more: dict[str, Any] = {"parse_constant": _refuse, "parse_float": _parse_finite} if finite else {}
    try:
        return json.loads(line.removesuffix("\n"), **more)
    except (ValueError, RecursionError) as error:
        raise _not_json(error, name, number) from None


def _refuse(number: str) -> float:
    raise json.JSONDecodeError(f"{number} is not a JSON value", number, 0)


def _parse_finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def _not_json(error: ValueError | RecursionError, name: str, number: int = 1) -> DataError:
    """Make a DataError from an error of `json.loads` in a text that begins at line `number`."""
    if isinstance(error, json.JSONDecodeError):
        number += error.lineno - 1
        fault = f"{error.msg} at column {error.colno}"
    else:
        fault = "nested too deeply" if isinstance(error, RecursionError) else "a number with too many digits"
    return DataError(f"{name}, line {number}: not JSON ({fault})")


def _read_json(file: File, key: str) -> Iterator[Record]:
    """Yield the records of a JSON list, of the list under `key`, or of JSON lines."""
    with file.open() as stream:
        # two lines tell JSON lines, which may be larger than memory, from a list, which may be on a single line
        start: list[bytes] = []
        while len([line for line in start if line.strip()]) < 2 and (line := stream.readline(LONGEST)):
            start.append(line)
        filled = [line for line in start if line.strip()]
        if len(filled) == 2 and not key and _is_json(filled[0]):
            lines = decode_lines(_Chained(start, stream), file.name)
            for number, value in parse_json_lines(lines, file.name):
                yield Record(f"{file.name}, line {number}", number, value)
            return
        text = decode(b"".join(start) + stream.read(), file.name).removeprefix("\ufeff")
    name = f"{file.name}:{key}" if key else file.name
    try:
        for number, (place, value) in enumerate(_records_of(text, key, file.name), 1):
            yield Record(f"{name}, line {place}, record {number}", place, value)
    except (ValueError, RecursionError) as error:
        raise _not_json(error, file.name) from None


class _Chained:
    """A stream preceded by lines that were already read from it."""

    def __init__(self, lines: list[bytes], stream: IO[bytes]) -> None:
        self._lines, self._stream = iter(lines), stream

    def readline(self, size: int, /) -> bytes:
        return next(self._lines, b"") or self._stream.readline(size)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


def _records_of(text: str, key: str, name: str) -> Iterator[tuple[int, Any]]:
    """Yield line number and value of each record of a JSON list, of the list under `key`, or of a single object."""
    at = _skip(text, 0)
    if at == len(text):
        return
    if text[at] == "[" and not key:
        end = yield from _elements(text, at)
    else:
        value, end = _DECODER.raw_decode(text, at)
    if _skip(text, end) < len(text):
        raise json.JSONDecodeError("Extra data", text, _skip(text, end))
    if text[at] == "[" and not key:
        return
    keys = [one for one, rows in value.items() if _is_rows(rows)] if isinstance(value, dict) else []
    if key and key not in keys:
        raise DataError(f"{name}: no list of records {key!r}; available: {', '.join(keys) or 'none'}")
    if key:
        yield from _elements(text, dict(_members(text, at))[key])
    elif keys and not {"lead", "sections"} <= {*value}:  # an article's sections are not records
        raise DataError(f"{name}: contains the lists {', '.join(keys)}; choose one, such as {name}:{keys[0]}")
    else:
        yield text.count("\n", 0, at) + 1, value


def _elements(text: str, at: int) -> Generator[tuple[int, Any], None, int]:
    """Yield line number and value of each element of the list at offset `at`; return the offset of its end."""
    line, counted = 1, 0
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        value, end = _DECODER.raw_decode(text, at)
        line += text.count("\n", counted, at)
        counted = at
        yield line, value
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
            if text[at : at + 1] == "]":
                raise json.JSONDecodeError("Expecting value", text, at)
        elif text[at : at + 1] != "]":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    return at + 1


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield the keys of a JSON object, already known to be valid, and the offsets of their values."""
    at = _skip(text, at + 1)
    while text[at] == '"':
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)  # after the colon
        yield key, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list | dict)


# ---- CSV and TSV


def _read_csv(file: File, note: Callable[[str], object]) -> Iterator[Record]:
    lines = text_lines(file)
    first = next(lines, "")
    if first and not first.endswith("\n") and "\r" in first:  # line ends of old Macs
        lines = iter(first.replace("\r", "\n").splitlines(keepends=True))
        first = next(lines)
    delimiter, rows = csv_rows(chain([first], lines) if first else [], file.name)
    if delimiter != ",":
        note(f"fields are separated by {delimiter!r}")
    for number, row in rows:
        yield Record(f"{file.name}, line {number}", number, row)


def _read_tsv(file: File, note: Callable[[str], object]) -> Iterator[Record]:
    undone = 0
    for number, line in enumerate(text_lines(file), 1):
        row, quotes = tab_fields(line)
        undone += quotes
        yield Record(f"{file.name}, line {number}", number, row if row != [""] else [])
    if undone:
        note(f"removed CSV quotes around {count(undone, 'field')}")


# ---- parquet


class Parquet:
    """An open parquet file.

    Attributes:
        features: the columns and their types, as described by `datasets`.
    """

    def __init__(self, name: str, file: Any, features: Mapping[str, Any]) -> None:
        self.features = features
        self._name, self._file = name, file

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Record]:
        """Yield the rows, with these columns (None: all)."""
        number = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH, columns=columns and [*columns]):
                for number, row in enumerate(batch.to_pylist(), number + 1):  # noqa: B020 (goes on counting)
                    yield Record(f"{self._name}, record {number}", number, row)
        except _arrow_errors() as error:
            raise _not_parquet(self._name, error) from None


def open_parquet(file: File) -> Parquet:
    """Open a parquet file. It is read in parts, or, if compressed or in a zip file, as a whole.

    Raises:
        DataError: the file cannot be read; may also be raised while reading rows.
    """
    import datasets
    from pyarrow.parquet import ParquetFile

    raw, packed = file.open_raw()
    if packed is not None or not raw.seekable() or Path(file.name).suffix.lower() in SUFFIXES:
        raw.close()
        raw = io.BytesIO(file.read())
    try:
        found = ParquetFile(raw)
        return Parquet(file.name, found, datasets.Features.from_arrow_schema(found.schema_arrow))
    except _arrow_errors() as error:
        raise _not_parquet(file.name, error) from None


def _arrow_errors() -> tuple[type[Exception], ...]:
    from pyarrow import ArrowException

    return ArrowException, OSError, ValueError, NotImplementedError


def _not_parquet(name: str, error: Exception) -> DataError:
    return DataError(f"{name}: cannot be read as Parquet ({first_line(error)})")
