"""What `pipeline("translate")` returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from suite.task import Result

if TYPE_CHECKING:
    from suite.tasks.translate.align import Alignment


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationHypothesis(Result):
    """One translation of a sentence.

    Attributes:
        text: the translation.
        tokens: its ids, those of a forced start included, without `<eos>`.
        logprob: of all tokens and `<eos>` under the model (nats).
        score: `logprob` a token.
        finish: "stop", or "length" where it was cut off.
        judged: where stand-ins kept what was lost, the source with them and its translation, by which to judge it.
    """

    text: str
    score: float
    logprob: float
    finish: str
    tokens: tuple[int, ...]
    judged: tuple[str, TranslationHypothesis] | None = dataclasses.field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Text and score."""
        return {"text": self.text, "score": self.score}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslatedSentence(Result):
    """A sentence and its translation.

    Attributes:
        source: as the model read it: on one line, without double spaces.
        start, end: where it stands in the text, in characters.
        text: the translation, with the source's line ends.
        score, logprob, finish, tokens: see `TranslationHypothesis`.
        confidence: probability that the translation is right (`suite.tasks.translate.confidence`); None where the
            checkpoint has no calibration.
        warnings: why the translation is doubtful, a line each.
        alternatives: the next best hypotheses, best first; empty unless asked for.
    """

    source: str
    start: int
    end: int
    text: str
    score: float
    logprob: float
    finish: str
    confidence: float | None = None
    warnings: tuple[str, ...] = ()
    alternatives: tuple[TranslationHypothesis, ...] = ()
    tokens: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values of all fields but the tokens."""
        values = super().to_dict()
        del values["tokens"]
        return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation(Result):
    """A translated text.

    Attributes:
        source, target: languages; None where there was no word to tell them by.
        probability: of `source`, where it was identified among the model's languages; None where it was given.
        source_text, text: before and after.
        score: log-probability a token, over all sentences; 0 where there are none.
        warnings: why the translation is doubtful, a line each, with the sentence.
        sentences: in order. Everything between them, and everything without words, is the same in both texts.
    """

    source: str | None
    target: str | None
    probability: float | None
    source_text: str
    text: str
    score: float
    warnings: tuple[str, ...]
    sentences: tuple[TranslatedSentence, ...]
    _align: Callable[[TranslatedSentence, str, str], Alignment] = dataclasses.field(repr=False, compare=False)

    @cached_property
    def alignment(self) -> tuple[Alignment, ...]:
        """For each sentence, which source words the model looked at for each target word; computed when asked for."""
        if self.source is None or self.target is None:
            return ()
        return tuple(self._align(sentence, self.source, self.target) for sentence in self.sentences)

    def to_dict(self, *, align: bool = False) -> dict[str, Any]:
        """Plain JSON values.

        Args:
            align: with each sentence's alignment.
        """
        values = super().to_dict()
        if align:
            for sentence, alignment in zip(values["sentences"], self.alignment, strict=True):
                sentence["alignment"] = alignment.to_dict()
        return values
