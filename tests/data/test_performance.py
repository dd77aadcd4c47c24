"""Performances: values that hold only what can be, slow references for the pedal, unisons and the joint pedal."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from suite.data.performance import Note, Pedal, Performance, one_pedal, pitch_name
from suite.errors import DataError


def test_notes_are_in_order() -> None:
    """Two performances with the same notes given in another order are one value."""
    notes = [Note(64, 80, 1.0, 2.0), Note(60, 80, 1.0, 2.0), Note(72, 80, 0.0, 2.0)]
    forwards, backwards = Performance.of(notes), Performance.of(reversed(notes))
    assert forwards == backwards
    assert hash(forwards) == hash(backwards)
    assert [note.pitch for note in forwards.notes] == [72, 60, 64]
    assert forwards != Performance.of(notes, [Pedal(1.0, True)])
    assert forwards != Performance.of(notes[1:])
    with pytest.raises(ValueError, match="read-only"):
        forwards.pitch[0] = 1


@pytest.mark.parametrize(
    "note",
    [
        Note(-1, 64, 0.0, 1.0),
        Note(128, 64, 0.0, 1.0),
        Note(60, 0, 0.0, 1.0),
        Note(60, 128, 0.0, 1.0),
        Note(60, 64, -0.1, 1.0),
        Note(60, 64, 1.0, 0.5),
        Note(60, 64, 0.0, float("inf")),
        Note(60, 64, float("nan"), 1.0),
    ],
)
def test_impossible_notes_are_refused(note: Note) -> None:
    """They would be found only when a file is written, or not at all."""
    with pytest.raises(DataError, match="not a valid note: Note") as caught:
        Performance.of([Note(60, 64, 0.0, 1.0), note])
    assert str(note) in str(caught.value)


@pytest.mark.parametrize("time", [-0.1, float("inf"), float("nan")])
def test_impossible_pedals_are_refused(time: float) -> None:
    """A pedal before the beginning would be encoded as a negative shift."""
    with pytest.raises(DataError, match="pedal cannot change"):
        Performance.of([], [Pedal(0.5, True), Pedal(time, False)])


# ---- the pedal


def slow_pedal(pedals: list[list[tuple[float, bool]]]) -> list[tuple[float, bool]]:
    """The joint pedal, moment by moment: what each pedal is before, whether it is up in between, and is after."""
    states = [False] * len(pedals)
    joint = []
    for time in sorted({time for changes in pedals for time, _ in changes}):
        before, lifted = any(states), []
        for number, changes in enumerate(pedals):
            now = [down for moment, down in changes if moment == time]
            lifted.append(not states[number] or False in now)
            states[number] = now[-1] if now else states[number]
        if before and all(lifted):
            joint.append((time, False))
        if any(states) and (not before or all(lifted)):
            joint.append((time, True))
    return joint


moments = st.integers(0, 4).map(float)


@given(st.lists(st.lists(st.tuples(moments, st.booleans()), max_size=8), max_size=3))
@example([[(0.0, True), (1.0, False), (1.0, True), (2.0, False)]])
@example([[(0.0, True), (1.0, False)], [(1.0, True), (2.0, False)]])
def test_one_pedal(pedals: list[list[tuple[float, bool]]]) -> None:
    """Changes that change nothing must go, and those of another pedal must not lift this one."""
    expected = slow_pedal(pedals)
    assert list(one_pedal(*pedals)) == expected
    assert [down for _, down in expected] == [True, False] * (len(expected) // 2) + [True] * (len(expected) % 2)
    assert list(one_pedal(expected)) == expected


def slow_ends(performance: Performance) -> list[float]:
    """Where each note is damped, looking at one moment after another."""
    ends = []
    for pitch, _, start, end in performance.notes:
        down = any(state for time, state in performance.pedal if time <= end)
        for time, state in performance.pedal:
            down = state if time <= end else down
        strokes = [note.start for note in performance.notes if note.pitch == pitch and note.start > start]
        releases = [time for time, state in performance.pedal if time > end and not state]
        until = min([*strokes, *releases[:1]] if releases else [*strokes, performance.duration])
        ends.append(max(end, until) if down else end)
    return ends


@settings(deadline=None)
@given(st.from_type(Performance))
@example(Performance.of([Note(60, 64, 0.0, 1.0)], [Pedal(0.5, True), Pedal(1.0, False)]))
@example(Performance.of([Note(60, 64, 0.0, 1.0)], [Pedal(1.0, True), Pedal(3.0, False)]))
@example(Performance.of([Note(60, 64, 0.0, 1.0), Note(60, 64, 0.0, 0.0), Note(60, 9, 0.5, 0.6)], [Pedal(0.0, True)]))
@example(Performance.of([Note(60, 64, 0.0, 1.0), Note(61, 64, 0.0, 2.0)], [Pedal(0.0, True)]))
def test_folding_the_pedal(performance: Performance) -> None:
    """Ends moved to the wrong release, past the next stroke, or earlier than they were."""
    folded = performance.folded()
    columns = zip(performance.notes, slow_ends(performance), strict=True)
    assert folded == Performance.of(note._replace(end=end) for note, end in columns)
    assert not folded.pedal
    assert folded.folded() == folded


# ---- unisons


def slow_unisons(performance: Performance) -> Performance:
    """One keyboard, one stroke at a time."""
    played: list[Note] = []
    for pitch in range(128):
        sounding: list[Note] = []
        last = -1.0
        for note in performance.notes:
            if note.pitch != pitch:
                continue
            if sounding and note.start - last <= 0.030001:
                before = sounding[-1]
                loudest, end = max(before.velocity, note.velocity), max(before.end, note.end)
                sounding[-1] = before._replace(velocity=loudest, end=end)
            else:
                if sounding:
                    sounding[-1] = sounding[-1]._replace(end=min(sounding[-1].end, note.start))
                sounding.append(note)
            last = note.start
        played += sounding
    return Performance.of(played, performance.pedal)


@settings(deadline=None)
@given(st.from_type(Performance))
@example(Performance.of([Note(60, 50, 0.0, 1.0), Note(60, 70, 0.03, 0.5), Note(60, 60, 0.061, 2.0)]))
@example(Performance.of([Note(60, 50, 0.01, 1.0), Note(60, 70, 0.04, 0.5), Note(61, 60, 0.02, 2.0)]))
def test_without_unisons(performance: Performance) -> None:
    """A note in two voices sounded twice, and its first end cut the other's."""
    single = performance.without_unisons()
    assert single == slow_unisons(performance)
    assert single.without_unisons() == single
    for pitch in set(single.pitch):
        start, end = single.start[single.pitch == pitch], single.end[single.pitch == pitch]
        assert np.all(end[:-1] <= start[1:])


