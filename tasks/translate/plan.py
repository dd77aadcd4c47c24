"""Before the search: detect the language of a text, find its sentences, and collect early warnings."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from suite.data.language import language_probabilities, same_language
from suite.data.sentences import Span, clause_spans, sentence_spans, unwrap
from suite.errors import ConfigError
from suite.tasks.translate import glossary as terms
from suite.tasks.translate.checks import has_words
from suite.tasks.translate.format import Languages
from suite.text.tokenizer import Tokenizer

SURE = 0.95  # probability from which on a text is taken to be in another language than stated
SURE_LETTERS = 12  # letters that a text needs for that


@dataclass(frozen=True, kw_only=True)
class SentenceJob:
    """A sentence to translate; equal ones are translated once.

    Attributes:
        source: on one line.
        languages: from and to.
        forced: what the translation must start with.
        terms: of the glossary that the sentence has, each with its translation.
    """

    source: str
    languages: tuple[str, str]
    forced: str
    terms: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class TextPlan:
    """How a text is translated.

    Attributes:
        text: all of it.
        source, target: languages; None for a text without words.
        probability: of `source`, where it was identified.
        spans: where the sentences stand.
        jobs: of each span.
        notes: for each span a warning, or None.
        warnings: about the whole text.
    """

    text: str
    source: str | None
    target: str | None
    probability: float | None = None
    spans: list[Span] = field(default_factory=list)
    jobs: list[SentenceJob] = field(default_factory=list)
    notes: list[str | None] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Planner:
    """Plans translations.

    Args:
        known: languages of the model.
        tokenizer: of the model.
        limit: tokens of a sentence; longer ones are cut.
        name: of the model, for warnings.
    """

    def __init__(self, known: Languages, tokenizer: Tokenizer, limit: int, name: str) -> None:
        self.known, self.tokenizer, self.limit, self.name = known, tokenizer, limit, name

    def plan(
        self, text: str, source: str | None, target: str | None, prefix: str, glossary: Mapping[str, str]
    ) -> TextPlan:
        """Plan the translation of a text.

        Args:
            text: of any length and layout.
            source, target: languages, as far as they are given.
            prefix: what its translation must start with.
            glossary: source terms and their translations.

        Raises:
            ConfigError: the language cannot be detected, or there are several to translate into.
        """
        if not has_words(text):
            return TextPlan(text=text, source=source, target=target)
        given, probability = source, None
        if source is None:
            source, probability = self._identify(text, target)
        target = target or self._only_target(source)
        plan = TextPlan(
            text=text,
            source=source,
            target=target,
            probability=probability,
            warnings=list(self._doubts(text, source, target, given)),
        )
        for span, note in self._segments(text, source):
            sentence = clean(text[span.start : span.end])
            forced = "" if plan.jobs else prefix
            wanted = terms.wanted(glossary, sentence)
            plan.spans.append(span)
            plan.notes.append(note)
            plan.jobs.append(SentenceJob(source=sentence, languages=(source, target), forced=forced, terms=wanted))
        return plan

    def _doubts(self, text: str, source: str, target: str, given: str | None) -> Iterator[str]:
        """A warning where the text looks like another language than its source."""
        letters = sum(map(str.isalpha, text[:1000]))
        code, share = next(iter(language_probabilities(text).items()))
        if letters >= SURE_LETTERS and share >= SURE and not same_language(code, source):
            doubt = "" if given else f", which {self.name} cannot translate to {target}"
            yield f"the text looks like {code} ({share:.0%}){doubt}; it was translated from {source}"

    def _identify(self, text: str, target: str | None) -> tuple[str, float | None]:
        """The language of a text, among those that can be translated, and how probable it is."""
        sources = list(dict.fromkeys(start for start, end in self.known.directions if target in (None, end)))
        if len(sources) == 1:
            return sources[0], None
        probabilities = language_probabilities(text, sources)
        if not probabilities:
            raise ConfigError(f"the language of the text cannot be detected; choose one: {_choices('--from', sources)}")
        return next(iter(probabilities.items()))

    def _only_target(self, source: str) -> str:
        targets = self.known.targets(source)
        if len(targets) > 1:
            raise ConfigError(f"target language needed: {_choices('--to', targets)}")
        return targets[0]

    def _segments(self, text: str, language: str) -> Iterator[tuple[Span, str | None]]:
        """Spans that are translated as one sentence each, with a warning where a longer sentence was cut."""

        def fits(part: str) -> bool:
            return len(self.tokenizer.encode(clean(part))) <= self.limit

        for span in sentence_spans(text, language):
            if not has_words(text[span.start : span.end]):
                continue
            parts = clause_spans(text, span, fits, language)
            note = None
            if len(parts) > 1:
                size = len(self.tokenizer.encode(clean(text[span.start : span.end])))
                note = f"{size:,} tokens, but the model reads {self.limit:,} at once; translated in {len(parts)} parts"
            for part in parts:
                if has_words(text[part.start : part.end]):
                    yield part, note
                    note = None


def clean(text: str) -> str:
    """A sentence as the model knows them: composed characters (NFC), one line, single spaces."""
    return unicodedata.normalize("NFC", " ".join(unwrap(text).split()))


def _choices(option: str, languages: Iterable[str]) -> str:
    """The ways of giving an option, for an error: "--to de or --to fr"."""
    return " or ".join(f"{option} {language}" for language in languages)
