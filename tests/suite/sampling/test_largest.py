"""The largest entries without `topk`: the same entries, in the same order, ties included."""

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from suite.sampling.largest import head, keep_largest, largest
from suite.sampling.rules import Ngrams, repeats


@example(groups=6, rows=3, vocabulary=1, count=4, seed=0, ties=False)  # fewer entries than are asked for
@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 150), st.integers(1, 12), st.integers(0, 99), st.booleans())
def test_the_largest_of_groups_of_rows(
    groups: int, rows: int, vocabulary: int, count: int, seed: int, ties: bool
) -> None:
    """Few rows and many, also of dead beams; vocabularies of less than a block, of whole blocks and of a part."""
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, 4, (groups * rows, vocabulary)) if ties else None
    scores = generator.normal(size=(groups * rows, vocabulary)) if scores is None else scores
    added = generator.choice([0.0, -1.0, -np.inf], (groups, rows), p=[0.5, 0.3, 0.2])
    values, places = largest(torch.tensor(scores, dtype=torch.float32), added, count)
    every = scores.astype(np.float32).reshape(groups, rows, vocabulary) + added[:, :, None]
    expected = -np.sort(-every.reshape(groups, -1), axis=1)[:, :count]
    np.testing.assert_array_equal(values, expected)
    assert places.min() >= 0 and places.max() < rows * vocabulary
    at, real = np.take_along_axis(every.reshape(groups, -1), places, axis=1), values > -np.inf
    np.testing.assert_array_equal(at[real], values[real])
    for row, mask in zip(places, real, strict=True):
        assert len(set(row[mask].tolist())) == mask.sum()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 30))
def test_exactly_so_many_are_kept(entries: list[int], count: int) -> None:
    """Of equal entries at the border those with the lowest ids."""
    values, count = torch.tensor([entries, entries[::-1]]).float(), min(count, len(entries))
    top = head(values, count)
    assert top.tolist() == values.topk(count, dim=1).values.tolist()
    kept = keep_largest(values, top[:, -1:], torch.tensor([[count], [count]]))
    order = (-values).argsort(dim=1, stable=True)[:, :count]
    assert torch.equal(kept, torch.zeros_like(kept).scatter(1, order, True))


@given(st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=1, max_size=4), st.integers(1, 4))
def test_repeats_of_all_rows_are_those_of_each(history: list[list[int]], size: int) -> None:
    rows, tokens = repeats(np.array(history), size)
    for row, own in enumerate(history):
        assert set(tokens[rows == row].tolist()) == set(Ngrams(size, own).repeats())
    assert len(repeats(np.zeros((2, 0), dtype=np.int64), size)[0]) == 0
