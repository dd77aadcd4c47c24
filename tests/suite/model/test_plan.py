"""The plan of a pass, against its rules written out position by position."""

from typing import Any

import pytest
import torch
from torch import Tensor

from suite.model import KVCache, ModelConfig
from suite.model.cache import Aligned, Scattered
from suite.model.plan import (
    BLOCK,
    CompressedSlots,
    CompressedStep,
    CompressedWhole,
    Dense,
    Gathered,
    Local,
    Plan,
    Skewed,
    make_plan,
    visible,
)


def shape(context: int = 16, **fields: Any) -> ModelConfig:
    return ModelConfig(**({"vocab_size": 23, "context": context, "d_model": 16, "n_layer": 2, "n_head": 4} | fields))


def sees(query: int, key: int, prefix: int = 0, reach: int = 0, last: int | None = None) -> bool:
    """The rules, for one query and one key (from `key` to `last`)."""
    last = key if last is None else last
    in_prefix = query < prefix and last < prefix
    return (last <= query or in_prefix) and not (reach and abs(query - key) >= reach)


def seen_positions(config: ModelConfig, made: Plan, layer: int, rows: int) -> list[list[list[int]]]:
    """For each row and query, the positions of the keys that a dense pattern lets it see."""
    pattern, places = made.patterns[layer], made.places
    assert isinstance(pattern, Dense)
    keys = torch.arange(pattern.first, places.end).expand(rows, -1) if isinstance(places, Aligned) else places.held
    count = keys.shape[1]
    mask = pattern.mask
    if mask is None:
        mask = torch.ones(places.length, count, dtype=torch.bool).tril(count - places.length)
    mask = mask.expand(rows, 1, places.length, count)[:, 0]
    return [[sorted(keys[row][mask[row, t]].tolist()) for t in range(places.length)] for row in range(rows)]


@pytest.mark.parametrize("reach", [0, 1, 3])
@pytest.mark.parametrize("prefix", [None, [0, 4]])
def test_visible_follows_the_rules(prefix: list[int] | None, reach: int) -> None:
    """Also for keys that stand for three positions: one seen before its last position tells the future."""
    positions, firsts = torch.arange(9), torch.arange(3) * 3
    bound = None if prefix is None else torch.tensor(prefix)
    for keys, span in ((positions, 0), (firsts, 2)):
        mask = visible(positions[:, None], keys, bound, reach, keys + span)
        mask = mask.expand(2, -1, -1)
        for row, most in enumerate(prefix or [0, 0]):
            expected = [[sees(t, s, most, reach, s + span) for s in keys.tolist()] for t in range(9)]
            assert mask[row].tolist() == expected


@pytest.mark.parametrize(
    ("fields", "length", "kind"),
    [
        ({}, 200, Dense),
        ({"windows": (5, 0)}, BLOCK, Dense),
        ({"windows": (5, 0)}, BLOCK + 1, Local),
        ({"windows": (60, 0)}, 179, Dense),
        ({"windows": (60, 0)}, 180, Local),
        ({"position": "relative"}, 2, Skewed),
        ({"position": "relative", "windows": (5, 0)}, 200, Skewed),
        ({"position": "relative"}, 1, Gathered),
        ({"compress": (3, 0)}, 200, CompressedWhole),
    ],
)
def test_a_pass_from_position_0_takes_the_pattern_made_for_it(fields: dict[str, Any], length: int, kind: type) -> None:
    """Blocks would slow short passes down, and a mask of all pairs long ones."""
    made = make_plan(shape(context=256, **fields), 2, length)
    assert isinstance(made.patterns[0], kind)
    assert made.places.positions.tolist() == made.positions.tolist() == list(range(length))


def test_layers_alike_share_a_pattern() -> None:
    """A mask made for each of 48 layers would take 48 times the memory."""
    config = shape(n_layer=5, windows=(0, 3, 0, 3, 0), compress=(0, 0, 2, 0, 0), position="rotary")
    first, second, third, fourth, fifth = make_plan(config, 2, 9).patterns
    assert first is fifth and second is fourth and len({id(first), id(second), id(third)}) == 3


