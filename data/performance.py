"""Piano performances: notes with pitch, velocity, start and end in seconds, and the sustain pedal.

`suite.data.midi` converts them from and to MIDI files, `suite.data.events` from and to event tokens.
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
ONE_STROKE = 0.030001  # seconds: 30 ms, plus a margin for rounding of times on a grid of 10 ms
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


class Note(NamedTuple):
    """A note.

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
    """A change of the sustain pedal.

    Attributes:
        time: seconds from the beginning.
        down: true if the pedal is pressed, false if it is released.
    """

    time: float
    down: bool


def one_pedal(*pedals: Iterable[tuple[float, bool]]) -> tuple[Pedal, ...]:
    """Merge several pedals into one that is down while any of them is: alternating changes, down first, sorted by time.

    Redundant changes are dropped, and so is a press that is released at the same moment. A release followed by a press
    at the same moment is kept, because it damps the strings.
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
        if held == change.down:  # the first pedal pressed, or the last released
            joint.append(change)
    return tuple(joint)


def damped(
    pitch: NDArray[np.int64], start: NDArray[np.float64], end: NDArray[np.float64], pedal: Sequence[Pedal]
) -> NDArray[np.float64]:
    """Note ends in seconds, (N,), as the pedal extends them: to its release, or until the same key is struck again.

    A press at the exact end of a note extends it; a release there does not. A pedal that is never released holds until
    the last note ends.

    Args:
        pitch, start, end: (N,) the notes.
        pedal: alternating changes in order of time, down first.
    """
    presses, releases = (np.array([time for time, _ in pedal[first::2]]) for first in (0, 1))
    releases = np.append(releases, end.max(initial=0.0))
    place = np.searchsorted(presses, end, side="right") - 1
    held = np.minimum(releases[place], _again(pitch, start))
    return np.where(place >= 0, np.maximum(end, held), end)


def _again(pitch: NDArray[np.int64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """The next start of the same pitch after each note, in seconds, (N,); infinity if there is none."""
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
    """An immutable performance: notes sorted by start, then pitch, then end.

    Args:
        pitch: (N,) MIDI pitches.
        velocity: (N,) 1 to 127.
        start, end: (N,) seconds; a note must not end before it starts.
        pedal: changes of the sustain pedal; redundant ones are dropped, see `one_pedal`. Empty if the pedal is folded
            into the ends of the notes.

    Raises:
        DataError: a value is out of range; the message names the first such note.

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
        """Make a performance from notes in any order."""
        columns: Sequence[Sequence[Any]] = list(zip(*notes, strict=True)) or [(), (), (), ()]
        pitch, velocity, start, end = (np.array(column) for column in columns)
        return cls(pitch, velocity, start, end, tuple(pedal))

    @classmethod
    def load(cls, path: Path | str) -> Performance:
        """Read a MIDI file, its sustain pedal folded into the notes; see `suite.data.midi.read_midi`.

        Raises:
            DataError: the file is not a MIDI file, or has no notes.
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
        """The notes as a tuple of `Note`."""
        columns = (self.pitch, self.velocity, self.start, self.end)
        return tuple(map(Note, *(column.tolist() for column in columns)))

    @property
    def duration(self) -> float:
        """Time from 0 to the last note end, in seconds."""
        return float(self.end.max(initial=0.0))

    def transposed(self, semitones: int) -> Performance:
        """A copy with all pitches raised by `semitones`; notes that leave the range of MIDI are dropped."""
        pitch = self.pitch + semitones
        kept = (pitch >= 0) & (pitch < PITCHES)
        return Performance(pitch[kept], self.velocity[kept], self.start[kept], self.end[kept], self.pedal)

    def stretched(self, factor: float) -> Performance:
        """A copy with all times multiplied by `factor`; a factor above 1 is slower.

        Raises:
            DataError: the factor is not above 0.
        """
        if not 0 < factor < float("inf"):
            raise DataError(f"a performance cannot be stretched by {factor}; the factor must be above 0")
        pedal = tuple(Pedal(time * factor, down) for time, down in self.pedal)
        return Performance(self.pitch, self.velocity, self.start * factor, self.end * factor, pedal)

    def shifted(self, seconds: float) -> Performance:
        """A copy with `seconds` added to all times (may be negative); a pedal press moved before 0 is put at 0.

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
        """This performance and others played together, with their pedals merged into one."""
        every = (self, *others)
        names = ("pitch", "velocity", "start", "end")
        columns = (np.concatenate([getattr(one, name) for one in every]) for name in names)
        pitch, velocity, start, end = columns
        return Performance(pitch, velocity, start, end, one_pedal(*(one.pedal for one in every)))

    def folded(self) -> Performance:
        """A copy without a pedal, whose notes are extended as the pedal lets them sound; see `damped`."""
        return Performance(self.pitch, self.velocity, self.start, damped(self.pitch, self.start, self.end, self.pedal))

    def without_unisons(self) -> Performance:
        """A copy in which each key sounds at most once at a time, for music whose voices share notes.

        Notes of one pitch that start within 30 ms of the previous one are merged, with the loudest velocity and the
        last end. A note that still sounds when its pitch is struck again ends there.
        """
        order = np.lexsort((self.start, self.pitch))
        pitch, start = self.pitch[order], self.start[order]
        new = np.append(True, (np.diff(pitch) > 0) | (np.diff(start) > ONE_STROKE))[: len(self)]
        first = np.flatnonzero(new)
        velocity, end = (np.maximum.reduceat(column[order], first) for column in (self.velocity, self.end))
        pitch, start = pitch[first], start[first]
        return Performance(pitch, velocity, start, np.minimum(end, _again(pitch, start)), self.pedal)

    def to_pretty_midi(self) -> PrettyMIDI:
        """Convert to a `PrettyMIDI` object with a piano; see `suite.data.midi.to_pretty_midi`."""
        from suite.data.midi import to_pretty_midi

        return to_pretty_midi(self)

    @classmethod
    def from_pretty_midi(cls, midi: PrettyMIDI) -> Performance:
        """Convert all notes except drums from a `PrettyMIDI` object; see `suite.data.midi.from_pretty_midi`."""
        from suite.data.midi import from_pretty_midi

        return from_pretty_midi(midi)

    def save(self, path: Path | str) -> None:
        """Write a MIDI file, or sound if the name ends in .wav (see `suite.data.sound.render`).

        Raises:
            DataError: the file cannot be written.
        """
        if Path(path).suffix.lower() == ".wav":
            from suite.data.sound import write_wav

            write_wav(self, path)
            return
        from suite.data.midi import write_midi

        write_midi(self, path)

    def piano_roll(self, rate: float = 100.0) -> NDArray[np.uint8]:
        """Velocity of the note that sounds at each pitch and step, (128, T); 0 for silence.

        Args:
            rate: steps per second.
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
