"""Rotary positions: queries and keys turn with their positions, so that their products depend on distances alone.

Shapes: `B` batch, `T` positions, `H` heads, `E` head width.

Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotary_table(positions: Tensor, width: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines that rotate heads of `width` by `positions`, each (..., T, width) in float32.

    Args:
        positions: (..., T) absolute positions.
        width: of a head, even; each frequency stands in both halves.
        theta: base of the frequencies.
    """
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    angles = positions[..., None].float() * theta**-exponents  # (..., T, width / 2)
    angles = torch.cat((angles, angles), dim=-1)  # (..., T, width)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x` (B, H, T, E) with each pair (i, i + E/2) rotated by its position's angle, in the type of `x`."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)  # in bfloat16 the rotation itself stays there: half the traffic
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
