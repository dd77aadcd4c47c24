"""Classification: `<bos> text <cls>`, and a head that reads the hidden state at `<cls>`.

Torch is imported inside functions, so that the command line can list this task quickly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.errors import ConfigError, DataError
from suite.task import DataTable, PackagedTask, TrainingData
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.data.labelled import Labelled, LabelledData
    from suite.model.heads import Headed
    from suite.task.kit.bulk import BulkFormat
    from suite.task.tables import Tables
    from suite.tasks.classify.codec import ClassifyCodec
    from suite.tasks.classify.pipeline import Classifier
    from suite.tasks.classify.results import Classified
    from suite.tasks.classify.zero_shot import ZeroShot
    from suite.text.tokenizer import Tokenizer
    from suite.training.batches import Example
    from suite.training.recipe import Recipe

FREE = "classify.free_labels=true"
SPECIALS = ("<eos>", "<pad>", "<bos>", "<sep>", "<cls>")


@dataclass(frozen=True, kw_only=True)
class ClassifyData(DataTable):
    """The table `data` of a classification recipe; columns are those of `suite.data.labelled.read_labelled`.

    `train` and `valid` are sources of labelled texts. Held-out texts are sampled class by class.

    Args:
        text, label, pair: columns by name, or by number from 1; guessed by their names if not given.
        separator: separator of several labels in a cell.
        names: class names for labels that are numbers.
        header: whether the first line of a CSV or TSV file names the columns (None: guessed).
    """

    text: str | int | list[str | int] = ""
    label: str | int = ""
    pair: str | int = ""
    separator: str = ""
    names: list[str] = field(default_factory=list)
    header: bool | None = None
    held_out: float = 0.1


@dataclass(frozen=True, kw_only=True)
class ClassifyTokenizer:
    """The table `tokenizer` of a classification recipe.

    Args:
        kind: "base" (the base model's), "model" (another model's), "bpe" (trained on the training texts) or "bytes".
        model: name of that other model, as for `suite.load`.
        vocab_size: size of a trained vocabulary, special tokens included.
    """

    kind: Literal["base", "model", "bpe", "bytes"] = "base"
    model: str = ""
    vocab_size: int = 8192


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions:
    """The table `classify` of a recipe.

    Args:
        multi: whether a text may have several labels, or none (None: decided by the training data).
        attention: "prefix" (all tokens of a text attend to each other) or "causal" (as the base was trained).
        lm_weight: weight of the language modelling loss, which is added to the label's. Source: Radford et al. 2018
            (0.5).
        token_dropout: share of a text's tokens that training hides, so that no single word decides.
        max_tokens: longest text in tokens, specials included; 0 for the model's context. Of a longer text, training
            uses the start, and inference reads it in pieces.
        calibrate: whether a temperature is fitted on the validation texts. Source: Guo et al. 2017.
        free_labels: whether labels may be free text, see `suite.data.labelled.check_classes`.
        ngrams: whether the logits of a linear model of words and word pairs are added. It is trained separately; its
            weight is fitted on the validation texts too, and may be 0.
    """

    multi: bool | None = None
    attention: Literal["prefix", "causal"] = "prefix"
    lm_weight: float = 0.0
    token_dropout: float = 0.0
    max_tokens: int = 0
    calibrate: bool = True
    free_labels: bool = False
    ngrams: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.token_dropout < 1:
            raise ConfigError(f"classify.token_dropout is {self.token_dropout}, but must be in [0, 1)")
        if self.lm_weight < 0 or self.max_tokens < 0:
            raise ConfigError("classify.lm_weight and classify.max_tokens must not be negative")
        if self.ngrams and not self.calibrate:
            raise ConfigError("classify.ngrams needs classify.calibrate, which fits their weight; set both to false")


class ClassifyTask(PackagedTask["Labelled", "str | tuple[str, str]", "Classified"]):
    """The task `classify`."""

    name = "classify"
    summary = "label texts, with calibrated probabilities"
    data_table = ClassifyData
    tokenizer_table = ClassifyTokenizer
    options_table = ClassifyOptions

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Read the recipe's labelled texts and write them as sequences."""
        from suite.data.labelled import check_classes, read_labelled, stratified_split

        tables = self.tables(recipe)
        data = tables.data

        def read(sources: list[str]) -> LabelledData:
            return read_labelled(
                sources,
                text=[str(column) for column in (data.text if isinstance(data.text, list) else [data.text])],
                label=str(data.label),
                pair=str(data.pair),
                separator=data.separator,
                names=data.names,
                header=data.header,
            )

        found = read(data.train)
        train, notes = found.records, [*tables.notes, *found.notes]
        if not tables.options.free_labels:
            check_classes(
                train,
                f"column {found.columns.label!r}",
                f"name the label's column with --set data.label=NAME (there are {', '.join(found.available)}), "
                f"or learn them all the same with --set {FREE}",
            )
        if data.valid:
            more = read(data.valid)
            valid = more.records
            notes += more.notes
        else:
            train, valid = stratified_split(train, data.held_out, recipe.seed)
            notes.append(f"held out for validation: {count(len(valid), 'text')}, sampled class by class")
        if data.limit:
            train = draw(train, data.limit, recipe.seed)
        return self.prepare_records(recipe, tables, train, valid, notes)

    def prepare_records(
        self,
        recipe: Recipe,
        tables: Tables,
        train: Sequence[Labelled],
        valid: Sequence[Labelled],
        notes: Sequence[str] = (),
    ) -> TrainingData:
        """Training data as from `prepare`, for records that are already in memory.

        Args:
            recipe: the run's recipe.
            tables: the recipe's tables; `data` is ignored, because the records have been read.
            train, valid: the records.
            notes: remarks on how they were read.

        Raises:
            DataError: fewer than two classes, or a validation label that no training text has.
        """
        from suite.data.labelled import check
        from suite.tasks.classify.loss import classification
        from suite.training.batches import ShuffledSource

        options = tables.options
        codec = _codec(recipe, tables, train, valid)
        examples, longer = codec.examples(train)
        held, _ = codec.examples(valid)
        remarks = [*notes, *check(train, valid)]
        kinds = {record.pair is not None for record in train}
        if longer:
            remarks.append(
                f"{longer:,} of {count(len(train), 'text')} over {codec.max_tokens} tokens; training uses the start"
            )

        def finish(model: Headed) -> dict[str, Any]:
            if not (options.calibrate and held):
                return {}
            return _calibrated(model, codec, held, train, valid, words=options.ngrams)

        return TrainingData(
            train=ShuffledSource(examples, recipe.seed),
            valid=held,
            tokenizer=codec.tokenizer,
            vocab_size=codec.tokenizer.vocab_size,
            extra=codec.to_dict() | ({"pairs": kinds.pop()} if len(kinds) == 1 else {}),
            outputs=len(codec.labels),
            loss=classification(
                smoothing=recipe.loss.smoothing,
                lm_weight=options.lm_weight,
                token_dropout=options.token_dropout,
                blank=codec.special("<pad>"),
            ),
            finish=finish,
            notes=remarks,
        )

    def pipeline(self, model: Model, **options: Any) -> Classifier | ZeroShot:
        """A callable from texts to `Classified` results; with `labels`, zero-shot from any language model.

        Zero-shot is experimental: models of under 100 million parameters are little better than chance.
        """
        from suite.tasks.classify.pipeline import Classifier
        from suite.tasks.classify.zero_shot import ZeroShot

        return ZeroShot(model, **options) if "labels" in options else Classifier(model, **options)

    def bulk_format(self, pipeline: Classifier | ZeroShot) -> BulkFormat:
        """Columns label and probability; if a text may have several labels, also labels, a JSON list."""
        from suite.task.kit.bulk import BulkFormat

        columns = ("label", "probability", *(["labels"] if pipeline.multi else []))

        def values(result: Classified) -> list[Any]:
            return [result.label, round(result.probability, 6), list(result.labels)]

        return BulkFormat(
            columns=columns,
            values=values,
            line=lambda text, result: f"{result.label or ''}\t{result.probability:.6f}\t{text}",
            empty=(None, None, []),
            empty_line=lambda text: f"\t\t{text}",
            rows=512,
            characters=1 << 20,
        )


