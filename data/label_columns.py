"""Choose the columns of a table that hold texts and labels."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from suite.data.tables import RecordTable
from suite.errors import DataError

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
KNOWN = {*_LABEL_NAMES, *_TEXT_NAMES, *(name for both in _PAIR_NAMES for name in both)}


class Columns(NamedTuple):
    """Names of the columns to read; in a file without column names they are "1", "2" and so on."""

    text: tuple[str, ...] = ()
    label: str = ""
    pair: str = ""


def choose_columns(table: RecordTable, wanted: Columns) -> Columns:
    """Choose the columns of a table: those given by name or number, and guesses for the others.

    Raises:
        DataError: a column does not exist, or the column of the text or label cannot be guessed.
    """
    text = tuple(_find(table, column) for column in wanted.text)
    label, pair = wanted.label and _find(table, wanted.label), wanted.pair and _find(table, wanted.pair)
    free = [column for column in table.columns if column not in (*text, label, pair)]
    if not label:
        label = _known(free, _LABEL_NAMES) if table.has_names else _fewest_values(table, free)
        free = [column for column in free if column != label]
    if not text and not pair:
        text, pair = _known_pair(free)
    if not text:
        found = _known(free, _TEXT_NAMES) if table.has_names else _longest(table, free)
        text = (found,) if found else ()
    free = [column for column in free if column not in (*text, pair)]
    if len(free) == 1 and not text:
        text = (free[0],)
    elif len(free) == 1 and not label:
        label = free[0]
    if not text or not label:
        missing = "label" if text else "text"
        raise DataError(f"{table.name}: which column is the {missing}? Name one of {listed(table.columns)}")
    return Columns(text, label, pair)


def _find(table: RecordTable, column: str) -> str:
    if column in table.columns:
        return column
    if column.isdecimal() and 1 <= int(column) <= len(table.columns):
        return table.columns[int(column) - 1]
    raise DataError(f"{table.name}: no column {column!r}; available: {listed(table.columns)}")


def _known(free: Sequence[str], names: Sequence[str]) -> str:
    by_name = {column.lower(): column for column in reversed(free)}
    return next((by_name[name] for name in names if name in by_name), "")


def _known_pair(free: Sequence[str]) -> tuple[tuple[str, ...], str]:
    by_name = {column.lower(): column for column in reversed(free)}
    for first, second in _PAIR_NAMES:
        if first in by_name and second in by_name:
            return (by_name[first],), by_name[second]
    return (), ""


def _fewest_values(table: RecordTable, free: Sequence[str]) -> str:
    """Guess the label's column: the column with the fewest distinct values, preferably more than one of them."""
    cells = {column: [str(row.get(column, "")) for _, row in table.rows] for column in free}

    def rank(column: str) -> tuple[bool, int, int]:
        values = len({*cells[column]})
        return values == 1 and len(free) > 2, values, sum(map(len, cells[column]))

    return min(free, key=rank, default="")


def _longest(table: RecordTable, free: Sequence[str]) -> str:
    length = {column: sum(len(str(row.get(column, ""))) for _, row in table.rows) for column in free}
    return max(free, key=length.__getitem__, default="")


def describe(columns: Columns) -> str:
    """Summary of the columns that are read, for notes."""
    parts = [f"text from column {' and '.join(map(repr, columns.text))}"]
    parts += [f"{kind} from {name!r}" for kind, name in (("pair", columns.pair), ("label", columns.label)) if name]
    return ", ".join(parts)


def listed(columns: Sequence[str]) -> str:
    """Return the first 30 names of columns in a line, long ones shortened."""
    return ", ".join(textwrap.shorten(column, 40) for column in columns[:30]) or "none"
