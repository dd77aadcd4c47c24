"""Read labelled texts from files, split them into training and validation, and check them for problems."""

import json
import random
import textwrap
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

from suite.data.label_columns import KNOWN, Columns, choose_columns, describe, listed
from suite.data.record_files import check_surrogates
from suite.data.sources import Source
from suite.data.tables import Notes, RecordTable, read_tables
from suite.errors import DataError
from suite.wording import count

FREE_LENGTH, FREE_MARGIN = 50, 5  # see `check_classes`


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """A text, or a pair of texts, with its labels.

    Args:
        text: the text, unchanged.
        pair: the second text of a pair, if there is one.
        labels: the label, several (multi-label), or none.
        where: file and line or record, for messages, such as "file.csv, line 12".
    """

    text: str
    pair: str | None = None
    labels: tuple[str, ...] = ()
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class LabelledData:
    """Labelled records, with notes on how they were read.

    Args:
        records: labelled texts in the order of the sources.
        notes: a line for each guess or oddity.
        columns: columns read from the first source.
        available: all columns of the first source.
    """

    records: list[Labelled]
    notes: list[str]
    columns: Columns
    available: tuple[str, ...] = ()


def read_labelled(
    sources: Source,
    *,
    text: str | Sequence[str] = "",
    label: str = "",
    pair: str = "",
    separator: str = "",
    names: Sequence[str] = (),
    header: bool | None = None,
) -> LabelledData:
    """Read labelled texts; guesses are reported in the notes.

    Args:
        sources: as for `suite.data.tables.read_tables`: files, folders, patterns, `file.json:key`, hub data sets.
        text: column with the text, or several columns to join by line breaks; guessed by default. Columns are given by
            name, or by number from 1.
        label: column with the label; guessed by default. A JSON list in a cell gives several labels.
        pair: column with the second text of a pair.
        separator: text between several labels in a cell.
        names: class names for numeric labels, which count from 0 or 1 (seen from the data); or a name for each label,
            such as `1=World`. Labels that already are class names are kept.
        header: whether the first line of a CSV or TSV file names the columns; guessed by default.

    Raises:
        DataError: a source, column or label is missing, or a file or cell cannot be read.

    Example:
        >>> read_labelled("data/samples/banking.csv").columns
        Columns(text=('text',), label='category', pair='')
    """
    wanted = Columns(tuple(filter(None, [text] if isinstance(text, str) else text)), label, pair)
    if header is None and any(column and not column.isdecimal() for column in (*wanted.text, wanted.label, pair)):
        header = True
    notes = Notes()
    records: list[Labelled] = []
    chosen: dict[tuple[str, ...], Columns] = {}  # tables with the same columns are read the same way
    for table in read_tables(sources, notes, header=header, known=KNOWN):
        key = tuple(table.columns)
        chosen[key] = columns = chosen.get(key) or choose_columns(table, wanted)
        if columns != wanted and table.columns != ["text", "label"]:
            notes.add(table.name, f"{describe(columns)} of {listed(table.columns)}")
        records += _read_rows(table, columns, separator, notes)
    if not records:
        where = ", ".join(map(str, [sources] if isinstance(sources, str | Path) else sources))
        raise DataError(f"{where or 'no source is given'}: no rows")
    if names:
        records = _rename(records, names, notes)
    available, columns = next(iter(chosen.items()))
    return LabelledData(records=records, notes=notes.lines(), columns=columns, available=available)


# ---- cells


def _read_rows(table: RecordTable, columns: Columns, separator: str, notes: Notes) -> Iterator[Labelled]:
    class_names = table.class_names.get(columns.label, ())
    unlabelled = bracketed = 0
    for where, row in table.rows:
        labels: tuple[str, ...] = ()
        if columns.label:
            cells = _label_cells(row.get(columns.label), separator)
            place = f" in column {columns.label!r}"
            labels = tuple(dict.fromkeys(label_text(cell, where, place, class_names) for cell in cells))
            unlabelled += not labels
            bracketed += not separator and len(labels) == 1 and _is_bracketed(cells[0])
        yield Labelled(
            text="\n".join(filter(None, (_text(row, column, where) for column in columns.text))),
            pair=_text(row, columns.pair, where) if columns.pair else None,
            labels=labels,
            where=where,
        )
    if unlabelled:
        notes.add(table.name, f"{count(unlabelled, 'record')} with an empty list of labels")
    if bracketed:
        hint = "a label in square brackets that is not a JSON list, read as one label"
        notes.add(table.name, f"{count(bracketed, 'record')} with {hint}")


