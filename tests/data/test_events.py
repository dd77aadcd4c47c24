"""Events: Magenta's vocabulary, a slow encoder as reference, round trips that lose at most 5 ms and 2 of velocity."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from suite.data.events import EventTable, bin_velocity, velocity_bin
from suite.data.midi import read_midi, to_pretty_midi
from suite.data.performance import Note, Pedal, Performance
from suite.errors import DataError

TABLES = (EventTable(), EventTable(pedal=True))
tables = st.sampled_from(TABLES)
performances = st.from_type(Performance)
unisonless = performances.map(Performance.without_unisons)  # no pitch overlaps itself
STEP = 0.01
HALF = STEP / 2 + 1e-9


@st.composite
def any_tokens(draw: st.DrawFn) -> tuple[EventTable, list[int]]:
    """A table and ids in any order; few pitches, that they may meet."""
    table = draw(tables)
    few = st.sampled_from([table.on.id(60), table.on.id(61), table.off.id(60), table.off.id(61), table.shift.id(1)])
    pedal = st.sampled_from(list(table.sustain.ids) or [table.shift.id(2)])
    return table, draw(st.lists(few | pedal | st.integers(0, table.size - 1), max_size=60))


# ---- the vocabulary


def test_ids_are_magentas() -> None:
    """Ids in another order, or a bin more or less, could not be compared with Performance RNN's."""
    table = EventTable()
    assert table.size == 128 + 128 + 100 + 32
    assert [table.on.id(0), table.on.id(127), table.off.id(0), table.off.id(127)] == [0, 127, 128, 255]
    assert [table.shift.id(1), table.shift.id(100), table.velocity.id(1), table.velocity.id(32)] == [256, 355, 356, 387]
    extended = EventTable(pedal=True)
    assert (extended.size, *extended.sustain.ids) == (390, 388, 389)
    assert extended.ranges[:4] == table.ranges[:4]


@pytest.mark.parametrize("table", TABLES)
def test_every_id_has_one_name(table: EventTable) -> None:
    """Two ids with one name, or an id of two kinds, would make the table ambiguous."""
    ids = [id for one in table.ranges for id in one.ids]
    assert ids == list(range(table.size))
    assert len({table.name(id) for id in ids}) == table.size
    assert all(one.id(one.value(id)) == id for one in table.ranges for id in one.ids)
    for id in (-1, table.size):
        with pytest.raises(DataError, match="not in the vocabulary"):
            table.name(id)
        with pytest.raises(DataError, match="not in the vocabulary"):
            table.decode([0, id])


