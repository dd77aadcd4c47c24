"""Attention with relative positions: each head has a vector for every distance, and its product with the query is added
to the score of the key at that distance.

Many queries take those products for all distances at once and `skew` them into place; one query, or rows that stand at
different positions, look them up. The pattern that `suite.model.plan` made for the layer says which.

Shapes: `B` batch, `T` new positions (queries), `S` keys, `H` heads, `K` key/value heads, `E` head width, `R` rows of
the table, `L` distances.

Source: Shaw et al. 2018, "Self-Attention with Relative Position Representations"; Huang et al. 2018, "Music
Transformer".
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from suite.model.attention import mix
from suite.model.plan import Gathered, Skewed


def relative(
    queries: Tensor, keys: Tensor, values: Tensor, pattern: Skewed | Gathered, table: Tensor, dropout_p: float
) -> Tensor:
    """Attention of (B, H, T, E) on (B, K, S, E) with a table (R, H * E) of distances; returns (B, H, T, E)."""
    queries = queries * queries.shape[-1] ** -0.5
    if isinstance(pattern, Skewed):
        return skewed(queries, keys, values, pattern, table, dropout_p)
    return gathered(queries, keys, values, pattern, table, dropout_p)


def skewed(queries: Tensor, keys: Tensor, values: Tensor, pattern: Skewed, table: Tensor, dropout_p: float) -> Tensor:
    """`relative` for scaled queries, block by block in plain products, so that memory grows as T * S alone.

    A CPU has no fused kernel that gives the gradient of what is added to the scores.
    """
    length, end = queries.shape[2], keys.shape[2]
    vectors = F.embedding(pattern.rows, table)  # (S + spare, H * E)
    spare = len(vectors) - end
    mixed = []
    for first in range(0, length, pattern.block):
        block = queries[:, :, first : first + pattern.block]
        count = block.shape[2]
        later = length - first - count  # queries after the block
        seen = end if pattern.prefixed else end - later
        nearby = vectors[later : later + seen + min(spare, count)]  # (L, H * E)
        grouped = block.reshape(*keys.shape[:2], -1, keys.shape[3])  # (B, K, H / K * count, E)
        scores = (grouped @ keys[:, :, :seen].mT).view(*block.shape[:3], seen)  # (B, H, count, seen)
        scores = scores + skew(by_distance(block, nearby), seen)
        mask = pattern.mask[..., first : first + pattern.block, :seen]
        mixed.append(mix(scores, mask, values[:, :, :seen], dropout_p))
    return torch.cat(mixed, dim=2)


def gathered(
    queries: Tensor, keys: Tensor, values: Tensor, pattern: Gathered, table: Tensor, dropout_p: float
) -> Tensor:
    """`relative` for scaled queries whose products with the table are looked up key by key."""
    if isinstance(pattern.rows, int):
        scores = by_distance(queries, table.narrow(0, pattern.rows, keys.shape[2]))  # (B, H, T, S)
    else:
        rows = pattern.rows.expand(*queries.shape[:2], -1, -1)  # (B, H, T, S)
        scores = by_distance(queries, table).gather(-1, rows)
    if pattern.mask is not None:
        scores = scores.masked_fill(~pattern.mask, -torch.inf)
    grouped = queries.reshape(*keys.shape[:2], -1, keys.shape[3])  # (B, K, H / K * T, E)
    bias = scores.reshape(*grouped.shape[:3], -1)
    mixed = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=bias, dropout_p=dropout_p, scale=1.0)
    return mixed.view(queries.shape)


def by_distance(queries: Tensor, vectors: Tensor) -> Tensor:
    """Products of queries (B, H, T, E) with their heads' vectors of L distances, (L, H * E): (B, H, T, L)."""
    batch, heads, length, width = queries.shape
    by_head = vectors.view(-1, heads, width).permute(1, 2, 0)  # (H, E, L)
    rows = queries.transpose(0, 1).reshape(heads, -1, width)  # (H, B * T, E)
    return (rows @ by_head).view(heads, batch, length, -1).transpose(0, 1)


def skew(scores: Tensor, keys: int) -> Tensor:
    """Turn scores by distance (B, H, T, L) into scores by key (B, H, T, S): row t moves left by T - 1 - t.

    Cut into rows one shorter, the same numbers stand below each other by key; no number is copied.

    Args:
        scores: L > S distances, falling by one; the first is that of the last query and the first key.
        keys: S.

    Returns:
        a view; it holds nothing of use where a key's distance is less than the last of the L.

    Source: Huang et al. 2018, "Music Transformer", section 3.4.1.
    """
    length, distances = scores.shape[2:]
    cut = scores.flatten(2).narrow(2, length - 1, length * (distances - 1))  # (B, H, T * (L - 1))
    return cut.view(*scores.shape[:3], distances - 1)[..., :keys]
