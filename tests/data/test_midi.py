"""MIDI files: a slow reader as reference, exact round trips, every oddity by hand, and thousands of damaged files."""

import io
import random
import struct
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.data.events import EventTable
from suite.data.midi import PedalMode, from_pretty_midi, read_midi, to_pretty_midi, write_midi
from suite.data.performance import Note, Pedal, Performance
from suite.errors import DataError, SuiteError

END = b"\x00\xff\x2f\x00"


def header(tracks: int, kind: int = 1, division: int = 500) -> bytes:
    return struct.pack(">4sIHHH", b"MThd", 6, kind, tracks, division)


def track(body: bytes) -> bytes:
    return b"MTrk" + struct.pack(">I", len(body)) + body


def midi(*bodies: bytes, kind: int = 1, division: int = 500) -> bytes:
    """A file of these tracks, byte by byte: at 500 ticks a beat and no tempo, a tick is a millisecond."""
    return header(len(bodies), kind, division) + b"".join(track(body + END) for body in bodies)


def notes(data: bytes, pedal: PedalMode = "fold") -> tuple[Note, ...]:
    return read_midi(data, pedal=pedal).performance.notes


NOTE = b"\x00\x90\x3c\x40" + b"\x64\x80\x3c\x40"  # C4 from 0 to 100 ticks
SECOND = b"\x87\x68"  # 1000 ticks


# ---- messages


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"\x00\x90\x3c\x40\x64\x3c\x00", [(60, 64, 0, 100)], id="running status, velocity 0"),
        pytest.param(
            b"\x00\x90\x3c\x40\x00\x3c\x50\x64\x3c\x00\x64\x3c\x00", [(60, 64, 0, 100), (60, 80, 0, 200)], id="unison"
        ),
        pytest.param(
            b"\x00\x90\x3c\x40\x64\x3c\x50\x64\x3c\x00\x64\x3c\x00", [(60, 64, 0, 200), (60, 80, 100, 300)], id="late"
        ),
        pytest.param(b"\x00\x90\x3c\x40\x00\x80\x3c\x40", [(60, 64, 0, 0)], id="no length"),
        pytest.param(
            b"\x00\x90\x3c\x40\x64\x80\x3c\x00\x00\x90\x3c\x50\x64\x80\x3c\x00",
            [(60, 64, 0, 100), (60, 80, 100, 200)],
            id="struck again where it ends",
        ),
        pytest.param(
            b"\x00\x90\x3c\x40\x00\x91\x3c\x50\x64\x81\x3c\x00\x64\x80\x3c\x00",
            [(60, 80, 0, 100), (60, 64, 0, 200)],
            id="overlap on two channels",
        ),
        pytest.param(b"\x00\xff\x01\x00" + NOTE + b"\x00\xf0\x02\x01\xf7", [(60, 64, 0, 100)], id="between others"),
    ],
)
def test_notes(body: bytes, expected: list[tuple[int, int, int, int]]) -> None:
    """What MIDI files say in unusual ways is still one note for each key struck."""
    found = notes(midi(body))
    assert [(note.pitch, note.velocity, round(note.start * 1000), round(note.end * 1000)) for note in found] == expected


def test_overlap_on_two_tracks() -> None:
    """An end in one track ended the other track's note of the same channel and pitch."""
    long = b"\x00\x90\x3c\x40" + SECOND + b"\x80\x3c\x00"
    assert notes(midi(long, NOTE)) == (Note(60, 64, 0.0, 0.1), Note(60, 64, 0.0, 1.0))


def test_sixteen_channels() -> None:
    """The drum channel is left out and counted, all others are one piano."""
    body = b"".join(bytes((0, 0x90 | channel, 60 + channel, 64)) for channel in range(16))
    body += b"".join(bytes((10, 0x80 | channel, 60 + channel, 64)) for channel in range(16))
    reading = read_midi(midi(body))
    assert [note.pitch for note in reading.performance.notes] == [60 + channel for channel in range(16) if channel != 9]
    assert list(reading.notes) == ["1 drum note left out"]


