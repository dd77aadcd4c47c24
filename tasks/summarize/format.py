"""Token sequences of a title, selected sentences of a body, and a lead: `<bos> title <sep> body <sep> lead <eos>`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from suite.data.articles import Article
from suite.errors import CheckpointError, ConfigError
from suite.tables import brief
from suite.tasks.summarize.select import FEATURES, BodySentence, Floats, pick
from suite.text.tokenizer import Tokenizer

SPECIALS = ("<bos>", "<sep>", "<eos>")


@dataclass(frozen=True, kw_only=True)
class SummarizeSettings:
    """A summarising model's `extra` in its checkpoint.

    Args:
        style: the default.
        source_tokens, lead_tokens: maximum tokens of the selected sentences, and of a lead.
        attention: "causal", or "prefix" (all tokens of a prompt see each other).
        ranker: weights of the features for the selection.
        extractor: weights of the features and of two likelihoods for an extract.
    """

    style: Literal["extract", "write"]
    source_tokens: int
    lead_tokens: int
    attention: Literal["causal", "prefix"]
    ranker: tuple[float, ...]
    extractor: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("source_tokens", "lead_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"extra.{name} is {brief(getattr(self, name))}, but must be at least 1")
        for name, count in (("ranker", len(FEATURES)), ("extractor", len(FEATURES) + 2)):
            weights = getattr(self, name)
            if len(weights) != count:
                raise ConfigError(f"extra.{name} has {len(weights)} weights, but this version of suite has {count}")
            if max(map(abs, weights)) > 1e6:
                raise ConfigError(f"extra.{name} has the weight {max(weights, key=abs):g}, which no fit gives")


@dataclass(frozen=True, kw_only=True)
class ArticleFormat:
    """The format of articles as token sequences.

    Args:
        tokenizer: with the special tokens of `SPECIALS`.
        source_tokens: maximum tokens of the selected sentences.
        title_tokens: maximum tokens of a title; a longer title is cut.

    Raises:
        CheckpointError: the tokenizer lacks a special token.
    """

    tokenizer: Tokenizer
    source_tokens: int
    title_tokens: int = 32

    def __post_init__(self) -> None:
        for name in SPECIALS:
            if name not in self.tokenizer.specials:
                raise CheckpointError(
                    f"the tokenizer has no {name} token, so it cannot separate a body from its summary"
                )

    def select(self, sentences: Sequence[BodySentence], scores: Floats) -> list[int]:
        """Return the indices of the best sentences that fit together, in order of the text."""
        left = self.source_tokens

        def fits(new: Sequence[BodySentence]) -> bool:
            nonlocal left
            left -= sum(len(self.tokenizer.encode(sentence.text)) + 1 for sentence in new)
            return left >= 0

        return pick(sentences, scores, fits)

    def prompt(self, article: Article, selected: Sequence[BodySentence]) -> list[int]:
        """Return the tokens before the lead; sentences of the same paragraph share a line."""
        lines: list[str] = []
        paragraph = -1
        for sentence in selected:
            if sentence.paragraph == paragraph:
                lines[-1] += " " + sentence.text
            else:
                lines.append(sentence.text)
            paragraph = sentence.paragraph
        return self.around(article.title, "\n".join(lines))

    def around(self, title: str, body: str) -> list[int]:
        """Return the tokens before the lead for a title and a body."""
        bos, sep, _ = (self.tokenizer.specials[name] for name in SPECIALS)
        encode = self.tokenizer.encode
        # a single sentence may exceed the limit
        return [bos, *encode(title)[: self.title_tokens], sep, *encode(body)[: self.source_tokens], sep]

    @property
    def eos(self) -> int:
        """The id that ends a lead."""
        return self.tokenizer.specials["<eos>"]
