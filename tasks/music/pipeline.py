"""`pipeline("music")`: seconds of music, out of nothing, after a primer, around a melody, or in a gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suite.checkpoint import Model
from suite.data.events import RATE, steps
from suite.data.performance import Performance
from suite.errors import ConfigError, DataError
from suite.sampling import Sampling, stream, with_settings
from suite.tasks.music.bounds import Bounds
from suite.tasks.music.examples import cut, part
from suite.tasks.music.format import Format
from suite.tasks.music.grammar import MusicGrammar

DEFAULT = Sampling(temperature=1.0, top_p=0.98)
LONGEST = 6 * 3600.0  # seconds
# of the context: a melody leaves room for four times as many events around it, and a gap's sides for what fills it
MELODY_SHARE, SIDE_SHARE = 1 / 6, 1 / 4

MOST_EVENTS = 40  # at one step: the grammar's strokes, with a velocity and an end for each, and a shift
SEEDS = 1_000_003  # so that no two takes of small seeds share one

Progress = Callable[[float], object]


@dataclass(frozen=True)
class Draw:
    """How one call draws its takes.

    Attributes:
        seed: of the first take.
        sampling: the settings.
        bounds: of density, keys sounding and lengths of notes.
        progress: called with each few seconds of music just made.
    """

    seed: int
    sampling: Sampling
    bounds: Bounds
    progress: Progress | None


class Player:
    """Plays the piano.

    Args:
        model: a music model.
        settings: fields of `suite.Sampling`; those not given are temperature 1 and top_p 0.98.

    Raises:
        CheckpointError: the model is no music model.
        ConfigError: a setting is unknown or out of its range.

    Example:
        >>> from suite import pipeline
        >>> pipeline("music")(seconds=2, seed=1).duration
        2.0
    """

    def __init__(self, model: Model, **settings: Any) -> None:
        self.model = model
        self.format = Format.from_dict(model.extra, model.name)
        self.bounds = Bounds.from_dict(model.extra, model.name)
        self.sampling = with_settings(DEFAULT, settings)

    def __call__(self, **options: Any) -> Performance:
        """One take; options are those of `takes`."""
        return self.takes(1, **options)[0]

    def takes(
        self,
        count: int,
        *,
        seconds: float | None = None,
        primer: Performance | None = None,
        melody: Performance | None = None,
        ending: Performance | None = None,
        seed: int = 0,
        density: float = 1.0,
        transpose: int = 0,
        tempo: float = 1.0,
        may_end: bool = False,
        only_new: bool = False,
        progress: Progress | None = None,
        **settings: Any,
    ) -> list[Performance]:
        """Several takes of the same, side by side.

        Args:
            count: how many.
            seconds: of new music (None: 30, as long as the melody, or at most 300 where it may end).
            primer: to go on from; the result begins with it, as it was played.
            melody: to accompany; the result has each of its notes, as they were played.
            ending: to arrive at, `seconds` after the primer's end: the result has both, and what fills the gap.
            seed: the same seed, model and arguments give the same takes.
            density: odds of a note against time passing, relative to the model's: above 1 gives more notes, and
                allows as many times more of them at once.
            transpose: semitones by which what is given is moved first, or where nothing is, the result.
            tempo: how many times faster what is given is played first, or where nothing is, the result.
            may_end: whether a take is over where the model ends it, in a silence, before so many seconds.
            only_new: whether to leave out primer, melody and ending; time then counts from the primer's end.
            progress: called with each few seconds of music just made.
            settings: fields of `suite.Sampling` for this call alone.

        Returns:
            performances, each `seconds` longer than the primer (and ending) to the hundredth of a second, or as long
            as its melody; shorter where it may end.

        Raises:
            ConfigError: an argument is out of its range, or does not go with another.
            DataError: a primer, melody or ending without notes.
        """
        check(count, seconds, primer, melody, ending, density, tempo, may_end, transpose)
        primer, melody, ending = (
            None if one is None else moved(one, name, transpose, tempo)
            for name, one in (("primer", primer), ("melody", melody), ("ending", ending))
        )
        draw = Draw(seed, self._sampling(density, settings), self.bounds.denser(density), progress)
        length = seconds if seconds is not None else default_seconds(melody, may_end)
        if melody is not None:
            melody = melody.without_unisons().between(0.0, length)
            found = self._accompany(count, melody, length, draw)
            return found if only_new else [melody.joined(take) for take in found]
        if ending is not None:
            begun = primer if primer is not None else nothing()
            found = self._fill(count, begun, ending, length, draw)
            last = ending.shifted(begun.duration + length - float(ending.start[0]))
            return [take.shifted(-begun.duration) if only_new else begun.joined(take, last) for take in found]
        if primer is not None:
            found = self._go_on(count, primer, length, draw, may_end)
            return found if only_new else [primer.joined(take.shifted(primer.duration)) for take in found]
        found = self._go_on(count, nothing(), length * tempo, draw, may_end)
        faster = [tempo if may_end else take.duration / length for take in found]  # the length is kept exactly
        return [
            moved(take, "take", transpose, factor) if len(take) else take
            for take, factor in zip(found, faster, strict=True)
        ]

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
    ) -> list[Performance]:
        """A performance with other notes in place of those that start in [start, end) seconds.

        The other arguments are those of `takes`; with `only_new`, time counts from the end of what is before the gap.

        Raises:
            ConfigError: the times are no part of the performance, or nothing follows them.
        """
        check(count, None, None, None, None, density, 1.0, False, 0)
        starts = performance.start
        if not 0 <= start < end:
            raise ConfigError(f"a gap cannot last from {start:g} to {end:g} s")
        if not (starts >= end).any():
            raise ConfigError(f"nothing follows the gap, which ends at {end:g} s; continue the piece instead")
        before, after = part(performance, starts < start), part(performance, starts >= end)
        until = float(after.start[0])
        reached = cut(before, start)
        draw = Draw(seed, self._sampling(density, settings), self.bounds.denser(density), progress)
        middles = self._fill(count, reached, after, until - reached.duration, draw)
        if only_new:
            return [middle.shifted(-reached.duration) for middle in middles]
        return [before.joined(middle, after) for middle in middles]

    # ---- one part each

    def _go_on(self, count: int, primer: Performance, seconds: float, draw: Draw, may_end: bool) -> list[Performance]:
        """New music after a primer; its time counts from the primer's end."""
        started = part(primer, slice(0, None))  # without the silence before it
        prompt = self.format.piece(started)[-self.model.config.context :]
        elapsed = self.format.elapsed(prompt)
        grammar = self._grammar(draw, limit=elapsed + round(seconds * RATE), may_end=may_end)
        found = self._generate([prompt] * count, grammar, draw)
        return [take.shifted(-elapsed / RATE) for take in found]

    def _fill(
        self, count: int, before: Performance, after: Performance, seconds: float, draw: Draw
    ) -> list[Performance]:
        """What fills a gap of so many seconds; times are those of `before`."""
        room = int(self.model.config.context * SIDE_SHARE)
        near = self._last(before, room)
        gap = round(seconds * RATE)
        prompt = self.format.fill(near, self._first(after, room), gap)
        elapsed = self.format.elapsed(prompt)
        grammar = self._grammar(draw, limit=elapsed + gap, may_end=True)
        found = self._generate([prompt] * count, grammar, draw)
        return [middle.shifted(before.duration - elapsed / RATE) for middle in found]

    def _accompany(self, count: int, melody: Performance, seconds: float, draw: Draw) -> list[Performance]:
        """What goes with a melody, itself left out; each passage hears the later half of the one before."""
        takes = [nothing()] * count
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
            since = round((done - begin) * RATE)
            grammar = self._grammar(draw, limit=round((end - begin) * RATE), melody=heard, start=since)
            new = self._generate(prompts, grammar, replace(draw, seed=draw.seed + first))
            takes = [take.joined(one.shifted(begin)) for take, one in zip(takes, new, strict=True)]
            done, first = end, first + max(1, passage // 2)
        return [without(take, melody) for take in takes]

    def _first(self, performance: Performance, room: int) -> Performance:
        """As many of the first notes as `room` tokens hold, cut off where the next one starts."""
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
        """As many of the last notes as `room` tokens hold."""
        first = 0
        while len(self.format.events(found := part(performance, slice(first, None)))) > room:
            first = len(performance) - (len(performance) - first) * 3 // 4
        return found

    # ---- sampling

    def _sampling(self, density: float, settings: dict[str, Any]) -> Sampling:
        """The settings of one call."""
        sampling = with_settings(self.sampling, settings)
        if density == 1.0:
            return sampling
        table = self.format.table
        bias = dict.fromkeys([*table.on.ids, *table.velocity.ids], math.log(density))
        return with_settings(sampling, {"logit_bias": {**bias, **sampling.logit_bias}})

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
        """What follows each prompt up to the grammar's limit; times count from the start of the prompt's own music."""
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
                waited += self.format.table.shift.value(step.token) / RATE / len(prompts)
                if waited >= 1:
                    draw.progress(waited)
                    waited = 0.0
        found = []
        for prompt, new in zip(prompts, tokens, strict=True):
            music = self.format.music(prompt)
            everything = self.format.performance([*music, *new])
            found.append(part(everything, everything.start >= self.format.elapsed(prompt) / RATE - 1e-9))
        return found


def default_seconds(melody: Performance | None, may_end: bool) -> float:
    """How long new music is where nobody says it: as long as a melody, at most 300 s where it may end, else 30 s."""
    if melody is not None:
        return melody.duration
    return 300.0 if may_end else 30.0


def nothing() -> Performance:
    """No notes."""
    return Performance.of([])


def moved(given: Performance, name: str, transpose: int, tempo: float) -> Performance:
    """What was given, in another key and tempo.

    Raises:
        DataError: no notes are left.
    """
    found = given.transposed(transpose).stretched(1 / tempo)
    if not len(found):
        raise DataError(f"the {name} has no notes" + (" within MIDI's range" if len(given) else ""))
    return found


def without(performance: Performance, others: Performance) -> Performance:
    """The notes that are not struck at the same step and pitch as one of the others."""
    struck = set(zip(others.pitch.tolist(), steps(others.start).tolist(), strict=True))
    each = zip(performance.pitch.tolist(), steps(performance.start).tolist(), strict=True)
    return part(performance, np.array([note not in struck for note in each], dtype=bool))


def check(
    count: int,
    seconds: float | None,
    primer: Performance | None,
    melody: Performance | None,
    ending: Performance | None,
    density: float,
    tempo: float,
    may_end: bool,
    transpose: int,
) -> None:
    """Raise a ConfigError that names the argument that is out of its range, or does not go with another."""
    if count < 1:
        raise ConfigError(f"takes is {count}, but must be at least 1")
    if seconds is not None and not 1 / RATE <= seconds <= LONGEST:
        raise ConfigError(f"seconds is {seconds:g}, but must be between {1 / RATE} and {LONGEST:g}")
    if melody is not None and (primer is not None or ending is not None):
        raise ConfigError("a melody is accompanied from its beginning to its end; it takes no primer and no ending")
    if may_end and (melody is not None or ending is not None):
        raise ConfigError("with a melody or an ending the length is fixed, so the model cannot end the piece")
    for name, value in (("density", density), ("tempo", tempo)):
        if not 0 < value < math.inf:
            raise ConfigError(f"{name} is {value:g}, but must be above 0")
    if seconds is not None and not 1 / RATE <= seconds * tempo <= LONGEST:
        raise ConfigError(
            f"{seconds:g} s at {tempo:g} times the tempo is {seconds * tempo:g} s, but must be between {1 / RATE} "
            f"and {LONGEST:g}"
        )
    if not -127 <= transpose <= 127:
        raise ConfigError(f"transpose is {transpose}, but must be from -127 to 127")
