"""Words and their translations, found in sentence pairs by a statistical alignment.

Each word of a target sentence comes from one of its source's words, or from none: expectation maximisation finds the
probability with which each source word becomes each target word, in both directions, and a pair of words is kept where
each is the other's most probable translation. Source: Brown et al. 1993, "The Mathematics of Statistical Machine
Translation", model 1; the agreement of both directions: Och and Ney 2003.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.data.parallel import Pair
from suite.files import write_atomic

ROUNDS = 5  # of expectation maximisation
LEAST_COUNT = 2.0  # expected number of times that a pair of words is aligned
LEAST_PROBABILITY = 0.15  # of each word given the other
LONGEST = 30  # words of a sentence that is aligned

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")

Ids = NDArray[np.int64]
WordPair = tuple[str, str]


def word_pairs(pairs: Sequence[Pair], cache: Path) -> list[WordPair]:
    """Source words and their translations, by falling frequency; kept in `cache` by a hash of the pairs."""
    digest = hashlib.sha256(json.dumps([ROUNDS, LEAST_COUNT, LEAST_PROBABILITY, LONGEST]).encode())
    for pair in pairs:
        digest.update(f"{pair.source}\t{pair.target}\n".encode())
    kept = cache / "words" / f"{digest.hexdigest()[:24]}.json"
    if not kept.exists():
        found = json.dumps(extract(pairs), ensure_ascii=False)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, found.encode())
    return [(source, target) for source, target in json.loads(kept.read_text(encoding="utf-8"))]


def extract(pairs: Sequence[Pair]) -> list[WordPair]:
    """Source words and their translations, by falling frequency; words as they are written inside a sentence."""
    sides = [cased([_WORD.findall(pair.sides[side]) for pair in pairs]) for side in (0, 1)]
    rows = [row for row in zip(*sides, strict=True) if row[0] and row[1] and max(len(row[0]), len(row[1])) <= LONGEST]
    if not rows:
        return []
    (first, sources), (second, targets) = (numbered([row[side] for row in rows]) for side in (0, 1))
    there = translation_table(first, second, len(sources))
    back = translation_table(second, first, len(targets))
    count, probability = there
    _, reverse = back
    found = []
    best_target = best(probability, 0)
    best_source = best(reverse, 0)
    for source, target in best_target.items():
        word, other = sources[source], targets[target]
        if best_source.get(target) != source or min(len(word), len(other)) < 2 or not (word + other).isalpha():
            continue
        if min(probability[source, target], reverse[target, source]) < LEAST_PROBABILITY:
            continue
        if count[source, target] >= LEAST_COUNT:
            found.append((-count[source, target], word, other))
    return [(word, other) for _, word, other in sorted(found)]


def cased(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """The sentences with each word as it is mostly written where it is not the first of its sentence.

    Example:
        >>> cased([["Das", "Haus"], ["Haus", "ist", "das"], ["Ja", "das", "Haus"]])
        [['das', 'Haus'], ['Haus', 'ist', 'das'], ['ja', 'das', 'Haus']]
    """
    inside = Counter(word for words in sentences for word in words[1:])
    usual: dict[str, str] = {}
    for word, _ in inside.most_common():
        usual.setdefault(word.lower(), word)
    return [[usual.get(low := word.lower(), low) for word in words] for words in sentences]


def numbered(sentences: Sequence[Sequence[str]]) -> tuple[list[list[int]], list[str]]:
    """The sentences as numbers of their words, and the words."""
    ids: dict[str, int] = {}
    rows = [[ids.setdefault(word, len(ids)) for word in words] for words in sentences]
    return rows, list(ids)


Table = dict[tuple[int, int], float]


def translation_table(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], words: int
) -> tuple[Table, Table]:
    """By (source word, target word), how often they are expected to be aligned, and p(target word | source word).

    Args:
        sources, targets: sentences as numbers of words.
        words: of the source vocabulary; the number `words` stands for no word.
    """
    given = [[words, *row] for row in sources]
    sizes = np.array([len(row) for row in given])
    flat = np.array([word for row in given for word in row], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    lengths = np.array([len(row) for row in targets])
    became = np.array([word for row in targets for word in row], dtype=np.int64)
    # each target word stands beside each word of its source
    widths = np.repeat(sizes, lengths)  # of each target word's group
    firsts = np.concatenate(([0], np.cumsum(widths)[:-1]))
    within = np.arange(widths.sum()) - np.repeat(firsts, widths)
    source = flat[np.repeat(np.repeat(starts, lengths), widths) + within]
    keys, inverse = np.unique(source * (became.max() + 1) + np.repeat(became, widths), return_inverse=True)
    key_source, key_target = np.divmod(keys, became.max() + 1)
    probability = np.ones(len(keys))
    counts: NDArray[np.float64] = probability
    for _ in range(ROUNDS):
        share = probability[inverse]
        share /= np.repeat(np.add.reduceat(share, firsts), widths)
        counts = np.asarray(np.bincount(inverse, share, len(keys)), dtype=np.float64)
        probability = counts / np.bincount(key_source, counts, words + 1)[key_source]
    likely = np.flatnonzero((probability >= LEAST_PROBABILITY) & (key_source < words))
    chosen = list(zip(key_source[likely].tolist(), key_target[likely].tolist(), strict=True))
    return (
        dict(zip(chosen, counts[likely].tolist(), strict=True)),
        dict(zip(chosen, probability[likely].tolist(), strict=True)),
    )


def best(table: Table, side: int) -> dict[int, int]:
    """For each word on a side of the table, the most probable one on the other."""
    found: dict[int, tuple[float, int]] = {}
    for pair, probability in table.items():
        found[pair[side]] = max(found.get(pair[side], (0.0, -1)), (probability, pair[1 - side]))
    return {word: other for word, (_, other) in found.items()}