def test_unisons_wherever_they_lie() -> None:
    """0.14 - 0.11 is above 0.03 in floating point: 30 ms on the grid were one stroke here and two there."""
    for step in range(100):
        pair = Performance.of([Note(60, 64, step / 100, 9.0), Note(60, 64, (step + 3) / 100, 9.0)])
        assert len(pair.without_unisons()) == 1
        assert len(pair.joined(Performance.of([Note(60, 64, (step + 7) / 100, 9.0)])).without_unisons()) == 2


# ---- changes


def test_transposed() -> None:
    """Pitches beyond the range would wrap or fail instead of being dropped."""
    performance = Performance.of([Note(0, 64, 0.0, 1.0), Note(127, 64, 0.0, 1.0)], [Pedal(0.5, True)])
    assert [note.pitch for note in performance.transposed(1).notes] == [1]
    assert [note.pitch for note in performance.transposed(-1).notes] == [126]
    assert performance.transposed(1).pedal == performance.pedal
    assert len(performance.transposed(500)) == 0


def test_stretched() -> None:
    """The pedal has to slow down with the notes; a factor of 0 or none is refused."""
    performance = Performance.of([Note(60, 64, 1.0, 2.0)], [Pedal(0.5, True)])
    slow = performance.stretched(2)
    assert (slow.notes, slow.pedal) == ((Note(60, 64, 2.0, 4.0),), (Pedal(1.0, True),))
    for factor in (0, -1, float("inf"), float("nan")):
        with pytest.raises(DataError, match="cannot be stretched"):
            performance.stretched(factor)


