"""Inputs and results of a classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from suite.errors import ConfigError, DataError
from suite.task import Result
from suite.task.results import listed
from suite.tasks.classify.codec import Text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classified(Result):
    """The labels of a text with their probabilities; it prints as its labels.

    Attributes:
        text: the input; for a pair, the first text.
        label: the most probable label, or None if its probability is below the requested minimum.
        probability: probability of the most probable label.
        labels: the assigned labels: the single label, or if a text may have several, all at or above the threshold.
        scores: probability of every label, highest first. They sum to 1, unless a text may have several labels: then
            each label's probability is independent.
        pieces: number of pieces the text was read in; 1 unless it is longer than the model's context.
    """

    text: str
    label: str | None
    probability: float
    labels: tuple[str, ...]
    scores: Mapping[str, float]
    pieces: int = 1

    def __str__(self) -> str:
        return ", ".join(self.labels) or "unsure"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """The sensitivity of a label's logit to each token of a text.

    Attributes:
        label: the label that is explained.
        pieces: the text cut into tokens; joined they give the text back (for a pair, both texts in order). A character
            that spans several tokens is in the last of them.
        weights: gradient x input of each token, plus its share of the linear model's logit if the classifier has one;
            above 0 the token favours the label, to first order.
    """

    label: str
    pieces: tuple[str, ...]
    weights: tuple[float, ...]


def classified(
    text: Text,
    labels: Sequence[str],
    probabilities: Sequence[float],
    minimum: float,
    threshold: float | None,
    pieces: int,
) -> Classified:
    """The result for one text.

    Args:
        text: the input.
        labels: all labels of the classifier.
        probabilities: probability of each label.
        minimum: least probability of the top label; below it `label` is None.
        threshold: least probability at which a label is assigned, if a text may have several (None: it has one).
        pieces: number of pieces the text was read in.
    """
    scores = dict(sorted(zip(labels, probabilities, strict=True), key=lambda item: -item[1]))
    first, probability = next(iter(scores.items()))
    label = first if probability >= minimum else None
    assigned: tuple[str, ...]
    if threshold is None:
        assigned = () if label is None else (label,)
    else:
        assigned = tuple(name for name, share in scores.items() if share >= max(threshold, minimum))
    return Classified(
        text=text if isinstance(text, str) else text[0],
        label=label,
        probability=probability,
        labels=assigned,
        scores=scores,
        pieces=pieces,
    )


def read_texts(inputs: Any, pairs: bool | None) -> tuple[list[Text], bool]:
    """The input as a list of texts or pairs, and whether it was a sequence rather than a single text.

    A pair is a tuple of two strings. A tuple that is not inside a list is a pair only for a model of pairs; for any
    other model it is two texts.

    Args:
        inputs: a text, a pair or a sequence of them.
        pairs: whether the model was trained on pairs (None: unknown).

    Raises:
        DataError: an input is not a text or a pair, or not the kind that the model was trained on.
    """
    if pairs and is_pair(inputs):
        given, many = [inputs], False
    else:
        given, many = listed(inputs)
    texts: list[Text] = []
    for place, one in enumerate(given):
        if isinstance(one, str):
            texts.append(str(one))
        elif is_pair(one):
            texts.append((str(one[0]), str(one[1])))
        else:
            also = "" if pairs is False else ", nor a pair (a tuple of two strings)"
            raise DataError(f"text {place} is {type(one).__name__}, not a string{also}")
        check_pairs(pairs, not isinstance(one, str))
    return texts, many


def is_pair(given: Any) -> bool:
    """Whether `given` is a tuple of two strings."""
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(side, str) for side in given)


def check_pairs(trained: bool | None, given: bool) -> None:
    """Raise an error for single texts given to a model of pairs, or pairs given to a model of single texts.

    Args:
        trained: whether the model was trained on pairs (None: unknown).
        given: whether the inputs are pairs.

    Raises:
        DataError: the two differ.
    """
    if trained is not None and trained != given:
        raise DataError(
            "the model was trained on pairs; give the second text too (--pair, --pair-column)"
            if trained
            else "the model was trained on single texts; leave out the second one (--pair, --pair-column)"
        )


def check_minimum(min_probability: float) -> None:
    """Raise a ConfigError unless min_probability is in [0, 1]."""
    if not 0 <= min_probability <= 1:
        raise ConfigError(f"min_probability is {min_probability}, but must be between 0 and 1")