def _text(row: Mapping[str, Any], column: str, where: str) -> str:
    if column not in row:
        raise DataError(f"{where}: no column {column!r}; available: {listed(list(row))}")
    text = "" if row[column] is None else row[column]
    if not isinstance(text, str):
        raise DataError(f"{where}: column {column!r} contains {type(text).__name__}, not text")
    check_surrogates(text, where)
    return text


def _label_cells(value: Any, separator: str) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, str) and separator:
        return [part for part in value.split(separator) if part.strip()]
    if _is_bracketed(value):
        try:
            cells: list[Any] = json.loads(value)
            return cells
        except (ValueError, RecursionError):
            pass  # not a list, but a label such as [removed]
    return [value]


def _is_bracketed(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("[") and value.endswith("]")


def label_text(value: Any, where: str, place: str = "", class_names: Sequence[str] = ()) -> str:
    """Return a label as text: "true" or "false", a whole number, or text stripped of surrounding spaces.

    Args:
        value: the label as read.
        where: file and line of the record, for errors.
        place: position within the record, for errors.
        class_names: names to use for numeric labels.

    Raises:
        DataError: there is no label, or it is not text, true, false or a whole number.

    Example:
        >>> label_text(" good ", "a.csv, line 2"), label_text(True, "a.csv, line 3"), label_text(2.0, "a.csv, line 4")
        ('good', 'true', '2')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    withheld = bool(class_names) and value == -1  # hub data sets mark withheld labels of a test set with -1
    if value is None or value != value or withheld or (isinstance(value, str) and not value.strip()):
        raise DataError(f"{where}: no label{place}; add one, or remove the record")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Integral):
        return class_names[int(value)] if class_names else str(value)
    if not isinstance(value, str):
        kind = type(value).__name__
        raise DataError(f"{where}: the label{place} is {kind}, not text or a whole number")
    check_surrogates(value, where)
    return value.strip()


def _rename(records: list[Labelled], names: Sequence[str], notes: Notes) -> list[Labelled]:
    """Replace numbers or codes by class names."""
    seen = {label for record in records for label in record.labels} - {*names}
    codes: dict[str, str] = {}
    if all("=" in name for name in names):
        codes = dict(name.split("=", 1) for name in names)
    elif seen:
        first = 0 if "0" in seen else 1
        codes = {str(number): name for number, name in enumerate(names, first)}
        if not {"0", str(len(names))} & seen and seen <= {*codes}:
            raise DataError(
                f"no label is 0 or {len(names)}, so it is unclear whether {names[0]} is 0 or 1; "
                f"name each label, such as 0={names[0]}"
            )
    kept = {*names, *codes.values()}
    for record in records:
        if unknown := [label for label in record.labels if label not in codes and label not in kept]:
            known = ", ".join([*codes] or names)
            raise DataError(f"{record.where}: the label {unknown[0]!r} has no name; names are given for {known}")
    if seen:
        notes.add("labels", ", ".join(f"{code} is {name}" for code, name in codes.items()))
    return [replace(record, labels=tuple(codes.get(label, label) for label in record.labels)) for record in records]


# ---- splitting and checking


def check_classes(records: Sequence[Labelled], name: str, hint: str) -> None:
    """Raise an error if the labels are free text, as when the wrong column was taken for the labels.

    Labels count as free text if those that occur only once number at least half of the rows plus 5 (so a few rows never
    do), or if they are over 50 characters long on average and there are more than half as many as rows. 150 classes of
    two examples each pass, and so do ten classes that are whole sentences, as in a questionnaire.

    Args:
        name: name of the column, at the start of the message.
        hint: advice, at the end of the message.

    Raises:
        DataError: the labels are free text.
    """
    counts = Counter(label for record in records for label in record.labels)
    rows = counts.total()
    single = sum(times == 1 for times in counts.values())
    long = sum(len(label) * times for label, times in counts.items()) > FREE_LENGTH * rows
    if single >= rows / 2 + FREE_MARGIN or (long and len(counts) > rows / 2):
        example = textwrap.shorten(max(counts, key=lambda label: (counts[label] == 1, len(label))), 60)
        raise DataError(
            f"{name}: {len(counts):,} distinct labels in {len(records):,} rows, such as {example!r}, are free text and "
            f"no classes; {hint}"
        )


def stratified_split(records: Sequence[Labelled], share: float, seed: int) -> tuple[list[Labelled], list[Labelled]]:
    """Hold out a share of each class; texts that differ only in case and spaces stay on the same side.

    A class with two or more texts has at least one on each side; a class with a single text stays in training. With
    several labels per text, the rarest class is balanced first. Source: Sechidis, Tsoumakas and Vlahavas 2011.

    Args:
        share: share of the records of each class to hold out, 0 to 1.

    Returns:
        training records and held-out records, both in their original order.

    Raises:
        DataError: the share is not between 0 and 1, there is only one class, or no class has two different texts.
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
    totals = Counter(label for record in records for label in record.labels or ("",))
    left, held = totals.copy(), Counter[str]()
    held_keys: set[Hashable] = set()

    def hold(key: Hashable) -> None:
        held_keys.add(key)
        held.update(counts[key])
        left.subtract(counts[key])

    members: dict[str, list[Hashable]] = defaultdict(list)
    for key in order:
        for label in counts[key]:
            members[label].append(key)
    for label in sorted(totals, key=lambda label: (totals[label], label)):
        quota = max(1, round(share * totals[label]))
        for key in members[label]:
            if key not in held_keys and held[label] + counts[key][label] <= quota and _spares(left, counts[key]):
                hold(key)
        spare = [key for key in members[label] if _spares(left, counts[key])]
        if not held[label] and spare:  # each text of this class has more duplicates than the quota
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
    """Return notes on the data, a line each: class counts, duplicates, empty texts, classes missing on a side.

    Raises:
        DataError: there are no training records, or only one class.
    """
    _require_classes(train)
    counts, valid_counts = (Counter(label for record in side for label in record.labels) for side in (train, valid))
    notes = [_class_counts(counts, len(train), len(valid))]
    if single := sorted(label for label, count in counts.items() if count == 1):
        notes.append(f"only one training example: {_some(single)}")
    if unseen := sorted({*valid_counts} - {*counts}):
        notes.append(f"in validation but not in training: {_some(unseen)}")
    if valid and (absent := sorted({*counts} - {*valid_counts})):
        notes.append(f"not in validation: {_some(absent)}")
    for side, records in (("training", train), ("validation", valid)):
        if empty := [record for record in records if not all(text.strip() for text in _texts(record))]:
            notes.append(f"{count(len(empty), 'empty text')} in {side}, the first {empty[0].where}")
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
    uneven = f"; the largest class has {times:.0f} times as many examples as the smallest" if times >= 10 else ""
    sizes = f"{count(train, 'record')} for training{f', {valid:,} for validation' if valid else ''}"
    return f"{sizes}, {count(len(order), 'class', 'classes')}: {shown}{uneven}"


def _duplicates(train: Sequence[Labelled], valid: Sequence[Labelled]) -> list[str]:
    sides = [defaultdict[Hashable, list[Labelled]](list) for _ in range(2)]
    for groups, records in zip(sides, (train, valid), strict=True):
        for record in records:
            groups[_same(record)].append(record)
    notes = []
    for name, groups in zip(("training", "validation"), sides, strict=True):
        if again := [group for group in groups.values() if len(group) > 1]:
            extra = sum(map(len, again)) - len(again)
            notes.append(f"{count(extra, 'duplicate text')} within {name}, such as {_places(again[0])}")
    if across := [[sides[0][key][0], *group] for key, group in sides[1].items() if key in sides[0]]:
        copies = sum(map(len, across)) - len(across)
        notes.append(f"{count(copies, 'validation text')} also in training, such as {_places(across[0])}")
    together = [sides[0].get(key, []) + sides[1].get(key, []) for key in dict.fromkeys([*sides[0], *sides[1]])]
    if clash := [group for group in together if len({frozenset(record.labels) for record in group}) > 1]:
        first = clash[0]
        other = next(record for record in first if {*record.labels} != {*first[0].labels})
        labels = " and ".join("+".join(record.labels) or "none" for record in (first[0], other))
        places = _places([first[0], other])
        notes.append(f"{count(len(clash), 'text')} with conflicting labels, such as {places} ({labels})")
    return notes


def _require_classes(records: Sequence[Labelled]) -> None:
    kinds = {record.labels for record in records}
    if not kinds:
        raise DataError("no records to train on")
    if len(kinds) == 1:
        only = " and ".join(kinds.pop()) or "none"
        raise DataError(f"only one class: every record has the label {only}; a classifier needs two or more")


def _texts(record: Labelled) -> list[str]:
    return [record.text] if record.pair is None else [record.text, record.pair]


def _same(record: Labelled) -> Hashable:
    """A key that is equal for texts that differ only in case and spaces."""
    return tuple(" ".join(text.split()).casefold() for text in _texts(record))


def _places(records: Sequence[Labelled]) -> str:
    return " and ".join(record.where for record in records[:2])


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:10]) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
