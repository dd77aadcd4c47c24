"""Decisions and results outrank talk about them.

The model learnt from encyclopaedia articles, in which what comes first matters most. In minutes, reports and letters
what was decided or found comes last, after what somebody wanted. This is a signal beside the fitted scores, in words
that anybody can read; it adds to no score of a text that has none of them, and next to nothing where they are rare.

Shapes: `S` sentences of a body.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from suite.tasks.summarize.select import BodySentence, Floats, words_of

WEIGHT = 3.0  # deviations of all scores that a decision at the end of a text gains
USUAL = (
    0.05  # share of decisions and results from which on they gain that; of an article's sentences, one in a hundred is
)
EARLIEST = 0.6  # of that, what a decision at its beginning gains
TALKED = 0.4  # of that, what talk loses that shares a word with a later decision, but no number
SUBJECT = 5  # letters that two words of the same subject share at least
MANY = 4  # letters of a word that can be a subject


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ACTORS = (
    r"we|they|i|it was|is|was|were|been|has|have|all|everyone|everybody|members?|meeting|team|board|committee|council|"
    r"group|panel|jury|court|company|management|staff|assembly|parties|partners|both"
)
_DECIDED = re.compile(
    rf"\b(?:{_ACTORS})\s+(?:\w+ly\s+|also\s+|then\s+|finally\s+)?"
    r"(?:decided|agreed|resolved|concluded|approved|adopted|voted|rejected|chosen|chose|settled)\b"
    r"|^(?:decision|decided|agreed|resolved|resolution|conclusions?|results?|outcome|actions?|findings?|verdict)\b[^.:]{0,20}:",
    re.IGNORECASE,
)
_FOUND = re.compile(
    r"\bwe (?:found|find|conclude|show|showed)\b|\b(?:it was found|in conclusion|in summary|to sum up)\b"
    r"|\b(?:results?|experiments?|data|measurements?|findings|trials?|tests?|analysis|figures)\s+"
    r"(?:clearly\s+)?(?:show|confirm|suggest|indicate|prove)(?:s|ed)?\b"
    r"|\bthe (?:result|outcome|conclusion) (?:is|was)\b",
    re.IGNORECASE,
)
_PLANNED = re.compile(r"\bwill\b.*\b(?:on|by|until|from|at)\b[^.]*\d", re.IGNORECASE)
_OPEN = re.compile(  # nothing was decided
    r"\b(?:no (?:decision|agreement|conclusion|result)|(?:not|never|n't|yet to|nothing|nobody|neither|whether)\b"
    r"[^.,;]{0,25}\b(?:decid|agree|resolv|conclu|approv|adopt|vot|reject|settl|found|show))",
    re.IGNORECASE,
)
_TALK = re.compile(
    r"\b(?:wants?|wanted|would (?:like|rather|prefer)|propos(?:e|es|ed|al)|suggest(?:s|ed)?|hope[sd]?|prefer(?:s|red)?|"
    r"thinks?|thought|believe[sd]?|ask(?:s|ed)?|wonder(?:s|ed)?|argue[sd]?|feels?|felt|recommend(?:s|ed)?|discussed|could|might|"
    r"maybe|perhaps|doubt(?:s|ed)?|expect(?:s|ed)?|planned|objected|was in favou?r|was against|hypothes[ie]s)\b",
    re.IGNORECASE,
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_KINDS = {
    "date": re.compile(
        rf"\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\b|\b{_MONTH}\s+\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
        re.IGNORECASE,
    ),
    "money": re.compile(r"[$€£]\s?\d|\d\s?(?:[$€£]|euros?\b|dollars?\b|pounds?\b)", re.IGNORECASE),
    "share": re.compile(r"\d\s?(?:%|per ?cent\b)", re.IGNORECASE),
    "number": re.compile(r"\d"),
}


def outcome(text: str) -> float:
    """How much a sentence reads as a decision or a result: 1, for a plan with a date or number 0.5, else 0."""
    if _OPEN.search(text):
        return 0.0
    if _DECIDED.search(text) or _FOUND.search(text):
        return 1.0
    return 0.5 if _PLANNED.search(text) and not _TALK.search(text) else 0.0


def emphasis(sentences: Sequence[BodySentence]) -> Floats:
    """(S,) what decisions and results gain, and talk that a later decision settled loses, in deviations of the scores.

    Talk loses most if the later decision shares a word with it and has a number of the same kind: "Anna wants to
    release on 3 June" before "The team decided to release on 17 June".
    """
    gains = np.array([outcome(one.text) for one in sentences])
    weight = WEIGHT * min(1.0, float(gains.mean()) / USUAL) ** 2 if len(gains) else 0.0
    found = gains * weight * np.linspace(EARLIEST, 1.0, max(1, len(sentences)))[: len(sentences)]
    settled: dict[str, set[str]] = {}  # the kinds of numbers of later decisions, by the beginnings of their words
    for place in range(len(sentences) - 1, -1, -1):
        text = sentences[place].text
        if gains[place] == 1:
            for subject in _subjects(text):
                settled.setdefault(subject, set()).update(_kinds(text))
        elif gains[place] == 0 and _TALK.search(text):
            kinds, subjects = _kinds(text), _subjects(text) & settled.keys()
            if any(not kinds.isdisjoint(settled[subject]) for subject in subjects):
                found[place] = -weight
            elif subjects:
                found[place] = -weight * TALKED
    return found


def _kinds(text: str) -> set[str]:
    """Return the kind of a text's numbers; "number" alone if they are of no other."""
    found = {name for name, pattern in _KINDS.items() if pattern.search(text)}
    return found - {"number"} or found


def _subjects(text: str) -> set[str]:
    """Return the beginnings of the longer words of a text that are no numbers."""
    return {word[:SUBJECT] for word in words_of(text) if len(word) >= MANY and word.isalpha()} - _EMPTY


_EMPTY = frozenset(
    word[:SUBJECT]
    for word in _words(
        "that this with from have will would could should want wants wanted team they them their there then than what "
        "when where which were been being after before about over under into only also both some more most many much "
        "such very decided agreed resolved approved voted concluded adopted found meeting board committee thinks "
        "thought asked january february march april june july august september october november december"
    )
)
