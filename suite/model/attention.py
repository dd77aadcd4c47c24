"""Who sees whom: the masks and the cache slots of one forward pass, worked out once for all layers.

Shapes: `B` batch, `T` new positions (queries), `S` keys, `H` heads, `K` key/value heads, `E` head width, `R` rows of
relative positions, `N` blocks of queries, `C` compressed blocks of keys.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from suite.errors import SuiteError
from suite.model.cache import KVCache
from suite.model.config import ModelConfig
from suite.model.dropout import drop

# below so many positions, bfloat16 attention trains faster on a CPU in plain products than in PyTorch's fused kernel
# (with some 25 positions in a fifth of the time; torch 2.13, on a CPU that multiplies bfloat16 in hardware)
SHORT = 192
# with relative positions, queries go through plain products on a CPU so many at a time: what a block needs stays in its
# cache, and half of the products, between queries and later keys, fall away
BLOCK = 128
# so many queries at a time look at compressed keys: their mask is T / 3 wide, and shared by fewer than this many
COMPRESSED_BLOCK = 256


def rotary_table(positions: Tensor, width: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines that rotate heads of `width` by `positions`.

    Args:
        positions: (..., T) absolute positions.
        width: of a head, even.
        theta: base of the frequencies.

    Returns:
        two float32 tensors (..., T, width); each frequency stands in both halves.

    Source: Su et al. 2021, "RoFormer".
    """
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    angles = positions[..., None].float() * theta**-exponents  # (..., T, width / 2)
    angles = torch.cat((angles, angles), dim=-1)  # (..., T, width)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (i, i + E/2) of `x` (B, H, T, E) by its position's angle; keeps the type of `x`."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)  # in bfloat16 the rotation itself stays there: half the traffic
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def relative_scores(queries: Tensor, relative: Tensor) -> Tensor:
    """Products of queries (B, H, T, E) with their heads' vectors of L distances, (L, H * E); returns (B, H, T, L)."""
    batch, heads, length, width = queries.shape
    vectors = relative.view(-1, heads, width).permute(1, 2, 0)  # (H, E, L)
    rows = queries.transpose(0, 1).reshape(heads, -1, width)  # (H, B * T, E)
    return (rows @ vectors).view(heads, batch, length, -1).transpose(0, 1)


def skew(scores: Tensor, keys: int) -> Tensor:
    """Bring scores of query and distance into the order of query and key.

    What belongs to the first key stands in the row of each query one place before where it stands in the row above.
    Cut into rows that are one place shorter, the same numbers stand below each other.

    Args:
        scores: (B, H, T, L) of L > S distances, each less by one than the distance before it; the first is that of the
            last query and the first key.
        keys: S.

    Returns:
        (B, H, T, S), a view. It holds nothing of use where a key's distance is less than the last of the L.

    Source: Huang et al. 2018, "Music Transformer", section 3.4.1.
    """
    length, distances = scores.shape[2:]
    cut = scores.flatten(2).narrow(2, length - 1, length * (distances - 1))  # (B, H, T * (L - 1))
    return cut.view(*scores.shape[:3], distances - 1)[..., :keys]


def mix(scores: Tensor, mask: Tensor, values: Tensor, dropout: float) -> Tensor:
    """Values (B, K, S, E) weighted by scores (B, H, T, S) where the mask is True; returns (B, H, T, E)."""
    # added, because filling takes one more pass over all scores, and another over their gradient
    unseen = torch.where(mask, 0.0, -torch.inf).to(scores.dtype)
    weights = drop((scores + unseen).softmax(dim=-1), dropout).to(values.dtype)  # (B, H, T, S)
    grouped = weights.reshape(*values.shape[:2], -1, values.shape[2])  # (B, K, H / K * T, S)
    return (grouped @ values).view(*scores.shape[:3], -1)


def fused(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float = 0.0, causal: bool = False
) -> Tensor:
    """PyTorch's attention of (B, H, T, E) on (B, K, S, E); returns (B, H, T, E)."""
    batch, heads, length, width = queries.shape
    groups = heads // keys.shape[1]
    if groups > 1 and length == 1:  # one query a head: its group stands in the place of positions
        queries = queries.view(batch, keys.shape[1], groups, width)
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask).view(batch, heads, 1, width)
    return F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal, enable_gqa=groups > 1
    )


