"""Feeding a sequence through the cache, however it is cut up and whoever shares the batch, changes no number."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from suite.errors import SuiteError
from suite.model import KVCache, ModelConfig, Transformer
from suite.model.plan import make_plan

ROTARY = {"position": "rotary", "norm": "rms", "activation": "swiglu", "bias": False, "qk_norm": True, "n_kv_head": 2}
SETTINGS = {
    "gpt2": {},
    "gpt2-windows": {"windows": [3, 0]},
    "rotary": ROTARY,
    "rotary-windows": ROTARY | {"windows": [0, 4]},
    "relative": {"position": "relative", "norm": "rms", "qk_norm": True, "n_kv_head": 2},
    "relative-near": {"position": "relative", "relative_span": 5, "relative_ahead": 2, "windows": [0, 4]},
    "rotary-restarting": ROTARY | {"restart_positions": True},
    "learned-restarting": {"restart_positions": True},
    "rotary-in-part": ROTARY | {"d_head": 6, "rotary_width": 4, "qk_norm_weight": True, "parallel_residual": True},
    "rotary-scaled": ROTARY | {"rope_scaling": {"kind": "llama3", "factor": 4, "original_context": 8}},
    "rotary-untied": {"position": "rotary", "activation": "relu2", "tie_embeddings": False},
}
every_setting = pytest.mark.parametrize("fields", SETTINGS.values(), ids=SETTINGS)


def tiny(fields: dict[str, object], context: int = 16) -> Transformer:
    """A random model with weights large enough that every difference shows."""
    torch.manual_seed(0)
    base = {"vocab_size": 23, "context": context, "d_model": 16, "n_layer": 2, "n_head": 4}
    model = Transformer(ModelConfig.from_dict(base | fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def random_tokens(rows: int, length: int) -> Tensor:
    return torch.randint(23, (rows, length), generator=torch.Generator().manual_seed(1))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def feed(model: Transformer, tokens: Tensor, cuts: list[int], cache: KVCache) -> Tensor:
    """The logits of all positions, read in passes that end at `cuts`."""
    edges = [0, *cuts, tokens.shape[1]]
    parts = [model(tokens[:, start:end], cache=cache) for start, end in itertools.pairwise(edges)]
    return torch.cat(parts, dim=1)


@every_setting
@torch.inference_mode()
def test_one_token_at_a_time_equals_one_pass(fields: dict[str, object]) -> None:
    model, tokens = tiny(fields), random_tokens(2, 12)
    cache = KVCache(model.config, 2, 12)
    close(feed(model, tokens, list(range(1, 12)), cache), model(tokens))
    assert cache.lengths.tolist() == cache.seen == [12, 12]


@pytest.mark.parametrize("name", ["gpt2-windows", "rotary-windows", "relative-near"])
@given(cuts=st.sets(st.integers(1, 11)))
@settings(max_examples=15, deadline=None)
@torch.inference_mode()
def test_any_chunking_equals_one_pass(name: str, cuts: set[int]) -> None:
    """The first chunk takes the causal fast path, the others an explicit mask; both must agree."""
    model, tokens = tiny(SETTINGS[name]), random_tokens(2, 12)
    close(feed(model, tokens, sorted(cuts), KVCache(model.config, 2, 12)), model(tokens))


@every_setting
@torch.inference_mode()
def test_ragged_rows_equal_each_row_alone(fields: dict[str, object]) -> None:
    """Padding must neither be seen nor overwrite what was written."""
    model, tokens = tiny(fields), random_tokens(3, 14)
    cache = KVCache(model.config, 3, 16)
    chunks = [[5, 1, 3], [2, 4, 0], [1, 1, 1], [3, 4, 2]]
    for lengths in chunks:
        width = max(lengths)
        starts = list(cache.seen)
        part = torch.stack(
            [
                torch.nn.functional.pad(row[start : start + length], (0, width - length), value=22)
                for row, start, length in zip(tokens, starts, lengths, strict=True)
            ]
        )
        logits = model(part, cache=cache, lengths=lengths)
        for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            alone = model(tokens[row : row + 1, : start + length])[0, start:]
            close(logits[row, :length], alone)
    assert cache.lengths.tolist() == cache.seen == [11, 10, 6]


@every_setting
@torch.inference_mode()
def test_a_prefix_read_first_equals_one_pass(fields: dict[str, object]) -> None:
    """Later tokens see the prefix as it saw itself: both ways."""
    model, tokens = tiny(fields), random_tokens(3, 10)
    prefix, lengths = torch.tensor([4, 0, 6]), [5, 3, 6]
    cache = KVCache(model.config, 3, 16)
    model(tokens[:, :6], prefix=prefix, cache=cache, lengths=lengths)
    new = torch.stack([row[length : length + 3] for row, length in zip(tokens, lengths, strict=True)])
    logits = feed(model, new, [1, 2], cache)
    for row, length in enumerate(lengths):
        whole = model(tokens[row : row + 1, : length + 3], prefix=prefix[row : row + 1])
        close(logits[row], whole[0, length:])


@torch.inference_mode()
def test_positions_count_from_0_behind_a_prefix() -> None:
    """Only where the configuration says so, and only behind a prefix."""
    prefix = torch.tensor([4, 1])
    for fields, expected in (
        ({"restart_positions": True}, [[0, 1, 2, 3, 0, 1], [0, 0, 1, 2, 3, 4]]),
        ({}, [0, 1, 2, 3, 4, 5]),
    ):
        config = tiny(fields).config
        assert make_plan(config, 2, 6, prefix=prefix).positions.tolist() == expected
    model = tiny({"restart_positions": True, "n_layer": 1})
    same = torch.tensor([[7, 7]])  # at one place, the second sees what the first does
    first, second = model(same, prefix=torch.tensor([1]))[0]
    close(first, second)
    assert not torch.allclose(*model(same)[0], atol=1e-2)


@torch.inference_mode()
def test_rows_take_their_restarts_along() -> None:
    """A beam that changes its row, a row that is copied or starts anew must count from where its own prefix ended."""
    model, tokens = tiny(SETTINGS["rotary-restarting"]), random_tokens(2, 12)
    prefix = torch.tensor([5, 3])
    whole = model(tokens, prefix=prefix)
    cache = KVCache(model.config, 2, 16)
    model(tokens[:, :7], prefix=prefix, cache=cache)
    cache.reorder([1, 0, 1])
    close(model(tokens[[1, 0, 1], 7:9], cache=cache), whole[[1, 0, 1], 7:9])
    other = KVCache(model.config, 1, 16)
    other.copy_row(0, cache, 1)
    close(model(tokens[:1, 9:], cache=other), whole[:1, 9:])
    other.rewind(0, 0)
    close(model(tokens[1:], cache=other), model(tokens[1:]))


@pytest.mark.parametrize("name", ["rotary", "rotary-windows", "rotary-untied", "relative"])
@given(cuts=st.sets(st.integers(1, 39)), longest=st.integers(1, 9))
@settings(max_examples=15, deadline=None)
@torch.inference_mode()
def test_the_ring_equals_one_pass_with_the_same_window(name: str, cuts: set[int], longest: int) -> None:
    """Five times around the ring: a slot reused one token early is a token lost from the window."""
    model, tokens = tiny(SETTINGS[name], context=6), random_tokens(2, 40)
    edges: list[int] = []
    for edge in [*sorted(cuts), 40]:
        start = edges[-1] if edges else 0
        edges += [*range(start + longest, edge, longest), edge]
    cache = KVCache(model.config, 2, 6 + longest - 1)
    close(feed(model, tokens, edges[:-1], cache), model(tokens))


@torch.inference_mode()
def test_rows_slide_at_different_times() -> None:
    """One row has gone round the ring while the other has not filled it."""
    model, tokens = tiny(ROTARY, context=6), random_tokens(2, 20)
    cache = KVCache(model.config, 2, 6 + 9 - 1)
    model(tokens[:, :9], cache=cache, lengths=[9, 2])
    for step in range(9):
        new = torch.stack([tokens[0, 9 + step], tokens[1, 2 + step]])[:, None]
        logits = model(new, cache=cache)[:, 0]
        close(logits[0], model(tokens[:1, : 10 + step])[0, -1])
        close(logits[1], model(tokens[1:, : 3 + step])[0, -1])


@torch.inference_mode()
def test_padding_does_not_overwrite_a_ring() -> None:
    """Past the ring's end, the slot that padding would take holds a token that is still in the window."""
    model, tokens = tiny(ROTARY, context=6), random_tokens(2, 48)
    cache = KVCache(model.config, 2, 6 + 4 - 1)
    for lengths in itertools.islice(itertools.cycle([[4, 1], [1, 3], [2, 2], [4, 3]]), 14):
        starts = list(cache.seen)
        part = torch.stack([row[start : start + 4] for row, start in zip(tokens, starts, strict=True)])
        logits = model(part, cache=cache, lengths=lengths)
        for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            close(logits[row, :length], model(tokens[row : row + 1, : start + length])[0, start:])
    assert min(cache.seen) > 3 * cache.capacity


