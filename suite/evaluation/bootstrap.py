"""Confidence intervals by the bootstrap: how a figure moves when its records are drawn again.

Source: Efron 1979, "Bootstrap Methods"; for corpus scores such as BLEU, Koehn 2004, "Statistical Significance Tests for
Machine Translation Evaluation".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 1000
LEVEL = 0.95  # of the resampled figures lie in the interval


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
    """The interval of a statistic over records.

    Args:
        values: (N,) one figure a record, or (N, K) the sums that the statistic is worked out from.
        statistic: from some of the rows, as many as there are and some of them several times, to the figure
            (None: their mean).
        draws: of N records each, with replacement.
        seed: of the draws; the same seed and N draw the same records, so that systems compare on equal draws.

    Raises:
        ValueError: there is no record.

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
