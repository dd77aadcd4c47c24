"""Scaled dot-product attention: queries, keys and values in, mixed values out.

Pure functions of tensors; which keys a query may see is in the pattern that `suite.model.plan` made for the layer.
Relative positions and compressed keys have files of their own, which build on this one.

Shapes: `B` batch, `T` new positions (queries), `S` keys, `H` heads, `K` key/value heads, `E` head width, `N` blocks of
queries.

Source: Vaswani et al. 2017, "Attention Is All You Need"; grouped key/value heads: Ainslie et al. 2023, "GQA".
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from suite.model.dropout import dropout
from suite.model.plan import Dense, Local

# below so many positions, bfloat16 attention trains faster on a CPU in plain products than in PyTorch's fused kernel
# (with some 25 positions in a fifth of the time; torch 2.13, on a CPU that multiplies bfloat16 in hardware)
SHORT = 192


def dense(queries: Tensor, keys: Tensor, values: Tensor, pattern: Dense, dropout_p: float) -> Tensor:
    """Attention of all queries (B, H, T, E) on the same keys and values (B, K, S, E); returns (B, H, T, E)."""
    if pattern.first:
        count = keys.shape[2] - pattern.first
        keys, values = keys.narrow(2, pattern.first, count), values.narrow(2, pattern.first, count)
    mask, length = pattern.mask, queries.shape[2]
    on_cpu = queries.device.type == "cpu"
    if length < SHORT and queries.dtype == torch.bfloat16 and queries.requires_grad and on_cpu:
        return plain(queries, keys, values, mask, dropout_p)
    return fused(queries, keys, values, mask, dropout_p, causal=mask is None and length > 1)


def fused(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout_p: float = 0.0, causal: bool = False
) -> Tensor:
    """PyTorch's fused kernel on (B, H, T, E) and (B, K, S, E); returns (B, H, T, E), without the weights.

    `mask` is broadcast to (B, H, T, S): True where a query may attend, or a float bias that is added to the scores.
    """
    batch, heads, length, width = queries.shape
    groups = heads // keys.shape[1]
    if groups > 1 and length == 1:  # one query a head: its group stands in the place of positions
        queries = queries.view(batch, keys.shape[1], groups, width)
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask).view(batch, heads, 1, width)
    return F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, dropout_p=dropout_p, is_causal=causal, enable_gqa=groups > 1
    )


def plain(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout_p: float) -> Tensor:
    """The same result as `fused` in plain operations, softmax in float32; causal on the last T of S without a mask."""
    length, seen = queries.shape[2], keys.shape[2]
    groups = queries.shape[1] // keys.shape[1]
    if groups > 1:
        keys, values = keys.repeat_interleave(groups, dim=1), values.repeat_interleave(groups, dim=1)
    if mask is None:
        mask = torch.ones(length, seen, dtype=torch.bool, device=queries.device).tril(seen - length)
    scores = (queries @ keys.mT).float() * queries.shape[-1] ** -0.5  # (B, H, T, S)
    return mix(scores, mask, values, dropout_p)


def mix(scores: Tensor, mask: Tensor, values: Tensor, dropout_p: float) -> Tensor:
    """Values (B, K, S, E) weighted by the softmax of scores (B, H, T, S) where mask is True; returns (B, H, T, E)."""
    # added, because filling takes one more pass over all scores, and another over their gradient
    unseen = torch.where(mask, 0.0, -torch.inf).to(scores.dtype)
    weights = dropout((scores + unseen).softmax(dim=-1), dropout_p).to(values.dtype)  # (B, H, T, S)
    grouped = weights.reshape(*values.shape[:2], -1, values.shape[2])  # (B, K, H / K * T, S)
    return (grouped @ values).view(*scores.shape[:3], -1)


def local(queries: Tensor, keys: Tensor, values: Tensor, pattern: Local, dropout_p: float) -> Tensor:
    """Attention from position 0 of queries (B, H, T, E) on the keys near them; returns (B, H, T, E).

    Blocks of queries stand in the batch, each beside the keys that it may see.

    Source: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", local attention; with blocks that
    overlap, so that a window is the same at every position, as in Beltagy et al. 2020, "Longformer".
    """
    length, sides = queries.shape[2], (pattern.back, pattern.ahead)
    # (B * N, K, back + block + ahead, E)
    near_keys, near_values = (neighbourhoods(part, pattern.block, *sides).flatten(0, 1) for part in (keys, values))
    blocks = neighbourhoods(queries, pattern.block)  # (B, N, H, block, E)
    mixed = fused(blocks.flatten(0, 1), near_keys, near_values, pattern.bias, dropout_p)
    return mixed.view(*blocks.shape).transpose(1, 2).flatten(2, 3)[:, :, :length]


def neighbourhoods(x: Tensor, size: int, back: int = 0, ahead: int = 0) -> Tensor:
    """Blocks of `size` positions with those `back` before and `ahead` after: (B, N, H, back + size + ahead, E).

    Args:
        x: (B, H, T, E); beyond its ends there are zeros.

    Returns:
        a view of one padded copy, however much the blocks overlap.
    """
    padded = F.pad(x, (0, 0, back, -x.shape[2] % size + ahead))
    return padded.unfold(2, back + size + ahead, size).permute(0, 2, 1, 4, 3)
