"""The options of `suite run lm`, `suite eval lm` and `suite next`, each declared once; nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from suite.cli.settings import setting
from suite.task.kit.commands import EvalOptions
from suite.wording import count

FILE = "Read the text from a file; - is standard input."
RULES = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "no_repeat_ngram")


@dataclass(frozen=True, kw_only=True)
class LMRunOptions:
    """Options of `suite run lm`.

    Attributes:
        file: file that holds the prompt.
        max_new_tokens: the most tokens in a continuation.
        temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram: see `suite.Sampling`; None for the
            pipeline's own.
        stop: strings that end a continuation.
        seed: of sampling; None to draw one.
        samples: continuations of a prompt.
        beams: number of hypotheses in beam search; None to sample.
        no_echo: whether to leave the prompt out of the output.
    """

    file: str | None = setting(None, FILE, metavar="FILE", type=click.Path())
    max_new_tokens: int = setting(
        100, "Maximum number of tokens to generate.", flags=("-n", "--max-new-tokens"), metavar="N", min=1
    )
    temperature: float | None = setting(
        None,
        "Sampling temperature; 0 takes the most likely token.",
        flags=("-t", "--temperature"),
        metavar="T",
        shown="0.8",
    )
    top_k: int | None = setting(None, "Sample from the K most likely tokens; 0 for all.", metavar="K", shown="40")
    top_p: float | None = setting(
        None, "Sample from the most likely tokens that together have probability P.", metavar="P", shown="1, all"
    )
    min_p: float | None = setting(
        None, "Sample from tokens at least P times as likely as the most likely one.", metavar="P", shown="0, all"
    )
    repetition_penalty: float | None = setting(
        None, "Penalty on tokens that have occurred; above 1 repeats less.", metavar="R", shown="1"
    )
    no_repeat_ngram: int | None = setting(
        None, "Never generate the same N tokens in a row twice.", metavar="N", shown="0, off"
    )
    stop: tuple[str, ...] = setting((), "Stop before this text; may be given several times.", metavar="TEXT")
    seed: int | None = setting(
        None, "Random seed for sampling.", metavar="N", min=0, shown="random; printed; 0 with --input"
    )
    samples: int = setting(1, "Number of continuations to write.", metavar="N", min=1)
    beams: int | None = setting(
        None, "Search for the most likely text with N beams instead of sampling.", metavar="N", min=1
    )
    no_echo: bool = setting(False, "Write only the continuation, without the prompt.")

    @property
    def rules(self) -> dict[str, Any]:
        """The sampling settings that were given."""
        given = {name: getattr(self, name) for name in RULES}
        return {name: value for name, value in given.items() if value is not None}

    def check(self) -> None:
        """Raise a usage error for options that contradict each other."""
        if self.beams is None:
            return
        if self.rules or self.stop or self.seed is not None:
            raise click.UsageError(
                "--beams does not sample: it cannot be combined with --seed, --stop or the sampling options"
            )
        if self.samples > self.beams:
            raise click.UsageError(f"{count(self.beams, 'beam')} cannot give {self.samples:,} samples; raise --beams")


@dataclass(frozen=True, kw_only=True)
class LMEvalOptions(EvalOptions):
    """Options of `suite eval lm`.

    Attributes:
        train: text to count the n-grams on; if empty, each half of the documents is scored with the other's counts.
        limit: number of documents, evenly spread; 0 for all.
        stride: tokens from one window's start to the next (None: half of `length`); a token sees at least
            `length - stride` tokens before it.
        length: tokens in a window (None: the model's context).
        column: column with the text, for records with several columns.
    """

    train: tuple[str, ...] = setting(
        (), "Text to count the n-grams on.", metavar="SOURCE", shown="the other half of DATA"
    )
    stride: int | None = setting(
        None, "Tokens from one window's start to the next.", metavar="N", min=1, shown="half a window"
    )
    length: int | None = setting(None, "Length of a window in tokens.", metavar="N", min=1, shown="the model's context")
    column: str = setting("text", "Column or field that holds the text.", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class NextOptions:
    """Options of `suite next`.

    Attributes:
        file: holds the prompt.
        k: tokens to show.
    """

    file: str | None = setting(None, FILE, metavar="FILE", type=click.Path())
    k: int = setting(10, "Number of tokens to show.", flags=("-k", "--top"), metavar="K", min=1)
