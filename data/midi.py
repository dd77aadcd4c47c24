"""Read MIDI files with mido, following their tempo map, and write them with pretty_midi.

Reading takes two steps: messages become notes and pedal changes in ticks; then, optionally, the pedal is folded into
the ends of the notes, as a piano would sound.

Shapes: N notes.
"""

from __future__ import annotations

import io
import re
import struct
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from suite.data.performance import Note, Pedal, Performance, damped, one_pedal
from suite.errors import DataError
from suite.files import open_input, write_output
from suite.wording import count

if TYPE_CHECKING:
    from pretty_midi import PrettyMIDI

PedalMode = Literal["fold", "keep", "ignore"]
Clock = Callable[[NDArray[np.int64]], NDArray[np.float64]]  # from ticks to seconds

LARGEST = 32 * 2**20  # bytes; mido needs some 70 times as much memory
LONGEST = 24 * 3600.0  # seconds; a damaged file may claim years
FARTHEST = 2**48  # ticks, far beyond LONGEST
# mido reads numbers of any length, in quadratic time; text without any ASCII looks the same, but is never this long
LONG_NUMBER = re.compile(rb"[\x80-\xff]{4097}")
TICK_RATE = 1000  # ticks per second in written files, so that steps of 10 ms are read back exactly
DRUMS = 9
SUSTAIN = 64
RESET_CONTROLLERS = 121
# two thresholds, so that a pedal that trembles around the middle is not released and pressed each time
DOWN, UP = 64, 48
STUCK = 20.0  # seconds; no pianist holds the pedal for longer, but in some files it is pressed once and never released


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Contents of a MIDI file, with counts of what was left out or changed.

    Attributes:
        performance: the notes of all tracks.
        tracks: name and notes of each track that has notes, in the file's order.
        drums: notes on the drum channel, left out.
        unended: notes without an end, which are held to the end of their track.
        orphans: note ends without a note, left out.
        stuck: pedal presses of more than 20 seconds, left out.
        instruments: programs other than pianos (0 to 7) whose notes are read as a piano's.
    """

    performance: Performance
    tracks: tuple[tuple[str, Performance], ...]
    drums: int = 0
    unended: int = 0
    orphans: int = 0
    stuck: int = 0
    instruments: tuple[int, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        """A line for each kind of loss or change, such as "3 drum notes left out"."""
        if self.drums:
            yield f"{count(self.drums, 'drum note')} left out"
        if self.unended:
            yield f"{count(self.unended, 'note')} without an end, held to the end of the track"
        if self.orphans:
            yield f"{count(self.orphans, 'note end')} without a note left out"
        if self.stuck:
            yield f"{count(self.stuck, 'pedal press', 'pedal presses')} of more than {STUCK:.0f} seconds left out"
        if self.instruments:
            yield f"instruments {', '.join(map(str, self.instruments))} are read as a piano"


def read_midi(source: Path | str | bytes, *, pedal: PedalMode = "fold", name: str = "") -> Reading:
    """Read a MIDI file of type 0 or 1.

    Overlapping notes of the same track, channel and pitch end first in, first out.

    Args:
        source: a path, or the file's bytes.
        pedal: "fold" extends notes to the release of the sustain pedal or the next note on the same key (unless the
            pedal is stuck, see `STUCK`), "keep" returns pedal changes beside the notes, "ignore" drops them.
        name: what to call the file in an error (bytes have no name).

    Raises:
        DataError: the file is damaged, too large, too long, of type 2, or has no notes; the message names it.
    """
    name = name or (str(source) if not isinstance(source, bytes) else "the MIDI data")
    division, chunks = split(source, name)
    tracks = [_Track(messages(chunk, name), name) for chunk in chunks]
    played = [track for track in tracks if track.start]
    drums = sum(track.drums for track in tracks)
    if not played:
        raise DataError(f"{name} has {'only drums' if drums else 'no notes'}, so there is nothing to read")
    channel, pitch, velocity, start_ticks, end_ticks = (
        np.concatenate([getattr(track, column) for track in played])
        for column in ("channel", "pitch", "velocity", "start", "end")
    )
    seconds = clock(division, [change for track in tracks for change in track.tempos], name)
    start, end = seconds(start_ticks), seconds(end_ticks)
    pedals = {} if pedal == "ignore" else _pedals(tracks, seconds)
    stuck = 0
    if pedal == "fold":
        last = float(end.max())
        for number, changes in pedals.items():
            there, moves = channel == number, moving(changes, last)
            end[there] = damped(pitch[there], start[there], end[there], moves)
            stuck += -(-(len(changes) - len(moves)) // 2)  # changes come in pairs, but the last may lack its release
    kept = one_pedal(*pedals.values()) if pedal == "keep" else ()
    last = max([end.max(), *(change.time for change in kept)])
    if last > LONGEST:
        raise DataError(f"{name} claims to last {last / 3600:,.0f} hours; it is damaged or not a performance")
    bounds = np.cumsum([len(track.start) for track in played])[:-1]
    pieces = zip(*(np.split(column, bounds) for column in (pitch, velocity, start, end)), strict=True)
    return Reading(
        performance=Performance(pitch, velocity, start, end, kept),
        tracks=tuple((track.name, Performance(*piece)) for track, piece in zip(played, pieces, strict=True)),
        drums=drums,
        unended=sum(track.unended for track in tracks),
        orphans=sum(track.orphans for track in tracks),
        stuck=stuck,
        instruments=tuple(sorted(set().union(*(track.instruments for track in tracks)))),
    )


def split(source: Path | str | bytes, name: str) -> tuple[int, list[bytes]]:
    """Return the division (ticks per beat) and the bytes of each track of a MIDI file of type 0 or 1.

    Chunks of other kinds are skipped.

    Raises:
        DataError: the file cannot be read or is not such a MIDI file; the message names it.
    """
    if isinstance(source, bytes):
        data = source
    else:
        try:
            with open_input(Path(source)) as file:
                data = file.read(LARGEST + 1)
        except OSError as error:
            raise DataError(f"{name} cannot be read ({error.strerror or error})") from None
    if len(data) > LARGEST:
        raise DataError(f"{name} is larger than {LARGEST // 2**20} MiB, too large for a performance")
    start = data.find(b"MThd") if data[:4] == b"RIFF" else 0  # RIFF MIDI, a wrapper from early Windows
    if data[start : start + 4] != b"MThd":
        raise DataError(f"{name} is not a MIDI file (it does not begin with MThd)")
    if len(data) < start + 14:
        raise DataError(f"{name} is a damaged MIDI file: it ends within its header")
    size, kind, count, division = struct.unpack_from(">IHHh", data, start + 4)
    if kind not in (0, 1):
        reason = "whose tracks do not sound together; split it" if kind == 2 else "which does not exist; it is damaged"
        raise DataError(f"{name} is a MIDI file of type {kind}, {reason}")
    if LONG_NUMBER.search(data):
        raise DataError(f"{name} is a damaged MIDI file: it has a number without an end")
    place, chunks = start + 8 + size, []
    while place + 8 <= len(data):
        label, size = struct.unpack_from(">4sI", data, place)
        place += 8
        if label == b"MTrk" and place + size <= len(data):
            chunks.append(data[place : place + size])
        place += size
    if len(chunks) < count:
        raise DataError(f"{name} is a damaged MIDI file: it ends after {len(chunks)} of {count} tracks")
    return division, chunks


def messages(track: bytes, name: str) -> Sequence[Any]:
    """Parse the messages of a track.

    Raises:
        DataError: they cannot be read; the message names the file.
    """
    from mido import MidiFile
    from mido.midifiles.meta import KeySignatureError

    # wrapped in a file of its own, so that damage cannot spread past the end of the track
    header = struct.pack(">4sIHHH4sI", b"MThd", 6, 0, 1, 480, b"MTrk", len(track))
    try:
        read: Sequence[Any] = MidiFile(file=io.BytesIO(header + track), clip=True).tracks[0]
    except (OSError, EOFError, ValueError, LookupError, TypeError, ArithmeticError, KeySignatureError) as error:
        reason = str(error) if isinstance(error, (OSError, ValueError, KeySignatureError)) else "a message is cut off"
        raise DataError(f"{name} is a damaged MIDI file: {reason}") from None
    return read


def clock(division: int, tempos: Sequence[tuple[int, int]], name: str) -> Clock:
    """Return a function that converts ticks to seconds.

    Args:
        division: ticks per beat; if negative, the high byte is minus the frames per second, the low byte the ticks per
            frame.
        tempos: (tick, microseconds per beat) of the tempo changes in all tracks.
        name: what to call the file in an error.

    Raises:
        DataError: the file claims 0 ticks per beat or per frame.
    """
    if division < 0:
        frames, ticks = -(division >> 8), division & 0xFF
        rate = ticks * (30000 / 1001 if frames == 29 else frames)
        if rate == 0:
            raise DataError(f"{name} is a damaged MIDI file: it has no ticks per frame")
        return lambda ticks: ticks / rate
    if division == 0:
        raise DataError(f"{name} is a damaged MIDI file: it has no ticks per beat")
    changes = {0: 500_000} | dict(sorted(tempos, key=lambda change: change[0]))
    at, tempo = np.array(list(changes)), np.array(list(changes.values()), dtype=np.float64)
    beat = division * 1e6
    reached = np.concatenate(([0.0], np.cumsum(np.diff(at) * tempo[:-1] / beat)))

    def seconds(ticks: NDArray[np.int64]) -> NDArray[np.float64]:
        place = np.searchsorted(at, ticks, side="right") - 1
        moments: NDArray[np.float64] = reached[place] + (ticks - at[place]) * tempo[place] / beat
        return moments

    return seconds


class _Track:
    """Notes, pedal messages and tempo changes of a track.

    Attributes:
        channel, pitch, velocity, start, end: (N,) the notes; times in ticks.
        pedal: tick, channel and value of each pedal message.
        tempos: tick and microseconds per beat of each tempo change.
    """

    def __init__(self, messages: Iterable[Any], name: str) -> None:
        self.name = ""
        self.channel, self.pitch, self.velocity, self.start, self.end = (array("q") for _ in range(5))
        self.pedal: list[tuple[int, int, int]] = []
        self.tempos: list[tuple[int, int]] = []
        self.drums = self.unended = self.orphans = 0
        self.instruments: set[int] = set()
        sounding: dict[tuple[int, int], deque[int]] = {}
        program, tick = [0] * 16, 0
        for message in messages:
            tick += message.time
            if tick > FARTHEST:
                raise DataError(f"{name} claims to last for years; it is damaged")
            kind = message.type
            if kind == "note_on" or kind == "note_off":
                channel, pitch, velocity = message.channel, message.note, message.velocity
                if channel == DRUMS:
                    self.drums += kind == "note_on" and velocity > 0
                    continue
                waiting = sounding.setdefault((channel, pitch), deque())
                if kind == "note_on" and velocity > 0:
                    waiting.append(len(self.start))
                    self.channel.append(channel)
                    self.pitch.append(pitch)
                    self.velocity.append(velocity)
                    self.start.append(tick)
                    self.end.append(-1)
                    if program[channel] > 7:
                        self.instruments.add(program[channel])
                elif waiting:
                    self.end[waiting.popleft()] = tick
                else:
                    self.orphans += 1
            elif kind == "control_change":
                if message.control in (SUSTAIN, RESET_CONTROLLERS):
                    value = message.value if message.control == SUSTAIN else 0
                    self.pedal.append((tick, message.channel, value))
            elif kind == "set_tempo":
                self.tempos.append((tick, message.tempo))
            elif kind == "program_change":
                program[message.channel] = message.program
            elif kind == "track_name":
                self.name = self.name or message.name
        for waiting in sounding.values():
            for note in waiting:
                self.end[note] = tick
                self.unended += 1


def _pedals(tracks: Iterable[_Track], seconds: Clock) -> dict[int, tuple[Pedal, ...]]:
    """Pedal changes of each channel, collected from all tracks, in seconds."""
    every = sorted((message for track in tracks for message in track.pedal), key=lambda message: message[0])
    times = seconds(np.array([tick for tick, _, _ in every], dtype=np.int64)).tolist()
    values: dict[int, list[tuple[float, int]]] = {}
    for time, (_, channel, value) in zip(times, every, strict=True):
        values.setdefault(channel, []).append((time, value))
    return {channel: pedal_changes(those) for channel, those in values.items()}


def moving(changes: Sequence[Pedal], last: float) -> tuple[Pedal, ...]:
    """Drop presses held longer than `STUCK`; a press without a release counts as held to `last`, in seconds."""
    releases = [*(change.time for change in changes[1::2]), last]
    pairs = zip(changes[::2], releases, strict=False)
    kept = [place for place, (press, release) in enumerate(pairs) if release - press.time <= STUCK]
    return tuple(change for place in kept for change in changes[2 * place : 2 * place + 2])


def pedal_changes(values: Iterable[tuple[float, int]]) -> tuple[Pedal, ...]:
    """Pedal changes from the times (seconds) and values (0 to 127) of control messages."""
    down, changes = False, []
    for time, value in sorted(values, key=lambda one: one[0]):
        if (value >= (UP if down else DOWN)) != down:
            down = not down
            changes.append(Pedal(time, down))
    return one_pedal(changes)


def to_pretty_midi(performance: Performance) -> PrettyMIDI:
    """Convert a performance to a `PrettyMIDI` object with a piano, at 120 beats per minute.

    Overlapping notes of one pitch go to additional pianos, since a MIDI track cannot say which of them a note end is
    for.
    """
    import pretty_midi

    midi = pretty_midi.PrettyMIDI(resolution=TICK_RATE // 2, initial_tempo=120.0)
    for voice in _voices(performance):
        piano = pretty_midi.Instrument(program=0, name="Piano")
        piano.notes = [pretty_midi.Note(note.velocity, note.pitch, note.start, note.end) for note in voice]
        piano.control_changes = [
            pretty_midi.ControlChange(SUSTAIN, 127 if change.down else 0, change.time) for change in performance.pedal
        ]
        midi.instruments.append(piano)
    return midi


def _voices(performance: Performance) -> list[list[Note]]:
    """Distribute notes over voices, so that no pitch overlaps itself within a voice.

    There are at most 15, a channel each without the drums'; what does not fit goes to the last.
    """
    voices: list[list[Note]] = [[]]
    busy: list[dict[int, float]] = [{}]  # for each voice, the end of the last note of each pitch
    for note in performance.notes:
        free = (place for place, until in enumerate(busy) if until.get(note.pitch, 0.0) <= note.start)
        place = min(next(free, len(busy)), 14)
        if place == len(busy):
            voices.append([])
            busy.append({})
        voices[place].append(note)
        busy[place][note.pitch] = note.end
    return voices


def from_pretty_midi(midi: PrettyMIDI) -> Performance:
    """Convert a `PrettyMIDI` object: all notes except drums, unchanged, and the sustain pedal."""
    pianos = [
        Performance.of(
            (Note(note.pitch, note.velocity, note.start, note.end) for note in instrument.notes),
            pedal_changes((one.time, one.value) for one in instrument.control_changes if one.number == SUSTAIN),
        )
        for instrument in midi.instruments
        if not instrument.is_drum
    ]
    return Performance.of(()).joined(*pianos)


def write_midi(performance: Performance, path: Path | str) -> None:
    """Write a performance as a MIDI file; times are rounded to milliseconds, and no note is shorter than 1 ms.

    Raises:
        DataError: the performance is longer than 24 hours, or the file cannot be written.
    """
    if performance.duration > LONGEST:
        raise DataError(f"{path} would last {performance.duration / 3600:,.0f} hours; a MIDI file can last 24 at most")
    start, end = np.rint(performance.start * TICK_RATE), np.rint(performance.end * TICK_RATE)
    end = np.maximum(end, start + 1)
    rounded = replace(performance, start=start / TICK_RATE, end=end / TICK_RATE)
    content = io.BytesIO()
    to_pretty_midi(rounded).write(content)
    try:
        write_output(Path(path), content.getvalue())
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from None
