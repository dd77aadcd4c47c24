"""Metrics of a classifier: accuracy, F1, AUROC, negative log-likelihood and calibration.

Shapes: `N` examples, `C` classes. A class is given as its column index. The truth is (N,) column indices where each
example has one class, and (N, C) booleans where it may have any number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BINS = 15  # as in Guo et al. 2017
SMALLEST = 1e-15  # smaller probabilities are raised to this, so that a single example cannot make a mean infinite


# ---- right and wrong


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Precision, recall and F1 of each class, (C,) each.

    Attributes:
        precision: share of the predictions of a class that are right; NaN where it is never predicted.
        recall: share of a class's examples that are predicted as it; NaN where it has no examples.
        f1: harmonic mean of the two, 0 where nothing is right; NaN where a class is neither predicted nor true.
        support: number of examples of each class.
    """

    precision: Floats
    recall: Floats
    f1: Floats
    support: Ints

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that are true or predicted for any example; NaN if there are none."""
        return _mean(self.f1)


def indicators(classes: Ints, count: int) -> Bools:
    """Class indices (N,) as one-hot booleans (N, C).

    Args:
        classes: (N,) column indices.
        count: C.
    """
    found: Bools = classes[:, None] == np.arange(count)  # (N, C)
    return found


def class_scores(predicted: Bools, truth: Bools) -> ClassScores:
    """Precision, recall and F1 by class.

    Args:
        predicted: (N, C), True for the classes that are predicted.
        truth: (N, C), True for the classes that are right.
    """
    right = (predicted & truth).sum(axis=0)
    named, support = predicted.sum(axis=0), truth.sum(axis=0)
    return ClassScores(
        precision=_ratio(right, named),
        recall=_ratio(right, support),
        f1=_ratio(2 * right, named + support),
        support=support,
    )


def confusion_matrix(predicted: Ints, truth: Bools) -> Ints:
    """Confusion matrix (C, C): number of examples by true class (row) and predicted class (column).

    Args:
        predicted: (N,) column indices of the most probable class.
        truth: (N, C). An example with several true classes counts in the row of each: on the diagonal if the predicted
            class is any of them, else in the predicted class's column.
    """
    named = indicators(predicted, truth.shape[1])
    right = (named & truth).any(axis=1)  # (N,)
    matrix: Ints = truth[~right].T.astype(np.int64) @ named[~right] + np.diag(truth[right].sum(axis=0))
    return matrix


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """A kind of mistake: a true class and the class predicted instead.

    Attributes:
        truth, predicted: column indices of the two classes.
        count: examples of `truth` that are predicted as `predicted`.
        share: `count` as a share of all examples of `truth`.
    """

    truth: int
    predicted: int
    count: int
    share: float


def most_confused(matrix: Ints, top: int = 10) -> list[Confusion]:
    """The most frequent mistakes, by count and then by share of the true class.

    Args:
        matrix: (C, C) from `confusion_matrix`.
        top: the most to return.
    """
    support = matrix.sum(axis=1)
    found = [
        Confusion(truth=row, predicted=column, count=int(matrix[row, column]), share=float(matrix[row, column] / total))
        for row, total in enumerate(support)
        for column in np.flatnonzero(matrix[row]).tolist()
        if row != column
    ]
    return sorted(found, key=lambda one: (-one.count, -one.share))[:top]


# ---- ranking


def auroc(scores: Floats, positive: Bools) -> float:
    """Probability that a positive example scores above a negative; ties count half, NaN if either kind is missing.

    Args:
        scores: (N,) scores, higher for positive examples.
        positive: (N,) True for positive examples.

    Example:
        >>> auroc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
        0.75
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[place]  # (N,) from 1; ties get their mean rank
    positives = int(positive.sum())
    pairs = positives * (len(positive) - positives)
    return float((ranks[positive].sum() - positives * (positives + 1) / 2) / pairs) if pairs else float("nan")


def class_aurocs(probabilities: Floats, truth: Bools) -> Floats:
    """AUROC of each class against all others, (C,).

    Args:
        probabilities, truth: (N, C).

    Returns:
        (C,), NaN for a class that every example has, or that no example has.
    """
    return np.array([auroc(*columns) for columns in zip(probabilities.T, truth.T, strict=True)])


def out_of_scope_auroc(probabilities: Floats, outside: Bools) -> dict[str, float]:
    """AUROCs of detecting examples that belong to no class by the classifier's uncertainty.

    Source: Hendrycks and Gimpel 2017, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in
    Neural Networks" (maximum probability).

    Args:
        probabilities: (N, C), each row summing to one.
        outside: (N,), True for examples that belong to no class.

    Returns:
        AUROC of detection by a low "max_probability" and by a high "entropy".
    """
    entropy = -(probabilities * np.log(np.maximum(probabilities, SMALLEST))).sum(axis=1)
    return {
        "max_probability": auroc(-probabilities.max(axis=1), outside),
        "entropy": auroc(entropy, outside),
    }


