"""Warnings about a translation that need no reader: its length, loops, and numbers that are missing."""

from __future__ import annotations

import math
import re

from suite.wording import count

DEVIATIONS = 3.0  # of the training pairs' log ratio, from which on a length is far off
SLACK = 8  # characters added to both lengths: "Ja" may well be "Certainly"
NARROWEST = 0.1  # a deviation below it comes from too few pairs
REPEATS = 3  # times a phrase stands in a row when it loops
PHRASE = 10  # words of the longest phrase that is looked for

LINK = re.compile(r"(?:https?://|www\.)\S+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_PIECE = re.compile(r"\w+|[^\w\s]")
_STUTTER = re.compile(r"(.{1,10}?)\1{7,}", re.DOTALL)
NUMBER = re.compile(r"\d+(?:[.,'\u2019\u00a0\u202f ]\d{3})*(?!\d)|\d+")


def has_words(text: str) -> bool:
    """Whether there is anything to translate: a letter that is not part of an address.

    Example:
        >>> has_words("17 %"), has_words("https://example.org/a"), has_words("Ja")
        (False, False, True)
    """
    return any(map(str.isalpha, LINK.sub("", text)))


def concerns(source: str, target: str, ratio: tuple[float, float] | None) -> list[str]:
    """Warnings about a translation, one line each.

    Args:
        source, target: a sentence and its translation.
        ratio: mean and standard deviation of log(target characters / source characters) in the training data.

    Example:
        >>> concerns("Das war 1984 so.", "It was so so so so.", None)
        ['"so" is repeated 4 times in a row', '1984 is missing']
    """
    if not target.strip():
        return ["the translation is empty"]
    found = []
    off = deviation(source, target, ratio)
    if abs(off) > DEVIATIONS:
        found.append(
            f"{count(len(target), 'character')} for {len(source)}: much "
            + (
                "longer than usual, something may be made up"
                if off > 0
                else "shorter than usual, something may be missing"
            )
        )
    phrase, times = loop(target)
    if times > loop(source)[1]:
        found.append(f'"{phrase}" is repeated {times} times in a row')
    if missing := lost(source, target):
        found.append(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return found


def deviation(source: str, target: str, ratio: tuple[float, float] | None) -> float:
    """How many standard deviations a translation's length is off; 0 where `ratio` is unknown.

    Args:
        source, target: a sentence and its translation.
        ratio: mean and standard deviation of log(target characters / source characters) in the training data.
    """
    if ratio is None:
        return 0.0
    mean, spread = ratio
    return (math.log((len(target) + SLACK) / (len(source) + SLACK)) - mean) / max(spread, NARROWEST)


def lost(source: str, target: str) -> list[str]:
    """Numbers of three digits or more, links and e-mail addresses of a source that its translation lacks.

    Example:
        >>> lost("In 1984 see www.example.org, page 12.", "1984, Seite 12.")
        ['www.example.org,']
    """
    kept = re.sub(r"\D", "", target)
    missing = [number for number in NUMBER.findall(source) if len(_digits(number)) > 2 and _digits(number) not in kept]
    return missing + [link for link in LINK.findall(source) if link.rstrip(".,;:!?)") not in target]


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def loop(text: str) -> tuple[str, int]:
    """The phrase that is repeated most often in a row, and how often; ("", 0) if none occurs three times in a row.

    Within a word a few letters must stand eight times in a row.

    Example:
        >>> loop("no, no, no, no way"), loop("aaaaaaaaaa"), loop("very very good")
        (('no,', 3), ('a', 10), ('', 0))
    """
    pieces = list(_PIECE.finditer(text))
    words = [piece[0].casefold() for piece in pieces]
    best, times = "", 0
    for size in range(1, min(PHRASE, len(words) // REPEATS) + 1):
        run = 0  # words in a row that equal the word `size` before them
        for place in range(size, len(words)):
            run = run + 1 if words[place] == words[place - size] else 0
            if run >= (REPEATS - 1) * size and 1 + run // size > times:
                start = place - run - size + 1
                best, times = text[pieces[start].start() : pieces[start + size - 1].end()], 1 + run // size
    if not times and (stutter := _STUTTER.search(text)) is not None:
        return stutter[1], len(stutter[0]) // len(stutter[1])
    return best, times
