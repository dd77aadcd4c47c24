"""Names and numbers of a written summary come from its article or title alone: the rule for decoding.

`SourceWords` reads the summary character by character. A word with a capital letter, a digit or a letter beyond ASCII
must be a word of the source, spelt as there (or the plural of a people's name; what follows an apostrophe is a word
of its own, so possessives need no rule). Two such words side by side ("John Smith", "12 May") must stand side by side
in the source too, and one that the source always continues is continued ("United" with "States", "12" with "May"); a
number that always ends such a run does so here ("May 12", not "12 people"), a year excepted. At the beginning of a
sentence, words that are no names may be capitalised: those that the source has in lower case, and function words.
Numbers from eleven on in words, and words like "million", must be words of the source.

What this cannot see is a name after a wrong verb: each name and number is the article's, their relation may not be.

It shares no code with `suite.tasks.summarize.claims`, which measures what is left.
"""

# ruff: noqa: RUF001 (typographic characters are among what is read)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Set
from functools import lru_cache
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"\d+(?:[.,]\d+)*(?:[^\W_]|[\u0300-\u036f])*|(?:[^\W_]|[\u0300-\u036f])+")
_JOINTS = {" ": " ", "\u00a0": " ", "-": "-", "–": "-", "‑": "-"}  # between two words of a name or a date
_YEAR = re.compile(r"[12]\d\d\d")
_STARTS = frozenset('.!?:;"“‘(\n')  # after them a word may be capitalised that is no name
_BARRED = frozenset("[]{}<>|\\^_~")  # what a model learnt from leftovers of markup
_FREE = "\0"  # a word in lower case that no rule is about
_PEOPLE = ("an", "ian", "er", "ist")  # endings of names that may be written in the plural
TYPOGRAPHY = "–—’“”‘\u00a0"

PRONOUNS = _words("He She It They His Her Its Their This These That Those Such")
_FUNCTION = PRONOUNS | _words(
    "The A An In On At As Of To By For From With And But Or If After Before During Since Until While When Where "
    "Because Although Though Despite However Also Both Between Under Over Among Through Later Today There Some Most "
    "Many Much Several Each Every Other Others Another All Any One Two Three Four Five Six Seven Eight Nine Ten "
    "First Second Not No Only Like According Along Around Within Without Who Which What How"
)
_NUMBERS = _words(
    "eleve twelv twelf thirt fourtee forty fortie fiftee fifti fifty sixtee sixti sixty sevente seventi seventy "
    "eightee eighti eighty ninete nineti ninety twent hundre thousan million billion trillion"
)


class Reading(NamedTuple):
    """What has been read of a summary.

    Attributes:
        word: the open word, as far as a rule is about it; "" between words.
        before: the name or number before it, if only a joint stands between, and that joint; or a comma after a number.
        opens: 0 within a sentence, 1 at the beginning of a sentence or a quotation, 2 at that of the text.
        unfinished: whether the source continues `before` wherever it stands.
    """

    word: str
    before: str
    opens: int
    unfinished: bool = False


