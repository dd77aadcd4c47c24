"""Dropout whose random numbers cost a CPU little."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16  # that a chance is rounded to on a CPU


def drop(x: Tensor, chance: float) -> Tensor:
    """Zeros in the places that chance takes, and what is left scaled up to the same sum on average.

    PyTorch's dropout draws a number for each place, which takes a CPU longer than the products around it; this cuts
    each number drawn into four.

    Args:
        x: of any shape.
        chance: to become zero, in [0, 1); on a CPU it is rounded to 1/65,536.

    Returns:
        A tensor like `x`; `x` itself for a chance of 0.
    """
    if not chance:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # there one kernel draws and multiplies
        return F.dropout(x, chance)
    dropped = min(round(chance * LEVELS), LEVELS - 1)
    drawn = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)  # all 64 bits are random
    numbers = drawn.view(torch.int16)[: x.numel()].view(x.shape)  # from -32,768 to 32,767
    scale = LEVELS / (LEVELS - dropped)
    return x * (numbers >= dropped - LEVELS // 2).to(x.dtype).mul_(scale)
