"""The log-probability of a given translation under a model.

Shapes: `B` rows, `T` positions, `D` d_model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.model import Transformer
from suite.task import Prompt


def target_logprobs(
    transformer: Transformer, starts: Sequence[Prompt], targets: Sequence[Sequence[int]]
) -> list[float]:
    """The log-probability (nats) of each target after its start, all tokens together; see `token_logprobs`."""
    return [float(each.sum()) for each in token_logprobs(transformer, starts, targets)]


@torch.inference_mode()
def token_logprobs(
    transformer: Transformer, starts: Sequence[Prompt], targets: Sequence[Sequence[int]]
) -> list[NDArray[np.float64]]:
    """The log-probabilities (nats) of each target's tokens after its start.

    Args:
        transformer: in evaluation mode, if it has dropout.
        starts: what the targets follow.
        targets: ids, perhaps none.
    """
    rows = [[*start.tokens, *target] for start, target in zip(starts, targets, strict=True)]
    weight = transformer.norm.weight
    assert isinstance(weight, Tensor)
    device = weight.device
    tokens = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)  # (B, T)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row)
    prefix = torch.tensor([start.prefix for start in starts], device=device)
    hidden = transformer.hidden(tokens.to(device), prefix=prefix if prefix.any() else None)  # (B, T, D)
    found = []
    for place, (start, target) in enumerate(zip(starts, targets, strict=True)):
        first = len(start.tokens) - 1  # the position that predicts the target's first token
        scores = transformer.logits(hidden[place, first : first + len(target)]).log_softmax(dim=-1)  # (n, V)
        ids = torch.tensor(list(target), dtype=torch.long, device=device)[:, None]
        found.append(scores.gather(1, ids)[:, 0].cpu().double().numpy())
    return found
