"""Encode performances as event tokens and decode them. One table defines ids, names, both directions and the grammar.

The vocabulary is that of Performance RNN and Music Transformer: note-on, note-off, time shifts of 10 ms to 1 s, and 32
velocities, in Magenta's order. Times are quantised from the beginning of the piece, not gap by gap, so rounding errors
do not add up: every onset and end moves by at most 5 ms.

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
        kind: name of the event, such as "NOTE_ON".
        first: value that the first id stands for.
        size: number of ids.
        start: the first id.
    """

    kind: str
    first: int
    size: int
    start: int

    @property
    def ids(self) -> range:
        """All ids of this kind."""
        return range(self.start, self.start + self.size)

    def id(self, value: int) -> int:
        """The id for a value, such as a pitch."""
        return self.start + value - self.first

    def value(self, id: int) -> int:
        """The value that an id stands for."""
        return self.first + id - self.start


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Event tokens of a performance, and the number of notes that quantising lengthened.

    Attributes:
        tokens: (T,) ids.
        lengthened: number of notes shorter than a step (10 ms), which became one step long.
    """

    tokens: NDArray[np.int64]
    lengthened: int


@dataclass(frozen=True)
class EventTable:
    """The vocabulary of event tokens, with encoding and decoding.

    Args:
        pedal: whether the sustain pedal has events of its own, after all others. If not, the pedal must already be
            folded into the ends of the notes.

    Example:
        >>> table = EventTable()
        >>> table.size, table.name(60), table.name(table.shift.id(35)), table.name(table.velocity.id(17))
        (388, 'NOTE_ON C4', 'TIME_SHIFT 0.35', 'VELOCITY 66')
    """

    pedal: bool = False

    @cached_property
    def on(self) -> EventRange:
        """Ids that start a note, for pitches 0 to 127."""
        return EventRange("NOTE_ON", 0, PITCHES, 0)

    @cached_property
    def off(self) -> EventRange:
        """Ids that end a note, for pitches 0 to 127."""
        return EventRange("NOTE_OFF", 0, PITCHES, self.on.ids.stop)

    @cached_property
    def shift(self) -> EventRange:
        """Ids that move time forward by 1 to 100 steps of 10 ms."""
        return EventRange("TIME_SHIFT", 1, LONGEST_SHIFT, self.off.ids.stop)

    @cached_property
    def velocity(self) -> EventRange:
        """Ids that set the velocity of the following notes, for bins 1 to 32."""
        return EventRange("VELOCITY", 1, VELOCITIES, self.shift.ids.stop)

    @cached_property
    def sustain(self) -> EventRange:
        """Ids that release (0) or press (1) the sustain pedal; empty in a table without pedal events."""
        return EventRange("PEDAL", 0, 2 if self.pedal else 0, self.velocity.ids.stop)

    @property
    def ranges(self) -> tuple[EventRange, ...]:
        """The ranges of all kinds of event, in the order of their ids."""
        return (self.on, self.off, self.shift, self.velocity, self.sustain)

    @property
    def size(self) -> int:
        """Number of ids in the vocabulary."""
        return self.sustain.ids.stop

    def range_of(self, id: int) -> EventRange:
        """The range that an id belongs to.

        Raises:
            DataError: the id is not in the vocabulary.
        """
        for one in self.ranges:
            if id in one.ids:
                return one
        raise DataError(f"event id {id} is not in the vocabulary of {self.size}")

    def name(self, id: int) -> str:
        """Readable name of an event, such as "NOTE_ON C4"; times are in seconds, velocities from 1 to 127."""
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
        """Encode a performance as event tokens.

        Within a step, note ends come first, then the pedal, then note starts, each sorted by pitch. A velocity token
        comes directly before a note start whose bin differs from the last. Silence after the last note is not written.

        Args:
            performance: what to encode; its pedal is dropped if the table has no pedal events.

        Returns:
            the tokens, and how many notes were lengthened to one step.
        """
        pitch = performance.pitch
        starts = steps(performance.start)
        ends = steps(performance.end)
        short = ends <= starts
        ends = np.where(short, starts + 1, ends)
        changes = performance.pedal if self.pedal else ()
        pedal_steps = steps(np.array([time for time, _ in changes])).tolist()
        # after rounding, a press and a release may fall on the same step and cancel out
        changes = one_pedal(zip(pedal_steps, (down for _, down in changes), strict=True))
        count, pedals = len(performance), len(changes)
        # one row per event: its step, its rank within the step, and the sort key among events of the same rank
        when = np.concatenate((ends, np.array([step for step, _ in changes], dtype=np.int64), starts))
        rank = np.repeat((0, 1, 2), (count, pedals, count))
        key = np.concatenate((pitch, np.arange(pedals), pitch))
        silent = np.zeros(count + pedals, dtype=np.int64)
        until = np.concatenate((silent, ends))  # notes of one pitch that start together also end first in, first out
        strength = np.concatenate((silent, velocity_bin(performance.velocity)))
        pedal_ids = np.array([self.sustain.id(down) for _, down in changes], dtype=np.int64)
        ids = np.concatenate((self.off.id(0) + pitch, pedal_ids, self.on.id(0) + pitch))
        order = np.lexsort((strength, until, key, rank, when))
        when, ids, strength = when[order], ids[order], strength[order]
        gaps = np.diff(when, prepend=0)
        shifts = -(-gaps // LONGEST_SHIFT)  # number of TIME_SHIFT tokens before each event
        struck = np.flatnonzero(strength)
        changed = np.zeros(len(ids), dtype=bool)
        changed[struck] = np.diff(strength[struck], prepend=0) != 0
        places = np.cumsum(shifts + changed + 1) - 1  # index of each event's own token
        tokens = np.full(places[-1] + 1 if len(places) else 0, self.shift.id(LONGEST_SHIFT), dtype=np.int64)
        tokens[places] = ids
        tokens[places[changed] - 1] = self.velocity.id(0) + strength[changed]
        last_shift = places - changed - 1
        waits = gaps > 0
        tokens[last_shift[waits]] = self.shift.id(0) + (gaps[waits] - 1) % LONGEST_SHIFT + 1
        return Encoded(tokens=tokens, lengthened=int(short.sum()))

    def decode(self, tokens: Iterable[int]) -> Performance:
        """Decode event ids into a performance; any sequence of valid ids can be decoded.

        Overlapping notes of one pitch end first in, first out. A NOTE_OFF without a sounding note is ignored, a note
        without an end lasts to the last event, and no note is shorter than a step. The initial velocity is 66.

        Raises:
            DataError: an id is not in the vocabulary.
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
        """Sum of the time shifts in a sequence of tokens, in seconds."""
        shifts = tokens[(tokens >= self.shift.start) & (tokens < self.velocity.start)]
        return float((shifts - self.shift.start + 1).sum()) / STEP_RATE


def steps(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Times in seconds rounded to the nearest step of 10 ms; halves round up."""
    return np.floor(seconds * STEP_RATE + 0.5).astype(np.int64)


def velocity_bin(velocity: NDArray[np.int64]) -> NDArray[np.int64]:
    """Velocity bins, 1 to 32, of velocities 1 to 127."""
    return (velocity - 1) // BIN + 1


def bin_velocity(bin: int) -> int:
    """The velocity in the middle of a bin, at most 2 away from any velocity in the bin."""
    return (bin - 1) * BIN + 2
