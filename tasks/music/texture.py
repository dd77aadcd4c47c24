"""Density, sounding keys and note lengths in generated music, compared with held-out recordings.

Each kind of generation is measured: alone, after a primer, under a melody, in a gap. The held-out recording is
measured at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from suite.data.events import STEP_RATE
from suite.data.performance import Note, Performance
from suite.data.recordings import Recording
from suite.errors import DataError
from suite.evaluation import Figure, Interval, Table
from suite.tasks.music import metrics
from suite.tasks.music.examples import part, skyline
from suite.tasks.music.pipeline import Player

QUANTILES = (0.5, 0.95, 0.99, 1.0)  # of the lengths of notes
BEAT = 0.5  # seconds
TUNE = (60, 67, 64, 65, 67, 65, 64, 62, 60, 64, 67, 72, 69, 67, 65, 64, 62, 65, 64, 62, 60, 62, 59, 60)

Progress = Callable[[float], object]


def plain_melody(seconds: float) -> Performance:
    """Return a tune of equal notes in C major, repeated to `seconds`: it is plainer than any training music."""
    beats = range(max(1, int(seconds / BEAT)))
    return Performance.of(Note(TUNE[beat % len(TUNE)], 80, beat * BEAT, (beat + 0.9) * BEAT) for beat in beats)


def textures(
    player: Player, music: Sequence[Recording], takes: int, seconds: float, seed: int, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Measure density, sounding keys and note lengths in takes of every kind, and in recordings at the same places.

    Args:
        player: of the model.
        music: recordings that it was not trained on; passages are from the middle of `takes` of them, evenly spread.
        takes: number of takes of each kind.
        seconds: length of each take, of the primer before it, and of the music after a gap.
        seed: of the first take; the takes of each kind have different seeds.
        progress: called with each few seconds of music just made.

    Returns:
        a row for each kind and each of "model" and "recordings" (for "plain melody" the model alone), as `measured`
        returns it, with `kind` and `of`.

    Raises:
        DataError: no recording is long enough.
    """
    long = [one for one in music if one.performance.duration >= 3 * seconds]
    if not long:
        raise DataError(f"none of {len(music):,} recordings has {3 * seconds:g} seconds; make --seconds shorter")
    chosen = [long[place] for place in metrics.evenly(takes, len(long))]
    pieces = [one.piece for one in chosen]
    rows = []
    for kind, played in (
        ("alone", alone(player, chosen, seconds, seed, progress)),
        ("after a primer", after_primers(player, chosen, seconds, seed, progress)),
        ("under a melody", under_melodies(player, chosen, seconds, seed, progress)),
        ("in a gap", in_gaps(player, chosen, seconds, seed, progress)),
    ):
        pairs = list(played)
        if not pairs:  # silence before every passage
            continue
        own, real = zip(*pairs, strict=True)
        rows.append({"kind": kind, "of": "model", **measured(own, seconds, pieces)})
        rows.append({"kind": kind, "of": "recordings", **measured(real, seconds, pieces)})
    plain = plain_melody(seconds)
    found = player.takes(len(chosen), melody=plain, seconds=seconds, seed=seed, progress=progress)
    names = [f"take {number}" for number in range(len(found))]
    rows.append({"kind": "plain melody", "of": "model", **measured(found, seconds, names)})
    return rows


Pairs = Iterator[tuple[Performance, Performance]]


def alone(player: Player, music: Sequence[Recording], seconds: float, seed: int, progress: Progress | None) -> Pairs:
    """Yield pairs of a take without a primer and the middle of a recording."""
    takes = player.takes(len(music), seconds=seconds, seed=seed, progress=progress)
    for take, one in zip(takes, music, strict=True):
        yield take, passage(one)[0].between(*middle(one, seconds))


def after_primers(
    player: Player, music: Sequence[Recording], seconds: float, seed: int, progress: Progress | None
) -> Pairs:
    """Yield pairs of a take that continues a recording and the recording's own continuation."""
    for number, one in enumerate(music):
        start, end = middle(one, seconds)
        before = one.performance.between(start - seconds, start)
        real = one.performance.between(start, end)
        if not len(before):
            continue
        take = player(primer=before, seconds=seconds, seed=seed + number, only_new=True, progress=progress)
        yield take, real


