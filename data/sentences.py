"""Find the sentences of a text by offsets, so that they can be replaced while all text between them is kept.

This uses rules of its own, not a library: of the libraries that keep offsets, sentencex splits German sentences at
"19. Jahrhundert" and French sentences at "M. Dupont", and pysbd has not changed since 2021.
"""

# ruff: noqa: RUF001 (typographic characters are what this file is about)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from suite.data.sentence_rules import FRENCH, Language, language_rules


class Span(NamedTuple):
    """A range of characters in a text, from `start` to `end` (exclusive)."""

    start: int
    end: int


# ---- lines

_LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE_END = rf"(?:\r\n|[{_LINE_ENDS}])"
_LINE = re.compile(rf"([^{_LINE_ENDS}]*)(?:{_LINE_END}|\Z)")
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]*)*")
_ABBREVIATION = r"(?:\d|\w\.|(?:Chr|ex)\.)"  # after a letter with a full stop: p. 5, z. B., v. Chr., p. ex.
_MARKER = re.compile(
    r"(?:[-*+•‣◦▪·–—]|#{1,6}|\d{1,3}[.)]|\(?[A-Za-z0-9]{1,2}\)|\[[ xX]\]"
    rf"|[a-z]\.(?![ \t\u00a0]+{_ABBREVIATION}))[ \t\u00a0]+"
)
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})([^`\n]*)$", re.MULTILINE)
_ORDINAL_NOUN = re.compile(
    r"(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w*|(?:Jahrhundert|Jahrtausend|Weltkrieg|Klasse|Platz)"
)
_FIRST = re.compile(r"\S+")
WRAPPED = 40  # characters; a line at least this long may have been wrapped because it was full
SURELY_WRAPPED = 60  # the same for a paragraph of two lines, where the only other evidence is how it ends


class _Line(NamedTuple):
    """Range of a line without indentation and markers, its depth of quotation, and whether it has a list marker."""

    start: int
    end: int
    quotes: int
    marked: bool


def _fenced(text: str) -> Iterator[Span]:
    """Yield Markdown's fenced code blocks; a fence that is never closed is treated as an ordinary line."""
    opening = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and not fence[2].strip():
            yield Span(opening.start(), fence.end())
            opening = None


def _lines(text: str, language: str) -> Iterator[_Line]:
    position = 0
    blocks = _fenced(text)
    block = next(blocks, None)
    while position < len(text):
        if block is not None and position == block.start:
            position = block.end
            yield _Line(position, position, 0, False)  # treat the code block as a blank line
            block = next(blocks, None)
            continue
        match = _LINE.match(text, position)
        assert match is not None
        end = position + len(match[1].rstrip())
        quote = _QUOTE.match(text, position, end)
        assert quote is not None
        start = quote.end()
        while (marker := _MARKER.match(text, start, end)) is not None:
            ordinal = marker[0][0].isdigit() and language_rules(language).ordinals
            if ordinal and _ORDINAL_NOUN.match(text, marker.end(), end):
                break
            start = marker.end()
        yield _Line(start, end, quote[0].count(">"), start > quote.end())
        position = match.end()


def _paragraphs(text: str, language: str) -> Iterator[list[_Line]]:
    """Yield paragraphs: lines not separated by a blank line, a list marker or a change in depth of quotation."""
    paragraph: list[_Line] = []
    for line in _lines(text, language):
        blank = not text[line.start : line.end].strip()
        if paragraph and (blank or line.marked or line.quotes != paragraph[-1].quotes):
            yield paragraph
            paragraph = []
        if not blank:
            paragraph.append(line)
    if paragraph:
        yield paragraph


def _closed(text: str, line: _Line) -> bool:
    return re.search(r"[.!?…:。！？]\W{0,3}$", text[max(line.start, line.end - 4) : line.end]) is not None


def _unbroken(text: str, paragraph: list[_Line]) -> Iterator[Span]:
    """Yield the lines of a paragraph, joining lines that were wrapped only because they were full.

    A long line that ends inside a sentence is joined to the next if that begins with a lower-case letter. If any line
    is, or if the paragraph ends like a sentence and no line had room for the next word (German wraps before its nouns),
    other long lines are joined, too. A list of words without markers is left as separate lines.
    """
    sizes = [line.end - line.start for line in paragraph]
    width = max(sizes)
    open_ended = [size >= WRAPPED and not _closed(text, line) for size, line in zip(sizes, paragraph, strict=True)]
    small = [text[line.start].islower() for line in paragraph[1:]]
    words = [_FIRST.match(text, line.start, line.end) for line in paragraph[1:]]
    roomless = [size + 1 + len(word[0]) > width for size, word in zip(sizes, words, strict=False) if word is not None]
    wrapped = any(open_ and begins for open_, begins in zip(open_ended, small, strict=False)) or (
        all(roomless) and _closed(text, paragraph[-1]) and (len(paragraph) > 2 or width >= SURELY_WRAPPED)
    )
    start = paragraph[0].start
    for place, line in enumerate(paragraph):
        last = place + 1 == len(paragraph)
        if not last and open_ended[place] and (small[place] or (wrapped and sizes[place] >= 0.6 * width)):
            continue
        yield Span(start, line.end)
        start = start if last else paragraph[place + 1].start


# ---- sentences

_CLOSERS = r"[\"'”’“‘»«›‹)\]*_]*(?:\[\d+\])*"
_STOP = r"(?<![.!?…])[.!?…]++"  # only from the start of a run, so that a line of dots does not take quadratic time
_END = re.compile(rf"(?:{_STOP}{_CLOSERS}(?=\s)|[。！？｡]+{_CLOSERS})")
_FRENCH_END = re.compile(rf"(?:{_STOP}{_CLOSERS}(?:[ \u00a0\u202f]?»)?(?=\s)|[。！？｡]+{_CLOSERS})")
_DOTTED = re.compile(r"(?<!\w)\w(?:\.-?\w)*$")  # an initial or an acronym: J, U.S, p.m
_ORDINAL = re.compile(r"(?<!\w)(?:\d{1,3}|[IVX]{1,5})$")
_COLUMN = re.compile(r"\||(?<=\S)\t+(?=\S)")
_NEXT = re.compile(r"\W{0,40}")
_WORD = re.compile(r"\w+['’]?")
_BACK = 24  # number of characters before a full stop to search for an abbreviation


def sentence_spans(text: str, language: str = "en") -> list[Span]:
    """Return the spans of the sentences, without the whitespace, line ends, list markers and emoji between them.

    The end of a line ends a sentence, unless the line was wrapped because it was full; so does a tab or a vertical bar
    within a line. A full stop that is ambiguous does not end a sentence.

    Args:
        text: text of any kind.
        language: language of the abbreviations; English if it is not en, de or fr.

    Returns:
        spans in order, none empty. Together they cover every letter and digit except those in list markers and in
        Markdown's fenced code blocks.

    Example:
        >>> text = "1. Dr. No came.  He left.\\n\\n- Why?"
        >>> [text[span.start:span.end] for span in sentence_spans(text)]
        ['Dr. No came.', 'He left.', 'Why?']
    """
    caseless = not any(map(str.isupper, text))  # text without capitals does not mark where sentences start
    spans = []
    for paragraph in _paragraphs(text, language):
        for piece in (cell for whole in _unbroken(text, paragraph) for cell in _cells(text, whole)):
            start = piece.start
            for end in (*_borders(text, piece, language, caseless), piece.end):
                span = _trim(text, start, end)
                if span.end > span.start:
                    spans.append(span)
                start = end
    return spans


def _cells(text: str, piece: Span) -> Iterator[Span]:
    """Yield the cells of a piece that is a row of a table, otherwise the whole piece."""
    start = piece.start
    for match in _COLUMN.finditer(text, piece.start, piece.end):
        yield Span(start, match.start())
        start = match.end()
    yield Span(start, piece.end)


def _borders(text: str, piece: Span, language: str, caseless: bool) -> Iterator[int]:
    """Yield the offsets at which sentences end within a piece of text, except its own end."""
    rules = language_rules(language)
    start = piece.start
    for match in (_FRENCH_END if rules is FRENCH else _END).finditer(text, piece.start, piece.end):
        before, next_ = match.start(), _NEXT.match(text, match.end(), piece.end)
        assert next_ is not None
        following = text[next_.end() : next_.end() + 1] if next_.end() < piece.end else ""
        if following.islower() and not caseless:
            continue
        if match[0][0] == "." and not match[0].startswith(".."):
            tail = text[max(start, before - _BACK) : before]
            if rules.hard.search(tail) or (following.isdigit() and rules.before_numbers.search(tail)):
                continue
            soft = rules.soft.search(tail) or _DOTTED.search(tail) or (rules.ordinals and _ORDINAL.search(tail))
            if soft and (len(tail.strip()) == len(soft[0]) or not _starter(text, next_.end(), rules)):
                continue
        start = match.end()
        yield start


def _starter(text: str, position: int, rules: Language) -> bool:
    """Whether the word at `position` often begins sentences; a word followed by a full stop counts as an initial."""
    match = _WORD.match(text, position)
    if match is None or text[match.end() : match.end() + 1] == ".":
        return False
    word = match[0].replace("’", "'")
    return word in rules.starters or word.rstrip("'") in rules.starters


def _trim(text: str, start: int, end: int) -> Span:
    """Strip what need not be translated from both ends: whitespace, emoji and other symbols."""
    while start < end and _ornament(text[start]):
        start += 1
    while end > start and _ornament(text[end - 1]):
        end -= 1
    return Span(start, end)


def _ornament(character: str) -> bool:
    if character.isascii():
        return character.isspace() or not character.isprintable()
    # \ufe0f and \u20e3 turn the character before them into an emoji; U+1F3FB to U+1F3FF colour their skin
    return (
        character.isspace()
        or unicodedata.category(character) in ("So", "Cf", "Cc")
        or character in "\ufe0f\u20e3"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


# ---- clauses

_BREAKS = (
    re.compile(rf"[.!?…;:。！？；：]+{_CLOSERS}(?=\s)|[。！？；：]|\s(?=[–—-]\s)"),
    re.compile(r",(?=\s)|[，、]|\)(?=\s)|\s(?=\()"),
    None,  # before the language's conjunctions
    re.compile(r"\s"),
)


def clause_spans(text: str, span: Span, fits: Callable[[str], bool], language: str = "en") -> list[Span]:
    """Cut a sentence that is too long into parts that fit and are of similar length.

    Each cut is at the best border that is not too near the start, in this order of preference: semicolon, colon or
    dash; comma or bracket; conjunction; space; anywhere.

    Args:
        text: the whole text.
        span: span of the sentence.
        fits: whether a part is short enough; if true of a part, it should be true of every beginning of it.
        language: language of the conjunctions.

    Returns:
        spans in order, which leave out only whitespace; the span of the whole sentence if that fits.

    Example:
        >>> text = "It rained, and nobody came"
        >>> [text[start:end] for start, end in clause_spans(text, Span(0, 26), lambda part: len(part) <= 16)]
        ['It rained,', 'and nobody came']
    """
    parts = []
    start, end = span
    size = 256  # guess of how many characters fit; updated from each part
    while start < end:
        reach = _reach(text, start, end, size, fits)
        if reach == end:
            parts.append(Span(start, end))
            break
        size = reach - start
        cut = _cut(text, start, reach, end, language_rules(language))
        while not fits(text[start:cut]) and cut > start + 1:  # fewer characters may be more tokens
            cut = _cut(text, start, cut - 1, end, language_rules(language))
        part = _without_spaces(text, start, cut)
        if part.end > part.start:
            parts.append(part)
        start = _without_spaces(text, cut, end).start
    return parts


def _reach(text: str, start: int, end: int, size: int, fits: Callable[[str], bool]) -> int:
    """The furthest end of a part that fits, but at least `start + 1`."""
    low, high = start, min(end, start + size)
    while high > low and fits(text[start:high]):
        if high == end:
            return end
        low, high = high, min(end, high + size)
        size *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(text[start:middle]) else (low, middle)
    return max(low, start + 1)


def _cut(text: str, start: int, reach: int, end: int, rules: Language) -> int:
    """The best place to cut, after `start` and not past `reach`."""
    parts = -(-(end - start) // (reach - start))
    ideal = (end - start) / parts
    for pattern in _BREAKS:
        found = (match.end() for match in (pattern or rules.conjunctions).finditer(text, start, min(reach + 1, end)))
        places = [place for place in found if start + ideal / 3 <= place <= reach]
        if places:
            return min(places, key=lambda place: abs(place - start - ideal))
    cut = reach
    # a combining mark or a variation selector belongs to the character before, and so does what a joiner joins
    while cut > start + 1 and (unicodedata.category(text[cut])[0] == "M" or "\u200d" in text[cut - 1 : cut + 1]):
        cut -= 1
    return cut if cut > start + 1 else reach


def _without_spaces(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


# ---- putting together again


def replace_spans(text: str, spans: Sequence[Span], replacements: Sequence[str]) -> str:
    """Return the text with each span replaced, and everything between the spans unchanged.

    Example:
        >>> replace_spans("- Ja.\\n- Nein.\\n", [Span(2, 5), Span(8, 13)], ["Yes.", "No."])
        '- Yes.\\n- No.\\n'
    """
    pieces, position = [], 0
    for (start, end), replacement in zip(spans, replacements, strict=True):
        pieces += [text[position:start], replacement]
        position = end
    return "".join([*pieces, text[position:]])


_BREAK = re.compile(rf"[ \t]*{_LINE_END}[ \t]*(?:>[ \t]?)*")


def unwrap(sentence: str) -> str:
    """Put a sentence on a single line, with a space in place of each line end.

    Example:
        >>> unwrap("It rained\\n  all day.")
        'It rained all day.'
    """
    return _BREAK.sub(" ", sentence)


def rewrap(sentence: str, original: str) -> str:
    """Put the line ends of `original` into the sentence that replaces it, each at the nearest space.

    Example:
        >>> rewrap("Es regnete den ganzen Tag.", "It rained\\nall day.")
        'Es regnete den\\nganzen Tag.'
    """
    breaks = list(_BREAK.finditer(original))
    if not breaks:
        return sentence
    spaces = [match.start() for match in re.finditer(" ", sentence)]
    pieces, position = [], 0
    for match in breaks:
        ideal = match.start() / len(original) * len(sentence)
        later = [space for space in spaces if space >= position and space > 0]
        space = min(later, key=lambda space: abs(space - ideal)) if later else len(sentence)
        pieces += [sentence[position:space], match[0]]
        position = min(space + 1, len(sentence))
    return "".join([*pieces, sentence[position:]])
