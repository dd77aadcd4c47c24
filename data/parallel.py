"""Read sentence pairs for translation from tables, pairs of text files, JSON lines, parquet or hub data sets.

A string names a corpus, on the command line and in recipes alike: `en-de=pairs.tsv` with its languages, `pairs.tsv` if
the languages are given elsewhere, `train.en.gz,train.de.gz` for two files with a sentence per line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from suite.data.hub import load_hub, parse_hub_name
from suite.data.record_files import check_surrogates, read_records, text_lines
from suite.data.separated import csv_rows
from suite.data.sources import TABLES, File, find
from suite.errors import DataError

MAX_RATIO = 3.0  # characters of the longer side per character of the shorter; above it, a pair counts as mismatched
SLACK = 10  # extra characters allowed on the longer side: "Hi." may become "Grüß Gott!"

_LANGUAGES = re.compile(r"([A-Za-z_]{2,17})-([A-Za-z_]{2,17})=(.+)", re.DOTALL)


class Pair(NamedTuple):
    """A sentence, its translation, and the number of their line or record (from 1)."""

    source: str
    target: str
    place: int

    @property
    def sides(self) -> tuple[str, str]:
        """Sentence and translation."""
        return self.source, self.target


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Name and languages of a parallel corpus.

    Args:
        source, target: languages of the first and second side.
        name: a source as in `suite.data.sources`, or two text files separated by a comma.
    """

    source: str
    target: str
    name: str

    @classmethod
    def parse(cls, text: str, source: str = "", target: str = "") -> Corpus:
        """Parse "en-de=name", or a name without languages.

        Args:
            text: as given on the command line.
            source, target: languages to use if the text names none.

        Raises:
            DataError: the languages are not given, or both are the same.

        Example:
            >>> Corpus.parse("en-de=train.en,train.de")
            Corpus(source='en', target='de', name='train.en,train.de')
        """
        if found := _LANGUAGES.fullmatch(text):
            source, target, text = found.groups()
        if not source or not target:
            raise DataError(f"{text}: which languages? Name both, source first, as in en-de={text}")
        if source == target:
            raise DataError(f"{text}: source and target are both {source!r}")
        return cls(source=source, target=target, name=text)


def read_pairs(corpus: Corpus, *, columns: Sequence[str] = (), split: str | None = None) -> Iterator[Pair]:
    """Read the pairs of a corpus in order, each side normalised to Unicode's NFC and stripped of surrounding spaces.

    Lines end only at "\\n"; other line separators, such as "\\x85", occur inside sentences.

    Args:
        corpus: .jsonl, .json and .parquet files hold records, .csv files are tables with commas, any other single file
            is a table with tabs; two files separated by a comma hold a sentence per line. All may be compressed. See
            `suite.data.sources` for how files and hub data sets are named.
        columns: columns of source and target: numbers from 1 in a table (default 1 and 2), or names in records
            (default: the language codes, as in `{"en": ..., "de": ...}`, also inside a field `translation`).
        split: split of a hub data set if its name gives none; the training split by default.

    Raises:
        DataError: a file does not exist, is not UTF-8, or lacks a column (the message names file and line), or two
            files differ in their number of lines.
    """
    if columns and len(columns) != 2:
        raise DataError(f"two columns are needed, source and target, not {len(columns)}: {', '.join(columns)}")
    for source, target, place in _read(corpus, columns, split):
        yield Pair(_clean(source), _clean(target), place)


def filter_pairs(
    pairs: Iterable[Pair], *, max_ratio: float = MAX_RATIO, keep_copies: bool = False
) -> tuple[list[Pair], dict[str, list[Pair]]]:
    """Drop pairs that are empty, copies of the source, or mismatched in length.

    Args:
        pairs: as read by `read_pairs`.
        max_ratio: a pair is mismatched if a side has more than `max_ratio` times the characters of the other, plus 10;
            0 for no limit.
        keep_copies: whether to keep pairs whose target equals the source. Source on the harm copies do: Ott et al.
            2018, "Analyzing Uncertainty in Neural Machine Translation".

    Returns:
        the pairs kept, and the pairs dropped by reason.

    Example:
        >>> kept, dropped = filter_pairs([Pair("Hi.", "Hallo.", 1), Pair("Hi.", "", 2)])
        >>> kept, dropped
        ([Pair(source='Hi.', target='Hallo.', place=1)], {'empty': [Pair(source='Hi.', target='', place=2)]})
    """
    kept: list[Pair] = []
    dropped: dict[str, list[Pair]] = {}
    for pair in pairs:
        shorter, longer = sorted((len(pair.source), len(pair.target)))
        if not shorter:
            reason = "empty"
        elif not keep_copies and pair.source == pair.target:
            reason = "a copy of the source"
        elif max_ratio and longer > max_ratio * shorter + SLACK:
            reason = "mismatched in length"
        else:
            kept.append(pair)
            continue
        dropped.setdefault(reason, []).append(pair)
    return kept, dropped