def test_what_was_lost_is_told() -> None:
    """Hanging notes, stray ends and other instruments were read without a word."""
    body = b"\x00\xc0\x28" + NOTE + b"\x00\x80\x3d\x00" + b"\x00\x90\x3e\x40" + SECOND + b"\xb0\x07\x00"
    reading = read_midi(midi(body, NOTE))
    assert reading.performance.notes[-1] == Note(62, 64, 0.1, 1.1)
    assert list(reading.notes) == [
        "1 note without an end, held to the end of the track",
        "1 note end without a note left out",
        "instruments 40 are read as a piano",
    ]


def test_tracks_keep_their_names() -> None:
    """The parts of a piece are told by the names of its tracks; those without notes are none."""
    name = b"\x00\xff\x03\x06MELODY"
    reading = read_midi(midi(b"\x00\xff\x03\x05Tempo", name + NOTE + b"\x00\xff\x03\x05again", NOTE))
    assert [(name, len(piece)) for name, piece in reading.tracks] == [("MELODY", 1), ("", 1)]
    assert reading.performance == reading.tracks[0][1].joined(reading.tracks[1][1])


# ---- time


def test_tempo_of_a_later_track() -> None:
    """Tempo changes hold for all tracks, wherever they stand: at one tick the last one read."""
    fast = b"\x32\xff\x51\x03\x03\xd0\x90" + b"\x00\xff\x51\x03\x01\xe8\x48"  # 250,000, then 125,000 from tick 50
    assert notes(midi(NOTE, fast)) == (Note(60, 64, 0.0, 0.05 + 0.0125),)
    assert notes(midi(NOTE + fast, kind=0)) == (Note(60, 64, 0.0, 0.1),)


def test_tempo_of_no_time() -> None:
    """A tempo of 0 microseconds must not divide by it."""
    assert notes(midi(b"\x32\xff\x51\x03\x00\x00\x00", NOTE)) == (Note(60, 64, 0.0, 0.05),)


@pytest.mark.parametrize(
    ("frames", "ticks", "rate"), [(25, 40, 1000), (24, 80, 1920), (30, 10, 300), (29, 100, 100 * 30000 / 1001)]
)
def test_film_frames(frames: int, ticks: int, rate: float) -> None:
    """A division in frames a second is negative, 29 means 29.97, and tempos do not matter."""
    data = midi(b"\x00\xff\x51\x03\x03\xd0\x90" + NOTE, division=(256 - frames) << 8 | ticks)
    assert notes(data)[0].end == pytest.approx(100 / rate, abs=1e-12)


def test_tempo_map_stays_exact() -> None:
    """Ten thousand tempo changes, summed, against fractions."""
    generator = random.Random(5)
    body, exact, tempo = b"", Fraction(0), 500_000
    for _ in range(10_000):
        exact += Fraction(77 * tempo, 480 * 10**6)
        tempo = generator.randrange(1, 2**21)
        body += b"\x4d\xff\x51\x03" + tempo.to_bytes(3, "big")
    found = notes(midi(body + NOTE, division=480))
    assert found[0].start == pytest.approx(float(exact), abs=1e-9)


# ---- the pedal


DOWN, UP = b"\xb0\x40\x7f", b"\xb0\x40\x00"


