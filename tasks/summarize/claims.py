"""Names and numbers in a summary, and whether they also occur in its article."""

# ruff: noqa: RUF001 (typographic characters are among what is read)

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from suite.data.sentences import sentence_spans


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A name or a number in a summary.

    Attributes:
        text: as it is written in the summary.
        kind: "name" or "number".
        start, end: its characters in the summary.
        supported: whether it occurs in the source.
    """

    text: str
    kind: Literal["name", "number"]
    start: int
    end: int
    supported: bool


def claims(summary: str, source: str) -> list[Claim]:
    """Return the names and numbers of a summary, in order, each with whether its source supports it.

    A name is a run of capitalised words; the first word of a sentence counts only if it is also capitalised within a
    sentence. A name is supported if the source has each of its words, in any case or with another ending ("Italian" for
    "Italy"), or their initials. A number is written in digits, or in words from eleven on. It is supported if the
    source has its value, in digits or words. A decade or a century is supported by a year within it; a number after
    words like "about" or before words like "million", by a number that rounds to it.

    So an unsupported claim is hardly ever in the source. A supported one may still be wrong, because correct names can
    be combined wrongly. The rules are for English.

    Args:
        summary: plain text.
        source: the text that it was written from: the article's title, a line end, and its body.
    """
    known = _Known.of(source)
    found: list[tuple[int, int, Literal["name", "number"], bool]] = [
        (number.start, number.end, "number", known.has_number(number)) for number in _numbers(summary) if number.stated
    ]
    for name in _names(summary, known.capitals):
        found.append((name[0].start, name[-1].end, "name", known.has_name(name)))
    return [
        Claim(text=summary[start:end], kind=kind, start=start, end=end, supported=supported)
        for start, end, kind, supported in sorted(found)
    ]


def unsupported(summary: str, source: str) -> list[Claim]:
    """Return the names and numbers of a summary that its source does not support; see `claims`.

    Example:
        >>> [one.text for one in unsupported("In 1824 Schubert went to Vienna.", "Vienna, 1824: he is Viennese.")]
        ['Schubert']
    """
    return [claim for claim in claims(summary, source) if not claim.supported]


# ---- names


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# a word; a dotted acronym (U.S.) is a single word, and a hyphen separates two
_TOKEN = re.compile(r"(?<!\w)(?:[^\W\d_]\.){2,}|\w+(?:['’ʼ\u0300-\u036f]+\w+)*")
_POSSESSIVE = re.compile(r"['’ʼ](?:s|m|d|ve|re|ll)?$", re.IGNORECASE)  # or a contraction
_JOINT = re.compile(r"[ \u00a0]|[-‐‑–]|(?P<point>\. ?)")  # between the words of a name
_SPEECH = re.compile(r"[:;]\s*[\"“‘']?$|[,.!?]\s*[\"“‘'(]$")  # before a quoted sentence within a sentence
_ROMAN = re.compile(r"(?=.)(X{0,3})(IX|IV|V?I{0,3})")
_TITLES = _set("mr mrs ms dr prof st jr sr")
_COMMON = _set(  # words capitalised because of their position, not because they are names
    "the a an and or but if in on at of for to by with from as it its he she they his her their this that these those "
    "i we you our your who what when where why how while after before during since until although though "
    "however not no ad bc ce bce"
)
_UNNAMED = _set("of the and for in de")  # words within names that are not among their initials
_LONGEST = 6  # letters of an acronym
_SHARED = 4  # letters at the start of words that are compared by their endings
_ENDINGS = _set(
    "a ae al an ar c e ean en er ern ese ey i ia ial ian ic ional ish ism ist ite ity land ly m n o s t um us uese "
    "vian y"
)
_SAME = tuple(  # words for the same people or place that the endings above do not relate
    _set(words)
    for words in (
        "france french frenchman frenchmen",
        "spain spanish spaniard spaniards",
        "poland polish pole poles",
        "rome roman romans",
        "ireland irish irishman irishmen",
        "england english englishman englishmen",
        "scotland scottish scots scot scotsman",
        "wales welsh welshman",
        "britain british briton britons uk",
        "netherlands dutch holland dutchman",
        "denmark danish dane danes",
        "finland finnish finn finns",
        "norway norwegian norwegians norse",
        "greece greek greeks",
        "switzerland swiss",
        "america american americans us usa states",
        "philippines philippine filipino filipinos",
        "thailand thai thais",
        "jew jews jewish judaism",
    )
)


def _key(word: str) -> str:
    """Return a word without its possessive ending, accents, points and case."""
    letters = unicodedata.normalize("NFKD", _POSSESSIVE.sub("", word)).casefold()
    return "".join(filter(str.isalnum, letters))


def _related(one: str, other: str) -> bool:
    """Whether two words that share their first letters differ only in known endings."""
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    rests = (one[shared:], other[shared:])
    return all(not rest or rest in _ENDINGS or rest.removesuffix("s") in _ENDINGS for rest in rests)


def _roman(word: str) -> Decimal | None:
    """Return the value of a Roman numeral below 40; None for any other word."""
    match = _ROMAN.fullmatch(word)
    if match is None:
        return None
    return Decimal(10 * len(match[1]) + ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX").index(match[2]))


class _Token(NamedTuple):
    text: str
    key: str
    start: int
    end: int
    capital: bool
    first: bool  # of its sentence


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the words of a text."""
    borders = [start for start, _ in sentence_spans(text)]
    sentence = 0
    for match in _TOKEN.finditer(text):
        before, sentence = sentence, bisect(borders, match.start())
        first = sentence > before or _SPEECH.search(text, max(0, match.start() - 4), match.start()) is not None
        capital = match[0][0].isalpha() and any(map(str.isupper, match[0]))
        yield _Token(match[0], _key(match[0]), match.start(), match.end(), capital, first)


