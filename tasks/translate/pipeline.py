"""`pipeline("translate")`: texts in, translations out, with warnings where they are doubtful.

The flow: a text's language and its sentences (`plan`), those of all texts batched by length and searched (`search`),
checks, and the sentences put back where they stood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from suite.checkpoint import Model
from suite.data.sentences import Span, replace_spans, rewrap
from suite.errors import CheckpointError, ConfigError, DataError
from suite.task import suggest
from suite.task.results import alike, several
from suite.tasks.translate import glossary as terms
from suite.tasks.translate.align import Alignment
from suite.tasks.translate.checks import concerns
from suite.tasks.translate.confidence import Confidence, doubt, features
from suite.tasks.translate.format import FRAME, Languages
from suite.tasks.translate.options import BEAMS, LENGTH_PENALTY
from suite.tasks.translate.plan import Planner, SentenceJob, TextPlan
from suite.tasks.translate.results import TranslatedSentence, Translation, TranslationHypothesis
from suite.tasks.translate.search import BATCH_TOKENS, SentenceTranslator
from suite.text.tokenizer import Tokenizer
from suite.wording import count


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
        >>> translate("Guten Morgen!").text  # doctest: +SKIP
        'Good morning!'
    """

    def __init__(
        self,
        model: Model,
        *,
        source: str | None = None,
        target: str | None = None,
        beams: int = BEAMS,
        length_penalty: float = LENGTH_PENALTY,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        if "languages" not in model.extra:
            raise CheckpointError(f"{model.name} is not a translation model (its task is {model.task}); choose another")
        if not math.isfinite(length_penalty):
            raise ConfigError(f"length_penalty is {length_penalty}, but must be a number")
        check_beams(beams)
        self.known = Languages.from_extra(model.extra, model.config_file)
        if model.tokenizer is None:
            raise DataError(f"{model.name} has no tokenizer, so it cannot translate text")
        self.model = model
        self.tokenizer: Tokenizer = model.tokenizer
        self.source, self.target, self.beams = source, target, beams
        # what the model has seen, and never more than leaves as much room again for the translation
        limit = max(1, min(self.known.source_limit, (model.config.context - FRAME) // 2))
        self._planner = Planner(self.known, self.tokenizer, limit, model.name)
        self._sentences = SentenceTranslator(
            model.transformer, self.tokenizer, self.known, length_penalty=length_penalty, batch_tokens=batch_tokens
        )
        self._confidence = Confidence.from_extra(model.extra, model.name)
        self.check_direction(source, target)

    def __call__(
        self,
        texts: Any,
        *,
        source: str | None = None,
        target: str | None = None,
        beams: int | None = None,
        n_best: int = 1,
        prefix: str = "",
        glossary: Mapping[str, str] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Any:
        """Translate a text, or each of several, sentence by sentence.

        Args:
            texts: a string, or a list, tuple, generator or array of them; of any length and layout.
            source, target, beams: for this call, instead of the translator's.
            n_best: hypotheses for each sentence: the best, and `n_best - 1` alternatives; at most `beams`.
            prefix: what each text's translation must start with.
            glossary: source terms and the words that must stand for them, matched as whole words without regard to
                capitals. A sentence that still lacks one has a warning.
            progress: called with the number of sentences just translated.

        Returns:
            a `Translation` for a string, a list of them for several. Its warnings tell of a source in another language
            than stated, of sentences that were split, cut off, or came out conspicuously short, long or repetitive, and
            of missing terms.

        Raises:
            ConfigError: an unknown language, a direction that was not trained, or an argument out of its range.
            DataError: what is given is not text, or cannot be encoded in UTF-8.
        """
        given, many = several(texts)
        source = self.source if source is None else source
        target = self.target if target is None else target
        beams = self.beams if beams is None else beams
        self.check_direction(source, target)
        check_beams(beams)
        if not 1 <= n_best <= beams:
            raise ConfigError(f"n_best is {n_best}, but must be at least 1 and at most beams, which is {beams}")
        plans = [self._planner.plan(text, source, target, prefix.strip(), glossary or {}) for text in given]
        jobs = list(dict.fromkeys(job for plan in plans for job in plan.jobs))
        found = dict(zip(jobs, self._sentences.translate(jobs, beams, n_best, progress), strict=True))
        sure = self._confidences(found)
        return alike([self._result(plan, found, sure) for plan in plans], many)

    def check_direction(self, source: str | None, target: str | None) -> None:
        """Raise a ConfigError if the model cannot translate from `source` to `target`; None stands for any language."""
        known, name = self.known, self.model.name
        for code in (source, target):
            if code is not None and code not in known.languages:
                raise ConfigError(f"{name} does not know the language {code!r}; {suggest(code, known.languages)}")
        pairs = [pair for pair in known.directions if source in (None, pair[0]) and target in (None, pair[1])]
        if not pairs:
            wanted = f"from {source or 'any language'} to {target or 'any language'}"
            trained = ", ".join(f"{start} to {end}" for start, end in known.directions)
            raise ConfigError(f"{name} was not trained to translate {wanted}; available: {trained}")

    def _confidences(self, found: Mapping[SentenceJob, list[TranslationHypothesis]]) -> dict[SentenceJob, float | None]:
        """How probable it is that each sentence's best translation is right."""
        if self._confidence is None or not found:
            return dict.fromkeys(found)
        jobs = list(found)
        rows = features(
            self.model.transformer, self.tokenizer, self.known, jobs, [hypotheses[0] for hypotheses in found.values()]
        )
        return dict(zip(jobs, self._confidence.probability(rows).tolist(), strict=True))

    def _result(
        self,
        plan: TextPlan,
        found: Mapping[SentenceJob, list[TranslationHypothesis]],
        sure: Mapping[SentenceJob, float | None],
    ) -> Translation:
        """The translation of a text, put together from those of its sentences."""
        sentences = [
            self._sentence(plan.text, span, job, note, found[job], sure[job])
            for span, job, note in zip(plan.spans, plan.jobs, plan.notes, strict=True)
        ]
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

    def _sentence(
        self,
        text: str,
        span: Span,
        job: SentenceJob,
        note: str | None,
        hypotheses: list[TranslationHypothesis],
        confidence: float | None,
    ) -> TranslatedSentence:
        """A sentence with its best translation, laid out as the source, and its warnings."""
        best, *others = hypotheses
        warnings = [*doubt(confidence)] if note is None else [note, *doubt(confidence)]
        if best.finish == "length":
            warnings.append(f"the translation was cut off after {count(len(best.tokens), 'token')}")
        warnings += concerns(job.source, best.text, self.known.length_ratio.get("-".join(job.languages)))
        warnings += [
            f"{term} is not translated as {word}, as the glossary says"
            for term, word in terms.missing(job.terms, best.text)
        ]
        return TranslatedSentence(
            source=job.source,
            start=span.start,
            end=span.end,
            text=rewrap(best.text, text[span.start : span.end]),
            tokens=best.tokens,
            logprob=best.logprob,
            score=best.score,
            finish=best.finish,
            confidence=confidence,
            alternatives=tuple(others),
            warnings=tuple(warnings),
        )

    def _align(self, sentence: TranslatedSentence, source: str, target: str) -> Alignment:
        return self._sentences.alignment(sentence.source, sentence.tokens, source, target)


def check_beams(beams: int) -> None:
    """Raise a ConfigError if no search can have that many beams."""
    if beams < 1:
        raise ConfigError(f"beams is {beams}, but must be at least 1")


def shorten(text: str) -> str:
    """The start of a sentence, enough to recognise it."""
    return text if len(text) <= 60 else text[:59].rstrip() + "…"