@pytest.mark.parametrize("fields", [{}, {"position": "rotary"}])
def test_causal_passes_need_no_mask(fields: dict[str, Any]) -> None:
    """Training and single prompts go through the kernel's own causal path; a step through none."""
    config = shape(**fields)
    cache = KVCache(config, 2, 16)
    for length in (5, 1):
        made = make_plan(config, 2, length, cache=cache)
        assert made.patterns[0] == Dense(0, None) and isinstance(made.places, Aligned)
        cache.advance(made.added)
    assert make_plan(config, 2, 5, prefix=torch.tensor([3, 0])).patterns[0] != Dense(0, None)


@pytest.mark.parametrize("window", [0, 3])
def test_a_later_chunk_sees_what_came_before(window: int) -> None:
    """Keys before every query's window are cut off, and those left are counted from the cut."""
    config = shape(position="rotary", windows=(window, 0))
    cache = KVCache(config, 2, 16)
    cache.advance([7, 7])
    made = make_plan(config, 2, 4, cache=cache)
    pattern = made.patterns[0]
    assert isinstance(pattern, Dense) and pattern.first == (5 if window else 0)
    expected = [[s for s in range(11) if sees(t, s, reach=window)] for t in range(7, 11)]
    assert seen_positions(config, made, 0, 2) == [expected] * 2


@pytest.mark.parametrize("window", [0, 3])
def test_scattered_rows_see_their_own_past_alone(window: int) -> None:
    """Ragged, round a ring three times: each slot is told by what it holds after the pass, padding by nothing."""
    context, most = 6, 4
    config = shape(context, position="rotary", windows=(window, 0))
    cache = KVCache(config, 2, context + most - 1)
    held = [[-1] * cache.capacity for _ in range(2)]  # positions, by slot
    for lengths in ([4, 1], [1, 3], [2, 2], [4, 3], [1, 1], [3, 4], [4, 4], [4, 4], [2, 3]):
        made = make_plan(config, 2, most, cache=cache, lengths=lengths)
        assert isinstance(made.places, Scattered)
        for row, (start, length) in enumerate(zip(cache.seen, lengths, strict=True)):
            assert made.positions[row].tolist() == list(range(start, start + most))
            for position in range(start, start + length):
                held[row][position % cache.capacity] = position
            slots = made.places.slots[row].tolist()
            assert slots[:length] == [position % cache.capacity for position in range(start, start + length)]
            assert set(slots[length:]) <= {cache.capacity}, "padding goes behind the ring"
            stop = made.places.stop
            assert [max(-1, position) for position in made.places.held[row].tolist()] == held[row][:stop]
            found = seen_positions(config, made, 0, 2)[row]
            for t in range(length):
                expected = [s for s in range(start + t + 1) if sees(start + t, s, reach=window or context)]
                assert found[t] == expected
        cache.advance(made.added)
    assert min(cache.seen) > 2 * cache.capacity


def test_a_static_cache_has_one_shape() -> None:
    """A compiled step would be compiled anew for every number of tokens seen."""
    config = shape(position="rotary", windows=(3, 0))
    cache, shapes = KVCache(config, 2, 12), set()
    for _ in range(9):
        cache.static = True
        made = make_plan(config, 2, 1, cache=cache)
        cache.static = False
        assert isinstance(made.places, Scattered) and isinstance(made.patterns[0], Dense)
        assert made.patterns[0].mask is not None
        shapes.add((made.places.stop, made.patterns[0].mask.shape))
        cache.advance([1, 1])
    assert shapes == {(12, (2, 1, 1, 12))}


