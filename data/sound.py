"""Performances as sound: FluidSynth where it and a soundfont are installed, and a plain built-in piano everywhere.

The built-in piano adds damped sines. A note's partials are stretched by the stiffness of its string; high partials and
high keys fade faster; each partial fades first quickly and then slowly, as the strings of a key fall out of step; and a
key struck harder is louder and brighter.

Shapes: `N` samples, `K` sines of a note, `C` channels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.data.performance import Pedal, Performance
from suite.errors import DataError
from suite.files import write_output

Samples = NDArray[np.float32]

SAMPLE_RATE = 44100  # samples a second
RELEASE = 0.1  # seconds that a damper takes to silence a string
TAIL = 2.0  # seconds that FluidSynth's notes and its room may ring on
LONGEST_WAV = 4 * 3600.0  # seconds; stereo at SAMPLE_RATE is then still below the 4 GiB that a WAV file can hold
CEILING = 0.97  # no sample is larger
LOUDNESS = 0.18  # of a note of full velocity at middle C, so that a dense piece seldom reaches CEILING
GAIN = "1.2"  # at which FluidSynth's piano is about as loud as the built-in one
BLOCK = 2048  # samples
FONT_FOLDERS = (Path("/usr/share/sounds/sf2"), Path("/usr/share/sounds/sf3"), Path("/usr/share/soundfonts"))


def write_wav(performance: Performance, path: Path | str, soundfont: Path | None = None) -> str:
    """Write a performance as a WAV file of 16 bits and 44,100 samples a second.

    Args:
        performance: what is played.
        path: the file.
        soundfont: as `render` takes it.

    Returns:
        what played it, as `render` has it.

    Raises:
        DataError: it cannot be rendered or written.
    """
    samples, player = render(performance, soundfont)

    def write(temporary: Path) -> None:
        with wave.open(str(temporary), "wb") as file:
            file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
            file.setsampwidth(2)
            file.setframerate(SAMPLE_RATE)
            for first in range(0, len(samples), SAMPLE_RATE):  # piece by piece: an hour needs no second copy
                file.writeframes(np.rint(samples[first : first + SAMPLE_RATE] * 32767).astype("<i2").tobytes())

    try:
        write_output(Path(path), write)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from None
    return player


def render(performance: Performance, soundfont: Path | None = None, rate: int = SAMPLE_RATE) -> tuple[Samples, str]:
    """Play a performance with the best there is.

    Args:
        performance: what is played.
        soundfont: a file for FluidSynth. Without one, $SOUNDFONT or the first that the system has is taken; where there
            is none, or no FluidSynth, the built-in synthesiser plays.
        rate: samples a second.

    Returns:
        samples in [-1, 1], (N,) or, in stereo, (N, 2); and what played: "FluidSynth with NAME.sf2" or "the built-in
        synthesiser".

    Raises:
        DataError: the soundfont that was asked for cannot be used, or the performance is too long.
    """
    found = soundfont or _find_soundfont()
    if found and not found.is_file():
        raise DataError(f"no soundfont {found}{'' if soundfont else ' (from $SOUNDFONT)'}")
    if found and shutil.which("fluidsynth"):
        return fluidsynth(performance, found, rate), f"FluidSynth with {found.name}"
    if soundfont:
        raise DataError(f"{soundfont} needs FluidSynth: install the program fluidsynth, or leave out the soundfont")
    return synthesize(performance, rate), "the built-in synthesiser"


def _find_soundfont() -> Path | None:
    """The one that $SOUNDFONT names, or the first of the system's."""
    if named := os.environ.get("SOUNDFONT"):
        return Path(named)
    return next((font for folder in FONT_FOLDERS for font in sorted(folder.glob("*.sf[23]"))), None)


def fluidsynth(performance: Performance, soundfont: Path, rate: int = SAMPLE_RATE) -> Samples:
    """Play a performance with the program FluidSynth.

    Args:
        performance: what is played.
        soundfont: its instruments; the first, a piano in General MIDI, plays.
        rate: samples a second.

    Returns:
        (N, 2) stereo samples in [-1, 1].

    Raises:
        DataError: FluidSynth reports an error, or the performance is too long.
    """
    _check_length(performance)
    # older FluidSynths stop at the last message, whatever still rings, so there is one after it: a pedal that is lifted
    end = performance.duration + TAIL
    pedal = (*performance.pedal, Pedal(end - 0.01, True), Pedal(end, False))
    with tempfile.TemporaryDirectory() as folder:
        midi, raw = Path(folder, "in.mid"), Path(folder, "out.raw")
        replace(performance, pedal=pedal).save(midi)
        options = ["-T", "raw", "-O", "float", "-E", "little", "-r", str(rate), "-g", GAIN]
        command = ["fluidsynth", "-ni", "-q", *options, "-F", str(raw), str(soundfont.resolve()), str(midi)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        # its exit status is 0 even when it takes another soundfont for one that it cannot read
        errors = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()]
        if errors or done.returncode or not raw.is_file():
            reason = errors[0].removeprefix("fluidsynth: error: ") if errors else f"exit status {done.returncode}"
            raise DataError(f"FluidSynth cannot play with {soundfont}: {reason}")
        samples = np.fromfile(raw, dtype="<f4").reshape(-1, 2)
    samples = samples[: round(end * rate)]
    _limit(samples)
    return samples


