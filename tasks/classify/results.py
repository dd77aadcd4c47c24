"""What a classifier is given and what it gives back."""

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
    """What a classifier says about one text; it prints as its labels.

    Attributes:
        text: as given; of a pair, the first.
        label: the most probable one, or None where its probability is below the minimum asked for.
        probability: of the most probable label.
        labels: those assigned: the one label, or with several labels a text, all at or above the threshold.
        scores: probability of every label, the highest first. They sum to one, except where a text may have several
            labels: then each is a yes or no of its own.
        pieces: how many pieces the text was read in; 1 unless it is longer than the model's context.
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
    """How sensitive a label's logit is to each token of a text.

    Attributes:
        label: the one explained.
        pieces: the text, cut into tokens; joined they give the text back (of a pair, the two texts one after the
            other). A character that falls into several tokens stands with the last of them.
        weights: gradient x input of each, and the share of its words in the linear model's logit, where the classifier
            has one; above 0 it speaks for the label, to first order.
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
        text: as given.
        labels: all that the classifier knows.
        probabilities: of each.
        minimum: of the most probable label; below it the text has none.
        threshold: from which on a label is assigned, where a text may have several (None: it has one).
        pieces: in which the text was read.
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
    """The texts or pairs of texts given to a classifier, and whether they were several.

    A pair is a tuple of two strings. By itself, not in a list, such a tuple is a pair only for a model of pairs; for
    any other it is two texts.

    Args:
        inputs: one, or a sequence.
        pairs: whether the model was trained on pairs; None where that is not known.

    Raises:
        DataError: an input is neither, or is a pair or none against what the model was trained on.
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
    """Whether something is a tuple of two strings."""
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(side, str) for side in given)


def check_pairs(trained: bool | None, given: bool) -> None:
    """Refuse single texts for a model of pairs, and pairs for a model of single texts.

    Args:
        trained: whether on pairs; None where that is not known.
        given: whether it is given pairs.

    Raises:
        DataError: they differ.
    """
    if trained is not None and trained != given:
        raise DataError(
            "the model was trained on pairs; give the second text too (--pair, --pair-column)"
            if trained
            else "the model was trained on single texts; leave out the second one (--pair, --pair-column)"
        )


def check_minimum(min_probability: float) -> None:
    """Raise a ConfigError for what is no probability."""
    if not 0 <= min_probability <= 1:
        raise ConfigError(f"min_probability is {min_probability}, but must be between 0 and 1")