def test_shifted() -> None:
    """A note before the beginning is refused in words; a pedal before it is down from there."""
    performance = Performance.of([Note(60, 64, 1.0, 2.0)], [Pedal(0.25, True), Pedal(0.5, False), Pedal(0.75, True)])
    assert performance.shifted(1).notes == (Note(60, 64, 2.0, 3.0),)
    assert performance.shifted(1).pedal == (Pedal(1.25, True), Pedal(1.5, False), Pedal(1.75, True))
    assert performance.shifted(-1).notes == (Note(60, 64, 0.0, 1.0),)
    assert performance.shifted(-1).pedal == (Pedal(0.0, True),)
    assert performance.shifted(-0.5).pedal == (Pedal(0.25, True),)
    with pytest.raises(DataError, match=r"the first note starts at 1 seconds, so it cannot start 1.5 seconds earlier"):
        performance.shifted(-1.5)


def test_between() -> None:
    """A pedal pressed before the cut was forgotten, and the notes after it ended too early."""
    notes = [Note(60, 64, 0.0, 9.0), Note(61, 64, 2.0, 9.0), Note(62, 64, 4.0, 5.0)]
    performance = Performance.of(notes, [Pedal(1.0, True), Pedal(3.0, False), Pedal(4.0, True)])
    part = performance.between(2.0, 4.0)
    assert part.notes == (Note(61, 64, 0.0, 2.0),)
    assert part.pedal == (Pedal(0.0, True), Pedal(1.0, False))
    assert len(performance.between(5.0, 1.0)) == 0
    assert performance.between(0.0, 10.0) == performance


def test_joined() -> None:
    """The release of one performance's pedal must not lift the other's."""
    left = Performance.of([Note(60, 64, 0.0, 1.0)], [Pedal(0.0, True), Pedal(2.0, False)])
    right = Performance.of([Note(50, 64, 0.0, 1.0)], [Pedal(1.0, True), Pedal(3.0, False)])
    both = left.joined(right)
    assert [note.pitch for note in both.notes] == [50, 60]
    assert both.pedal == (Pedal(0.0, True), Pedal(3.0, False))
    assert left.joined() == left


def test_nothing_stays_nothing() -> None:
    """Empty columns are where reductions and empty slices fail."""
    nothing = Performance.of([])
    for other in (
        nothing.transposed(1),
        nothing.stretched(2),
        nothing.shifted(-1),
        nothing.between(0, 1),
        nothing.joined(nothing),
        nothing.folded(),
        nothing.without_unisons(),
        Performance.from_pretty_midi(nothing.to_pretty_midi()),
    ):
        assert other == nothing
    assert (len(nothing), nothing.duration, nothing.notes) == (0, 0.0, ())
    assert nothing.piano_roll().shape == (128, 0)


def test_piano_roll() -> None:
    """A roll that is a step off, or that loses the shortest notes."""
    roll = Performance.of([Note(60, 80, 0.0, 0.02), Note(61, 90, 0.01, 0.01), Note(62, 70, 0.02, 0.04)]).piano_roll()
    assert roll[60].tolist() == [80, 80, 0, 0]
    assert roll[61].tolist() == [0, 90, 0, 0]
    assert roll[62].tolist() == [0, 0, 70, 70]
    assert roll.any(axis=1).sum() == 3


def test_pitch_names() -> None:
    """Middle C is C4, as in most software, not C3."""
    assert [pitch_name(pitch) for pitch in (0, 60, 61, 127)] == ["C-1", "C4", "C#4", "G9"]