@every_setting
@torch.inference_mode()
def test_a_static_cache_gives_the_same(fields: dict[str, object]) -> None:
    """What a compiled step computes from tensors alone, the eager step computes from Python numbers."""
    model, tokens = tiny(fields, context=12), random_tokens(2, 40)
    slides = model.config.position != "learned"
    eager, static = KVCache(model.config, 2, 15), KVCache(model.config, 2, 15)
    for cache in (eager, static):
        model(tokens[:, :4], cache=cache, lengths=[4, 2])
    for step in range(30 if slides else 8):
        new = tokens[:, 4 + step : 5 + step]
        static.static = True
        logits = model(new, cache=static)
        static.static = False
        static.advance([1, 1])
        close(logits, model(new, cache=eager))
    assert static.seen == eager.seen == eager.lengths.tolist() == static.lengths.tolist()


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 2], [2], [0, 2], [0, 0, 1, 1, 2, 2]])
@torch.inference_mode()
def test_reordered_rows_go_on_as_their_sources_would(rows: list[int]) -> None:
    """Beams move, samples fan out, finished rows leave; in place, no row may be overwritten before it is read."""
    model, tokens = tiny(ROTARY), random_tokens(3, 12)
    cache = KVCache(model.config, 3, 12)
    model(tokens[:, :8], cache=cache, lengths=[8, 5, 7])
    cache.reorder(rows)
    lengths = [[8, 5, 7][row] for row in rows]
    assert cache.batch == len(rows) and cache.seen == cache.lengths.tolist() == lengths
    new = torch.stack([tokens[row, length] for row, length in zip(rows, lengths, strict=True)])[:, None]
    logits = model(new, cache=cache)
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        close(logits[place, 0], model(tokens[row : row + 1, : length + 1])[0, -1])


