"""Rows of named columns, from CSV, TSV, JSON lines, JSON, parquet, hub data sets, and folders of texts by class.

Each row knows where it stands, for errors; what had to be guessed or was left out goes into notes.
"""

import contextlib
import csv
import glob
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from suite.data.documents import Source, json_fault, json_lines, load_hub, load_parquet, may_be_hub_name, read_text
from suite.data.packed import unpacked_suffix
from suite.errors import DataError
from suite.wording import count

_TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
_TEXTS = (".txt", ".md", "")  # in folders of classes
_FIELD_LIMIT = 1 << 30  # characters in a field; the csv module's own limit of 131,072 is shorter than some texts
_SAMPLE = 20  # lines that tell what parts the fields
_LONE = "\ud80d"  # which no text of a file has; stands for a carriage return within a field

Lines = list[tuple[int, list[str]]]  # fields of each row, and the line where it starts


class Table(NamedTuple):
    """Rows of a file, folder or data set.

    Args:
        name: of the source.
        columns: in their order; "1", "2" and so on where the source does not name them.
        rows: each with where it stands, such as "file.csv:12".
        has_names: whether the source names its columns.
        class_names: for columns of class numbers, the names that the source gives them.
    """

    name: str
    columns: list[str]
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    has_names: bool = True
    class_names: Mapping[str, Sequence[str]] = {}


class Notes:
    """What a person should know of the sources; the same note of many sources is one."""

    def __init__(self) -> None:
        self._sources: dict[str, list[str]] = {}

    def add(self, source: str, note: str) -> None:
        """Note something of a source."""
        self._sources.setdefault(note, []).append(source)

    def lines(self) -> list[str]:
        """Return a line for each different note."""
        return [
            f"{sources[0]}{f' and {len(sources) - 1} more' if len(sources) > 1 else ''}: {note}"
            for note, sources in self._sources.items()
        ]


def read_tables(
    sources: Source, notes: Notes, *, header: bool | None = None, known: Collection[str] = ()
) -> Iterator[Table]:
    """Read the tables of sources one after another.

    Args:
        sources: one or several, each a file (.csv, .tsv, .jsonl, .json, .parquet; all but parquet perhaps packed, .gz
            or .bz2), a pattern or a folder of such files, a folder with a folder of text files for each class (columns
            `text` and `label`), one list of a JSON file that holds several (`file.json:train`), or a hub data set
            (`owner/name`, `owner/name:configuration` or `owner/name:configuration:split`, where the configuration may
            be empty).
        notes: are added to.
        header: whether the first line of a CSV or TSV file names the columns; by default as `has_header` says.
        known: usual names of columns, in lower case.

    Raises:
        DataError: a source is not there or cannot be read, or has no rows.
    """
    for source in map(str, [sources] if isinstance(sources, str | Path) else sources):
        path, (file, _, key), hub = Path(source), source.rpartition(":"), source.partition(":")[0]
        if path.is_file():
            yield _read_file(path, notes, header, known)
        elif path.is_dir():
            yield from _read_folder(path, notes, header, known)
        elif matches := sorted(glob.glob(source, recursive=True)):  # noqa: PTH207 (a Path takes no absolute pattern)
            for match in filter(Path.is_file, map(Path, matches)):
                yield _read_file(match, notes, header, known)
        elif key and Path(file).is_file():
            if unpacked_suffix(file) != ".json":
                raise DataError(f"{source}: only a .json file can hold several lists to choose from")
            yield _of_records(source, _read_json(Path(file), key))
        elif may_be_hub_name(hub) and unpacked_suffix(hub) not in _TABLES:
            name, configuration, split = [*source.split(":", 2), "", ""][:3]
            yield _of_data_set(source, load_hub(f"{name}:{configuration}", split or None))
        else:
            raise DataError(f"{source}: no such file or folder, and no pattern of {' '.join(_TABLES)} files")


# ---- files and folders


def _read_file(file: Path, notes: Notes, header: bool | None, known: Collection[str]) -> Table:
    match unpacked_suffix(file):
        case ".csv":
            return _of_lines(file, _read_csv(file, notes), notes, header, known)
        case ".tsv" | ".tab":
            return _of_lines(file, _read_tsv(file, notes), notes, header, known)
        case ".jsonl" | ".ndjson":
            return _of_records(str(file), json_lines(file))
        case ".json":
            return _of_records(str(file), _read_json(file))
        case ".parquet":
            return _of_data_set(str(file), load_parquet(file))
    raise DataError(f"{file}: not a table ({' '.join(_TABLES)}); texts must be in one folder for each class")