def _names(text: str, known: Set[str]) -> list[list[_Token]]:
    """Return the names of a text, each as a list of its words.

    Args:
        text: plain text.
        known: words, as `_key` returns them, that count as part of a name even at the beginning of a sentence.
    """
    tokens = list(_tokens(text))
    known = known | {token.key for token in tokens if token.capital and not token.first}
    names: list[list[_Token]] = []
    for token in tokens:
        if not token.capital or token.key in _COMMON | _VALUES.keys() or (token.first and token.key not in known):
            continue
        before = names[-1][-1] if names else token
        joint = _JOINT.fullmatch(text, before.end, token.start)
        pointed = joint is not None and joint["point"] and len(before.key) > 1 and before.key not in _TITLES
        if token.first or joint is None or pointed or _POSSESSIVE.search(before.text):
            names.append([token])
        else:
            names[-1].append(token)
    return [name for name in names if any(len(token.key) > 1 and token.key not in _TITLES for token in name)]


# ---- numbers

_VALUES = {
    word: Decimal(value)
    for first, step, words in (
        (1, 1, "one two three four five six seven eight nine ten eleven twelve"),
        (13, 1, "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"),
        (20, 10, "twenty thirty forty fifty sixty seventy eighty ninety"),
        (1, 1, "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"),
        (13, 1, "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"),
        (20, 10, "twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth"),
    )
    for value, word in zip(itertools.count(first, step), words.split(), strict=False)
}
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "k": 3, "m": 6, "bn": 9}
_NUMBER = re.compile(
    r"(?P<digits>\d+(?:[.,]\d+|[\u00a0\u2009\u202f]\d{3}(?!\d))*)(?P<ending>['’]?s\b|[^\W\d_]*)"
    rf"|\b(?:(?P<tens>(?:twen|thir|for|fif|six|seven|eigh|nine)ty)[- ])?(?P<word>{'|'.join(_VALUES)})\b",
    re.IGNORECASE,
)
_SCALE = re.compile(r"[ \u00a0-]?(hundred|thousand|million|billion|trillion)\b|(k|m|bn)\b", re.IGNORECASE)
_CENTURY = re.compile(r"[ \u00a0-]centur(?:y|ies)\b", re.IGNORECASE)
_ABOUT = re.compile(
    r"\b(?:about|around|nearly|almost|over|above|approximately|some|roughly|circa|ca?\.|estimated|more than|less than|"
    r"fewer than|at least|up to|under)\s+[£$€]?$",
    re.IGNORECASE,
)
_LOOSE = Decimal("0.1")  # relative tolerance of an approximate value
_SMALLEST_WORD = 11  # smallest number in words that is checked: smaller ones are often counted, not read


class _Number(NamedTuple):
    """A number: what it can be read as, and from where to where a value is that it may stand for."""

    start: int
    end: int
    values: frozenset[Decimal]
    low: Decimal
    high: Decimal
    stated: bool  # whether a summary needs support for it


