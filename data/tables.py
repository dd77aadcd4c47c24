"""Tables with named columns from CSV, TSV, JSON lines, JSON, parquet, hub data sets, and folders of texts by class.

Each row carries its file and line for errors; notes collect what was guessed or left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from suite.data.hub import load_hub, parse_hub_name
from suite.data.record_files import Record, open_parquet, read_records, read_text
from suite.data.sources import TABLES, File, Source, find, find_all
from suite.errors import DataError
from suite.wording import count

_TEXTS = (".txt", ".md", "")  # in folders of classes
_HEAD = 512  # rows used to decide whether the first is a header, and which columns there are


class RecordTable(NamedTuple):
    """Rows of a file, folder or data set.

    Args:
        name: name of the source.
        columns: column names in order; "1", "2" and so on if the source has no names.
        rows: (position, cells by column), where the position is such as "file.csv, line 12".
        has_names: whether the source names its columns.
        class_names: names of the classes, for columns of class numbers.
    """

    name: str
    columns: list[str]
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    has_names: bool = True
    class_names: Mapping[str, Sequence[str]] = {}


class Notes:
    """Messages about the sources for the user; the same message about several sources is merged into a line."""

    def __init__(self) -> None:
        self._sources: dict[str, list[str]] = {}

    def add(self, source: str, note: str) -> None:
        """Add a message about a source."""
        self._sources.setdefault(note, []).append(source)

    def lines(self) -> list[str]:
        """Return a line for each distinct message."""
        return [
            f"{sources[0]}{f' and {len(sources) - 1} more' if len(sources) > 1 else ''}: {note}"
            for note, sources in self._sources.items()
        ]


def read_tables(
    sources: Source,
    notes: Notes,
    *,
    header: bool | None = None,
    known: Collection[str] = (),
    only: Collection[str] = (),
    split: str | None = None,
) -> Iterator[RecordTable]:
    """Yield the tables of the sources.

    Args:
        sources: a source or several, see `suite.data.sources`: files (.csv, .tsv, .jsonl, .json, .parquet), a
            folder or zip file with a folder of text files for each class (columns `text` and `label`), one list of a
            JSON file that holds several (`file.json:train`), or a hub data set.
        notes: receives messages.
        header: whether the first line of a CSV or TSV file names the columns; by default as `has_header` says.
        known: common column names, in lower case.
        only: columns needed; in parquet files and hub data sets that have them all, other columns are not read.
        split: split of a hub data set if its name gives none; "train" by default.

    Raises:
        DataError: a source does not exist, cannot be read, or has no rows.
    """
    for source, files in find_all(sources):
        listed, _, key = source.rpartition(":")
        if files and all(not file.inside for file in files):
            for file in files:
                yield read_table(file, notes, header=header, known=known, only=only)
        elif files is not None:
            yield from _read_folder(source, files, notes, header, known)
        elif key and (within := find(listed) if listed else None):
            if within[0].suffix != ".json":
                raise DataError(f"{source}: only a .json file can hold several lists to choose from")
            yield _of_records(source, read_records(within[0], key=key))
        elif parse_hub_name(source):
            yield _of_data_set(source, load_hub(source, split), only)
        else:
            raise DataError(f"{source}: no such file or folder, and no pattern of {' '.join(TABLES)} files")


# ---- files and folders


def read_table(
    file: File, notes: Notes, *, header: bool | None = None, known: Collection[str] = (), only: Collection[str] = ()
) -> RecordTable:
    """Read the table of a single file; see `read_tables`."""
    if file.suffix == ".parquet":
        parquet = open_parquet(file)
        names, class_names = _readable(parquet.features, only)
        rows = ((record.where, record.value) for record in parquet.rows(names))
        return RecordTable(file.name, names, rows, class_names=class_names)
    if file.suffix not in TABLES:
        raise DataError(f"{file.name}: not a table ({' '.join(TABLES)}); texts must be in one folder for each class")
    records = read_records(file, note=lambda text: notes.add(file.name, text))
    if file.suffix in (".csv", ".tsv", ".tab"):
        return _of_cells(file.name, records, notes, header, known)
    return _of_records(file.name, records)


def _read_folder(
    folder: str, files: Sequence[File], notes: Notes, header: bool | None, known: Collection[str]
) -> Iterator[RecordTable]:
    inside = {file: PurePosixPath(file.inside).parts for file in files}
    if files and files[0].member:  # a single folder around everything in a zip file is not a class
        while len({parts[0] for parts in inside.values()}) == 1 and all(len(parts) > 1 for parts in inside.values()):
            inside = {file: parts[1:] for file, parts in inside.items()}
    tables = [file for file, parts in inside.items() if len(parts) == 1 and file.suffix in TABLES]
    deeper = {file: parts for file, parts in inside.items() if len(parts) > 1}
    if tables and deeper:
        raise DataError(f"{folder}: contains both tables and folders; name the tables, such as {tables[0].name}")
    if not tables and not deeper:
        raise DataError(f"{folder}: no {' '.join(TABLES)} files in it, and no folder for each class")
    # files of 20 Newsgroups have no suffix, or a number
    texts = [file for file in deeper if file.suffix in _TEXTS or file.suffix[1:].isdecimal()]
    if left := [file for file in files if file not in texts and file not in tables]:
        notes.add(folder, f"left out {count(len(left), 'file')} of other kinds, such as {left[0].name}")
    if deeper:
        rows = ((file.name, {"text": read_text(file), "label": deeper[file][0]}) for file in texts)
        yield RecordTable(folder, ["text", "label"], rows)
    for table in tables:
        yield read_table(table, notes, header=header, known=known)


# ---- CSV and TSV


def has_header(rows: Sequence[Sequence[str]], known: Collection[str]) -> bool:
    """Whether the first row names columns: a cell is a known column name, and appears in that column of no other row.

    Repetitions of the whole first row are allowed, as in concatenated files.

    Example:
        >>> has_header([["text", "label"], ["a fine film", "good"]], {"text"})
        True
    """
    first = rows[0]
    others = [row for row in rows if row != first]
    known_places = [place for place, cell in enumerate(first) if cell.strip().lower() in known]
    return any(all(row[place : place + 1] != [first[place]] for row in others) for place in known_places)


def _of_cells(
    name: str, records: Iterator[Record], notes: Notes, header: bool | None, known: Collection[str]
) -> RecordTable:
    rows = _filled(name, records, notes)
    start = list(islice(rows, _HEAD))
    if not start:
        raise DataError(f"{name}: no rows")
    first = start[0].value
    if header is None:
        header = has_header([record.value for record in start], known)
        if not header:
            hint = "to change that: --set data.header=true, or --header for `suite eval`"
            notes.add(name, f"the first line is read as data, not as column names ({hint})")
    columns = [cell.strip() for cell in first] if header else [str(place) for place, _ in enumerate(first, 1)]
    if twice := [column for column, times in Counter(columns).items() if times > 1]:
        raise DataError(f"{name}: two columns are called {twice[0]!r}")
    body = _named(name, chain(start, rows), columns, first if header else None, notes)
    return RecordTable(name, columns, body if header else list(body), has_names=header)


def _filled(name: str, records: Iterator[Record], notes: Notes) -> Iterator[Record]:
    """Yield the rows that are not blank; all must be as long as the first."""
    width = blank = 0
    for record in records:
        width = width or len(record.value)
        if not record.value:
            blank += 1
        elif len(record.value) != width:
            there = f"{count(len(record.value), 'field')} where the first line has {width}"
            raise DataError(f"{record.where}: {there}; quote or remove separators inside a text")
        else:
            yield record
    if blank:
        notes.add(name, f"skipped {count(blank, 'blank line')}")


def _named(
    name: str, rows: Iterator[Record], columns: Sequence[str], header: list[str] | None, notes: Notes
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    again = -1  # the header itself does not count as a repetition
    for record in rows:
        if record.value == header:
            again += 1
        else:
            yield record.where, dict(zip(columns, record.value, strict=True))
    if again > 0:
        notes.add(name, f"left out {count(again, 'repeated header line')}")


# ---- JSON and data sets


def _of_records(name: str, records: Iterator[Record]) -> RecordTable:
    rows = ((record.where, _to_mapping(record)) for record in records)
    has_names = True
    start: list[tuple[str, Mapping[str, Any]]] = []
    for record in islice(records, _HEAD):
        has_names = has_names and not isinstance(record.value, list)
        start.append((record.where, _to_mapping(record)))
    if not start:
        raise DataError(f"{name}: no rows")
    body = chain(start, rows) if has_names else [*start, *rows]
    columns = list(dict.fromkeys(column for _, row in (start if has_names else body) for column in row))
    return RecordTable(name, columns, body, has_names=has_names)


def _to_mapping(record: Record) -> Mapping[str, Any]:
    if isinstance(record.value, list):
        return {str(place): cell for place, cell in enumerate(record.value, 1)}
    if not isinstance(record.value, dict):
        raise DataError(f"{record.where}: expected a JSON object or list, not {type(record.value).__name__}")
    return record.value


def _of_data_set(name: str, data_set: Any, only: Collection[str]) -> RecordTable:
    names, class_names = _readable(data_set.features, only)
    records = enumerate(data_set.select_columns(names), 1)
    return RecordTable(name, names, ((f"{name}, record {n}", row) for n, row in records), class_names=class_names)


def _readable(features: Mapping[str, Any], only: Collection[str]) -> tuple[list[str], dict[str, Sequence[str]]]:
    """Return the columns to read (text, numbers, lists; no images), and the class names of each."""
    import datasets

    kinds = (datasets.Value, datasets.ClassLabel, datasets.List)
    needed = only if only and {*only} <= {*features} else features
    found = {column: kind for column, kind in features.items() if isinstance(kind, kinds) and column in needed}
    return list(found), {column: getattr(getattr(kind, "feature", kind), "names", ()) for column, kind in found.items()}