def _codec(recipe: Recipe, tables: Tables, train: Sequence[Labelled], valid: Sequence[Labelled]) -> ClassifyCodec:
    """The codec for the recipe and the labels of the training texts."""
    from suite.tasks.classify.codec import ClassifyCodec

    options = tables.options
    tokenizer, context = _tokenizer(tables.tokenizer, recipe, train)
    labels = sorted({label for record in train for label in record.labels})
    multi = options.multi if options.multi is not None else any(len(record.labels) != 1 for record in train)
    check_labels(labels, train, valid, multi)
    return ClassifyCodec(
        tokenizer,
        labels=tuple(labels),
        multi=multi,
        attention=options.attention,
        max_tokens=min(options.max_tokens or context, context),
    )


def _tokenizer(table: ClassifyTokenizer, recipe: Recipe, train: Sequence[Labelled]) -> tuple[Tokenizer, int]:
    """The tokenizer, and the model's context in tokens."""
    from suite.checkpoint import vocabulary
    from suite.text.tokenizer import Tokenizer

    context = int(recipe.model.get("context", 0))
    if table.kind == "bytes":
        return Tokenizer.bytes(SPECIALS), context
    if table.kind == "bpe":
        texts = (text for record in train for text in (record.text, record.pair) if text)
        return Tokenizer.train(texts, table.vocab_size, SPECIALS), context
    name = recipe.base if table.kind == "base" else table.model
    if not name:
        raise ConfigError(f'tokenizer.kind is "{table.kind}", but no model is named to take it from')
    tokenizer, longest = vocabulary(name)
    return tokenizer, context or longest


