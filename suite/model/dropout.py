"""Dropout whose random numbers cost a CPU little."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16  # values of 16 bits


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability `p` and scale the rest by 1 / (1 - p).

    On a CPU it draws 16 random bits an element: `F.dropout`'s draws cost more than the products around it.

    Args:
        x: of any shape.
        p: in [0, 1); on a CPU it is rounded to 1/65,536.

    Returns:
        a tensor like `x`; `x` itself where `p` is 0.
    """
    if not p:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # there one kernel draws and multiplies
        return F.dropout(x, p)
    dropped = min(round(p * LEVELS), LEVELS - 1)
    drawn = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)  # all 64 bits are random
    numbers = drawn.view(torch.int16)[: x.numel()].view(x.shape)  # from -32,768 to 32,767
    scale = LEVELS / (LEVELS - dropped)
    return x * (numbers >= dropped - LEVELS // 2).to(x.dtype).mul_(scale)
