"""A piano performance as a value: notes with pitch, velocity, start and end in seconds.

Files are read and written by `suite.data.midi`, event tokens by `suite.data.events`; both meet here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from suite.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pretty_midi import PrettyMIDI

PITCHES = 128
ONE_STROKE = 0.030001  # seconds: 30 ms, wherever on a grid of 10 ms they lie
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


class Note(NamedTuple):
    """One note.

    Attributes:
        pitch: 0 to 127; 60 is middle C.
        velocity: how hard it is struck, 1 to 127.
        start, end: seconds from the beginning of the performance.
    """

    pitch: int
    velocity: int
    start: float
    end: float


class Pedal(NamedTuple):
    """The sustain pedal goes down, or up.

    Attributes:
        time: seconds from the beginning.
        down: which of the two.
    """

    time: float
    down: bool


def one_pedal(*pedals: Iterable[tuple[float, bool]]) -> tuple[Pedal, ...]:
    """The changes of a pedal that is down while any of these is: down, up, down, up, in order of time.

    Changes that change nothing are left out, also a pedal that goes down and comes up at one moment. One that comes up
    and goes down at one moment does both: that damps the strings.
    """
    every: list[Pedal] = []
    for changes in pedals:
        settled: list[Pedal] = []
        for time, down in sorted(changes, key=lambda change: change[0]):
            if down == len(settled) % 2:
                continue
            if not down and settled[-1].time == time:
                settled.pop()
            else:
                settled.append(Pedal(time, down))
        every += settled
    held, joint = 0, []
    for change in sorted(every):
        held += 1 if change.down else -1
        if held == change.down:  # the first to go down, or the last to come up
            joint.append(change)
    return tuple(joint)


def damped(
    pitch: NDArray[np.int64], start: NDArray[np.float64], end: NDArray[np.float64], pedal: Sequence[Pedal]
) -> NDArray[np.float64]:
    """The ends of notes where those under the pedal last to its release, or to where the same key is struck again.

    A press at the very end of a note catches it, a release there lets it go. A pedal that is never released holds until
    the last of the notes ends.

    Args:
        pitch, start, end: (N,) the notes.
        pedal: its changes in order: down, up, down, up.
    """
    presses, releases = (np.array([time for time, _ in pedal[first::2]]) for first in (0, 1))
    releases = np.append(releases, end.max(initial=0.0))
    place = np.searchsorted(presses, end, side="right") - 1
    held = np.minimum(releases[place], _again(pitch, start))
    return np.where(place >= 0, np.maximum(end, held), end)


def _again(pitch: NDArray[np.int64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) when the key of each note is next struck, later than the note; infinity if never."""
    again = np.full(len(start), np.inf)
    for key in np.unique(pitch):
        strokes = np.sort(start[pitch == key])
        again[pitch == key] = np.append(strokes, np.inf)[np.searchsorted(strokes, start[pitch == key], side="right")]
    return again


def pitch_name(pitch: int) -> str:
    """The name of a MIDI pitch.

    Example:
        >>> pitch_name(60), pitch_name(21)
        ('C4', 'A0')
    """
    return f"{NAMES[pitch % 12]}{pitch // 12 - 1}"


