"""Options of `suite run classify` and `suite eval classify`; the Python function `evaluate` takes the latter too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from suite.cli.settings import setting


class CommaSeparated(click.ParamType):  # type: ignore[type-arg] # older versions are not generic
    """Click type for a comma-separated list of names."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The names without surrounding spaces; a sequence is returned as it is."""
        if not isinstance(value, str):
            return value
        return tuple(name.strip() for name in value.split(",") if name.strip())


NAMES = CommaSeparated()
SHARE = click.FloatRange(0, 1)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options for the labels that a text can get.

    Attributes:
        threshold: least probability at which a label is assigned, if a text may have several.
        labels: classes for zero-shot classification.
    """

    threshold: float | None = setting(
        None,
        "If texts have several labels: labels with probability P or more are assigned.",
        metavar="P",
        shown="0.5",
        type=SHARE,
    )
    labels: Sequence[str] | None = setting(
        None,
        "Experimental: choose among these labels with any language model (zero-shot); a small model guesses.  "
        "[default --model: lm]",
        metavar="A,B,...",
        type=NAMES,
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyRunOptions:
    """Options of the run command.

    Attributes:
        file: a file that holds one text.
        pair: the second text, for a model of text pairs.
        top_k: number of labels to show.
        min_probability: least probability of the top label; below it the answer is "unsure".
        explain: colour the tokens.
        lines: label each line of standard input.
        pair_column: column with the second texts of a file.
    """

    file: str | None = setting(
        None, "Read the text from a file; - is standard input.", metavar="FILE", type=click.Path()
    )
    pair: str | None = setting(None, "Second text, for a classifier of text pairs.", metavar="TEXT")
    top_k: int | None = setting(None, "Number of labels to show.", metavar="K", shown="3; with --json all", min=1)
    min_probability: float = setting(0.0, "Answer 'unsure' below this probability.", metavar="P", shown="0", type=SHARE)
    explain: bool = setting(False, "Colour the tokens by their influence on the label.")
    lines: bool = setting(False, "Label each line of standard input.")
    pair_column: str | None = setting(
        None, "Column with the second text of pairs (name, or number from 1).", metavar="C"
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyEvalOptions:
    """Options of `suite eval classify`; columns are those of `suite.data.labelled.read_labelled`.

    Attributes:
        train: labelled data to train the baselines on (empty: no baselines).
        text: columns with the text, joined; guessed if none is named.
        label, pair: columns of `data` and `train`.
        separator: separator of several labels in a cell.
        names: names of labels that are numbers.
        header: whether the first line holds the columns' names (None: guessed).
        train_text, train_label: the columns of `train`, if they differ.
        limit: evaluate this many records, drawn at random, the same each time.
        oos_label: label of records that belong to no class. They only count in the AUROC of telling them from the rest.
        confused: number of confused pairs of classes in the report's tables.
    """

    train: tuple[str, ...] = setting((), "Labelled data to train the baselines on.", metavar="SOURCE")
    text: tuple[str, ...] = setting(
        (), "Column with the text; if given several times, the texts are joined.", metavar="C", shown="guessed"
    )
    label: str = setting("", "Column with the label.", metavar="C", shown="guessed")
    pair: str = setting("", "Column with the second text of pairs.", metavar="C")
    separator: str = setting("", "Separator between several labels in a cell.", metavar="S")
    names: Sequence[str] = setting(
        (),
        "Names of labels that are numbers, in order, or as 1=A,2=B,..., each once.",
        metavar="A,B,...",
        type=NAMES,
    )
    header: bool | None = setting(
        None, "Whether the first line holds the column names.", flags=("--header/--no-header",), shown="guessed"
    )
    train_text: tuple[str, ...] = setting((), "Column with the text in --train.", metavar="C", shown="as --text")
    train_label: str = setting("", "Column with the label in --train.", metavar="C", shown="as --label")
    limit: int | None = setting(None, "Evaluate N records chosen at random.", metavar="N", shown="all", min=1)
    oos_label: str | None = setting(None, "Label of the records that belong to none of the classes.", metavar="LABEL")
    confused: int = setting(10, "Number of confused pairs to list.", metavar="N", min=0)


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Options for the pictures of an evaluation.

    Attributes:
        reliability, confusion: files to write the two diagrams to.
    """

    reliability: Path | None = setting(None, "Draw the calibration (.png or .svg).", metavar="FILE")
    confusion: Path | None = setting(None, "Draw the confusion matrix (.png or .svg).", metavar="FILE")
