"""Bounds on density, sounding keys and lengths of notes: measured on training pieces, kept by the grammar.

A small model drifts: it forgets keys that it holds, and strikes others. The bounds keep its music within the range of
its training pieces. Density and sounding keys are each bounded by a pair of quantiles: below the first the model is not
restricted; between the two, strokes become ever less likely; beyond the second there are none. Lengths of notes are a
table of quantiles, from which each note draws the length at which its end is due: a single maximum length could be
heard, and seen in a histogram.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.data.events import STEP_RATE
from suite.data.performance import Performance
from suite.errors import CheckpointError
from suite.task.tables import read_extra

WINDOWS = (1, 4)  # seconds over which strokes are counted
FREE, MOST = 0.9, 0.99  # quantiles over time of strokes in a window, and of keys sounding
TAIL = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)  # quantiles of note lengths
EVERY = 0.1  # seconds between the moments at which strokes and sounding keys are counted

Pair = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """Bounds as a checkpoint keeps them: none of the three may be missing."""

    strokes: tuple[Pair, ...]
    voices: Pair
    lengths: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class _Settings:
    bounds: _Kept


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Upper bounds on density, sounding keys and note lengths; training music exceeds the first two 1% of the time.

    The defaults, for checkpoints that keep no bounds, are those of the embedded model: classical piano pieces and piano
    arrangements of pop songs.

    Args:
        strokes: for each of `WINDOWS`, quantiles (0.9, 0.99) of the number of notes struck in a window of that length.
        voices: quantiles (0.9, 0.99) of the number of keys that sound at once.
        lengths: note lengths in seconds at the quantiles `TAIL`.
    """

    strokes: tuple[Pair, ...] = ((13.0, 23.0), (47.0, 86.0))
    voices: Pair = (7.0, 13.0)
    lengths: tuple[float, ...] = (1.46, 1.9, 2.66, 3.31, 4.08, 5.59, 6.87)

    @classmethod
    def of(cls, performances: Sequence[Performance]) -> Bounds | None:
        """Measure the bounds of performances; None if they have no notes."""
        kept = [one for one in performances if len(one)]
        if not kept:
            return None
        ends = [_moments(one) for one in kept]

        def over_time(counts: Sequence[NDArray[np.integer]]) -> Pair:
            free, most = np.quantile(np.concatenate(counts), (FREE, MOST), method="inverted_cdf")
            return float(free), float(most)

        return cls(
            strokes=tuple(
                over_time([struck(one, times, window) for one, times in zip(kept, ends, strict=True)])
                for window in WINDOWS
            ),
            voices=over_time([sounding(one, times) for one, times in zip(kept, ends, strict=True)]),
            lengths=tuple(
                round(float(value), 2)
                for value in np.quantile(np.concatenate([one.end - one.start for one in kept]), TAIL)
            ),
        )

    @classmethod
    def from_dict(cls, extra: Mapping[str, Any], where: str) -> Bounds:
        """Read the bounds from a checkpoint's extra values; the defaults if it has none.

        Args:
            extra: of a checkpoint.
            where: its config.json, for errors.

        Raises:
            CheckpointError: the stored bounds are not valid.
        """
        if extra.get("bounds") is None:
            return cls()
        found = read_extra(_Settings, {"bounds": extra["bounds"]}, where).bounds
        pairs = (*found.strokes, found.voices, *itertools.pairwise(found.lengths))
        if len(found.strokes) != len(WINDOWS) or len(found.lengths) != len(TAIL):
            raise CheckpointError(f"{where}: extra.bounds has more or fewer values than this version of suite")
        if not all(0 < first <= last for first, last in pairs):
            raise CheckpointError(f"{where}: extra.bounds must rise from above 0, as quantiles do")
        return cls(strokes=found.strokes, voices=found.voices, lengths=found.lengths)

    def to_dict(self) -> dict[str, Any]:
        """Return the bounds as plain JSON values for a checkpoint; `from_dict` reads them."""
        return {
            "strokes": [list(pair) for pair in self.strokes],
            "voices": list(self.voices),
            "lengths": list(self.lengths),
        }

    def raised(self, given: Bounds | None) -> Bounds:
        """Return these bounds, raised where the `given` music exceeds them, so that they allow all of it."""
        if given is None:
            return self
        return Bounds(
            strokes=tuple(_higher(*pairs) for pairs in zip(self.strokes, given.strokes, strict=True)),
            voices=_higher(self.voices, given.voices),
            lengths=tuple(map(max, self.lengths, given.lengths)),
        )

    def denser(self, factor: float) -> Bounds:
        """Return bounds that allow `factor` times as many strokes and sounding keys; a factor below 1 counts as 1."""
        factor = max(1.0, factor)
        return Bounds(
            strokes=tuple((free * factor, most * factor) for free, most in self.strokes),
            voices=(self.voices[0] * factor, self.voices[1] * factor),
            lengths=self.lengths,
        )

    def due(self, chance: float) -> int:
        """Return the number of steps after which a note's end is due.

        A uniform `chance` in [0, 1) gives lengths distributed as the longest 10% of notes in training music.
        """
        place = TAIL[0] + chance * (TAIL[-1] - TAIL[0])
        return max(1, round(float(np.interp(place, TAIL, self.lengths)) * STEP_RATE))


def thinned(count: float, bound: Pair) -> float:
    """Return the factor for the odds of another stroke: 1 below the first bound, falling to 0 above the second.

    Args:
        count: current number of strokes or sounding keys.
        bound: counts at which thinning begins and ends.
    """
    free, most = bound
    if count < free:
        return 1.0
    return max(0.0, (most - count) / (most - free + 1))


def _higher(one: Pair, other: Pair) -> Pair:
    return max(one[0], other[0]), max(one[1], other[1])


def _moments(performance: Performance) -> NDArray[np.float64]:
    """(T,) evenly spaced times in seconds, each midway between two grid steps; at least one, the music's middle."""
    first, last = float(performance.start[0]), performance.duration
    times = np.arange(first + EVERY / 2 + 0.5 / STEP_RATE, last, EVERY)
    return times if len(times) else np.array([(first + last) / 2])


def struck(performance: Performance, times: NDArray[np.float64], window: float) -> NDArray[np.int64]:
    """(T,) number of notes struck in the `window` seconds before each time."""
    starts = performance.start
    found: NDArray[np.int64] = np.searchsorted(starts, times) - np.searchsorted(starts, times - window)
    return found


def sounding(performance: Performance, times: NDArray[np.float64]) -> NDArray[np.int64]:
    """(T,) number of notes that sound at each time."""
    found: NDArray[np.int64] = np.searchsorted(performance.start, times) - np.searchsorted(
        np.sort(performance.end), times
    )
    return found
