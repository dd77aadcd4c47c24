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
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.data.articles import Article
from suite.data.sentences import sentence_spans

WORD = re.compile(r"\w+")
PRONOUNS = frozenset({"he", "she", "it", "they", "this", "these", "that", "those", "his", "her", "its", "their"})
VERBS = frozenset({"is", "was", "are", "were", "has", "had"})
REDUNDANCY = 0.5  # deviations of all scores that a sentence loses when all of its word pairs are there already
BROUGHT = (
    1.0  # deviations that a sentence loses for each that it brings along: swapping it for another keeps more ROUGE
)
NEW = 0.15  # share of its words that another sentence must lack, or it says the same
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


def _alone(_place: int) -> list[int]:
    return []


def pick(
    sentences: Sequence[BodySentence],
    scores: Floats,
    fits: Callable[[Sequence[BodySentence]], bool],
    most: int = 0,
    before: Callable[[int], list[int] | None] = _alone,
) -> list[int]:
    """Take the best sentences one after another, none that says what one of them said.

    Args:
        sentences: to choose from.
        scores: (N,); a sentence with -inf is only taken with another.
        fits: whether the sentences that are to be taken next still fit; called in the order they are taken. The first
            single sentence that does not fit ends the selection.
        most: sentences to take at most; 0 for no limit.
        before: the indices of the sentences that must be taken with one; None for a sentence that cannot be taken.

    Returns:
        indices of the chosen sentences, in order of the text.
    """
    finite = np.isfinite(scores)
    spread = float(scores[finite].std()) or 1.0
    said: set[tuple[str, str]] = set()
    taken: list[frozenset[str]] = []
    chosen: set[int] = set()
    most = most or len(sentences)
    # scores only fall as more is said: what falls and still is the best need not be compared with the others again, and
    # most sentences of a long text are never looked at
    left = [(-float(scores[place]), int(place)) for place in np.flatnonzero(finite)]
    heapq.heapify(left)

    def value(group: Sequence[int]) -> float:
        """The mean score of sentences, less what was said and what is only brought along."""
        pairs = [pairs_of(words_of(sentences[one].text)) for one in group]
        shares = [len(own & said) / max(1, len(own)) for own in pairs]
        lost = REDUNDANCY * np.mean(shares) + BROUGHT * (len(group) - 1)
        return float(np.mean(scores[list(group)]) - spread * lost)

    while left and len(chosen) < most:
        _, place = heapq.heappop(left)
        if place in chosen or (needed := before(place)) is None:
            continue
        new = [*(one for one in needed if one not in chosen), place]
        now = -value(new)
        if math.isinf(now) or is_said(words_of(sentences[place].text), taken):
            continue
        if left and (now, place) > left[0]:
            heapq.heappush(left, (now, place))
            continue
        if len(chosen) + len(new) > most:
            continue
        if not fits([sentences[one] for one in new]):
            if len(new) == 1:
                break
            continue
        chosen.update(new)
        for one in new:
            words = words_of(sentences[one].text)
            said |= pairs_of(words)
            taken.append(frozenset(words))
            if (
                one + 1 < len(sentences) and finite[one + 1] and before(one + 1)
            ):  # it brings less along now: its score rises
                heapq.heappush(left, (-float(scores[one + 1]), one + 1))
    return sorted(chosen)


def is_said(words: Sequence[str], others: Iterable[Set[str]]) -> bool:
    """Whether one of the others, each as its words, has nearly all of a sentence's words and all its numbers.

    Example:
        >>> others = [{"the", "old", "bridge", "fell", "in", "1820"}]
        >>> texts = ["The bridge fell.", "In 1820 the mill fell.", "It fell in 1821."]
        >>> [is_said(words_of(text), others) for text in texts]
        [True, False, False]
    """
    own = set(words)
    numbers = {word for word in own if word[0].isdigit()}
    return any(len(own - other) <= NEW * len(own) and numbers <= other for other in others)