def synthesize(performance: Performance, rate: int = SAMPLE_RATE) -> Samples:
    """Play a performance with the built-in piano; the same samples each time.

    Args:
        performance: what is played. Its pedal, if it is not folded into the notes, holds them.
        rate: samples a second.

    Returns:
        (N,) samples in [-1, 1], to the end of the last note's release.

    Raises:
        DataError: the performance is too long.
    """
    _check_length(performance)
    performance = performance.folded()
    starts, ends = (np.rint(seconds * rate).astype(np.int64) for seconds in (performance.start, performance.end))
    release = round(RELEASE * rate)
    fade = (0.5 + 0.5 * np.cos(np.linspace(0, np.pi, release))).astype(np.float32)
    samples = np.zeros(int(ends.max(initial=0)) + release, dtype=np.float32)
    force = performance.velocity / 127
    # key by key, so that no more than one key's sound is kept
    for pitch in np.unique(performance.pitch).tolist():
        struck = np.flatnonzero(performance.pitch == pitch)
        dull, bright = _strike(pitch, int((ends - starts)[struck].max()) + release, rate)
        for note in struck.tolist():
            first, length = int(starts[note]), int(ends[note] - starts[note])
            loudness, brightness = LOUDNESS * force[note] ** 1.6, force[note]
            sound = dull[: length + release] * np.float32(loudness * (1 - brightness))
            sound += bright[: length + release] * np.float32(loudness * brightness)
            damped = sound[length:]  # empty where the string has long been silent
            damped *= fade[: len(damped)]
            samples[first : first + len(sound)] += sound
    _limit(samples[:, None])
    return samples


def _check_length(performance: Performance) -> None:
    if performance.duration > LONGEST_WAV:
        hours = performance.duration / 3600
        raise DataError(f"{hours:.1f} hours is too long for a recording; cut it to {LONGEST_WAV / 3600:.0f} at most")


def _strike(pitch: int, length: int, rate: int) -> Samples:
    """What a key sounds like while it is held, struck as softly and as hard as can be, at the same energy.

    Source: Rigaud et al. 2013, "A parametric model and estimation techniques for the inharmonicity and tuning of the
    piano", for the stiffness of strings; loudness, brightness and fading are set near those of a sampled piano.

    Args:
        pitch: the key.
        length: samples at most; fewer, where it falls silent before.
        rate: samples a second.

    Returns:
        (2, N)
    """
    fundamental = 440 * 2 ** ((pitch - 69) / 12)
    stiffness = np.exp(0.0926 * pitch - 13.64) + np.exp(-0.0847 * pitch - 5.82)
    number = np.arange(1, 65)
    frequency = number * fundamental * np.sqrt((1 + stiffness * number**2) / (1 + stiffness))
    heard = frequency < min(13_000, 0.45 * rate)  # the highest key of MIDI is below
    number, frequency = number[heard], frequency[heard]  # (K,)
    # a hammer at an eighth of the string leaves the eighth partial out, felt takes the high ones, and a soundboard is
    # too small for the lowest
    strength = np.abs(np.sin(np.pi * number / 8)) / number * frequency**2 / (frequency**2 + 80**2)
    cutoff = np.array([[400.0], [4000.0]]) + 0.5 * fundamental
    strength = strength * np.exp(-frequency / cutoff)  # (2, K)
    strength = 2 ** ((60 - pitch) / 48) * strength / np.sqrt((strength**2).sum(axis=1, keepdims=True))
    fall = np.log(1000) / (12 * 2 ** ((21 - pitch) / 22)) * (1 + 0.15 * (number - 1))  # 60 dB in 12 s at A0
    slow = fall / 3
    length = min(length, int(rate * np.log(10**3.5) / slow.min(initial=np.inf)))
    # two damped sines a partial, a third of a cent apart
    size = np.concatenate((0.75 * strength, 0.25 * strength), axis=1)  # (2, 2K)
    phase = np.tile(np.pi * number**2 / 8, 2)  # in step, they would add up to a click
    cents = np.repeat((0.0, 1 / 3), len(number))
    speed = 2j * np.pi * np.tile(frequency, 2) * 2 ** (cents / 1200) - np.concatenate((fall, slow))
    # sample b of block a is the sum of size * exp(speed * (a * BLOCK + b)), which is a product of two matrices
    blocks = np.exp(speed * (np.arange(-(-length // BLOCK))[:, None] * BLOCK / rate) + 1j * phase)
    inside = np.exp(speed[:, None] * (np.arange(BLOCK) / rate))  # (2K, BLOCK)
    left = size[:, None, :] * blocks  # (2, N / BLOCK, 2K)
    rows = np.concatenate((left.real, -left.imag), axis=2).astype(np.float32)
    columns = np.concatenate((inside.real, inside.imag)).astype(np.float32)
    sound: Samples = (rows @ columns).reshape(2, -1)[:, :length]
    rise = np.sin(np.linspace(0, np.pi / 2, round(0.003 * rate)))[:length] ** 2
    sound[:, : len(rise)] *= rise
    return sound


def _limit(samples: Samples) -> None:
    """Turn (N, C) samples down, in place, around places where they are above CEILING.

    What is never above it stays as it is: a quiet note stays quiet.
    """
    around = 5  # blocks, a quarter of a second at SAMPLE_RATE
    peaks = np.array([np.abs(samples[first : first + BLOCK]).max() for first in range(0, len(samples), BLOCK)])
    if peaks.max(initial=0) <= CEILING:
        return
    gain = CEILING / np.maximum(peaks, CEILING)
    # the mean of minima that all include a block is at most what that block needs
    for reduce in (np.min, np.mean):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(gain, around, mode="edge"), 2 * around + 1)
        gain = reduce(windows, axis=1)
    edges = np.minimum(np.append(gain, 1), np.append(1, gain))  # between blocks, what both need
    for block, first in enumerate(range(0, len(samples), BLOCK)):
        part = samples[first : first + BLOCK]
        part *= np.linspace(edges[block], edges[block + 1], len(part), dtype=np.float32)[:, None]