@pytest.mark.parametrize("prefixed", [False, True])
def test_local_blocks_see_what_a_mask_of_all_pairs_shows(prefixed: bool) -> None:
    """The last block is not full, and the first has no keys before it."""
    config, length = shape(400, position="rotary", windows=(7, 0)), 300
    prefix = torch.tensor([5, 200]) if prefixed else None
    pattern = make_plan(config, 2, length, prefix=prefix).patterns[0]
    assert isinstance(pattern, Local)
    bias = pattern.bias.view(2, -1, pattern.block, pattern.back + pattern.block + pattern.ahead)
    for row, most in enumerate((5, 200) if prefixed else (0, 0)):
        for t in range(length):
            block, within = divmod(t, pattern.block)
            places = (bias[row, block, within] == 0).nonzero().flatten() + block * pattern.block - pattern.back
            assert places.tolist() == [s for s in range(max(0, t - 9), t + 10) if sees(t, s, most, 7)]


def rows_of(config: ModelConfig, query: int, key: int) -> int:
    """The row of the table of relative positions: from the farthest back, past 0, to the farthest ahead."""
    return config.span - 1 - min(max(query - key, -config.relative_ahead), config.span - 1)


@pytest.mark.parametrize("fields", [{}, {"relative_span": 4, "relative_ahead": 2}])
def test_rows_of_relative_positions_are_those_of_distances(fields: dict[str, Any]) -> None:
    """A row off by one gives each key its neighbour's vector."""
    config = shape(position="relative", **fields)
    cache = KVCache(config, 2, 16)
    cache.advance([6, 6])
    skewed = make_plan(config, 2, 3, cache=cache).patterns[0]
    assert isinstance(skewed, Skewed) and not skewed.prefixed
    assert skewed.rows[:9].tolist() == [rows_of(config, 8, key) for key in range(9)]
    step = make_plan(config, 2, 1, cache=cache).patterns[0]
    assert isinstance(step, Gathered) and step.mask is None
    expected = [rows_of(config, 6, key) for key in range(7)]
    if isinstance(step.rows, int):
        assert list(range(step.rows, step.rows + 7)) == expected and not fields
    else:
        assert step.rows.tolist() == [expected]
    ragged = make_plan(config, 2, 3, cache=cache, lengths=[3, 1]).patterns[0]
    assert isinstance(ragged, Gathered) and isinstance(ragged.rows, Tensor) and ragged.mask is not None
    for row, count in enumerate((3, 1)):
        for t in range(count):
            keys = ragged.mask[row, 0, t].nonzero().flatten().tolist()  # slots are positions: nothing has wrapped
            assert keys == list(range(7 + t))
            assert ragged.rows[row, 0, t, : 7 + t].tolist() == [rows_of(config, 6 + t, key) for key in keys]


def test_a_compressed_layer_goes_by_step_or_by_slots() -> None:
    """A slice serves one new token; a chunk, ragged rows and a ring need indices."""
    config = shape(8, position="rotary", compress=(3, 0))
    cache = KVCache(config, 2, 8 + 2)
    cache.advance([4, 4])
    assert make_plan(config, 2, 1, cache=cache).patterns[0] == CompressedStep(3, 4)
    assert isinstance(make_plan(config, 2, 2, cache=cache).patterns[0], CompressedSlots)
    cache.advance([4, 4])
    assert isinstance(make_plan(config, 2, 1, cache=cache).patterns[0], CompressedSlots), "past the context"


def test_positions_restart_behind_the_prefix_of_an_earlier_pass() -> None:
    """A plan reads the cache and leaves it as it was; `Transformer.hidden` keeps what it needs to know."""
    config = shape(position="rotary", restart_positions=True)
    cache = KVCache(config, 2, 16)
    first = make_plan(config, 2, 4, cache=cache, prefix=torch.tensor([3, 1]))
    assert first.positions.tolist() == [[0, 1, 2, 0], [0, 0, 1, 2]]
    assert cache.restarts.tolist() == [0, 0] and cache.seen == [0, 0]
    cache.restarts = torch.tensor([3, 1])
    cache.advance(first.added)
    assert make_plan(config, 2, 2, cache=cache).positions.tolist() == [[1, 2], [3, 4]]
