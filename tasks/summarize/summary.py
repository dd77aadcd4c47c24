"""Summaries: the result of the pipeline, and its construction from text that a model wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from suite.data.articles import Article
from suite.data.pages import places_in
from suite.data.sentences import sentence_spans
from suite.task import Result
from suite.tasks.summarize.claims import unsupported
from suite.tasks.summarize.options import Style
from suite.tasks.summarize.select import BodySentence, is_said, pairs_of, words_of
from suite.tasks.summarize.standing import pronoun


@dataclass(frozen=True, kw_only=True)
class SummarySentence:
    """A sentence of a summary.

    Attributes:
        text: as in the summary.
        start, end: characters of the article's body (of the text, if that was given) that it was taken from. For a
            sentence that was written: those of the sentence that shares most word pairs with it; None where no
            sentence shares any.
        share: share of its word pairs that occur in that source; 1 for a sentence that was taken.
    """

    text: str
    start: int | None
    end: int | None
    share: float


@dataclass(frozen=True, kw_only=True)
class Summary(Result):
    """A summary of an article.

    Attributes:
        title: of the article.
        text: the summary.
        style: "extract", "write" or "tldr".
        sentences: of the summary, with where each comes from.
        warnings: one line each: names and numbers that the article does not have, or a sentence over the limit.
        read: sentences of the body that the model saw.
        of: sentences in the body.
    """

    title: str
    text: str
    style: Style
    sentences: tuple[SummarySentence, ...]
    warnings: tuple[str, ...]
    read: int
    of: int


def in_text(summary: Summary, text: str, body: str) -> Summary:
    """Return the summary with its sentences' places in the plain text instead of in the article's body."""
    places = places_in(text, body)

    def moved(one: SummarySentence) -> SummarySentence:
        if one.start is None or one.end is None:
            return one
        first, last = (len("".join(body[:place].split())) for place in (one.start, one.end))
        return replace(one, start=places[first], end=places[last - 1] + 1)

    return replace(summary, sentences=tuple(map(moved, summary.sentences)))


def written(
    article: Article,
    body: Sequence[BodySentence],
    text: str,
    *,
    finished: bool,
    style: Style,
    max_words: int | None,
    sentences: int | None,
    read: int,
) -> Summary:
    """Return a summary made of the text that a model wrote: whole sentences, their likely sources, and warnings.

    Args:
        article: that the text is about.
        body: all sentences of its body.
        text: as generated.
        finished: whether the model ended it itself; otherwise its last sentence is left out.
        style: of the summary.
        max_words, sentences: limits; None for none.
        read: sentences of the body that the model saw.
    """
    kept = _within(_tidied(text), finished, max_words, sentences)
    summary = " ".join(kept)
    warnings = []
    if kept and pronoun(kept[0]) and pronoun(kept[0]) not in words_of(article.title)[:1]:
        warnings.append("the summary begins with a pronoun")
    doubts = unsupported(summary, f"{article.title}\n{article.body}")
    return Summary(
        title=article.title,
        text=summary,
        style=style,
        sentences=tuple(_sourced(kept, body)),
        warnings=tuple(
            dict.fromkeys([*warnings, *(f"the {one.kind} {one.text!r} is not in the article" for one in doubts)])
        ),
        read=read,
        of=len(body),
    )


_EMPTY = re.compile(r"\s*\(\s*[;,:\s]*\)|\s*\"\s*\"")
_HANGING = re.compile(r"\(\s*[;,:]\s*")


def _tidied(text: str) -> str:
    """Return a text without empty brackets and quotation marks, left where pronunciations were cut."""
    return _HANGING.sub("(", _EMPTY.sub("", text)).strip()


def _within(text: str, finished: bool, max_words: int | None, sentences: int | None) -> list[str]:
    """Return the first sentences of a text, within limits; a first sentence that is too long is cut.

    What says the same again is left out, and so are pronouns at the beginning while another sentence follows.
    """
    spans = sentence_spans(text)
    if not finished and len(spans) > 1:
        spans = spans[:-1]  # it was cut off
    told = [text[start:end] for start, end in spans]
    begin = next((place for place, one in enumerate(told) if not pronoun(one)), 0)
    kept: list[str] = []
    said: list[frozenset[str]] = []
    words = 0
    for one in told[begin:]:
        if is_said(words_of(one), said):
            continue
        words += len(one.split())
        if kept and (len(kept) == sentences or (max_words is not None and words > max_words)):
            break
        kept.append(one)
        said.append(frozenset(words_of(one)))
    if max_words is not None and kept:
        kept[0] = " ".join(kept[0].split()[:max_words])
    return kept


def extracted(body: Sequence[BodySentence], chosen: Sequence[int], texts: Sequence[str]) -> list[SummarySentence]:
    """Return the chosen sentences of a body, each with its text in the summary, which may have a noun for a pronoun."""
    found = []
    for place, text in zip(chosen, texts, strict=True):
        one = body[place]
        pairs = pairs_of(words_of(text))
        share = 1.0 if text == one.text else len(pairs & pairs_of(words_of(one.text))) / max(1, len(pairs))
        found.append(SummarySentence(text=text, start=one.start, end=one.end, share=share))
    return found


def _sourced(texts: Sequence[str], body: Sequence[BodySentence]) -> list[SummarySentence]:
    """Return written sentences, each with the sentence of the body that shares most word pairs with it."""
    found = [SummarySentence(text=text, start=None, end=None, share=0.0) for text in texts]
    own = [pairs_of(words_of(text)) for text in texts]
    for sentence in body:
        pairs = pairs_of(words_of(sentence.text))
        for place, one in enumerate(found):
            share = len(own[place] & pairs) / max(1, len(own[place]))
            if share > one.share:
                found[place] = SummarySentence(text=one.text, start=sentence.start, end=sentence.end, share=share)
    return found
