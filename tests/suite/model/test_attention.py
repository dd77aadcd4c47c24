"""The functions that do attention's arithmetic, each against products and a softmax written out."""

from typing import Any

import pytest
import torch
from torch import Tensor

from suite.model import KVCache, ModelConfig
from suite.model.attention import dense, fused, mix, neighbourhoods, plain
from suite.model.cache import Aligned, Scattered
from suite.model.compressed import append
from suite.model.plan import CompressedSlots, Dense, Gathered, locate, make_plan
from suite.model.relative import by_distance, relative, skew


def heads(queries: int, keys: int, kv_heads: int) -> list[Tensor]:
    """Queries (3, 4, T, 8), keys and values (3, K, S, 8)."""
    torch.manual_seed(queries + keys)
    return [torch.randn(3, *part, 8) for part in ((4, queries), (kv_heads, keys), (kv_heads, keys))]


def naive(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    """A softmax for each row, head and query, of the keys that the mask (B, T, S) shows."""
    out = torch.zeros_like(queries)
    bias = torch.as_tensor(bias).expand(*queries.shape[:3], keys.shape[2])
    for row, head, t in torch.cartesian_prod(*map(torch.arange, queries.shape[:3])).tolist():
        group = head * keys.shape[1] // queries.shape[1]
        seen = mask[row, t].nonzero().flatten()
        scores = (keys[row, group, seen] @ queries[row, head, t] + bias[row, head, t, seen]) / 8**0.5
        out[row, head, t] = scores.softmax(0) @ values[row, group, seen]
    return out


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize(("length", "seen"), [(5, 5), (1, 7), (3, 7)])
@pytest.mark.parametrize("function", [fused, plain])
def test_the_kernel_and_plain_products_agree_with_a_softmax_a_query(
    function: Any, length: int, seen: int, kv_heads: int
) -> None:
    """A head that reads its neighbour's keys learns nearly as well; with a step, its group stands as positions."""
    queries, keys, values = heads(length, seen, kv_heads)
    mask = torch.rand(3, 1, length, seen) < 0.5
    mask[..., 0] = True
    close(function(queries, keys, values, mask, 0.0), naive(queries, keys, values, mask[:, 0]))


@pytest.mark.parametrize(("length", "seen", "first"), [(5, 5, 0), (1, 7, 0), (1, 7, 4)])
def test_dense_attention_without_a_mask_is_causal(length: int, seen: int, first: int) -> None:
    queries, keys, values = heads(length, seen, 2)
    mask = torch.ones(length, seen, dtype=torch.bool).tril(seen - length)
    mask[:, :first] = False
    close(dense(queries, keys, values, Dense(first, None), 0.0), naive(queries, keys, values, mask.expand(3, -1, -1)))


def test_short_bfloat16_training_goes_through_a_float32_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would take five times as long; without gradients it is the faster of the two."""
    taken = []
    monkeypatch.setattr("suite.model.attention.fused", lambda *rest, **options: taken.append("fused"))
    monkeypatch.setattr("suite.model.attention.plain", lambda *rest: taken.append("plain"))
    for dtype, length, gradient in (
        (torch.bfloat16, 191, True),
        (torch.bfloat16, 192, True),
        (torch.bfloat16, 191, False),
        (torch.float32, 191, True),
    ):
        queries = torch.zeros(1, 1, length, 8, dtype=dtype, requires_grad=gradient)
        dense(queries, queries, queries, Dense(0, None), 0.0)
    assert taken == ["plain", "fused", "fused", "fused"]


def test_mixing_drops_weights_not_values() -> None:
    """Each weight is dropped on its own, and the rest grow by as much: the mean stays."""
    torch.manual_seed(1)
    scores, values = torch.zeros(1, 1, 400, 50), torch.eye(50)[None, None]
    weights = mix(scores, torch.ones(400, 50, dtype=torch.bool), values, 0.25)
    assert {round(weight, 5) for weight in weights.unique().tolist()} == {0.0, round(1 / 50 / 0.75, 5)}
    assert weights.sum(-1).mean().item() == pytest.approx(1, abs=0.02)


def test_neighbourhoods_are_slices_with_zeros_beyond_the_ends() -> None:
    x = torch.randn(2, 3, 10, 4)
    blocks = neighbourhoods(x, 4, back=3, ahead=2)
    assert blocks.shape == (2, 3, 3, 9, 4)
    padded = torch.nn.functional.pad(x, (0, 0, 3, 4))
    for block in range(3):
        assert torch.equal(blocks[:, block], padded[:, :, 4 * block : 4 * block + 9])


@pytest.mark.parametrize(("length", "keys", "distances"), [(4, 4, 5), (3, 7, 8), (4, 4, 8), (1, 5, 6)])
def test_skew_moves_each_row_to_its_keys(length: int, keys: int, distances: int) -> None:
    """Score `d` of row `t` belongs to key `d - (T - 1 - t)`: told by number, none may be a neighbour's."""
    scores = torch.arange(2.0 * length * distances).view(1, 2, length, distances)
    found = skew(scores, keys)
    for t in range(length):
        shift = length - 1 - t
        within = min(keys, distances - shift)
        assert torch.equal(found[:, :, t, :within], scores[:, :, t, shift : shift + within])
    assert found.untyped_storage().data_ptr() == scores.untyped_storage().data_ptr()


def test_products_by_distance_are_each_heads_own() -> None:
    queries, table = torch.randn(3, 4, 5, 8), torch.randn(6, 32)
    close(by_distance(queries, table), torch.einsum("bhte,lhe->bhtl", queries, table.view(6, 4, 8)))


@pytest.mark.parametrize("span", [4, 16])
@pytest.mark.parametrize("lengths", [[1, 1, 1], [3, 1, 2]])
def test_gathered_scores_are_those_looked_up(lengths: list[int], span: int) -> None:
    """One query's vectors lie together where all distances have their own, and are looked up where they share."""
    config = ModelConfig(
        vocab_size=23, context=16, d_model=32, n_layer=1, n_head=4, n_kv_head=2, position="relative", relative_span=span
    )
    cache = KVCache(config, 3, 16)
    cache.advance([6, 6, 6])
    length = max(lengths)
    queries, keys, values = heads(length, 6 + length, 2)
    table = torch.randn(span, 32)
    pattern = make_plan(config, 3, length, cache=cache, lengths=lengths).patterns[0]
    assert isinstance(pattern, Gathered)
    found = relative(queries, keys, values, pattern, table, 0.0)
    t, s = torch.arange(6, 6 + length)[:, None], torch.arange(6 + length)
    vectors = table.view(-1, 4, 8)[span - 1 - (t - s).clamp(0, span - 1)]  # (T, S, H, E)
    bias = torch.einsum("bhte,tshe->bhts", queries, vectors)
    expected = naive(queries, keys, values, (s <= t).expand(3, -1, -1), bias)
    for row, real in enumerate(lengths):
        close(found[row, :, :real], expected[row, :, :real])


@pytest.mark.parametrize("lengths", [[3, 3], [3, 1]])
def test_what_is_appended_lies_where_it_belongs(lengths: list[int]) -> None:
    """Slices where rows are aligned, slots where not: both leave the same keys, and padding leaves none."""
    config = ModelConfig(vocab_size=23, context=16, d_model=16, n_layer=2, n_head=2, position="rotary")
    cache = KVCache(config, 2, 9)
    expected = torch.zeros(2, 9)
    for start in (0, 3):
        places = locate(config, 3, lengths, None, cache)
        assert isinstance(places, Aligned if lengths == [3, 3] else Scattered)
        new = torch.arange(1.0, 4.0)[None] + 10 * start + torch.tensor([[100.0], [200.0]])  # (B, T)
        for row, real in enumerate(lengths):
            expected[row, cache.seen[row] : cache.seen[row] + real] = new[row, :real]
        keys = new[:, None, :, None].expand(2, 2, 3, 8)
        found, negated = cache.append(1, keys, -keys, places)
        cache.advance(lengths)
        assert found.shape[2] == start + 3 and torch.equal(found[:, 1, :, 5], expected[:, : start + 3])
        assert torch.equal(negated, -found)
    assert not cache.keys[0].any() and torch.equal(cache.keys[1][:, 0, :9, 0], expected)


@pytest.mark.parametrize("stride", [2, 3])
def test_compressed_slots_hold_the_blocks_that_are_complete(stride: int) -> None:
    """Keys that say their own position, round a ring: what a query may look at must be what the rules say."""
    context, most = 8, 4
    config = ModelConfig(
        vocab_size=23, context=context, d_model=16, n_layer=1, n_head=2, position="rotary", compress=(stride,)
    )
    cache = KVCache(config, 2, context + most - 1)
    for lengths in ([4, 1], [1, 3], [1, 1], [2, 0], [4, 3], [4, 4], [3, 4], [4, 4]):
        made = make_plan(config, 2, most, cache=cache, lengths=lengths)
        pattern = made.patterns[0]
        assert isinstance(pattern, CompressedSlots)
        keys = made.places.positions[:, None, :, None].float().expand(2, 2, most, 8)
        # a block is told by its first position plus 1000
        known = append(cache.keys[0], keys, lambda x: x[:, :, ::stride] + 1000, pattern)[:, 0, :, 0]
        for row, (start, real) in enumerate(zip(cache.seen, lengths, strict=True)):
            for t in range(start, start + real):
                found = known[row][pattern.mask[row, 0, t - start]].int().tolist()
                blocks = range(0, t + 2 - stride, stride)
                expected = [1000 + first for first in blocks if t - first < context]
                assert sorted(found) == [*range(max(0, t - stride + 1), t + 1), *expected]
        cache.advance(lengths)
    assert min(cache.seen) > 1.5 * cache.capacity
