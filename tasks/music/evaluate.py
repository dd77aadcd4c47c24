"""Evaluate a music model: its loss beside n-grams, the similarity of its samples to music, and copied passages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suite.checkpoint import Model
from suite.data.hub import to_evaluate
from suite.data.performance import Performance
from suite.data.recordings import Recording, read_recordings, split_by_piece
from suite.errors import DataError
from suite.evaluation import NGrams, Report, token_losses
from suite.files import cache_directory
from suite.tasks.music import metrics, pipeline
from suite.tasks.music.format import Format
from suite.tasks.music.options import MusicEvalOptions
from suite.tasks.music.samples import compare
from suite.tasks.music.tables import as_report
from suite.tasks.music.task import lines_of_lost
from suite.tasks.music.texture import textures
from suite.wording import count

DEFAULTS = MusicEvalOptions()
ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}
Progress = Callable[[int], object]


@dataclass(frozen=True, kw_only=True)
class EvalMusic:
    """The recordings of one evaluation.

    Attributes:
        music: the held-out recordings, or all recordings.
        scored: those of `music` on which the loss is computed.
        known: recordings to count n-grams on and to search for copies; empty if they are unknown.
        counted_on: how the report describes the recordings that n-grams are counted on.
        sources: a line for each data set whose split was chosen.
        lost: lines on files that could not be read completely.
    """

    music: Sequence[Recording]
    scored: Sequence[Recording]
    known: Sequence[Recording]
    counted_on: str
    sources: Sequence[str]
    lost: Sequence[str]


def evaluate(
    model: Model,
    data: Sequence[str],
    options: MusicEvalOptions = DEFAULTS,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measure a model's loss on recordings beside that of n-grams, and compare its samples with other music.

    Each recording is scored by itself and ends with `<eos>`, which counts as a token. Nats per note and per second
    allow a comparison of models with different vocabularies.

    Args:
        model: a music model.
        data: MIDI files, folders, zip files, or hub data sets.
        options: windows, baselines, samples, and which of the recordings to use.
        cache: directory for the decoded notes of the recordings (None: the user's cache).
        progress: called with the number of tokens just scored.

    Returns:
        a report; its `data` has `model`, what was scored (see `_totals`), `length`, `stride`, `ngrams_counted_on`,
        `lost` (lines on damaged files); under `results` for each of "model", "uniform", "unigram", "bigram" and
        "trigram" what `_figures` returns; under `samples` what `compare` returns, and under `textures` what `textures`
        does, with `texture_seconds` (each None if not asked for).

    Raises:
        CheckpointError: the model is not a music model.
        DataError: the recordings cannot be read, nothing is held out, or none is long enough to compare with.
    """
    format = Format.from_dict(model.extra, model.config_file)
    chosen = choose_music(data, options, format, cache or cache_directory())
    streams = [_stream(one.performance, format) for one in chosen.scored]
    lessons = [_stream(one.performance, format) for one in chosen.known]
    length = options.length or model.config.context
    stride = options.stride or max(1, length // 2)
    samples, textured = _played(model, chosen, lessons or streams, options)  # first, because they may fail
    nats = {
        "model": _model_nats(model, format, streams, length, stride, progress),
        "uniform": np.array([len(stream) * math.log(format.vocab_size) for stream in streams]),
        **{name: _ngram_nats(chosen.scored, streams, lessons, order, format) for name, order in ORDERS.items()},
    }
    return as_report(
        {
            "model": model.name,
            "sources": list(chosen.sources),
            **_totals(chosen.scored, streams),
            "length": length,
            "stride": stride,
            "ngrams_counted_on": chosen.counted_on,
            "lost": list(chosen.lost),
            "results": {name: _figures(each, chosen.scored, streams) for name, each in nats.items()},
            "samples": samples,
            "textures": textured,
            "texture_seconds": options.seconds if options.takes else None,
        }
    )


def choose_music(data: Sequence[str], options: MusicEvalOptions, format: Format, cache: Path) -> EvalMusic:
    """Read the recordings, and divide them into those to evaluate on and those to count n-grams on.

    Raises:
        DataError: the recordings cannot be read, or one of the two parts is empty.
    """
    mode: Literal["keep", "fold"] = "keep" if format.pedal else "fold"

    def read(sources: Sequence[str]) -> Any:
        return read_recordings(sources, cache, piece=options.piece, pedal=mode)

    # pieces held out of a training split serve as well as a test split
    own = options.part == "held-out" or options.held_out
    sources, told = (list(data), []) if own else to_evaluate(data)
    given = read(sources)
    known: list[Recording] = []
    music = list(given.recordings)
    if options.part == "held-out" or options.held_out:
        known, music = split_by_piece(music, options.held_out)
        if not music:
            raise DataError(f"{count(len(given.recordings), 'recording')} given, but none is held out; raise held_out")
    counted_on = "the pieces not held out" if known else "the other half of the same recordings"
    if options.train:
        known, _ = split_by_piece(read(options.train).recordings, options.held_out)
        if not known:
            raise DataError("all recordings to count n-grams on are held out; name others, or lower held_out")
        counted_on = ", ".join(options.train)
    return EvalMusic(
        music=music,
        scored=[music[place] for place in metrics.evenly(options.limit or len(music), len(music))],
        known=known,
        counted_on=counted_on,
        sources=told,
        lost=lines_of_lost(given.lost, cache),
    )


def _played(
    model: Model, chosen: EvalMusic, lessons: Sequence[NDArray[np.int64]], options: MusicEvalOptions
) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None]:
    """Return the results of `compare` and `textures`, each None if the options do not ask for it."""
    seconds, seed = options.seconds, options.seed
    samples = textured = None
    if options.samples:
        samples = compare(model, chosen.music, chosen.known, lessons, count=options.samples, seconds=seconds, seed=seed)
    if options.takes:
        textured = textures(pipeline.Player(model), chosen.music, options.takes, seconds, seed)
    return samples, textured