@pytest.mark.parametrize(
    ("bodies", "end"),
    [
        pytest.param([b"\x00" + DOWN + NOTE + b"\x64" + UP], 0.2, id="held"),
        pytest.param([NOTE, b"\x00" + DOWN + b"\x81\x48" + UP], 0.2, id="on another track"),
        pytest.param([b"\x00\xb1\x40\x7f" + NOTE + b"\x64\xb1\x40\x00"], 0.1, id="on another channel"),
        pytest.param([b"\x00" + DOWN + NOTE + b"\x00" + UP], 0.1, id="released at the end"),
        pytest.param([NOTE + b"\x00" + DOWN + b"\x64" + UP], 0.2, id="pressed at the end"),
        pytest.param([NOTE + b"\x01" + DOWN + b"\x64" + UP], 0.1, id="pressed after the end"),
        pytest.param([NOTE + b"\x00" + DOWN + b"\x00" + UP + b"\x64" + UP], 0.1, id="pressed for no time"),
        pytest.param([b"\x00" + DOWN + NOTE + b"\x64\xb0\x79\x00"], 0.2, id="controllers reset"),
        pytest.param([b"\x00" + DOWN + NOTE, b"\x64\x90\x3e\x40" + SECOND + b"\x80\x3e\x00"], 1.1, id="never released"),
        pytest.param([b"\x00" + DOWN + NOTE + b"\x32\x90\x3c\x40\x32\x80\x3c\x40\x32" + UP], 0.15, id="struck again"),
        pytest.param([b"\x00\xb0\x40\x3f" + NOTE + b"\x64" + UP], 0.1, id="not quite down"),
        pytest.param([b"\x00\xb0\x40\x40" + NOTE + b"\x32\xb0\x40\x30\x32" + UP], 0.2, id="flutters"),
        pytest.param([b"\x00\xb0\x40\x40" + NOTE + b"\x32\xb0\x40\x2f\x32" + UP], 0.15, id="lifted half"),
    ],
)
def test_pedal(bodies: list[bytes], end: float) -> None:
    """Notes end with the pedal, at the next stroke of the key, or where they ended: never before."""
    data = midi(*bodies)
    assert notes(data)[0] == Note(60, 64, 0.0, end)
    assert notes(data, "ignore")[0] == Note(60, 64, 0.0, 0.1)
    assert notes(data, "keep") == notes(data, "ignore")


def test_pedal_kept() -> None:
    """Changes of all channels become those of one pedal; a flutter changes nothing."""
    left = b"\x00" + DOWN + b"\x0a\xb0\x40\x3f\x0a\xb0\x40\x41\x50" + UP + NOTE
    right = b"\x32\xb1\x40\x7f\x64\xb1\x40\x00"
    kept = read_midi(midi(left, right), pedal="keep").performance
    assert kept.pedal == (Pedal(0.0, True), Pedal(0.15, False))


messages = st.tuples(
    st.integers(0, 3).map(lambda time: 10 * time),
    st.sampled_from([0, 0, 1, 9]),
    st.sampled_from(["on", "on", "off", "off", "pedal", "tempo"]),
    st.integers(60, 61),
    st.sampled_from([0, 30, 47, 48, 63, 64, 127]),
)


