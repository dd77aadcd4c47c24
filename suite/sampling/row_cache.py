"""A KV cache whose rows fork, move and leave at small cost, for beams, samples and prompts read in groups.

Shapes: `B` rows, `L` layers, `K` key/value heads, `S` slots, `E` head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from suite.model.cache import KVCache
from suite.model.config import ModelConfig


class RowCache(KVCache):
    """A KV cache with keys and values of all layers in one tensor, so that rows move in two operations.

    Args:
        config, batch, capacity, device, dtype: as for `KVCache`.

    Attributes:
        layers: (2L, B, K, S + 1, E), the keys of all layers and then their values; `keys` and `values` are views of it.
            None if layers compress, because their shapes differ.
    """

    layers: Tensor | None
    parent: RowCache | None  # the cache whose keys and values these are

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        capacity: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(config, batch if config.compresses else 0, capacity, device, dtype)
        self.config, self.layers, self.parent = config, None, None
        if not config.compresses:
            shape = (2 * config.n_layer, batch, config.kv_heads, capacity + 1, config.head_width)
            self._use(unwritten(shape, torch.device(device or "cpu"), dtype or torch.float32))
            self._see([0] * batch, torch.zeros(batch, dtype=torch.long, device=device))

    def reorder(self, rows: Tensor | Sequence[int], shared: Sequence[int] | None = None) -> None:
        """Make row `i` a copy of what was row `rows[i]`; the batch becomes as long as `rows`.

        Args:
            rows: the old row of each new row.
            shared: for each new row, number of leading tokens for which the old row `i` already holds the same keys and
                values as row `rows[i]`: only the slots behind them are copied. None: all are.
        """
        sources = rows.tolist() if isinstance(rows, Tensor) else list(rows)
        if self.layers is None:
            super().reorder(sources)
            return
        used, count = min(max(self.seen), self.capacity), self.batch
        if len(sources) > count:
            old = torch.tensor(sources, dtype=torch.long, device=self.lengths.device)
            shape = (len(self.layers), len(sources), *self.layers.shape[2:])
            grown = unwritten(shape, self.layers.device, self.layers.dtype)
            grown.narrow(3, 0, used).copy_(self.layers.narrow(3, 0, used).index_select(1, old))
            self._use(grown)
        else:
            moved = [place for place, source in enumerate(sources) if place != source]
            whole = shared is None or max(self.seen) > self.capacity
            firsts = [0] * len(moved) if whole or shared is None else [shared[place] for place in moved]
            copy_rows(self.layers, moved, [sources[place] for place in moved], firsts, used)
            if len(sources) < count:
                self._use(self.layers[:, : len(sources)])
        seen = [self.seen[source] for source in sources]
        if seen != self.seen or self.config.restart_positions:
            self._see(seen, self.restarts[sources])

    def part(self, rows: Sequence[int], capacity: int) -> RowCache:
        """An empty cache for some of the empty rows, to be filled and then given to `put`.

        Where it can, it shares keys and values with this one, so that nothing has to be copied.

        Args:
            rows: row numbers, rising.
            capacity: slots that the rows need; more than this cache has are never made.
        """
        if len(rows) == self.batch:
            return self
        first, count = rows[0], len(rows)
        if self.layers is None or rows[-1] - first >= count:
            weights = self.keys[0]
            return RowCache(self.config, count, min(capacity, self.capacity), weights.device, weights.dtype)
        part = RowCache(self.config, 0, self.capacity, self.layers.device, self.layers.dtype)
        part.parent = self
        part._use(self.layers[:, first : first + count])
        part._see([0] * count, self.restarts[first : first + count])
        return part

    def put(self, rows: Sequence[int], other: RowCache, sources: Sequence[int]) -> None:
        """Replace `rows` by rows `sources` of another cache, which has no more slots than this one.

        If the other cache has wrapped, it must have as many slots as this one.
        """
        if other is self and list(rows) == list(sources):
            return
        to, come = (torch.tensor(list(places), device=self.lengths.device) for places in (rows, sources))
        if self.layers is None or other.layers is None:
            for mine, theirs in zip((*self.keys, *self.values), (*other.keys, *other.values), strict=True):
                slots = theirs.shape[2] - 1  # all but the one for padding
                mine[to, :, :slots] = theirs[come, :, :slots]
        elif other.parent is not self:
            used = min(max(other.seen[source] for source in sources), other.capacity)
            self.layers[:, to, :, :used] = other.layers[:, come, :, :used]
        seen = list(self.seen)
        for row, source in zip(rows, sources, strict=True):
            seen[row] = other.seen[source]
        self._see(seen, self.restarts.index_copy(0, to, other.restarts[come]))

    def hold(self, seen: Sequence[int]) -> None:
        """Forget what each row saw after its first `seen` tokens; possible only while no row has wrapped."""
        self._see(list(seen), self.restarts)

    def _use(self, layers: Tensor) -> None:
        self.layers = layers
        half = len(layers) // 2
        self.keys, self.values = (
            [layers[place] for place in range(half)],
            [layers[half + place] for place in range(half)],
        )

    def _see(self, seen: list[int], restarts: Tensor) -> None:
        self.seen, self.restarts = seen, restarts
        self.lengths = torch.tensor(seen, dtype=torch.long, device=restarts.device)


# integers of as many bytes as a number of another type, for NumPy, which does not know all types
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def unwritten(shape: Sequence[int], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Zeros; on a CPU by NumPy, which takes pages from the system as they are first written. Most never are."""
    if device.type != "cpu":
        return torch.zeros(*shape, device=device, dtype=dtype)
    integers = INTEGERS[dtype.itemsize]
    return torch.from_numpy(np.zeros(shape, dtype=f"i{integers.itemsize}")).view(dtype)


