"""Performances as event tokens, by one table from which ids, names, encoding, decoding and the grammar follow.

The vocabulary is that of Performance RNN and Music Transformer: note-on, note-off, time shifts of 10 ms to 1 s, and 32
velocities, in Magenta's order. Times are quantised from the beginning of the piece, never gap by gap, so errors do not
add up: every onset and end is at most 5 ms from where it was.

Source: Simon and Oore 2017, "Performance RNN"; Huang et al. 2018, "Music Transformer".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from suite.data.performance import PITCHES, Note, Pedal, Performance, one_pedal, pitch_name
from suite.errors import DataError

STEP_RATE = 100  # steps a second
LONGEST_SHIFT = 100  # steps
VELOCITIES = 32
BIN = 128 // VELOCITIES


@dataclass(frozen=True)
class EventRange:
    """Consecutive ids of one kind of event.

    Attributes:
        kind: its name.
        first: value of its first id.
        size: how many there are.
        start: its first id.
    """

    kind: str
    first: int
    size: int
    start: int

    @property
    def ids(self) -> range:
        """All its ids."""
        return range(self.start, self.start + self.size)

    def id(self, value: int) -> int:
        """The id of a value."""
        return self.start + value - self.first

    def value(self, id: int) -> int:
        """The value of an id."""
        return self.first + id - self.start


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Event tokens, and what quantising did.

    Attributes:
        tokens: (T,) ids.
        lengthened: notes that were shorter than a step and became one long.
    """

    tokens: NDArray[np.int64]
    lengthened: int


