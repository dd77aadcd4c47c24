"""Baselines for a classifier: always the most common class, and logistic regression on words.

Shapes: `N` examples, `C` classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suite.data.labelled import Labelled, stratified_split
from suite.errors import DataError
from suite.tasks.classify import metrics
from suite.tasks.classify.metrics import Bools, Floats
from suite.tasks.classify.word_model import regress

WORD = r"\w+"
STRENGTHS = (3.0, 10.0, 30.0, 100.0)  # candidates for C, from strong to weak regularisation


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
    """Logistic regression on the tf-idf of single words and pairs of neighbours (tf as 1 + log tf).

    C is chosen on a stratified tenth of the training data by accuracy (with `multi`: micro-F1); then the model is
    trained on all of it. With `multi`, each class has its own model and is predicted from probability 0.5 up. The two
    texts of a pair have separate features.

    Args:
        train: records whose labels are all among `labels`.
        test: records to predict; their labels are ignored.
        labels: the classes, in the order of their columns.
        multi: whether a record may have any number of labels.

    Returns:
        answers for `test`; `settings` has C.

    Raises:
        DataError: `train` holds no words, one class only, or no class with two different texts.
    """
    learn, held = stratified_split(train, 0.1, seed=0)
    wanted = truth_of(held, labels)

    def quality(c: float) -> tuple[float, float]:
        answers = _train(learn, labels, c, multi=multi)(held)
        if multi:
            figures = metrics.multi_label(answers, answers >= 0.5, wanted)
            return figures["micro_f1"], -figures["nll"]
        figures = metrics.single_label(answers, wanted.argmax(axis=1))
        return figures["accuracy"], -figures["nll"]

    c = max(STRENGTHS, key=quality)
    probabilities = _train(train, labels, c, multi=multi)(test)
    predicted = probabilities >= 0.5 if multi else _likeliest(probabilities)
    return Answers(probabilities=probabilities, predicted=predicted, settings={"C": c})


def _likeliest(probabilities: Floats) -> Bools:
    return metrics.indicators(probabilities.argmax(axis=1), probabilities.shape[1])


def _train(
    records: Sequence[Labelled], labels: Sequence[str], c: float, *, multi: bool
) -> Callable[[Sequence[Labelled]], Floats]:
    """Train on `train`; returns a function from N records to probabilities, (N, C)."""
    from scipy.sparse import hstack
    from scipy.special import expit, softmax
    from sklearn.feature_extraction.text import TfidfVectorizer

    readers = []
    for number, texts in enumerate(_texts(records)):
        if any(re.search(WORD, text) for text in texts):
            words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD)
            readers.append((number, words.fit(texts)))
    if not readers:
        raise DataError("the training texts contain no words for the linear baseline to learn from")

    def counted(some: Sequence[Labelled]) -> Any:
        fields = _texts(some)
        return hstack([words.transform(fields[number]) for number, words in readers]).tocsr()

    weights, biases = regress(counted(records), truth_of(records, labels), c, multi=multi)

    def probabilities(some: Sequence[Labelled]) -> Floats:
        logits = counted(some) @ weights.T + biases  # (N, C)
        found: Floats = expit(logits) if multi else softmax(logits, axis=1)
        return found

    return probabilities


def _texts(records: Sequence[Labelled]) -> tuple[list[str], list[str]]:
    """The first text of each record, and the second text of each."""
    return [record.text for record in records], [record.pair or "" for record in records]
