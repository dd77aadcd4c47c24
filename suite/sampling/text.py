"""Streaming text: release decoded text as soon as it is final, and end it at a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TextStream(Protocol):
    """Decodes token ids one at a time; for example `suite.text.tokenizer.StreamDecoder`."""

    def push(self, token: int, /) -> str:
        """Append a token; returns the text that is now final. Bytes of an unfinished character are held back."""
        ...

    def flush(self) -> str:
        """Return the text that is still held back."""
        ...


class Streams(Protocol):
    """Makes text streams; for example `suite.text.tokenizer.Tokenizer`."""

    def stream(self) -> TextStream:
        """Return a new, empty stream."""
        ...


class StopText:
    """Decodes a row's text up to the first stop string; text that may begin a stop string is held back.

    If several stop strings match, the match that ends first ends the text, and of matches with the same end the
    longest; so the result does not depend on where the borders between tokens lie.

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
        """Append a token; returns the text that is now final."""
        return self._release(self.stream.push(token), last=False)

    def flush(self) -> str:
        """Return the text that is still held back, after the last token."""
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
        """Number of characters at the end of the held text that may still become a stop string."""
        longest = min(len(self.held), max(map(len, self.stop), default=1) - 1)
        return next(
            (size for size in range(longest, 0, -1) if any(stop.startswith(self.held[-size:]) for stop in self.stop)), 0
        )
