"""Similarity of music to other music, copied passages, and intervals of means.

Shapes: `N` notes, `K` bins, `R` recordings, `P` pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.data.events import STEP_RATE, VELOCITIES, steps, velocity_bin
from suite.data.performance import PITCHES, Performance
from suite.data.recordings import Recording
from suite.evaluation import bootstrap
from suite.tasks.music.examples import CHORD_SECONDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMOOTHING = 0.5  # added to every bin's count before the divergence; Jeffreys' prior

# ---- histograms


@dataclass(frozen=True)
class Feature:
    """A property of music that is counted in a histogram.

    Attributes:
        values: function from a performance to the values to count.
        edges: (K - 1,) borders between bins; values below the first or above the last edge have a bin each, too.
    """

    values: Callable[[Performance], NDArray[np.floating] | NDArray[np.integer]]
    edges: Floats

    def histogram(self, performances: Sequence[Performance]) -> Ints:
        """(K,) counts, in each bin, of the values of all performances."""
        values = np.concatenate([self.values(one) for one in performances])
        return np.bincount(np.searchsorted(self.edges, values, side="right"), minlength=len(self.edges) + 1)


def density(performance: Performance) -> Ints:
    """Return the number of notes struck in each second from the first note on; an incomplete last second is dropped."""
    if not len(performance):
        return np.zeros(0, dtype=np.int64)
    first = performance.start[0]
    whole = max(1, int(performance.duration - first + 1e-6))
    second = np.floor(performance.start - first + 1e-6).astype(np.int64)
    return np.bincount(second, minlength=whole)[:whole]


def polyphony(performance: Performance) -> Ints:
    """Return the number of notes that sound at each tenth of a second from the first note on."""
    start = performance.start.min(initial=performance.duration)
    # midway between two grid steps, where no note starts or ends
    times = np.arange(start + 0.5 / STEP_RATE, performance.duration, 0.1)
    ends = np.sort(performance.end)
    return np.searchsorted(performance.start, times) - np.searchsorted(ends, times)


def one_each(count: int) -> Floats:
    """(count - 1,) bin edges that give each of 0, 1, ... count - 1 a bin of its own."""
    return np.arange(0.5, count - 1)


# below 6 ms (struck together), then half octaves to 12 s; no edge is a multiple of 10 ms, as quantised times are
MILLISECONDS: Floats = 6 * 2 ** (np.arange(23) / 2)

FEATURES: Mapping[str, Feature] = {
    "pitch class": Feature(lambda music: music.pitch % 12, one_each(12)),
    "pitch": Feature(lambda music: music.pitch, one_each(PITCHES)),
    "inter-onset interval": Feature(lambda music: 1000 * np.diff(music.start), MILLISECONDS),
    "duration": Feature(lambda music: 1000 * (music.end - music.start), MILLISECONDS),
    "velocity": Feature(lambda music: velocity_bin(music.velocity) - 1, one_each(VELOCITIES)),
    "notes per second": Feature(density, one_each(41)),
    "polyphony": Feature(polyphony, one_each(31)),
}


def overlap(first: Ints, second: Ints) -> float:
    """Return the area shared by two histograms, each scaled to an area of 1; 0 if either is empty.

    Args:
        first, second: (K,) counts.
    """
    return float(np.minimum(first / max(1, first.sum()), second / max(1, second.sum())).sum())


def divergence(first: Ints, second: Ints) -> float:
    """Return the Kullback-Leibler divergence of the second histogram from the first, in nats.

    Half a count is added to every bin of both, so that a bin that is empty in the second does not make it infinite.

    Args:
        first, second: (K,) counts.
    """
    p, q = ((counts + SMOOTHING) / (counts + SMOOTHING).sum() for counts in (first, second))
    return float((p * np.log(p / q)).sum())


def likeness(reference: Sequence[Performance], others: Sequence[Performance]) -> dict[str, dict[str, float]]:
    """Measure the similarity of the `others` to the reference.

    Returns:
        for each of `FEATURES`: the `overlap` of the histograms, and the `divergence` (reference || others, nats).
    """
    found = {}
    for name, feature in FEATURES.items():
        first, second = feature.histogram(reference), feature.histogram(others)
        found[name] = {"overlap": overlap(first, second), "divergence": divergence(first, second)}
    return found


# ---- excerpts


def first_half(recordings: Sequence[Recording]) -> NDArray[np.bool_]:
    """(R,) bool: True for recordings of every second piece, in the order of the pieces' first recordings."""
    pieces = {piece: place for place, piece in enumerate(dict.fromkeys(recording.piece for recording in recordings))}
    return np.array([pieces[recording.piece] % 2 == 0 for recording in recordings])


