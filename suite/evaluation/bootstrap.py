"""Bootstrap confidence intervals: how much a figure varies when its records are resampled.

Source: Efron 1979, "Bootstrap Methods"; for corpus scores such as BLEU, Koehn 2004, "Statistical Significance Tests for
Machine Translation Evaluation".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 1000
LEVEL = 0.95  # share of the resampled figures that lie in the interval


class Interval(NamedTuple):
    """The bounds of a 95% interval."""

    low: float
    high: float


def bootstrap(
    values: NDArray[np.floating],
    statistic: Callable[[NDArray[np.floating]], float] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Return the 95% bootstrap interval of a statistic over records.

    Args:
        values: (N,), a figure for each record, or (N, K), the sums that the statistic is computed from.
        statistic: function from N resampled rows of `values` to the figure (None: their mean).
        draws: number of resamples, each of N records with replacement.
        seed: random seed; the same seed and N draw the same records, so that systems compare on equal draws.

    Raises:
        ValueError: there are no records.

    Example:
        >>> bootstrap(np.array([1.0, 1.0, 1.0]))
        Interval(low=1.0, high=1.0)
    """
    if not len(values):
        raise ValueError("no records to resample")
    random = np.random.default_rng(seed)
    found = np.empty(draws)
    for draw in range(draws):
        rows = values[random.integers(len(values), size=len(values))]
        found[draw] = rows.mean() if statistic is None else statistic(rows)
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))
