"""Corpora to learn from: pairs read and filtered, some held out, some joined, and all of them written as examples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from suite.data.hub import to_validate
from suite.data.parallel import Corpus, Pair, describe_dropped, filter_pairs, read_pairs
from suite.errors import DataError
from suite.tasks.translate.format import join
from suite.wording import count

if TYPE_CHECKING:
    from suite.tasks.translate.task import TranslateDataTable
    from suite.text.tokenizer import Tokenizer
    from suite.training.batches import Example

HELD_OUT_MOST = 1000  # pairs, however many there are
HELD_OUT_TRIES = 32  # pairs tried alone, where those drawn leave nothing to learn from


@dataclass(frozen=True, kw_only=True)
class FilteredCorpus:
    """The pairs of one corpus, read and filtered.

    Attributes:
        corpus: where they come from.
        pairs: those that are kept.
        note: how many they are, and what was dropped.
    """

    corpus: Corpus
    pairs: list[Pair]
    note: str

    def texts(self) -> Iterable[str]:
        """Both sides of all pairs."""
        return (text for pair in self.pairs for text in (pair.source, pair.target))


def read_corpora(data: TranslateDataTable, seed: int) -> tuple[list[FilteredCorpus], list[FilteredCorpus], list[str]]:
    """Read a recipe's corpora.

    Args:
        data: the recipe's table `data`.
        seed: of the pairs that are held out where no validation corpora are named.

    Returns:
        corpora to train on, corpora to validate on, and a line about each.

    Raises:
        DataError: one cannot be read or has no pairs, or there are too few to hold some out.
    """
    train = [read_corpus(Corpus.parse(text, data.source, data.target), data) for text in data.train]
    named = [Corpus.parse(text, data.source, data.target) for text in data.valid]
    names, notes = to_validate([corpus.name for corpus in named])
    valid = [read_corpus(replace(corpus, name=name), data) for corpus, name in zip(named, names, strict=True)]
    notes += [f"training pairs: {corpus.note}" for corpus in train]
    notes += [f"validation pairs: {corpus.note}" for corpus in valid]
    if not valid:
        train, valid, note = hold_out(train, data.held_out, seed)
        notes.append(note)
    return train, valid, notes


def read_corpus(corpus: Corpus, data: TranslateDataTable) -> FilteredCorpus:
    """Read and filter a corpus.

    Raises:
        DataError: it cannot be read, or no pair is left.
    """
    pairs, dropped = filter_pairs(
        read_pairs(corpus, columns=data.columns), max_ratio=data.max_ratio, keep_copies=data.keep_copies
    )
    if not pairs:
        raise DataError(f"{corpus.name}: no pairs are left ({describe_dropped(dropped) or 'the data has none'})")
    note = f"{len(pairs):,} {corpus.source}-{corpus.target} in {corpus.name}"
    if dropped:
        note += f"; dropped {describe_dropped(dropped)}"
    return FilteredCorpus(corpus=corpus, pairs=pairs, note=note)


def directions(corpus: Corpus, both_ways: bool) -> list[tuple[str, str]]:
    """The (source, target) in which a corpus is learnt."""
    forward = (corpus.source, corpus.target)
    return [forward, forward[::-1]] if both_ways else [forward]


def hold_out(
    train: Sequence[FilteredCorpus], share: float, seed: int
) -> tuple[list[FilteredCorpus], list[FilteredCorpus], str]:
    """Split training pairs so that no sentence of the held-out ones is learnt from.

    Args:
        train: all pairs.
        share: to hold out, at most `HELD_OUT_MOST` pairs.
        seed: of the draw.

    Returns:
        pairs to train on, pairs to validate on, and a line about it.

    Raises:
        DataError: there are too few pairs to split.
    """
    import numpy as np

    total = sum(len(each.pairs) for each in train)
    number = min(max(1, round(total * share)), HELD_OUT_MOST, max(1, total - 1))
    order = np.random.default_rng((seed, 7)).permutation(total).tolist()
    # where all others share a sentence with those drawn, some single pair may leave something to learn from
    for drawn in (order[:number], *([place] for place in order[:HELD_OUT_TRIES])):
        kept, held = without_sentences_of(train, set(drawn))
        if kept:
            break
    else:
        raise DataError(f"{count(total, 'pair')} is too few to hold some out; give validation pairs with --valid")
    number = len(drawn)
    beside = total - number - sum(len(each.pairs) for each in kept)
    note = f"held out for validation: {count(number, 'pair')}"
    if beside:
        note += f"; {count(beside, 'more pair')} sharing a sentence with them left out of training"
    return kept, held, note


def without_sentences_of(
    train: Sequence[FilteredCorpus], drawn: Set[int]
) -> tuple[list[FilteredCorpus], list[FilteredCorpus]]:
    """The pairs that share no sentence with those drawn, by their places among all pairs; and those drawn."""
    kept: list[FilteredCorpus] = []
    held: list[FilteredCorpus] = []
    start = 0
    chosen: list[list[Pair]] = []
    for each in train:
        chosen.append([pair for place, pair in enumerate(each.pairs, start) if place in drawn])
        start += len(each.pairs)
    texts = {text.casefold() for pairs in chosen for pair in pairs for text in (pair.source, pair.target)}
    for each, pairs in zip(train, chosen, strict=True):
        left = [p for p in each.pairs if p.source.casefold() not in texts and p.target.casefold() not in texts]
        if left:
            kept.append(replace(each, pairs=left))
        if pairs:
            held.append(replace(each, pairs=pairs))
    return kept, held


def concatenate(corpus: FilteredCorpus, share: float, seed: Sequence[int]) -> FilteredCorpus:
    """A corpus of two or three random pairs in a row, `share` times as many as the pairs of the given one.

    Source: Kondo et al. 2021 (two in a row, there).
    """
    import numpy as np

    random = np.random.default_rng([*seed, 8])
    found = []
    for _ in range(round(len(corpus.pairs) * share)):
        parts = [corpus.pairs[place] for place in random.integers(len(corpus.pairs), size=random.integers(2, 4))]
        source, target = (" ".join(part[side] for part in parts) for side in (0, 1))
        found.append(Pair(source, target, parts[0].place))
    return replace(corpus, pairs=found)


def length_ratios(train: Sequence[FilteredCorpus], both_ways: bool) -> dict[str, tuple[float, float]]:
    """By direction, mean and standard deviation of log(target characters / source characters)."""
    sums: dict[str, list[float]] = {}
    for each in train:
        ratios = [math.log(len(pair.target) / len(pair.source)) for pair in each.pairs]
        for sign, (source, target) in zip((1, -1), directions(each.corpus, both_ways), strict=False):
            totals = sums.setdefault(f"{source}-{target}", [0.0, 0.0, 0.0])
            for place, value in enumerate((len(ratios), sign * sum(ratios), sum(ratio**2 for ratio in ratios))):
                totals[place] += value
    return {
        direction: (total / count, math.sqrt(max(0.0, squares / count - (total / count) ** 2)))
        for direction, (count, total, squares) in sums.items()
    }


class PairEncoder:
    """Writes pairs as examples.

    Args:
        tokenizer: has all languages' tags.
        both_ways: whether pairs are learnt back too.
        causal: the source is read from left to right alone.
        limit: tokens of one side at most.
    """

    def __init__(self, tokenizer: Tokenizer, both_ways: bool, causal: bool, limit: int) -> None:
        self.tokenizer, self.both_ways, self.causal, self.limit = tokenizer, both_ways, causal, limit

    def examples(self, corpora: Sequence[FilteredCorpus], purpose: str, notes: list[str]) -> list[Example]:
        """Sequences of all pairs in all their directions; a line about those that are too long goes to `notes`.

        Raises:
            DataError: nothing is left.
        """
        long: list[str] = []
        found = [example for each in corpora for _, examples in self.fitting(each, long) for example in examples]
        self.tell_dropped(len(found), long, purpose, notes)
        return found

    def tell_dropped(self, kept: int, long: Sequence[str], purpose: str, notes: list[str]) -> None:
        """Add a line about pairs that are too long to `notes`.

        Raises:
            DataError: none was kept.
        """
        if long:
            notes.append(
                f"{purpose} pairs dropped: {len(long):,} with more than {self.limit} tokens on a side "
                f"(first: {long[0]})"
            )
        if not kept:
            raise DataError(f"no {purpose} pair is short enough; raise model.context or data.max_tokens ({self.limit})")

    def fitting(self, corpus: FilteredCorpus, long: list[str]) -> Iterator[tuple[Pair, list[Example]]]:
        """The short enough pairs, each with its example in each direction; `long` gets where the others stand."""
        ways = directions(corpus.corpus, self.both_ways)
        for pair in corpus.pairs:
            sides = self.tokenizer.encode(pair.source), self.tokenizer.encode(pair.target)
            if max(map(len, sides)) > self.limit:
                long.append(f"{corpus.corpus.name}, line {pair.place:,}")
                continue
            yield pair, [self._join(*each, *way) for each, way in zip((sides, sides[::-1]), ways, strict=False)]

    def example(self, text: str, translation: str, source: str, target: str) -> Example | None:
        """The sequence of a sentence and its translation, or None if one of them is too long."""
        sides = self.tokenizer.encode(text), self.tokenizer.encode(translation)
        return None if max(map(len, sides)) > self.limit else self._join(*sides, source, target)

    def _join(self, first: Sequence[int], second: Sequence[int], source: str, target: str) -> Example:
        import numpy as np

        from suite.training.batches import Example

        dtype = np.uint16 if self.tokenizer.vocab_size <= 1 << 16 else np.uint32
        tokens, prefix, start = join(self.tokenizer, first, second, source, target, causal=self.causal)
        return Example(np.array(tokens, dtype=dtype), prefix, start)
