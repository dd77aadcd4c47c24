"""Translation: `<bos> <en> source <de> target <eos>`, loss on the target, many directions in one model.

Torch is imported inside functions, so that the command line can list this task without paying for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.data.parallel import MAX_RATIO, Pair
from suite.errors import ConfigError
from suite.task import PackagedTask, TokenizerTable, TrainingData
from suite.task.tables import check_held_out
from suite.tasks.translate.corpora import (
    FilteredCorpus,
    PairEncoder,
    concatenate,
    directions,
    length_ratios,
    read_corpora,
)
from suite.tasks.translate.format import FRAME, SPECIALS, Attention, Languages, special_tokens
from suite.tasks.translate.results import Translation
from suite.tasks.translate.variants import VariantsTable, variant_source
from suite.wording import count

if TYPE_CHECKING:
    import click

    from suite.checkpoint import Model
    from suite.evaluation import Report
    from suite.task.kit.bulk import BulkFormat
    from suite.tasks.translate.pipeline import Translator
    from suite.text.tokenizer import Tokenizer
    from suite.training.batches import ShuffledSource
    from suite.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class TranslateDataTable:
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
        variants: how people type, and what must be copied; see `suite.tasks.translate.variants`.
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
    variants: VariantsTable = field(default_factory=VariantsTable)
    held_out: float = 0.05
    valid_pairs: int = 0

    def __post_init__(self) -> None:
        if not self.train:
            raise ConfigError("there are no training pairs; give them with --data or in the recipe's data.train")
        check_held_out(self.held_out)
        if min(self.max_tokens, self.max_ratio, self.concatenated, self.valid_pairs) < 0:
            raise ConfigError("data.max_tokens, max_ratio, concatenated and valid_pairs must not be negative")


@dataclass(frozen=True, kw_only=True)
class TranslateTokenizerTable(TokenizerTable):
    """The table `tokenizer` of a recipe: one vocabulary, with a tag for each language."""

    vocab_size: int = 8000


@dataclass(frozen=True, kw_only=True)
class TranslateOptionsTable:
    """The table `translate` of a recipe.

    Args:
        attention: "prefix" (source and tags see each other both ways) or "causal".
        confidence_pairs: validation pairs that the confidence of translations is fitted on, at the end of training; see
            `suite.tasks.translate.confidence`. 0 for none.
    """

    attention: Attention = "prefix"
    confidence_pairs: int = 600

    def __post_init__(self) -> None:
        if self.confidence_pairs < 0:
            raise ConfigError(f"translate.confidence_pairs is {self.confidence_pairs}, but must not be negative")


class TranslateTask(PackagedTask[Pair, str, Translation]):
    """The task `translate`."""

    name = "translate"
    summary = "translate text between languages"
    data_table = TranslateDataTable
    tokenizer_table = TranslateTokenizerTable
    options_table = TranslateOptionsTable
    loss_keys = ("smoothing", "source_weight")
    specials = SPECIALS

    def train_options(self) -> Sequence[click.Option]:
        """The languages of corpora that name none."""
        import click

        return [
            click.Option(["--source"], metavar="LANG", help="Language to translate from."),
            click.Option(["--target"], metavar="LANG", help="Language to translate into."),
        ]

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Read and filter the recipe's pairs, train the tokenizer on them, and write each direction as sequences."""
        from suite.task.kit.prepare import choose_tokenizer

        tables = self.tables(recipe)
        data: TranslateDataTable = tables.data
        attention: Attention = tables.options.attention
        check_attention(attention, recipe)
        if (stated := int(recipe.model.get("context", 0))) or not recipe.base:
            side_limit(data, stated)  # before anything is read
        train, valid, notes = read_corpora(data, recipe.seed)
        notes = [*tables.notes, *notes]
        languages = tuple(sorted({code for each in train for code in (each.corpus.source, each.corpus.target)}))
        tokenizer, context = choose_tokenizer(
            tables.tokenizer,
            recipe,
            lambda: (text for each in train for text in each.texts()),
            special_tokens(languages),
            cache,
        )
        encoder = PairEncoder(tokenizer, data.both_ways, attention == "causal", side_limit(data, context))
        source = training_source(train, encoder, data, recipe.seed, cache, notes)
        examples = source.examples
        curve = [replace(each, pairs=each.pairs[: data.valid_pairs or None]) for each in valid]
        held = encoder.examples(curve, "validation", notes)
        tokens = sum(len(example.tokens) for example in examples)
        notes.append(
            f"sequences: {len(examples):,} for training ({count(tokens, 'token')}), {len(held):,} for validation"
        )
        sources = sorted(example.target - FRAME + 1 for example in examples)
        known = Languages(
            languages=languages,
            directions=tuple(sorted({way for each in train for way in directions(each.corpus, data.both_ways)})),
            attention=attention,
            # a model is at a loss with sources longer than nearly all it has seen
            source_limit=sources[int(0.999 * (len(sources) - 1))],
            length_ratio=length_ratios(train, data.both_ways),
        )
        return TrainingData(
            train=source,
            finish=finisher(valid, tokenizer, known, data.both_ways, tables.options.confidence_pairs),
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

    def evaluate(
        self,
        model: Model,
        data: Sequence[str],
        *,
        progress: Callable[[int], object] | None = None,
        **options: Any,
    ) -> Report:
        """As `Task.evaluate`; the options are those of `suite.tasks.translate.options.TranslateEvalOptions`."""
        from suite.tasks.translate.evaluate import evaluate
        from suite.tasks.translate.options import TranslateEvalOptions

        return evaluate(model, data, TranslateEvalOptions(**options), progress=progress)

    def bulk_format(self, pipeline: Any) -> BulkFormat:
        """A table gets the translation alone, JSON objects also its source, score and warnings; lines stay lines."""
        from suite.task.kit.bulk import BulkFormat

        return BulkFormat(
            columns=("translation", "translation_source", "translation_score", "translation_warnings"),
            values=lambda result: (result.text, result.source, result.score, list(result.warnings)),
            empty=("", None, 0.0, []),
            in_tables=1,
            line=lambda text, result: str(result.text),  # what may end a line elsewhere, such as \x85, is kept
            flat=True,
        )


def training_source(
    train: Sequence[FilteredCorpus],
    encoder: PairEncoder,
    data: TranslateDataTable,
    seed: int,
    cache: Path,
    notes: list[str],
) -> ShuffledSource:
    """The examples to learn from: the pairs and several in a row, the same each epoch or with variants.

    Raises:
        DataError: no pair is short enough.
    """
    from suite.training.batches import ShuffledSource

    if data.variants:
        return variant_source(train, encoder, data.variants, data.concatenated, seed, cache, notes)
    joined = [concatenate(each, data.concatenated, (seed, place)) for place, each in enumerate(train)]
    return ShuffledSource(encoder.examples([*train, *joined], "training", notes), seed)


def finisher(
    valid: Sequence[FilteredCorpus], tokenizer: Tokenizer, known: Languages, both_ways: bool, most: int
) -> Callable[[Any], Mapping[str, Any]]:
    """A function for `TrainingData.finish` that fits the confidence of translations."""
    from suite.task.kit.prepare import spread

    pairs = spread(
        [
            (text, other, *way)
            for each in valid
            for pair in each.pairs
            for way, (text, other) in zip(
                directions(each.corpus, both_ways), (pair[:2], (pair.target, pair.source)), strict=False
            )
        ],
        most,
    )

    def finish(transformer: Any) -> Mapping[str, Any]:
        from suite.tasks.translate.confidence import calibrate

        found = calibrate(transformer, tokenizer, known, pairs) if most else None
        return {} if found is None else {"confidence": found.to_extra()}

    return finish


def check_attention(attention: Attention, recipe: Recipe) -> None:
    """Raise a ConfigError where a setting does not go with the attention on the source."""
    if attention == "prefix" and recipe.loss.source_weight:
        raise ConfigError(
            "loss.source_weight needs translate.attention=causal: in a prefix, tokens see what they should predict"
        )
    if attention == "causal" and recipe.model.get("restart_positions"):
        raise ConfigError("model.restart_positions needs translate.attention=prefix: positions restart after a prefix")


def side_limit(data: TranslateDataTable, context: int) -> int:
    """The most tokens of one side of a pair.

    Raises:
        ConfigError: the context has no room for two sides, or less than the recipe asks for.
    """
    room = (context - FRAME) // 2
    if room < 1:
        raise ConfigError("model.context (tokens of a source and its translation together) is missing or too small")
    if data.max_tokens > room:
        raise ConfigError(
            f"data.max_tokens {data.max_tokens} on each side do not fit model.context {context}, which has "
            f"room for {room}"
        )
    return data.max_tokens or room
