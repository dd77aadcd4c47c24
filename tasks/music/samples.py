"""Similarity of a model's samples to music, and passages that they copy from training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.checkpoint import Model
from suite.data.events import LONGEST_SHIFT, STEP_RATE
from suite.data.performance import Performance
from suite.data.recordings import Recording
from suite.errors import DataError
from suite.evaluation import NGrams
from suite.tasks.music import metrics, pipeline
from suite.tasks.music.format import Format


def compare(
    model: Model,
    music: Sequence[Recording],
    known: Sequence[Recording],
    lessons: Sequence[NDArray[np.int64]],
    *,
    count: int,
    seconds: float,
    seed: int,
) -> dict[str, Any]:
    """Measure the similarity of a model's samples to equally many excerpts of music of the same length.

    For comparison, the same is measured for excerpts of other pieces, which no model can be expected to surpass, and
    for events drawn from the unigrams, which shows how easily some of the figures are reached. Excerpts are first
    encoded as events, as samples are.

    Args:
        model: to draw from.
        music: recordings to compare with, if long enough; half of their pieces are the reference, the other half
            the "other pieces".
        known: recordings to search for copies; empty if they are unknown.
        lessons: token sequences that unigrams are counted on.
        count, seconds, seed: of the samples.

    Returns:
        `count`, `seconds`, `smoothing` (added to each bin for the divergence); `likeness` to the reference, for each of
        `metrics.FEATURES` and each of "model", "other pieces" (if there is more than one piece) and "unigram" the
        `overlap` and `divergence`; and `copies`, None if `known` is empty: for "model" and "reference" as
        `_copied` gives them.

    Raises:
        DataError: no music is long enough.
    """
    format = Format.from_dict(model.extra, model.config_file)
    reference, others = _excerpts(music, format, count, seconds)
    contenders: dict[str, Sequence[Performance]] = {
        "model": pipeline.Player(model).takes(count, seconds=seconds, seed=seed),
        **({"other pieces": others} if others else {}),
        "unigram": _unigram_samples(lessons, format, count, seconds, seed),
    }
    likeness = {name: metrics.likeness(reference, each) for name, each in contenders.items()}
    copies = None
    if known:
        copies = {"model": _copied(contenders["model"], known), "reference": _copied(reference, known)}
    return {
        "count": count,
        "seconds": seconds,
        "smoothing": metrics.SMOOTHING,
        "likeness": {feature: {name: likeness[name][feature] for name in likeness} for feature in metrics.FEATURES},
        "copies": copies,
    }


def _excerpts(
    music: Sequence[Recording], format: Format, count: int, seconds: float
) -> tuple[list[Performance], list[Performance]]:
    """Return excerpts of each half of the pieces; the second list is empty for a single piece."""
    long = [one for one in music if one.performance.duration >= seconds]
    if not long:
        raise DataError(f"no recording lasts {seconds:g} seconds; compare shorter samples")
    half = metrics.first_half(long)
    first, second = (list(compress(long, side)) for side in (half, ~half))
    return (
        [_as_events(one, format) for one in metrics.excerpts(first, count, seconds)],
        [_as_events(one, format) for one in metrics.excerpts(second, count, seconds)] if second else [],
    )


def _as_events(performance: Performance, format: Format) -> Performance:
    """Return the performance after encoding as event tokens and decoding."""
    return format.performance(format.events(performance))


def _unigram_samples(
    lessons: Sequence[NDArray[np.int64]], format: Format, count: int, seconds: float, seed: int
) -> list[Performance]:
    """Return performances of events drawn from unigrams; a note without an end lasts to the last event."""
    table = format.table
    chances = np.exp(-NGrams(lessons, 1, format.vocab_size).losses(np.arange(table.size)))
    chances /= chances.sum()
    lasts = np.zeros(table.size)
    lasts[table.shift.ids] = np.arange(1, LONGEST_SHIFT + 1) / STEP_RATE
    size = int(2 * seconds / (chances @ lasts)) + 100  # events, twice as many as are needed
    random = np.random.default_rng(seed)
    drawn = random.choice(table.size, (count, size), p=chances)
    return [format.performance(row[lasts[row].cumsum() <= seconds].tolist()) for row in drawn]


def _copied(samples: Sequence[Performance], known: Sequence[Recording]) -> dict[str, Any]:
    """Return the longest copies: `median_notes` over samples, the `longest`, and `each` sample's or None."""
    copies = metrics.longest_copies(samples, known)
    found = [copy for copy in copies if copy is not None]
    return {
        "median_notes": float(np.median([0 if copy is None else copy.notes for copy in copies])),
        "longest": asdict(max(found, key=lambda copy: copy.notes)) if found else None,
        "each": [None if copy is None else asdict(copy) for copy in copies],
    }
