"""How probable it is that a translation is right: a logistic regression on what shows in the translation itself.

"Right" means that its chrF2 against the reference is at least `RIGHT`. The threshold was chosen by reading translations
of validation pairs, six for each five points of chrF2: of 12 between 50 and 60 seven were right, of 36 between
20 and 50 ten, most of them paraphrases. The regression is fitted on held-out pairs, at the end of training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.errors import CheckpointError
from suite.model import Transformer
from suite.tasks.translate.checks import deviation, loop, lost
from suite.tasks.translate.format import Languages, prompt
from suite.tasks.translate.options import BEAMS, LENGTH_PENALTY
from suite.tasks.translate.plan import SentenceJob, clean
from suite.tasks.translate.results import TranslationHypothesis
from suite.tasks.translate.score import token_logprobs
from suite.tasks.translate.search import SentenceTranslator
from suite.text.tokenizer import Tokenizer

Matrix = NDArray[np.float64]

RIGHT = 50.0  # chrF2 against the reference
DOUBTFUL = 0.3  # confidence below which a sentence is warned of
FEATURES = (
    "mean log-probability of the tokens",
    "lowest log-probability of a token",
    "deviation of the length",
    "things lost",
    "repetition",
    "length of the source",
    "cut off",
)
FEWEST = 100  # pairs that the regression is fitted on
RIDGE = 1.0  # of the squared weights, for features that vary by 1; keeps them finite
ROUNDS = 50  # of Newton's method, which needs about ten
BATCH = 64  # sentences whose log-probabilities are taken at once


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """A fitted regression.

    Attributes:
        weights: of each of `FEATURES`.
        bias: what is added.
    """

    weights: tuple[float, ...]
    bias: float

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any], name: str) -> Confidence | None:
        """What a checkpoint has of it, or None.

        Raises:
            CheckpointError: it has something else.
        """
        found = extra.get("confidence")
        if found is None:
            return None
        try:
            made = cls(weights=tuple(map(float, found["weights"])), bias=float(found["bias"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{name}: config.json has no valid confidence ({error!r})") from None
        if len(made.weights) != len(FEATURES):
            raise CheckpointError(f"{name}: confidence has {len(made.weights)} weights, but there are {len(FEATURES)}")
        return made

    def to_extra(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"weights": list(self.weights), "bias": self.bias}

    def probability(self, rows: Matrix) -> Matrix:
        """The probability that each translation is right.

        Args:
            rows: (N, features).
        """
        return np.asarray(1 / (1 + np.exp(-np.clip(rows @ np.array(self.weights) + self.bias, -30, 30))))


def features(
    transformer: Transformer,
    tokenizer: Tokenizer,
    known: Languages,
    jobs: Sequence[SentenceJob],
    found: Sequence[TranslationHypothesis],
) -> Matrix:
    """(N, features) what shows in translations.

    Args:
        transformer: in evaluation mode, if it has dropout.
        tokenizer: its own.
        known: its languages.
        jobs: sentences.
        found: the translation of each.
    """
    rows: list[list[float]] = [[]] * len(jobs)
    judged = [one.judged or (job.source, one) for job, one in zip(jobs, found, strict=True)]
    sources, found = [source for source, _ in judged], [one for _, one in judged]
    ways = [job.languages for job in jobs]
    starts = [prompt(tokenizer, text, *way, causal=known.causal) for text, way in zip(sources, ways, strict=True)]
    order = sorted(range(len(jobs)), key=lambda place: len(starts[place].tokens))
    for first in range(0, len(order), BATCH):
        places = order[first : first + BATCH]
        ends = [(tokenizer.specials["<eos>"],) if found[place].finish == "stop" else () for place in places]
        targets = [(*found[place].tokens, *end) for place, end in zip(places, ends, strict=True)]
        logprobs = token_logprobs(transformer, [starts[place] for place in places], targets)
        for place, each in zip(places, logprobs, strict=True):
            source, text = sources[place], found[place].text
            rows[place] = [
                float(np.mean(each)) if len(each) else 0.0,
                max(float(np.min(each, initial=0.0)), -10.0),
                min(abs(deviation(source, text, known.length_ratio.get("-".join(ways[place])))), 5.0),
                float(min(len(lost(source, text)), 3)),
                float(loop(text)[1] > loop(source)[1]),
                min(len(starts[place].tokens) / max(1, known.source_limit), 2.0),
                float(found[place].finish == "length"),
            ]
    return np.array(rows, dtype=np.float64).reshape(len(jobs), len(FEATURES))


def fit(rows: Matrix, right: NDArray[np.bool_]) -> Confidence:
    """The regression of `right` on `rows`, by Newton's method; weights are shrunk a little towards 0.

    Args:
        rows: (N, features).
        right: (N,).
    """
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 1e-9, scale, np.inf)  # what never varies gets no weight
    inputs = np.column_stack([(rows - mean) / scale, np.ones(len(rows))])  # (N, features + 1)
    ridge = np.diag([*[RIDGE] * rows.shape[1], 1e-6])
    weights = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        probability = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (probability - right) + ridge @ weights
        curvature = (inputs * (probability * (1 - probability))[:, None]).T @ inputs + ridge
        step = np.linalg.solve(curvature, gradient)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    plain = weights[:-1] / scale
    return Confidence(weights=tuple(plain.tolist()), bias=float(weights[-1] - plain @ mean))


def measure(
    transformer: Transformer, tokenizer: Tokenizer, known: Languages, pairs: Sequence[tuple[str, str, str, str]]
) -> tuple[Matrix, NDArray[np.float64]]:
    """(N, features) of the translations of held-out pairs, and (N,) their chrF2.

    Args:
        transformer: in evaluation mode.
        tokenizer: its own.
        known: its languages.
        pairs: text and translation, source and target language.
    """
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    jobs = [
        SentenceJob(source=clean(text), languages=(source, target), forced="", terms=())
        for text, _, source, target in pairs
    ]
    translator = SentenceTranslator(transformer, tokenizer, known, length_penalty=LENGTH_PENALTY)
    found = [best for [best] in translator.translate(jobs, BEAMS, 1, None)]
    scores = [metric.sentence_score(one.text, [pair[1]]).score for one, pair in zip(found, pairs, strict=True)]
    return features(transformer, tokenizer, known, jobs, found), np.array(scores)


def calibrate(
    transformer: Transformer, tokenizer: Tokenizer, known: Languages, pairs: Sequence[tuple[str, str, str, str]]
) -> Confidence | None:
    """The regression for a model; None where the pairs are too few, or all translations of them right or all wrong."""
    if len(pairs) < FEWEST:
        return None
    rows, scores = measure(transformer, tokenizer, known, pairs)
    right = scores >= RIGHT
    return fit(rows, right) if 0 < right.sum() < len(right) else None


def doubt(confidence: float | None) -> list[str]:
    """A warning where a translation is probably wrong.

    Example:
        >>> doubt(0.21), doubt(0.8), doubt(None)
        (['probably wrong (confidence 21%)'], [], [])
    """
    if confidence is None or confidence >= DOUBTFUL or math.isnan(confidence):
        return []
    return [f"probably wrong (confidence {confidence:.0%})"]
