"""Making probabilities mean what they say: a temperature, and the weight of the linear model of words.

Shapes: `N` examples, `C` classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.model.heads import Headed
from suite.tasks.classify.codec import by_length
from suite.tasks.classify.metrics import Floats, indicators
from suite.training.batches import Batch, Example

WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0)  # of another model's logits beside one's own
TEMPERATURES = (0.01, 100.0)


def calibrate(
    model: Headed, examples: Sequence[Example], linear: NDArray[np.float32] | None = None
) -> dict[str, float]:
    """What makes a trained model's probabilities honest on validation examples.

    Args:
        model: after training.
        examples: N that it was not trained on.
        linear: (N, C) logits of another model, to be weighed in.

    Returns:
        {"temperature": ..., "ngram_weight": ...}, for a checkpoint's `extra`.
    """
    device = model.output.weight.device
    order: list[int] = []
    logits: list[Tensor] = []
    labels: list[Tensor] = []
    with torch.inference_mode():
        for rows in by_length([example.tokens for example in examples]):
            batch = Batch.collate([examples[row] for row in rows]).to(device)
            assert batch.labels is not None
            order += rows
            logits.append(model(batch.tokens, batch.lengths, batch.prefix).cpu())
            labels.append(batch.labels.cpu())
    weight, temperature = fit_mixture(
        torch.cat(logits).numpy(), None if linear is None else linear[order], torch.cat(labels).numpy()
    )
    return {"temperature": temperature, "ngram_weight": weight}


def fit_temperature(logits: Any, labels: Any) -> float:
    """The temperature that logits should be divided by for the least negative log-likelihood.

    The labels are smoothed as if one further example were seen with each class equally often. That fades with 1 / N,
    and keeps the temperature from zero where every example is right, which a few examples easily are.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2; Platt 1999, "Probabilistic outputs
    for support vector machines", section 2.2 (smoothed targets).

    Args:
        logits: (N, C) of examples that were not trained on; array or tensor on the CPU.
        labels: (N,) columns, or (N, C) yes and no for independent classes.

    Returns:
        the temperature, in [0.01, 100]; above 1 where the classifier was too sure of itself. 1 where there are no
        examples.
    """
    scores, truth = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if not scores.size:
        return 1.0
    independent = truth.ndim == 2
    targets = _smoothed(truth, scores.shape[1])
    if not independent:  # the softmax does not see a shift, but rounding does
        scores = scores - scores.max(axis=1, keepdims=True)

    def slope(log_scale: float) -> float:
        """d NLL / d scale, which rises with the scale (= 1 / temperature): the NLL is convex in it."""
        scaled = np.exp(log_scale) * scores
        if independent:
            expected = (1 + np.tanh(scaled / 2)) / 2  # the sigmoid, which cannot overflow so
        else:
            powers = np.exp(scaled)
            expected = powers / powers.sum(axis=1, keepdims=True)
        return float(((expected - targets) * scores).mean())

    from scipy.optimize import brentq

    sharpest, flattest = TEMPERATURES
    low, high = -np.log(flattest), -np.log(sharpest)
    if slope(low) >= 0:  # no better than guessing, or all logits are equal
        return flattest if slope(low) > 0 else 1.0
    if slope(high) <= 0:
        return sharpest
    return float(np.exp(-brentq(slope, low, high, xtol=1e-6)))


def fit_mixture(logits: Any, others: Any, labels: Any) -> tuple[float, float]:
    """The weight of another model's logits beside these, and the temperature that the sum is divided by.

    Both for the least negative log-likelihood, with labels smoothed as in `fit_temperature`.

    Args:
        logits: (N, C) of examples that neither model was trained on.
        others: (N, C) of the other model; None where there is none.
        labels: (N,) columns, or (N, C) yes and no for independent classes.

    Returns:
        the weight, one of `WEIGHTS` (0 without `others`, or where they are no help), and the temperature.
    """
    if others is None or not np.size(logits):
        return 0.0, fit_temperature(logits, labels)
    scores, more = np.asarray(logits, dtype=np.float64), np.asarray(others, dtype=np.float64)
    targets = _smoothed(np.asarray(labels), scores.shape[1])
    found = []
    for weight in WEIGHTS:
        mixed = scores + weight * more
        temperature = fit_temperature(mixed, labels)
        scaled = mixed / temperature
        if np.ndim(labels) == 2:
            loss = (np.logaddexp(0, scaled) - targets * scaled).mean()
        else:
            scaled -= scaled.max(axis=1, keepdims=True)
            loss = (np.log(np.exp(scaled).sum(axis=1)) - (targets * scaled).sum(axis=1)).mean()
        found.append((float(loss), weight, temperature))
    _, weight, temperature = min(found)
    return weight, temperature


def _smoothed(truth: Any, classes: int) -> Floats:
    """Labels (N,) or (N, C) as probabilities (N, C), as if one further example had each class equally often."""
    independent = truth.ndim == 2
    targets = truth.astype(np.float64) if independent else indicators(truth, classes).astype(np.float64)
    smoothed: Floats = (len(truth) * targets + (0.5 if independent else 1 / classes)) / (len(truth) + 1)
    return smoothed
