"""Labelled texts from people's own files, their split into training and validation, and what is odd about them.

CSV, TSV, JSON lines, JSON, parquet, folders of text files per class, and hub data sets give the same records. Whatever
had to be guessed (columns, a header) or is odd is told in notes; nothing is left out without one.
"""

import csv
import glob
import io
import json
import random
import textwrap
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from suite.data.documents import (
    check_surrogates,
    json_lines,
    load_hub,
    load_parquet,
    may_be_hub_name,
    read_text,
)
from suite.errors import DataError

_TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
_TEXTS = (".txt", ".md", "")  # in folders of classes; 20 Newsgroups' files have no suffix
_FIELD_LIMIT = 1 << 30  # characters in a field; the csv module's own limit of 131,072 is shorter than some texts
_LABEL_NAMES = (
    *("label", "labels", "class", "category", "topic", "topics", "intent", "sentiment", "categories", "classes"),
    *("target", "tag", "tags", "genre", "rating", "coarse_label", "label_text", "class_name"),
)
_TEXT_NAMES = (
    *("text", "sentence", "content", "description", "review", "question", "body", "comment", "message", "utterance"),
    *("query", "tweet", "phrase", "document", "article", "headline", "abstract", "summary", "title"),
)
_PAIR_NAMES = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2")),
    *(("text1", "text2"), ("text_a", "text_b")),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """A text, or a pair of texts, with its labels.

    Args:
        text: as the file has it.
        pair: the second text of a pair.
        labels: one, several (multi-label), or none.
        where: file and line or record, such as "file.csv:12".
    """

    text: str
    pair: str | None = None
    labels: tuple[str, ...] = ()
    where: str = ""


class Columns(NamedTuple):
    """The columns that were read; those of a file without names are "1", "2" and so on."""

    text: tuple[str, ...] = ()
    label: str = ""
    pair: str = ""


@dataclass(frozen=True, kw_only=True)
class LabelledData:
    """What `read_labelled` found.

    Args:
        records: in the order of the sources.
        notes: what was guessed or odd, a line each.
        columns: those of the first table; empty for folders of classes.
    """

    records: list[Labelled]
    notes: list[str]
    columns: Columns = Columns()

    @property
    def classes(self) -> list[str]:
        """The labels that occur, sorted."""
        return sorted({label for record in self.records for label in record.labels})

    @property
    def multi_label(self) -> bool:
        """Whether a record has several labels."""
        return any(len(record.labels) > 1 for record in self.records)


class _Wanted(NamedTuple):
    """What the caller said of the columns and cells."""

    text: tuple[str, ...]
    label: str
    pair: str
    separator: str
    header: bool | None
    labelled: bool


class _Table(NamedTuple):
    """Rows with their places (a line or record number), and class names that the format itself gives for a column."""

    name: str
    columns: list[str]
    rows: Iterable[tuple[int, Mapping[str, Any]]]
    has_names: bool = True
    class_names: Mapping[str, Sequence[str]] = {}


class _Notes:
    """Notes of several sources, where the same note of many of them is one."""

    def __init__(self) -> None:
        self._sources: dict[str, list[str]] = {}

    def add(self, source: str, note: str) -> None:
        self._sources.setdefault(note, []).append(source)

    def lines(self) -> list[str]:
        return [
            f"{sources[0]}{f' and {len(sources) - 1} more' if len(sources) > 1 else ''}: {note}"
            for note, sources in self._sources.items()
        ]


