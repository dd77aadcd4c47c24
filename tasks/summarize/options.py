"""The options of summaries and of their evaluation, which Python and the command line share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from suite.cli.settings import setting
from suite.errors import ConfigError

Style = Literal["extract", "write", "tldr"]


@dataclass(frozen=True, kw_only=True)
class SummaryOptions:
    """Style and length of a summary.

    Attributes:
        style: "extract", "write" or "tldr"; None for the model's own.
        max_words: maximum number of words; None for the style's own limit.
        sentences: maximum number of sentences; None for no limit.
        seed: of sampling.

    Raises:
        ConfigError: a value is out of its range.
    """

    style: Style | None = setting(
        None, "Extract sentences. Experimental: write new ones; tldr, as GPT-2.", shown="the model's"
    )
    max_words: int | None = setting(None, "Maximum number of words.", metavar="N", min=1, shown="100 for an extract")
    sentences: int | None = setting(None, "Maximum number of sentences.", metavar="N", min=1, shown="no limit")
    seed: int = setting(0, "Random seed for sampling with --style tldr.", metavar="N", min=0)

    def __post_init__(self) -> None:
        if self.style is not None:
            check_style(self.style)
        if (self.max_words is not None and self.max_words < 1) or (self.sentences is not None and self.sentences < 1):
            raise ConfigError("max_words and sentences must be at least 1")


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """How summaries are compared with the articles' own leads.

    Attributes:
        styles: the model's styles to evaluate.
        words: maximum words in each system's summary; 0 for as many as the article's own lead has.
        limit: number of articles, evenly spread; 0 for all.

    Raises:
        ConfigError: a value is out of its range.
    """

    styles: tuple[Style, ...] = setting(
        ("extract", "write"),
        "Style to evaluate; may be given several times.",
        flags=("--style",),
        shown="extract and write",
    )
    words: int = setting(100, "Words in each summary; 0 for as many as in the lead.", metavar="N", min=0)
    limit: int = setting(300, "Number of articles to evaluate; 0 for all.", metavar="N", min=0)

    def __post_init__(self) -> None:
        if min(self.words, self.limit) < 0 or not self.styles:
            raise ConfigError("words and limit must not be negative, and at least one style is needed")
        for style in self.styles:
            check_style(style)


def check_style(style: str) -> None:
    """Refuse a style that does not exist.

    Raises:
        ConfigError: the style does not exist; the message lists those that do.
    """
    if style not in get_args(Style):
        raise ConfigError(f"no style {style!r}; available: {', '.join(get_args(Style))}")
