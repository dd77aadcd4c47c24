"""Rotary positions: queries and keys turn with their positions, so that their products depend on distances alone.

Shapes: `B` batch, `T` positions, `H` heads, `E` head width.

Where only the start of each head is rotated, `E` in the tables is the width of that part.

Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.model.config import RopeScaling


def rotary_table(
    positions: Tensor, width: int, theta: float, scaling: RopeScaling | None = None
) -> tuple[Tensor, Tensor]:
    """Cosines and sines that rotate heads of `width` by `positions`, each (..., T, width) in float32.

    Args:
        positions: (..., T) absolute positions.
        width: of a head, even; each frequency stands in both halves.
        theta: base of the frequencies.
        scaling: how the frequencies are lowered (None: they are not).
    """
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    frequencies = theta**-exponents  # (width / 2,)
    if scaling is not None:
        frequencies = scaled(frequencies, scaling)
    angles = positions[..., None].float() * frequencies  # (..., T, width / 2)
    angles = torch.cat((angles, angles), dim=-1)  # (..., T, width)
    return angles.cos(), angles.sin()


def scaled(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Lower frequencies (radians a token) as `RopeScaling` says; returns a tensor of the same shape."""
    lowered = frequencies / scaling.factor
    if scaling.kind == "linear":
        return lowered
    turns = scaling.original_context * frequencies / (2 * math.pi)
    kept = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)  # share of the frequency as it was
    return (1 - kept) * lowered + kept * frequencies


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x` (B, H, T, E) with each pair (i, i + E/2) rotated by its position's angle, in the type of `x`.

    Where the tables are narrower than `x`, the rest of each head stays as it is.
    """
    if cos.shape[-1] < x.shape[-1]:
        turned, rest = x.split_with_sizes((cos.shape[-1], x.shape[-1] - cos.shape[-1]), dim=-1)
        return torch.cat((rotate(turned, cos, sin), rest), dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)  # in bfloat16 the rotation itself stays there: half the traffic
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