def copy_rows(layers: Tensor, places: Sequence[int], sources: Sequence[int], firsts: Sequence[int], stop: int) -> None:
    """Copy slots `firsts[i]` to `stop` of row `sources[i]` to row `places[i]`, all at once.

    Args:
        layers: (2L, B, K, S, E), changed in place.
        places, sources: row numbers.
        firsts: the first slot to copy, row by row.
        stop: the slot behind the last.
    """
    if not places:
        return
    # rows with tails of like length are copied together, at most twice what is needed: few hypotheses of a beam part
    # early, and the others should not pay for them
    kinds: dict[int, list[int]] = {}
    for number, first in enumerate(firsts):
        if first < stop:
            kinds.setdefault((stop - first).bit_length(), []).append(number)
    parts = [
        (
            [places[number] for number in numbers],
            [sources[number] for number in numbers],
            min(firsts[number] for number in numbers),
        )
        for numbers in kinds.values()
    ]
    if layers.device.type == "cpu":
        # NumPy copies rows in a fraction of the time of PyTorch's index operations; bits are copied, whatever the type
        slots = layers.view(INTEGERS[layers.element_size()]).numpy()
        copies = [slots[:, come, :, first:stop] for _, come, first in parts]
        for (to, _, first), copied in zip(parts, copies, strict=True):
            slots[:, to, :, first:stop] = copied
        return
    move_tails(layers, parts, stop)


def move_tails(layers: Tensor, parts: Sequence[tuple[list[int], list[int], int]], stop: int) -> None:
    """`copy_rows` on other devices: each part is the rows to change, their sources, and the first slot to copy."""
    tails = [layers.narrow(3, first, stop - first) for _, _, first in parts]
    device = layers.device
    moved = [
        tail.index_select(1, torch.tensor(come, device=device)) for tail, (_, come, _) in zip(tails, parts, strict=True)
    ]
    for tail, (to, _, _), rows in zip(tails, parts, moved, strict=True):
        tail.index_copy_(1, torch.tensor(to, device=device), rows)
