"""Smaller weights: int8 with one scale a row, for storage and for fast products on the CPU.

Shapes: `O` output channels (rows), `I` input channels (columns).
"""

from __future__ import annotations

import torch
from torch import Tensor

from suite.errors import SuiteError


def quantize_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round a matrix to int8, symmetrically, with one scale for each row.

    Args:
        weight: (O, I), any floating type.

    Returns:
        int8 (O, I) within -127..127, and float32 scales (O,): the row's largest magnitude / 127 (1 where all are 0).
        The error of an element is at most half its row's scale; a row that holds NaN or infinity comes back as NaN.

    Raises:
        SuiteError: `weight` is not a matrix.

    Example:
        >>> quantized, scales = quantize_int8(torch.tensor([[0.5, -1.27]]))
        >>> quantized.tolist(), round(scales.item(), 6)
        ([[50, -127]], 0.01)
    """
    if weight.dim() != 2:
        raise SuiteError(f"int8 weights need a matrix, and this tensor has {weight.dim()} dimensions")
    weight = weight.detach().float()
    scales = weight.abs().amax(dim=1) / 127  # (O,)
    scales[scales == 0] = 1.0
    quantized = (weight / scales[:, None]).round_().clamp_(-127, 127).nan_to_num_(0).to(torch.int8)  # (O, I)
    scales[~scales.isfinite()] = torch.nan
    return quantized, scales


def dequantize_int8(quantized: Tensor, scales: Tensor) -> Tensor:
    """The inverse of `quantize_int8`, up to rounding: int8 (O, I) and float32 (O,) -> float32 (O, I)."""
    return quantized.float() * scales[:, None]
