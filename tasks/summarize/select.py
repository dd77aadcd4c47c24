"""Selection of the sentences of a body that are most like its lead, within a limit.

A sentence's score is linear in a few features of its position and content; the weights are fitted on training
articles, to the share of a sentence's word pairs that the lead has too. The best are taken one after another, and each
lowers the scores of sentences that say the same.

Source: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences" (extract first, then write); Carbonell and
Goldstein 1998 (maximal marginal relevance).

Shapes: `S` sentences of a body, `F` features, `N` rows.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.data.articles import Article
from suite.data.sentences import sentence_spans

WORD = re.compile(r"\w+")
PRONOUNS = frozenset({"he", "she", "it", "they", "this", "these", "that", "those", "his", "her", "its", "their"})
VERBS = frozenset({"is", "was", "are", "were", "has", "had"})
REDUNDANCY = 0.5  # deviations of all scores that a sentence loses when all of its word pairs are there already
SMALLEST = 1e-9
REPORT = 1000  # sentences

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class BodySentence:
    """A sentence of an article's body.

    Attributes:
        text: without white space around it.
        start, end: its characters in `Article.body`.
        section, paragraph: in the body, from 0.
        place: in its paragraph, from 0.
        opens: whether it begins the first paragraph of its section.
    """

    text: str
    start: int
    end: int
    section: int
    paragraph: int
    place: int
    opens: bool


def sentences_of(article: Article) -> list[BodySentence]:
    """Return the sentences of a body, in order."""
    found, offset, paragraph = [], 0, 0
    for section, one in enumerate(article.sections):
        if not one.text:
            continue
        for number, line in enumerate(one.text.split("\n")):
            spans = sentence_spans(line)
            for place, (start, end) in enumerate(spans):
                found.append(
                    BodySentence(
                        text=line[start:end],
                        start=offset + start,
                        end=offset + end,
                        section=section,
                        paragraph=paragraph,
                        place=place,
                        opens=number == 0 and place == 0,
                    )
                )
            paragraph += bool(spans)
            offset += len(line) + 1
    return found


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return WORD.findall(text.lower())


def pairs_of(words: Sequence[str]) -> set[tuple[str, str]]:
    """Return the pairs of neighbouring words."""
    return set(itertools.pairwise(words))


FEATURES = (
    "log of its place in the body",
    "its place as a share of the body",
    "nearness to the start of the body",
    "begins a paragraph",
    "place in its paragraph",
    "begins a section",
    "in the first section",
    "log of its section",
    "log of the sentences in the body",
    "log of its words",
    "under six words",
    "over forty words",
    "how usual its words are in the body",
    "share of the title's words",
    "names the title",
    "share of capitalised words",
    "share of words with digits",
    "begins with a pronoun",
    "an auxiliary verb among its first words",
    "ends in a colon",
)


def features(
    title: str, sentences: Sequence[BodySentence], progress: Callable[[int], object] = lambda done: None
) -> Floats:
    """(S, F) features of sentences; `progress` is called from time to time with the number of sentences done."""
    named = frozenset(words_of(title))
    usual: Counter[str] = Counter()
    for sentence in sentences:  # their words are found again below: of a long text, they take more room than it does
        usual.update(words_of(sentence.text))
    count = len(sentences)
    rows = np.empty((count, len(FEATURES)))
    for place, sentence in enumerate(sentences):
        one, split = words_of(sentence.text), sentence.text.split()
        size, own = max(1, len(one)), set(one)
        rows[place] = (
            math.log1p(place),
            place / count,
            1 / (1 + place),
            sentence.place == 0,
            min(sentence.place, 5),
            sentence.opens,
            sentence.section == 0,
            math.log1p(sentence.section),
            math.log(count),
            math.log(size),
            size < 6,
            size > 40,
            sum(math.log(usual[word]) for word in own) / max(1, len(own)),
            len(own & named) / max(1, len(named)),
            bool(own & named),
            sum(word[:1].isupper() for word in split[1:]) / max(1, len(split)),
            sum(any(letter.isdigit() for letter in word) for word in split) / max(1, len(split)),
            bool(one) and one[0] in PRONOUNS,
            not VERBS.isdisjoint(one[:8]),
            sentence.text.endswith(":"),
        )
        if place % REPORT == REPORT - 1 or place == count - 1:
            progress(place + 1)
    return rows


def is_whole(sentence: BodySentence) -> bool:
    """Whether a sentence can stand alone: headings and beginnings of lists lack a full stop."""
    return sentence.text.rstrip("\"')]”’»").endswith((".", "!", "?", "…"))  # noqa: RUF001


def usefulness(lead: str, sentences: Sequence[BodySentence]) -> Floats:
    """(S,) share of each sentence's word pairs that also occur in the lead; the target of the scores."""
    wanted = pairs_of(words_of(lead))
    found = []
    for sentence in sentences:
        words = words_of(sentence.text)
        found.append(len(pairs_of(words) & wanted) / max(1, len(words)))
    return np.array(found)


@dataclass(frozen=True, kw_only=True)
class Ranker:
    """A score that is linear in the features.

    Attributes:
        weights: one for each feature.
    """

    weights: tuple[float, ...]

    @classmethod
    def fit(cls, rows: Floats, targets: Floats, penalty: float = 1.0) -> Ranker:
        """Ridge regression of targets (N,) on rows (N, F), each feature scaled to a standard deviation of 1."""
        scale = np.maximum(rows.std(axis=0), SMALLEST)
        scaled = (rows - rows.mean(axis=0)) / scale
        weights = np.linalg.solve(
            scaled.T @ scaled + penalty * np.eye(rows.shape[1]), scaled.T @ (targets - targets.mean())
        )
        return cls(weights=tuple((weights / scale).tolist()))

    def scores(self, rows: Floats) -> Floats:
        """(N,) scores of rows (N, F); only their differences mean something."""
        found: Floats = rows @ np.array(self.weights)
        return found


def pick(
    sentences: Sequence[BodySentence], scores: Floats, fits: Callable[[BodySentence], bool], most: int = 0
) -> list[int]:
    """Take the best sentences one after another, none twice.

    Args:
        sentences: to choose from.
        scores: (N,).
        fits: whether a sentence still fits; called for each in the order they are taken. The first that does not fit
            ends the selection.
        most: sentences to take at most; 0 for no limit.

    Returns:
        indices of the chosen sentences, in order of the text.
    """
    spread = float(scores.std()) or 1.0
    said: set[tuple[str, str]] = set()
    taken: set[tuple[str, ...]] = set()
    chosen: list[int] = []
    # scores only fall as more is said: what falls and still is the best need not be compared with the others again, and
    # most sentences of a long text are never looked at
    left = [(-score, place) for place, score in enumerate(scores.tolist())]
    heapq.heapify(left)
    while left and len(chosen) < (most or len(sentences)):
        _, place = heapq.heappop(left)
        words = tuple(words_of(sentences[place].text))
        if words in taken:
            continue
        pairs = pairs_of(words)
        now = -float(scores[place]) + REDUNDANCY * spread * len(pairs & said) / max(1, len(pairs))
        if left and (now, place) > left[0]:
            heapq.heappush(left, (now, place))
            continue
        if not fits(sentences[place]):
            break
        chosen.append(place)
        said |= pairs
        taken.add(words)
    return sorted(chosen)
