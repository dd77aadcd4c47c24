"""The key/value cache: keys and values of earlier tokens, for later tokens to attend to.

Shapes: `B` batch, `T` new positions, `S` slots, `K` key/value heads, `E` head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.model.config import ModelConfig


class Aligned(NamedTuple):
    """Places of the new tokens when all rows are at the same position and fit in the cache.

    This is the case in training and for single prompts: keys and values are slices.

    Attributes:
        start: the position of the first new token.
        end: the position after the last new token; the S keys are at positions 0 to end - 1.
        positions: (T,) from start to end.
    """

    start: int
    end: int
    positions: Tensor

    @property
    def length(self) -> int:
        """T."""
        return self.end - self.start


class Scattered(NamedTuple):
    """Places of the new tokens when rows are at different positions, have padding, or wrap around the ring.

    Attributes:
        end: the most tokens that a row will have seen; with a static cache, its capacity.
        capacity: of the cache.
        positions: (B, T) of each new token in its row, padding included.
        starts: (B,) the position of the first new token.
        newest: (B,) the position of the last token that is not padding.
        slots: (B, T) slots in the cache; padding goes to the slot after the ring.
        rows: (B, 1) row numbers, to index beside slots.
    """

    end: int
    capacity: int
    positions: Tensor
    starts: Tensor
    newest: Tensor
    slots: Tensor
    rows: Tensor

    @property
    def length(self) -> int:
        """T."""
        return self.positions.shape[1]

    @property
    def stop(self) -> int:
        """S: the slots in use, counted from the first."""
        return min(self.end, self.capacity)

    @property
    def held(self) -> Tensor:
        """(B, S) the position that each slot holds after this pass, negative where it holds nothing yet."""
        newest = self.newest[:, None]  # (B, 1)
        slots = torch.arange(self.stop, device=newest.device)
        return newest - (newest - slots) % self.capacity


Places = Aligned | Scattered


class KVCache:
    """Preallocated keys and values of every layer; each row has its own length.

    The token at absolute position `p` of a row lies in slot `p % capacity`. While no row is longer than the capacity
    that is simply slot `p`; past it the slots are a ring, and the oldest tokens are overwritten. One more slot behind
    the ring takes the padding of ragged batches, so that padding never overwrites anything.

    A layer that compresses `n` positions into one keeps no more than it will look at: in its first `n` slots the latest
    `n` positions, `p` in slot `p % n`; behind them a ring of the blocks that are complete; then the slot for padding.

    Args:
        config: the model's.
        batch: rows.
        capacity: slots a row. A ring that slides needs `config.context` plus the longest chunk fed at once, less one.
        device: where the tensors live.
        dtype: of keys and values (None: float32).

    Attributes:
        lengths: (B,) tokens seen by each row, on the device.
        seen: the same as a list of ints, so that the host need not wait for the device.
        restarts: (B,) length of each row's prefix, behind which a model may count positions from 0 again.
        static: while True, a pass takes everything from tensors (`lengths`, all slots) and leaves counting to the
            caller, so that a compiled step finds the same shapes and numbers every time. The caller sees to it that
            the new tokens fit.
        keys, values: per layer (B, K, S + 1, E); where `n` positions become one, S is n + capacity // n (at least 1).
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        capacity: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if capacity < 1:
            raise SuiteError(f"a cache needs at least one slot, not {capacity}")
        shapes = []
        for stride in map(config.compression, range(config.n_layer)):
            slots = stride + max(1, capacity // stride) if stride else capacity
            shapes.append((batch, config.kv_heads, slots + 1, config.head_width))
        # zeros, not empty: a slot nobody has written yet is masked, but 0 * NaN would still be NaN
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for shape in shapes]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for shape in shapes]
        self.compresses = config.compresses
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.seen = [0] * batch
        self.restarts = torch.zeros(batch, dtype=torch.long, device=device)
        self.capacity = capacity
        self.static = False

    @property
    def batch(self) -> int:
        """Number of rows."""
        return len(self.seen)

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values))

    def scattered(self, added: Sequence[int], length: int, end: int) -> Scattered:
        """Where `length` more tokens go, of which `added[row]` are real; `end` as in `Scattered`."""
        device = self.lengths.device
        offsets = torch.arange(length, device=device)
        real = torch.tensor(added, device=device)  # (B,)
        positions = self.lengths[:, None] + offsets  # (B, T)
        slots = torch.where(offsets < real[:, None], positions % self.capacity, self.capacity)
        rows = torch.arange(len(added), device=device)[:, None]
        return Scattered(
            end, self.capacity, positions, starts=self.lengths, newest=self.lengths + real - 1, slots=slots, rows=rows
        )

    def append(self, layer: int, keys: Tensor, values: Tensor, places: Places) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and values (B, K, T, E); returns all that are in use, (B, K, S, E).

        A layer that compresses has its own way: `suite.model.compressed.append`.
        """
        all_keys, all_values = self.keys[layer], self.values[layer]  # (B, K, slots, E)
        if isinstance(places, Aligned):
            # narrow, because indexing by brackets takes three times as long, and a decoding step does little else
            start, length, end = places.start, keys.shape[2], places.end
            all_keys.narrow(2, start, length).copy_(keys)
            all_values.narrow(2, start, length).copy_(values)
            return all_keys.narrow(2, 0, end), all_values.narrow(2, 0, end)
        all_keys[places.rows, :, places.slots] = keys.transpose(1, 2).to(all_keys.dtype)
        all_values[places.rows, :, places.slots] = values.transpose(1, 2).to(all_values.dtype)
        return all_keys[:, :, : places.stop], all_values[:, :, : places.stop]

    def advance(self, added: Sequence[int]) -> None:
        """Add `added[row]` to the number of tokens that each row has seen."""
        self.seen = [seen + new for seen, new in zip(self.seen, added, strict=True)]
        if len(set(added)) == 1:
            self.lengths = self.lengths + added[0]  # avoids a copy from the host
        else:
            self.lengths = torch.tensor(self.seen, device=self.lengths.device)

    def reorder(self, rows: Tensor | Sequence[int]) -> None:
        """Make row `i` a copy of what was row `rows[i]`; the batch becomes as long as `rows`.

        Serves beam search (which moves rows), several samples of one prompt (which copies one) and rows that have
        finished (which leave). Unless the batch grows this happens in place and copies only what moves.
        """
        sources = rows.tolist() if isinstance(rows, Tensor) else list(rows)
        index = torch.tensor(sources, dtype=torch.long, device=self.lengths.device)
        if len(sources) > self.batch:
            self.keys = [keys.index_select(0, index) for keys in self.keys]
            self.values = [values.index_select(0, index) for values in self.values]
        else:
            places = [place for place, source in enumerate(sources) if place != source]
            moved = torch.tensor(places, dtype=torch.long, device=index.device)
            used = min(max(self.seen), self.capacity) + 1  # one more: the first block of a compressed layer needs it
            for tensor in (*self.keys, *self.values):
                slots = tensor[:, :, :used]
                slots.index_copy_(0, moved, slots.index_select(0, index[moved]))
            self.keys = [keys[: len(sources)] for keys in self.keys]
            self.values = [values[: len(sources)] for values in self.values]
        self.lengths, self.restarts = self.lengths[index], self.restarts[index]
        self.seen = [self.seen[source] for source in sources]

    def copy_row(self, row: int, other: KVCache, other_row: int = 0) -> None:
        """Replace `row` by a row of another cache, which has no more slots than this one and has not wrapped."""
        if other.capacity > self.capacity or other.seen[other_row] > other.capacity:
            raise SuiteError("a row can be copied only from a cache that is no larger and has not wrapped")
        for mine, theirs in zip((*self.keys, *self.values), (*other.keys, *other.values), strict=True):
            slots = theirs.shape[2] - 1  # all but the one for padding
            mine[row, :, :slots] = theirs[other_row, :, :slots]
        self.lengths[row] = other.lengths[other_row]
        self.seen[row] = other.seen[other_row]
        self.restarts[row] = other.restarts[other_row]

    def rewind(self, row: int, length: int) -> None:
        """Forget what `row` saw after its first `length` tokens; possible only while the row has not wrapped.

        A compressed layer has only the latest positions as they were, so that such a row can go back to 0 alone.
        """
        if not 0 <= length <= self.seen[row] <= self.capacity:
            raise SuiteError(f"row {row} has seen {self.seen[row]} tokens and cannot go back to {length}")
        if self.compresses and length not in (0, self.seen[row]):
            raise SuiteError(f"row {row} cannot go back to {length} tokens: with compressed layers it can only to 0")
        self.lengths[row] = length
        self.seen[row] = length
        if not length:
            self.restarts[row] = 0
