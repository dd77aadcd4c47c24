"""Links, numbers and rare names that a translation lost are kept by stand-ins.

Such a sentence is translated once more with a name or number in their place that the training pairs have often, so that
the model copies it, and each is put back where its stand-in came out. Where one did not come out, the first translation
stays. A number's separators become those of the target language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from suite.tasks.translate.checks import LINK, NUMBER

NAMES = ("Tom", "Boston", "John", "Bill")  # for links and names
NUMBERS = ("30", "2013", "100", "20")
LONG = 3  # digits of a number that is worth it: shorter ones the model mostly keeps, or writes out
SEPARATORS = {"en": (",", "."), "de": (".", ","), "fr": ("\u202f", ",")}  # of thousands and of decimals

_NAME = re.compile(r"(?<=[^\s.!?:] )[A-ZÄÖÜÉ][a-zäöüßà-ÿ]+\b")
_ENGLISH = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d{1,2}")
_GERMAN = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+,\d{1,2}")
_FRENCH = re.compile(r"\d{1,3}(?:[\u00a0\u202f ]\d{3})+(?:,\d+)?|\d+,\d{1,2}")
_WRITTEN = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH}


@dataclass(frozen=True, kw_only=True)
class StandIns:
    """A sentence with stand-ins.

    Attributes:
        source: the sentence with them.
        things: each stand-in with what it stands for in the translation.
    """

    source: str
    things: tuple[tuple[str, str], ...]

    def restored(self, translation: str) -> str | None:
        """The translation with the things themselves, or None if a stand-in did not come out just once."""
        found = [re.search(rf"\b{name}(?=s?\b)", translation) for name, _ in self.things]
        if any(one is None for one in found) or any(translation.count(name) > 1 for name, _ in self.things):
            return None
        things = dict(self.things)
        return re.sub(rf"\b(?:{'|'.join(things)})(?=s?\b)", lambda match: things[match[0]], translation)


def stand_ins(
    source: str, translation: str, languages: tuple[str, str], rare: Callable[[str], bool]
) -> StandIns | None:
    """The sentence with a stand-in for each link, long number and rare name, if its translation lost one of them.

    Args:
        source, translation: a sentence and its translation.
        languages: from and to.
        rare: whether a word is so rare that a capital means a name; not asked for German, whose nouns have capitals.

    Returns:
        None if nothing was lost, or there are more things than stand-ins.
    """
    spans: list[tuple[int, int, bool]] = []  # start, end, and whether it is a number
    for link in LINK.finditer(source):
        spans.append((link.start(), link.start() + len(link[0].rstrip(".,;:!?)")), False))
    for number in NUMBER.finditer(source):
        if len(re.sub(r"\D", "", number[0])) >= LONG:
            spans.append((*number.span(), True))
    if not languages[0].startswith("de"):
        spans += [(*name.span(), False) for name in _NAME.finditer(source) if rare(name[0])]
    spans = [one for place, one in enumerate(spans) if not any(_within(one, other) for other in spans[:place])]
    if not spans:
        return None
    spans.sort()
    free = {kind: [word for word in words if word not in source] for kind, words in ((False, NAMES), (True, NUMBERS))}
    things, parts, end = [], [], 0
    lost = False
    for start, stop, is_number in spans:
        thing = source[start:stop]
        wanted = respaced(thing, *languages) if is_number else thing
        lost = lost or not _kept(wanted, translation, is_number)
        if not free[is_number]:
            return None
        stand_in = free[is_number].pop(0)
        things.append((stand_in, wanted))
        parts += [source[end:start], stand_in]
        end = stop
    return StandIns(source="".join([*parts, source[end:]]), things=tuple(things)) if lost else None


def _kept(thing: str, translation: str, number: bool) -> bool:
    if not number:
        return thing in translation
    digits = {re.sub(r"\D", "", found) for found in NUMBER.findall(translation)}
    return re.sub(r"\D", "", thing) in digits


def _within(span: tuple[int, int, bool], other: tuple[int, int, bool]) -> bool:
    return span[0] < other[1] and other[0] < span[1]


def respaced(number: str, source: str, target: str) -> str:
    """A number with the separators of the target language; as it is where a language is unknown.

    Example:
        >>> respaced("1,250.50", "en", "de"), respaced("2013", "en", "de")
        ('1.250,50', '2013')
    """
    if source not in SEPARATORS or target not in SEPARATORS or not _WRITTEN[source].fullmatch(number):
        return number
    thousands, decimals = SEPARATORS[target]
    _, point = SEPARATORS[source]
    whole, _, rest = number.partition(point)
    whole = re.sub(r"\D", thousands, whole)
    return f"{whole}{decimals}{rest}" if rest else whole