@dataclass(frozen=True, eq=False)
class Performance:
    """Notes in the order of their starts, then pitches, then ends; it never changes.

    Args:
        pitch: (N,) MIDI pitches.
        velocity: (N,) 1 to 127.
        start, end: (N,) seconds; an end is never before its start.
        pedal: changes of the sustain pedal; only those that change something are kept, see `one_pedal`. Empty where
            the pedal is folded into the ends of the notes.

    Raises:
        DataError: a number is out of its range; the message names the first such note.

    Example:
        >>> chord = Performance.of([Note(60, 80, 0.0, 1.0), Note(64, 80, 0.0, 1.0)])
        >>> len(chord), chord.duration, chord.transposed(12).notes[0].pitch
        (2, 1.0, 72)
    """

    pitch: NDArray[np.int64]
    velocity: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    pedal: tuple[Pedal, ...] = field(default=())

    def __post_init__(self) -> None:
        order = np.lexsort((self.velocity, self.end, self.pitch, self.start))
        for name, kind in (("pitch", np.int64), ("velocity", np.int64), ("start", np.float64), ("end", np.float64)):
            column = np.asarray(getattr(self, name), dtype=kind)[order]
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        wrong = (self.pitch < 0) | (self.pitch >= PITCHES) | (self.velocity < 1) | (self.velocity > 127)
        wrong |= ~(np.isfinite(self.start) & np.isfinite(self.end)) | (self.start < 0) | (self.end < self.start)
        if wrong.any():
            raise DataError(f"not a valid note: {self.notes[int(np.argmax(wrong))]}")
        for change in self.pedal:
            if not 0 <= change.time < float("inf"):
                raise DataError(f"the pedal cannot change at {change.time} seconds")
        object.__setattr__(self, "pedal", one_pedal(self.pedal))

    @classmethod
    def of(cls, notes: Iterable[Note], pedal: Iterable[Pedal] = ()) -> Performance:
        """A performance of these notes, in any order."""
        columns: Sequence[Sequence[Any]] = list(zip(*notes, strict=True)) or [(), (), (), ()]
        pitch, velocity, start, end = (np.array(column) for column in columns)
        return cls(pitch, velocity, start, end, tuple(pedal))

    @classmethod
    def load(cls, path: Path | str) -> Performance:
        """Read a MIDI file, its sustain pedal folded into the notes; see `suite.data.midi.read_midi`.

        Raises:
            DataError: it is no MIDI file, or has no notes.
        """
        from suite.data.midi import read_midi

        return read_midi(path).performance

    def __len__(self) -> int:
        return len(self.pitch)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Performance)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("pitch", "velocity"))
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("start", "end"))
            and self.pedal == other.pedal
        )

    def __hash__(self) -> int:
        return hash((self.pitch.tobytes(), self.start.tobytes(), self.end.tobytes(), self.velocity.tobytes()))

    def __repr__(self) -> str:
        return f"<Performance of {len(self):,} notes, {self.duration:.2f} seconds>"

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """The notes one by one."""
        columns = (self.pitch, self.velocity, self.start, self.end)
        return tuple(map(Note, *(column.tolist() for column in columns)))

    @property
    def duration(self) -> float:
        """Seconds from 0 to the last end."""
        return float(self.end.max(initial=0.0))

    def transposed(self, semitones: int) -> Performance:
        """All notes higher by so many semitones; those that leave the range of MIDI are dropped."""
        pitch = self.pitch + semitones
        kept = (pitch >= 0) & (pitch < PITCHES)
        return Performance(pitch[kept], self.velocity[kept], self.start[kept], self.end[kept], self.pedal)

    def stretched(self, factor: float) -> Performance:
        """All times multiplied by `factor`: above 1 is slower.

        Raises:
            DataError: the factor is not above 0.
        """
        if not 0 < factor < float("inf"):
            raise DataError(f"a performance cannot be stretched by {factor}; the factor must be above 0")
        pedal = tuple(Pedal(time * factor, down) for time, down in self.pedal)
        return Performance(self.pitch, self.velocity, self.start * factor, self.end * factor, pedal)

    def shifted(self, seconds: float) -> Performance:
        """All times later by so many seconds (earlier, if negative); a pedal pressed before 0 is down from 0.

        Raises:
            DataError: a note would start before 0.
        """
        first = self.start.min(initial=np.inf)
        if first + seconds < 0:
            raise DataError(
                f"the first note starts at {first:g} seconds, so it cannot start {-seconds:g} seconds earlier"
            )
        pedal = tuple(Pedal(max(0.0, time + seconds), down) for time, down in self.pedal)
        return Performance(self.pitch, self.velocity, self.start + seconds, self.end + seconds, pedal)

    def between(self, start: float, end: float) -> Performance:
        """The notes that start in [start, end), cut off at `end`, and the pedal; times count from `start`."""
        kept = (self.start >= start) & (self.start < end)
        columns = self.start[kept] - start, np.minimum(self.end[kept], end) - start
        pedal = tuple(Pedal(max(0.0, time - start), down) for time, down in self.pedal if time < end)
        return Performance(self.pitch[kept], self.velocity[kept], *columns, pedal)

    def joined(self, *others: Performance) -> Performance:
        """This performance and others at the same time, on one pedal."""
        every = (self, *others)
        names = ("pitch", "velocity", "start", "end")
        columns = (np.concatenate([getattr(one, name) for one in every]) for name in names)
        pitch, velocity, start, end = columns
        return Performance(pitch, velocity, start, end, one_pedal(*(one.pedal for one in every)))

    def folded(self) -> Performance:
        """The notes as the pedal lets them sound, and no pedal; see `damped`."""
        return Performance(self.pitch, self.velocity, self.start, damped(self.pitch, self.start, self.end, self.pedal))

    def without_unisons(self) -> Performance:
        """The notes as one keyboard can play them, where a key sounds once: made for voices that share notes.

        Strokes of one pitch within 30 ms of the one before become one note, with the loudest velocity and the last
        end. A note that still sounds when its pitch is struck again ends there.
        """
        order = np.lexsort((self.start, self.pitch))
        pitch, start = self.pitch[order], self.start[order]
        new = np.append(True, (np.diff(pitch) > 0) | (np.diff(start) > ONE_STROKE))[: len(self)]
        first = np.flatnonzero(new)
        velocity, end = (np.maximum.reduceat(column[order], first) for column in (self.velocity, self.end))
        pitch, start = pitch[first], start[first]
        return Performance(pitch, velocity, start, np.minimum(end, _again(pitch, start)), self.pedal)

    def to_pretty_midi(self) -> PrettyMIDI:
        """The performance as `pretty_midi` holds it, one piano; see `suite.data.midi.to_pretty_midi`."""
        from suite.data.midi import to_pretty_midi

        return to_pretty_midi(self)

    @classmethod
    def from_pretty_midi(cls, midi: PrettyMIDI) -> Performance:
        """All notes but the drums'; see `suite.data.midi.from_pretty_midi`."""
        from suite.data.midi import from_pretty_midi

        return from_pretty_midi(midi)

    def save(self, path: Path | str) -> None:
        """Write a MIDI file, or, where the name ends in .wav, a recording (see `suite.data.sound.render`).

        Raises:
            DataError: it cannot be written.
        """
        if Path(path).suffix.lower() == ".wav":
            from suite.data.sound import write_wav

            write_wav(self, path)
            return
        from suite.data.midi import write_midi

        write_midi(self, path)

    def piano_roll(self, rate: float = 100.0) -> NDArray[np.uint8]:
        """(128, T) the velocity that sounds at each pitch and step, 0 for none.

        Args:
            rate: steps a second.
        """
        roll = np.zeros((PITCHES, round(self.duration * rate)), dtype=np.uint8)
        for pitch, velocity, start, end in self.notes:
            first = round(start * rate)
            roll[pitch, first : max(first + 1, round(end * rate))] = velocity
        return roll

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the piano roll; see `suite.data.piano_roll.draw`."""
        from suite.data.piano_roll import draw

        return draw(self, axes)