def _calibrated(
    model: Headed,
    codec: ClassifyCodec,
    held: Sequence[Example],
    train: Sequence[Labelled],
    valid: Sequence[Labelled],
    *,
    words: bool,
) -> dict[str, Any]:
    """Temperature and linear-model weight for a checkpoint, plus the linear model's tensors if its weight is not 0.

    Args:
        model: the trained model.
        codec: the model's codec.
        held: `valid` as sequences.
        train, valid: the records.
        words: whether to train a linear model.
    """
    from suite.tasks.classify.baseline import truth_of
    from suite.tasks.classify.calibrate import calibrate
    from suite.tasks.classify.codec import text_of
    from suite.tasks.classify.word_model import WordModel

    linear = None
    if words:
        texts = [text_of(record) for record in train]
        linear = WordModel.fit(texts, truth_of(train, codec.labels), multi=codec.multi)
    found = calibrate(model, held, linear.logits([text_of(record) for record in valid]) if linear else None)
    return found | (linear.tensors() if linear and found["ngram_weight"] else {})


def draw(records: Sequence[Labelled], limit: int, seed: int) -> list[Labelled]:
    """`limit` random records in their original order, with at least one of each class where the limit allows."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(records)).tolist()
    seen: set[str] = set()
    first = []
    for place in order:
        if not seen.issuperset(records[place].labels):
            first.append(place)
            seen.update(records[place].labels)
    chosen = dict.fromkeys([*first, *order])
    return [records[place] for place in sorted(list(chosen)[: max(limit, len(first))])]


def check_labels(labels: Sequence[str], train: Sequence[Labelled], valid: Sequence[Labelled], multi: bool) -> None:
    """Raise a DataError, with the record's place, if the labels do not suit training or validation."""
    if len(labels) < 2:
        raise DataError(
            f"all training texts have the label {labels[0]!r}; a classifier needs two classes"
            if labels
            else "no training text has a label"
        )
    for record in (*train, *valid):
        if not record.labels and not multi:
            raise DataError(
                f"{record.where}: no label; if texts may have several labels or none, set classify.multi=true"
            )
        if len(record.labels) > 1 and not multi:
            raise DataError(
                f"{record.where}: {len(record.labels)} labels; if texts may have several, set classify.multi=true"
            )
    known = set(labels)
    unknown = Counter(label for record in valid for label in record.labels if label not in known)
    if unknown:
        label, times = unknown.most_common(1)[0]
        where = next(record.where for record in valid if label in record.labels)
        raise DataError(
            f"{where}: label {label!r} ({count(times, 'validation text')}) does not occur in the training texts"
        )
