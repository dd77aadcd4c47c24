"""Training examples from recordings: random windows, transposed and stretched, in each of the formats.

An example depends only on the seed and its index, so no state is needed to resume a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from suite.data.events import STEP_RATE
from suite.data.performance import Performance
from suite.data.recordings import Recording
from suite.errors import DataError
from suite.tasks.music.format import HIGHEST_KEY, LOWEST_KEY, Format
from suite.training.batches import Example

BEGINNINGS = 0.08  # share of the windows that start with their piece
CHORD_SECONDS = 0.03  # seconds within which notes count as struck together when looking for a melody


class Windows:
    """An endless source of training examples of up to `context` + 1 tokens.

    Args:
        recordings: to take windows from, with probability proportional to their number of notes.
        format: of the tokens.
        context: number of tokens that the model reads; an example has one more.
        seed: of positions, transpositions and tempos.
        transpose: maximum number of semitones up or down; less near the ends of the keyboard.
        stretch: maximum change of tempo, slower or faster, as a share.
        accompaniment, fill: shares of the examples in these formats.

    Raises:
        DataError: there are no recordings.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        format: Format,
        context: int,
        seed: int,
        *,
        transpose: int = 0,
        stretch: float = 0.0,
        accompaniment: float = 0.0,
        fill: float = 0.0,
    ) -> None:
        if not recordings:
            raise DataError("no recordings are left to train on; hold fewer out")
        self.recordings, self.format, self.context, self.seed = recordings, format, context, seed
        self.transpose, self.stretch = transpose, stretch
        self.accompaniment, self.fill = accompaniment, fill
        self.ends = np.cumsum([len(recording.performance) for recording in recordings])

    def length(self, index: int, /) -> int:
        """Return the number of tokens in an example; a few examples are shorter."""
        return self.context + 1

    def __getitem__(self, index: int, /) -> Example:
        random = np.random.default_rng((self.seed, index))
        place = int(np.searchsorted(self.ends, random.integers(self.ends[-1]), side="right"))
        recording = self.recordings[place]
        count = len(recording.performance)
        # a note takes at least two tokens, its stroke and its end, so context // 2 notes fill the window
        size = self.context // 2 + 2
        first = 0 if random.random() < BEGINNINGS else int(random.integers(max(1, count - size // 2)))
        notes = slice(first, first + size)
        window = self._moved(part(recording.performance, notes), random)
        kind = random.random()
        if kind < self.accompaniment:
            melody = recording.melody[notes] if recording.melody.any() else skyline(window)
            example = self._accompaniment(window, melody)
        elif kind < self.accompaniment + self.fill and len(window) >= 8:
            example = self._fill(window, random)
        else:
            example = None
        if example is not None:
            return example
        tokens = self.format.events(window)
        if first == 0:
            tokens.insert(0, self.format.special("<bos>"))
        if notes.stop >= count:
            tokens.append(self.format.eos)
        return Example(np.array(tokens[: self.context + 1]))

    def _moved(self, window: Performance, random: np.random.Generator) -> Performance:
        """Return the window, transposed and stretched at random."""
        low, high = int(window.pitch.min()), int(window.pitch.max())
        down = max(-self.transpose, min(0, LOWEST_KEY - low))
        up = min(self.transpose, max(0, HIGHEST_KEY - high))
        moved = window.transposed(int(random.integers(down, up + 1)))
        return moved.stretched(float(1 + random.uniform(-self.stretch, self.stretch)))

    def _accompaniment(self, window: Performance, melody: NDArray[np.bool_]) -> Example | None:
        """Return an example of a melody and its accompaniment, cut to the context; None if no cut fits."""
        count = len(window)
        while count:
            end = float(window.start[count]) if count < len(window) else window.duration + 1
            kept = np.arange(len(window)) < count
            whole = cut(part(window, kept), end)
            tokens, target = self.format.accompaniment(cut(part(window, kept & melody), end), whole)
            if len(tokens) <= self.context:
                return Example(np.array([*tokens, self.format.eos]), target=target)
            count = int(count * min(0.95, self.context / len(tokens)))
        return None

    def _fill(self, window: Performance, random: np.random.Generator) -> Example | None:
        """Return an example with a gap at a random place, cut to the context; None if no cut fits."""
        begins = random.uniform(0.1, 0.6)
        shares = (begins, begins + random.uniform(0.1, 0.3))
        window = self.format.performance(self.format.events(window))  # on the grid of steps
        count = len(window)
        while count >= 4:
            kept = part(window, slice(0, count))
            first, second = (float(kept.start[int(share * (count - 1)) + 1]) for share in shares)
            before, middle, after = divide(kept, first, second)
            gap = round((second - before.duration) * STEP_RATE)
            prompt = self.format.fill(before, after, gap)
            tokens = [*prompt, *self.format.events(before.joined(middle))[len(self.format.events(before)) :]]
            if len(tokens) <= self.context:
                return Example(np.array([*tokens, self.format.eos]), target=len(prompt))
            count = int(count * min(0.95, self.context / len(tokens)))
        return None


def part(performance: Performance, notes: slice | NDArray[np.bool_]) -> Performance:
    """Return the chosen notes with the pedal; a slice is shifted in time so that its first note starts at 0 s."""
    pitch, velocity = performance.pitch[notes], performance.velocity[notes]
    start, end = performance.start[notes], performance.end[notes]
    if isinstance(notes, slice) and len(start):
        last = float(end.max())
        pedal = tuple(change for change in performance.pedal if change.time <= last)  # earlier ones, too
        return Performance(pitch, velocity, start, end, pedal).shifted(-float(start[0]))
    return Performance(pitch, velocity, start, end, performance.pedal)


def cut(performance: Performance, end: float) -> Performance:
    """Return the performance cut off at `end` seconds; all its notes must start before then."""
    ends = np.minimum(performance.end, end)
    pedal = tuple(change for change in performance.pedal if change.time < end)
    return Performance(performance.pitch, performance.velocity, performance.start, ends, pedal)


def divide(performance: Performance, first: float, second: float) -> tuple[Performance, Performance, Performance]:
    """Divide a performance at two times, in seconds, into three parts, each cut off where the next one begins.

    A note belongs to the part in which it starts. Times in the last part count from its first note, at `second`.
    """
    starts = performance.start
    before = cut(part(performance, starts < first), first)
    middle = cut(part(performance, (starts >= first) & (starts < second)), second)
    after = part(performance, slice(int(np.searchsorted(starts, second)), None))
    return before, middle, after


def skyline(performance: Performance) -> NDArray[np.bool_]:
    """(N,) bool: True for notes that are the highest of all sounding when they are struck.

    Source: Uitdenbogerd and Zobel 1998, "Manipulation of Music for Melody Matching".
    """
    found = np.zeros(len(performance), dtype=bool)
    starts, ends, pitches = performance.start, performance.end, performance.pitch
    for note in range(len(performance)):
        start = starts[note] + CHORD_SECONDS
        last = int(np.searchsorted(starts, start, side="right"))
        near = slice(max(0, note - 64), last)  # at most 64 earlier notes can still sound
        higher = (pitches[near] > pitches[note]) & (ends[near] > start)
        found[note] = not higher.any()
    return found


def validation_windows(
    recordings: Sequence[Recording], format: Format, context: int, tokens: int
) -> tuple[list[Example], int]:
    """Cut whole recordings into windows and keep about `tokens` tokens of them, evenly spread (0: all).

    Returns:
        the windows kept, and the number of tokens in all windows.
    """
    windows = [window for recording in recordings for window in windows_of(recording.performance, format, context)]
    total = sum(len(window) - 1 for window in windows)
    every = max(1, -(-total // tokens)) if tokens else 1
    return [Example(window) for window in windows[::every]], total


def windows_of(performance: Performance, format: Format, context: int) -> Iterator[NDArray[np.int64]]:
    """Yield a whole piece, with `<bos>` and `<eos>`, in windows that predict `context` tokens each."""
    stream = np.array([*format.piece(performance), format.eos])
    for first in range(0, len(stream) - 1, context):
        yield stream[first : first + context + 1]
