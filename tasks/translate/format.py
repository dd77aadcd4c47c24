"""How a pair of sentences is written as one sequence: `<bos> <en> source <de> target <eos>`.

A language's tag says of the text after it what it is written in. The tag of the target separates the two, and it is
the last token of the prefix, so that every position of the source knows what it is to become.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from suite.errors import CheckpointError, ConfigError
from suite.tables import brief
from suite.task import Prompt, suggest
from suite.task.tables import read_extra

if TYPE_CHECKING:
    from suite.text.tokenizer import Tokenizer

Attention = Literal["prefix", "causal"]

LONGEST = 2**20  # tokens; no source is longer
FRAME = 4  # tokens of a sequence that are not text: <bos>, two tags, <eos>
SPECIALS = ("<eos>", "<pad>", "<bos>", "<sep>", "<cls>")

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


@functools.cache  # asked for each example
def tag(language: str) -> str:
    """The special token of a language.

    Raises:
        ConfigError: it is no language code, or its tag would be another special token.

    Example:
        >>> tag("en")
        '<en>'
    """
    if not _LANGUAGE.fullmatch(language):
        raise ConfigError(f"{language!r} is not a language code; use one such as en, de or pt-BR")
    token = f"<{language}>"
    if token in SPECIALS:  # bos is Bosnian in ISO 639-3
        raise ConfigError(f"the language code {language!r} would have the tag {token}, which has another meaning here")
    return token


def special_tokens(languages: Sequence[str]) -> tuple[str, ...]:
    """The special tokens of a tokenizer for these languages.

    Example:
        >>> special_tokens(["de", "en"])
        ('<eos>', '<pad>', '<bos>', '<sep>', '<cls>', '<de>', '<en>')
    """
    return (*SPECIALS, *(tag(language) for language in languages))


def join(
    tokenizer: Tokenizer,
    source_tokens: Sequence[int],
    target_tokens: Sequence[int],
    source: str,
    target: str,
    *,
    causal: bool = False,
) -> tuple[list[int], int, int]:
    """`encode` for texts that are tokens already."""
    specials = tokenizer.specials
    start = [specials["<bos>"], _id(tokenizer, source), *source_tokens, _id(tokenizer, target)]
    return [*start, *target_tokens, specials["<eos>"]], 0 if causal else len(start), len(start)


def encode(
    tokenizer: Tokenizer, text_source: str, text_target: str, source: str, target: str, *, causal: bool = False
) -> tuple[list[int], int, int]:
    """A pair as a sequence to learn from.

    Args:
        tokenizer: has the tags of both languages.
        text_source, text_target: a sentence and its translation.
        source, target: their languages.
        causal: the source is read from left to right alone.

    Returns:
        the tokens; how many at the start see each other both ways; and the index of the first target token.

    Raises:
        ConfigError: the tokenizer has no tag for a language.

    Example:
        >>> from suite.text.tokenizer import Tokenizer
        >>> encode(Tokenizer.bytes(special_tokens(["de", "en"])), "Hi", "Na", "en", "de")
        ([258, 262, 72, 105, 261, 78, 97, 256], 5, 5)
    """
    return join(tokenizer, tokenizer.encode(text_source), tokenizer.encode(text_target), source, target, causal=causal)


def prompt(
    tokenizer: Tokenizer, text: str, source: str, target: str, *, causal: bool = False, forced: str = ""
) -> Prompt:
    """A sentence as the start of a sequence that its translation continues.

    Args:
        tokenizer: has the tags of both languages.
        text: to translate.
        source, target: languages.
        causal: the source is read from left to right alone.
        forced: text that the translation starts with; it is part of the target, so outside the prefix.

    Raises:
        ConfigError: the tokenizer has no tag for a language.
    """
    tokens, prefix, start = join(tokenizer, tokenizer.encode(text), (), source, target, causal=causal)
    return Prompt(tokens=[*tokens[:start], *tokenizer.encode(forced)], prefix=prefix)


def _id(tokenizer: Tokenizer, language: str) -> int:
    token = tag(language)
    if token not in tokenizer.specials:
        known = [name.strip("<>") for name in tokenizer.specials if name.startswith("<") and name not in SPECIALS]
        raise ConfigError(f"the model does not know the language {language!r}; {suggest(language, known)}")
    return tokenizer.specials[token]


@dataclass(frozen=True, kw_only=True)
class Languages:
    """What a checkpoint's `extra` says about a translation model.

    Args:
        languages: codes of all of them.
        directions: (source, target) of each pair that was trained.
        attention: "prefix" (source and tag see each other both ways) or "causal".
        source_limit: tokens (without `<bos>` and tags) that hardly any training source exceeded, one in a thousand;
            what is longer is beyond what the model has learnt.
        length_ratio: by direction, "de-en", mean and standard deviation of log(target characters / source characters)
            over the training pairs.
        confidence: as `suite.tasks.translate.confidence.Confidence.to_extra` gives it, which reads it, too.
    """

    languages: tuple[str, ...]
    directions: tuple[tuple[str, str], ...]
    attention: Attention = "prefix"
    source_limit: int
    length_ratio: dict[str, tuple[float, float]] = field(default_factory=dict)
    confidence: dict[str, float | tuple[float, ...]] | None = None

    def __post_init__(self) -> None:
        for language in self.languages:
            tag(language)
        if not self.directions:
            raise ConfigError("extra.directions is empty")
        for direction in self.directions:
            if unknown := [language for language in direction if language not in self.languages]:
                raise ConfigError(f"extra.directions has {brief(unknown[0])}, which is not among extra.languages")
        if not 1 <= self.source_limit <= LONGEST:
            raise ConfigError(f"extra.source_limit is {brief(self.source_limit)}, but must be from 1 to {LONGEST:,}")
        for name, (mean, deviation) in self.length_ratio.items():
            if name not in map("-".join, self.directions):
                raise ConfigError(f"extra.length_ratio has {brief(name)}, which is not among extra.directions")
            if abs(mean) > 5 or not 0 <= deviation <= 5:  # e^5: 150 times as long
                raise ConfigError(f"extra.length_ratio.{name} is [{mean:g}, {deviation:g}], which no language pair has")

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any], where: str) -> Languages:
        """Read what `to_extra` wrote.

        Args:
            extra: of a model.
            where: its config.json, for errors.

        Raises:
            CheckpointError: it is not a translation model's, or a value is not valid.
        """
        if "languages" not in extra:
            raise CheckpointError(f"{where} is not a translation model's: it does not say which languages it has")
        return read_extra(cls, extra, where)

    def to_extra(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "languages": list(self.languages),
            "directions": [list(direction) for direction in self.directions],
            "attention": self.attention,
            "source_limit": self.source_limit,
            "length_ratio": {direction: list(figures) for direction, figures in self.length_ratio.items()},
        }

    @property
    def causal(self) -> bool:
        """Whether the source is read from left to right alone."""
        return self.attention == "causal"

    def targets(self, source: str) -> list[str]:
        """The languages that `source` can be translated into."""
        return [target for start, target in self.directions if start == source]