def read_labelled(
    sources: Sequence[str | Path],
    *,
    text: str | Sequence[str] = "",
    label: str = "",
    pair: str = "",
    separator: str = "",
    names: Sequence[str] = (),
    header: bool | None = None,
    labelled: bool = True,
) -> LabelledData:
    """Read labelled texts.

    Args:
        sources: each a file (.csv, .tsv, .jsonl, .json, .parquet; .gz but for parquet), a folder of such files, a
            pattern, a folder with a folder of text files for each class, one list of a JSON file that holds several
            (`file.json:train`), or a hub data set (`owner/name`, `owner/name:configuration`,
            `owner/name:configuration:split`, where the configuration may be empty).
        text: column with the text, or several to join by line breaks; guessed by default. Columns are named as the
            file names them, or by number from 1.
        label: column with the label; guessed by default. A JSON list in it is several labels.
        pair: column with the second text of a pair.
        separator: what stands between several labels in a cell.
        names: class names for labels that are numbers, from 0 or 1 as the data shows; or a name for each label, such
            as `1=World`.
        header: whether the first line of a CSV or TSV file names the columns; guessed by default.
        labelled: whether to read labels at all.

    Raises:
        DataError: a source, column or label is not there, or a file or cell cannot be read.

    Example:
        >>> read_labelled(["data/samples/banking77.csv"]).columns
        Columns(text=('text',), label='category', pair='')
    """
    columns = (text,) if isinstance(text, str) else tuple(text)
    wanted = _Wanted(tuple(filter(None, columns)), label, pair, separator, header, labelled)
    notes = _Notes()
    records: list[Labelled] = []
    chosen: Columns | None = None
    for source in map(str, sources):
        for name, part in _parts(source):
            if isinstance(part, Path) and part.is_dir():
                records += _read_folder(part, notes)
                continue
            table = _read_table(name, part, wanted, notes)
            used = _choose_columns(table, wanted, notes)
            chosen = chosen or used
            records += _read_rows(table, used, wanted, notes)
    if not records:
        raise DataError(f"{', '.join(map(str, sources)) or 'no source is given'}: no records")
    if names and labelled:
        records = _rename(records, names, notes)
    return LabelledData(records=records, notes=notes.lines(), columns=chosen or Columns())


# ---- sources


def _parts(source: str) -> Iterator[tuple[str, Path | str]]:
    """Give the name and the file of each table of a source; a folder of classes is one, and of a hub name the part."""
    path = Path(source)
    if path.is_file():
        yield source, path
    elif path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and _suffix(file) in _TABLES)
        folders = [folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
        if files and folders:
            raise DataError(f"{source}: both tables and folders; name the tables ({files[0]}), or move them away")
        if not files and not folders:
            raise DataError(f"{source}: no {' '.join(_TABLES)} files in it, and no folder for each class")
        yield from ((str(file), file) for file in files or [path])
    elif matches := sorted(glob.glob(source, recursive=True)):  # noqa: PTH207 (a Path takes no absolute pattern)
        yield from ((match, Path(match)) for match in matches if Path(match).is_file())
    elif ":" in source and Path(source.rpartition(":")[0]).is_file():
        yield source, Path(source.rpartition(":")[0])
    elif may_be_hub_name(source.partition(":")[0]) and _suffix(Path(source.partition(":")[0])) not in _TABLES:
        yield source, source
    else:
        raise DataError(f"{source}: no file or folder there, and no pattern with {' '.join(_TABLES)} files")


def _suffix(file: Path) -> str:
    return Path(file.stem if file.suffix == ".gz" else file.name).suffix.lower()


def _read_folder(folder: Path, notes: _Notes) -> list[Labelled]:
    records = []
    left: list[Path] = [file for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith(".")]
    for place in sorted(place for place in folder.iterdir() if place.is_dir() and not place.name.startswith(".")):
        for file in sorted(file for file in place.rglob("*") if file.is_file() and not file.name.startswith(".")):
            if _suffix(file) in _TEXTS or _suffix(file)[1:].isdigit():
                records.append(Labelled(text=read_text(file), labels=(place.name,), where=str(file)))
            else:
                left.append(file)
    if left:
        notes.add(str(folder), f"left out {_count(len(left), 'file')} that are no text of a class, such as {left[0]}")
    return records


# ---- tables


def _read_table(name: str, part: Path | str, wanted: _Wanted, notes: _Notes) -> _Table:
    if isinstance(part, str):
        hub, configuration, split, *_ = [*part.split(":", 2), "", ""]
        return _open_data_set(name, load_hub(f"{hub}:{configuration}", split or None))
    match _suffix(part):
        case ".csv":
            return _read_lines(name, _read_csv(part, notes), wanted, notes)
        case ".tsv" | ".tab":
            return _read_lines(name, _read_tsv(part, notes), wanted, notes)
        case ".jsonl" | ".ndjson":
            return _table_of_records(name, list(json_lines(part)))
        case ".json":
            return _table_of_records(name, _read_json(part, name[len(str(part)) + 1 :]))
        case ".parquet":
            return _open_data_set(name, load_parquet(part))
    raise DataError(f"{name}: a file of labelled texts ends in {', '.join(_TABLES)}, or these with .gz")


def _read_csv(file: Path, notes: _Notes) -> list[tuple[int, list[str]]]:
    content = read_text(file)
    first = content.partition("\n")[0]
    delimiter = "," if "," in first else next((sign for sign in ";\t" if sign in first), ",")
    if delimiter != ",":
        notes.add(str(file), f"the fields are parted by {delimiter!r}")
    reader = csv.reader(io.StringIO(content, newline="\n"), delimiter=delimiter, strict=True)
    limit = csv.field_size_limit(_FIELD_LIMIT)
    rows = []
    start = 1
    try:
        for row in reader:
            rows.append((start, row))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file}:{start}: not CSV ({error})") from None
    finally:
        csv.field_size_limit(limit)
    return _without_blank(file, rows, notes)


