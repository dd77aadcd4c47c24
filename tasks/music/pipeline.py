"""`pipeline("music")`: new music alone, after a primer, around a melody, or in a gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from suite.checkpoint import Model
from suite.data.events import STEP_RATE, steps
from suite.data.performance import Performance
from suite.errors import ConfigError, DataError, require_numbers
from suite.sampling import Sampling, stream, with_settings
from suite.task import suggest
from suite.tasks.music.bounds import Bounds
from suite.tasks.music.examples import cut, part
from suite.tasks.music.format import Format
from suite.tasks.music.grammar import MusicGrammar
from suite.tasks.music.options import PlayOptions
from suite.tasks.music.take import Take

DEFAULT = Sampling(temperature=1.0, top_p=0.98)
# shares of the context: a melody leaves room for four times as many events around it, a gap's sides for its filling
MELODY_SHARE, SIDE_SHARE = 1 / 6, 1 / 4

MOST_EVENTS = 40  # events at one step: the grammar's 12 strokes, each with a velocity and an end, and time shifts
SEEDS = 1_000_003  # factor between the seeds of calls: takes of different small seeds have different seeds

Progress = Callable[[float], object]


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Settings with which one call draws its takes.

    Attributes:
        count: number of takes.
        seed: of the first take.
        sampling: sampling settings.
        bounds: on density, sounding keys and note lengths.
        progress: called with each few seconds of music just made.
    """

    count: int
    seed: int
    sampling: Sampling
    bounds: Bounds
    progress: Progress | None


