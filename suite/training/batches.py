"""Which examples an optimizer step sees: a pure function of the seed and the step, so nothing has to be stored.

The flow: a source holds examples; a schedule of batches names the indices of each step; `micro_batches` cuts them up
for one rank. How they are cut never changes the step, because the loss is divided by the count of the whole step.

Shapes: `B` rows, `T` positions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.errors import ConfigError, DataError

OUTSIDE = -100  # the target of a position that the loss does not count, as in torch.nn.functional.cross_entropy


@dataclasses.dataclass(frozen=True)
class Example:
    """One sequence of tokens and the two lengths that say how to learn from it.

    Args:
        tokens: ids, at least two.
        prefix: tokens at the start that see each other both ways; 0 is plain causal attention.
        target: index of the first token that the loss counts, at least 1 (token 0 has nothing before it).
        label: the head's target for the sequence: a class, or a target for each of the head's outputs.

    Raises:
        DataError: there is nothing to learn from.
    """

    tokens: NDArray[np.integer]
    prefix: int = 0
    target: int = 1
    label: int | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.tokens) < 2 or not self.target >= 1 or not 0 <= self.prefix <= len(self.tokens):
            raise DataError(
                f"an example of {len(self.tokens)} tokens with prefix {self.prefix} and target {self.target} "
                "has nothing to learn from; drop it"
            )


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch of examples, padded on the right.

    Args:
        tokens: (B, T) ids; padding is 0 and is told by length alone.
        lengths: (B,) real tokens.
        prefix: (B,), or None when no row has one, which lets attention take its fast causal path.
        target: (B,) index of the first token that the loss counts.
        labels: (B,) classes, -100 where a row has none, or (B, C) targets of each output; None when no row has any.
        count: tokens that the loss counts.
        real: real tokens that the model reads, for tokens/s.
    """

    tokens: Tensor
    lengths: Tensor
    prefix: Tensor | None
    target: Tensor
    labels: Tensor | None
    count: int
    real: int

    @classmethod
    def collate(cls, examples: Sequence[Example]) -> Batch:
        """Pad `examples` to the longest of them."""
        lengths = np.array([len(example.tokens) for example in examples])
        tokens = np.zeros((len(examples), lengths.max()), dtype=np.int64)
        for row, example in zip(tokens, examples, strict=True):
            row[: len(example.tokens)] = example.tokens
        prefix = np.array([example.prefix for example in examples])
        target = np.array([example.target for example in examples])
        labels = [OUTSIDE if example.label is None else example.label for example in examples]
        return cls(
            tokens=torch.from_numpy(tokens),
            lengths=torch.from_numpy(lengths),
            prefix=torch.from_numpy(prefix) if prefix.any() else None,
            target=torch.from_numpy(target),
            labels=None if set(labels) == {OUTSIDE} else torch.tensor(labels),
            count=int(np.maximum(lengths - target, 0).sum()),
            real=int(lengths.sum()) - len(examples),
        )

    def to(self, device: torch.device) -> Batch:
        """The batch on `device`."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            field.name: value.to(device, non_blocking=True)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, **moved)

    @property
    def inputs(self) -> Tensor:
        """(B, T - 1) what the model reads."""
        return self.tokens[:, :-1]

    @property
    def targets(self) -> Tensor:
        """(B, T - 1) the token after each input, -100 outside the loss."""
        index = torch.arange(1, self.tokens.shape[1], device=self.tokens.device)  # (T - 1,)
        counted = (index >= self.target[:, None]) & (index < self.lengths[:, None])  # (B, T - 1)
        return torch.where(counted, self.tokens[:, 1:], OUTSIDE)


class ExampleSource(Protocol):
    """An endless sequence of examples; an index always gives the same example."""

    def __getitem__(self, index: int, /) -> Example:
        """The example at `index`, which may be any number from 0."""
        ...

    def length(self, index: int, /) -> int:
        """Tokens in the example at `index`, without reading it."""
        ...


class TokenBlocks(Protocol):
    """An endless sequence of token blocks of equal length, such as `suite.data.text.PackedDocuments`."""

    def __getitem__(self, index: int, /) -> NDArray[np.integer]:
        """Block `index`: length + 1 tokens."""
        ...


class PackedSource:
    """Packed documents as examples: loss on every token, causal attention."""

    def __init__(self, blocks: TokenBlocks) -> None:
        self.blocks = blocks
        self.size = len(blocks[0])

    def __getitem__(self, index: int, /) -> Example:
        return Example(self.blocks[index])

    def length(self, index: int, /) -> int:
        """Tokens in a block; all blocks have the same length."""
        return self.size


class FiniteSource:
    """A list of examples in its own order, once."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples

    def __getitem__(self, index: int, /) -> Example:
        return self.examples[index]

    def length(self, index: int, /) -> int:
        """Tokens in the example at `index`."""
        return len(self.examples[index].tokens)