def _read_tsv(file: Path, notes: _Notes) -> list[tuple[int, list[str]]]:
    """Read fields between tabs as they stand: quotes mean nothing, as in SST-2 and TREC, where they do not match."""
    lines = read_text(file).removesuffix("\n").split("\n")
    rows = [(number, line.removesuffix("\r").split("\t")) for number, line in enumerate(lines, 1)]
    quoted = sum(len(cell) > 1 and cell[0] == cell[-1] == '"' and '""' in cell[1:-1] for _, row in rows for cell in row)
    if quoted:
        note = (
            f"{_count(quoted, 'field')} look quoted; TSV is read as it stands, so save the file as CSV to undo quotes"
        )
        notes.add(str(file), note)
    return _without_blank(file, [(number, row if row != [""] else []) for number, row in rows], notes)


def _without_blank(file: Path, rows: list[tuple[int, list[str]]], notes: _Notes) -> list[tuple[int, list[str]]]:
    filled = [(number, row) for number, row in rows if row]
    if len(filled) < len(rows):
        notes.add(str(file), f"passed over {_count(len(rows) - len(filled), 'blank line')}")
    return filled


def _read_lines(name: str, rows: list[tuple[int, list[str]]], wanted: _Wanted, notes: _Notes) -> _Table:
    """Tell column names from the first row of data."""
    if not rows:
        return _Table(name, [], [])
    first = rows[0][1]
    for number, row in rows:
        if len(row) != len(first):
            raise DataError(f"{name}:{number}: {_count(len(row), 'field')}, where the first line has {len(first)}")
    header = wanted.header
    if header is None:
        asked = [column for column in (*wanted.text, wanted.label, wanted.pair) if column and not column.isdecimal()]
        known = {*_LABEL_NAMES, *_TEXT_NAMES, *(name for names in _PAIR_NAMES for name in names)}
        header = bool(asked) or any(cell.strip().lower() in known for cell in first)
        if not header:
            notes.add(name, "the first line is read as data, not as column names (header decides)")
    columns = [cell.strip() for cell in first] if header else [str(number) for number in range(1, len(first) + 1)]
    if twice := [column for column, count in Counter(columns).items() if count > 1]:
        raise DataError(f"{name}: the column name {twice[0]!r} occurs twice")
    named = [(number, dict(zip(columns, row, strict=True))) for number, row in rows[header:]]
    return _Table(name, columns, named, has_names=header)


def _read_json(file: Path, part: str) -> list[tuple[int, Any]]:
    """Read a JSON list, the named list of a JSON object, or else JSON lines."""
    try:
        value = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        if not part and (error.msg == "Extra data" or error.lineno == 1):
            return list(json_lines(file))
        raise DataError(f"{file}:{error.lineno}: not JSON ({error.msg} at column {error.colno})") from None
    parts = [key for key, item in value.items() if isinstance(item, list)] if isinstance(value, dict) else []
    if part:
        if part not in parts:
            raise DataError(f"{file}: no list {part!r} in it; there are {', '.join(parts) or 'none'}")
        value = value[part]
    elif parts and all(isinstance(row, list | dict) for key in parts for row in value[key]):
        raise DataError(f"{file}: several lists; name one, such as {file}:{parts[0]} (there are {', '.join(parts)})")
    return list(enumerate(value, 1)) if isinstance(value, list) else [(1, value)]


def _table_of_records(name: str, records: list[tuple[int, Any]]) -> _Table:
    rows: list[tuple[int, Mapping[str, Any]]] = []
    has_names = True
    for number, record in records:
        if isinstance(record, list):
            has_names = False
            record = {str(column): cell for column, cell in enumerate(record, 1)}
        if not isinstance(record, dict):
            raise DataError(f"{name}:{number}: a JSON object or list is needed, not {type(record).__name__}")
        rows.append((number, record))
    columns = list(dict.fromkeys(column for _, row in rows for column in row))
    return _Table(name, columns, rows, has_names=has_names)