def encoded(rows: list[tuple[int, int, str, int, int]]) -> bytes:
    """A track's bytes."""
    body = b""
    for time, channel, kind, pitch, value in rows:
        if kind == "tempo":
            body += bytes((time, 0xFF, 0x51, 3, 1 + value // 16, 0, 0))
        else:
            status, first = {"on": (0x90, pitch), "off": (0x80, pitch), "pedal": (0xB0, 64)}[kind]
            body += bytes((time, status | channel, first, value))
    return body


def slow_notes(tracks: list[list[tuple[int, int, str, int, int]]], fold: bool) -> list[tuple[float, int, float, int]]:
    """What the tracks mean, tick by tick."""
    every, last, ends = [], 0, {}
    for number, rows in enumerate(tracks):
        now = 0
        for time, *row in rows:
            now += time
            every.append((now, number, *row))
        ends[number] = now
        last = max(last, now)
    tempo, clock, seconds = 500_000, Fraction(0), []
    for tick in range(last + 1):
        seconds.append(clock)
        for now, _, _, kind, _, value in every:
            tempo = (1 + value // 16) << 16 if now == tick and kind == "tempo" else tempo
        clock += Fraction(tempo, 480 * 10**6)
    played: list[list[int]] = []  # channel, pitch, velocity, start, end, track
    for now, number, channel, kind, pitch, value in every:
        if channel == 9:
            continue
        if kind == "on" and value:
            played.append([channel, pitch, value, now, -1, number])
        elif kind in ("on", "off"):
            for note in played:
                if note[4] < 0 and note[:2] == [channel, pitch] and note[5] == number:
                    note[4] = now
                    break
    for note in played:
        note[4] = ends[note[5]] if note[4] < 0 else note[4]
    found = []
    for channel, pitch, velocity, start, end, _ in played:
        down, until = False, end
        pedal = [(now, value) for now, _, other, kind, _, value in every if kind == "pedal" and other == channel]
        for now, value in sorted(pedal, key=lambda row: row[0]) if fold else ():
            if now > end and down and until == end and value < 48:
                until = now
            down = down if now > end else value >= (48 if down else 64)
        if down and until == end:
            until = max(note[4] for note in played if note[0] == channel)
        strokes = [note[3] for note in played if note[:2] == [channel, pitch] and note[3] > start]
        until = max(end, min([until, *strokes]))
        found.append((float(seconds[start]), pitch, float(seconds[until]), velocity))
    return sorted(found)


@settings(deadline=None)
@given(st.lists(st.lists(messages, max_size=15), min_size=1, max_size=3), st.booleans())
def test_reading_follows_the_rules(tracks: list[list[tuple[int, int, str, int, int]]], fold: bool) -> None:
    """Times, pairs or pedals of files with several tracks, channels and tempos, against looking at each message."""
    expected = slow_notes(tracks, fold)
    data = midi(*map(encoded, tracks), division=480)
    if not expected:
        with pytest.raises(DataError, match=r"has (no notes|only drums)"):
            read_midi(data)
        return
    found = notes(data, "fold" if fold else "keep")
    found = sorted((start, pitch, end, velocity) for pitch, velocity, start, end in found)
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-9)


# ---- writing


@settings(deadline=None)
@given(performance=st.from_type(Performance))
def test_round_trip(folder: Path, performance: Performance) -> None:
    """Times within half a millisecond, everything else exact, also where notes of a pitch overlap or have no length."""
    if not len(performance):
        return
    performance.save(folder / "a.mid")
    back = read_midi(folder / "a.mid", pedal="keep").performance
    assert sorted(zip(back.pitch, back.velocity, strict=True)) == sorted(
        zip(performance.pitch, performance.velocity, strict=True)
    )
    assert np.abs(back.start - performance.start).max() <= 0.0005 + 1e-9
    assert back.duration == pytest.approx(max(performance.duration, performance.start.max() + 0.001), abs=0.001)
    again = folder / "b.mid"
    back.save(again)
    assert read_midi(again, pedal="keep").performance == back


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("midi")


def test_grid_is_exact(folder: Path) -> None:
    """Three hours on the grid of 10 ms, many notes and the pedal at each tick, keys struck again where they end."""
    generator = np.random.default_rng(3)
    step = np.sort(generator.integers(0, 3 * 3600 * 100, 60))
    step = np.append(step, [0, 1, 3 * 3600 * 100])
    chords = [
        Note(pitch, int(generator.integers(1, 128)), int(first) / 100, int(last) / 100)
        for first, last in zip(np.unique(step)[:-1], np.unique(step)[1:], strict=True)
        for pitch in range(30, 60)
    ]
    pedal = [Pedal(int(one) / 100, down) for one in np.unique(step)[1:] for down in (False, True)]
    performance = Performance.of(chords, [Pedal(0.0, True), *pedal])
    write_midi(performance, folder / "long.mid")
    assert read_midi(folder / "long.mid", pedal="keep").performance == performance


def test_long_silence(folder: Path) -> None:
    """A pause of 23 hours is one delta, of 27 bits."""
    performance = Performance.of([Note(60, 64, 0.0, 0.5), Note(60, 64, 23 * 3600.0, 23 * 3600.5)])
    write_midi(performance, folder / "pause.mid")
    assert read_midi(folder / "pause.mid").performance == performance
    with pytest.raises(DataError, match=r"pause.mid would last 26 hours"):
        write_midi(performance.shifted(3 * 3600), folder / "pause.mid")


def test_overlaps_survive(folder: Path) -> None:
    """A long note around a short one of its pitch would end with the short one: a track cannot say which one ends."""
    performance = Performance.of([Note(60, 64, 0.0, 3.0), Note(60, 80, 1.0, 2.0), Note(60, 90, 1.0, 1.5)])
    write_midi(performance, folder / "nested.mid")
    assert read_midi(folder / "nested.mid").performance == performance
    crowd = Performance.of([Note(60, 64, 0.0, 1.0 + n) for n in range(100)])
    write_midi(crowd, folder / "crowd.mid")
    assert read_midi(folder / "crowd.mid").performance == crowd
    assert len(to_pretty_midi(crowd).instruments) == 15  # a channel each, and no more tracks than a file can have


@given(st.from_type(Performance))
@settings(deadline=None)
def test_pretty_midi_and_back(performance: Performance) -> None:
    """People who analyse music have their performances there."""
    back = from_pretty_midi(to_pretty_midi(performance))
    assert back == performance
    midi = to_pretty_midi(performance)
    midi.instruments[0].is_drum = True
    assert len(from_pretty_midi(midi)) < len(performance) or not len(performance)


def test_pretty_midi_in_any_order() -> None:
    """`pretty_midi` does not sort what people put in: a release read before its press left the pedal down."""
    midi = to_pretty_midi(Performance.of([Note(60, 64, 0.0, 1.0)], [Pedal(0.5, True), Pedal(2.0, False)]))
    midi.instruments[0].control_changes.reverse()
    assert from_pretty_midi(midi).pedal == (Pedal(0.5, True), Pedal(2.0, False))


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """A traceback of the operating system's."""
    performance = Performance.of([Note(60, 64, 0.0, 1.0)])
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "a.mid"):
        with pytest.raises(DataError, match="cannot be written") as caught:
            write_midi(performance, path)
        assert str(path) in str(caught.value)


# ---- bad input


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "not a MIDI file", id="empty"),
        pytest.param(b"<html>", "not a MIDI file", id="not MIDI"),
        pytest.param(b"RIFF\x00\x00\x00\x00WAVE", "not a MIDI file", id="another RIFF"),
        pytest.param(b"MThd\x00\x00", "ends within its header", id="cut header"),
        pytest.param(midi(NOTE, kind=2), "type 2, whose tracks do not sound together", id="type 2"),
        pytest.param(midi(NOTE, kind=3), "type 3, which does not exist", id="type 3"),
        pytest.param(header(0), "no notes", id="no tracks"),
        pytest.param(midi(b""), "no notes", id="no notes"),
        pytest.param(midi(b"\x00\x99\x24\x40\x10\x89\x24\x40"), "only drums", id="only drums"),
        pytest.param(header(65535) + track(NOTE + END), "ends after 1 of 65535 tracks", id="65535 tracks"),
        pytest.param(midi(NOTE, division=0), "no ticks per beat", id="no division"),
        pytest.param(midi(NOTE, division=0xE700), "no ticks per frame", id="no division of frames"),
        pytest.param(midi(b"\xff\xff\xff\x7f" + NOTE[1:]), "claims to last", id="days"),
        pytest.param(midi(b"\xff\xff\xff\xff\xff\xff\x7f" + NOTE[1:]), "claims to last", id="many years"),
        pytest.param(midi(b"\xff" * 2000 + b"\x7f" + NOTE[1:]), "claims to last", id="more than a float holds"),
        pytest.param(midi(b"\xff" * 10**6 + b"\x7f" + NOTE[1:]), "a number without an end", id="more than time allows"),
        pytest.param(midi(b"\x00\xff\x01\xff\xff\xff\x7f" + NOTE), "length", id="huge text"),
        pytest.param(midi(b"\x00\x3c\x40" + NOTE), "running status", id="no status"),
        pytest.param(midi(b"\x00\xff\x59\x02\x70\x00" + NOTE), "key", id="no such key"),
        pytest.param(midi(b"\x00\xff\x51\x01\x00" + NOTE), "cut off", id="short tempo"),
        pytest.param(header(1) + track(NOTE[:-1]), "cut off", id="cut message"),
        pytest.param(midi(NOTE) + bytes(2**25), "larger than 32 MiB", id="too large"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, message: str) -> None:
    """Each is refused in one line that names the file and the reason, from a path and from bytes."""
    path = tmp_path / "bad.mid"
    path.write_bytes(data)
    for source, name in ((path, ""), (data, "bad.mid")):
        with pytest.raises(DataError, match=message) as caught:
            read_midi(source, name=name)
        assert "bad.mid" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    """A folder, or a name without a file."""
    for path in (tmp_path, tmp_path / "none.mid"):
        with pytest.raises(DataError, match="cannot be read") as caught:
            read_midi(path)
        assert str(path) in str(caught.value)