class ShuffledSource:
    """A finite list of examples, in a new order each epoch.

    Args:
        examples: at least one.
        seed: of the orders.

    Raises:
        DataError: there are no examples.
    """

    def __init__(self, examples: Sequence[Example], seed: int) -> None:
        if not len(examples):
            raise DataError("there are no training examples")
        self.examples, self.seed = examples, seed
        self.lengths = np.array([len(example.tokens) for example in examples])
        self.epoch, self.order = -1, np.arange(0)

    def locate(self, index: int) -> int:
        """Place in the list of the example at `index`."""
        epoch, place = divmod(index, len(self.examples))
        if epoch != self.epoch:
            self.epoch, self.order = epoch, np.random.default_rng((self.seed, epoch)).permutation(len(self.examples))
        return int(self.order[place])

    def __getitem__(self, index: int, /) -> Example:
        place = self.locate(index)  # first: what `examples` holds may depend on the epoch
        return self.examples[place]

    def length(self, index: int, /) -> int:
        """Tokens in the example at `index`."""
        place = self.locate(index)
        return int(self.lengths[place])


class RedrawnSource(ShuffledSource):
    """Examples that are drawn anew each epoch, as many each time, and in a new order.

    Args:
        draw: from the number of an epoch to its examples, a pure function.
        seed: of the orders.

    Raises:
        DataError: there are no examples.
    """

    KEPT = 2  # epochs in memory: a step may take its examples from the end of one and the start of the next

    def __init__(self, draw: Callable[[int], Sequence[Example]], seed: int) -> None:
        super().__init__(draw(0), seed)
        self.draw, self.drawn = draw, 0
        self.size = len(self.examples)
        self._epochs = {0: (self.examples, self.lengths)}

    def locate(self, index: int) -> int:
        """Place of the example at `index` in `examples`, which then holds the index's epoch.

        Raises:
            DataError: another epoch has another number of examples.
        """
        epoch = index // self.size
        if epoch != self.drawn:
            if epoch not in self._epochs:
                self._add(epoch)
            self.examples, self.lengths = self._epochs[epoch]
            self.drawn = epoch
        return super().locate(index)

    def _add(self, epoch: int) -> None:
        examples = self.draw(epoch)
        if len(examples) != self.size:
            raise DataError(f"epoch {epoch} has {len(examples):,} examples, but the first has {self.size:,}")
        while len(self._epochs) >= self.KEPT:
            del self._epochs[min(self._epochs, key=lambda kept: (kept == self.drawn, kept))]
        self._epochs[epoch] = examples, np.array([len(example.tokens) for example in examples])


class StepBatches(Protocol):
    """Which examples each optimizer step sees, over all ranks."""

    def indices(self, step: int) -> list[int]:
        """Indices into the source for step `step`, shortest example first."""
        ...

    def steps(self, epochs: float) -> int:
        """Number of steps in `epochs` passes over the examples."""
        ...