def neighbourhoods(x: Tensor, size: int, back: int = 0, ahead: int = 0) -> Tensor:
    """Blocks of `size` positions, each with so many positions before and after it; zeros where there are none.

    Args:
        x: (B, H, T, E).

    Returns:
        (B, N, H, back + size + ahead, E), a view of one padded copy, however much the blocks overlap.
    """
    padded = F.pad(x, (0, 0, back, -x.shape[2] % size + ahead))
    return padded.unfold(2, back + size + ahead, size).permute(0, 2, 1, 4, 3)


Squeeze = Callable[[Tensor], Tensor]  # (B, K, C * n, E) -> (B, K, C, E)


class Slots(NamedTuple):
    """Where a compressed layer's keys and values come from and go to, for rows that stand at different places.

    Attributes:
        parts: (B, C * n) where the positions of the blocks that may become complete lie among the n latest positions
            before this pass and the T new ones.
        blocks: (B, C) the slot of each of those blocks.
        latest: (B, n) where the n latest positions after this pass lie, likewise.
        stop: where the slots end that hold blocks.
        mask: (B, 1, T, S) True where a query may look at the blocks, the n latest positions before this pass and the T
            new ones.
    """

    parts: Tensor
    blocks: Tensor
    latest: Tensor
    stop: int
    mask: Tensor


