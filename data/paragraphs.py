"""Find the paragraphs of plain text whose lines may be hard-wrapped, and write each on one line."""

# ruff: noqa: RUF001 (dashes and signs of other scripts are meant)

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

# invisible, yet tokens to a model: control characters, soft hyphens, spaces and joiners of zero width
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u2060\ufeff]+")
_SPACES = re.compile(r"\s{2,}|[^\S ]")  # not single spaces, which are many
_UNSPACED = (
    "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"  # Chinese and Japanese: a line may break anywhere, without a space
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_BREAK = re.compile(rf"(?<=[{_UNSPACED}])\n[ \t]*(?=[{_UNSPACED}])")
_CLOSED = re.compile(r"[.!?…:。！？：][\W_]{0,3}$")
_OPEN = re.compile(r"[,;–—-]$")
_MARKER = re.compile(r"\s*(?:[-*+•‣◦▪·]|\d{1,3}[.)]|\(?[a-z0-9]{1,2}\))\s")
_NARROW = 25  # characters; a block in which no line is longer is a list
_WIDE = 60  # characters; two lines must reach this width to count as wrapped


def tidy(text: str) -> str:
    r"""Return a text on one line, each run of white space as one space, without invisible characters.

    Example:
        >>> tidy(" a soft\u00adhyphen,\n and\u00a0a  space ")
        'a softhyphen, and a space'
    """
    return _SPACES.sub(" ", _INVISIBLE.sub("", text)).strip()


def unwrap(text: str) -> Iterator[str]:
    r"""Yield the paragraphs of a plain text, each as `tidy` returns it.

    Paragraphs end at blank lines. Within a block of lines, a line is joined to the next if it was wrapped at the text's
    width or ends inside a sentence; every other line is a paragraph, and so is each item of a list. Lines without a
    letter or digit (rules, "* * *") are left out.

    Args:
        text: with any kind of line ends.

    Example:
        >>> list(unwrap("It was the best\nof times.\n\nTo do:\n- One\n- Two\n"))
        ['It was the best of times.', 'To do:', '- One', '- Two']
    """
    blocks = [
        [line.rstrip() for line in lines if any(map(str.isalnum, line))]
        for filled, lines in itertools.groupby(text.splitlines(), key=lambda line: bool(line.strip()))
        if filled
    ]
    width = _wrapped_at([pair for block in blocks for pair in itertools.pairwise(block)])
    for block in filter(None, blocks):
        for paragraph in _paragraphs(block, width):
            yield tidy(_BREAK.sub("", "\n".join(paragraph)))


def _wrapped_at(pairs: Sequence[tuple[str, str]]) -> int:
    """Return the width at which a text was wrapped, judged by its pairs of consecutive lines; 0 if it was not.

    In a wrapped text, most lines end where the next line's first word had no room, and not where a sentence ends.
    """
    if not pairs:
        return 0
    width = sorted(len(line) for line, _ in pairs)[(len(pairs) - 1) * 9 // 10]  # a long URL may exceed it
    full = sum(_is_full(line, following, width) for line, following in pairs)
    closed = sum(_is_closed(line) for line, _ in pairs)
    capitals = sum(following.lstrip()[0].isupper() for _, following in pairs)
    if len(pairs) < 3:
        wrapped = width >= _WIDE and full == len(pairs) and not closed
    else:
        wrapped = width >= _NARROW and min(full, len(pairs) - closed, len(pairs) - capitals / 2) > 0.6 * len(pairs)
    return width if wrapped else 0


def _paragraphs(lines: Sequence[str], width: int) -> Iterator[list[str]]:
    """Yield the lines of each paragraph in a block without blank lines."""
    indent = min(map(_indent, lines))
    paragraph = [lines[0]]
    for line, following in itertools.pairwise(lines):
        closed = _is_closed(line)
        goes_on = not closed and bool(following.lstrip()[0].islower() or _OPEN.search(line))
        begins = _MARKER.match(following) or (closed and _indent(following) > indent)
        if begins or not (goes_on or (width and _is_full(line, following, width))):
            yield paragraph
            paragraph = []
        paragraph.append(following)
    yield paragraph


def _is_full(line: str, following: str, width: int) -> bool:
    """Whether the line had no room for the first word of the next line."""
    word = _WORD.search(following)
    return word is None or len(line) + 1 + len(word[0]) > width


def _is_closed(line: str) -> bool:
    return _CLOSED.search(line, max(0, len(line) - 4)) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
