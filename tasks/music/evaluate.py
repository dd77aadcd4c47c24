"""How well a model predicts music beside counting, how like music its samples are, and how much of them is copied."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suite.checkpoint import Model
from suite.cli.show import percent, table
from suite.data.events import LONGEST_SHIFT, RATE
from suite.data.hub import to_evaluate
from suite.data.performance import Performance
from suite.data.recordings import Recording, read_recordings, split_by_piece
from suite.errors import ConfigError, DataError
from suite.evaluation import NGrams, token_losses
from suite.tasks.music import metrics, pipeline
from suite.tasks.music.format import Format
from suite.tasks.music.task import report
from suite.tasks.music.texture import texture_lines, textures
from suite.training.fit import cache_directory
from suite.wording import count

ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}


def evaluate(
    model: Model,
    data: Sequence[str],
    *,
    train: Sequence[str] = (),
    piece: Literal["file", "folder"] = "file",
    held_out: float = 0.0,
    part: Literal["all", "held-out"] = "all",
    stride: int | None = None,
    length: int | None = None,
    samples: int = 0,
    takes: int = 0,
    seconds: float = 30.0,
    seed: int = 0,
    limit: int = 0,
    cache: Path | None = None,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Loss of a model on recordings beside n-grams, and how its samples compare with other music.

    Each recording stands alone, ended by `<eos>`, which counts as a token. Nats per note and per second let models
    with other vocabularies compare.

    The samples are compared with as many excerpts of the same length, and beside that stands how like these are to
    excerpts of other pieces: no model can be expected to do better. What is drawn from the unigrams shows how little
    some of the figures ask for. Excerpts are written as events first, as samples are.

    Args:
        model: a music model.
        data: MIDI files, folders, zip files, or hub data sets.
        train: recordings that the n-grams are counted on, and in which copies are sought, but for their own held-out
            pieces (none: the pieces of `data` that are not held out; if none are, n-grams of each half of the
            recordings by the counts of the other, and no search).
        piece: whether each file is a piece of its own, or all files of a folder are.
        held_out: share of the pieces held out, as in training: they alone are evaluated, and never counted on.
        part: "held-out" evaluates the pieces that a collection holds out itself (MAESTRO's validation part), or else by
            `held_out`; "all" with a `held_out` of 0 evaluates everything.
        stride: tokens from one window's start to the next (None: half of `length`); a token sees at least
            `length - stride` tokens before it, where its recording has them.
        length: tokens in a window (None: the model's context).
        samples: how many to draw and to compare; 0 for none.
        takes: how many of each kind (alone, after a primer, under a melody, in a gap) to count notes in, beside the
            recordings; 0 for none.
        seconds: length of each sample or take.
        seed: of the samples.
        limit: score so many recordings, evenly spread; 0 for all. Samples are compared with all.
        cache: for the notes of the recordings (None: the user's cache).
        progress: called with the number of tokens just scored.

    Returns:
        plain values: `model`, what was scored (`recordings`, `pieces`, `tokens`, `notes`, `seconds`), `length`,
        `stride`, `ngrams_counted_on`, `lost` (lines on damaged files); under `results` for each of "model", "uniform",
        "unigram", "bigram" and "trigram" its `nats_per_token`, their 95 % `interval` by drawing pieces again, each
        with all its recordings (None for a single one), `nats_per_note` and `nats_per_second`; and under `samples`,
        where any were drawn, what `compare` returns; under `textures`, where takes were asked for, what
        `suite.tasks.music.texture.textures` returns, with `texture_seconds`.

    Raises:
        CheckpointError: the model is no music model.
        ConfigError: a number is out of its range.
        DataError: the recordings cannot be read, nothing is held out, or none is long enough to compare with.
    """
    if not 0 <= held_out < 1 or min(samples, takes, limit) < 0 or not seconds > 0:
        raise ConfigError("held_out must be in [0, 1), samples, takes and limit not negative, and seconds above 0")
    format = Format.from_dict(model.extra, model.name)
    cache = cache or cache_directory()
    mode: Literal["keep", "fold"] = "keep" if format.pedal else "fold"
    # what is held out of a training split is as good to evaluate on as a test split
    sources, told = (list(data), []) if part == "held-out" or held_out else to_evaluate(data)
    found = read_recordings(sources, cache, piece=piece, pedal=mode)
    known: list[Recording] = []
    music = list(found.recordings)
    if part == "held-out" or held_out:
        known, music = split_by_piece(music, held_out)
        if not music:
            raise DataError(f"{count(len(found.recordings), 'recording')} given, but none is held out; raise held_out")
    if train:
        known, _ = split_by_piece(read_recordings(train, cache, piece=piece, pedal=mode).recordings, held_out)
        if not known:
            raise DataError("all recordings to count n-grams on are held out; name others, or lower held_out")
        counted_on = ", ".join(train)
    else:
        counted_on = "the pieces not held out" if known else "the other half of the same recordings"

    scored = [music[place] for place in metrics.evenly(limit or len(music), len(music))]
    streams = [_stream(one.performance, format) for one in scored]
    length = length or model.config.context
    stride = stride or max(1, length // 2)
    lessons = [_stream(one.performance, format) for one in known]
    # first, because it may fail
    compared = compare(model, format, music, known, lessons or streams, samples, seconds, seed) if samples else None
    textured = textures(pipeline.Player(model), music, takes, seconds, seed) if takes else None
    bos = format.special("<bos>")
    sums = []
    for stream in streams:
        tokens = np.concatenate(([bos], stream))
        losses = token_losses(model.transformer, tokens, stride=stride, length=length, progress=progress)
        sums.append(float(losses.sum(dtype=np.float64)))
    counts = np.array([len(stream) for stream in streams])
    nats = {"model": np.array(sums), "uniform": counts * math.log(format.vocab_size)}
    for name, order in ORDERS.items():
        nats[name] = _ngram_nats(scored, streams, lessons, order, format.vocab_size)
    notes = sum(len(one.performance) for one in scored)
    heard = sum(one.performance.duration for one in scored)
    pieces = [one.piece for one in scored]
    return {
        "model": model.name,
        "sources": told,
        "recordings": len(scored),
        "pieces": len(set(pieces)),
        "tokens": int(counts.sum()),
        "notes": notes,
        "seconds": heard,
        "length": length,
        "stride": stride,
        "ngrams_counted_on": counted_on,
        "lost": report(found.lost, cache),
        "results": {
            name: {
                "nats_per_token": float(each.sum() / counts.sum()),
                "interval": metrics.bootstrap(each, counts, pieces),
                "nats_per_note": float(each.sum() / notes),
                "nats_per_second": float(each.sum() / heard),
            }
            for name, each in nats.items()
        },
        "samples": compared,
        "textures": textured,
        "texture_seconds": seconds if takes else None,
    }


def _stream(performance: Performance, format: Format) -> NDArray[np.int64]:
    """The tokens of a recording that are predicted: all but `<bos>`."""
    return np.array([*format.events(performance), format.eos])


def _ngram_nats(
    recordings: Sequence[Recording],
    streams: Sequence[NDArray[np.int64]],
    lessons: Sequence[NDArray[np.int64]],
    order: int,
    vocab_size: int,
) -> NDArray[np.float64]:
    """(R,) nats of each recording by n-grams counted on `lessons`, or else on those of other pieces."""

    def nats(streams: Sequence[NDArray[np.int64]], lessons: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        counts = NGrams(lessons, order, vocab_size)
        return np.array([counts.losses(stream).sum() for stream in streams])

    if lessons:
        return nats(streams, lessons)
    half = metrics.first_half(recordings)
    if half.all():  # of one piece: its beginning and its end
        begins = [stream[: len(stream) // 2] for stream in streams]
        ends = [stream[len(stream) // 2 :] for stream in streams]
        return nats(begins, ends) + nats(ends, begins)
    found = np.empty(len(streams))
    for side in (half, ~half):
        found[side] = nats(list(compress(streams, side)), list(compress(streams, ~side)))
    return found


def compare(
    model: Model,
    format: Format,
    music: Sequence[Recording],
    known: Sequence[Recording],
    lessons: Sequence[NDArray[np.int64]],
    count: int,
    seconds: float,
    seed: int,
) -> dict[str, Any]:
    """What samples of a model are like.

    Args:
        model, format: to draw from.
        music: to compare with, where it is long enough; half of its pieces are the reference, and the others the
            yardstick.
        known: recordings to seek copies in; none where they are unknown.
        lessons: tokens that unigrams are counted on.
        count, seconds, seed: of the samples.

    Returns:
        `count`, `seconds`, `smoothing` (added to each bin for the divergence); `likeness` to the reference, for each of
        `metrics.FEATURES` and each of "model", "other pieces" (where the music has more than one) and "unigram" the
        `overlap` and `divergence`; and `copies`, None where `known` is empty: for "model" and "reference" as
        `_copied` gives them.

    Raises:
        DataError: no music is long enough.
    """
    long = [one for one in music if one.performance.duration >= seconds]
    if not long:
        raise DataError(f"no recording lasts {seconds:g} seconds; compare shorter samples")
    half = metrics.first_half(long)
    reference, others = (
        [_as_events(one, format) for one in metrics.excerpts(list(compress(long, side)), count, seconds)]
        if side.any()
        else []
        for side in (half, ~half)
    )
    contenders = {
        "model": pipeline.Player(model).takes(count, seconds=seconds, seed=seed),
        **({"other pieces": others} if others else {}),
        "unigram": _unigram_samples(lessons, format, count, seconds, seed),
    }
    found = {name: metrics.likeness(reference, each) for name, each in contenders.items()}
    return {
        "count": count,
        "seconds": seconds,
        "smoothing": metrics.SMOOTHING,
        "likeness": {feature: {name: found[name][feature] for name in found} for feature in metrics.FEATURES},
        "copies": {
            "model": _copied(contenders["model"], known),
            "reference": _copied(reference, known),
        }
        if known
        else None,
    }


def _as_events(performance: Performance, format: Format) -> Performance:
    """A performance as its events play it."""
    return format.performance(format.events(performance))


def _unigram_samples(
    lessons: Sequence[NDArray[np.int64]], format: Format, count: int, seconds: float, seed: int
) -> list[Performance]:
    """Events drawn one by one, each as likely as it is often; a note without an end lasts to the last event."""
    table = format.table
    chances = np.exp(-NGrams(lessons, 1, format.vocab_size).losses(np.arange(table.size)))
    chances /= chances.sum()
    lasts = np.zeros(table.size)
    lasts[table.shift.ids] = np.arange(1, LONGEST_SHIFT + 1) / RATE
    size = int(2 * seconds / (chances @ lasts)) + 100  # events, twice as many as are needed
    random = np.random.default_rng(seed)
    drawn = random.choice(table.size, (count, size), p=chances)
    return [format.performance(row[lasts[row].cumsum() <= seconds].tolist()) for row in drawn]


def _copied(samples: Sequence[Performance], known: Sequence[Recording]) -> dict[str, Any]:
    """The longest copies: `median_notes` of all samples, the `longest`, and `each`, None where there is none."""
    copies = metrics.longest_copies(samples, known)
    found = [copy for copy in copies if copy is not None]
    return {
        "median_notes": float(np.median([0 if copy is None else copy.notes for copy in copies])),
        "longest": asdict(max(found, key=lambda copy: copy.notes)) if found else None,
        "each": [None if copy is None else asdict(copy) for copy in copies],
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """What `evaluate` found, for a person to read."""
    shown = [
        f"{count(found['recordings'], 'recording')} of {count(found['pieces'], 'piece')}, "
        f"{count(found['notes'], 'note')}, {found['seconds'] / 3600:.2f} hours, {count(found['tokens'], 'token')}",
        f"windows of {count(found['length'], 'token')} every {found['stride']:,}",
        f"n-grams counted on {found['ngrams_counted_on']}",
        *found["lost"],
        "",
    ]
    rows = []
    for name, figures in found["results"].items():
        interval = "" if figures["interval"] is None else "{:.3f} to {:.3f}".format(*figures["interval"])
        each = (f"{figures[f'nats_per_{unit}']:.3f}" for unit in ("token", "note", "second"))
        rows.append([_title(name, found), *each, interval])
    shown += table(rows, "lrrrr", ["", "nats/token", "nats/note", "nats/second", "95 % interval of nats/token"])
    if found["textures"] is not None:
        shown += ["", *texture_lines(found["textures"], found["texture_seconds"])]
    samples = found["samples"]
    if samples is None:
        return shown
    shown += [
        "",
        f"{count(samples['count'], 'sample')} of {samples['seconds']:g} s: overlap of histograms with those of as many "
        "excerpts, and divergence from them in nats",
        "",
    ]
    rows = [
        [feature, *(f"{percent(one['overlap'])} {one['divergence']:8.3f}" for one in each.values())]
        for feature, each in samples["likeness"].items()
    ]
    names = [_title(name, found) for name in next(iter(samples["likeness"].values()))]
    shown += table(rows, "l" + "r" * len(names), ["", *names])
    if samples["copies"] is not None:
        shown += ["", "notes in a row that also occur in training, at any pitch and in any rhythm", ""]
        rows = []
        for name, copied in samples["copies"].items():
            longest = copied["longest"]
            if longest is not None:
                place = f"{longest['seconds']:.1f} s", f"{longest['name']} at {longest['there']:.1f} s"
                rows.append([_title(name, found), f"{copied['median_notes']:g}", str(longest["notes"]), *place])
        shown += table(rows, "lrrrl", ["", "median", "longest", "", "in"])
    return shown


def _title(name: str, found: Mapping[str, Any]) -> str:
    return {"model": str(found["model"]), "reference": "the excerpts"}.get(name, name)