def _read_folder(folder: Path, notes: Notes, header: bool | None, known: Collection[str]) -> Iterator[Table]:
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    tables = [path for path in inside if path.is_file() and unpacked_suffix(path) in _TABLES]
    classes = [path for path in inside if path.is_dir()]
    if tables and classes:
        raise DataError(f"{folder}: contains both tables and folders; name the tables, such as {tables[0]}")
    if not tables and not classes:
        raise DataError(f"{folder}: no {' '.join(_TABLES)} files in it, and no folder for each class")
    left = [path for path in inside if path.is_file() and path not in tables]
    texts: list[Path] = []
    for path in sorted(path for place in classes for path in place.rglob("[!.]*") if path.is_file()):
        # files of 20 Newsgroups have no suffix, or a number
        suffix = unpacked_suffix(path)
        (texts if suffix in _TEXTS or suffix[1:].isdecimal() else left).append(path)
    if left:
        notes.add(str(folder), f"left out {count(len(left), 'file')} of other kinds, such as {left[0]}")
    if classes:
        rows = ((str(path), {"text": read_text(path), "label": path.relative_to(folder).parts[0]}) for path in texts)
        yield Table(str(folder), ["text", "label"], rows)
    for table in tables:
        yield _read_file(table, notes, header, known)


# ---- CSV and TSV


def _read_csv(file: Path, notes: Notes) -> Lines:
    content = read_text(file)
    if "\n" not in content:
        content = content.replace("\r", "\n")  # as old Macs ended lines
    delimiter, rows = csv_rows(io.StringIO(content, newline="\n"), str(file))
    if delimiter != ",":
        notes.add(str(file), f"fields are separated by {delimiter!r}")
    return list(rows)


def _read_tsv(file: Path, notes: Notes) -> Lines:
    rows = []
    undone = 0
    for number, line in enumerate(read_text(file).removesuffix("\n").split("\n"), 1):
        row, quotes = tab_fields(line)
        undone += quotes
        rows.append((number, row if row != [""] else []))
    if undone:
        notes.add(str(file), f"removed CSV quotes around {count(undone, 'field')}")
    return rows


