"""Text while it is being generated: what may be shown already, and where a stop string ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TextStream(Protocol):
    """Turns token ids into text one at a time, such as `suite.text.tokenizer.StreamDecoder`."""

    def push(self, token: int, /) -> str:
        """The text that is certain after one more token; bytes of an unfinished character are held back."""
        ...

    def flush(self) -> str:
        """What was still held back."""
        ...


class Streams(Protocol):
    """Makes text streams, such as `suite.text.tokenizer.Tokenizer`."""

    def stream(self) -> TextStream:
        """A stream that has seen nothing yet."""
        ...


class StopText:
    """The text of one row up to the first stop string, released only when no stop string can claim it any more.

    Of several stop strings the one that is complete first ends the text, and of those the longest; so the result does
    not depend on where the borders between tokens lie.

    Example:
        >>> class Letters:
        ...     def push(self, token: int) -> str:
        ...         return chr(token)
        ...     def flush(self) -> str:
        ...         return ""
        >>> text = StopText(Letters(), ["END"])
        >>> [text.push(ord(letter)) for letter in "BEEND"], text.stopped
        (['B', '', 'E', '', ''], True)
    """

    def __init__(self, stream: TextStream, stop: Sequence[str]) -> None:
        self.stream, self.stop = stream, stop
        self.held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """The text that is certain after one more token."""
        return self._release(self.stream.push(token), last=False)

    def flush(self) -> str:
        """What was held back, when no more tokens come."""
        return self._release(self.stream.flush(), last=True)

    def _release(self, piece: str, last: bool) -> str:
        self.held += piece
        matches = [(start + len(stop), start) for stop in self.stop if (start := self.held.find(stop)) >= 0]
        if matches:
            self.stopped = True
            keep = min(matches)[1]
        else:
            keep = len(self.held) - (0 if last else self._open())
        released, self.held = self.held[:keep], self.held[keep:]
        return released

    def _open(self) -> int:
        """Characters at the end of the held text that may still become a stop string."""
        longest = min(len(self.held), max(map(len, self.stop), default=1) - 1)
        return next(
            (size for size in range(longest, 0, -1) if any(stop.startswith(self.held[-size:]) for stop in self.stop)), 0
        )