@dataclass(frozen=True)
class EventTable:
    """The vocabulary of events.

    Args:
        pedal: whether the sustain pedal has events of its own, behind all others; without, it must have been folded
            into the notes.

    Example:
        >>> table = EventTable()
        >>> table.size, table.name(60), table.name(table.shift.id(35)), table.name(table.velocity.id(17))
        (388, 'NOTE_ON C4', 'TIME_SHIFT 0.35', 'VELOCITY 66')
    """

    pedal: bool = False

    @cached_property
    def on(self) -> EventRange:
        """A key is struck: pitches 0 to 127."""
        return EventRange("NOTE_ON", 0, PITCHES, 0)

    @cached_property
    def off(self) -> EventRange:
        """A note ends: pitches 0 to 127."""
        return EventRange("NOTE_OFF", 0, PITCHES, self.on.ids.stop)

    @cached_property
    def shift(self) -> EventRange:
        """Time passes: 1 to 100 steps of 10 ms."""
        return EventRange("TIME_SHIFT", 1, LONGEST_SHIFT, self.off.ids.stop)

    @cached_property
    def velocity(self) -> EventRange:
        """The velocity of the notes that follow: bins 1 to 32."""
        return EventRange("VELOCITY", 1, VELOCITIES, self.shift.ids.stop)

    @cached_property
    def sustain(self) -> EventRange:
        """The pedal comes up (0) or goes down (1); no ids without pedal events."""
        return EventRange("PEDAL", 0, 2 if self.pedal else 0, self.velocity.ids.stop)

    @property
    def ranges(self) -> tuple[EventRange, ...]:
        """All kinds in the order of their ids."""
        return (self.on, self.off, self.shift, self.velocity, self.sustain)

    @property
    def size(self) -> int:
        """Ids in all."""
        return self.sustain.ids.stop

    def range_of(self, id: int) -> EventRange:
        """The kind that an id belongs to.

        Raises:
            DataError: no event has it.
        """
        for one in self.ranges:
            if id in one.ids:
                return one
        raise DataError(f"event id {id} is not in the vocabulary of {self.size}")

    def name(self, id: int) -> str:
        """What an event is called, such as "NOTE_ON C4"; times in seconds, velocities as MIDI has them."""
        kind = self.range_of(id)
        value = kind.value(id)
        if kind in (self.on, self.off):
            return f"{kind.kind} {pitch_name(value)}"
        if kind == self.shift:
            return f"{kind.kind} {value / STEP_RATE:.2f}"
        if kind == self.velocity:
            return f"{kind.kind} {bin_velocity(value)}"
        return f"{kind.kind} {'DOWN' if value else 'UP'}"

    def encode(self, performance: Performance) -> Encoded:
        """Write a performance as events.

        At one step the ends come first, then the pedal, then the strokes, each by pitch; a velocity stands directly
        before a stroke, where its bin is another than before. Silence after the last note is not written.

        Args:
            performance: its pedal is written only by a table that has pedal events.

        Returns:
            the tokens.
        """
        pitch = performance.pitch
        starts = steps(performance.start)
        ends = steps(performance.end)
        short = ends <= starts
        ends = np.where(short, starts + 1, ends)
        changes = performance.pedal if self.pedal else ()
        pedal_steps = steps(np.array([time for time, _ in changes])).tolist()
        # what changed within one step may change nothing
        changes = one_pedal(zip(pedal_steps, (down for _, down in changes), strict=True))
        count, pedals = len(performance), len(changes)
        # one row an event: its step, its place within the step, and what tells its fellows there apart
        when = np.concatenate((ends, np.array([step for step, _ in changes], dtype=np.int64), starts))
        rank = np.repeat((0, 1, 2), (count, pedals, count))
        key = np.concatenate((pitch, np.arange(pedals), pitch))
        silent = np.zeros(count + pedals, dtype=np.int64)
        until = np.concatenate((silent, ends))  # strokes at one moment end first in, first out, too
        strength = np.concatenate((silent, velocity_bin(performance.velocity)))
        pedal_ids = np.array([self.sustain.id(down) for _, down in changes], dtype=np.int64)
        ids = np.concatenate((self.off.id(0) + pitch, pedal_ids, self.on.id(0) + pitch))
        order = np.lexsort((strength, until, key, rank, when))
        when, ids, strength = when[order], ids[order], strength[order]
        gaps = np.diff(when, prepend=0)
        shifts = -(-gaps // LONGEST_SHIFT)  # tokens of time before each event
        struck = np.flatnonzero(strength)
        changed = np.zeros(len(ids), dtype=bool)
        changed[struck] = np.diff(strength[struck], prepend=0) != 0
        places = np.cumsum(shifts + changed + 1) - 1  # where each event's own token stands
        tokens = np.full(places[-1] + 1 if len(places) else 0, self.shift.id(LONGEST_SHIFT), dtype=np.int64)
        tokens[places] = ids
        tokens[places[changed] - 1] = self.velocity.id(0) + strength[changed]
        last_shift = places - changed - 1
        waits = gaps > 0
        tokens[last_shift[waits]] = self.shift.id(0) + (gaps[waits] - 1) % LONGEST_SHIFT + 1
        return Encoded(tokens=tokens, lengthened=int(short.sum()))

    def decode(self, tokens: Iterable[int]) -> Performance:
        """Read any sequence of event ids as a performance.

        Overlapping notes of one pitch end first in, first out. An end without a note is passed over, a note without
        an end lasts to the last event, and no note is shorter than a step. Before any velocity it is 66.

        Raises:
            DataError: an id is not an event's.
        """
        on, off, shift, velocity = (one.start for one in (self.on, self.off, self.shift, self.velocity))
        step, strength = 0, bin_velocity(VELOCITIES // 2 + 1)
        sounding: dict[int, deque[tuple[int, int]]] = {}
        notes: list[tuple[int, int, int, int]] = []
        pedal: list[Pedal] = []
        for token in map(int, tokens):
            if on <= token < off:
                sounding.setdefault(token - on, deque()).append((strength, step))
            elif off <= token < shift:
                waiting = sounding.get(token - off)
                if waiting:
                    struck, start = waiting.popleft()
                    notes.append((token - off, struck, start, max(step, start + 1)))
            elif shift <= token < velocity:
                step += token - shift + 1
            elif velocity <= token < self.sustain.start:
                strength = bin_velocity(token - velocity + 1)
            else:
                if token not in self.sustain.ids:
                    self.range_of(token)  # raises
                pedal.append(Pedal(step / STEP_RATE, bool(self.sustain.value(token))))
        for pitch, waiting in sounding.items():
            notes += [(pitch, struck, start, max(step, start + 1)) for struck, start in waiting]
        timed = (Note(pitch, struck, start / STEP_RATE, end / STEP_RATE) for pitch, struck, start, end in notes)
        return Performance.of(timed, pedal)

    def duration(self, tokens: NDArray[np.integer]) -> float:
        """Seconds that the time shifts among some tokens make."""
        shifts = tokens[(tokens >= self.shift.start) & (tokens < self.velocity.start)]
        return float((shifts - self.shift.start + 1).sum()) / STEP_RATE


def steps(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """The nearest steps to times in seconds; halves go up."""
    return np.floor(seconds * STEP_RATE + 0.5).astype(np.int64)


def velocity_bin(velocity: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bins, 1 to 32, of velocities 1 to 127."""
    return (velocity - 1) // BIN + 1


def bin_velocity(bin: int) -> int:
    """The velocity in the middle of a bin, at most 2 from any in it."""
    return (bin - 1) * BIN + 2