def describe_dropped(dropped: Mapping[str, Sequence[Pair]]) -> str:
    """Summary of the dropped pairs for the log: number, reason and first line of each kind.

    Example:
        >>> describe_dropped({"empty": [Pair("Hi.", "", 2), Pair("", "Na?", 7)]})
        '2 empty (first: line 2)'
    """
    kinds = [f"{len(pairs):,} {reason} (first: line {pairs[0].place:,})" for reason, pairs in dropped.items() if pairs]
    return ", ".join(kinds)


# ---- reading


def _clean(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _read(corpus: Corpus, columns: Sequence[str], split: str | None) -> Iterator[tuple[str, str, int]]:
    name = corpus.name
    files = find(name)
    if files is None and name.count(",") == 1:
        yield from _parallel(*map(_one_file, name.split(",")))
    elif files is not None:
        chosen = [file for file in files if not file.inside or file.suffix in TABLES]
        if not chosen:
            raise DataError(f"{name} is a folder without {' '.join(TABLES)} files; give the file with the pairs")
        for file in chosen:
            yield from _file(file, corpus, columns)
    elif parse_hub_name(name):
        records = enumerate(load_hub(name, split), 1)
        rows = ((f"{name}, record {place}", place, record) for place, record in records)
        yield from _records(rows, corpus, columns)
    else:
        raise DataError(f"{name}: no such file; give a file, two separated by a comma, or a hub data set owner/name")


def _one_file(name: str) -> File:
    files = find(name)
    if not files or len(files) > 1:
        raise DataError(f"{name}: {'several files' if files else 'no such file'}; give two files, separated by a comma")
    return files[0]


def _file(file: File, corpus: Corpus, columns: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    if file.suffix in (".jsonl", ".ndjson", ".json", ".parquet"):
        yield from _records(read_records(file), corpus, columns)
    elif file.suffix == ".csv":
        yield from _csv(file, columns)
    else:
        rows = ((number, line, _bare(line).split("\t")) for number, line in enumerate(text_lines(file), 1))
        yield from _table(file, rows, [_number(column) for column in columns] or [1, 2])


def _bare(line: str) -> str:
    return line.removesuffix("\n")


def _csv(file: File, columns: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    _, cells = csv_rows(text_lines(file), file.name)
    rows = ((number, ",".join(row), row) for number, row in cells)
    numbers = [1, 2]
    if any(not column.isdecimal() for column in columns):
        _, _, names = next(rows, (1, "", []))
        if missing := [column for column in columns if column not in names]:
            raise DataError(f"{file.name}: no column {missing[0]!r}; available: {', '.join(names) or 'none'}")
        numbers = [names.index(column) + 1 for column in columns]
    elif columns:
        numbers = [_number(column) for column in columns]
    yield from _table(file, rows, numbers)


def _table(
    file: File, rows: Iterable[tuple[int, str, list[str]]], numbers: Sequence[int]
) -> Iterator[tuple[str, str, int]]:
    for place, line, fields in rows:
        if not line.strip():
            yield "", "", place  # counted as empty, not skipped silently
            continue
        where = f"{file.name}, line {place}"
        if len(fields) < max(numbers):
            what = "a single column" if len(fields) == 1 else f"{len(fields)} columns"
            if len(fields) == 1 and file.suffix != ".csv":
                what = "no tab"
            raise DataError(f"{where}: {what}, but column {max(numbers)} is needed: {_excerpt(_bare(line))}")
        source, target = (fields[number - 1] for number in numbers)
        if "\r" in source.strip() or "\r" in target.strip():
            raise DataError(f"{where}: a carriage return inside a sentence; lines must end with \\n")
        yield source, target, place


def _number(column: str) -> int:
    if not column.isdecimal() or int(column) < 1:
        raise DataError(f"columns of a table are numbers from 1, not {column!r}")
    return int(column)


def _parallel(first: File, second: File) -> Iterator[tuple[str, str, int]]:
    counts = [0, 0]
    for place, (source, target) in enumerate(zip_longest(text_lines(first), text_lines(second)), 1):
        counts = [counts[0] + (source is not None), counts[1] + (target is not None)]
        if source is not None and target is not None:
            yield _bare(source), _bare(target), place
    if counts[0] != counts[1]:
        told = f"{first.name} has {counts[0]:,} lines and {second.name} has {counts[1]:,}"
        raise DataError(f"{told}; they must be parallel")


def _records(
    records: Iterable[tuple[str, int, Any]], corpus: Corpus, columns: Sequence[str]
) -> Iterator[tuple[str, str, int]]:
    names = list(columns) or [corpus.source, corpus.target]
    for where, place, record in records:
        if not isinstance(record, Mapping):
            raise DataError(f"{where}: expected a record with fields, not {type(record).__name__}")
        inner = record.get("translation")
        fields = inner if not columns and isinstance(inner, Mapping) else record
        source, target = (_text(fields, name, where) for name in names)
        yield source, target, place


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    if name not in fields:
        raise DataError(f"{where}: no field {name!r}; available: {', '.join(map(str, fields)) or 'none'}")
    text = fields[name]
    if not isinstance(text, str):
        raise DataError(f"{where}: field {name!r} contains {type(text).__name__}, not text")
    check_surrogates(text, where)
    return text


def _excerpt(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:39] + "…")
