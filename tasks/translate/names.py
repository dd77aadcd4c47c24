"""Names and numbers that both sides of a pair have, and others of the same kind to put in their place.

A model that has seen a name ten thousand times translates it by heart; one that never sees the same name twice has to
copy it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from random import Random

from suite.data.parallel import Pair

FEWEST, COPIED = 3, 0.8  # times that a word is capitalised inside a source, and the share of them that copy it
VOWELS = "AEIOUÄÖÜÉÈÀHY"  # letters before which French may leave out a vowel
_LIST = (
    "Anna Peter Julia Michael Sophie Daniel Laura Martin Emma Paul Claire Thomas Lena David Nina Oliver Eva Simon "
    "Keller Schneider Weber Wagner Becker Hoffmann Koch Richter Wolf Lang Krüger Zimmermann Braun Müller Schröder "
    "Dubois Martinez Lefebvre Moreau Girard Bonnet Lambert Fontaine Rousseau Mercier Leroy Gauthier Perrin "
    "Smith Johnson Brown Wilson Taylor Evans Walker Wright Cooper Morgan Bennett Murray Parker Carter Foster "
    "Berlin Hamburg Lyon Toulouse Dublin Oxford Toronto Madrid Lisbon Oslo Prague Zurich Bremen Nantes"
)
KNOWN = tuple(_LIST.split())

_CAPITALISED = re.compile(r"\b[A-ZÄÖÜÉ][a-zäöüßàâçéèêëîïôûù]{2,}\b")
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:[.,:]\d+)*(?![\w/-])")
_CLOCK = re.compile(r"\d{1,2}[:.]\d{2}")


def copied_names(pairs: Iterable[Pair]) -> frozenset[str]:
    """The capitalised words inside sources that their targets mostly have too.

    Example:
        >>> sorted(copied_names([Pair("I saw Tom.", "Ich sah Tom.", 1), Pair("It was May.", "Es war Mai.", 2)] * 3))
        ['Tom']
    """
    seen: Counter[str] = Counter()
    copied: Counter[str] = Counter()
    for pair in pairs:
        words = {match[0] for match in _CAPITALISED.finditer(pair.source) if match.start()}
        if words:
            seen.update(words)
            copied.update(words & set(_CAPITALISED.findall(pair.target)))
    return frozenset(word for word, times in copied.items() if seen[word] >= FEWEST and times >= COPIED * seen[word])


class NameMaker:
    """Draws names: known ones, others with the letters in an order that names have, and random syllables.

    Args:
        examples: names whose letter trigrams the second kind follows.
    """

    def __init__(self, examples: Iterable[str]) -> None:
        self._after: dict[str, list[str]] = defaultdict(list)
        for name in sorted({*examples, *KNOWN}):
            padded = f"^^{name}$"
            for place in range(len(padded) - 2):
                self._after[padded[place : place + 2]].append(padded[place + 2])

    def draw(self, random: Random) -> str:
        """A name of at least three letters."""
        kind = random.random()
        if kind < 0.25:
            return random.choice(KNOWN)
        if kind < 0.65:
            return self._spelt(random)
        return _syllables(random)

    def alike(self, old: str, random: Random) -> str:
        """A name that can stand where `old` does: French elides before both or neither, and "s" can be added."""
        vowel = old[0] in VOWELS
        for _ in range(40):
            name = self.draw(random)
            if name != old and (name[0] in VOWELS) == vowel and name[-1] not in "sxzß":
                return name
        return old

    def _spelt(self, random: Random) -> str:
        name = "^^"
        while len(name) < 14:
            letter = random.choice(self._after[name[-2:]])
            if letter == "$":
                break
            name += letter
        return name[2:] if len(name) > 4 else random.choice(KNOWN)


def _syllables(random: Random) -> str:
    """Two or three random syllables, with a capital."""
    parts = []
    for _ in range(random.randrange(2, 4)):
        start = random.choice(("b", "br", "d", "f", "g", "k", "kl", "l", "m", "n", "p", "r", "s", "sch", "t", "v", "z"))
        vowel = random.choice(("a", "e", "i", "o", "u", "a", "e", "au", "ei", "ou", "ü", "é"))
        parts.append(start + vowel + random.choice(("", "", "", "n", "r", "l", "m", "ck", "tt")))
    return "".join(parts).capitalize()


def replaced(pair: Pair, names: Collection[str], maker: NameMaker, random: Random) -> Pair:
    """The pair with other names and numbers where both sides have the same; the pair itself where they have none."""
    found = [name for name in dict.fromkeys(_CAPITALISED.findall(pair.source)) if name in names]
    others = {name: maker.alike(name, random) for name in found if _occurrences([name]).search(pair.target)}
    numbers = [Counter(_digits(found) for found in _NUMBER.findall(text)) for text in pair[:2]]
    for written in _NUMBER.findall(pair.source):
        digits = _digits(written)
        if len(digits) > 1 and numbers[0][digits] == numbers[1][digits] == 1:
            others[digits] = _number(digits, _CLOCK.fullmatch(written) is not None, random)
    if not others:
        return pair
    source, target = (_exchanged(text, others) for text in pair[:2])
    return Pair(source, target, pair.place)


def _exchanged(text: str, others: Mapping[str, str]) -> str:
    """The text with names and numbers exchanged, all at once; a number's separators are kept."""

    def other(match: re.Match[str]) -> str:
        fresh = iter(others.get(_digits(match[0]), _digits(match[0])))
        return re.sub(r"\d", lambda _: next(fresh), match[0])

    if names := [name for name in others if name.isalpha()]:
        text = _occurrences(names).sub(lambda match: others[match[0]], text)
    return _NUMBER.sub(other, text)


def _occurrences(names: Iterable[str]) -> re.Pattern[str]:
    """Where one of the names stands, with or without the s of a genitive."""
    return re.compile(rf"\b(?:{'|'.join(names)})(?=s?\b)")


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _number(digits: str, clock: bool, random: Random) -> str:
    """As many other digits: a time of day for one, a year for a year, a day of a month for a number up to 31."""
    value, size = int(digits), len(digits)
    if clock and int(digits[-2:]) < 60:
        hours = random.randrange(24 if size == 4 else 10)
        return f"{hours:0{size - 2}}{random.randrange(60):02}"
    if size == 2:
        return str(random.randrange(10, 32) if value < 32 else random.randrange(32, 100))
    if size == 4 and 1000 <= value < 2100:
        return str(random.randrange(1000, 2100))
    return str(random.randrange(1, 10)) + "".join(str(random.randrange(10)) for _ in range(size - 1))