LIST = b"LIST\x04\x00\x00\x00abcd"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(header(1) + b"XFIH\x00\x00\x00\x03abc" + track(NOTE + END), id="unknown chunk before"),
        pytest.param(midi(NOTE) + b"XFIH\x00\x00\x00\x03abc", id="unknown chunk behind"),
        pytest.param(midi(NOTE) + bytes(100), id="zeros behind"),
        pytest.param(b"RIFF0\x00\x00\x00RMIDdata&\x00\x00\x00" + midi(NOTE) + LIST, id="RMID"),
        pytest.param(header(0) + track(NOTE + END), id="a track more than the header says"),
        pytest.param(b"MThd\x00\x00\x00\x08" + header(1)[8:] + b"\x00\x00" + track(NOTE + END), id="longer header"),
        pytest.param(midi(NOTE, kind=0), id="type 0"),
        pytest.param(header(1) + track(NOTE), id="no end of track"),
        pytest.param(midi(b"\x00\x90\x3c\x40\x64\x80\x3c\xff"), id="data over 127"),
        pytest.param(midi(NOTE + b"\xff\xff\xff\x7f\xff\x01\x00"), id="days after the last note"),
        pytest.param(midi(b"\x00\xff\x01\x81\x00" + b"\xe9" * 128 + NOTE), id="text that is not ASCII"),
    ],
)
def test_odd_files(data: bytes) -> None:
    """The standard allows it, or other programs read it: so does this one."""
    assert notes(data) == (Note(60, 64, 0.0, 0.1),)


