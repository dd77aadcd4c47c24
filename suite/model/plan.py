"""The plan of one forward pass, made once for all layers: positions, cache slots, and which keys a query may see.

Nothing here looks at queries, keys or values; everything that does (`attention`, `relative`, `compressed`) takes its
layer's pattern from here and decides nothing. The rules of visibility stand in one function, `visible`:

- a query sees keys at its own position and before;
- where both lie in the prefix it sees keys after it too (prefix-LM);
- in a layer with a window, and in a model without learned positions, only keys that are near enough.

A pattern is how a layer applies them. Which it is depends on the pass:

| pattern | layer | pass |
| --- | --- | --- |
| `Dense` | any without the others | any |
| `Local` | with a window (or a pass longer than the context) | from position 0, three windows or longer |
| `Skewed` | relative positions | several tokens, rows aligned |
| `Gathered` | relative positions | one token, or rows scattered |
| `CompressedWhole` | compressed keys | from position 0, rows aligned |
| `CompressedStep` | compressed keys | one token, rows aligned |
| `CompressedSlots` | compressed keys | rows scattered |

All of them give the numbers that `Dense` with a mask of all pairs would give; the others take less time or memory.

Shapes: `B` batch, `T` new positions (queries), `S` keys, `N` blocks of queries, `n` positions that become one block of
compressed keys, `C` such blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.model.cache import Aligned, KVCache, Places, Scattered
from suite.model.config import ModelConfig

# queries a block, in local attention and on a CPU with relative positions: what a block needs stays in the CPU's cache,
# and half of the products, between queries and later keys, fall away
BLOCK = 128
# queries a block where keys are compressed: their mask is T / n wide, and shared by fewer queries than this
COMPRESSED_BLOCK = 256


class Dense(NamedTuple):
    """All queries look at the same keys, through a mask.

    Attributes:
        first: the first key any of them sees; keys before it are cut off.
        mask: (T, S - first) or (B, 1, T, S - first), True where a query may look. None: several queries are causal,
            one query sees everything.
    """

    first: int
    mask: Tensor | None


class Local(NamedTuple):
    """Blocks of queries look at the keys near them, so that memory grows with T alone.

    Attributes:
        block: queries a block.
        back, ahead: keys before and after a block that its queries may see.
        bias: (B * N, 1, block, back + block + ahead), 0 where a query may look and -inf elsewhere. Numbers, because
            PyTorch's kernel would make them of truth values in each layer anew, and keep them for the gradient.
    """

    block: int
    back: int
    ahead: int
    bias: Tensor


class Skewed(NamedTuple):
    """Several queries with relative positions, on rows that are aligned.

    Attributes:
        block: queries a block.
        mask: (T, S) or (B, 1, T, S), True where a query may look.
        rows: (S + T or S + 1) rows of the table, from the distance of the last query and the first key on.
        prefixed: whether queries may see keys ahead of them.
    """

    block: int
    mask: Tensor
    rows: Tensor
    prefixed: bool


class Gathered(NamedTuple):
    """One query with relative positions, or several on rows that are scattered.

    Attributes:
        mask: (T, S) or (B, 1, T, S), True where a query may look; None: everywhere.
        rows: (T, S) or (B, 1, T, S) the row of the table for each query and key; an int where one query's S rows lie
            together: the first of them.
    """

    mask: Tensor | None
    rows: Tensor | int


class CompressedWhole(NamedTuple):
    """A pass from position 0 on compressed keys; blocks of queries make their own masks.

    Attributes:
        stride: n.
        block: queries a block.
        reach: positions back that a query sees, itself included; 0: all of them.
        prefix: (B,) or None, as for `make_plan`.
    """

    stride: int
    block: int
    reach: int
    prefix: Tensor | None


class CompressedStep(NamedTuple):
    """One new token at position `start` of every row: all that it may look at lies together in the cache."""

    stride: int
    start: int


class CompressedSlots(NamedTuple):
    """Compressed keys for rows that are scattered; `CompressedWhole` says what `stride` is.

    Attributes:
        rows: (B, 1) row numbers, to index beside the slots.
        parts: (B, C * n) where the positions of the blocks that may become complete lie among the n latest positions
            before this pass and the T new ones.
        blocks: (B, C) the slot of each of those blocks; of one that stays incomplete, that for padding.
        latest: (B, n) where the n latest positions after this pass lie, as for `parts`.
        stop: where the slots end that hold blocks.
        mask: (B, 1, T, S) True where a query may look at the blocks, the n latest positions before this pass and the T
            new ones.
    """

    stride: int
    rows: Tensor
    parts: Tensor
    blocks: Tensor
    latest: Tensor
    stop: int
    mask: Tensor


Pattern = Dense | Local | Skewed | Gathered | CompressedWhole | CompressedStep | CompressedSlots


class Plan(NamedTuple):
    """The plan of a forward pass, from `make_plan`.

    Attributes:
        places: where the T new tokens of each row lie.
        positions: (T,) or (B, T), as they are embedded: behind a prefix they may count from 0 again.
        patterns: for each layer, which keys its queries see.
        added: for each row, how many of the T tokens are real.
    """

    places: Places
    positions: Tensor
    patterns: tuple[Pattern, ...]
    added: Sequence[int]


def make_plan(
    config: ModelConfig,
    batch: int,
    length: int,
    *,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    cache: KVCache | None = None,
    prefix: Tensor | None = None,
    lengths: Sequence[int] | None = None,
) -> Plan:
    """Make the plan of a forward pass.

    Args:
        config: the model's.
        batch, length: B and T.
        device, dtype: of the residual stream.
        cache: what the rows have seen; None for a pass from position 0.
        prefix: (B,) positions before which a row's tokens see each other both ways.
        lengths: with a cache, how many of the T tokens of each row are real (None: all).

    Raises:
        SuiteError: learned positions end before the last token, or the cache is too small.
    """
    added = [length] * batch if lengths is None or cache is None else list(lengths)
    places = locate(config, length, added, device, cache)
    made: dict[tuple[int, int], Pattern] = {}
    for layer in range(config.n_layer):
        kind = (config.window(layer), config.compression(layer))
        if kind not in made:
            made[kind] = make_pattern(config, places, *kind, prefix=prefix, batch=batch, dtype=dtype)
    patterns = tuple(made[config.window(layer), config.compression(layer)] for layer in range(config.n_layer))
    positions = places.positions
    restarts = prefix if prefix is not None or cache is None else cache.restarts
    if config.restart_positions and restarts is not None:
        behind = restarts[:, None]  # (B, 1)
        positions = positions - torch.where(positions >= behind, behind, 0)  # (B, T)
    return Plan(places, positions, patterns, added)


def locate(
    config: ModelConfig, length: int, added: Sequence[int], device: torch.device | None, cache: KVCache | None
) -> Places:
    """Where the new tokens lie: slices where rows are aligned, slots row by row elsewhere.

    A static cache always takes slots, and all of them, so that a compiled step meets the same shapes again.
    """
    if cache is not None and cache.static:
        return cache.scattered(added, length, cache.capacity)
    seen = [0] if cache is None else cache.seen
    start, end = min(seen), max(seen) + length
    check_room(config, cache, length)
    if cache is not None:
        wraps = end > cache.capacity
        aligned = not wraps and start == max(seen) and min(added) == length
        if aligned and start and config.compresses:  # compressed layers have a slice for one new token alone
            aligned = length == 1 and end <= (config.sliding_context or end)
        if not aligned:
            return cache.scattered(added, length, end)
    return Aligned(start, end, torch.arange(start, end, device=device))


def check_room(config: ModelConfig, cache: KVCache | None, length: int) -> None:
    """Check that `length` more tokens fit.

    Raises:
        SuiteError: learned positions end before the last token, or the cache is too small.
    """
    end = (max(cache.seen) if cache is not None else 0) + length
    if config.position == "learned" and end > config.context:
        raise SuiteError(
            f"{end} tokens are more than the model's context of {config.context}, where its learned positions end"
        )
    if cache is not None and end > cache.capacity and cache.capacity < config.context + length - 1:
        raise SuiteError(
            f"{end} tokens do not fit a cache of {cache.capacity} slots; to slide, it needs "
            f"{config.context + length - 1}"
        )


def make_pattern(
    config: ModelConfig,
    places: Places,
    window: int,
    stride: int = 0,
    *,
    prefix: Tensor | None = None,
    batch: int = 1,
    dtype: torch.dtype = torch.float32,
) -> Pattern:
    """The pattern of a layer with this window and compression stride (0: none); the rest is as for `make_plan`."""
    if stride:
        return _compressed(config, places, stride, prefix)
    reach = reach_of(config, places, window)
    if config.position == "relative":
        return _relative(config, places, reach, prefix)
    first, whole = 0, False
    if isinstance(places, Aligned):
        start, end, length = places.start, places.end, places.length
        if start == 0 and length > BLOCK and length >= 3 * reach:  # from about there on, blocks are faster
            return _local(places, reach, prefix, batch, dtype)
        first = max(0, start - window + 1) if window else 0
        whole = prefix is None and (start == 0 or length == 1) and reach >= end - first
    return Dense(first, None if whole else make_mask(places, reach, prefix, first))


def reach_of(config: ModelConfig, places: Places, window: int) -> int:
    """Positions back that a query sees, itself included; a model that slides never looks past its context."""
    return min(window or places.end, config.sliding_context or places.end)


def visible(queries: Tensor, keys: Tensor, prefix: Tensor | None, reach: int, lasts: Tensor | None = None) -> Tensor:
    """Whether queries may look at keys: (..., T, S), with B in front of it where there is a prefix.

    Args:
        queries, keys: their positions, (..., T, 1) and (..., 1, S).
        prefix: (B,) positions before which both ways are open; None: nowhere.
        reach: keys at this distance from their query, or farther, are hidden; 0: none are.
        lasts: for keys merged from several positions, the last of these; `keys` are then the first.

    Source: prefix: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences"; Raffel et al. 2020, "T5".
    """
    lasts = keys if lasts is None else lasts
    seen = lasts <= queries
    if prefix is not None:
        bound = prefix.view(-1, *[1] * max(2, queries.dim() - 1))  # B stands before all other dimensions
        seen = seen | ((queries < bound) & (lasts < bound))
    if reach:
        seen = seen & ((queries - keys).abs() < reach)
    return seen


def pairs(places: Places, first: int = 0) -> tuple[Tensor, Tensor]:
    """Positions of queries, (T, 1) or (B, T, 1), and of keys from the first on, (S - first,) or (B, 1, S)."""
    if isinstance(places, Aligned):
        return places.positions[:, None], torch.arange(first, places.end, device=places.positions.device)
    return places.positions[:, :, None], places.held[:, None, :]


def make_mask(places: Places, reach: int, prefix: Tensor | None, first: int = 0) -> Tensor:
    """`visible` for all queries and the keys from `first` on, (T, S - first) or (B, 1, T, S - first)."""
    queries, keys = pairs(places, first)
    mask = visible(queries, keys, prefix, reach if reach < places.end else 0)
    if isinstance(places, Scattered):
        mask = mask & (keys >= 0)
    return mask[:, None] if mask.dim() == 3 else mask


def relative_rows(config: ModelConfig, ahead: Tensor) -> Tensor:
    """Rows of the table of distances for keys that are `ahead` of their queries; far distances share the last."""
    return (ahead + (config.span - 1)).clamp(0, config.span + config.relative_ahead - 1)


def _local(places: Aligned, reach: int, prefix: Tensor | None, batch: int, dtype: torch.dtype) -> Local:
    device = places.positions.device
    back, ahead = reach - 1, 0 if prefix is None else reach - 1
    firsts = torch.arange(0, places.length, BLOCK, device=device)[None, :, None, None]  # (1, N, 1, 1)
    queries = firsts + torch.arange(BLOCK, device=device)[:, None]  # (1, N, block, 1)
    keys = firsts + torch.arange(-back, BLOCK + ahead, device=device)  # (1, N, 1, back + block + ahead)
    seen = visible(queries, keys, prefix, reach) & (keys >= 0)  # (1 or B, N, block, back + block + ahead)
    seen = seen.expand(batch, -1, -1, -1).flatten(0, 1)
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)  # that of queries, when they come out of a linear layer
    return Local(BLOCK, back, ahead, torch.where(seen, 0.0, -torch.inf).to(dtype)[:, None])


def _relative(config: ModelConfig, places: Places, reach: int, prefix: Tensor | None) -> Skewed | Gathered:
    if isinstance(places, Aligned):
        end, length = places.end, places.length
        if length > 1:
            # one row more than distances that are seen, because `skew` cuts it off
            ahead = torch.arange(1 - end, (1 if prefix is None else length) + 1, device=places.positions.device)
            block = BLOCK if ahead.device.type == "cpu" else length
            return Skewed(block, make_mask(places, reach, prefix), relative_rows(config, ahead), prefix is not None)
        mask = None if prefix is None and reach >= end else make_mask(places, reach, prefix)
        if end <= config.span:
            return Gathered(mask, config.span - end)
    else:
        mask = make_mask(places, reach, prefix)
    queries, keys = pairs(places)
    found = relative_rows(config, keys - queries)
    return Gathered(mask, found[:, None] if found.dim() == 3 else found)


def _compressed(
    config: ModelConfig, places: Places, stride: int, prefix: Tensor | None
) -> CompressedWhole | CompressedStep | CompressedSlots:
    reach = config.sliding_context
    if isinstance(places, Scattered):
        return _compressed_slots(places, stride, reach, prefix)
    if places.start:
        return CompressedStep(stride, places.start)
    return CompressedWhole(stride, COMPRESSED_BLOCK, reach, prefix)


def _compressed_slots(places: Scattered, stride: int, reach: int, prefix: Tensor | None) -> CompressedSlots:
    start, newest = places.starts[:, None], places.newest[:, None]  # (B, 1)
    within = torch.arange(stride, device=start.device)
    capacity = max(1, places.capacity // stride)  # blocks

    def among(positions: Tensor) -> Tensor:
        """The index of positions among the n latest before this pass, which lie in a ring, and the T new ones."""
        return torch.where(positions < start, positions % stride, positions - start + stride)

    number = start // stride + torch.arange((places.length + stride - 1) // stride, device=start.device)  # (B, C)
    parts = (number[..., None] * stride + within).flatten(1)  # (B, C * n)
    complete = number * stride + stride - 1 <= newest
    blocks = torch.where(complete, number % capacity, capacity) + stride
    latest = among(newest - (newest - within) % stride)

    stop = min(places.end // stride, capacity)
    last = (newest + 1) // stride - 1  # (B, 1) the latest block that is complete
    held = last - (last - torch.arange(stop, device=start.device)) % capacity  # (B, stop)
    single = torch.cat((start - 1 - (start - 1 - within) % stride, places.positions), dim=1)  # (B, n + T)
    queries, firsts, single = places.positions[:, :, None], held[:, None] * stride, single[:, None]
    mask = compressed_mask(queries, firsts, single, stride, reach, prefix)
    parts = among(parts).clamp(max=stride + places.length - 1)
    return CompressedSlots(stride, places.rows, parts, blocks, latest, stride + stop, mask[:, None])


def compressed_mask(
    queries: Tensor, blocks: Tensor, single: Tensor, stride: int, reach: int, prefix: Tensor | None
) -> Tensor:
    """Mask for queries over blocks, given by their first positions, followed by single positions."""
    see_blocks = visible(queries, blocks, prefix, reach, blocks + (stride - 1)) & (blocks >= 0)
    see_single = visible(queries, single, prefix, stride) & (single >= 0)
    return torch.cat((see_blocks, see_single), dim=-1)