def _totals(recordings: Sequence[Recording], streams: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
    return {
        "recordings": len(recordings),
        "pieces": len({one.piece for one in recordings}),
        "tokens": sum(map(len, streams)),
        "notes": sum(len(one.performance) for one in recordings),
        "seconds": sum(one.performance.duration for one in recordings),
    }


def _figures(
    nats: NDArray[np.float64], recordings: Sequence[Recording], streams: Sequence[NDArray[np.int64]]
) -> dict[str, Any]:
    """Return mean nats per token, note and second, and the 95% interval per token (None for a single piece)."""
    tokens = np.array([len(stream) for stream in streams])
    totals = _totals(recordings, streams)
    return {
        "nats_per_token": float(nats.sum() / totals["tokens"]),
        "interval": metrics.interval_of_mean(nats, tokens, [one.piece for one in recordings]),
        "nats_per_note": float(nats.sum() / totals["notes"]),
        "nats_per_second": float(nats.sum() / totals["seconds"]),
    }


def _model_nats(
    model: Model,
    format: Format,
    streams: Sequence[NDArray[np.int64]],
    length: int,
    stride: int,
    progress: Progress | None,
) -> NDArray[np.float64]:
    """(R,) negative log-likelihood of each recording under the model, in nats."""
    sums = []
    for stream in streams:
        tokens = np.concatenate(([format.special("<bos>")], stream))
        losses = token_losses(model.transformer, tokens, stride=stride, length=length, progress=progress)
        sums.append(float(losses.sum(dtype=np.float64)))
    return np.array(sums)


def _stream(performance: Performance, format: Format) -> NDArray[np.int64]:
    """Return the tokens of a recording that are predicted: all but `<bos>`."""
    return np.array([*format.events(performance), format.eos])


def _ngram_nats(
    recordings: Sequence[Recording],
    streams: Sequence[NDArray[np.int64]],
    lessons: Sequence[NDArray[np.int64]],
    order: int,
    format: Format,
) -> NDArray[np.float64]:
    """(R,) nats of each recording under n-grams counted on `lessons`, or if empty, on the other half of the pieces."""

    def nats(streams: Sequence[NDArray[np.int64]], lessons: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        counts = NGrams(lessons, order, format.vocab_size)
        return np.array([counts.losses(stream).sum() for stream in streams])

    if lessons:
        return nats(streams, lessons)
    half = metrics.first_half(recordings)
    if half.all():  # a single piece: its first half and its second half
        begins = [stream[: len(stream) // 2] for stream in streams]
        ends = [stream[len(stream) // 2 :] for stream in streams]
        return nats(begins, ends) + nats(ends, begins)
    found = np.empty(len(streams))
    for side in (half, ~half):
        found[side] = nats(list(compress(streams, side)), list(compress(streams, ~side)))
    return found
