"""Token sequences for music: a piece, a melody and its accompaniment, or a gap and the notes that fill it.

    <bos> events <eos>                                  a piece; without <bos>, a passage from its middle
    <bos> <melody> melody <sep> whole <eos>             a melody, then all notes of the same passage
    <bos> <fill> gap after <sep> before middle <eos>    the music after a gap, then that before and in it

All parts use the same events; `gap` is the gap's length as time shifts, and `before middle` is one performance. The
melody occurs twice, so that the model sees which notes are coming and the grammar can enforce each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from suite.data.events import LONGEST_SHIFT, EventTable
from suite.data.performance import Performance
from suite.errors import CheckpointError
from suite.tables import brief
from suite.task.tables import read_extra

LOWEST_KEY, HIGHEST_KEY = 21, 108  # pitches of a piano
SPECIALS = ("<bos>", "<eos>", "<sep>", "<melody>", "<fill>")


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """A music model's `extra` in its checkpoint; `Bounds.from_dict` reads the bounds."""

    events: Literal["performance"]
    pedal: bool = False
    specials: tuple[str, ...] = ()
    bounds: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Format:
    """The vocabulary of a music model: events, then special tokens.

    Args:
        pedal: whether the sustain pedal has events of its own.

    Example:
        >>> format = Format()
        >>> format.vocab_size, format.special("<bos>")
        (393, 388)
    """

    pedal: bool = False

    @cached_property
    def table(self) -> EventTable:
        """The event vocabulary."""
        return EventTable(self.pedal)

    @property
    def vocab_size(self) -> int:
        """Number of token ids, special tokens included."""
        return self.table.size + len(SPECIALS)

    def special(self, name: str) -> int:
        """Return the id of a special token."""
        return self.table.size + SPECIALS.index(name)

    @property
    def eos(self) -> int:
        """The id that ends a piece."""
        return self.special("<eos>")

    def events(self, performance: Performance) -> list[int]:
        """Return a performance as event tokens."""
        tokens: list[int] = self.table.encode(performance).tokens.tolist()
        return tokens

    def piece(self, performance: Performance) -> list[int]:
        """Return a piece as tokens: `<bos>` and its events, without `<eos>`."""
        return [self.special("<bos>"), *self.events(performance)]

    def accompaniment(self, melody: Performance, whole: Performance) -> tuple[list[int], int]:
        """Return the tokens of a melody and of all notes of its passage, and the index where the latter begin."""
        head = [self.special("<bos>"), self.special("<melody>"), *self.events(melody), self.special("<sep>")]
        return [*head, *self.events(whole)], len(head)

    def fill(self, before: Performance, after: Performance, gap: int) -> list[int]:
        """Return the prompt for filling a gap of `gap` steps between `before` and `after`."""
        head = [self.special("<bos>"), self.special("<fill>"), *self.wait(gap), *self.events(after)]
        return [*head, self.special("<sep>"), *self.events(before)]

    def wait(self, steps: int) -> list[int]:
        """Return time-shift tokens that add up to `steps`."""
        whole, rest = divmod(steps, LONGEST_SHIFT)
        shift = self.table.shift
        return [shift.id(LONGEST_SHIFT)] * whole + ([shift.id(rest)] if rest else [])

    def music(self, tokens: Sequence[int]) -> list[int]:
        """Return the events after the last special token."""
        places = [place for place, token in enumerate(tokens) if token >= self.table.size]
        return list(tokens[places[-1] + 1 if places else 0 :])

    def parts(self, tokens: Sequence[int]) -> list[list[int]]:
        """Return the runs of events between special tokens."""
        groups = itertools.groupby(tokens, lambda token: token < self.table.size)
        return [list(run) for events, run in groups if events]

    def elapsed(self, tokens: Sequence[int]) -> int:
        """Return the number of steps that the events after the last special token last."""
        shift = self.table.shift
        return sum(shift.value(token) for token in self.music(tokens) if token in shift.ids)

    def performance(self, tokens: Sequence[int]) -> Performance:
        """Decode event tokens into a performance; special tokens are ignored."""
        return self.table.decode([token for token in tokens if token < self.table.size])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a checkpoint, from which `from_dict` rebuilds the same ids."""
        return {"events": "performance", "pedal": self.pedal, "specials": list(SPECIALS)}

    @classmethod
    def from_dict(cls, extra: Mapping[str, Any], where: str) -> Format:
        """Read the format from a checkpoint's extra values.

        Args:
            extra: of a checkpoint.
            where: its config.json, for errors.

        Raises:
            CheckpointError: it is not a music model, has another vocabulary, or a value is not valid.
        """
        if "events" not in extra:
            raise CheckpointError(f"{where} is not a music model's: it names no event vocabulary")
        found = read_extra(_Settings, extra, where)
        if found.specials != SPECIALS:
            raise CheckpointError(
                f"{where} has the special tokens {brief(found.specials)}, but this version of suite has {SPECIALS}"
            )
        return cls(pedal=found.pedal)
