"""Calibration of a classifier: the temperature of its softmax, and the weight of the linear model of words.

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

WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0)  # candidate factors of the other model's logits
TEMPERATURES = (0.01, 100.0)


def calibrate(
    model: Headed, examples: Sequence[Example], linear: NDArray[np.float32] | None = None
) -> dict[str, float]:
    """Fit the temperature, and the weight of a linear model, on validation examples.

    Args:
        model: the trained model.
        examples: N examples that it was not trained on.
        linear: (N, C) logits of the linear model (None: there is none).

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
    """The temperature that minimises the negative log-likelihood of logits / temperature.

    The labels are smoothed as if there were one more example whose label is uniform over the classes. The effect falls
    as 1 / N; it keeps the temperature above zero when every example is classified correctly, which is likely when there
    are few.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2; Platt 1999, "Probabilistic outputs
    for support vector machines", section 2.2 (smoothed targets).

    Args:
        logits: (N, C) for examples that were not trained on; array or tensor on the CPU.
        labels: (N,) column indices, or (N, C) booleans for independent classes.

    Returns:
        the temperature, in [0.01, 100]; above 1 if the classifier was overconfident, 1 if there are no examples.
    """
    scores, truth = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if not scores.size:
        return 1.0
    independent = truth.ndim == 2
    targets = _smoothed(truth, scores.shape[1])
    if not independent:  # the softmax is the same after a shift, but rounding errors are smaller
        scores = scores - scores.max(axis=1, keepdims=True)

    def slope(log_scale: float) -> float:
        """Derivative of the NLL by scale = 1 / temperature; it increases with scale, because the NLL is convex."""
        scaled = np.exp(log_scale) * scores
        if independent:
            expected = (1 + np.tanh(scaled / 2)) / 2  # the sigmoid, in a form that cannot overflow
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
    """The weight and the temperature that minimise the NLL of (logits + weight * others) / temperature.

    Labels are smoothed as in `fit_temperature`.

    Args:
        logits: (N, C) for examples that neither model was trained on.
        others: (N, C) logits of the other model (None: there is none).
        labels: (N,) column indices, or (N, C) booleans for independent classes.

    Returns:
        the weight, from `WEIGHTS` (0 without `others`, or if they do not help), and the temperature.
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
    """Labels (N,) or (N, C) as probabilities (N, C), smoothed as if one more example had a uniform label."""
    independent = truth.ndim == 2
    targets = truth.astype(np.float64) if independent else indicators(truth, classes).astype(np.float64)
    smoothed: Floats = (len(truth) * targets + (0.5 if independent else 1 / classes)) / (len(truth) + 1)
    return smoothed