def csv_rows(lines: Iterable[str], name: str) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Read CSV.

    Args:
        lines: with their ends.
        name: of the file, for errors.

    Returns:
        what parts the fields: the sign that a first line such as Excel's `sep=;` names, or else one of , ; and tab;
        and each row, with the line where it starts.

    Raises:
        DataError: while reading; it is not CSV.

    Example:
        >>> delimiter, rows = csv_rows(["a fine film, nr 1;good\\n", "no, and no again;bad\\n"], "films.csv")
        >>> delimiter, next(rows)
        (';', (1, ['a fine film, nr 1', 'good']))
    """
    # Python's own writer leaves a lone carriage return without quotes, and its reader refuses it there
    lines = (re.sub("\r(?!\n)", _LONE, line) for line in lines)
    sample = list(islice(lines, _SAMPLE))
    named = re.match(r"sep=([^\w\s\"]|\t)\s*\Z", sample[0], re.IGNORECASE) if sample else None
    delimiter = named[1] if named else max(",;\t", key=lambda sign: _likelihood(sample, sign))
    rows = _csv_rows(chain(sample[1:] if named else sample, lines), name, delimiter, 2 if named else 1)
    return delimiter, rows


def _likelihood(lines: list[str], sign: str) -> tuple[int, int, int]:
    """Rank a sign as what parts the fields: it parts many lines into as many as the first, and is no comma of prose."""
    rows: list[tuple[int, list[str]]] = []
    with contextlib.suppress(DataError):  # it is not CSV by this sign, or the sample ends within quotes
        rows.extend((number, row) for number, row in _csv_rows(lines, "", sign, 1) if row)
    width = len(rows[0][1]) if rows else 0
    if width < 2:
        return 0, 0, 0
    alike = sum(len(row) == width for _, row in rows)
    return alike, -sum(cell.startswith(" ") for _, row in rows for cell in row[1:]), width


def _csv_rows(lines: Iterable[str], name: str, delimiter: str, start: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    before = start
    limit = csv.field_size_limit(_FIELD_LIMIT)
    try:
        for row in reader:
            yield start, [cell.replace(_LONE, "\r") for cell in row]
            start = before + reader.line_num
    except csv.Error as error:
        hint = "a field starts and ends with a quote, and quotes inside it are doubled"
        raise DataError(f"{name}:{start}: not CSV ({error}); {hint}") from None
    finally:
        csv.field_size_limit(limit)


def tab_fields(line: str) -> tuple[list[str], int]:
    """What stands between the tabs of a TSV line, and around how many fields quotes were undone.

    A quote never spans tabs or lines: those of SST-2 and TREC do not match. Quotes around a field are undone only where
    a CSV writer's hand is plain: those within it are doubled, or every field of the line has them.

    Example:
        >>> tab_fields('"A ""fine"" film"\\t"Good" it is\\n')
        (['A "fine" film', '"Good" it is'], 1)
    """
    row = line.removesuffix("\n").removesuffix("\r").split("\t")
    quoted = [_is_quoted(cell) for cell in row]
    undone = 0
    for place, cell in enumerate(row):
        if quoted[place] and (all(quoted) or '""' in cell[1:-1]):
            row[place] = cell[1:-1].replace('""', '"')
            undone += 1
    return row, undone


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")


def has_header(rows: Sequence[Sequence[str]], known: Collection[str]) -> bool:
    """Whether the first of some rows names columns: a cell of it is a known name, and comes again in no other row.

    The whole line may come again, as in two files one after the other.

    Example:
        >>> has_header([["text", "label"], ["a fine film", "good"]], {"text"})
        True
    """
    first = rows[0]
    others = [row for row in rows if row != first]
    known_places = [place for place, cell in enumerate(first) if cell.strip().lower() in known]
    return any(all(row[place : place + 1] != [first[place]] for row in others) for place in known_places)


def _of_lines(file: Path, lines: Lines, notes: Notes, header: bool | None, known: Collection[str]) -> Table:
    filled = [(number, row) for number, row in lines if row]
    if not filled:
        raise DataError(f"{file}: no rows")
    if blank := len(lines) - len(filled):
        notes.add(str(file), f"skipped {count(blank, 'blank line')}")
    first = filled[0][1]
    for number, row in filled:
        if len(row) != len(first):
            there = f"{count(len(row), 'field')} where the first line has {len(first)}"
            raise DataError(f"{file}:{number}: {there}; quote or remove separators inside a text")
    if header is None:
        header = has_header([row for _, row in filled], known)
        if not header:
            hint = "to change that: --set data.header=true, or --header for `suite eval`"
            notes.add(str(file), f"the first line is read as data, not as column names ({hint})")
    columns = [cell.strip() for cell in first] if header else [str(place) for place, _ in enumerate(first, 1)]
    if twice := [column for column, times in Counter(columns).items() if times > 1]:
        raise DataError(f"{file}: two columns are called {twice[0]!r}")
    body = [(number, row) for number, row in filled if row != first] if header else filled
    if again := len(filled) - len(body) - header:
        notes.add(str(file), f"left out {count(again, 'repeated header line')}")
    rows = [(f"{file}:{number}", dict(zip(columns, row, strict=True))) for number, row in body]
    return Table(str(file), columns, rows, has_names=header)


# ---- JSON and data sets


def _read_json(file: Path, key: str = "") -> Iterable[tuple[int, Any]]:
    """Read a JSON list, the list of that key, or else JSON lines."""
    try:
        value = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and not key:
            return json_lines(file)
        raise DataError(f"{file}:{error.lineno}: not JSON ({error.msg} at column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: not JSON ({json_fault(error)})") from None
    keys = [name for name, rows in value.items() if _is_rows(rows)] if isinstance(value, dict) else []
    if key and key not in keys:
        raise DataError(f"{file}: no list of records {key!r}; available: {', '.join(keys) or 'none'}")
    if keys and not key:
        raise DataError(f"{file}: contains the lists {', '.join(keys)}; choose one, such as {file}:{keys[0]}")
    rows = value[key] if key else value
    return enumerate(rows if isinstance(rows, list) else [rows], 1)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list | dict)


def _of_records(name: str, records: Iterable[tuple[int, Any]]) -> Table:
    rows: list[tuple[str, Mapping[str, Any]]] = []
    has_names = True
    for number, record in records:
        if isinstance(record, list):
            has_names = False
            record = {str(place): cell for place, cell in enumerate(record, 1)}
        if not isinstance(record, dict):
            raise DataError(f"{name}:{number}: expected a JSON object or list, not {type(record).__name__}")
        rows.append((f"{name}:{number}", record))
    if not rows:
        raise DataError(f"{name}: no rows")
    columns = list(dict.fromkeys(column for _, row in rows for column in row))
    return Table(name, columns, rows, has_names=has_names)


def _of_data_set(name: str, data_set: Any) -> Table:
    import datasets

    readable = (datasets.Value, datasets.ClassLabel, datasets.List)
    features = {column: kind for column, kind in data_set.features.items() if isinstance(kind, readable)}
    class_names = {column: getattr(getattr(kind, "feature", kind), "names", ()) for column, kind in features.items()}
    records = enumerate(data_set.select_columns(list(features)), 1)  # the others may be images
    return Table(name, list(features), ((f"{name}:{n}", row) for n, row in records), class_names=class_names)