class Player:
    """The pipeline `music`: a call takes keyword arguments only and returns a `Take`; `takes` returns a list.

    Args:
        model: a music model.
        settings: fields of `suite.Sampling`; those not given are temperature 1 and top_p 0.98.

    Raises:
        CheckpointError: the model is not a music model.
        ConfigError: a setting is unknown or out of its range.

    Example:
        >>> from suite import pipeline
        >>> play = pipeline("music")
        >>> play(seconds=2, seed=1).duration, len(play.takes(2, seconds=1))
        (2.0, 2)
    """

    def __init__(self, model: Model, **settings: Any) -> None:
        self.model = model
        self.format = Format.from_dict(model.extra, model.config_file)
        self.bounds = Bounds.from_dict(model.extra, model.config_file)
        self.sampling = with_settings(DEFAULT, settings)

    def __call__(
        self,
        *,
        primer: Performance | None = None,
        melody: Performance | None = None,
        ending: Performance | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Take:
        """Generate one take; the arguments are those of `takes`."""
        return self.takes(1, primer=primer, melody=melody, ending=ending, seed=seed, **options)[0]

    def takes(
        self,
        count: int,
        *,
        primer: Performance | None = None,
        melody: Performance | None = None,
        ending: Performance | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        **options: Any,
    ) -> list[Take]:
        """Generate several takes in one batch.

        Args:
            count: number of takes.
            primer: to continue; the result begins with it, as it was played.
            melody: to accompany; the result has each of its notes, as they were played.
            ending: to lead into, `seconds` after the primer's end; the result has both, with new music between them.
            seed: the same seed, model and arguments give the same takes.
            progress: called with each few seconds of music just made.
            options: fields of `PlayOptions` (`seconds`, `density`, `transpose`, `tempo`, `may_end`, `only_new`), and of
                `suite.Sampling` for this call alone.

        Returns:
            takes, each `seconds` longer than the primer (and ending) to the hundredth of a second, or as long as its
            melody; possibly shorter with `may_end`.

        Raises:
            ConfigError: an argument is unknown, out of its range, or does not go with another.
            DataError: a primer, melody or ending without notes.
        """
        play, settings = divided_options(options)
        play.check(primer=primer is not None, melody=melody is not None, ending=ending is not None)
        require_numbers(seed=seed)
        draw = self._draw(count, seed, play.density, settings, progress)
        primer, melody, ending = (
            None if one is None else moved(one, name, play.transpose, play.tempo)
            for name, one in (("primer", primer), ("melody", melody), ("ending", ending))
        )
        length = play.length(melody)
        if melody is not None:
            found = self._accompanied(melody, length, draw, play.only_new)
        elif ending is not None:
            found = self._led(nothing() if primer is None else primer, ending, length, draw, play.only_new)
        elif primer is not None:
            found = self._go_on(primer, length, draw, play.may_end)
            found = found if play.only_new else [primer.joined(new.shifted(primer.duration)) for new in found]
        else:
            found = self._free(length, draw, play)
        return [Take.from_performance(one) for one in found]

    def refill(
        self,
        performance: Performance,
        start: float,
        end: float,
        *,
        count: int = 1,
        seed: int = 0,
        density: float = 1.0,
        only_new: bool = False,
        progress: Progress | None = None,
        **settings: Any,
    ) -> list[Take]:
        """Return takes of a performance with new notes in place of those that start in [start, end) seconds.

        The other arguments are those of `takes`; with `only_new`, time counts from the end of the music before the gap.

        Raises:
            ConfigError: the times are not a valid interval, or nothing follows the gap.
        """
        play = PlayOptions(density=density, only_new=only_new)
        draw = self._draw(count, seed, play.density, settings, progress)
        starts = performance_of(performance, "performance").start
        if not 0 <= start < end:
            raise ConfigError(f"a gap cannot last from {start:g} to {end:g} s")
        if not (starts >= end).any():
            raise ConfigError(f"nothing follows the gap, which ends at {end:g} s; continue the piece instead")
        before, after = part(performance, starts < start), part(performance, starts >= end)
        until = float(after.start[0])
        reached = cut(before, start)
        middles = self._fill(reached, after, until - reached.duration, draw)
        if only_new:
            found = [middle.shifted(-reached.duration) for middle in middles]
        else:
            found = [before.joined(middle, after) for middle in middles]
        return [Take.from_performance(one) for one in found]

    # ---- ways to play

    def _free(self, seconds: float, draw: Draw, play: PlayOptions) -> list[Performance]:
        """Generate music from nothing; it is transposed and sped up afterwards."""
        found = self._go_on(nothing(), seconds * play.tempo, draw, play.may_end)
        faster = [play.tempo if play.may_end else new.duration / seconds for new in found]  # keeps the exact length
        return [
            moved(new, "take", play.transpose, factor) if len(new) else new
            for new, factor in zip(found, faster, strict=True)
        ]

    def _accompanied(self, melody: Performance, seconds: float, draw: Draw, only_new: bool) -> list[Performance]:
        """Generate accompaniments of a melody; unless `only_new`, each take includes the melody."""
        melody = melody.without_unisons().between(0.0, seconds)
        found = self._accompany(melody, seconds, draw)
        return found if only_new else [melody.joined(new) for new in found]

    def _led(
        self, primer: Performance, ending: Performance, seconds: float, draw: Draw, only_new: bool
    ) -> list[Performance]:
        """Generate `seconds` of new music between a primer and an ending, with both unless `only_new`."""
        found = self._fill(primer, ending, seconds, draw)
        last = ending.shifted(primer.duration + seconds - float(ending.start[0]))
        return [new.shifted(-primer.duration) if only_new else primer.joined(new, last) for new in found]

    def _go_on(self, primer: Performance, seconds: float, draw: Draw, may_end: bool) -> list[Performance]:
        """Generate new music after a primer; its time counts from the primer's end."""
        started = part(primer, slice(0, None))  # without the silence before it
        prompt = self.format.piece(started)[-self.model.config.context :]
        elapsed = self.format.elapsed(prompt)
        grammar = self._grammar(draw, limit=elapsed + round(seconds * STEP_RATE), may_end=may_end)
        found = self._generate([prompt] * draw.count, grammar, draw)
        return [take.shifted(-elapsed / STEP_RATE) for take in found]

    def _fill(self, before: Performance, after: Performance, seconds: float, draw: Draw) -> list[Performance]:
        """Generate music for a gap of `seconds`; its times count from the start of `before`."""
        room = int(self.model.config.context * SIDE_SHARE)
        near = self._last(before, room)
        gap = round(seconds * STEP_RATE)
        prompt = self.format.fill(near, self._first(after, room), gap)
        elapsed = self.format.elapsed(prompt)
        grammar = self._grammar(draw, limit=elapsed + gap, may_end=True)
        found = self._generate([prompt] * draw.count, grammar, draw)
        return [middle.shifted(before.duration - elapsed / STEP_RATE) for middle in found]

    def _accompany(self, melody: Performance, seconds: float, draw: Draw) -> list[Performance]:
        """Generate accompaniments without their melody, in passages; each one sees the later half of the one before."""
        takes = [nothing()] * draw.count
        room = int(self.model.config.context * MELODY_SHARE)
        first, done = 0, 0.0
        while done < seconds:
            begin = float(melody.start[first]) if first else 0.0
            passage = len(self._first(part(melody, slice(first, None)), room))
            last = first + passage
            end = float(melody.start[last]) if last < len(melody) else seconds
            heard = melody.between(begin, end)
            prompts = [
                self.format.accompaniment(heard, cut(take.between(begin, done), done - begin))[0] for take in takes
            ]
            since = round((done - begin) * STEP_RATE)
            grammar = self._grammar(draw, limit=round((end - begin) * STEP_RATE), melody=heard, start=since)
            new = self._generate(prompts, grammar, replace(draw, seed=draw.seed + first))
            takes = [take.joined(one.shifted(begin)) for take, one in zip(takes, new, strict=True)]
            done, first = end, first + max(1, passage // 2)
        return [without(take, melody) for take in takes]

    def _first(self, performance: Performance, room: int) -> Performance:
        """Return as many of the first notes as fit in `room` tokens, cut off where the next note starts."""
        count = len(performance)
        while count > 1:
            end = float(performance.start[count]) if count < len(performance) else performance.duration
            kept = part(performance, slice(0, count))
            found = cut(kept, end - float(performance.start[0]))
            if len(self.format.events(found)) <= room:
                return found
            count = count * 3 // 4
        return part(performance, slice(0, 1))

    def _last(self, performance: Performance, room: int) -> Performance:
        """Return as many of the last notes as fit in `room` tokens."""
        first = 0
        while len(self.format.events(found := part(performance, slice(first, None)))) > room:
            first = len(performance) - (len(performance) - first) * 3 // 4
        return found

    # ---- sampling

    def _draw(self, count: int, seed: int, density: float, settings: dict[str, Any], progress: Progress | None) -> Draw:
        """Return the settings with which one call draws its takes."""
        if count < 1:
            raise ConfigError(f"takes is {count}, but must be at least 1")
        sampling = with_settings(self.sampling, settings)
        if density != 1.0:
            table = self.format.table
            bias = dict.fromkeys([*table.on.ids, *table.velocity.ids], math.log(density))
            sampling = with_settings(sampling, {"logit_bias": {**bias, **sampling.logit_bias}})
        return Draw(count=count, seed=seed, sampling=sampling, bounds=self.bounds.denser(density), progress=progress)

    def _grammar(
        self, draw: Draw, *, limit: int, may_end: bool = False, melody: Performance | None = None, start: int = 0
    ) -> MusicGrammar:
        vocabulary = self.model.config.vocab_size
        return MusicGrammar(
            self.format,
            limit=limit,
            may_end=may_end,
            melody=melody,
            start=start,
            bounds=draw.bounds,
            vocabulary=vocabulary,
        )

    def _generate(self, prompts: Sequence[list[int]], grammar: MusicGrammar, draw: Draw) -> list[Performance]:
        """Generate music after each prompt, up to the grammar's limit; times count from the start of the prompt."""
        tokens: list[list[int]] = [[] for _ in prompts]
        left = grammar.limit - min(map(self.format.elapsed, prompts)) + 1
        waited = 0.0
        for step in stream(
            self.model.transformer,
            prompts,
            max_new_tokens=left * MOST_EVENTS,
            sampling=draw.sampling,
            seed=[draw.seed * SEEDS + take for take in range(len(prompts))],
            stop_tokens=(self.format.eos,),
            grammar=grammar,
        ):
            tokens[step.row].append(step.token)
            if draw.progress is not None and step.token in self.format.table.shift.ids:
                waited += self.format.table.shift.value(step.token) / STEP_RATE / len(prompts)
                if waited >= 1:
                    draw.progress(waited)
                    waited = 0.0
        found = []
        for prompt, new in zip(prompts, tokens, strict=True):
            music = self.format.music(prompt)
            everything = self.format.performance([*music, *new])
            found.append(part(everything, everything.start >= self.format.elapsed(prompt) / STEP_RATE - 1e-9))
        return found


def divided_options(options: Mapping[str, Any]) -> tuple[PlayOptions, dict[str, Any]]:
    """Divide the options of a call into `PlayOptions` and sampling settings.

    Raises:
        ConfigError: an option is unknown, or a field of `PlayOptions` is out of its range.
    """
    ours, sampling = ([field.name for field in fields(kind)] for kind in (PlayOptions, Sampling))
    for name in options:
        if name not in ours and name not in sampling:
            raise ConfigError(f"unknown setting {name!r}; {suggest(name, [*ours, *sampling])}")
    play = PlayOptions(**{name: value for name, value in options.items() if name in ours})
    return play, {name: value for name, value in options.items() if name not in ours}


def nothing() -> Performance:
    """Return a performance without notes."""
    return Performance.of([])


def moved(given: Performance, name: str, transpose: int, tempo: float) -> Performance:
    """Return the given music, transposed by `transpose` semitones and `tempo` times as fast.

    Raises:
        DataError: it is not a performance, or no notes are left.
    """
    result = performance_of(given, name).transposed(transpose).stretched(1 / tempo)
    if not len(result):
        raise DataError(f"the {name} has no notes" + (" within MIDI's range" if len(given) else ""))
    return result


def performance_of(given: Any, name: str) -> Performance:
    """Return the given music unchanged, after checking its type.

    Raises:
        DataError: it is not a `Performance` but, for example, a file name.
    """
    if not isinstance(given, Performance):
        raise DataError(f"the {name} must be a Performance, such as Performance.load(FILE), not {type(given).__name__}")
    return given


def without(performance: Performance, others: Performance) -> Performance:
    """Return the notes of `performance` that are not struck at the same step and pitch as a note of `others`."""
    struck = set(zip(others.pitch.tolist(), steps(others.start).tolist(), strict=True))
    each = zip(performance.pitch.tolist(), steps(performance.start).tolist(), strict=True)
    return part(performance, np.array([note not in struck for note in each], dtype=bool))