def test_cut_anywhere() -> None:
    """No place to cut a file off leaves one that reads as if it were whole."""
    data = midi(b"\x00" + DOWN + b"\x00\xff\x58\x04\x04\x02\x18\x08", NOTE)
    assert read_midi(data)
    for length in range(len(data)):
        with pytest.raises(DataError, match=r"cut\.mid"):
            read_midi(data[:length], name="cut.mid")


def sound_files(generator: random.Random) -> Iterator[bytes]:
    """Files with every kind of message, as mido writes them."""
    while True:
        file = mido.MidiFile(type=generator.randrange(2), ticks_per_beat=480)
        for _ in range(1 + file.type):
            track = file.add_track("Piano")
            track.append(mido.MetaMessage("set_tempo", tempo=400_000, time=3))
            track.append(mido.MetaMessage("time_signature", numerator=3, denominator=8))
            track.append(mido.MetaMessage("key_signature", key="Ebm"))
            track.append(mido.MetaMessage("smpte_offset", frame_rate=25, hours=1))
            track.append(mido.MetaMessage("text", text="Gymnopédie"))
            track.append(mido.Message("sysex", data=[1, 2, 3]))
            for _ in range(generator.randrange(30)):
                pitch, channel = generator.randrange(128), generator.choice([0, 0, 9, 15])
                track.append(mido.Message("note_on", note=pitch, channel=channel, time=generator.randrange(300)))
                value = generator.randrange(128)
                track.append(mido.Message("control_change", control=64, value=value, time=generator.randrange(30)))
                track.append(mido.Message("program_change", program=generator.randrange(128)))
                track.append(mido.Message("pitchwheel", pitch=value))
                track.append(mido.Message("note_off", note=pitch, channel=channel, time=generator.randrange(300)))
        content = io.BytesIO()
        file.save(file=content)
        yield content.getvalue()


