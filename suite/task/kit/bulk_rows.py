"""The rows of a file for bulk work; each keeps its raw text, so that it is written back exactly as it was read.

Kinds: "txt" (one text a line), "csv", "tsv" and "jsonl", decided by the file's suffix.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from suite.data.label_columns import KNOWN
from suite.data.packed import unpacked_suffix
from suite.data.record_files import check_surrogates, decode_lines, parse_json
from suite.data.separated import SAMPLE, find_delimiter, split_rows, tab_fields
from suite.data.sources import File, find
from suite.data.tables import has_header
from suite.errors import ConfigError, DataError
from suite.wording import count

Kind = Literal["txt", "csv", "tsv", "jsonl"]
KINDS: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
    "": "txt",
}
_LANGUAGE = re.compile(r"\.[a-z]{2}")  # parallel texts are told apart by their language: news.en, news.de
_TEXT = "text"  # the usual name of the column


class BulkRow(NamedTuple):
    """A row of the input.

    Attributes:
        where: "FILE, line N".
        text: the text to process.
        raw: the row as it is in the file, without its line end.
        end: its line end.
        cells: cells of a table row, or the object of a JSON line.
        second: second text of a pair, if a column of second texts is read.
    """

    where: str
    text: str
    raw: str
    end: str
    cells: list[str] | dict[str, Any]
    second: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A file's rows, and what comes before them.

    Attributes:
        kind: kind of the file.
        head: byte order mark, `sep=` line and header row, as they are in the file.
        end: line end of the header row.
        names: column names of a table; None if it has no header.
        delimiter: delimiter of a table.
        rows: the rows in order, read lazily.
    """

    kind: Kind
    head: str = ""
    end: str = "\n"
    names: list[str] | None = None
    delimiter: str = "\t"
    rows: Iterator[BulkRow] = field(default_factory=lambda: iter(()))


def kind_of(path: Path) -> Kind:
    """Return the kind of a file by its suffix.

    Raises:
        ConfigError: bulk work does not read or write such files.
    """
    suffix = unpacked_suffix(path)
    if suffix in KINDS:
        return KINDS[suffix]
    if _LANGUAGE.fullmatch(suffix):
        return "txt"
    raise ConfigError(f"{path}: bulk work reads and writes {', '.join(name for name in KINDS if name)}; convert it")


def read_rows(lines: Iterable[str], name: str, kind: Kind, column: str | None, second: str | None = None) -> Rows:
    """Parse decoded lines into rows.

    Args:
        lines: lines with their line ends.
        name: name of the file, for errors.
        kind: kind of the file.
        column: column with the text: a name, or a number from 1 (None: "text" if there is one, else the first).
        second: column with the second text of pairs, likewise (None: no pairs).

    Raises:
        DataError: now or while reading: the file is not of its kind, or lacks the column.
    """
    lines = iter(lines)
    first = next(lines, "")
    mark = "\ufeff" if first.startswith("\ufeff") else ""  # without it Excel does not take a .csv for UTF-8
    lines = chain([first.removeprefix(mark)] if first else [], lines)
    if kind == "txt":
        if column is not None or second is not None:
            raise ConfigError(f"{name}: lines of text have no columns; leave out --column")
        return Rows(kind=kind, head=mark, rows=_texts(lines, name))
    if kind == "jsonl":
        return Rows(kind=kind, rows=_objects(lines, name, column or _TEXT, second))
    return _table(lines, name, kind, (column, second), mark)


@dataclass(frozen=True, kw_only=True)
class Input:
    """The input file and its columns.

    Attributes:
        file: the file.
        kind: kind of the file.
        column, second: see `read_rows`.
    """

    file: File
    kind: Kind
    column: str | None
    second: str | None

    @contextmanager
    def rows(self) -> Iterator[Rows]:
        """Open the file and give its rows."""
        name = self.file.name
        with self.file.open() as stream:
            yield read_rows(decode_lines(stream, name, keep_mark=True), name, self.kind, self.column, self.second)


