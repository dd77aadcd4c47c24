"""Translation: `<bos> <en> source <de> target <eos>`, loss on the target, many directions in one model.

Torch is imported inside functions, so that the command line can list this task without paying for it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.data.parallel import MAX_RATIO, Corpus, Pair, describe_dropped, filter_pairs, read_pairs
from suite.errors import ConfigError, DataError
from suite.task import PackagedTask, TrainingData
from suite.tasks.translate.format import Attention, Languages, join, special_tokens
from suite.wording import count

if TYPE_CHECKING:
    import click

    from suite.checkpoint import Model
    from suite.tasks.translate.pipeline import Translator
    from suite.text.tokenizer import Tokenizer
    from suite.training.batches import Example
    from suite.training.recipe import Recipe

HELD_OUT_MOST = 1000  # pairs, however many there are
HELD_OUT_TRIES = 32  # pairs tried alone, where those drawn leave nothing to learn from
FRAME = 4  # tokens of a sequence that are not text: <bos>, two tags, <eos>


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The table `data` of a translation recipe.

    Args:
        train, valid: corpora as `suite.data.parallel.Corpus` reads them, such as "en-de=pairs.tsv". Without `valid`,
            a part of `train` is held out.
        source, target: languages of the corpora that name none.
        columns: of source and target, if not the usual ones; see `suite.data.parallel.read_pairs`.
        both_ways: whether each pair is learnt from source to target and back.
        max_tokens: of one side; longer pairs are dropped. 0: what the model's context has room for.
        max_ratio: characters of one side to those of the other, beyond which a pair is dropped; 0 for no limit.
        keep_copies: whether pairs stay whose two sides are the same.
        concatenated: examples made of two or three random pairs in a row, as a share of the pairs, so that a model of
            short sentences learns long input. Source: Kondo et al. 2021, "Sentence Concatenation Approach to Data
            Augmentation for Neural Machine Translation".
        held_out: share of the training pairs held out for validation (at most a thousand pairs).
        valid_pairs: pairs of each validation corpus that training looks at, from its start; 0 for all.
    """

    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    source: str = ""
    target: str = ""
    columns: list[str] = field(default_factory=list)
    both_ways: bool = True
    max_tokens: int = 0
    max_ratio: float = MAX_RATIO
    keep_copies: bool = False
    concatenated: float = 0.0
    held_out: float = 0.05
    valid_pairs: int = 0

    def __post_init__(self) -> None:
        if not self.train:
            raise ConfigError("there are no training pairs; give them with --data or in the recipe's data.train")
        if not 0 < self.held_out < 1:
            raise ConfigError(f"data.held_out is {self.held_out}, but must be between 0 and 1")
        if min(self.max_tokens, self.max_ratio, self.concatenated, self.valid_pairs) < 0:
            raise ConfigError("data.max_tokens, max_ratio, concatenated and valid_pairs must not be negative")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The table `tokenizer` of a recipe: one vocabulary for all languages.

    Args:
        kind: "auto" (the base model's, "bpe" without a base), "bpe" (trained on the training pairs), "bytes", or
            "file".
        vocab_size: of a trained one, special tokens included.
        path: of an existing tokenizer's file or directory, which must have the languages' tags.
    """

    kind: Literal["auto", "bpe", "bytes", "file"] = "auto"
    vocab_size: int = 8000
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The table `translate` of a recipe.

    Args:
        attention: "prefix" (source and tags see each other both ways) or "causal".
    """

    attention: Attention = "prefix"


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """The pairs of one corpus, read and filtered.

    Args:
        corpus: where they come from.
        pairs: those that are kept.
        note: how many they are, and what was dropped.
    """

    corpus: Corpus
    pairs: list[Pair]
    note: str


class Translation(PackagedTask):
    """The task `translate`."""

    name = "translate"
    summary = "translate text between languages"

    def train_options(self) -> Sequence[click.Option]:
        """The languages of corpora that name none."""
        import click

        return [
            click.Option(["--source"], metavar="LANG", help="Language to translate from."),
            click.Option(["--target"], metavar="LANG", help="Language to translate into."),
        ]

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Read and filter the recipe's pairs, train the tokenizer on them, and write each direction as sequences."""
        from suite.checkpoint import vocabulary
        from suite.training.batches import ShuffledSource
        from suite.training.recipe import from_table

        data = from_table(DataConfig, recipe.data, "recipe", "data.")
        choice = from_table(TokenizerConfig, recipe.tokenizer, "recipe", "tokenizer.")
        options = from_table(Options, recipe.options, "recipe", f"{self.name}.")
        check_attention(options.attention, recipe)
        tokenizer, longest = vocabulary(recipe.base) if recipe.base else (None, 0)
        limit = _limit(data, int(recipe.model.get("context", longest)))
        train = [read_sentences(text, data) for text in data.train]
        valid = [read_sentences(text, data) for text in data.valid]
        notes = [f"training pairs: {corpus.note}" for corpus in train]
        notes += [f"validation pairs: {corpus.note}" for corpus in valid]
        if not valid:
            train, valid, note = hold_out(train, data.held_out, recipe.seed)
            notes.append(note)
        languages = tuple(sorted({code for each in train for code in (each.corpus.source, each.corpus.target)}))
        if tokenizer is None or choice.kind != "auto":
            tokenizer = make_tokenizer(choice, train, languages, cache)
        if missing := [name for name in special_tokens(languages) if name not in tokenizer.specials]:
            raise ConfigError(
                f"the vocabulary of {choice.path or recipe.base} has no special token {', '.join(missing)}"
            )
        writer = _Writer(tokenizer, data.both_ways, options.attention == "causal", limit)
        joined = [concatenate(each, data.concatenated, (recipe.seed, place)) for place, each in enumerate(train)]
        examples = writer.examples([*train, *joined], "training", notes)
        sources = sorted(example.target - FRAME + 1 for example in examples)
        curve = [replace(each, pairs=each.pairs[: data.valid_pairs or None]) for each in valid]
        held = writer.examples(curve, "validation", notes)
        tokens = sum(len(example.tokens) for example in examples)
        notes.append(
            f"sequences: {len(examples):,} for training ({count(tokens, 'token')}), {len(held):,} for validation"
        )
        known = Languages(
            languages=languages,
            directions=tuple(sorted({way for each in train for way in directions(each.corpus, data.both_ways)})),
            attention=options.attention,
            # a model is at a loss with sources longer than nearly all it has seen
            source_limit=sources[int(0.999 * (len(sources) - 1))],
            length_ratio=length_ratios(train, data.both_ways),
        )
        return TrainingData(
            train=ShuffledSource(examples, recipe.seed),
            valid=held,
            tokenizer=tokenizer,
            vocab_size=tokenizer.vocab_size,
            extra=known.to_extra(),
            notes=notes,
        )

    def pipeline(self, model: Model, **options: Any) -> Translator:
        """A callable from texts to translations."""
        from suite.tasks.translate.pipeline import Translator

        return Translator(model, **options)


def check_attention(attention: Attention, recipe: Recipe) -> None:
    """Raise a ConfigError where a setting does not go with the attention on the source."""
    if attention == "prefix" and recipe.loss.source_weight:
        raise ConfigError(
            "loss.source_weight needs translate.attention=causal: in a prefix, tokens see what they should predict"
        )
    if attention == "causal" and recipe.model.get("restart_positions"):
        raise ConfigError("model.restart_positions needs translate.attention=prefix: positions restart after a prefix")


def directions(corpus: Corpus, both_ways: bool) -> list[tuple[str, str]]:
    """The (source, target) in which a corpus is learnt."""
    forward = (corpus.source, corpus.target)
    return [forward, forward[::-1]] if both_ways else [forward]


def read_sentences(text: str, data: DataConfig) -> Sentences:
    """Read and filter the corpus that `text` names.

    Raises:
        DataError: it cannot be read, or no pair is left.
    """
    corpus = Corpus.parse(text, data.source, data.target)
    pairs, dropped = filter_pairs(
        read_pairs(corpus, columns=data.columns), max_ratio=data.max_ratio, keep_copies=data.keep_copies
    )
    if not pairs:
        raise DataError(f"{corpus.name}: no pairs are left ({describe_dropped(dropped) or 'the data has none'})")
    note = f"{len(pairs):,} {corpus.source}-{corpus.target} in {corpus.name}"
    if dropped:
        note += f"; dropped {describe_dropped(dropped)}"
    return Sentences(corpus=corpus, pairs=pairs, note=note)


def hold_out(train: Sequence[Sentences], share: float, seed: int) -> tuple[list[Sentences], list[Sentences], str]:
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


def without_sentences_of(train: Sequence[Sentences], drawn: Set[int]) -> tuple[list[Sentences], list[Sentences]]:
    """The pairs that share no sentence with those drawn, by their places among all pairs; and those drawn."""
    kept: list[Sentences] = []
    held: list[Sentences] = []
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


def concatenate(sentences: Sentences, share: float, seed: Sequence[int]) -> Sentences:
    """Two or three random pairs in a row, so many times as `share` of the pairs.

    Source: Kondo et al. 2021 (two in a row, there).
    """
    import numpy as np

    random = np.random.default_rng([*seed, 8])
    found = []
    for _ in range(round(len(sentences.pairs) * share)):
        parts = [sentences.pairs[place] for place in random.integers(len(sentences.pairs), size=random.integers(2, 4))]
        source, target = (" ".join(part[side] for part in parts) for side in (0, 1))
        found.append(Pair(source, target, parts[0].place))
    return replace(sentences, pairs=found)


def length_ratios(train: Sequence[Sentences], both_ways: bool) -> dict[str, tuple[float, float]]:
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


def make_tokenizer(
    config: TokenizerConfig, train: Sequence[Sentences], languages: Sequence[str], cache: Path
) -> Tokenizer:
    """Read the tokenizer of a recipe, or train it on all sentences; trained ones are kept in `cache`.

    Raises:
        CheckpointError: the file is no tokenizer.
    """
    from suite.text.tokenizer import Tokenizer

    specials = special_tokens(languages)
    if config.kind == "file":
        return Tokenizer.load(config.path)
    if config.kind == "bytes":
        return Tokenizer.bytes(specials)
    digest = hashlib.sha256(json.dumps([config.vocab_size, specials]).encode())
    for text in _texts(train):
        digest.update(text.encode() + b"\n")
    kept = cache / "tokenizers" / f"translate-{digest.hexdigest()[:24]}"
    if not (kept / "tokenizer.json").exists():
        Tokenizer.train(_texts(train), config.vocab_size, specials).save(kept)
    return Tokenizer.load(kept)


def _texts(corpora: Iterable[Sentences]) -> Iterable[str]:
    return (text for each in corpora for pair in each.pairs for text in (pair.source, pair.target))


def _limit(data: DataConfig, context: int) -> int:
    """Tokens of one side at most."""
    room = (context - FRAME) // 2
    if room < 1:
        raise ConfigError("model.context (tokens of a source and its translation together) is missing or too small")
    if data.max_tokens > room:
        raise ConfigError(
            f"data.max_tokens {data.max_tokens} on each side do not fit model.context {context}, which has "
            f"room for {room}"
        )
    return data.max_tokens or room


class _Writer:
    """Writes pairs as examples.

    Args:
        tokenizer: has all languages' tags.
        both_ways: whether pairs are learnt back too.
        causal: the source is read from left to right alone.
        limit: tokens of one side at most.
    """

    def __init__(self, tokenizer: Tokenizer, both_ways: bool, causal: bool, limit: int) -> None:
        self.tokenizer, self.both_ways, self.causal, self.limit = tokenizer, both_ways, causal, limit

    def examples(self, corpora: Sequence[Sentences], purpose: str, notes: list[str]) -> list[Example]:
        """Sequences of all pairs in all their directions; a line about what is too long goes to `notes`.

        Raises:
            DataError: nothing is left.
        """
        import numpy as np

        from suite.training.batches import Example

        dtype = np.uint16 if self.tokenizer.vocab_size <= 1 << 16 else np.uint32
        found = []
        long = []
        for each in corpora:
            for pair in each.pairs:
                sides = self.tokenizer.encode(pair.source), self.tokenizer.encode(pair.target)
                if max(map(len, sides)) > self.limit:
                    long.append(f"{each.corpus.name}, line {pair.place:,}")
                    continue
                ways = directions(each.corpus, self.both_ways)
                for (source, target), (first, second) in zip(ways, (sides, sides[::-1]), strict=False):
                    tokens, prefix, start = join(self.tokenizer, first, second, source, target, causal=self.causal)
                    found.append(Example(np.array(tokens, dtype=dtype), prefix, start))
        if long:
            notes.append(
                f"{purpose} pairs dropped: {len(long):,} with more than {self.limit} tokens on a side "
                f"(first: {long[0]})"
            )
        if not found:
            raise DataError(f"no {purpose} pair is short enough; raise model.context or data.max_tokens ({self.limit})")
        return found
