"""Cross-entropy over the vocabulary, in pieces, and the loss of next-token prediction.

The logits of a batch can be larger than the whole model. Here they exist for a few hundred positions at a time: each
piece's gradient is taken while it is there, so that the backward pass has nothing to compute again.

Shapes: `N` positions in the loss, `D` d_model, `V` vocabulary, `B` rows, `T` positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from suite.model import Transformer
from suite.training.batches import OUTSIDE, Batch

# (model, batch) -> (sum of losses, what to divide its total by, other sums to report)
LossFunction = Callable[[Any, Batch], tuple[Tensor, float, dict[str, Tensor]]]

PIECE = 1 << 22  # logits that exist at one time on a CPU
SLICE = 1 << 18  # logits processed at one time: they fit in the CPU's second-level cache
GPU_PIECE = 1 << 27  # both on a GPU, which wants few large kernels


def _losses(logits: Tensor, targets: Tensor, weights: Tensor | None, smoothing: float) -> Tensor:
    """Cross-entropies (n, 1) of rows of logits; overwrites the logits with the gradient of their weighted sum.

    Args:
        logits: (n, V), overwritten.
        targets: (n, 1) ids.
        weights: (n, 1) or None.
        smoothing: label smoothing.

    Returns:
        (n, 1) float32, weighted.
    """
    scores = logits.float()  # in float32 these are the logits themselves
    top = scores.amax(dim=-1, keepdim=True)  # (n, 1)
    correct = scores.gather(1, targets) - top
    mean = scores.mean(dim=-1, keepdim=True) - top if smoothing else None
    exponents = scores.sub_(top).exp_()
    norm = exponents.sum(dim=-1, keepdim=True)
    loss = norm.log() - correct
    if mean is not None:
        loss = loss + smoothing * (correct - mean)
    gradient = exponents.mul_(norm.reciprocal())  # the softmax, less the target's distribution
    gradient.scatter_add_(1, targets, torch.full_like(norm, smoothing - 1))
    if smoothing:
        gradient.sub_(smoothing / logits.shape[1])
    if weights is not None:
        loss, gradient = loss * weights, gradient.mul_(weights)
    if gradient is not logits:
        logits.copy_(gradient)
    return loss


class _PiecewiseCrossEntropy(torch.autograd.Function):
    """Sum of weighted cross-entropies of softmax(hidden @ head.T)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        targets: Tensor,
        weights: Tensor | None,
        smoothing: float,
        learning: bool,
    ) -> Tensor:
        matrix = head.to(hidden.dtype)  # products are taken in this type, everything else in float32
        on_cpu = hidden.device.type == "cpu"
        rows = max(1, (PIECE if on_cpu else GPU_PIECE) // len(head))
        fine = max(1, (SLICE if on_cpu else GPU_PIECE) // len(head))
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_grad = torch.empty_like(hidden) if learning else None
        head_grad = torch.zeros_like(head) if learning else None
        targets = targets[:, None]  # (N, 1)
        weights = None if weights is None else weights[:, None].float()
        for start in range(0, len(hidden), rows):
            piece = hidden[start : start + rows]  # (n, D)
            logits = piece @ matrix.T  # (n, V)
            for offset in range(0, len(piece), fine):
                at = slice(start + offset, start + min(offset + fine, len(piece)))
                weight = None if weights is None else weights[at]
                total += _losses(logits[offset : offset + fine], targets[at], weight, smoothing).sum()
            if hidden_grad is not None and head_grad is not None:  # the logits are their own gradient by now
                torch.mm(logits, matrix, out=hidden_grad[start : start + rows])
                head_grad += logits.T @ piece
        if learning:
            ctx.save_for_backward(hidden_grad, head_grad)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        hidden_grad, head_grad = ctx.saved_tensors
        (outer,) = gradients
        return hidden_grad * outer.to(hidden_grad.dtype), head_grad * outer, None, None, None, None


def cross_entropy(
    hidden: Tensor, head: Tensor, targets: Tensor, *, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Sum of -log p(target) under softmax(hidden @ head.T), without ever holding all logits.

    Args:
        hidden: (N, D).
        head: (V, D).
        targets: (N,) ids.
        weights: (N,) float32 factors of each position's loss (None: 1).
        smoothing: share of the target's probability that is spread evenly over the vocabulary.
            Source: Szegedy et al. 2016, section 7.

    Returns:
        () float32, in nats. Products are in bfloat16 under autocast.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    learning = torch.is_grad_enabled() and (hidden.requires_grad or head.requires_grad)  # inside, no gradients are on
    with torch.autocast(hidden.device.type, enabled=False):
        loss: Tensor = _PiecewiseCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, head, targets, weights, smoothing, learning
        )
    return loss


def language_modelling(smoothing: float = 0.0, source_weight: float = 0.0) -> LossFunction:
    """The loss of next-token prediction on the tokens from each row's `target` on.

    Args:
        smoothing: label smoothing, in training alone.
        source_weight: weight of the tokens before `target`, in training alone; they do not count in the divisor.

    Returns:
        a loss function; its divisor is the number of target tokens.
    """

    def loss(model: Transformer, batch: Batch) -> tuple[Tensor, float, dict[str, Tensor]]:
        hidden = model.hidden(batch.inputs, prefix=batch.prefix).flatten(0, 1)  # (B * T, D)
        targets = batch.targets.flatten()  # (B * T,)
        weights = None
        if model.training and source_weight and batch.real > batch.count:
            index = torch.arange(1, batch.tokens.shape[1], device=targets.device)  # (T,)
            real = (index < batch.lengths[:, None]).flatten()
            weights = torch.where(targets == OUTSIDE, source_weight, 1.0)[real]
            hidden, targets = hidden[real], batch.tokens[:, 1:].flatten()[real]
        elif batch.count < targets.numel():
            counted = targets != OUTSIDE
            hidden, targets = hidden[counted], targets[counted]
        total = cross_entropy(
            hidden, model.head.weight, targets, weights=weights, smoothing=smoothing if model.training else 0.0
        )
        return total, batch.count, {}

    return loss
