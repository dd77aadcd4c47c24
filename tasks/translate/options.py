"""What `suite run translate` and `suite eval translate` can be asked for; nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from suite.cli.settings import REQUIRED, setting

BEAMS = 5
LENGTH_PENALTY = 1.0


def _beams() -> Any:
    return setting(BEAMS, "Number of beams; 1 is greedy and fastest.", metavar="N", min=1)


def _length_penalty() -> Any:
    text = "Exponent of the length that scores are divided by; above 1 favours longer translations."
    return setting(LENGTH_PENALTY, text, metavar="A", shown="1")


@dataclass(frozen=True, kw_only=True)
class TranslateRunOptions:
    """Options of `suite run translate`.

    Attributes:
        file: a file that is one text.
        source_language, target_language: None to detect, and to take the only one there is.
        beams, length_penalty: of the search.
        n_best: translations of each sentence to show.
        prefix: what the translation must start with.
        glossary: a file of terms.
        align, plot: whether to show the word alignment, and the file to draw it in.
    """

    file: str | None = setting(
        None, "Translate a file as one text; - is standard input.", metavar="FILE", type=click.Path()
    )
    source_language: str | None = setting(
        None, "Language of the text.", flags=("--from",), metavar="LANG", shown="detected"
    )
    target_language: str | None = setting(
        None,
        "Language to translate into.",
        flags=("--to",),
        metavar="LANG",
        shown="the only one the model has",
    )
    beams: int = _beams()
    length_penalty: float = _length_penalty()
    n_best: int = setting(1, "Show the N best translations of each sentence.", metavar="N", min=1)
    prefix: str = setting("", "Text that the translation must start with.", metavar="TEXT")
    glossary: Path | None = setting(
        None, "File of terms: on each line a term, a tab and its translation.", metavar="FILE"
    )
    align: bool = setting(False, "Show which source word each translated word came from.")
    plot: Path | None = setting(None, "Draw the word alignment (.png, .svg or .pdf).", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class TranslateEvalOptions:
    """What to evaluate, on the command line and in Python.

    Attributes:
        source, target: languages to translate from and to.
        train: corpora in which a baseline looks up the nearest source sentence and takes its translation.
        columns: of the corpora, if not the usual ones; see `suite.data.parallel.read_pairs`.
        beams: of the search; 1 is greedy.
        length_penalty: power of the length that hypotheses' log-probabilities are divided by.
        batch: sentences translated side by side.
        limit: pairs from the start of the data; None for all.
    """

    source: str = setting(REQUIRED, "Language to translate from.", metavar="LANG")
    target: str = setting(REQUIRED, "Language to translate into.", metavar="LANG")
    train: tuple[str, ...] = setting(
        (), "Sentence pairs for a baseline that looks up the nearest sentence.", metavar="DATA"
    )
    columns: tuple[str, str] | None = setting(
        None,
        "Columns of source and target: numbers in a table, names in records.",
        metavar="A B",
        shown="1 2, or the languages",
        nargs=2,
    )
    beams: int = _beams()
    length_penalty: float = _length_penalty()
    batch: int = setting(32, "Number of sentences translated at once.", metavar="N", min=1)
    limit: int | None = setting(None, "Evaluate the first N pairs only.", metavar="N", min=1, shown="all")
