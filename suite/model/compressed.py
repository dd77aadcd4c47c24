"""Memory-compressed attention: `n` neighbouring keys are merged into a single key, and likewise their values.

A query sees the compressed blocks within its reach, and the positions nearest to it as they are. Like all layers, one
that compresses first appends to the cache (`append`) and then attends (`attend`), in one of three ways that its
pattern from `suite.model.plan` tells apart: a whole pass from position 0, one new token, or rows that stand at
different positions.

Shapes: `B` batch, `T` new positions (queries), `S` all that can be attended to, `H` heads, `K` key/value heads,
`E` head width, `n` stride, `C` compressed blocks, `N` blocks of queries.

Source: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from suite.model.attention import fused, neighbourhoods
from suite.model.plan import CompressedSlots, CompressedStep, CompressedWhole, compressed_mask

PATTERNS = CompressedWhole, CompressedStep, CompressedSlots
Compressed = CompressedWhole | CompressedStep | CompressedSlots


class Compression(nn.Module):
    """Merges every `stride` neighbouring keys or values by a convolution with that kernel and stride.

    All heads share it. The result is the mean plus the product with a matrix that starts at zero.
    """

    def __init__(self, stride: int, width: int) -> None:
        super().__init__()
        self.stride = stride
        self.linear = nn.Linear(stride * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, K, C * stride, E) -> (B, K, C, E)."""
        batch, heads, length, width = x.shape
        x = x.reshape(batch, heads, length // self.stride, self.stride, width)
        out: Tensor = x.mean(dim=3) + self.linear(x.flatten(3))
        return out


def append(stored: Tensor | None, new: Tensor, compress: Callable[[Tensor], Tensor], pattern: Compressed) -> Tensor:
    """Compress and store completed blocks of keys (or values); returns all that can be attended to, (B, K, S, E).

    Args:
        stored: (B, K, slots, E) the layer's part of the cache, as `KVCache` says; None without a cache.
        new: (B, K, T, E).
        compress: (B, K, C * n, E) -> (B, K, C, E).
        pattern: of the layer.
    """
    stride = pattern.stride
    if isinstance(pattern, CompressedWhole):
        length = new.shape[2]
        count = length // stride
        blocks = compress(new[:, :, : count * stride])
        if stored is not None:
            stored[:, :, stride : stride + count] = blocks
            latest = torch.arange(max(0, length - stride), length, device=new.device)
            stored[:, :, latest % stride] = new[:, :, -stride:].to(stored.dtype)
        return torch.cat((blocks, new), dim=2)
    assert stored is not None
    if isinstance(pattern, CompressedStep):
        start, end = pattern.start, pattern.start + 1
        stored.narrow(2, start % stride, 1).copy_(new)
        if end % stride == 0:
            block = compress(stored.narrow(2, 0, stride))
            stored.narrow(2, stride + start // stride, 1).copy_(block)
        return stored.narrow(2, 0, min(stride, end) + end // stride)
    known = torch.cat((stored[:, :, :stride], new.to(stored.dtype)), dim=2)  # (B, K, n + T, E)
    blocks = compress(known[pattern.rows, :, pattern.parts].transpose(1, 2))  # (B, K, C, E)
    stored[pattern.rows, :, pattern.blocks] = blocks.transpose(1, 2).to(stored.dtype)
    stored[:, :, :stride] = known[pattern.rows, :, pattern.latest].transpose(1, 2)
    return torch.cat((stored[:, :, stride : pattern.stop], known), dim=2)


def attend(queries: Tensor, keys: Tensor, values: Tensor, pattern: Compressed, dropout_p: float) -> Tensor:
    """Attention of (B, H, T, E) on what `append` returned for keys and values, (B, K, S, E); returns (B, H, T, E)."""
    if isinstance(pattern, CompressedWhole):
        return whole(queries, keys, values, pattern, dropout_p)
    mask = pattern.mask if isinstance(pattern, CompressedSlots) else None
    return fused(queries, keys, values, mask, dropout_p)


def whole(queries: Tensor, keys: Tensor, values: Tensor, pattern: CompressedWhole, dropout_p: float) -> Tensor:
    """`attend` from position 0: blocks of queries take turns.

    Tensors of a single block (its mask, its concatenated keys and values) are recomputed in the backward pass: keeping
    them would take memory that grows with T squared.
    """
    stride, size = pattern.stride, pattern.block
    length = queries.shape[2]
    back, ahead = stride - 1, 0 if pattern.prefix is None else stride - 1
    near, blocks = [], []
    for part in (keys, values):
        compact, single = torch.split(part, [length // stride, length], dim=2)
        blocks.append(compact)
        near.append(neighbourhoods(single, size, back, ahead).unbind(1))  # N of (B, K, back + block + ahead, E)
    mixed = []
    for place, some in enumerate(torch.split(queries, size, dim=2)):
        step = functools.partial(one_block, place * size, pattern, dropout_p)
        inputs = (some, *blocks, near[0][place], near[1][place])
        if some.requires_grad:
            mixed.append(checkpoint(step, *inputs, use_reentrant=False, preserve_rng_state=dropout_p > 0))
        else:
            mixed.append(step(*inputs))
    return torch.cat(mixed, dim=2)


def one_block(
    first: int,
    pattern: CompressedWhole,
    dropout_p: float,
    queries: Tensor,
    block_keys: Tensor,
    block_values: Tensor,
    near_keys: Tensor,
    near_values: Tensor,
) -> Tensor:
    """Attention of the queries (B, H, block, E) from position `first` on; returns (B, H, block, E).

    Args:
        block_keys, block_values: (B, K, C, E) all there are; those that no query sees are cut off.
        near_keys, near_values: (B, K, back + block + ahead, E) single positions around the queries.
    """
    stride, reach, device = pattern.stride, pattern.reach, queries.device
    length = queries.shape[2]
    begin = max(0, first - reach) // stride if reach else 0
    end = block_keys.shape[2] if pattern.prefix is not None else (first + length) // stride
    at = first + torch.arange(length, device=device)[:, None]
    held = torch.arange(begin, end, device=device) * stride
    single = torch.arange(first - stride + 1, first - stride + 1 + near_keys.shape[2], device=device)
    mask = compressed_mask(at, held, single, stride, reach, pattern.prefix)
    seen_keys = torch.cat((block_keys[:, :, begin:end], near_keys), dim=2)
    seen_values = torch.cat((block_values[:, :, begin:end], near_values), dim=2)
    return fused(queries, seen_keys, seen_values, mask if mask.dim() == 2 else mask[:, None], dropout_p)
