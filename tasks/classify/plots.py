"""Pictures of a classifier: the reliability diagram and the confusion matrix, as PNG or SVG, without a display."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.errors import ConfigError
from suite.files import write_output
from suite.tasks.classify.metrics import Floats, Ints, Reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
BLUE, RED, GREEN, GREY = "#2f6fab", "#d1495b", "#3a9d7c", "#8a8f98"
COUNTS_UP_TO = 20  # most classes for which the counts in the cells are legible
LABELS_UP_TO = 80  # most classes for which every label fits on the axes
LABEL_LENGTH = 28  # characters


def check_picture(path: Path) -> None:
    """Raise a ConfigError unless the file name ends in .png or .svg."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: the name of a picture must end in {' or '.join(FORMATS)}")


def plot_reliability(found: Reliability, path: Path, *, title: str) -> None:
    """Draw a reliability diagram: accuracy by confidence, above a histogram of the predictions.

    Args:
        found: the result of `metrics.reliability`.
        path: file to write, .png or .svg.
        title: what was measured; the calibration error is added.

    Raises:
        ConfigError: the file name has another ending.
    """
    check_picture(path)
    figure = _figure(5.4, 6.2)
    figure.set_layout_engine("constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    width = np.diff(found.edges)
    accuracy, confidence = np.nan_to_num(found.accuracy), np.nan_to_num(found.confidence)
    both, gap = np.minimum(accuracy, confidence), confidence - accuracy
    look: dict[str, Any] = {"align": "edge", "edgecolor": "white", "linewidth": 0.8}
    upper.bar(found.edges[:-1], both, width, color=BLUE, label="right", **look)
    for sign, colour, name in ((1, RED, "gap: overconfident"), (-1, GREEN, "gap: underconfident")):
        height = np.maximum(sign * gap, 0)
        upper.bar(
            found.edges[:-1], height, width, bottom=both, color=colour, alpha=0.5, hatch="///", label=name, **look
        )
    upper.plot([0, 1], [0, 1], "--", color="black", linewidth=1, label="calibrated")
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that is correct")
    total = int(found.count.sum())
    means = [100 * float(np.average(values, weights=found.count)) for values in (confidence, accuracy)]
    upper.set_title(
        f"{title}\n{total:,} predictions, mean confidence {means[0]:.1f} %, {means[1]:.1f} % correct\n"
        f"expected calibration error {100 * found.error:.1f} %",
        fontsize=10,
    )
    lower.bar(found.edges[:-1], found.count, width, color=GREY, **look)
    lower.set(xlabel=f"confidence: the probability given, in {len(found.count)} bins", ylabel="predictions")
    lower.yaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
    lower.yaxis.get_major_locator().set_params(integer=True)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    _write(figure, path)


def plot_confusion(matrix: Ints, labels: Sequence[str], path: Path, *, title: str) -> None:
    """Draw a confusion matrix, shaded by the share of the true class's examples.

    Args:
        matrix: (C, C) counts, the truth in rows.
        labels: names of the C classes.
        path: file to write, .png or .svg.
        title: what was measured.

    Raises:
        ConfigError: the file name has another ending.
    """
    check_picture(path)
    count = len(labels)
    support = matrix.sum(axis=1, keepdims=True)
    shares = np.divide(matrix, support, out=np.zeros(matrix.shape), where=support > 0)
    cell = 0.55 if count <= COUNTS_UP_TO else 0.16 if count <= LABELS_UP_TO else 0.09  # inches
    side = max(2.6, cell * count)
    names = [label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…" for label in labels]
    step = -(-count // LABELS_UP_TO)
    font = 9 if count <= COUNTS_UP_TO else 7 if count <= LABELS_UP_TO else 6.5
    figure = _figure(side, side)  # the axes fill it; labels around them are added on saving
    axes = figure.add_axes((0, 0, 1, 1))
    image = axes.imshow(_shade(shares), cmap="Blues", vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    ticks = range(0, count, step)
    axes.set_xticks(ticks, [names[tick] for tick in ticks], rotation=90, fontsize=font)
    axes.set_yticks(ticks, [names[tick] for tick in ticks], fontsize=font)
    axes.set(xlabel="predicted", ylabel="true")
    right = int(np.trace(matrix))
    every = f"; one class in {step} is labelled" if step > 1 else ""
    axes.set_title(f"{title}\n{right:,} of {int(matrix.sum()):,} correct{every}")
    borders, width = np.arange(1, count) - 0.5, 0.8 if count <= COUNTS_UP_TO else 0.2
    axes.hlines(borders, -0.5, count - 0.5, color="white", linewidth=width)
    axes.vlines(borders, -0.5, count - 0.5, color="white", linewidth=width)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if count <= COUNTS_UP_TO:
        size = 9 if matrix.max() < 10_000 else 7
        for row, column in zip(*np.nonzero(matrix), strict=True):
            colour = "white" if shares[row, column] > 0.35 else "black"
            axes.text(column, row, f"{matrix[row, column]:,}", ha="center", va="center", color=colour, fontsize=size)
    bar = figure.colorbar(image, cax=figure.add_axes((1 + 0.15 / side, 0.1, 0.2 / side, 0.8)))
    marks = np.array([0, 0.01, 0.05, 0.1, 0.25, 0.5, 1])
    bar.set_ticks(_shade(marks).tolist(), labels=[f"{100 * mark:.0f} %" for mark in marks])
    bar.set_label("share of the true class")
    bar.outline.set_visible(False)
    _write(figure, path)


def _shade(shares: Floats) -> Floats:
    """Darkness in [0, 1] for shares; raised for small shares, so that rare mistakes are visible."""
    shade: Floats = np.where(shares > 0, 0.2 + 0.8 * np.sqrt(shares), 0)
    return shade


def _figure(width: float, height: float) -> Figure:
    """A figure of the given size in inches, which needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _write(figure: Figure, path: Path) -> None:
    """Write a figure to a file, with the same bytes each time."""
    import matplotlib

    kind = path.suffix.lower()[1:]
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "suite", "svg.fonttype": "none"}):
        write_output(
            path, lambda file: figure.savefig(file, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
        )
