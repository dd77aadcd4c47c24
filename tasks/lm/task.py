"""Language modelling: `<eos> text`, loss on every token, and the result is more text.

Torch is imported inside functions, so that the command line can list this task quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.errors import ConfigError
from suite.task import DataTable, PackagedTask, TokenizerTable, TrainingData
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.task.kit.bulk import BulkFormat
    from suite.tasks.lm.pipeline import Text, Writer
    from suite.text.tokenizer import Tokenizer
    from suite.training.recipe import Recipe

# later tasks start from this model, so its vocabulary has their special tokens from the beginning
SPECIALS = ("<eos>", "<pad>", "<bos>", "<sep>", "<cls>")


@dataclass(frozen=True, kw_only=True)
class LMDataTable(DataTable):
    """The table `data` of a language modelling recipe.

    Args:
        train, valid: files, folders, globs or data-set names. Without `valid`, a part of `train` is held out.
        held_out: share of the training documents (or, where they are few, of each document's end) held out.
        limit: training documents to use, drawn by the seed; 0 for all.
        column: column with the text, for records that have several.
        window: tokens in a training example; 0, or a larger number than the model's context, for the context.
        valid_tokens: number of tokens, from the start of the validation text, that training validates on; 0 for all.
    """

    column: str = "text"
    window: int = 0
    valid_tokens: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("window", "valid_tokens"):
            if getattr(self, name) < 0:
                raise ConfigError(f"data.{name} is {getattr(self, name)}, and must not be negative")


@dataclass(frozen=True, kw_only=True)
class LMTokenizerTable(TokenizerTable):
    """The table `tokenizer` of a language modelling recipe.

    Args:
        kind, vocab_size, path: as for every task.
        characters: characters of the training text to train BPE on, taken from documents spread over all of it.
    """

    characters: int = 30_000_000


class LMTask(PackagedTask[str, str, "Text"]):
    """The task `lm`."""

    name = "lm"
    summary = "continue a text, token by token"
    data_table = LMDataTable
    tokenizer_table = LMTokenizerTable
    specials = SPECIALS

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Tokenise the recipe's text and cut it into windows of the model's context."""
        from suite.checkpoint import vocabulary
        from suite.data.text import PackedDocuments, split_documents, tokenize_corpus
        from suite.task.kit.prepare import draw
        from suite.training.batches import Example, PackedSource

        tables = self.tables(recipe)
        data: LMDataTable = tables.data
        tokenizer, longest = vocabulary(recipe.base) if recipe.base else (None, 0)
        context = int(recipe.model.get("context", 0)) or longest
        if tokenizer is None or tables.tokenizer.kind != "auto":
            tokenizer = make_tokenizer(tables.tokenizer, data, cache)
        if context < 1:
            raise ConfigError("model.context is missing: how many tokens the model sees at once")
        length = min(data.window or context, context)
        train = tokenize_corpus(data.train, tokenizer, cache, column=data.column)
        if data.valid:
            valid = tokenize_corpus(data.valid, tokenizer, cache, column=data.column)
        else:
            train, valid = split_documents(train, data.held_out, recipe.seed)
        train = train.take(draw(range(len(train)), data.limit, recipe.seed))
        stream = valid.tokens[: data.valid_tokens or None]
        windows = [Example(stream[at : at + length + 1]) for at in range(0, len(stream) - 1, length)]
        return TrainingData(
            train=PackedSource(PackedDocuments(train, length, recipe.seed)),
            valid=windows,
            tokenizer=tokenizer,
            vocab_size=tokenizer.vocab_size,
            extra={},
            notes=(
                *tables.notes,
                f"training text: {count(len(train), 'document')}, {count(train.total, 'token')}",
                f"validation text: {count(len(valid), 'document')}, {len(stream):,} of "
                f"{count(valid.total, 'token')} used",
            ),
        )

    def pipeline(self, model: Model, **options: Any) -> Writer:
        """A callable from prompts to `Text` results."""
        from suite.tasks.lm.pipeline import Writer

        return Writer(model, **options)

    def bulk_format(self, pipeline: Any) -> BulkFormat:
        """A column `continuation`: a text or, of several samples, a list of them (in lines of text, tabs between)."""
        from suite.task.kit.bulk import BulkFormat

        return BulkFormat(columns=("continuation",), values=_values, line=_line, flat=True)


def _values(result: Text | list[Text]) -> list[str | list[str]]:
    return [[one.text for one in result] if isinstance(result, list) else result.text]


def _line(prompt: str, result: Text | list[Text]) -> str:
    return "\t".join(" ".join(one.text.splitlines()) for one in (result if isinstance(result, list) else [result]))


def make_tokenizer(table: LMTokenizerTable, data: LMDataTable, cache: Path) -> Tokenizer:
    """Read the tokenizer of a recipe, or train it on the training text; trained ones are kept in `cache`."""
    from suite.data.documents import read_documents, source_digest
    from suite.text.tokenizer import Tokenizer

    if table.kind == "file":
        return Tokenizer.load(table.path)
    if table.kind == "bytes":
        return Tokenizer.bytes(SPECIALS)
    if table.kind == "characters":
        text = "".join(sorted(set().union(*read_documents(data.train, column=data.column))))
        return Tokenizer.characters(text)
    digest = source_digest(data.train, column=data.column)
    kept = cache / "tokenizers" / f"{digest}-{table.vocab_size}-{table.characters}"
    if not (kept / "tokenizer.json").exists():
        total = sum(len(text) for text in read_documents(data.train, column=data.column))
        every = -(-total // table.characters)  # so the sample is spread over all of the text
        sample = (
            text for place, text in enumerate(read_documents(data.train, column=data.column)) if place % every == 0
        )
        Tokenizer.train(sample, table.vocab_size, SPECIALS).save(kept)
    return Tokenizer.load(kept)
