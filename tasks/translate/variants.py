"""Variants of training pairs: how people type, and what must be copied; drawn anew each time the pairs are passed.

The flow: each pair in each direction is an example of every epoch, as it is or varied; besides there are examples made
of nothing but words, letters' openings, sentences with links and dates, and several pairs in a row. All of an epoch's
draws follow from the seed and the epoch, so that a run can be resumed anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from suite.data.parallel import Pair
from suite.errors import ConfigError
from suite.tasks.translate.checks import LINK
from suite.tasks.translate.corpora import FilteredCorpus, PairEncoder, directions
from suite.tasks.translate.made import LANGUAGES, PairMaker
from suite.tasks.translate.names import NameMaker, copied_names, replaced
from suite.wording import count

if TYPE_CHECKING:
    from suite.tasks.translate.word_pairs import WordPair
    from suite.training.batches import Example, RedrawnSource

TRIES = 8  # draws of an example that fits the context, before a pair as it is takes its place

_END = re.compile(r"(?<=[^\s.!?…])[\s\u00a0\u202f]*[.!?…]+$")
_ABBREVIATED = re.compile(r"\b\w\.\w\.$")  # "p.m."


@dataclass(frozen=True, kw_only=True)
class VariantsTable:
    """The table `data.variants` of a translation recipe; without any of them, pairs are learnt as they are.

    Args:
        unpunctuated: share of the examples whose two sides lose their final punctuation.
        lower: share whose source is in lower case; the target keeps its capitals.
        capitals: share whose source is in capitals.
        replaced: share of the examples with a name or a number on both sides that get another name or number.
        words: examples of single words, as a share of the pairs; found by `suite.tasks.translate.word_pairs`.
        letters: examples of openings and closings of letters, as a share of the pairs (English, German, French).
        copied: examples with links, dates, amounts and the like, as a share of the pairs (in the same languages).
    """

    unpunctuated: float = 0.0
    lower: float = 0.0
    capitals: float = 0.0
    replaced: float = 0.0
    words: float = 0.0
    letters: float = 0.0
    copied: float = 0.0

    def __post_init__(self) -> None:
        for key, share in asdict(self).items():
            if not 0 <= share <= 1:
                raise ConfigError(f"data.variants.{key} is {share}, but must be between 0 and 1")
        if self.lower + self.capitals > 1:
            raise ConfigError("data.variants.lower and capitals together must be at most 1")

    def __bool__(self) -> bool:
        return any(asdict(self).values())


def unpunctuated(pair: Pair) -> Pair:
    """The pair without final punctuation, if both sides have it; a last abbreviation keeps its point.

    Example:
        >>> unpunctuated(Pair("Really?", "Vraiment ?", 1))
        Pair(source='Really', target='Vraiment', place=1)
    """
    ends = [None if _ABBREVIATED.search(text) else _END.search(text) for text in pair[:2]]
    if ends[0] is None or ends[1] is None:
        return pair
    return Pair(pair.source[: ends[0].start()], pair.target[: ends[1].start()], pair.place)


def cased(text: str, case: Callable[[str], str]) -> str:
    """The text in another case, but for links and e-mail addresses.

    Example:
        >>> cased("See Tom at www.Example.org, please", str.lower)
        'see tom at www.Example.org, please'
    """
    parts, end = [], 0
    for link in LINK.finditer(text):
        parts += [case(text[end : link.start()]), link[0]]
        end = link.end()
    return "".join([*parts, case(text[end:])])


class CorpusVariants:
    """Draws the examples of one corpus.

    Args:
        corpus: the pairs.
        encoder: writes them as examples.
        table: how many variants of which kind.
        joined: examples of two or three pairs in a row, as a share of the pairs.
        words: single words and their translations.
        long: gets where the pairs stand that are too long.
    """

    def __init__(
        self,
        corpus: FilteredCorpus,
        encoder: PairEncoder,
        table: VariantsTable,
        joined: float,
        words: Sequence[WordPair],
        long: list[str],
    ) -> None:
        self.corpus, self.encoder, self.table, self.words = corpus, encoder, table, words
        self.ways = directions(corpus.corpus, encoder.both_ways)
        self.pairs = list(encoder.fitting(corpus, long))
        self.names = copied_names(corpus.pairs) if table.replaced else frozenset()
        self.namer = NameMaker(self.names)
        source, target = corpus.corpus.source, corpus.corpus.target
        self.maker = PairMaker(source, target, self.namer)
        kinds: list[tuple[float, Callable[[Random], Pair]]] = [(joined, self._joined)]
        if words:
            kinds.append((table.words, lambda random: Pair(*random.choice(words), 0)))
        if {source, target} <= set(LANGUAGES):
            kinds += [(table.letters, self._letter), (table.copied, self._copied)]
        self.made = [(round(share * len(self.pairs)), make) for share, make in kinds if self.pairs]

    def draw(self, random: Random) -> list[Example]:
        """The examples of an epoch: as many each time."""
        found = []
        for pair, plain in self.pairs:
            for way, example in enumerate(plain):
                found.append(self._varied(pair, way, random) or example)
        for number, make in self.made:
            found += [self._example(make, random) for _ in range(number)]
        return found

    def _varied(self, pair: Pair, way: int, random: Random) -> Example | None:
        """A variant of a pair, or None where it stays as it is or becomes too long."""
        changed = pair
        if random.random() < self.table.replaced:
            changed = replaced(pair, self.names, self.namer, random)
        if random.random() < self.table.unpunctuated:
            changed = unpunctuated(changed)
        source, target = changed[:2] if way == 0 else changed[1::-1]
        case = random.random()
        if case < self.table.lower:
            source = cased(source, str.lower)
        elif case < self.table.lower + self.table.capitals:
            source = cased(source, str.upper)
        if changed is pair and source == pair[way]:
            return None
        return self.encoder.example(source, target, *self.ways[way])

    def _example(self, make: Callable[[Random], Pair], random: Random) -> Example:
        """An example of a made pair, in a direction that is drawn, with the variants of other pairs."""
        for _ in range(TRIES):
            pair, way = make(random), random.randrange(len(self.ways))
            found = self._varied(pair, way, random)
            found = found or self.encoder.example(pair.sides[way], pair.sides[1 - way], *self.ways[way])
            if found is not None:
                return found
        return random.choice(random.choice(self.pairs)[1])

    def _letter(self, random: Random) -> Pair:
        return self.maker.letter(random)

    def _copied(self, random: Random) -> Pair:
        """A made sentence, or any pair with something to copy behind it."""
        if random.random() < 0.75:
            return self.maker.sentence(random)
        return self.maker.extended(random.choice(self.pairs)[0], random)

    def _joined(self, random: Random) -> Pair:
        """Two or three pairs in a row; those before the last may have no punctuation, as lines of a list have none."""
        parts = [random.choice(self.pairs)[0] for _ in range(random.randrange(2, 4))]
        parts = [
            unpunctuated(part) if part is not parts[-1] and random.random() < self.table.unpunctuated else part
            for part in parts
        ]
        source, target = (" ".join(part.sides[side] for part in parts) for side in (0, 1))
        return Pair(source, target, parts[0].place)


def variant_source(
    corpora: Sequence[FilteredCorpus],
    encoder: PairEncoder,
    table: VariantsTable,
    joined: float,
    seed: int,
    cache: Path,
    notes: list[str],
) -> RedrawnSource:
    """The training examples of a recipe with variants.

    Args:
        corpora: to train on.
        encoder: writes pairs as examples.
        table: how many variants of which kind.
        joined: examples of several pairs in a row, as a share of the pairs.
        seed: of all draws.
        cache: where extracted words are kept.
        notes: gets a line for each corpus, and one about pairs that are too long.

    Raises:
        DataError: no pair is short enough.
    """
    from suite.tasks.translate.word_pairs import word_pairs
    from suite.training.batches import RedrawnSource

    drawers: list[CorpusVariants] = []
    long: list[str] = []
    for each in corpora:
        words = word_pairs(each.pairs, cache) if table.words else []
        drawers.append(CorpusVariants(each, encoder, table, joined, words, long))
        notes.append(
            f"variants of {each.corpus.name}: {count(len(words), 'word')} to translate alone, "
            f"{count(len(drawers[-1].names), 'name')} to replace"
        )
    encoder.tell_dropped(sum(len(drawer.pairs) for drawer in drawers), long, "training", notes)

    def draw(epoch: int) -> list[Example]:
        return [
            example
            for place, drawer in enumerate(drawers)
            for example in drawer.draw(Random(f"variants {seed} {place} {epoch}"))
        ]

    return RedrawnSource(draw, seed)
