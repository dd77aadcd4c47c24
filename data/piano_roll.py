"""Piano rolls: a performance as a picture, time to the right, pitch upwards, harder strokes darker."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.data.performance import PITCHES, Performance, pitch_name
from suite.errors import ConfigError, DataError
from suite.files import write_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
BLACK_KEYS = (1, 3, 6, 8, 10)  # of the twelve from C
FEWEST_PITCHES = 24  # rows shown, so that one note does not fill the picture
MINUTES_FROM = 120.0  # seconds; the axis of a longer performance counts minutes
MOST_TICKS = 12


def draw(performance: Performance, axes: Axes | None = None) -> Axes:
    """Draw a piano roll.

    Args:
        performance: the notes; it may have none.
        axes: to draw on. None: a new pyplot figure of fitting size, with a scale of velocities, which a notebook shows.

    Returns:
        the axes.
    """
    if axes is None:
        from matplotlib import pyplot

        return _fill(pyplot.figure(), performance)
    from matplotlib.collections import PolyCollection
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    first, last = _seconds(performance)
    low, high = _pitches(performance)
    for row in range(low, high + 1):
        if row % 12 in BLACK_KEYS:
            axes.axhspan(row - 0.5, row + 0.5, color="0.95", linewidth=0, zorder=0)
        if row % 12 == 0:
            axes.axhline(row - 0.5, color="0.8", linewidth=0.6, zorder=0.5)
    # quiet notes first, so that loud ones lie on top; repeated notes are parted by `hair`, and no note is thinner
    hair = (last - first) / 1000
    order = np.argsort(performance.velocity, kind="stable")
    pitch, start = performance.pitch[order], performance.start[order]
    end = np.maximum(performance.end[order] - hair, start + hair)
    left_right, down_up = np.stack((start, start, end, end), axis=1), np.array((-0.4, 0.4, 0.4, -0.4))
    corners = np.stack((left_right, pitch[:, None] + down_up), axis=2)  # (N, 4, 2)
    colours = _shades().to_rgba(performance.velocity[order])
    # snapped to whole pixels, the shortest would vanish
    axes.add_collection(PolyCollection(list(corners), facecolors=colours, linewidths=0, snap=False), autolim=False)
    axes.set(xlim=(first, last), ylim=(low - 0.5, high + 0.5))
    octaves = range(-(-low // 12) * 12, high + 1, 12)
    axes.set_yticks(octaves, [pitch_name(row) for row in octaves])
    if last - first < MINUTES_FROM:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS, steps=[1, 2, 5, 10]))
        axes.set_xlabel("seconds")
    else:
        steps = (10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
        step = next((step for step in steps if (last - first) / step <= MOST_TICKS), steps[-1])
        axes.xaxis.set_major_locator(MultipleLocator(step))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time // 60:.0f}:{time % 60:02.0f}"))
        axes.set_xlabel("minutes:seconds")
    axes.grid(axis="x", color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=3, color="0.6")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.6")
    return axes


def draw_file(performance: Performance, path: Path | str, title: str = "") -> None:
    """Draw a piano roll to a file without a display, the same bytes each time.

    Args:
        performance: the notes.
        path: .png or .svg.
        title: shown above the picture.

    Raises:
        ConfigError: the name has another suffix.
        DataError: it cannot be written.
    """
    import matplotlib
    from matplotlib.figure import Figure

    path = Path(path)
    kind = path.suffix.lower()[1:]
    if f".{kind}" not in FORMATS:
        raise ConfigError(f"{path}: the name of a picture must end in {' or '.join(FORMATS)}")
    figure = Figure()
    axes = _fill(figure, performance)
    if title:
        width = int(12 * figure.get_figwidth())  # characters
        axes.set_title("\n".join(textwrap.wrap(title, width)), loc="left", fontsize=11, parse_math=False)
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        with matplotlib.rc_context({"svg.hashsalt": "suite", "svg.fonttype": "none"}):
            write_output(path, lambda file: figure.savefig(file, format=kind, dpi=150, metadata=metadata))
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from None


def _fill(figure: Figure, performance: Performance) -> Axes:
    """Draw a piano roll and its scale on a figure, which is resized to fit."""
    first, last = _seconds(performance)
    low, high = _pitches(performance)
    width = min(max(9.0, 0.12 * (last - first)), 18.0)  # inches
    figure.set_size_inches(width, 1.0 + 0.06 * (high - low + 1))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    axes = draw(performance, figure.add_subplot())
    scale = figure.colorbar(_shades(), ax=axes, label="velocity", ticks=[1, 32, 64, 96, 127], aspect=30, pad=0.01)
    scale.outline.set_visible(False)
    scale.ax.tick_params(length=0)
    return axes


def _seconds(performance: Performance) -> tuple[float, float]:
    """First and last second shown."""
    if not len(performance):
        return 0.0, 1.0
    first, last = float(performance.start.min()), performance.duration
    margin = max(0.01 * (last - first), 0.05)
    return first - margin, last + margin


def _pitches(performance: Performance) -> tuple[int, int]:
    """Lowest and highest pitch shown."""
    if not len(performance):
        return 60 - FEWEST_PITCHES // 2, 60 + FEWEST_PITCHES // 2 - 1
    low, high = int(performance.pitch.min()), int(performance.pitch.max())
    rows = min(max(high - low + 5, FEWEST_PITCHES), PITCHES)
    low = min(max((low + high - rows + 1) // 2, 0), PITCHES - rows)
    return low, low + rows - 1


def _shades() -> ScalarMappable:
    """Colours of velocities; the softest notes still show on white."""
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    shades = matplotlib.colormaps["magma_r"](np.linspace(0.12, 0.88, 256))
    return ScalarMappable(Normalize(1, 127), ListedColormap(shades))