class View:
    """What the T new positions of each row see, and where their keys and values go.

    Rows that stand at the same position and have not wrapped (all of training, all single prompts) take a path of
    slices and plain causal attention; anything else takes one of index tensors and masks. Both give the same numbers.
    From position 0, layers that look at little of what is before them take a path of blocks of queries, so that memory
    grows with T alone; with compressed layers there are slices for that and for decoding steps, and masks for the rest.
    With a static cache it is always the second, over all slots, so that a compiled step meets the same shapes again.

    Args:
        config: the model's.
        batch, length: B and T.
        device: of the tokens.
        cache: None for a plain pass from position 0.
        prefix: (B,) positions before which a row's tokens see each other both ways.
        lengths: how many of the T are real, for each row (None: all).
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        length: int,
        device: torch.device,
        cache: KVCache | None,
        prefix: Tensor | None,
        lengths: list[int] | None,
    ) -> None:
        self.cache, self.prefix, self.length = cache, prefix, length
        self.added = lengths or [length] * batch
        self.context = config.context if config.position != "learned" else 0
        self.compression = config.compression
        self.span, self.ahead = config.span, config.relative_ahead
        self.restarts = config.restart_positions
        if self.restarts and cache is not None and prefix is not None:
            cache.restarts = prefix.clone()
        self.masks: dict[int, Tensor | None] = {}
        self.nearby: dict[tuple[int, torch.dtype], Tensor] = {}
        self.slots_of: dict[int, Slots] = {}
        if cache is not None and cache.static:
            self.end = cache.capacity
            self._index(cache, batch, device)
            return
        seen = cache.seen if cache is not None else [0] * batch
        start, end = min(seen), max(seen) + length
        self.end = end
        if config.position == "learned" and end > config.context:
            raise SuiteError(
                f"{end} tokens are more than the model's context of {config.context}, where its learned positions end"
            )
        wraps = cache is not None and end > cache.capacity
        if wraps and cache is not None and cache.capacity < config.context + length - 1:
            raise SuiteError(
                f"{end} tokens do not fit a cache of {cache.capacity} slots; to slide, it needs "
                f"{config.context + length - 1}"
            )
        self.aligned = not wraps and start == max(seen) and min(self.added) == length
        if self.aligned and start and config.compresses:  # compressed layers have a slice for one new token alone
            self.aligned = length == 1 and end <= (self.context or end)
        if self.aligned:
            self.start = start
            self.positions = torch.arange(start, end, device=device)  # (T,)
        elif cache is not None:  # and without one, rows are always aligned
            self._index(cache, batch, device)

    def _index(self, cache: KVCache, batch: int, device: torch.device) -> None:
        """Work out positions and slots row by row."""
        self.aligned = False
        offsets = torch.arange(self.length, device=device)
        added = torch.tensor(self.added, device=device)
        real = offsets < added[:, None]  # (B, T)
        self.positions = cache.lengths[:, None] + offsets  # (B, T)
        self.newest = cache.lengths + added - 1  # (B,)
        self.slots = torch.where(real, self.positions % cache.capacity, cache.capacity)  # (B, T)
        self.rows = torch.arange(batch, device=device)[:, None]  # (B, 1)

    @property
    def counted(self) -> Tensor:
        """Positions as they are embedded, (T,) or (B, T): behind a prefix they may count from 0 again."""
        prefix = self.prefix if self.cache is None else self.cache.restarts
        if not self.restarts or prefix is None:
            return self.positions
        prefix = prefix[:, None]  # (B, 1)
        return self.positions - torch.where(self.positions >= prefix, prefix, 0)

    def keys_and_values(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values (B, K, T, E); returns all that can be attended to, (B, K, S, E)."""
        if self.cache is None:
            return keys, values
        all_keys, all_values = self.cache.keys[layer], self.cache.values[layer]  # (B, K, slots, E)
        if self.aligned:
            # narrow, because indexing by brackets takes three times as long, and a decoding step does little else
            all_keys.narrow(2, self.start, self.length).copy_(keys)
            all_values.narrow(2, self.start, self.length).copy_(values)
            return all_keys.narrow(2, 0, self.end), all_values.narrow(2, 0, self.end)
        all_keys[self.rows, :, self.slots] = keys.transpose(1, 2).to(all_keys.dtype)
        all_values[self.rows, :, self.slots] = values.transpose(1, 2).to(all_values.dtype)
        stop = min(self.end, self.cache.capacity)
        return all_keys[:, :, :stop], all_values[:, :, :stop]

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, window: int, dropout: float, relative: Tensor | None = None
    ) -> Tensor:
        """Scaled dot-product attention of (B, H, T, E) on (B, K, S, E) through this view; returns (B, H, T, E).

        `relative` (R, H * E) holds each head's vector for every distance, and is part of the scores.
        """
        length, width = queries.shape[2:]
        if length > BLOCK and relative is None and self._is_local(window):
            return self._attend_local(queries, keys, values, self._reach(window), dropout)
        if window and (first := self._first(window)):
            keys, values = (part.narrow(2, first, self.end - first) for part in (keys, values))
        mask = self.mask(window)
        if relative is not None:
            attend = self._attend_skewed if self.aligned and length > 1 else self._attend_gathered
            return attend(queries * width**-0.5, keys, values, mask, dropout, relative)
        on_cpu = queries.device.type == "cpu"
        if length < SHORT and queries.dtype == torch.bfloat16 and queries.requires_grad and on_cpu:
            return self._attend_short(queries, keys, values, mask, dropout)
        return fused(queries, keys, values, mask, dropout, causal=mask is None and length > 1)

    def _is_local(self, window: int) -> bool:
        """Whether queries see so little of the keys that blocks of them pay, which they do from about three windows."""
        return self.aligned and self.start == 0 and self.length >= 3 * self._reach(window)

    def _attend_local(self, queries: Tensor, keys: Tensor, values: Tensor, reach: int, dropout: float) -> Tensor:
        """`attend` from position 0 for queries that see `reach` positions back: memory grows as T * reach.

        Blocks of queries stand in the batch, each beside the keys that it may see.
        """
        batch, _, length, _ = queries.shape
        back, ahead = reach - 1, 0 if self.prefix is None else reach - 1
        near_keys, near_values = (neighbourhoods(part, BLOCK, back, ahead).flatten(0, 1) for part in (keys, values))
        blocks = neighbourhoods(queries, BLOCK)  # (B, N, H, block, E)
        key = (reach, queries.dtype)
        if key not in self.nearby:
            firsts = torch.arange(0, length, BLOCK, device=queries.device)[None, :, None, None]  # (1, N, 1, 1)
            at = firsts + torch.arange(BLOCK, device=queries.device)[:, None]  # (1, N, block, 1)
            looked_at = firsts + torch.arange(-back, BLOCK + ahead, device=queries.device)  # (1, N, 1, S)
            visible = self._visible(at, looked_at, reach) & (looked_at >= 0)  # (1 or B, N, block, S)
            visible = visible.expand(batch, -1, -1, -1).flatten(0, 1)
            # numbers, made once for all layers: of truth values the kernel would make them, and keep them, in each
            self.nearby[key] = torch.where(visible, 0.0, -torch.inf).to(queries.dtype)[:, None]  # (B * N, 1, block, S)
        mixed = fused(blocks.flatten(0, 1), near_keys, near_values, self.nearby[key], dropout)
        return mixed.view(*blocks.shape).transpose(1, 2).flatten(2, 3)[:, :, :length]

    def _attend_short(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float
    ) -> Tensor:
        """`attend` in plain products and a float32 softmax, for training on a CPU."""
        groups = queries.shape[1] // keys.shape[1]
        if groups > 1:
            keys, values = keys.repeat_interleave(groups, dim=1), values.repeat_interleave(groups, dim=1)
        if mask is None:
            new, seen = self.length, keys.shape[2]
            mask = torch.ones(new, seen, dtype=torch.bool, device=queries.device).tril(seen - new)
        scores = (queries @ keys.mT).float() * queries.shape[-1] ** -0.5  # (B, H, T, S)
        return mix(scores, mask, values, dropout)

    def _attend_skewed(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float, relative: Tensor
    ) -> Tensor:
        """`attend` with relative positions: several scaled queries on rows that are aligned, in plain products.

        A CPU has no fused kernel that gives the gradient of what is added to the scores. Memory grows as T * S alone.
        """
        assert mask is not None
        size = BLOCK if queries.device.type == "cpu" else self.length
        # distances fall from that of the last query and the first key to one less than any that is seen, for `skew`
        spare = 1 if self.prefix is None else self.length
        ahead = torch.arange(1 - self.end, spare + 1, device=queries.device)
        vectors = F.embedding(self._rows(ahead), relative)  # (S + spare, H * E)
        mixed = []
        for first in range(0, self.length, size):
            block = queries[:, :, first : first + size]
            count = block.shape[2]
            later = self.length - first - count  # queries after the block
            seen = self.end - later if self.prefix is None else self.end
            nearby = vectors[later : later + seen + min(spare, count)]
            grouped = block.reshape(*keys.shape[:2], -1, keys.shape[3])  # (B, K, H / K * count, E)
            scores = (grouped @ keys[:, :, :seen].mT).view(*block.shape[:3], seen)  # (B, H, count, seen)
            scores = scores + skew(relative_scores(block, nearby), seen)
            mixed.append(mix(scores, mask[..., first : first + size, :seen], values[:, :, :seen], dropout))
        return torch.cat(mixed, dim=2)

    def _attend_gathered(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float, relative: Tensor
    ) -> Tensor:
        """`attend` with relative positions: one scaled query a row, or rows that are not aligned."""
        if self.aligned and self.end <= self.span:  # the vectors of one query's keys lie together
            scores = relative_scores(queries, relative.narrow(0, self.span - self.end, self.end))  # (B, H, T, S)
        else:
            rows = self.pair_rows.expand(*queries.shape[:2], -1, -1)  # (B, H, T, S)
            scores = relative_scores(queries, relative).gather(-1, rows)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        grouped = queries.reshape(*keys.shape[:2], -1, keys.shape[3])  # (B, K, H / K * T, E)
        scores = scores.reshape(*grouped.shape[:3], -1)
        mixed = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=scores, dropout_p=dropout, scale=1.0)
        return mixed.view(queries.shape)

    @functools.cached_property
    def pair_rows(self) -> Tensor:
        """(T, S) or (B, 1, T, S) the row of relative positions for each query and key."""
        queries, keys = self._pairs()
        rows = self._rows(keys - queries)
        return rows[:, None] if rows.dim() == 3 else rows

    def _rows(self, ahead: Tensor) -> Tensor:
        """The rows of relative positions for keys that are so far ahead of their queries."""
        return (ahead + (self.span - 1)).clamp(0, self.span + self.ahead - 1)

    def compressed_keys_and_values(
        self, layer: int, keys: Tensor, values: Tensor, squeeze: Iterable[Squeeze]
    ) -> tuple[Tensor, Tensor]:
        """`keys_and_values` of a layer that compresses; returns what `attend_compressed` looks at: (B, K, S, E).

        `squeeze` are the compressions of keys and of values.
        """
        stored = (None, None) if self.cache is None else (self.cache.keys[layer], self.cache.values[layer])
        stride = self.compression(layer)
        parts = zip(stored, (keys, values), squeeze, strict=True)
        keys, values = (self._compress(part, new, stride, one) for part, new, one in parts)
        return keys, values

    def _compress(self, stored: Tensor | None, new: Tensor, stride: int, squeeze: Squeeze) -> Tensor:
        """Compress and store what `new` completes; returns all that can be attended to."""
        if not self.aligned:
            assert stored is not None
            slots = self._slots(stride)
            known = torch.cat((stored[:, :, :stride], new.to(stored.dtype)), dim=2)  # (B, K, n + T, E)
            blocks = squeeze(known[self.rows, :, slots.parts].transpose(1, 2))  # (B, K, C, E)
            stored[self.rows, :, slots.blocks] = blocks.transpose(1, 2).to(stored.dtype)
            stored[:, :, :stride] = known[self.rows, :, slots.latest].transpose(1, 2)
            return torch.cat((stored[:, :, stride : slots.stop], known), dim=2)
        if self.start:  # one new token: what it may look at lies together
            assert stored is not None
            stored.narrow(2, self.start % stride, 1).copy_(new)
            if self.end % stride == 0:
                block = squeeze(stored.narrow(2, 0, stride))
                stored.narrow(2, stride + self.start // stride, 1).copy_(block)
            return stored.narrow(2, 0, min(stride, self.end) + self.end // stride)
        count = self.length // stride
        blocks = squeeze(new[:, :, : count * stride])
        if stored is not None:
            stored[:, :, stride : stride + count] = blocks
            stored[:, :, self.positions[-stride:] % stride] = new[:, :, -stride:].to(stored.dtype)
        return torch.cat((blocks, new), dim=2)

    def _slots(self, stride: int) -> Slots:
        """The slots of layers that compress so many positions into one, worked out once for all of them."""
        if stride not in self.slots_of:
            self.slots_of[stride] = self._make_slots(stride)
        return self.slots_of[stride]

    def _make_slots(self, stride: int) -> Slots:
        assert self.cache is not None
        start, newest = self.cache.lengths[:, None], self.newest[:, None]  # (B, 1)
        within = torch.arange(stride, device=start.device)
        capacity = max(1, self.cache.capacity // stride)  # blocks

        def place(positions: Tensor) -> Tensor:
            return torch.where(positions < start, positions % stride, positions - start + stride)

        number = start // stride + torch.arange((self.length + stride - 1) // stride, device=start.device)  # (B, C)
        parts = (number[..., None] * stride + within).flatten(1)  # (B, C * n)
        complete = number * stride + stride - 1 <= newest
        blocks = torch.where(complete, number % capacity, capacity) + stride
        latest = place(newest - (newest - within) % stride)

        stop = min(self.end // stride, capacity)
        last = (newest + 1) // stride - 1  # (B, 1) the latest block that is complete
        held = last - (last - torch.arange(stop, device=start.device)) % capacity  # (B, stop)
        single = torch.cat((start - 1 - (start - 1 - within) % stride, self.positions), dim=1)  # (B, n + T)
        queries, first, single = self.positions[:, :, None], held[:, None] * stride, single[:, None]
        mask = self._see_compressed(queries, first, single, stride)
        return Slots(place(parts).clamp(max=stride + self.length - 1), blocks, latest, stride + stop, mask[:, None])

    def _see_compressed(self, queries: Tensor, blocks: Tensor, single: Tensor, stride: int) -> Tensor:
        """Whether queries may look at blocks, told by their first positions, and at single positions beside them."""
        see_blocks = self._visible(queries, blocks, self.context, blocks + (stride - 1)) & (blocks >= 0)
        see_single = self._visible(queries, single, stride) & (single >= 0)
        return torch.cat((see_blocks, see_single), dim=-1)

    def attend_compressed(self, queries: Tensor, keys: Tensor, values: Tensor, layer: int, dropout: float) -> Tensor:
        """`attend` on what `compressed_keys_and_values` returned.

        From position 0, blocks of queries take turns. What belongs to one of them alone (its mask, and keys and values
        put side by side) is made again for the gradient: kept, it would grow with the square of T.
        """
        stride = self.compression(layer)
        if not self.aligned:
            return fused(queries, keys, values, self._slots(stride).mask, dropout)
        if self.start:
            return fused(queries, keys, values, None, dropout)
        back, ahead = stride - 1, 0 if self.prefix is None else stride - 1
        count = self.length // stride
        near, blocks = [], []
        for part in (keys, values):
            compressed, single = torch.split(part, [count, self.length], dim=2)
            blocks.append(compressed)
            near.append(neighbourhoods(single, COMPRESSED_BLOCK, back, ahead).unbind(1))

        def look(first: int, queries: Tensor, *parts: Tensor) -> Tensor:
            """Attention of the block from `first` on all blocks of keys and values, and on what is near: `parts`."""
            length, device = queries.shape[2], queries.device
            begin = max(0, first - self.context) // stride if self.context else 0
            end = count if self.prefix is not None else (first + length) // stride
            at = first + torch.arange(length, device=device)[:, None]
            held = torch.arange(begin, end, device=device) * stride
            single = torch.arange(first - back, first - back + parts[2].shape[2], device=device)
            mask = self._see_compressed(at, held, single, stride)
            seen_keys = torch.cat((parts[0][:, :, begin:end], parts[2]), dim=2)
            seen_values = torch.cat((parts[1][:, :, begin:end], parts[3]), dim=2)
            return fused(queries, seen_keys, seen_values, mask if mask.dim() == 2 else mask[:, None], dropout)

        mixed = []
        for place, some in enumerate(torch.split(queries, COMPRESSED_BLOCK, dim=2)):
            step = functools.partial(look, place * COMPRESSED_BLOCK)
            inputs = (some, *blocks, near[0][place], near[1][place])
            if some.requires_grad:
                mixed.append(checkpoint(step, *inputs, use_reentrant=False, preserve_rng_state=dropout > 0))
            else:
                mixed.append(step(*inputs))
        return torch.cat(mixed, dim=2)

    def mask(self, window: int) -> Tensor | None:
        """True where a query may look, broadcastable to (B, H, T, S); None where plain causal attention says it.

        S begins at `_first(window)`.
        """
        if window not in self.masks:
            self.masks[window] = self._mask(window)
        return self.masks[window]

    def _reach(self, window: int) -> int:
        """Positions back that a query sees, itself included; a model that slides never looks past its context."""
        return min(window or self.end, self.context or self.end)

    def _first(self, window: int) -> int:
        """The first key that `attend` looks at: a slice leaves out those before every query's window."""
        return max(0, self.start - window + 1) if window and self.aligned and not self.span else 0

    def _mask(self, window: int) -> Tensor | None:
        reach, first = self._reach(window), self._first(window)
        if self.aligned:
            whole = (self.start == 0 and not self.span) or self.length == 1
            if whole and reach >= self.end - first and self.prefix is None:
                return None
        queries, keys = self._pairs(first)
        visible = self._visible(queries, keys, reach if reach < self.end else 0)
        if not self.aligned:
            visible = visible & (keys >= 0)
        return visible[:, None] if visible.dim() == 3 else visible  # (B, 1, T, S) or (T, S)

    def _visible(self, queries: Tensor, keys: Tensor, reach: int, lasts: Tensor | None = None) -> Tensor:
        """Whether queries may look at keys that are no farther than `reach` (0: however far).

        Args:
            queries, keys: their positions, (..., T, 1) and (..., 1, S).
            lasts: where a key stands for several positions, the last of them; `keys` are then the first.

        Returns:
            (..., T, S), with B in front of it where there is a prefix.
        """
        lasts = keys if lasts is None else lasts
        visible = lasts <= queries
        if self.prefix is not None:
            prefix = self.prefix.view(-1, *[1] * max(2, queries.dim() - 1))  # B stands before all other dimensions
            visible = visible | ((queries < prefix) & (lasts < prefix))
        if reach:
            visible = visible & ((queries - keys).abs() < reach)
        return visible

    def _pairs(self, first: int = 0) -> tuple[Tensor, Tensor]:
        """The absolute positions of queries, (T, 1) or (B, T, 1), and of keys, (S,) or (B, 1, S)."""
        if self.aligned:
            return self.positions[:, None], torch.arange(first, self.end, device=self.positions.device)
        assert self.cache is not None
        return self.positions[:, :, None], self._key_positions(self.cache.capacity)[:, None, :]

    def _key_positions(self, capacity: int) -> Tensor:
        """(B, S) the absolute position that each slot holds, negative where it holds nothing yet."""
        newest = self.newest[:, None]  # (B, 1)
        slots = torch.arange(min(self.end, capacity), device=newest.device)
        return newest - (newest - slots) % capacity

    def advance(self) -> None:
        """Count the new tokens as seen; once a pass, after its last layer. A static cache is told so from outside."""
        if self.cache is not None and not self.cache.static:
            self.cache.advance(self.added)
