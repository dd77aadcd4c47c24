"""Language modelling: `<eos> text`, loss on every token, and the result is more text.

Torch is imported inside functions, so that the command line can list this task without paying for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.errors import ConfigError
from suite.task import PackagedTask, TrainingData
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.tasks.lm.pipeline import Writer
    from suite.text.tokenizer import Tokenizer
    from suite.training.recipe import Recipe

# later tasks start from this model, so its vocabulary has their special tokens from the beginning
SPECIALS = ("<eos>", "<pad>", "<bos>", "<sep>", "<cls>")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The table `data` of a language modelling recipe.

    Args:
        train, valid: files, folders, globs or data-set names. Without `valid`, a part of `train` is held out.
        column: of records that have several.
        window: tokens of a training example; 0, or more than that, for the model's context.
        held_out: share of the training documents (or of a single document's end) held out for validation.
        valid_tokens: tokens of the validation text that training looks at, from its start; 0 for all.
    """

    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    column: str = "text"
    window: int = 0
    held_out: float = 0.05
    valid_tokens: int = 0

    def __post_init__(self) -> None:
        if not self.train:
            raise ConfigError("there is no training text; give it with --data or in the recipe's data.train")
        if not 0 < self.held_out < 1:
            raise ConfigError(f"data.held_out is {self.held_out}, but must be between 0 and 1")
        if self.window < 0:
            raise ConfigError(f"data.window is {self.window}, and must not be negative")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The table `tokenizer` of a recipe.

    Args:
        kind: "auto" (the base model's, "bpe" without a base), "bpe" (trained on the training text), "characters",
            "bytes", or "file".
        vocab_size: of a trained one, special tokens included.
        characters: of the training text that BPE is trained on, documents spread over all of it.
        path: of an existing tokenizer's file or directory.
    """

    kind: Literal["auto", "bpe", "characters", "bytes", "file"] = "auto"
    vocab_size: int = 8192
    characters: int = 30_000_000
    path: str = ""


class LanguageModelling(PackagedTask):
    """The task `lm`."""

    name = "lm"
    summary = "continue a text, token by token"

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Tokenise the recipe's text and cut it into windows of the model's context."""
        from suite.checkpoint import vocabulary
        from suite.data.text import PackedDocuments, split_documents, tokenize_corpus
        from suite.training.batches import Example, PackedSource
        from suite.training.recipe import from_table

        data = from_table(DataConfig, recipe.data, "recipe", "data.")
        choice = from_table(TokenizerConfig, recipe.tokenizer, "recipe", "tokenizer.")
        context = int(recipe.model.get("context", 0))
        tokenizer, longest = vocabulary(recipe.base) if recipe.base else (None, 0)
        context = context or longest
        if tokenizer is None or choice.kind != "auto":
            tokenizer = make_tokenizer(choice, data, cache)
        if context < 1:
            raise ConfigError("model.context is missing: how many tokens the model sees at once")
        length = min(data.window or context, context)
        train = tokenize_corpus(data.train, tokenizer, cache, column=data.column)
        if data.valid:
            valid = tokenize_corpus(data.valid, tokenizer, cache, column=data.column)
        else:
            train, valid = split_documents(train, data.held_out, recipe.seed)
        stream = valid.tokens[: data.valid_tokens or None]
        windows = [Example(stream[at : at + length + 1]) for at in range(0, len(stream) - 1, length)]
        return TrainingData(
            train=PackedSource(PackedDocuments(train, length, recipe.seed)),
            valid=windows,
            tokenizer=tokenizer,
            vocab_size=tokenizer.vocab_size,
            extra={},
            notes=(
                f"training text: {count(len(train), 'document')}, {count(train.total, 'token')}",
                f"validation text: {count(len(valid), 'document')}, {len(stream):,} of "
                f"{count(valid.total, 'token')} used",
            ),
        )

    def pipeline(self, model: Model, **options: Any) -> Writer:
        """A callable from prompts to `Text` results."""
        from suite.tasks.lm.pipeline import Writer

        return Writer(model, **options)


def make_tokenizer(config: TokenizerConfig, data: DataConfig, cache: Path) -> Tokenizer:
    """Read the tokenizer of a recipe, or train it on the training text; trained ones are kept in `cache`."""
    from suite.data.documents import read_documents, source_digest
    from suite.text.tokenizer import Tokenizer

    if config.kind == "file":
        return Tokenizer.load(config.path)
    if config.kind == "bytes":
        return Tokenizer.bytes(SPECIALS)
    if config.kind == "characters":
        text = "".join(sorted(set().union(*read_documents(data.train, column=data.column))))
        return Tokenizer.characters(text)
    digest = source_digest(data.train, column=data.column)
    kept = cache / "tokenizers" / f"{digest}-{config.vocab_size}-{config.characters}"
    if not (kept / "tokenizer.json").exists():
        total = sum(len(text) for text in read_documents(data.train, column=data.column))
        every = -(-total // config.characters)  # so the sample is spread over all of the text
        sample = (
            text for place, text in enumerate(read_documents(data.train, column=data.column)) if place % every == 0
        )
        Tokenizer.train(sample, config.vocab_size, SPECIALS).save(kept)
    return Tokenizer.load(kept)