def _open_data_set(name: str, data_set: Any) -> _Table:
    import datasets

    def class_names(feature: Any) -> Sequence[str]:
        names: Sequence[str] = getattr(getattr(feature, "feature", feature), "names", ())
        return names

    readable = (datasets.Value, datasets.ClassLabel, datasets.List)
    features = {column: kind for column, kind in data_set.features.items() if isinstance(kind, readable)}
    rows = enumerate(data_set.select_columns(list(features)), 1)  # the others may be images
    return _Table(name, list(features), rows, class_names={key: class_names(kind) for key, kind in features.items()})


# ---- columns


def _choose_columns(table: _Table, wanted: _Wanted, notes: _Notes) -> Columns:
    def find(column: str) -> str:
        if column in table.columns:
            return column
        if column.isdecimal() and 1 <= int(column) <= len(table.columns):
            return table.columns[int(column) - 1]
        raise DataError(f"{table.name}: no column {column!r}; there are {listed}")

    listed = ", ".join(textwrap.shorten(column, 40) for column in table.columns[:30]) or "none"
    text, label, pair = tuple(map(find, wanted.text)), wanted.label and find(wanted.label), wanted.pair
    pair = pair and find(pair)
    if not wanted.labelled:
        label = ""
    free = [column for column in table.columns if column not in (*text, label, pair)]
    guess = _guess_by_name if table.has_names else _guess_by_content
    if wanted.labelled and not label:
        label = guess(table, free, "label", 1 if text else 2)
    free = [column for column in free if column != label]
    by_name = {column.lower(): column for column in free}
    if not text and not pair and (both := next((both for both in _PAIR_NAMES if {*both} <= {*by_name}), None)):
        text, pair = (by_name[both[0]],), by_name[both[1]]
    if not text:
        text = tuple(filter(None, [guess(table, free, "text", 1)]))
    if not text or (wanted.labelled and not label):
        missing = "label" if text else "text"
        raise DataError(f"{table.name}: which column is the {missing}? Name one of {listed}")
    found = Columns(text, label, pair)
    if (wanted.text, wanted.label if wanted.labelled else "", wanted.pair) != found:
        parts = [f"text from column {' and '.join(map(repr, text))}", pair and f"pair from {pair!r}"]
        parts.append(label and f"labels from {label!r}")
        notes.add(table.name, f"{', '.join(filter(None, parts))} of {listed}")
    return found


def _guess_by_name(table: _Table, free: list[str], kind: str, alone: int) -> str:
    """Find a column by usual names; else where only one is left (`alone`: how many then are), that one."""
    by_name = {column.lower(): column for column in reversed(free)}
    known = _LABEL_NAMES if kind == "label" else _TEXT_NAMES
    found = next((by_name[name] for name in known if name in by_name), "")
    if not found and kind == "label" and alone == 2:
        texts = [name for name in _TEXT_NAMES if name in by_name]
        rest = [column for column in free if column.lower() not in texts]
        return rest[0] if texts and len(rest) == 1 else ""
    return found or (free[0] if len(free) == 1 else "")


def _guess_by_content(table: _Table, free: list[str], kind: str, alone: int) -> str:
    """Find the column with the fewest different values (label), or the longest ones (text)."""
    if len(free) < alone:
        return ""
    cells = {column: [str(row.get(column, "")) for _, row in table.rows] for column in free}
    length = {column: sum(map(len, cells[column])) for column in free}
    if kind == "text":
        return max(free, key=lambda column: length[column])
    different = {column: len({*cells[column]}) for column in free}
    return min(free, key=lambda column: (different[column] < 2, different[column], length[column]))


# ---- cells


def _read_rows(table: _Table, columns: Columns, wanted: _Wanted, notes: _Notes) -> Iterator[Labelled]:
    def cell(row: Mapping[str, Any], column: str, where: str) -> str:
        if column not in row:
            raise DataError(f"{where}: no column {column!r}; there are {', '.join(row) or 'none'}")
        value = row[column]
        if not isinstance(value, str):
            raise DataError(f"{where}: column {column!r} holds {type(value).__name__}, not text")
        check_surrogates(value, where)
        return value

    unlabelled = 0
    for number, row in table.rows:
        where = f"{table.name}:{number}"
        texts = [cell(row, column, where) for column in columns.text]
        pair = cell(row, columns.pair, where) if columns.pair else None
        labels: tuple[str, ...] = ()
        if columns.label:
            value, class_names = row.get(columns.label), table.class_names.get(columns.label, ())
            labels = _labels(value, wanted.separator, class_names, where, columns.label)
            unlabelled += not labels
        yield Labelled(text="\n".join(filter(None, texts)), pair=pair, labels=labels, where=where)
    if unlabelled:
        notes.add(table.name, f"{_count(unlabelled, 'record')} with an empty list of labels")