def test_velocity_bins() -> None:
    """Bins decoded to their lower edge, as in Magenta, would make everything softer by 2 each time."""
    velocity = np.arange(1, 128)
    bins = velocity_bin(velocity)
    assert bins.tolist() == [(one - 1) // 4 + 1 for one in velocity.tolist()]
    assert max(abs(bin_velocity(bin) - one) for bin, one in zip(bins.tolist(), velocity.tolist(), strict=True)) == 2
    assert velocity_bin(np.array([bin_velocity(bin) for bin in range(1, 33)])).tolist() == list(range(1, 33))


# ---- encoding


def slow_encode(table: EventTable, performance: Performance) -> list[int]:
    """The rules of encoding, one step and one event at a time."""
    events = []
    for pitch, velocity, start, end in performance.notes:
        first, last = int(start * 100 + 0.5), int(end * 100 + 0.5)
        last = max(last, first + 1)
        events.append((last, 0, pitch, 0, 0, table.off.id(pitch)))
        events.append((first, 2, pitch, last, (velocity + 3) // 4, table.on.id(pitch)))
    down = False
    for step in sorted({int(time * 100 + 0.5) for time, _ in performance.pedal} if table.pedal else ()):
        states = [change.down for change in performance.pedal if int(change.time * 100 + 0.5) == step]
        if down and states[-1]:
            states = [False, True]
        elif down != states[-1]:
            states = states[-1:]
        else:
            states = []
        events += [(step, 1, number, 0, 0, table.sustain.id(state)) for number, state in enumerate(states)]
        down = states[-1] if states else down
    tokens, now, bin = [], 0, 0
    for step, _, _, _, strength, id in sorted(events):
        while now < step:
            tokens.append(table.shift.id(min(100, step - now)))
            now += min(100, step - now)
        if strength and strength != bin:
            tokens.append(table.velocity.id(strength))
            bin = strength
        tokens.append(id)
    return tokens


@settings(deadline=None)
@given(tables, performances)
@example(TABLES[1], Performance.of([], [Pedal(1.0, True), Pedal(1.001, False), Pedal(1.002, True)]))
@example(TABLES[1], Performance.of([], [Pedal(1.0, True), Pedal(2.0, False), Pedal(2.001, True)]))
@example(TABLES[1], Performance.of([], [Pedal(1.0, True), Pedal(1.004, False), Pedal(3.0, True)]))
@example(TABLES[0], Performance.of([Note(60, 90, 0.0, 1.0), Note(60, 40, 0.0, 2.0)]))
def test_encoding_follows_the_rules(table: EventTable, performance: Performance) -> None:
    """Arrays are quicker than a loop, and easier to get wrong."""
    assert table.encode(performance).tokens.tolist() == slow_encode(table, performance)


def test_order_at_one_step() -> None:
    """A key struck again where it ends must be let go first, and a velocity stand where it matters."""
    table = EventTable(pedal=True)
    performance = Performance.of(
        [Note(60, 50, 0.0, 1.0), Note(60, 50, 1.0, 2.5), Note(55, 49, 1.0, 2.0), Note(70, 90, 1.0, 2.0)],
        [Pedal(0.0, True), Pedal(1.0, False), Pedal(1.0, True)],
    )
    names = [table.name(id) for id in table.encode(performance).tokens.tolist()]
    assert names[:4] == ["PEDAL DOWN", "VELOCITY 50", "NOTE_ON C4", "TIME_SHIFT 1.00"]
    assert names[4:11] == [
        *("NOTE_OFF C4", "PEDAL UP", "PEDAL DOWN", "NOTE_ON G3", "NOTE_ON C4", "VELOCITY 90", "NOTE_ON A#4")
    ]
    assert names[11:] == ["TIME_SHIFT 1.00", "NOTE_OFF G3", "NOTE_OFF A#4", "TIME_SHIFT 0.50", "NOTE_OFF C4"]
    assert EventTable().encode(performance).tokens.max() < EventTable().size


def test_nothing() -> None:
    """The empty performance stumbled over its missing last event."""
    for table in TABLES:
        assert len(table.encode(Performance.of([])).tokens) == 0
        assert table.decode([]) == Performance.of([])


# ---- round trips


@settings(deadline=None)
@given(tables, performances)
def test_what_a_round_trip_keeps(table: EventTable, performance: Performance) -> None:
    """Notes lost, moved by more than half a step or, if short, made longer than a step; notes of a pitch that overlap
    come back first in, first out, so their ends are compared in order."""
    encoded = table.encode(performance)
    back = table.decode(encoded.tokens)
    lengthened = 0
    assert set(back.pitch) == set(performance.pitch)
    for pitch in set(performance.pitch):
        before, after = (one.pitch == pitch for one in (performance, back))
        assert before.sum() == after.sum()
        start = np.sort(performance.start[before])
        assert np.abs(np.sort(back.start[after]) - start).max(initial=0) <= HALF
        step = np.floor(performance.start[before] * 100 + 0.5)
        least = (step + 1) * STEP
        short = np.floor(performance.end[before] * 100 + 0.5) <= step
        lengthened += short.sum()
        end = np.sort(np.where(short, least, performance.end[before]))
        assert np.abs(np.sort(back.end[after]) - end).max(initial=0) <= HALF
    assert lengthened == encoded.lengthened
    assert sorted(velocity_bin(back.velocity).tolist()) == sorted(velocity_bin(performance.velocity).tolist())
    assert table.pedal or not back.pedal


@settings(deadline=None)
@given(tables, unisonless)
def test_every_note_comes_back(table: EventTable, performance: Performance) -> None:
    """Where no pitch overlaps itself, each note is its own again: pitch exact, times within 5 ms, velocity within 2."""
    back = table.decode(table.encode(performance).tokens)
    order, other = (np.lexsort((one.start, one.pitch)) for one in (performance, back))
    assert back.pitch[other].tolist() == performance.pitch[order].tolist()
    assert np.abs(back.start[other] - performance.start[order]).max(initial=0) <= HALF
    assert np.abs(back.velocity[other] - performance.velocity[order]).max(initial=0) <= 2
    moved = np.abs(back.end[other] - performance.end[order])
    length = back.end[other] - back.start[other]
    assert np.all((moved <= HALF) | ((length < 1.5 * STEP) & (performance.end - performance.start < STEP)[order]))


def test_errors_do_not_add_up() -> None:
    """Gaps rounded one by one, 4.9 ms down each, would end a piece of 10,000 notes 49 seconds early."""
    start = np.arange(10_000) * 0.0149
    count = len(start)
    performance = Performance(np.arange(count) % 88 + 21, np.full(count, 64), start, start + 0.1)
    back = EventTable().decode(EventTable().encode(performance).tokens)
    assert np.abs(np.sort(back.start) - start).max() <= HALF
    assert np.abs(np.sort(back.end) - np.sort(performance.end)).max() <= HALF


@settings(deadline=None, max_examples=300)
@given(any_tokens())
@example((TABLES[0], [60, 60, 60 + 128, 256, 60 + 128]))
@example((TABLES[0], [387, 60, 356, 60, 256, 60 + 128, 256, 60 + 128]))
@example((TABLES[1], [389, 388, 389, 256, 388, 389, 388, 389, 255, 389]))
@example((TABLES[1], [60, 389, 388, 256]))
def test_any_tokens_are_a_performance(case: tuple[EventTable, list[int]]) -> None:
    """A model may write anything: it must decode to what can be encoded, decoded and encoded again unchanged."""
    table, tokens = case
    performance = table.decode(tokens)
    encoded = table.encode(performance)
    assert encoded.lengthened == 0
    assert table.decode(encoded.tokens) == performance
    assert table.encode(table.decode(encoded.tokens)).tokens.tolist() == encoded.tokens.tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("midi")


@settings(deadline=None)
@given(case=any_tokens())
def test_any_tokens_are_a_midi_file(folder: Path, case: tuple[EventTable, list[int]]) -> None:
    """Ends in the wrong order at one tick, or notes of a pitch that overlap, would come back as other notes."""
    performance = case[0].decode(case[1])
    if not len(performance):
        return
    performance.save(folder / "any.mid")
    back = read_midi(folder / "any.mid", pedal="keep").performance
    if len(to_pretty_midi(performance).instruments) < 15:
        assert back == performance
    else:
        assert back.pitch.tolist() == performance.pitch.tolist()


# ---- decoding


def test_decoding_what_encoding_never_writes() -> None:
    """An end without a note, a note without an end, and an overlap have one meaning each."""
    table = EventTable()
    on, off, shift = table.on.id(60), table.off.id(60), table.shift.id
    assert table.decode([off, shift(10), on, shift(100), off, off]).notes == (Note(60, 66, 0.1, 1.1),)
    assert table.decode([on, shift(50), table.on.id(61), shift(50)]).notes == (
        Note(60, 66, 0.0, 1.0),
        Note(61, 66, 0.5, 1.0),
    )
    assert table.decode([on, shift(1), on, shift(1), off, shift(1), off]).notes == (
        Note(60, 66, 0.0, 0.02),
        Note(60, 66, 0.01, 0.03),
    )
    assert table.decode([table.velocity.id(1), on, off]).notes == (Note(60, 2, 0.0, 0.01),)
    assert table.decode(np.array([on, shift(7), off])).notes == (Note(60, 66, 0.0, 0.07),)


def test_duration_is_that_of_the_shifts() -> None:
    """Counting the events instead of their values would be a hundred times off."""
    table = EventTable(pedal=True)
    assert table.duration(np.array([0, table.shift.id(100), 387, table.shift.id(1), 389])) == pytest.approx(1.01)
    assert table.duration(np.array([], dtype=np.int64)) == 0