@torch.inference_mode()
def test_reordering_keeps_a_ring_that_has_wrapped() -> None:
    model, tokens = tiny(ROTARY, context=6), random_tokens(2, 12)
    cache = KVCache(model.config, 2, 6)
    feed(model, tokens[:, :11], list(range(1, 11)), cache)
    cache.reorder([1, 0])
    close(model(tokens[[1, 0], 11:], cache=cache)[:, 0], model(tokens[[1, 0]])[:, -1])


@torch.inference_mode()
def test_a_copied_row_goes_on_like_the_original() -> None:
    """Rows with learned positions start again in a cache of their own, and come back."""
    model, tokens = tiny({}), random_tokens(2, 12)
    cache, other = KVCache(model.config, 2, 12), KVCache(model.config, 1, 5)
    model(tokens[:, :9], cache=cache)
    model(tokens[1:, 4:9], cache=other)
    cache.copy_row(1, other)
    assert cache.seen == cache.lengths.tolist() == [9, 5]
    logits = model(tokens[:, 9:10], cache=cache)[:, 0]
    close(logits[0], model(tokens[:1, :10])[0, -1])
    close(logits[1], model(tokens[1:, 4:10])[0, -1])


@torch.inference_mode()
def test_a_rewound_row_forgets() -> None:
    model, tokens = tiny(ROTARY), random_tokens(1, 12)
    cache = KVCache(model.config, 1, 12)
    model(tokens[:, :9], cache=cache)
    cache.rewind(0, 4)
    close(model(tokens[:, 9:], cache=cache), model(torch.cat((tokens[:, :4], tokens[:, 9:]), dim=1))[:, 4:])


@torch.inference_mode()
def test_what_does_not_fit_is_refused() -> None:
    """Overwriting slots that are still in the window would be a wrong answer without an error."""
    model = tiny(ROTARY, context=6)
    with pytest.raises(SuiteError, match="at least one slot"):
        KVCache(model.config, 1, 0)
    cache = KVCache(model.config, 1, 7)
    with pytest.raises(SuiteError, match="do not fit a cache of 7 slots; to slide, it needs 8"):
        feed(model, random_tokens(1, 9), [3, 6], cache)
    cache = KVCache(model.config, 1, 7)
    model(random_tokens(1, 7), cache=cache)
    model(random_tokens(1, 1), cache=cache)
    with pytest.raises(SuiteError, match="cannot go back"):
        cache.rewind(0, 3)
    with pytest.raises(SuiteError, match="no larger"):
        cache.copy_row(0, KVCache(model.config, 1, 9))
    learned = tiny({})
    with pytest.raises(SuiteError, match="17 tokens are more than the model's context of 16"):
        learned(random_tokens(1, 17), cache=KVCache(learned.config, 1, 17))


def test_bytes_are_those_of_keys_and_values() -> None:
    config = tiny(ROTARY).config  # 2 layers, 2 key/value heads, 4 wide
    assert KVCache(config, 3, 9, dtype=torch.float16).nbytes == 2 * 2 * 3 * 2 * (9 + 1) * 4 * 2