def _labels(value: Any, separator: str, class_names: Sequence[str], where: str, column: str) -> tuple[str, ...]:
    items: list[Any]
    if isinstance(value, list):
        items = value
    elif isinstance(value, str) and separator:
        items = [item for item in value.split(separator) if item.strip()]
    elif isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        try:
            items = json.loads(value)
        except json.JSONDecodeError:
            raise DataError(f"{where}: the label {textwrap.shorten(value, 60)} is not a JSON list") from None
    else:
        items = [value]
    return tuple(dict.fromkeys(_label(item, class_names, where, column) for item in items))


def _label(value: Any, class_names: Sequence[str], where: str, column: str) -> str:
    missing = value is None or value != value or (isinstance(value, str) and not value.strip())
    if missing or (class_names and value == -1):  # hub data sets mark withheld labels by -1
        raise DataError(f"{where}: no label in column {column!r}; add it, or take the record out")
    if isinstance(value, int) and not isinstance(value, bool) and class_names:
        return class_names[value]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int):
        raise DataError(
            f"{where}: the label in column {column!r} is {type(value).__name__}, not text or a whole number"
        )
    if not isinstance(value, str):
        return json.dumps(value)
    check_surrogates(value, where)
    return value.strip()


def _rename(records: list[Labelled], names: Sequence[str], notes: _Notes) -> list[Labelled]:
    """Put class names in the place of numbers or codes; what is a class name already stays."""
    if all("=" in name for name in names):
        codes = dict(name.split("=", 1) for name in names)
    else:
        seen = {label for record in records for label in record.labels} - {*names}
        first = 0 if "0" in seen else 1 if str(len(names)) in seen else None
        if seen and first is None:
            raise DataError(
                f"names: neither 0 nor {len(names)} is a label, so the number of {names[0]} is not told; "
                f"give each with its label, such as 1={names[0]}"
            )
        codes = {str(number): name for number, name in enumerate(names, first or 0)} if seen else {}
    kept = {*names, *codes.values()}
    renamed = []
    for record in records:
        for label in record.labels:
            if label not in codes and label not in kept:
                known = ", ".join(codes) or ", ".join(names)
                raise DataError(f"{record.where}: the label {label!r} has no name; there are names for {known}")
        labels = tuple(codes.get(label, label) for label in record.labels)
        renamed.append(Labelled(text=record.text, pair=record.pair, labels=labels, where=record.where))
    if codes:
        notes.add("labels", ", ".join(f"{code} is {name}" for code, name in codes.items()))
    return renamed


# ---- splitting and checking


def stratified_split(records: Sequence[Labelled], share: float, seed: int) -> tuple[list[Labelled], list[Labelled]]:
    """Hold out a share of each class; texts that are the same but for case and spaces stay on one side.

    A class of two or more texts has at least one on each side, a class of one is left in training. Several labels are
    balanced from the rarest class on. Source: Sechidis, Tsoumakas and Vlahavas 2011.

    Args:
        share: of each class's records to hold out, 0 to 1.

    Returns:
        The records to train on and the held-out ones, both in their order.

    Raises:
        DataError: the share is not between 0 and 1, there is one class only, or no class has two different texts.
    """
    if not 0 < share < 1:
        raise DataError(f"a held-out share of {share} is not between 0 and 1")
    _require_classes(records)
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index, record in enumerate(records):
        groups[_same(record)].append(index)
    order = list(groups)
    random.Random(seed).shuffle(order)
    counts = {key: Counter(label for index in groups[key] for label in records[index].labels or ("",)) for key in order}
    totals = sum(counts.values(), Counter[str]())
    left, held = totals.copy(), Counter[str]()
    held_keys: set[Hashable] = set()

    def hold(key: Hashable) -> None:
        held_keys.add(key)
        held.update(counts[key])
        left.subtract(counts[key])

    for label in sorted(totals, key=lambda label: (totals[label], label)):
        quota = max(1, round(share * totals[label]))
        members = [key for key in order if label in counts[key]]
        for key in members:
            if key not in held_keys and held[label] + counts[key][label] <= quota and _spares(left, counts[key]):
                hold(key)
        spare = [key for key in members if _spares(left, counts[key])]
        if not held[label] and spare:  # each of its texts occurs more often than the quota
            hold(min(spare, key=lambda key: counts[key][label]))
    if not held_keys:
        raise DataError("no class has two different texts, so none can be held out for validation")
    train: list[Labelled] = []
    valid: list[Labelled] = []
    for record in records:
        (valid if _same(record) in held_keys else train).append(record)
    return train, valid


