"""Baselines for a classifier: always the most common class, and logistic regression on words.

Shapes: `N` examples, `C` classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suite.data.labelled import Labelled, stratified_split
from suite.errors import DataError
from suite.tasks.classify import metrics
from suite.tasks.classify.metrics import Bools, Floats
from suite.tasks.classify.word_model import regress

WORD = r"\w+"
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0)  # candidates for C, from strong to weak regularisation
THRESHOLDS = (0.5, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)  # where a text may have several labels; the usual first
FOLDS = 2  # stratified tenths that C is chosen on; one where there are more than `MANY` texts
MANY = 10_000


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Predictions of a classifier or a baseline for N records.

    Attributes:
        probabilities: (N, C).
        predicted: (N, C), True for the classes that are predicted.
        settings: hyperparameters that were chosen during training.
    """

    probabilities: Floats
    predicted: Bools
    settings: dict[str, Any]


def truth_of(records: Sequence[Labelled], labels: Sequence[str]) -> Bools:
    """The labels of each record as booleans, (N, C).

    Args:
        records: records whose labels are all among `labels`.
        labels: the classes, in the order of their columns.
    """
    column = {label: place for place, label in enumerate(labels)}
    truth = np.zeros((len(records), len(labels)), dtype=np.bool_)
    for row, record in enumerate(records):
        truth[row, [column[label] for label in record.labels]] = True
    return truth


def majority(train: Sequence[Labelled], test: Sequence[Labelled], labels: Sequence[str], *, multi: bool) -> Answers:
    """Predict the most common class for every record, with the class frequencies in `train` as probabilities.

    Args:
        train: records whose labels are all among `labels`.
        test: records to predict; their labels are ignored.
        labels: the classes, in the order of their columns.
        multi: whether a record may have any number of labels; a frequency is then a share of the records, not of the
            labels.

    Returns:
        answers for `test`. Add-one smoothing: each class, or with `multi` each yes and no, counts once more than it
        was seen.
    """
    counts = truth_of(train, labels).sum(axis=0)
    shares = (counts + 1) / (len(train) + 2 if multi else counts.sum() + len(labels))
    probabilities = np.tile(shares, (len(test), 1))
    return Answers(probabilities=probabilities, predicted=_likeliest(probabilities), settings={})


def linear(train: Sequence[Labelled], test: Sequence[Labelled], labels: Sequence[str], *, multi: bool) -> Answers:
    """Logistic regression on the tf-idf of single words and pairs of neighbours (tf as 1 + log tf), well tuned.

    C, and with `multi` the probability from which a class is predicted, are chosen by cross-validation: the best mean
    accuracy (with `multi`: micro-F1) on stratified tenths of the training data; then the model is trained on all of it.
    With `multi`, each class has its own model. The two texts of a pair have separate features.

    Args:
        train: records whose labels are all among `labels`.
        test: records to predict; their labels are ignored.
        labels: the classes, in the order of their columns.
        multi: whether a record may have any number of labels.

    Returns:
        answers for `test`; `settings` has C, and with `multi` the threshold.

    Raises:
        DataError: `train` holds no words, one class only, or no class with two different texts.
    """
    settings = _tuned(train, labels, multi=multi)
    inputs = _Inputs(train)
    weights, biases = regress(inputs(train), truth_of(train, labels), settings["C"], multi=multi)
    probabilities = _probabilities(inputs(test), weights, biases, multi=multi)
    predicted = probabilities >= settings["threshold"] if multi else _likeliest(probabilities)
    return Answers(probabilities=probabilities, predicted=predicted, settings=settings)


def _tuned(train: Sequence[Labelled], labels: Sequence[str], *, multi: bool) -> dict[str, float]:
    """The best C of `STRENGTHS` by cross-validation, and with `multi` the best of `THRESHOLDS` with it."""
    chances = THRESHOLDS if multi else (0.0,)
    quality = np.zeros((len(STRENGTHS), len(chances)))  # sums over the folds
    loss = np.zeros(len(STRENGTHS))  # decides between equals
    for seed in range(FOLDS if len(train) <= MANY else 1):
        learn, held = stratified_split(train, 0.1, seed=seed)
        inputs = _Inputs(learn)
        lessons, asked = inputs(learn), inputs(held)
        known, wanted = truth_of(learn, labels), truth_of(held, labels)
        for row, c in enumerate(STRENGTHS):
            answers = _probabilities(asked, *regress(lessons, known, c, multi=multi), multi=multi)
            if multi:
                figures = [metrics.multi_label(answers, answers >= chance, wanted) for chance in chances]
                quality[row] += [one["micro_f1"] for one in figures]
            else:
                figures = [metrics.single_label(answers, wanted.argmax(axis=1))]
                quality[row] += figures[0]["accuracy"]
            loss[row] += figures[0]["nll"]
    places = [(quality[row, column], -loss[row], -column, row) for row, column in np.ndindex(quality.shape)]
    _, _, column, row = max(places)
    return {"C": STRENGTHS[row]} | ({"threshold": chances[-column]} if multi else {})


def _likeliest(probabilities: Floats) -> Bools:
    return metrics.indicators(probabilities.argmax(axis=1), probabilities.shape[1])


class _Inputs:
    """Features of records: a sparse matrix (N, K), with columns for the words of the records it was made from."""

    def __init__(self, records: Sequence[Labelled]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.readers = []
        for side, texts in enumerate(_texts(records)):
            if any(re.search(WORD, text) for text in texts):
                words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD)
                self.readers.append((side, words.fit(texts)))
        if not self.readers:
            raise DataError("the training texts contain no words for the linear baseline to learn from")

    def __call__(self, records: Sequence[Labelled]) -> Any:
        """Features of N records, (N, K)."""
        from scipy.sparse import hstack

        sides = _texts(records)
        return hstack([words.transform(sides[side]) for side, words in self.readers]).tocsr()


def _probabilities(inputs: Any, weights: Floats, biases: Floats, *, multi: bool) -> Floats:
    """Probabilities (N, C) from features (N, K), weights (C, K) and biases (C,)."""
    from scipy.special import expit, softmax

    logits = inputs @ weights.T + biases  # (N, C)
    found: Floats = expit(logits) if multi else softmax(logits, axis=1)
    return found


def _texts(records: Sequence[Labelled]) -> tuple[list[str], list[str]]:
    """The first text of each record, and the second text of each."""
    return [record.text for record in records], [record.pair or "" for record in records]
