"""Sound: in tune, as loud as it is struck, never above full scale, and as long as the performance."""

import os
import shutil
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.data import sound
from suite.data.midi import read_midi
from suite.data.performance import Note, Pedal, Performance
from suite.data.sound import RELEASE, TAIL, fluidsynth, render, synthesize, write_wav
from suite.errors import DataError

RATE = 22050
FONT = sound._find_soundfont() if shutil.which("fluidsynth") else None
BUILT_IN = "the built-in synthesiser"


@pytest.fixture(autouse=True)
def _no_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine has installed must not decide what a test tests."""
    monkeypatch.delenv("SOUNDFONT", raising=False)
    monkeypatch.setattr(sound, "FONT_FOLDERS", ())


@pytest.fixture
def font() -> Path:
    if FONT is None:
        pytest.skip("the program fluidsynth or a soundfont (apt: fluidsynth, fluid-soundfont-gm) is not installed")
    return FONT


def note(pitch: int = 60, velocity: int = 80, start: float = 0.0, end: float = 1.0) -> Performance:
    return Performance.of([Note(pitch, velocity, start, end)])


def spectrum(samples: np.ndarray, rate: int = RATE) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies and their energies."""
    power = np.abs(np.fft.rfft(samples * np.hanning(len(samples)))) ** 2
    return np.fft.rfftfreq(len(samples), 1 / rate), power


def centroid(samples: np.ndarray) -> float:
    """The mean frequency, weighed by energy."""
    frequencies, power = spectrum(samples)
    return float((frequencies * power).sum() / power.sum())


def energy(samples: np.ndarray) -> float:
    return float(np.square(samples, dtype=np.float64).sum())


# ---- the built-in piano


@pytest.mark.parametrize(("pitch", "hertz"), [(57, 220), (69, 440), (81, 880)])
@pytest.mark.parametrize("rate", [22050, 44100])
def test_in_tune(pitch: int, hertz: float, rate: int) -> None:
    """A wrong reference, or stiffness that moves the first partial, would be out of tune."""
    frequencies, power = spectrum(synthesize(note(pitch, end=2.0), rate)[: 2 * rate], rate)
    assert frequencies[power.argmax()] == pytest.approx(hertz, abs=0.6)


def test_partials_are_stretched() -> None:
    """Partials at whole multiples sound like an organ."""
    frequencies, power = spectrum(synthesize(note(69, end=2.0))[:88200], 44100)
    fourth = (frequencies > 1700) & (frequencies < 1900)
    assert 1763 < frequencies[fourth][power[fourth].argmax()] < 1790


def test_harder_is_louder_and_brighter() -> None:
    """A velocity that is only a volume sounds like a toy."""
    sounds = [synthesize(note(48, velocity), RATE) for velocity in (1, 30, 60, 90, 127)]
    centroids = [centroid(one) for one in sounds]
    energies = [energy(one) for one in sounds]
    assert energies[0] > 0
    assert energies == sorted(energies) and energies[-1] > 50 * energies[1]
    assert centroids == sorted(centroids) and centroids[-1] > 1.2 * centroids[0]


def test_high_keys_and_high_partials_fade_faster() -> None:
    """One envelope for all sounds like an organ with a volume pedal."""
    left = []
    for pitch in (36, 60, 84):
        played = synthesize(note(pitch, end=3.0), RATE)
        left.append(energy(played[2 * RATE : 3 * RATE]) / energy(played[:RATE]))
    assert left[0] > 4 * left[1] > 16 * left[2] > 0
    played = synthesize(note(48, 127, end=3.0), RATE)
    early, late = (centroid(played[second * RATE : (second + 1) * RATE]) for second in (0, 2))
    assert late < 0.9 * early


def test_no_partial_is_folded_back() -> None:
    """A partial above half the rate comes back as a tone that nobody played."""
    frequencies, power = spectrum(synthesize(note(100, 127), 8000), 8000)
    near = np.abs(frequencies - 2637) < 50
    assert power[near].sum() > 0.999 * power.sum()