def one_file(source: Path) -> File:
    """Return the file of this name, which may be a member of a zip file.

    Raises:
        DataError: it does not exist, or is a folder, a pipe or a device.
    """
    files = find(source)
    if files is None:
        raise DataError(f"{source}: no such file")
    if len(files) != 1 or files[0].inside:
        raise DataError(f"{source}: a folder or several files, but bulk work reads a single file")
    return files[0]


def parted(line: str) -> tuple[str, str]:
    """Split a line into its content and its line end; a last line without one gets "\\n"."""
    raw = line.removesuffix("\n").removesuffix("\r")
    return raw, line[len(raw) :] or "\n"


def _texts(lines: Iterable[str], name: str) -> Iterator[BulkRow]:
    for number, line in enumerate(lines, 1):
        raw, end = parted(line)
        yield BulkRow(f"{name}, line {number}", raw, raw, end, [raw])


def _objects(lines: Iterable[str], name: str, column: str, second: str | None) -> Iterator[BulkRow]:
    for number, line in enumerate(lines, 1):
        if not line.strip():  # not a record
            continue
        where = f"{name}, line {number}"
        record = parse_json(line, name, number, finite=True)  # it is written again
        if not isinstance(record, dict):
            raise DataError(f"{where}: a JSON object is needed on each line, not {type(record).__name__}")
        text, other = _value(record, column, where), None if second is None else _value(record, second, where)
        check_surrogates(record, where)  # anywhere: the whole object is written again
        raw, end = parted(line)
        yield BulkRow(where, text, raw, end, record, other)


def _value(record: dict[str, Any], column: str, where: str) -> str:
    if column not in record:
        raise DataError(f"{where}: no field {column!r}; available: {', '.join(record)[:300] or 'none'}")
    value = record[column]
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: field {column!r} holds {type(value).__name__}, not text")
    return value or ""


def _table(lines: Iterator[str], name: str, kind: Kind, columns: tuple[str | None, str | None], mark: str) -> Rows:
    column, second = columns
    delimiter, head, found = "\t", mark, _tab_rows(lines, name)
    if kind == "csv":
        sample = list(islice(lines, SAMPLE))
        delimiter, skipped = find_delimiter(sample)
        if skipped:  # Excel's way to name what parts cells
            head += sample.pop(0)
        found = _csv_rows(chain(sample, lines), name, delimiter, 1 + skipped)
    start = list(islice(found, SAMPLE))  # tells whether the first row holds names
    if not start:
        raise DataError(f"{name}: no rows")
    by_name = any(wanted is not None and not wanted.isdecimal() for wanted in columns)
    end, names = "\n", None
    if by_name or has_header([cells for _, _, cells in start], KNOWN):
        _, line, cells = start.pop(0)
        raw, end = parted(line)
        head, names = head + raw, [cell.strip() for cell in cells]
    width = len(names) if names is not None else len(start[0][2])
    places = [_place(names, width, column, name)]
    if second is not None:
        places.append(_place(names, width, second, name))
    rows = _checked(chain(start, found), name, width, places)
    return Rows(kind=kind, head=head, end=end, names=names, delimiter=delimiter, rows=rows)


def _place(names: Sequence[str] | None, width: int, column: str | None, name: str) -> int:
    """Return the index of the column with the text."""
    if column is None:
        if names is None or len(names) == 1:
            return 0
        if _TEXT not in names:  # the first may be a number or a label
            raise DataError(f"{name}: which column has the text? Name one with --column: {', '.join(names)[:300]}")
        column = _TEXT
    if names is not None and column in names:
        if names.count(column) > 1:
            raise DataError(f"{name}: two columns of the name {column!r}")
        return list(names).index(column)
    if column.isdecimal() and 1 <= int(column) <= width:
        return int(column) - 1
    there = f"available: {', '.join(names)[:300]}" if names is not None else f"the table has {width}, without names"
    raise DataError(f"{name}, line 1: no column {column!r}; {there}")


