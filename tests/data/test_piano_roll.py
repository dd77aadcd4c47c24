"""Piano rolls: every note is seen, where and as dark as it should be, and no label covers another."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from suite.data.performance import Note, Performance
from suite.data.piano_roll import draw, draw_file
from suite.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def _no_windows() -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def scale(count: int, gap: float) -> Performance:
    """Notes up and down the keyboard."""
    return Performance.of(
        Note(21 + place % 88, 1 + place % 127, place * gap, (place + 1) * gap) for place in range(count)
    )


def drawn(performance: Performance) -> Axes:
    return draw(performance, Figure().add_subplot())


def shown(labels: list[Text]) -> list[Text]:
    """Labels with a text, inside the axes."""
    canvas = labels[0].get_figure(root=True)
    assert canvas is not None
    FigureCanvasAgg(canvas).draw()
    return [label for label in labels if label.get_text() and label.get_visible()]


def test_bars_lie_where_the_notes_are() -> None:
    """A swapped corner or a forgotten sort would move or recolour bars."""
    notes = [Note(60, 100, 0.5, 2.0), Note(72, 20, 1.0, 3.0)]
    (bars,) = drawn(Performance.of(notes)).collections
    boxes = [path.get_extents() for path in bars.get_paths()]  # quiet ones first
    for box, note in zip(boxes, sorted(notes, key=lambda note: note.velocity), strict=True):
        assert (box.x0, box.x1) == pytest.approx((note.start, note.end), abs=0.01)
        assert box.y0 < note.pitch < box.y1
        assert box.height < 1
    quiet, loud = (sum(to_rgb(colour)) for colour in bars.get_facecolor())
    assert loud < quiet < 2.7  # darker, and not as white as the paper


def test_everything_is_in_view() -> None:
    """Limits cut to the notes' starts would hide the last ones, at the ends of the keyboard too."""
    for pitch in (0, 60, 127):
        axes = drawn(Performance.of([Note(pitch, 64, 7.0, 9.0)]))
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        assert 6.5 < left < 7 and 9 < right < 9.5
        assert low <= pitch - 0.4 and pitch + 0.4 <= high
        assert high - low == 24 and low >= -0.5 and high <= 127.5


def test_repeated_notes_are_told_apart() -> None:
    """Strokes of one key that touch would look like one long note."""
    (bars,) = drawn(Performance.of([Note(60, 64, 0, 1), Note(60, 64, 1, 2)])).collections
    first, second = (path.get_extents() for path in bars.get_paths())
    assert first.x1 < second.x0


@pytest.mark.parametrize("place", [4.0, 4.2, 4.5])
def test_the_shortest_note_is_seen(place: float) -> None:
    """A bar thinner than a pixel would be rounded away, as it was."""
    others = [Note(60, 1, 0.0, 0.1), Note(60, 1, 9.9, 10.0)]

    def pixels(*notes: Note) -> np.ndarray:
        canvas = FigureCanvasAgg(Figure((6, 3), dpi=72))
        draw(Performance.of([*others, *notes]), canvas.figure.add_subplot())
        canvas.draw()
        return np.asarray(canvas.buffer_rgba(), dtype=np.int64)

    assert np.abs(pixels(Note(60, 127, place, place)) - pixels()).max() > 30


def test_octaves_are_named() -> None:
    """Middle C is C4, at MIDI 60."""
    axes = drawn(Performance.of([Note(48, 64, 0, 1), Note(74, 64, 0, 1)]))
    assert {label.get_text(): tick for label, tick in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)} == {
        "C3": 48,
        "C4": 60,
        "C5": 72,
    }


@pytest.mark.parametrize(("seconds", "label", "unit"), [(110, "100", "seconds"), (150, "2:15", "minutes:seconds")])
def test_long_pieces_count_minutes(seconds: int, label: str, unit: str) -> None:
    """Nobody reads 135 seconds as two minutes and a quarter."""
    axes = drawn(scale(seconds, 1.0))
    assert label in [one.get_text() for one in shown(axes.get_xticklabels())]
    assert axes.get_xlabel() == unit


@pytest.mark.parametrize("seconds", [0.01, 1, 20, 117, 121, 355, 3600, 24 * 3600])
def test_labels_do_not_overlap(seconds: float) -> None:
    """A tick each second of an hour would be a black bar, and one each hour no ticks at all."""
    axes = draw(scale(200, seconds / 200))
    for labels, side in ((axes.get_xticklabels(), "x"), (axes.get_yticklabels(), "y")):
        boxes = [label.get_window_extent() for label in shown(labels)]
        assert len(boxes) >= 4
        assert all(getattr(one, f"{side}1") < getattr(other, f"{side}0") for one, other in pairwise(boxes))


def test_many_notes_are_one_artist() -> None:
    """An artist a note would take minutes for a long piece."""
    axes = drawn(scale(20_000, 0.1))
    assert len(axes.collections) == 1
    assert len(axes.patches) < 128


def test_a_figure_of_its_own_has_a_scale() -> None:
    """Shades that nobody explains say nothing; somebody's own axes get no second axes beside them."""
    own = draw(scale(20, 0.5)).get_figure()
    given = drawn(scale(20, 0.5)).get_figure()
    assert own is not None and given is not None
    assert [axes.get_ylabel() for axes in own.axes] == ["", "velocity"]
    assert len(given.axes) == 1


@pytest.mark.parametrize("name", ["roll.png", "roll.SVG"])
def test_files_are_the_same_each_time(name: str, tmp_path: Path) -> None:
    """Dates and random ids in pictures would change them with each run; pyplot's figures would pile up."""
    for performance in (scale(50, 0.2), Performance.of([])):
        draw_file(performance, tmp_path / name, "A title")
    before = (tmp_path / name).read_bytes()
    draw_file(performance, tmp_path / name, "A title")
    assert (tmp_path / name).read_bytes() == before
    assert before.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
    assert not pyplot.get_fignums()


def test_title_is_no_formula(tmp_path: Path) -> None:
    """A file name with dollars would be typeset, or end in a traceback; a long one would be cut off."""
    draw_file(scale(20, 0.5), tmp_path / "roll.svg", "$\\frac{$ " + "word " * 50 + "end")
    text = (tmp_path / "roll.svg").read_text()
    assert "$\\frac{$ word" in text and "word end<" in text
    assert "word " * 50 not in text


def test_width_grows_within_bounds() -> None:
    """A picture of an hour must neither be squeezed into a stamp nor be a mile wide."""
    figures = [draw(scale(100, seconds / 100)).get_figure(root=True) for seconds in (1, 20, 120, 3600)]
    widths = [figure.get_figwidth() for figure in figures if figure is not None]
    assert 5 < widths[0] == widths[1] < widths[2] < widths[3] < 20


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    """matplotlib's own message for an unknown suffix is a traceback; nothing may be left behind."""
    for name in ("roll.bmp", "roll"):
        with pytest.raises(ConfigError, match=r"\.png or \.svg$"):
            draw_file(scale(5, 1), tmp_path / name)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match=r"folder\.png cannot be written"):
        draw_file(scale(5, 1), tmp_path / "folder.png")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]
