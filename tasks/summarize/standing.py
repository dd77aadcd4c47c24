"""Which sentences can stand in an extract, and what they need to: a pronoun needs its noun.

A sentence that begins with a pronoun ("They are tuned in fifths.") is taken with the sentence before it. Where its
paragraph shows that the pronoun means the subject of the article, its title may stand for it, in brackets as in a
quotation. Other such sentences are not taken.
"""

# ruff: noqa: RUF001 (typographic characters are among what is read)

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from suite.tasks.summarize.select import BodySentence, words_of

LONGEST = 2  # sentences that one may bring along
USUAL = 0.6  # share of the sentences beginning with a pronoun that an article's own pronoun begins
FEWEST = 2  # of them
SHORTEST = 3  # letters of a word of the title that names its subject
LIFE = 80  # characters
OPENING = 3  # words, among which a sentence about the title's subject names it
_ARTICLES = frozenset({"the", "and", "for", "von", "van", "der", "del"})

_LINK = (
    r"(?:However|Moreover|Furthermore|Therefore|Thus|Hence|Instead|Later|Then|Also|And|But|So|Yet|Still|Here|Finally|"
    r"In addition|As such|At first|For example)\b,?\s+"
)
_TIME = (  # "In 1725, he", "To date, it", "Of the year 1996, it": no noun that a pronoun could mean
    r"(?:In|On|By|Of|To|At|Since|From|Until|During|After|Before|Around)(?:\s+(?:\d[\w–-]*|the|early|late|mid|end|beginning|of|year|"
    r"years|date|time|it|this|that|same|age|spring|summer|autumn|winter|January|February|March|April|May|June|July|August|"
    r"September|October|November|December)\b)+,?\s+"
)
_PRONOUN = re.compile(
    rf"^[\"“‘'(\[]*(?:{_LINK}|{_TIME})?(?P<word>he|she|it|they|his|her|hers|its|their|theirs|him|them|this|these|that|those|"
    r"such|the (?:former|latter|same)|the other|both of (?:them|these))\b",
    re.IGNORECASE,
)
# "It was agreed that": no noun is meant
_EMPTY = re.compile(
    r"\b(?:it|this)\s+(?:is|was|has been|had been|will be|became|seems|seemed|appears)\s+"
    r"(?:(?:not|also|then|now|\w+ly)\s+)?"
    r"(?:\w+ed|clear|likely|unlikely|possible|impossible|known|said|thought|found|held|shown|believed|true|necessary|important|"
    r"unclear|common|hoped|felt|difficult|easy)\s+(?:that|to|by\s+\w+\s+that|whether|if|how|why)\b|\bit\s+(?:rain|snow)",
    re.IGNORECASE,
)
_FAMILIES = {
    word: family
    for family, words in {
        "he": "he his him", "she": "she her hers", "it": "it its", "they": "they their theirs them",
    }.items()
    for word in words.split()
}  # fmt: skip
_LIFE = re.compile(r"\b(?:born|died|buried|married|son of|daughter of)\b")
_PERSONS = frozenset({"he", "she", "his", "her"})
_OWNERS = frozenset({"his", "her", "its", "their"})


def pronoun(text: str) -> str:
    """Return the pronoun that a sentence begins with, in lower case; "" if it begins with none that means something.

    Example:
        >>> pronoun("However, they are tuned in fifths."), pronoun("It was agreed that Ada writes."), pronoun("Items.")
        ('they', '', '')
    """
    match = _PRONOUN.match(text)
    return "" if match is None or _EMPTY.search(text[: match.end() + 60]) else match["word"].lower()


class Standing:
    """What the sentences of a body need to stand in an extract.

    Args:
        title: of the article; "" if it has none.
        sentences: all of its body.
    """

    def __init__(self, title: str, sentences: Sequence[BodySentence]) -> None:
        self.sentences = sentences
        self.pronouns = [pronoun(one.text) for one in sentences]
        self.title = re.sub(r"\s*\([^)]*\)$", "", title).strip()
        self.names = {word for word in words_of(self.title) if len(word) >= SHORTEST} - _ARTICLES
        self.own = self._own()

    def _own(self) -> str:
        """Return the pronoun that means the title's subject: "he", "she", "it" or "they"; "" if that is not clear."""
        count = Counter(_FAMILIES[word] for word in self.pronouns if word in _FAMILIES)
        if not count or not self.names or not self.title[0].isupper():
            return ""
        [(family, most)] = count.most_common(1)
        if family in ("he", "she") and not self._is_life():
            return ""  # a novel's hero is not the novel
        named = sum(not self.names.isdisjoint(words_of(one.text)[:6]) for one in self.sentences)
        return family if most >= max(FEWEST, USUAL * count.total()) and named >= FEWEST else ""

    def _is_life(self) -> bool:
        """Whether the title is the name of somebody whose birth, family or death the body begins a sentence with."""
        first = self.title.split()[0].lower()
        return not any(first in one.text.split() for one in self.sentences) and any(
            _LIFE.search(one.text[:LIFE]) and (self._names_title(one.text) or (word in _PERSONS and one.place == 0))
            for one, word in zip(self.sentences, self.pronouns, strict=True)
        )

    def before(self, place: int) -> list[int] | None:
        """Return the sentences that must stand before one; None if no sentence of its paragraph has its noun."""
        if not self.pronouns[place] or place == 0 or self.means_title(place):
            return []
        found: list[int] = []
        while self.pronouns[place]:
            if self.sentences[place].place == 0 or len(found) == LONGEST:
                return None
            place -= 1
            found.insert(0, place)
            if self.means_title(place):
                break
        return found

    def means_title(self, place: int) -> bool:
        """Whether a sentence's pronoun means the title's subject.

        It does if it is the article's own pronoun, and no sentence of the paragraph before it begins otherwise than
        with that or with the title.
        """
        while self.own and _FAMILIES.get(self.pronouns[place]) == self.own:
            if self.sentences[place].place == 0:
                return True
            place -= 1
            if not self.pronouns[place]:
                return self._names_title(self.sentences[place].text)
        return False

    def texts(self, chosen: Sequence[int]) -> list[str]:
        """Return the texts of chosen sentences, in order, with the title for a pronoun whose noun was left out.

        Args:
            chosen: in order of the text; what `before` wants is among them.
        """
        found, clear = [], False  # clear: the title's subject was the last to be named
        for number, place in enumerate(chosen):
            text = self.sentences[place].text
            follows = number > 0 and chosen[number - 1] == place - 1 and self.sentences[place].place > 0
            if self.pronouns[place] and self.means_title(place):
                if not (clear or follows):
                    text = self._titled(text)
                clear = True
            else:
                clear = bool(self.own) and not self.pronouns[place] and self._names_title(text)
            found.append(text)
        return found

    def _names_title(self, text: str) -> bool:
        """Whether a sentence begins with a name of the title's subject."""
        return not self.names.isdisjoint(words_of(text)[:OPENING])

    def _titled(self, text: str) -> str:
        """Return a sentence with the title in brackets for the pronoun that it begins with."""
        match = _PRONOUN.match(text)
        assert match is not None
        name = f"[{self.title}]" + ("'s" if match["word"].lower() in _OWNERS else "")
        return text[: match.start("word")] + name + text[match.end("word") :]
