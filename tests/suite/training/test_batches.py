"""Batches must hold the right tokens, the same ones for the same step, and each example once an epoch."""

import numpy as np
import pytest
import torch

from suite.errors import DataError
from suite.training.batches import (
    Batch,
    Example,
    FixedBatches,
    PackedSource,
    ShuffledSource,
    TokenBatches,
    micro_batches,
)

EXAMPLES = [Example(np.full(3 + place % 7, place), target=2) for place in range(50)]


def test_collate_pads_and_counts() -> None:
    """Padding is told by length: token 0 inside a row counts as any other."""
    batch = Batch.collate([Example(np.array([5, 0, 7])), Example(np.array([1, 2, 3, 0]), prefix=2, target=2, label=1)])
    assert batch.inputs.tolist() == [[5, 0, 7], [1, 2, 3]]
    assert batch.targets.tolist() == [[0, 7, -100], [-100, 3, 0]]
    assert batch.count == 4 == int((batch.targets != -100).sum()) and batch.real == 5
    assert batch.prefix is not None and batch.prefix.tolist() == [0, 2]
    assert batch.labels is not None and batch.labels.tolist() == [-100, 1]
    plain = Batch.collate([Example(np.array([5, 0, 7]))])
    assert plain.prefix is None and plain.labels is None


@pytest.mark.parametrize("fields", [{"tokens": [1]}, {"tokens": [1, 2], "target": 0}, {"tokens": [1, 2], "prefix": 3}])
def test_examples_without_anything_to_learn(fields: dict[str, object]) -> None:
    with pytest.raises(DataError, match="nothing to learn"):
        Example(**{**fields, "tokens": np.array(fields["tokens"])})  # type: ignore[arg-type]


def test_shuffled_source_is_a_new_permutation_each_epoch() -> None:
    source = ShuffledSource(EXAMPLES, seed=4)
    epochs = [[int(source[index].tokens[0]) for index in range(start, start + 50)] for start in (0, 50)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(50)) and epochs[0] != epochs[1]
    assert int(ShuffledSource(EXAMPLES, seed=4)[60].tokens[0]) == epochs[1][10]  # whatever was read before
    assert source.length(60) == len(source[60].tokens)


def test_empty_source() -> None:
    with pytest.raises(DataError, match="no training examples"):
        ShuffledSource([], seed=0)


def test_token_batches_see_each_example_once_an_epoch() -> None:
    """A batch schedule that drops the tail or repeats an example biases the data."""
    source = ShuffledSource(EXAMPLES, seed=1)
    batches = TokenBatches(source, 40, seed=1)
    seen: list[int] = []
    step = 0
    while len(seen) < 100:
        indices = batches.indices(step)
        lengths = [source.length(index) for index in indices]
        assert sum(lengths) <= 40 and lengths == sorted(lengths)
        seen += indices
        step += 1
    assert sorted(seen[:50]) == list(range(50)) and sorted(seen[50:]) == list(range(50, 100))
    assert TokenBatches(ShuffledSource(EXAMPLES, seed=1), 40, seed=1).indices(step - 1) == indices  # pure
    assert batches.indices(0) == seen[: len(batches.indices(0))]  # also backwards


def test_token_batches_take_an_example_over_the_budget() -> None:
    batches = TokenBatches(ShuffledSource([Example(np.arange(9))], seed=0), 4, seed=0)
    assert batches.indices(0) == [0] and batches.indices(1) == [1]


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_micro_batches_share_out_a_step(world: int) -> None:
    """No row may be lost or read twice, however many ranks and cuts there are."""
    source = ShuffledSource(EXAMPLES, seed=2)
    indices = FixedBatches(source, 7).indices(3)
    assert sorted(indices) == list(range(21, 28))
    rows: list[int] = []
    counts = 0
    for rank in range(world):
        for batch in micro_batches(source, indices, rank=rank, world=world, micro_tokens=16):
            assert len(batch.tokens) == 1 or batch.inputs.numel() <= 16
            counts += batch.count
            rows += batch.tokens[:, 0].tolist() if batch.count else []
    assert sorted(rows) == sorted(int(source[index].tokens[0]) for index in indices)
    assert counts == sum(source.length(index) - 2 for index in indices)


def test_packed_source() -> None:
    class Blocks:
        def __getitem__(self, index: int, /) -> np.ndarray:
            return np.arange(index, index + 5)

    source = PackedSource(Blocks())
    assert FixedBatches(source, 3).indices(2) == [6, 7, 8]
    (batch,) = micro_batches(source, [6, 7, 8], rank=0, world=1, micro_tokens=0)
    assert batch.targets.tolist() == [[7, 8, 9, 10], [8, 9, 10, 11], [9, 10, 11, 12]]
    assert batch.tokens.dtype == torch.long
