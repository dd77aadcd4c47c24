"""Terms that a translation must use.

Of the best hypotheses, those that have all terms, each where its source term is aligned, come first. Where none has,
the translation is begun anew: up to the word that stands for the source term as the alignment has it, then the
glossary's word, and from there the model goes on by itself. So what follows may be another sentence than before, but it
is the model's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from suite.errors import DataError

if TYPE_CHECKING:
    from suite.tasks.translate.align import Alignment

Flags = NDArray[np.bool_]

PLACES = 3  # that a term is tried at


def read_glossary(path: Path) -> dict[str, str]:
    """Read a file with a term, a tab and its translation on each line; blank lines do not count.

    Raises:
        DataError: a line has no tab, or a side is empty; the line is named.
    """
    from suite.data.record_files import read_text

    glossary = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        term, tab, translation = line.partition("\t")
        if not tab or not term.strip() or not translation.strip():
            raise DataError(f"{path}, line {number}: expected a term, a tab and its translation, not {line.strip()!r}")
        glossary[term.strip()] = translation.strip()
    return glossary


def contains(text: str, term: str) -> bool:
    """Whether a text has a term as whole words, in small or capital letters.

    Example:
        >>> contains("Der Hund bellt.", "hund"), contains("Die Hunde bellen.", "Hund")
        (True, False)
    """
    return _find(text, term) is not None


def _find(text: str, term: str) -> re.Match[str] | None:
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)


def wanted(glossary: Mapping[str, str], source: str) -> tuple[tuple[str, str], ...]:
    """The terms that a source sentence has, each with its translation."""
    return tuple((term, translation) for term, translation in glossary.items() if contains(source, term))


def missing(terms: Sequence[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    """The terms whose translation a text lacks."""
    return [pair for pair in terms if not contains(text, pair[1])]


def in_place(text: str, source: str, pair: tuple[str, str], alignment: Alignment) -> bool:
    """Whether a translation has a term, and has it from the source's term rather than from another word."""
    term, translation = pair
    rows = alignment.weights[_within(text, translation, alignment.target_starts)]
    if not len(rows):
        return False
    return bool(_within(source, term, alignment.source_starts)[int(rows.sum(axis=0).argmax())])


def _within(text: str, term: str, starts: Sequence[int]) -> Flags:
    """Which words, by where they start, belong to the first occurrence of a term."""
    found = _find(text, term)
    return np.array([found is not None and found.start() <= start < found.end() for start in starts], dtype=bool)


def openings(text: str, source: str, pair: tuple[str, str], alignment: Alignment, forced: str) -> list[str]:
    """Starts of a translation that end in a term's translation, the most likely place first.

    Args:
        text: the best translation so far.
        source: the sentence.
        pair: a term and the translation that `text` lacks.
        alignment: of the two.
        forced: a start that must stay.
    """
    term, translation = pair
    weights = alignment.weights[:, _within(source, term, alignment.source_starts)].sum(axis=1)  # of each target word
    places = [alignment.target_starts[word] for word in (-weights).argsort()[:PLACES].tolist()]
    starts = (text[:place].rstrip() for place in places)
    return [
        f"{start} {translation}" if start else translation[0].upper() + translation[1:]
        for start in starts
        if start.startswith(forced)
    ]