def under_melodies(
    player: Player, music: Sequence[Recording], seconds: float, seed: int, progress: Progress | None
) -> Pairs:
    """Yield pairs of a take that accompanies a recording's melody and the recording itself."""
    for number, one in enumerate(music):
        melody, real = (each.between(*middle(one, seconds)) for each in passage(one)[::-1])
        if not len(melody):
            continue
        yield player(melody=melody, seconds=seconds, seed=seed + number, progress=progress), real


def in_gaps(player: Player, music: Sequence[Recording], seconds: float, seed: int, progress: Progress | None) -> Pairs:
    """Yield pairs of a take in a gap of a recording and the recording's own notes there."""
    for number, one in enumerate(music):
        start, end = middle(one, seconds)
        whole = one.performance.between(start - seconds, end + seconds)
        if not (whole.start >= 2 * seconds).any():
            continue
        [take] = player.refill(whole, seconds, 2 * seconds, seed=seed + number, progress=progress)
        yield take.between(seconds, 2 * seconds), whole.between(seconds, 2 * seconds)


def passage(recording: Recording) -> tuple[Performance, Performance]:
    """Return a recording's performance and its melody: the marked notes, or else the highest."""
    music = recording.performance
    return music, part(music, recording.melody if recording.melody.any() else skyline(music))


def middle(recording: Recording, seconds: float) -> tuple[float, float]:
    """Return start and end (seconds, on the grid of steps) of `seconds` in the middle of a recording."""
    start = round((recording.performance.duration - seconds) / 2 * STEP_RATE) / STEP_RATE
    return start, start + seconds


def measured(music: Sequence[Performance], seconds: float, names: Sequence[str]) -> dict[str, Any]:
    """Measure density, sounding keys and note lengths in passages of `seconds` each.

    Returns:
        `passages`, their number; `notes_per_second`, the mean, and its 95% `interval` by bootstrap over `names` (None
        for a single name); `notes_in_a_second`, the 95% quantile and maximum; `voices`, the mean, 95% quantile and
        maximum of keys that sound at once; `lengths`, note lengths in seconds at `QUANTILES`.
    """
    cut = [one.between(0.0, seconds) for one in music]
    counts = np.array([len(one) for one in cut], dtype=np.float64)
    lasting = np.full(len(cut), round(seconds * STEP_RATE))
    interval = metrics.interval_of_mean(counts, lasting, names[: len(cut)])
    voices, struck = (np.concatenate([values(one) for one in cut]) for values in (metrics.polyphony, metrics.density))
    lengths = np.concatenate([one.end - one.start for one in cut])
    return {
        "passages": len(cut),
        "notes_per_second": float(counts.mean() / seconds),
        "interval": None if interval is None else [STEP_RATE * bound for bound in interval],
        "notes_in_a_second": [_quantile(struck, 0.95), _quantile(struck, 1.0)],
        "voices": [float(voices.mean()) if len(voices) else 0.0, _quantile(voices, 0.95), _quantile(voices, 1.0)],
        "lengths": [round(_quantile(lengths, share), 2) for share in QUANTILES],
    }


def _quantile(values: Any, share: float) -> float:
    return float(np.quantile(values, share)) if len(values) else 0.0


def texture_table(rows: Sequence[Mapping[str, Any]], seconds: float) -> Table:
    """Return the rows of `textures` as a table."""
    shown = []
    for row in rows:
        interval = None if row["interval"] is None else Interval(*row["interval"])
        notes = Figure(value=row["notes_per_second"], interval=interval, digits=1)
        mean, high, most = row["voices"]
        busy = "{:.0f} {:3.0f}".format(*row["notes_in_a_second"])
        lengths = " ".join(f"{value:5.2f}" for value in row["lengths"])
        shown.append((row["kind"], [row["of"], notes, busy, f"{mean:.1f} {high:3.0f} {most:3.0f}", lengths]))
    return Table(
        title=f"passages of {seconds:g} s, {rows[0]['passages']} of each kind",
        columns=["", "notes/s", "in 1 s: 95%, most", "keys: mean, 95%, most", "lengths: 50, 95, 99, 100%"],
        rows=shown,
        align="lrrrr",
    )