class SourceWords:
    """The automaton described above; implements `suite.sampling.text_grammar.TextAutomaton`.

    Args:
        title, body: of the article, which names and numbers may come from.

    Example:
        >>> words = SourceWords("Ada Lovelace", "In 1843 she met Charles Babbage.")
        >>> [words.reads(text) for text in ("Lovelace met Babbage in 1843", "Lovelace met Byron", "Ada Babbage")]
        [True, False, False]
    """

    def __init__(self, title: str, body: str) -> None:
        self.known: set[str] = set()
        self.following: dict[str, set[str]] = {}
        self.ending: set[str] = set()  # what ends a run of names and numbers somewhere in the source
        self.leading: set[str] = set()  # and what begins one
        lower: set[str] = set()
        for text in (title, body):
            self._read_source(text, lower)
        self.openers = frozenset({word[:1].upper() + word[1:] for word in lower} | _FUNCTION)
        # a summary begins with no pronoun, unless its title does ("They Might Be Giants")
        barred = PRONOUNS - {match[0] for match in _WORD.finditer(title)}
        self.loose = frozenset(word for word in self.known if word in self.leading or not word[0].isdigit())
        self.first_openers, self.first_known = self.openers - barred, self.loose - barred
        self.beginnings, self.first_beginnings = _prefixes(self.loose), _prefixes(self.first_known)
        self.opening = _prefixes(self.openers)
        self.first_opening = _prefixes(self.first_openers)
        self.following_beginnings = {word: _prefixes(after) for word, after in self.following.items()}
        self.numbers = [stem for stem in _NUMBERS if not any(word.startswith(stem) for word in lower)]
        self.number_beginnings = _prefixes(self.numbers)

    def _read_source(self, text: str, lower: set[str]) -> None:
        """Add the names and numbers of a text, which of them follow each other, and its words in lower case."""
        end, before = 0, ""
        initialled = ""  # the name before an initial: of "Ada B. Smith", "Ada Smith" too
        for match in _WORD.finditer(text):
            word, between, end = match[0], text[end : match.start()], match.end()
            joint = before and between in _JOINTS and _begins_name(word)
            comma = before[-1:].isdigit() and between == ", " and word[0].isdigit()
            spaced = bool(before) and between == ". " and (len(before) == 1 or bool(initialled))
            if before and not joint:
                self.ending.add(before)
            if not _is_claim(word):
                lower.add(word)
                before = initialled = ""
                continue
            forms = {word, word + "s"} if word.endswith(_PEOPLE) else {word}
            self.known |= forms
            if not _begins_name(word):  # "café", "iPod": no part of a run
                self.ending.add(word)
                before = initialled = ""
                continue
            self.ending |= forms - {word}
            if not (joint or comma) or _YEAR.fullmatch(word):
                self.leading |= forms
            if joint or comma:
                self.following.setdefault(before + ("," if comma else _JOINTS[between]), set()).update(forms)
            if initialled and (joint or spaced):
                self.following.setdefault(initialled + " ", set()).update(forms)
            initialled = before if joint and len(word) == 1 else ""
            before = word
        self.ending.add(before)

    # ---- the automaton

    def start(self) -> Reading:
        """Return the state before the summary."""
        return Reading("", "", 2)

    def step(self, state: Reading, character: str, /) -> Reading | None:
        """Return the state after one more character; None if it would end or lengthen a word wrongly."""
        word = state.word
        if word[-1:] in (".", ","):  # after a number: within it only if a digit comes
            if character.isdigit():
                return self._longer(state, word + character)
            after = self._separated(state._replace(word=word[:-1]), word[-1])
            return None if after is None else self.step(after, character)
        if _is_letter(character):
            if word == _FREE:
                return None if _is_claim(character) else state
            if state.unfinished and not word and not _begins_name(character):
                return None
            return self._longer(state, word + character)
        if character in ".," and word[:1].isdigit() and word + character in self._beginnings(state, word):
            return state._replace(word=word + character)
        return self._separated(state, character)

    def may_end(self, state: Reading, /) -> bool:
        """Whether the last word is whole, and there is one."""
        return state != self.start() and self._separated(state._replace(word=state.word.rstrip(".,")), ".") is not None

    def reads(self, text: str) -> bool:
        """Whether a text may be written."""
        state: Reading | None = self.start()
        for character in text:
            state = self.step(state, character) if state is not None else None
        return state is not None and self.may_end(state)

    def _longer(self, state: Reading, word: str) -> Reading | None:
        """Return the state with a longer word."""
        if not _is_claim(word):
            if word in self.numbers:
                return None
            matters = word in self.number_beginnings or word in self.beginnings
            return Reading(word if matters else _FREE, "", 0)
        if word in self._beginnings(state, word):
            return state._replace(word=word)
        opening = (frozenset(), self.opening, self.first_opening)[state.opens]
        return state._replace(word=word) if word in opening else None

    def _beginnings(self, state: Reading, word: str) -> Set[str]:
        """Return the beginnings of the names and numbers that may stand where `word` does."""
        if self._is_bound(state, word):
            return self.following_beginnings.get(state.before, frozenset())
        return self.first_beginnings if state.opens == 2 else self.beginnings

    def _is_known(self, state: Reading) -> bool:
        """Whether the open word is a name or number that may stand here."""
        if self._is_bound(state, state.word):
            return state.word in self.following.get(state.before, frozenset())
        return state.word in (self.first_known if state.opens == 2 else self.loose)

    @staticmethod
    def _is_bound(state: Reading, word: str) -> bool:
        """Whether a word belongs to the name or number before it.

        After a comma, a number alone does; after a number that need not go on ("In 1960 Ada"), a name need not.
        """
        before = state.before
        if not before or not _begins_name(word):
            return False
        if word[0].isdigit():
            return True
        return before[-1] != "," and (state.unfinished or not before[0].isdigit())

    def _separated(self, state: Reading, character: str) -> Reading | None:
        """Return the state after a character that no word has; None if the word before it is not whole."""
        word, opens = state.word, 1 if character in _STARTS else 0
        if character in _BARRED:
            return None
        if not word:
            if state.unfinished:
                return None
            before = state.before if character == " " and state.before[-1:] == "," else ""
            return Reading("", before, 0 if character == "," else max(opens, state.opens))
        if word == _FREE or not _is_claim(word):
            return Reading("", "", opens)
        opener = word in (frozenset(), self.openers, self.first_openers)[state.opens]
        known = self._is_known(state)
        if not known and not opener:
            return None
        if opener or word in _FUNCTION or not _begins_name(word):
            return Reading("", "", opens)  # "The Beatles", "In 1960"
        if character in _JOINTS:
            before, unfinished = word + _JOINTS[character], word not in self.ending
            return None if unfinished and before not in self.following else Reading("", before, opens, unfinished)
        if word not in self.ending:
            return None
        return Reading("", word + "," if character == "," and word[0].isdigit() else "", opens)


def _prefixes(words: Iterable[str]) -> frozenset[str]:
    """Return all beginnings of words, themselves included."""
    return frozenset(word[:length] for word in words for length in range(1, len(word) + 1))


@lru_cache(maxsize=65536)
def _is_claim(word: str) -> bool:
    """Whether a word has a capital letter, a digit, or a letter beyond ASCII, which is not for the model to spell."""
    return not word.isascii() or any(one.isdigit() or one != one.lower() for one in word)


def _begins_name(word: str) -> bool:
    """Whether a word begins with a capital letter or a digit."""
    return word[0].isdigit() or word[0] != word[0].lower()


@lru_cache(maxsize=4096)
def _is_letter(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) == "Mn"