def _numbers(text: str) -> Iterator[_Number]:
    """Yield the numbers of a text, in digits and in words."""
    before = None
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        digits = match["digits"] or ""
        scale = _SCALE.match(text, match.end("digits") if digits else end)
        if scale:
            end = scale.end()
        if digits:
            bases = _readings(digits)
            stated = start == 0 or not text[start - 1].isalpha()  # not in H1N1
        else:
            # case-folded, because the pattern takes a long s for an s
            bases = {(_VALUES[match["tens"].casefold()] if match["tens"] else 0) + _VALUES[match["word"].casefold()]}
            stated = min(bases) >= _SMALLEST_WORD
        times = Decimal(10) ** (_SCALES[(scale[1] or scale[2]).casefold()] if scale else 0)
        values = bases | {base * times for base in bases}
        if before is not None and text[before.end() : start].strip() in ("-", "–", "/"):
            whole = before["digits"] or ""
            if len(whole) == 4 and len(digits) == 2 and whole.isdecimal() and digits.isdecimal():  # 1914–18
                values.add(Decimal(whole[:2] + digits))
        base = min(bases)
        low = high = base * times
        if _CENTURY.match(text, end):
            low, high = 100 * base - 100, 100 * base
        elif digits.endswith("0") and match["ending"].endswith("s"):  # 1990s, 1900s, 90s
            low = base if base >= 100 else base + 1900
            high = low + (99 if digits.endswith("00") else 9)
        elif scale:
            half = Decimal(1).scaleb(min(0, int(base.as_tuple().exponent))) / 2  # of the last digit
            low, high = (base - half) * times, (base + half) * times
        elif not (1000 <= base < 2100) and _ABOUT.search(text, max(0, start - 24), start):
            low, high = base * (1 - _LOOSE), base * (1 + _LOOSE)
        yield _Number(start, end, frozenset(values), low, high, stated)
        before = match


def _readings(digits: str) -> set[Decimal]:
    """Return the possible values of digits with points, commas or spaces; of each part if they form no number."""
    first, *others = re.split(r"[^\d]", digits)
    marks = re.findall(r"[^\d]", digits)
    found = set()
    if all(len(part) == 3 for part in others):  # 1,000
        found.add(Decimal(first + "".join(others)))
    if marks and (marks[-1] == "." or len(marks) == 1) and all(len(part) == 3 for part in others[:-1]):  # 1,000.5
        found.add(Decimal(first + "".join(others[:-1]) + "." + others[-1]))
    return found or {Decimal(part) for part in (first, *others)}


# ---- words and numbers of a source


@dataclass(frozen=True, kw_only=True)
class _Known:
    """The words (as `_key` returns them) and numbers of a source.

    Attributes:
        words: all words.
        alike: words by their first letters.
        capitals: words capitalised within a sentence.
        acronyms: words written entirely in capitals.
        initials: initials of names, and of all runs of words within them.
        numbers: values, sorted.
    """

    words: frozenset[str]
    alike: dict[str, list[str]]
    capitals: frozenset[str]
    acronyms: frozenset[str]
    initials: frozenset[str]
    numbers: list[Decimal]

    @classmethod
    def of(cls, source: str) -> _Known:
        words: set[str] = set()
        capitals: set[str] = set()
        acronyms: set[str] = set()
        initials: set[str] = set()
        numbers = {value for number in _numbers(source) for value in number.values}
        run, end = "", 0
        for token in _tokens(source):  # one at a time: the tokens of a long text take more memory than the text
            words.add(token.key)
            if token.text.isupper():
                acronyms.add(token.key)
            if (value := _roman(token.text)) is not None:
                numbers.add(value)
            if source[end : token.start] not in (" ", "\u00a0", "-"):
                run = ""
            if token.capital:
                if not token.first:
                    capitals.add(token.key)
                run = (run + token.key[:1])[-_LONGEST:]
                initials.update(run[start:] for start in range(len(run) - 1))
            elif token.key not in _UNNAMED:
                run = ""
            end = token.end
        alike: dict[str, list[str]] = {}
        for word in words:
            alike.setdefault(word[:_SHARED], []).append(word)
        return cls(
            words=frozenset(words),
            alike=alike,
            capitals=frozenset(capitals),
            acronyms=frozenset(acronyms),
            initials=frozenset(initials),
            numbers=sorted(numbers),
        )

    def has_name(self, name: Sequence[_Token]) -> bool:
        """Whether the source has each word of a name, or its initials as an acronym."""
        initials = "".join(token.key[:1] for token in name)
        return (len(name) > 1 and initials in self.acronyms) or all(map(self._has_word, name))

    def _has_word(self, token: _Token) -> bool:
        if len(token.key) == 1 or token.key in _TITLES:
            return True
        if token.text.isupper() and (token.key in self.initials or self._has_value(_roman(token.text))):
            return True
        if not self.words.isdisjoint((token.key, token.key + "s", token.key.removesuffix("s"))):
            return True
        return any(_related(token.key, other) for other in self.alike.get(token.key[:_SHARED], ())) or any(
            token.key in same and not same.isdisjoint(self.words) for same in _SAME
        )

    def has_number(self, number: _Number) -> bool:
        """Whether the source has a value of the number, or a value in its range."""
        return self._has_between(number.low, number.high) or any(map(self._has_value, number.values))

    def _has_value(self, value: Decimal | None) -> bool:
        return value is not None and self._has_between(value, value)

    def _has_between(self, low: Decimal, high: Decimal) -> bool:
        place = bisect_left(self.numbers, low)
        return place < len(self.numbers) and self.numbers[place] <= high
