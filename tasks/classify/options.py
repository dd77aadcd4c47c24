"""Options of `suite run classify` and `suite eval classify`; the latter's are `evaluate`'s in Python, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from suite.cli.settings import setting


class CommaSeparated(click.ParamType[list[str]]):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The names without the spaces around them; what is a sequence already stays as it is."""
        if not isinstance(value, str):
            return value
        return tuple(name.strip() for name in value.split(",") if name.strip())


NAMES = CommaSeparated()
SHARE = click.FloatRange(0, 1)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Which labels a text can get.

    Attributes:
        threshold: from which probability on a label is assigned, where a text may have several.
        labels: to choose among zero-shot.
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
        pair: second text of the one that is given.
        top_k: number of labels to show.
        min_probability: below it the answer is "unsure".
        explain: colour the tokens.
        lines: label the lines of standard input.
        pair_column: of the second texts of a file.
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
    """What a classifier is measured on, and against; columns are those of `suite.data.labelled.read_labelled`.

    Attributes:
        train: labelled data that the baselines learn from (none: there are no baselines).
        text: columns with the text, joined; guessed where none is named.
        label, pair: columns of `data` and `train`.
        separator: between several labels in a cell.
        names: of labels that are numbers.
        header: whether the first line holds the columns' names (None: guessed).
        train_text, train_label: the columns of `train`, where they are others.
        limit: evaluate this many records, drawn at random, the same each time.
        oos_label: records with this label belong to none of the classes. They count only for how well the
            probabilities tell them from the rest.
        confused: pairs of classes that the report's tables list.
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
    """Pictures of an evaluation.

    Attributes:
        reliability, confusion: files to write.
    """

    reliability: Path | None = setting(None, "Draw the calibration (.png or .svg).", metavar="FILE")
    confusion: Path | None = setting(None, "Draw the confusion matrix (.png or .svg).", metavar="FILE")