@pytest.mark.parametrize("pitch", [0, 127])
@pytest.mark.parametrize("rate", [8000, 44100])
def test_ends_of_the_range(pitch: int, rate: int) -> None:
    """The highest keys have no partial that a low rate can hold, and no energy to be divided by."""
    played = synthesize(note(pitch, end=60.0), rate)
    assert np.isfinite(played).all()
    assert len(played) == round((60 + RELEASE) * rate)


def test_length_is_duration_and_release() -> None:
    """A cut release clicks; a pause before the first note is music too."""
    played = synthesize(note(start=0.5, end=1.25), RATE)
    assert played.dtype == np.float32
    assert len(played) == round(1.25 * RATE) + round(RELEASE * RATE)
    assert not played[: RATE // 2].any()
    assert len(synthesize(Performance.of([]), RATE)) == round(RELEASE * RATE)


def test_no_clicks() -> None:
    """A sound that starts or ends with a step is heard as a click."""
    played = synthesize(note(60, 127, 0.1, 0.5), RATE)
    first, last = round(0.1 * RATE), len(played)
    loudest = np.abs(played).max()
    assert np.abs(played[first : first + 5]).max() < 0.02 * loudest
    assert np.abs(played[last - 20 :]).max() < 0.001 * loudest


def test_a_damper_ends_the_note() -> None:
    """A note that rings on, or stops at once, is not a piano's."""
    played = synthesize(note(40).joined(note(90, 1, 2.0, 2.1)), RATE)
    held, damped = played[round(0.9 * RATE) : RATE], played[RATE : round(1.09 * RATE)]
    assert 0.05 * energy(held) < energy(damped) < 0.8 * energy(held)
    assert not played[round((1 + RELEASE) * RATE) : 2 * RATE].any()


def test_notes_add_up() -> None:
    """Notes of one key share a waveform, which none may change for the next."""
    notes = [Note(60, 90, 0.0, 0.3), Note(60, 30, 0.2, 1.2), Note(60, 60, 1.5, 1.5), Note(67, 60, 0.1, 0.8)]
    together = synthesize(Performance.of(notes), RATE)
    alone = np.zeros_like(together)
    for one in notes:
        part = synthesize(Performance.of([one]), RATE)
        alone[: len(part)] += part
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_array_equal(together, synthesize(Performance.of(notes[::-1]), RATE))


def test_pedal_holds_notes() -> None:
    """A pedal that is kept beside the notes sounds as one that is folded into them."""
    kept = replace(note(end=0.2).joined(note(64, start=1.0, end=2.0)), pedal=(Pedal(0.1, True), Pedal(1.5, False)))
    folded = note(end=1.5).joined(note(64, start=1.0, end=2.0))
    np.testing.assert_array_equal(synthesize(kept, RATE), synthesize(folded, RATE))


def test_never_above_full_scale() -> None:
    """A hundred notes at once must not clip, nor turn down what is long after them."""
    crowd = Performance.of(Note(pitch, 127, 0.0, 0.5) for pitch in range(10, 110))
    quiet = note(60, 20, 4.0, 5.0)
    loud, alone = synthesize(crowd.joined(quiet), RATE), synthesize(quiet, RATE)
    assert 0.5 < np.abs(loud).max() <= 1
    np.testing.assert_array_equal(loud[4 * RATE :], alone[4 * RATE :])
    assert 0 < np.abs(alone).max() < 0.05  # and it is not blown up for being alone


def test_limiting_is_gentle() -> None:
    """A gain that jumps from block to block crackles."""
    samples = np.full((40 * sound.BLOCK, 2), 0.5, dtype=np.float32)
    samples[20 * sound.BLOCK + 7, 1] = -9.0
    sound._limit(samples)
    assert np.abs(samples).max() <= sound.CEILING + 1e-6
    assert np.abs(np.diff(samples[:, 0])).max() < 1e-4
    assert samples[0, 0] == samples[-1, 0] == 0.5


def test_too_long_is_one_line() -> None:
    """A day of sound would fill the memory before anything is said."""
    with pytest.raises(DataError, match=r"^10\.0 hours is too long for a recording; cut it to 4 at most$"):
        synthesize(note(start=35999, end=36000), RATE)


# ---- files


def test_wav_holds_the_samples(tmp_path: Path) -> None:
    """Wrong byte order, width or rate plays as noise, or an octave off."""
    performance = note(end=2.5)
    assert write_wav(performance, tmp_path / "new" / "a.wav") == BUILT_IN
    with wave.open(str(tmp_path / "new" / "a.wav")) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 44100)
        read = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    np.testing.assert_allclose(read / 32767, synthesize(performance), atol=0.51 / 32767)