def damaged(data: bytes, generator: random.Random) -> bytes:
    """Bits flipped, bytes lost and put in, pieces swapped, and the fields changed on which reading depends."""
    content = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 5])):
        place = generator.randrange(len(content))
        some = slice(place, place + generator.choice([1, 1, 4, 100]))
        match generator.randrange(7):
            case 0:
                content[place] ^= 1 << generator.randrange(8)
            case 1:
                del content[some]
            case 2:
                content[place:place] = generator.randbytes(generator.choice([1, 4, 100]))
            case 3:
                tracks = bytes(content).split(b"MTrk")
                content = bytearray(b"MTrk".join(generator.sample(tracks, len(tracks))))
            case 4:
                content[some] = bytes([generator.choice([0, 127, 128, 255])] * len(content[some]))
            case 5 if b"MTrk" in content:
                size = generator.choice([0, 1, 2**31, 2**32 - 1, generator.randrange(len(content))])
                place = content.index(b"MTrk")
                content[place + 4 : place + 8] = size.to_bytes(4, "big")
            case _:
                place = generator.choice([8, 10, 12])
                content[place : place + 2] = generator.choice([0, 1, 2, 65535, generator.randrange(65536)]).to_bytes(2)
    return bytes(content or b"M")


@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_files(count: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever is in a file: a performance that can be encoded, or one line that names it; never more, never a warning.

    A division of one tick a beat makes minutes hours: what follows from a file may not grow without bounds.
    """
    generator = random.Random(count)
    files = sound_files(generator)
    read = 0
    for number in range(count):
        data = damaged(next(files), generator)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                reading = read_midi(data, pedal=generator.choice(["fold", "keep", "ignore"]), name="damaged.mid")
            except SuiteError as error:
                assert "damaged.mid" in str(error), number
                assert "\n" not in str(error), number
                continue
            read += 1
            assert all(reading.notes)
            for table in (EventTable(), EventTable(pedal=True)):
                tokens = table.encode(reading.performance).tokens
                assert len(tokens) <= 24 * 3600 + 4 * len(data), number
                assert len(table.decode(tokens)) == len(reading.performance), number
    assert read > count / 20
    assert capfd.readouterr() == ("", "")


def test_a_stuck_pedal_is_left_out(folder: Path) -> None:
    """A pedal that is pressed once and never released would hold all notes of a song; one of a few seconds holds."""
    notes = [Note(60 + place % 12, 64, place * 1.0, place * 1.0 + 0.5) for place in range(60)]
    pedal = [Pedal(0.9, True), Pedal(2.7, False), Pedal(10.0, True)]
    Performance.of(notes, pedal).save(folder / "stuck.mid")
    reading = read_midi(folder / "stuck.mid")
    assert reading.stuck == 1 and any("20 seconds" in line for line in reading.notes)
    lengths = (reading.performance.end - reading.performance.start).round(3).tolist()
    assert lengths == [0.5, 1.7, 0.7, *[0.5] * 57]