def _checked(
    rows: Iterable[tuple[int, str, list[str]]], name: str, width: int, places: Sequence[int]
) -> Iterator[BulkRow]:
    for number, line, cells in rows:
        raw, end = parted(line)
        if cells in ([], [""]):  # a blank line is a row without text
            cells = [""] * width
        if len(cells) != width:
            raise DataError(
                f"{name}, line {number}: {count(len(cells), 'cell')}, where the first row has {width}; quote "
                "cells that contain the delimiter"
            )
        text, *second = (cells[place] for place in places)
        yield BulkRow(f"{name}, line {number}", text, raw, end, cells, *second)


def _tab_rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, str, list[str]]]:
    for number, line in enumerate(lines, 1):
        yield number, line, tab_fields(line)[0]


def _csv_rows(lines: Iterable[str], name: str, delimiter: str, start: int) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the line number where each row starts, the row as it is in the file, and its cells."""
    taken: list[str] = []

    def watched() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    for number, cells in split_rows(watched(), name, delimiter, start):
        yield number, "".join(taken), cells
        taken.clear()


# ---- writing


def header(rows: Rows, added: Sequence[str], written: Kind) -> str:
    """Return what is written before the first row of the output."""
    names = [_TEXT] if rows.kind == "txt" else rows.names
    if written in ("txt", "jsonl") or names is None:
        return rows.head if written == rows.kind else ""
    if written == rows.kind:
        return rows.head + rows.delimiter + _join(added, written, rows.delimiter) + rows.end
    return _join([*names, *added], written, "," if written == "csv" else "\t") + "\n"


def written_row(rows: Rows, row: BulkRow, added: Sequence[str], values: Sequence[Any], written: Kind) -> str:
    """Return the output line of a row with its new values, line end included.

    Args:
        rows: the file that the row is from.
        row: the row.
        added: names of the new columns.
        values: JSON values of the new columns.
        written: kind of the output, except "txt", which the caller writes.

    Raises:
        DataError: a cell does not fit a .tsv file.
    """
    if written == "jsonl":
        names = rows.names or ([_TEXT] if rows.kind == "txt" else [str(place + 1) for place in range(len(row.cells))])
        record = row.cells if isinstance(row.cells, dict) else dict(zip(names, row.cells, strict=True))
        results = dict(zip(added, map(_json_value, values), strict=True))
        return json.dumps({**record, **results}, ensure_ascii=False, allow_nan=False) + "\n"
    cells = [_cell(value) for value in values]
    delimiter = rows.delimiter if rows.kind == written else "," if written == "csv" else "\t"
    if written == rows.kind and row.raw:
        return f"{row.raw}{delimiter}{_join(cells, written, delimiter)}{row.end}"
    # a blank row of the same kind, too, so that it has as many cells as the others
    return _join([*map(str, row.cells), *cells], written, delimiter) + (row.end if written == rows.kind else "\n")


def check_fits(row: BulkRow, written: Kind) -> None:
    """Refuse a row whose cells a file of the output's kind cannot hold, before anything is answered.

    Raises:
        DataError: a .tsv file is asked for, and a cell has a tab or a line end.
    """
    cells = row.cells if isinstance(row.cells, list) else []
    if written == "tsv" and any(sign in cell for cell in cells for sign in "\t\r\n"):
        raise DataError(f"{row.where}: a cell with a tab or a line end does not fit a .tsv file; write a .csv")


def _json_value(value: Any) -> Any:
    """The value with None for what JSON cannot say: NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _json_value(one) for name, one in value.items()}
    return [_json_value(one) for one in value] if isinstance(value, list | tuple) else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _join(cells: Iterable[str], written: Kind, delimiter: str) -> str:
    """Cells as a row of a table."""
    if written == "csv":
        risky = (delimiter, '"', "\r", "\n")
        return delimiter.join(
            '"' + cell.replace('"', '""') + '"' if any(sign in cell for sign in risky) else cell for cell in cells
        )
    found = list(cells)
    for cell in found:
        if any(sign in cell for sign in "\t\r\n"):
            raise DataError(
                f"{cell[:60]!r} does not fit a .tsv file, whose cells hold no tab or line end; write a .csv"
            )
    return delimiter.join(found)