def test_save_writes_sound(tmp_path: Path) -> None:
    """`Performance.save` tells sound from MIDI by the name."""
    note(end=0.1).save(tmp_path / "a.WAV")
    assert (tmp_path / "a.WAV").read_bytes()[:4] == b"RIFF"


def test_unwritable_is_one_line(tmp_path: Path) -> None:
    """A folder of that name, and nothing left behind."""
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(DataError, match=r"a\.wav cannot be written"):
        write_wav(note(end=0.1), tmp_path / "a.wav")
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


# ---- who plays


def test_soundfont_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistyped soundfont must not be passed over in silence, in the environment neither."""
    with pytest.raises(DataError, match=r"no soundfont .*none\.sf2$"):
        render(note(), tmp_path / "none.sf2")
    monkeypatch.setenv("SOUNDFONT", str(tmp_path / "none.sf2"))
    with pytest.raises(DataError, match=r"none\.sf2 \(from \$SOUNDFONT\)$"):
        render(note())


def test_soundfont_without_fluidsynth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for a soundfont must not get the built-in piano; who has one lying about may."""
    font = tmp_path / "a.sf2"
    font.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"a\.sf2 needs FluidSynth: install"):
        render(note(end=0.1), font)
    monkeypatch.setattr(sound, "FONT_FOLDERS", (tmp_path / "none", tmp_path))
    assert render(note(end=0.1))[1] == BUILT_IN
    monkeypatch.setenv("SOUNDFONT", str(font))
    assert render(note(end=0.1))[1] == BUILT_IN


def test_fluidsynth_in_tune(font: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong rate or sample format plays as noise, or an octave off."""
    monkeypatch.setattr(sound, "FONT_FOLDERS", (font.parent,))
    performance = note(69, end=2.0)
    played, player = render(performance)
    assert player == f"FluidSynth with {font.name}"
    assert played.shape == (round((2 + TAIL) * 44100), 2) and played.dtype == np.float32
    assert 0.01 < np.abs(played).max() <= 1
    frequencies, power = spectrum(played[:88200, 0], 44100)
    assert frequencies[power.argmax()] == pytest.approx(440, abs=2)
    assert write_wav(performance, tmp_path / "a.wav", font) == player
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert (file.getnchannels(), file.getnframes()) == (2, len(played))


def test_fluidsynth_lets_notes_go(font: Path) -> None:
    """A note that ends before it begins in the file would sound for ever."""
    played = fluidsynth(note(60, 100, 0.5, 0.5), font, RATE)
    assert np.abs(played).max() > 0.01
    assert energy(played[-RATE // 2 :]) < 1e-4 * energy(played)
    assert not np.round(fluidsynth(Performance.of([]), font, RATE), 6).any()


@pytest.mark.parametrize("pedal", [(), (Pedal(0.0, True),)])
def test_fluidsynth_has_time_to_ring_on(
    pedal: tuple[Pedal, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions before 2.3 stop at the last message in the file, and would cut the last chord off."""
    program, kept = tmp_path / "fluidsynth", tmp_path / "kept.mid"
    program.write_text(
        f'#!/bin/sh\nfor word; do [ "$before" = -F ] && : > "$word"; before=$word; done\ncp "$word" "{kept}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    fluidsynth(replace(note(end=1.5), pedal=pedal), program)
    assert read_midi(kept, pedal="keep").performance.pedal[-1] == Pedal(1.5 + TAIL, False)


@pytest.mark.parametrize("cut", [0, 1000, 100_000])
def test_fluidsynth_with_a_broken_soundfont(cut: int, font: Path, tmp_path: Path) -> None:
    """It takes the system's own instead, with exit status 0."""
    with font.open("rb") as file:
        (tmp_path / "broken.sf2").write_bytes(file.read(cut) or b"no soundfont")
    with pytest.raises(DataError, match=r"^FluidSynth cannot play with .*broken\.sf2: .+$"):
        fluidsynth(note(end=0.1), tmp_path / "broken.sf2", RATE)