# ---- probabilities


def negative_log_likelihood(probabilities: Floats, truth: Ints | Bools) -> float:
    """Mean -log p of the truth in nats: per example, or per yes-or-no decision if truth is (N, C).

    Args:
        probabilities: (N, C); values below 1e-15 are raised to it.
        truth: (N,) column indices, or (N, C) booleans.
    """
    if truth.ndim == 1:
        chosen = probabilities[np.arange(len(truth)), truth]
    else:
        chosen = np.where(truth, probabilities, 1 - probabilities)
    return _mean(-np.log(np.maximum(chosen, SMALLEST)))


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Accuracy of predictions by confidence, in bins: a reliability diagram.

    Attributes:
        edges: (bins + 1,) edges of the bins, from 0 to 1; a bin includes its upper edge, not its lower.
        count: (bins,) number of predictions.
        confidence: (bins,) mean probability; NaN in empty bins.
        accuracy: (bins,) share of correct predictions; NaN in empty bins.
    """

    edges: Floats
    count: Ints
    confidence: Floats
    accuracy: Floats

    @property
    def error(self) -> float:
        """Expected calibration error: |accuracy - confidence| of the bins, weighted by their counts."""
        full = self.count > 0
        return float(np.average(np.abs(self.accuracy - self.confidence)[full], weights=self.count[full]))


def reliability(confidence: Floats, right: Bools, bins: int = BINS) -> Reliability:
    """Sort predictions into bins of equal width by their probability.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.

    Args:
        confidence: (N,) probability of each prediction; for a single-label classifier, that of the top class.
        right: (N,) whether it was right.
        bins: number of bins.
    """
    edges = np.linspace(0, 1, bins + 1)
    place = (np.searchsorted(edges, confidence, side="left") - 1).clip(0, bins - 1)  # (N,)
    count = np.bincount(place, minlength=bins)
    return Reliability(
        edges=edges,
        count=count,
        confidence=_ratio(np.bincount(place, weights=confidence, minlength=bins), count),
        accuracy=_ratio(np.bincount(place, weights=right, minlength=bins), count),
    )


# ---- all at once


def single_label(probabilities: Floats, truth: Ints) -> dict[str, float]:
    """Metrics of a classifier that predicts one class per example.

    Args:
        probabilities: (N, C), each row summing to one.
        truth: (N,) column indices.

    Returns:
        accuracy, macro_f1, auc (mean of the classes against all others, without those that have no examples), nll
        (nats) and ece (15 bins of equal width over the top class's probability).
    """
    predicted = probabilities.argmax(axis=1)
    wanted = indicators(truth, probabilities.shape[1])
    return {
        "accuracy": float((predicted == truth).mean()),
        "macro_f1": class_scores(indicators(predicted, probabilities.shape[1]), wanted).macro_f1,
        "auc": _mean(class_aurocs(probabilities, wanted)),
        "nll": negative_log_likelihood(probabilities, truth),
        "ece": reliability(probabilities.max(axis=1), predicted == truth).error,
    }


def multi_label(probabilities: Floats, predicted: Bools, truth: Bools) -> dict[str, float]:
    """Metrics of a classifier that predicts any number of classes per example.

    Args:
        probabilities: (N, C), independent of each other.
        predicted: (N, C), True for the classes that are predicted.
        truth: (N, C), True for the classes that are right.

    Returns:
        subset_accuracy (all classes of an example right), top_accuracy (the top class is right; over the examples that
        have any class), micro_f1, macro_f1, auc, nll (nats per yes-or-no decision), ece (15 bins of equal width over
        the probabilities of all classes of all examples) and top_ece (over those of the top class).
    """
    top = truth[np.arange(len(truth)), probabilities.argmax(axis=1)]  # (N,)
    right = 2 * int((predicted & truth).sum())
    named = int(predicted.sum() + truth.sum())
    return {
        "subset_accuracy": float((predicted == truth).all(axis=1).mean()),
        "top_accuracy": _mean(top[truth.any(axis=1)].astype(np.float64)),
        "micro_f1": right / named if named else float("nan"),
        "macro_f1": class_scores(predicted, truth).macro_f1,
        "auc": _mean(class_aurocs(probabilities, truth)),
        "nll": negative_log_likelihood(probabilities, truth),
        "ece": reliability(probabilities.ravel(), truth.ravel()).error,
        "top_ece": reliability(probabilities.max(axis=1), top).error,
    }


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """part / whole, NaN where whole is 0."""
    ratio: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return ratio


def _mean(values: Floats) -> float:
    """Mean of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
