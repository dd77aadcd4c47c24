"""`pipeline("translate")`: texts in, translations out, with what is doubtful about them.

The flow: a text's language, its sentences, those of all texts batched by length, beam search, checks, and the
sentences put back between what stood between them.
"""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from suite.checkpoint import Model
from suite.data.language import language_probabilities, same_language
from suite.data.sentences import Span, clause_spans, replace_spans, rewrap, sentence_spans, unwrap
from suite.errors import CheckpointError, ConfigError, DataError
from suite.sampling import beam_search
from suite.task import Prompt, suggest
from suite.tasks.translate import glossary as terms
from suite.tasks.translate.checks import concerns, has_words
from suite.tasks.translate.format import Languages, prompt
from suite.tasks.translate.score import target_logprobs
from suite.tasks.translate.task import FRAME
from suite.text.tokenizer import Tokenizer
from suite.wording import count

if TYPE_CHECKING:
    from suite.tasks.translate.align import Alignment

SURE = 0.95  # probability from which on a text is taken to be in another language than was said
SURE_LETTERS = 12  # and letters that it takes to be sure
GROWTH, ROOM = 2, 10  # a translation may have `GROWTH` times the tokens of its source, and `ROOM` more
BATCH_TOKENS = 16384  # positions of all beams in a batch: bounds memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One translation of a sentence.

    Attributes:
        text: the translation.
        tokens: its ids, those of a forced start included, without `<eos>`.
        logprob: of all tokens and `<eos>` under the model (nats).
        score: `logprob` a token.
        finish: "stop", or "length" where it was cut off.
    """

    text: str
    tokens: tuple[int, ...]
    logprob: float
    score: float
    finish: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence and its translation.

    Attributes:
        source: as the model read it: on one line, without double spaces.
        start, end: where it stands in the text, in characters.
        text: the translation, with the source's line ends.
        tokens, logprob, score, finish: see `Hypothesis`.
        alternatives: the next best hypotheses, best first; empty unless asked for.
        warnings: what is doubtful about it, a line each.
    """

    source: str
    start: int
    end: int
    text: str
    tokens: tuple[int, ...]
    logprob: float
    score: float
    finish: str
    alternatives: tuple[Hypothesis, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """A translated text.

    Attributes:
        source_text, text: before and after.
        source, target: languages; None where there was no word to tell them by.
        probability: of `source`, where it was identified among the model's languages; None where it was given.
        score: log-probability a token, over all sentences; 0 where there are none.
        sentences: in order. What stands between them is in both texts the same, and so is what has no words.
        warnings: what is doubtful, a line each, with the sentence.
    """

    source_text: str
    text: str
    source: str | None
    target: str | None
    probability: float | None
    score: float
    sentences: tuple[Sentence, ...]
    warnings: tuple[str, ...]
    _align: Callable[[Sentence, str, str], Alignment] = dataclasses.field(repr=False, compare=False)

    @cached_property
    def alignment(self) -> tuple[Alignment, ...]:
        """For each sentence, which source words the model looked at for each target word; worked out when asked for."""
        if self.source is None or self.target is None:
            return ()
        return tuple(self._align(sentence, self.source, self.target) for sentence in self.sentences)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Job:
    """A sentence to translate; equal ones are translated once."""

    source: str
    languages: tuple[str, str]
    forced: str
    terms: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is to be done for a text."""

    text: str
    source: str | None
    target: str | None
    probability: float | None
    spans: list[Span]
    jobs: list[_Job]
    warnings: list[str]
    notes: list[str | None]  # per span, a warning that is known before translation


class Translator:
    """Translates texts.

    Args:
        model: a translation model.
        source: language of the texts (None: identified, text by text).
        target: language to translate into (None: the only one that the model has for the source).
        beams: hypotheses kept in beam search; 1 is greedy.
        length_penalty: the power of the length that a hypothesis' log-probability is divided by.
        batch_tokens: positions of all beams of a batch at most; bounds memory, changes no result.

    Raises:
        CheckpointError: the model is no translation model.
        ConfigError: it does not know a language, or was not trained for the direction; or a number is out of its range.

    Example:
        >>> from suite import pipeline
        >>> translate = pipeline("translate", source="de", target="en")  # doctest: +SKIP
        >>> translate("Guten Morgen!")[0].text  # doctest: +SKIP
        'Good morning!'
    """

    def __init__(
        self,
        model: Model,
        *,
        source: str | None = None,
        target: str | None = None,
        beams: int = 5,
        length_penalty: float = 1.0,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        if "languages" not in model.extra:
            raise CheckpointError(f"{model.name} is not a translation model (its task is {model.task}); choose another")
        if not math.isfinite(length_penalty):
            raise ConfigError(f"length_penalty is {length_penalty}, but must be a number")
        check_beams(beams)
        self.known = Languages.from_extra(model.extra, model.name)
        if model.tokenizer is None:
            raise DataError(f"{model.name} has no tokenizer, so it cannot translate text")
        self.model = model
        self.tokenizer: Tokenizer = model.tokenizer
        self.source, self.target = source, target
        self.beams, self.length_penalty, self.batch_tokens = beams, length_penalty, batch_tokens
        # what the model has seen, and never more than leaves as much room again for the translation
        self.limit = max(1, min(self.known.source_limit, (model.config.context - FRAME) // 2))
        self.check_direction(source, target)

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        beams: int | None = None,
        n_best: int = 1,
        prefix: str = "",
        glossary: Mapping[str, str] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> list[Translation]:
        """Translate each text, sentence by sentence.

        Args:
            texts: one, or several; of any length and layout.
            source, target, beams: for this call, instead of the translator's.
            n_best: hypotheses for each sentence: the best, and `n_best - 1` alternatives; at most `beams`.
            prefix: what each text's translation must start with.
            glossary: source terms and the words that must stand for them, matched as whole words without regard to
                capitals. A sentence that still lacks one has a warning.
            progress: called with the number of sentences just translated.

        Returns:
            a translation for each text. Its warnings tell of a source in another language than stated, of sentences
            that were split, cut off, or came out conspicuously short, long or repetitive, and of missing terms.

        Raises:
            ConfigError: an unknown language, a direction that was not trained, or an argument out of its range.
            DataError: a text that cannot be encoded in UTF-8.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        source = self.source if source is None else source
        target = self.target if target is None else target
        beams = self.beams if beams is None else beams
        self.check_direction(source, target)
        check_beams(beams)
        if not 1 <= n_best <= beams:
            raise ConfigError(f"n_best is {n_best}, but must be at least 1 and at most beams, which is {beams}")
        plans = [self._plan(text, source, target, prefix.strip(), glossary or {}) for text in texts]
        jobs = list(dict.fromkeys(job for plan in plans for job in plan.jobs))
        found = dict(zip(jobs, self._translate(jobs, beams, n_best, progress), strict=True))
        return [self._result(plan, found) for plan in plans]

    def check_direction(self, source: str | None, target: str | None) -> None:
        """Raise a ConfigError if the model cannot translate so."""
        known, name = self.known, self.model.name
        for code in (source, target):
            if code is not None and code not in known.languages:
                raise ConfigError(f"{name} does not know the language {code!r}; {suggest(code, known.languages)}")
        pairs = [pair for pair in known.directions if source in (None, pair[0]) and target in (None, pair[1])]
        if not pairs:
            wanted = f"from {source or 'any language'} to {target or 'any language'}"
            trained = ", ".join(f"{start} to {end}" for start, end in known.directions)
            raise ConfigError(f"{name} was not trained to translate {wanted}; available: {trained}")

    # ---- before the search

    def _plan(
        self, text: str, source: str | None, target: str | None, prefix: str, glossary: Mapping[str, str]
    ) -> _Plan:
        if not has_words(text):
            return _Plan(
                text=text, source=source, target=target, probability=None, spans=[], jobs=[], warnings=[], notes=[]
            )
        warnings: list[str] = []
        given, probability = source, None
        if source is None:
            source, probability = self._identify(text, target)
        target = target or self._only_target(source)
        letters = sum(map(str.isalpha, text[:1000]))
        code, share = next(iter(language_probabilities(text).items()))
        if letters >= SURE_LETTERS and share >= SURE and not same_language(code, source):
            doubt = "" if given else f", which {self.model.name} cannot translate to {target}"
            warnings.append(f"the text looks like {code} ({share:.0%}){doubt}; it was translated from {source}")
        spans: list[Span] = []
        jobs: list[_Job] = []
        notes: list[str | None] = []
        for span, note in self._segments(text, source):
            spans.append(span)
            notes.append(note)
            sentence = clean(text[span.start : span.end])
            forced = "" if jobs else prefix
            jobs.append(
                _Job(source=sentence, languages=(source, target), forced=forced, terms=terms.wanted(glossary, sentence))
            )
        return _Plan(
            text=text,
            source=source,
            target=target,
            probability=probability,
            spans=spans,
            jobs=jobs,
            warnings=warnings,
            notes=notes,
        )

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
        """What is translated as one sentence each, with a warning where a longer sentence was cut."""

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

    # ---- the search

    def _translate(
        self, jobs: list[_Job], beams: int, n_best: int, progress: Callable[[int], object] | None
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each sentence."""
        wide = [beams if job.terms else n_best for job in jobs]
        found = self._search(jobs, beams, max(wide, default=1), progress)
        return [
            self._with_terms(job, hypotheses, beams)[:n_best] if job.terms else hypotheses[:n_best]
            for job, hypotheses in zip(jobs, found, strict=True)
        ]

    def _search(
        self, jobs: list[_Job], beams: int, n_best: int, progress: Callable[[int], object] | None = None
    ) -> list[list[Hypothesis]]:
        prompts = [self._prompt(job, job.forced) for job in jobs]
        found: list[list[Hypothesis]] = [[] for _ in jobs]
        for batch in self._batches([len(one.tokens) for one in prompts], beams):
            chosen = [prompts[place] for place in batch]
            results = beam_search(
                self.model.transformer,
                [one.tokens for one in chosen],
                beams=beams,
                n_best=n_best,
                max_new_tokens=[self._most(len(one.tokens)) for one in chosen],
                stop_tokens=(self._eos,),
                length_penalty=self.length_penalty,
                prefixes=[one.prefix for one in chosen],
            )
            starts = [self._prompt(jobs[place], "") if jobs[place].forced else prompts[place] for place in batch]
            forced = [tuple(one.tokens[len(start.tokens) :]) for one, start in zip(chosen, starts, strict=True)]
            before = [0.0] * len(batch)
            if any(forced):
                before = target_logprobs(self.model.transformer, starts, forced)
            for place, hypotheses, ids, logprob in zip(batch, results, forced, before, strict=True):
                found[place] = [
                    self._hypothesis((*ids, *one.tokens), logprob + one.logprob, one.finish) for one in hypotheses
                ]
            if progress is not None:
                progress(len(batch))
        return found

    def _batches(self, lengths: list[int], beams: int) -> Iterator[list[int]]:
        """Indices of prompts of like length, as many as fit; the longest first, so that memory fails at once."""
        batch: list[int] = []
        for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
            longest = lengths[batch[0]] if batch else 0
            if batch and (len(batch) + 1) * beams * (longest + self._most(longest)) > self.batch_tokens:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _most(self, length: int) -> int:
        """New tokens at most, for a prompt of `length` tokens."""
        return max(1, min(GROWTH * (length - FRAME + 1) + ROOM, self.model.config.context - length))

    def _prompt(self, job: _Job, forced: str) -> Prompt:
        return prompt(self.tokenizer, job.source, *job.languages, causal=self.known.causal, forced=forced)

    def _hypothesis(self, tokens: tuple[int, ...], logprob: float, finish: str) -> Hypothesis:
        length = len(tokens) + (finish == "stop")
        text = " ".join(self.tokenizer.decode(tokens).split())  # a line end of the model's own would spoil the layout
        return Hypothesis(text=text, tokens=tokens, logprob=logprob, score=logprob / max(1, length), finish=finish)

    @property
    def _eos(self) -> int:
        return self.tokenizer.specials["<eos>"]

    def _with_terms(self, job: _Job, hypotheses: list[Hypothesis], beams: int) -> list[Hypothesis]:
        """Hypotheses that have the job's terms first; where none has, the model is made to use them."""
        if not terms.missing(job.terms, hypotheses[0].text):
            return hypotheses
        for one in hypotheses[1:]:
            if not terms.missing(job.terms, one.text) and self._in_place(job, one):
                return [one, *(other for other in hypotheses if other != one)]
        best = hypotheses[0]
        for _ in job.terms:
            lacking = terms.missing(job.terms, best.text)
            if not lacking:
                break
            alignment = self._alignment(job.source, best.tokens, *job.languages)
            spelt = self.tokenizer.decode(best.tokens)
            openings = [terms.openings(spelt, job.source, pair, alignment, job.forced) for pair in lacking]
            # from left to right, because what comes after an opening is written anew
            first = min((some for some in openings if some), key=lambda some: len(some[0]), default=[])
            tries = [dataclasses.replace(job, forced=opening) for opening in first]
            found = [one for [one] in self._search(tries, beams, 1)]
            better = [one for one in found if len(terms.missing(job.terms, one.text)) < len(lacking)]
            if not better:
                break
            best = next((one for one in better if one.finish == "stop"), better[0])
        return [best, *(one for one in hypotheses if one != best)]

    def _in_place(self, job: _Job, hypothesis: Hypothesis) -> bool:
        """Whether each term's translation comes from the term."""
        alignment = self._alignment(job.source, hypothesis.tokens, *job.languages)
        spelt = self.tokenizer.decode(hypothesis.tokens)
        return all(terms.in_place(spelt, job.source, pair, alignment) for pair in job.terms)

    # ---- after the search

    def _result(self, plan: _Plan, found: Mapping[_Job, list[Hypothesis]]) -> Translation:
        sentences = []
        for span, job, note in zip(plan.spans, plan.jobs, plan.notes, strict=True):
            best, *others = found[job]
            warnings = [] if note is None else [note]
            if best.finish == "length":
                warnings.append(f"the translation was cut off after {count(len(best.tokens), 'token')}")
            warnings += concerns(job.source, best.text, self.known.length_ratio.get("-".join(job.languages)))
            warnings += [
                f"{term} is not translated as {word}, as the glossary says"
                for term, word in terms.missing(job.terms, best.text)
            ]
            sentences.append(
                Sentence(
                    source=job.source,
                    start=span.start,
                    end=span.end,
                    text=rewrap(best.text, plan.text[span.start : span.end]),
                    tokens=best.tokens,
                    logprob=best.logprob,
                    score=best.score,
                    finish=best.finish,
                    alternatives=tuple(others),
                    warnings=tuple(warnings),
                )
            )
        tokens = sum(len(one.tokens) + (one.finish == "stop") for one in sentences)
        doubts = [f"{warning}: {shorten(one.source)}" for one in sentences for warning in one.warnings]
        return Translation(
            source_text=plan.text,
            text=replace_spans(plan.text, plan.spans, [one.text for one in sentences]),
            source=plan.source,
            target=plan.target,
            probability=plan.probability,
            score=sum(one.logprob for one in sentences) / tokens if tokens else 0.0,
            sentences=tuple(sentences),
            warnings=(*plan.warnings, *doubts),
            _align=self._align,
        )

    def _align(self, sentence: Sentence, source: str, target: str) -> Alignment:
        return self._alignment(sentence.source, sentence.tokens, source, target)

    def _alignment(self, text: str, tokens: Sequence[int], source: str, target: str) -> Alignment:
        from suite.tasks.translate.align import align

        there = prompt(self.tokenizer, text, source, target, causal=self.known.causal)
        back = None
        if (target, source) in self.known.directions:
            translation = self.tokenizer.decode(tokens).strip()
            back = (
                prompt(self.tokenizer, translation, target, source, causal=self.known.causal),
                self.tokenizer.encode(text),
            )
        return align(self.model.transformer, self.tokenizer, (there, tokens), back)


def _choices(option: str, languages: Iterable[str]) -> str:
    """The ways of giving an option, for an error: "--to de or --to fr"."""
    return " or ".join(f"{option} {language}" for language in languages)


def check_beams(beams: int) -> None:
    """Raise a ConfigError if no search can have so many."""
    if beams < 1:
        raise ConfigError(f"beams is {beams}, but must be at least 1")


def clean(text: str) -> str:
    """A sentence as the model knows them: composed characters (NFC), one line, single spaces."""
    return unicodedata.normalize("NFC", " ".join(unwrap(text).split()))


def shorten(text: str) -> str:
    """The start of a sentence, to know it by."""
    return text if len(text) <= 60 else text[:59].rstrip() + "…"
