"""A title, selected sentences of a body, and a lead as one sequence: `<bos> title <sep> body <sep> lead <eos>`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.data.articles import Article
from suite.errors import CheckpointError
from suite.tasks.summarize.select import BodySentence, Floats, pick
from suite.text.tokenizer import Tokenizer

SPECIALS = ("<bos>", "<sep>", "<eos>")


@dataclass(frozen=True, kw_only=True)
class ArticleFormat:
    """How articles are written for a model.

    Args:
        tokenizer: with the special tokens of `SPECIALS`.
        source_tokens: limit of the selected sentences.
        title_tokens: limit of a title; a longer one is cut.

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
        """Indices of the best sentences that fit together, in order of the text."""
        left = self.source_tokens

        def fits(sentence: BodySentence) -> bool:
            nonlocal left
            left -= len(self.tokenizer.encode(sentence.text)) + 1
            return left >= 0

        return pick(sentences, scores, fits)

    def prompt(self, article: Article, selected: Sequence[BodySentence]) -> list[int]:
        """The tokens before the lead; sentences of one paragraph stay on one line."""
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
        """The tokens before the lead, of a title and a body."""
        bos, sep, _ = (self.tokenizer.specials[name] for name in SPECIALS)
        encode = self.tokenizer.encode
        # a single sentence may be longer than all of the room
        return [bos, *encode(title)[: self.title_tokens], sep, *encode(body)[: self.source_tokens], sep]

    @property
    def eos(self) -> int:
        """The id that ends a lead."""
        return self.tokenizer.specials["<eos>"]
