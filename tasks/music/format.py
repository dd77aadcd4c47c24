"""How music is written as one sequence: a piece, a melody and its accompaniment, or a gap and what fills it.

    <bos> events <eos>                                  a piece; without <bos>, some place in the middle of one
    <bos> <melody> melody <sep> whole <eos>             a melody, then the same time with everything in it
    <bos> <fill> gap after <sep> before middle <eos>    what follows a gap, then what leads into it and fills it

All are the same events; `gap` is its length in time shifts, and `before middle` runs on as one performance. The melody
is heard twice, so that the model sees what is coming and the grammar can hold it to every note of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from suite.data.events import LONGEST_SHIFT, EventTable
from suite.data.performance import Performance
from suite.errors import CheckpointError

LOWEST_KEY, HIGHEST_KEY = 21, 108  # pitches of a piano
SPECIALS = ("<bos>", "<eos>", "<sep>", "<melody>", "<fill>")


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
        """The vocabulary of the events."""
        return EventTable(self.pedal)

    @property
    def vocab_size(self) -> int:
        """Number of token ids, special tokens included."""
        return self.table.size + len(SPECIALS)

    def special(self, name: str) -> int:
        """The id of a special token."""
        return self.table.size + SPECIALS.index(name)

    @property
    def eos(self) -> int:
        """The id that ends a piece."""
        return self.special("<eos>")

    def events(self, performance: Performance) -> list[int]:
        """A performance as event tokens."""
        tokens: list[int] = self.table.encode(performance).tokens.tolist()
        return tokens

    def piece(self, performance: Performance) -> list[int]:
        """The tokens of a piece from its beginning, without an end."""
        return [self.special("<bos>"), *self.events(performance)]

    def accompaniment(self, melody: Performance, whole: Performance) -> tuple[list[int], int]:
        """Tokens of a melody and of the whole music at the same time, and the place where the whole begins."""
        head = [self.special("<bos>"), self.special("<melody>"), *self.events(melody), self.special("<sep>")]
        return [*head, *self.events(whole)], len(head)

    def fill(self, before: Performance, after: Performance, gap: int) -> list[int]:
        """The prompt for filling a gap of `gap` steps between `before` and `after`."""
        head = [self.special("<bos>"), self.special("<fill>"), *self.wait(gap), *self.events(after)]
        return [*head, self.special("<sep>"), *self.events(before)]

    def wait(self, steps: int) -> list[int]:
        """Time shifts that add up to `steps`."""
        whole, rest = divmod(steps, LONGEST_SHIFT)
        shift = self.table.shift
        return [shift.id(LONGEST_SHIFT)] * whole + ([shift.id(rest)] if rest else [])

    def music(self, tokens: Sequence[int]) -> list[int]:
        """The events after the last special token."""
        places = [place for place, token in enumerate(tokens) if token >= self.table.size]
        return list(tokens[places[-1] + 1 if places else 0 :])

    def parts(self, tokens: Sequence[int]) -> list[list[int]]:
        """The runs of events between special tokens."""
        groups = itertools.groupby(tokens, lambda token: token < self.table.size)
        return [list(run) for events, run in groups if events]

    def elapsed(self, tokens: Sequence[int]) -> int:
        """Steps that the events after the last special token take."""
        shift = self.table.shift
        return sum(shift.value(token) for token in self.music(tokens) if token in shift.ids)

    def performance(self, tokens: Sequence[int]) -> Performance:
        """The performance of the event tokens; special tokens are ignored."""
        return self.table.decode([token for token in tokens if token < self.table.size])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a checkpoint, so that `from_dict` finds the same ids."""
        return {"events": "performance", "pedal": self.pedal, "specials": list(SPECIALS)}

    @classmethod
    def from_dict(cls, extra: Mapping[str, Any], name: str) -> Format:
        """The format of a checkpoint.

        Raises:
            CheckpointError: it is no music model, or one of another vocabulary.
        """
        if extra.get("events") != "performance":
            raise CheckpointError(f"{name} is not a music model: its checkpoint names no event vocabulary")
        if tuple(extra.get("specials", ())) != SPECIALS:
            raise CheckpointError(
                f"{name} has the special tokens {extra.get('specials')}, but this version of suite has {SPECIALS}"
            )
        return cls(pedal=bool(extra.get("pedal")))