def evenly(count: int, total: int) -> list[int]:
    """Return `count` indices in range(total), evenly spread; all of them if `count` is not below `total`."""
    count = min(count, total)
    return [(2 * place + 1) * total // (2 * count) for place in range(count)]


def excerpts(recordings: Sequence[Recording], count: int, seconds: float) -> list[Performance]:
    """Return `count` excerpts, evenly spread over all recordings, each of which must last `seconds` or more."""
    ends = np.cumsum([one.performance.duration for one in recordings])
    found = []
    for place in range(count):
        time = (place + 0.5) / count * ends[-1]
        number = int(np.searchsorted(ends, time, side="right"))
        performance = recordings[number].performance
        start = min(time - (ends[number] - performance.duration), performance.duration - seconds)
        found.append(performance.between(start, start + seconds))
    return found


# ---- copying

WIDTH = 8  # intervals packed into a 64-bit key, a byte each
BORDER = 0  # the byte between two recordings; an interval is its semitones + 128


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A run of notes that is also in a training recording, at the same or another pitch, in any rhythm.

    Attributes:
        notes: number of notes in the run.
        seconds: from its first stroke to its last, in the sample.
        start: seconds at which it begins in the sample.
        name: of the recording.
        there: seconds at which it begins in the recording.
        transposed: semitones by which it is higher in the sample than in the recording.
    """

    notes: int
    seconds: float
    start: float
    name: str
    there: float
    transposed: int


def in_order(performance: Performance) -> Ints:
    """(N,) indices of the notes sorted by time, and by pitch within a chord (strokes at most 30 ms apart).

    Quantising times can change which note of a chord comes a few milliseconds before another, and would break a run:
    sorted by steps alone, excerpts of ASAP match ASAP for only a third of their length; sorted this way, for two
    thirds.
    """
    chord = np.cumsum(np.diff(steps(performance.start), prepend=0) > round(CHORD_SECONDS * STEP_RATE))
    order: Ints = np.lexsort((performance.pitch, chord))
    return order


def longest_copies(samples: Sequence[Performance], training: Sequence[Recording]) -> list[Copy | None]:
    """Find, for each sample, the longest run of notes whose intervals also occur in a row in a training recording.

    Pieces by different composers share runs, too, such as scales and repeated notes, so the length means something only
    beside that of music known not to be copied.

    Args:
        samples: to search for.
        training: to search in.

    Returns:
        a copy for each sample, or None if it has no interval in common with any recording.
    """
    orders = [in_order(recording.performance) for recording in training]
    pitches = [one.performance.pitch[order] for one, order in zip(training, orders, strict=True)]
    intervals = [np.append(np.diff(pitch) + 128, BORDER) for pitch in pitches]
    offsets = np.cumsum([0, *map(len, intervals)])
    keys = _keys(np.concatenate(intervals))
    places = np.argsort(keys)
    keys = keys[places]

    def longest(sample: Performance) -> Copy | None:
        order = in_order(sample)
        pitch = sample.pitch[order]
        found = _longest_run(np.diff(pitch) + 128, keys, places)
        if found is None:
            return None
        length, here, place = found
        number = int(np.searchsorted(offsets, place, side="right")) - 1
        source, note = training[number], place - int(offsets[number])
        strokes = sample.start[order][here : here + length + 1]
        return Copy(
            notes=length + 1,
            seconds=float(np.ptp(strokes)),
            start=float(strokes.min()),
            name=source.name,
            there=float(source.performance.start[orders[number]][note]),
            transposed=int(pitch[here] - pitches[number][note]),
        )

    return [longest(sample) for sample in samples]


def _keys(intervals: Ints) -> NDArray[np.uint64]:
    """(N,) keys: each interval and the next seven packed into 64 bits, the first in the highest byte."""
    padded = np.append(intervals, np.full(WIDTH - 1, BORDER)).astype(np.uint64)
    keys = np.zeros(len(intervals), dtype=np.uint64)
    for place in range(WIDTH):
        keys = (keys << np.uint64(8)) | padded[place : place + len(intervals)]
    return keys


def _longest_run(intervals: Ints, keys: NDArray[np.uint64], places: NDArray[np.intp]) -> tuple[int, int, int] | None:
    """Return the length of the longest run of intervals that also occurs in training, and its start here and there.

    Args:
        intervals: of a sample.
        keys, places: sorted keys of the training intervals, and the index of each before sorting.

    Returns:
        length in intervals, index in the sample, index in training; None if no interval occurs in training.
    """
    wanted = _keys(intervals)
    for width in range(min(WIDTH, len(intervals)), 0, -1):
        # keys that begin with the same `width` intervals are neighbours
        cut = np.uint64(8 * (WIDTH - width))
        heads = (wanted[: len(intervals) - width + 1] >> cut) << cut
        lasts = np.searchsorted(keys, heads + ((np.uint64(1) << cut) - np.uint64(1)), side="right")
        firsts = np.searchsorted(keys, heads, side="left")
        best = (0, 0, 0)
        before, lengths = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64)
        for here, (first, last) in enumerate(zip(firsts.tolist(), lasts.tolist(), strict=True)):
            now = np.sort(places[first:last])
            # a match directly after one of the previous interval's extends its run by 1
            at = np.searchsorted(before, now - 1)
            follows = at < len(before)
            follows[follows] = before[at[follows]] == now[follows] - 1
            longer = np.ones(len(now), dtype=np.int64)
            longer[follows] += lengths[at[follows]]
            before, lengths = now, longer
            if len(now) and (top := int(longer.max())) > best[0]:
                best = (top, here - top + 1, int(now[longer.argmax()]) - top + 1)
        if best[0]:
            return best[0] + width - 1, best[1], best[2]
    return None


# ---- confidence intervals


def interval_of_mean(totals: Floats, counts: Ints, pieces: Sequence[str]) -> list[float] | None:
    """Return the bounds of the 95% interval of a mean, by bootstrap over pieces; None for a single piece.

    Recordings of the same piece are drawn together, because they are too similar to count as independent.

    Args:
        totals: (R,) sums of the averaged quantity.
        counts: (R,) number of terms in each sum.
        pieces: (R,) name of each recording's piece.
    """
    names, place = np.unique(pieces, return_inverse=True)
    if len(names) < 2:
        return None
    sums = np.stack([np.bincount(place, each) for each in (totals, counts)], axis=1).astype(np.float64)  # (P, 2)
    return list(bootstrap(sums, lambda drawn: float(drawn[:, 0].sum() / drawn[:, 1].sum())))
