"""The training loss of a classifier: labels, and optionally next-token prediction.

Shapes: `B` rows, `T` positions, `D` d_model, `C` classes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from suite.model.heads import Headed
from suite.training.batches import OUTSIDE, Batch
from suite.training.loss import LossFunction, cross_entropy


def classification(
    *, smoothing: float = 0.0, lm_weight: float = 0.0, token_dropout: float = 0.0, blank: int = 0
) -> LossFunction:
    """The loss of a head's labels, plus `lm_weight` times that of next-token prediction.

    The divisor is the number of rows. Rows with a class take cross-entropy over all outputs; rows with a target for
    each output take the sum of binary cross-entropies. It also reports "accuracy": whether the most probable output is
    the row's class, or is among the row's targets.

    Args:
        smoothing: label smoothing of classes, only in training.
        lm_weight: weight of a row's mean next-token loss, only in training; if rows have a prefix or lose tokens, it
            costs a second, causal pass. Source: Radford et al. 2018, section 3.2.
        token_dropout: share of the tokens between a row's first and last that are hidden from the head, only in
            training. Source: Iyyer et al. 2015, "Deep Unordered Composition Rivals Syntactic Methods".
        blank: id that replaces hidden tokens.

    Returns:
        a loss function for `Headed` models.
    """

    def loss(model: Headed, batch: Batch) -> tuple[Tensor, float, dict[str, Tensor]]:
        tokens = batch.tokens
        if model.training and token_dropout:
            index = torch.arange(tokens.shape[1], device=tokens.device)
            inner = (index > 0) & (index < batch.lengths[:, None] - 1)  # (B, T)
            tokens = torch.where(
                inner & (torch.rand(tokens.shape, device=tokens.device) < token_dropout), blank, tokens
            )
        hidden = model.transformer.hidden(tokens, prefix=batch.prefix)  # (B, T, D)
        scores, labels = model.score(hidden, batch.lengths), batch.labels  # (B, C)
        if labels is None:  # a rank without examples: its share of the gradient is 0
            return (scores.sum() + hidden.sum()) * 0.0, 0, {"accuracy": torch.zeros((), device=tokens.device)}
        first = scores.argmax(dim=-1, keepdim=True)  # (B, 1)
        if labels.dim() == 1:
            total = F.cross_entropy(
                scores, labels, reduction="sum", label_smoothing=smoothing if model.training else 0.0
            )
            right = first[:, 0] == labels
        else:
            total = F.binary_cross_entropy_with_logits(scores, labels, reduction="sum")
            right = labels.gather(1, first)[:, 0] > 0
        if model.training and lm_weight:
            if batch.prefix is not None or token_dropout:
                hidden = model.transformer.hidden(batch.inputs)
            targets = batch.targets
            counted = targets != OUTSIDE  # (B, T - 1)
            weights = (lm_weight / counted.sum(dim=1, keepdim=True)).expand_as(counted)[counted]
            inputs, head = hidden[:, : counted.shape[1]][counted], model.transformer.head.weight
            total = total + cross_entropy(inputs, head, targets[counted], weights=weights)
        return total, len(labels), {"accuracy": right.sum()}

    return loss