class FixedBatches:
    """Step s sees the examples [s * size, (s + 1) * size)."""

    def __init__(self, source: ExampleSource, size: int) -> None:
        self.source, self.size = source, size

    def indices(self, step: int) -> list[int]:
        """Indices into the source for step `step`, shortest example first."""
        return sorted(range(step * self.size, (step + 1) * self.size), key=self.source.length)

    def steps(self, epochs: float) -> int:
        """Number of steps in `epochs` passes over the examples.

        Raises:
            ConfigError: the source is endless.
        """
        if not isinstance(self.source, ShuffledSource):
            raise ConfigError("run.epochs needs a finite list of examples; with packed text, set run.steps")
        return max(1, round(epochs * len(self.source.examples) / self.size))


class TokenBatches:
    """Steps of about `tokens` tokens each, of examples of like length.

    Each epoch is shuffled, cut into pools of some hundred batches, each pool sorted by length and cut into batches,
    and the batches shuffled: rows of a batch need little padding, yet few pairs of examples always meet.

    Args:
        source: a finite list, shuffled.
        tokens: real tokens a step at most (one longer example is a step of its own).
        seed: of the batches' order.
    """

    POOL = 100  # batches sorted together

    def __init__(self, source: ShuffledSource, tokens: int, seed: int) -> None:
        self.source, self.tokens, self.seed = source, tokens, seed
        self.starts = [0]  # first step of each epoch planned so far, and of the next
        self.epoch, self.plan = -1, list[list[int]]()

    def indices(self, step: int) -> list[int]:
        """Indices into the source for step `step`, shortest example first."""
        while self.starts[-1] <= step:  # an epoch's number of steps is known by planning it
            self.epoch = len(self.starts) - 1
            self.plan = self._plan(self.epoch)
            self.starts.append(self.starts[-1] + len(self.plan))
        epoch = int(np.searchsorted(self.starts, step, side="right")) - 1
        if epoch != self.epoch:
            self.epoch, self.plan = epoch, self._plan(epoch)
        return self.plan[step - self.starts[epoch]]

    def steps(self, epochs: float) -> int:
        """Number of steps in `epochs` passes over the examples; epochs differ by a few steps."""
        return max(1, round(epochs * len(self._plan(0))))

    def _plan(self, epoch: int) -> list[list[int]]:
        count = len(self.source.examples)
        first = epoch * count
        lengths = [self.source.length(index) for index in range(first, first + count)]
        pool = max(1, int(self.POOL * self.tokens / (sum(lengths) / count)))
        batches: list[list[int]] = []
        for start in range(0, count, pool):
            batch: list[int] = []
            total = 0
            for place in sorted(range(start, min(start + pool, count)), key=lengths.__getitem__):
                if batch and total + lengths[place] > self.tokens:
                    batches.append(batch)
                    batch, total = [], 0
                batch.append(first + place)
                total += lengths[place]
            batches.append(batch)
        order = np.random.default_rng((self.seed, epoch, 1)).permutation(len(batches))
        return [batches[place] for place in order]


def micro_batches(
    source: ExampleSource, indices: Sequence[int], *, rank: int, world: int, micro_tokens: int
) -> Iterator[Batch]:
    """One rank's share of a step, cut into batches that fit in memory.

    Args:
        source: of the examples.
        indices: of the whole step, shortest example first.
        rank, world: this process's rank and the number of processes; shares are interleaved, to balance the work.
        micro_tokens: tokens in a batch at most, padding included (a single row may be more); 0 for no limit.

    Yields:
        at least one batch; a rank without examples gets a batch that counts for nothing in the loss.
    """
    rows: list[Example] = []
    if rank >= len(indices):
        example = source[indices[0]]
        yield Batch.collate([Example(example.tokens, example.prefix, target=len(example.tokens))])
    for index in indices[rank::world]:
        # sorted, so this row is the longest yet
        if rows and micro_tokens and (len(rows) + 1) * (source.length(index) - 1) > micro_tokens:
            yield Batch.collate(rows)
            rows = []
        rows.append(source[index])
    if rows:
        yield Batch.collate(rows)