def _spares(left: Counter[str], counts: Counter[str]) -> bool:
    return all(left[label] > count for label, count in counts.items())


def check(train: Sequence[Labelled], valid: Sequence[Labelled]) -> list[str]:
    """Say what is worth knowing before training: class counts, duplicates, empty texts, classes that one side lacks.

    Raises:
        DataError: there is nothing to train on, or one class only.
    """
    _require_classes(train)
    counts, valid_counts = (Counter(label for record in side for label in record.labels) for side in (train, valid))
    notes = [_class_counts(counts, len(train), len(valid))]
    if single := sorted(label for label, count in counts.items() if count == 1):
        notes.append(f"one example only, in training: {_some(single)}")
    if unseen := sorted({*valid_counts} - {*counts}):
        notes.append(f"in validation but not in training: {_some(unseen)}")
    if valid and (absent := sorted({*counts} - {*valid_counts})):
        notes.append(f"not in validation: {_some(absent)}")
    for side, records in (("training", train), ("validation", valid)):
        empty = [record for record in records if not record.text.strip() or record.pair == ""]
        if empty:
            notes.append(f"{_count(len(empty), 'empty text')} in {side}, the first {empty[0].where}")
    return notes + _duplicates(train, valid)


def _class_counts(counts: Counter[str], train: int, valid: int) -> str:
    order = sorted(counts, key=lambda label: (-counts[label], label))
    most, least = order[0], order[-1]
    each = f"{counts[most]:,} each" if counts[most] == counts[least] else ""
    shown = each or (
        ", ".join(f"{label} {counts[label]:,}" for label in order)
        if len(order) <= 20
        else f"from {counts[least]:,} ({least}) to {counts[most]:,} ({most})"
    )
    times = counts[most] / counts[least]
    uneven = f"; the largest class has {times:.0f} times the examples of the smallest" if times >= 10 else ""
    sizes = f"{train:,} records for training, {valid:,} for validation"
    return f"{sizes}, {len(order)} classes: {shown}{uneven}"


def _duplicates(train: Sequence[Labelled], valid: Sequence[Labelled]) -> list[str]:
    sides = [defaultdict[Hashable, list[Labelled]](list) for _ in range(2)]
    for groups, records in zip(sides, (train, valid), strict=True):
        for record in records:
            groups[_same(record)].append(record)
    notes = []
    for name, groups in zip(("training", "validation"), sides, strict=True):
        if again := [group for group in groups.values() if len(group) > 1]:
            extra = sum(map(len, again)) - len(again)
            notes.append(f"{_count(extra, 'duplicate text')} within {name}, such as {_places(again[0])}")
    if across := [[sides[0][key][0], *group] for key, group in sides[1].items() if key in sides[0]]:
        copies = sum(map(len, across)) - len(across)
        notes.append(f"{_count(copies, 'text')} of validation also in training, such as {_places(across[0])}")
    together = [sides[0].get(key, []) + sides[1].get(key, []) for key in dict.fromkeys([*sides[0], *sides[1]])]
    if clash := [group for group in together if len({frozenset(record.labels) for record in group}) > 1]:
        first = clash[0]
        other = next(record for record in first if {*record.labels} != {*first[0].labels})
        labels = " and ".join("+".join(record.labels) or "none" for record in (first[0], other))
        places = _places([first[0], other])
        notes.append(f"{_count(len(clash), 'text')} with conflicting labels, such as {places} ({labels})")
    return notes


def _require_classes(records: Sequence[Labelled]) -> None:
    kinds = {record.labels for record in records}
    if len(kinds) < 2:
        found = f"one class only ({', '.join(next(iter(kinds))) or 'no label'})" if kinds else "no records"
        raise DataError(f"{found}; a classifier needs examples of two classes or more")


def _same(record: Labelled) -> Hashable:
    return " ".join(record.text.split()).casefold(), record.pair and " ".join(record.pair.split()).casefold()


def _places(records: Sequence[Labelled]) -> str:
    return " and ".join(record.where for record in records[:2])


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:10]) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
