"""Relative positions: skewed, gathered and sliced, against one vector looked up for every query and key."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from suite.checkpoint import load_checkpoint, save_checkpoint
from suite.errors import ConfigError
from suite.model import KVCache, ModelConfig, Transformer, plan
from suite.model.plan import Skewed, locate, make_pattern
from suite.model.relative import relative
from suite.training.optimizer import build_optimizers
from suite.training.recipe import OptimizerConfig

KINDS: dict[str, dict[str, Any]] = {
    "whole": {},
    "near": {"relative_span": 4},
    "ahead": {"relative_ahead": 3},
    "near-ahead-grouped": {"relative_span": 5, "relative_ahead": 15, "n_kv_head": 2},
    "window": {"windows": (3, 0), "relative_ahead": 1, "qk_norm": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def shape(context: int = 16, **fields: Any) -> ModelConfig:
    base = {"vocab_size": 23, "context": context, "d_model": 32, "n_layer": 2, "n_head": 4, "position": "relative"}
    return ModelConfig.from_dict(base | fields)


def tiny(context: int = 16, **fields: Any) -> Transformer:
    """A random model with weights large enough that every difference shows."""
    torch.manual_seed(0)
    model = Transformer(shape(context, **fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def random_tokens(rows: int, length: int) -> Tensor:
    return torch.randint(23, (rows, length), generator=torch.Generator().manual_seed(1))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def looked_up(
    config: ModelConfig, queries: Tensor, keys: Tensor, values: Tensor, table: Tensor, window: int, prefix: Tensor
) -> Tensor:
    """Attention as Huang et al. write it down before they skew: a vector for each query and key, (T, S, H, E)."""
    _, heads, length, width = queries.shape
    span, ahead = config.relative_span or config.context, config.relative_ahead
    row = torch.tensor([[span - 1 - min(max(t - s, -ahead), span - 1) for s in range(length)] for t in range(length)])
    vectors = table.view(-1, heads, width)[row]
    keys, values = (part.repeat_interleave(heads // config.kv_heads, dim=1) for part in (keys, values))
    scores = torch.einsum("bhte,bhse->bhts", queries, keys) + torch.einsum("bhte,tshe->bhts", queries, vectors)
    t, s = torch.arange(length)[:, None], torch.arange(length)
    visible = (s <= t) | (torch.maximum(t, s) < prefix[:, None, None])  # (B, T, S)
    visible &= (t - s).abs() < min(window or config.context, config.context)
    weights = (scores / width**0.5).where(visible[:, None], -torch.inf).softmax(-1)
    return torch.einsum("bhts,bhse->bhte", weights, values)


@pytest.mark.parametrize("length", [2, 11, 20])  # the last is longer than the context
@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("block", [4, 128])
@every_kind
def test_skewed_scores_are_those_looked_up(
    kind: str, prefixed: bool, length: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row off by one gives each key its neighbour's vector, which trains nearly as well and is never noticed."""
    monkeypatch.setattr(plan, "BLOCK", block)
    config = shape(**KINDS[kind])
    torch.manual_seed(length)
    queries = torch.randn(3, 4, length, 8)
    keys, values = torch.randn(2, 3, config.kv_heads, length, 8)
    table = torch.randn(config.span + config.relative_ahead, 32)
    prefix = torch.tensor([0, min(length, 7), length]) if prefixed else torch.zeros(3, dtype=torch.long)
    for window in {config.window(0), 0}:
        places = locate(config, length, [length] * 3, None, None)
        pattern = make_pattern(config, places, window, prefix=prefix if prefixed else None, batch=3)
        assert isinstance(pattern, Skewed)
        gradients = []
        for skewed in (True, False):
            leaves = [part.clone().requires_grad_() for part in (queries, keys, values, table)]
            if skewed:
                found = relative(*leaves[:3], pattern, leaves[3], 0.0)
                out = found
            else:
                out = looked_up(config, *leaves, window, prefix)
                close(found, out)
            (out * torch.arange(out.numel()).view_as(out).cos()).sum().backward()
            gradients.append([leaf.grad for leaf in leaves])
        for mine, theirs in zip(*gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def feed(model: Transformer, tokens: Tensor, cuts: list[int], cache: KVCache, prefix: Tensor | None = None) -> Tensor:
    """The logits of all positions, read in passes that end at `cuts`; the prefix lies in the first."""
    edges = [0, *cuts, tokens.shape[1]]
    parts = [
        model(tokens[:, start:end], cache=cache, prefix=None if start else prefix)
        for start, end in itertools.pairwise(edges)
    ]
    return torch.cat(parts, dim=1)


@every_kind
@given(cuts=st.sets(st.integers(6, 15)), prefixed=st.booleans())
@settings(max_examples=15, deadline=None)
@torch.inference_mode()
def test_any_chunking_equals_one_pass(kind: str, cuts: set[int], prefixed: bool) -> None:
    """Several new tokens are skewed against older keys, one is a slice of the table."""
    model, tokens = tiny(**KINDS[kind]), random_tokens(2, 16)
    prefix = torch.tensor([6, 3]) if prefixed else None
    cache = KVCache(model.config, 2, 16)
    close(feed(model, tokens, sorted(cuts), cache, prefix), model(tokens, prefix=prefix))


@every_kind
@torch.inference_mode()
def test_ragged_rows_that_slide_equal_each_row_alone(kind: str) -> None:
    """Each row has distances of its own, and in a ring the slots are out of order."""
    model, tokens = tiny(context=6, **(KINDS[kind] | {"relative_ahead": 2})), random_tokens(2, 30)
    prefix = torch.tensor([4, 1])
    cache = KVCache(model.config, 2, 6 + 4 - 1)
    for lengths in itertools.islice(itertools.cycle([[4, 1], [1, 3], [2, 2], [4, 3]]), 9):
        starts = list(cache.seen)
        part = torch.stack([row[start : start + 4] for row, start in zip(tokens, starts, strict=True)])
        logits = model(part, cache=cache, lengths=lengths, prefix=None if any(starts) else prefix)
        for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            alone = model(tokens[row : row + 1, : start + length], prefix=prefix[row : row + 1])
            close(logits[row, :length], alone[0, start:])
    assert min(cache.seen) > 2 * cache.capacity


@torch.inference_mode()
def test_the_order_of_earlier_tokens_matters() -> None:
    """One layer without positions sees a set; were the table left out of the scores, nothing else would tell."""
    model = tiny(n_layer=1)
    one, other = model(torch.tensor([[1, 2, 3]]))[0, -1], model(torch.tensor([[2, 1, 3]]))[0, -1]
    assert (one - other).abs().max() > 1e-2
    table = model.get_parameter("blocks.0.attention.relative")
    table.zero_()
    close(model(torch.tensor([[1, 2, 3]]))[0, -1], model(torch.tensor([[2, 1, 3]]))[0, -1])


@torch.inference_mode()
def test_a_prefix_tells_what_is_ahead_apart() -> None:
    """The farthest row is that of all keys beyond it: with 1, two later keys may change places, and with 2 not."""
    left, right = torch.tensor([[3, 1, 2]]), torch.tensor([[3, 2, 1]])
    for ahead, apart in ((0, False), (1, False), (2, True)):
        model = tiny(n_layer=1, relative_ahead=ahead)
        one, other = (model(tokens, prefix=torch.tensor([3]))[0, 0] for tokens in (left, right))
        assert ((one - other).abs().max() > 1e-3) == apart


@torch.inference_mode()
def test_only_distances_count() -> None:
    """What is learned of a motif must hold wherever it stands: with all else out of sight, a shift changes nothing."""
    model = tiny(context=4, n_layer=1)
    motif = torch.tensor([[5, 6, 7, 8]])
    close(model(torch.cat((random_tokens(1, 7), motif), dim=1))[0, -1], model(motif)[0, -1])


def test_bfloat16_training_gives_what_float32_gives() -> None:
    model, tokens = tiny(context=200, n_kv_head=2), random_tokens(2, 150)  # longer than a block
    probe = torch.randn(2, 150, 32)
    found = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            hidden = model.hidden(tokens).float()
        (hidden * probe).sum().backward()
        gradient = model.get_parameter("blocks.0.attention.relative").grad
        assert gradient is not None
        found.append((hidden.detach(), gradient.flatten()))
    torch.testing.assert_close(found[1][0], found[0][0], atol=0.15, rtol=0.05)
    assert torch.nn.functional.cosine_similarity(found[0][1], found[1][1], dim=0) > 0.98


def test_one_token_can_be_trained_on_in_bfloat16() -> None:
    """A last batch may hold texts of one token; short training in bfloat16 must not take the scores for a mask."""
    model = tiny(dropout=0.1).train()
    with torch.autocast("cpu", torch.bfloat16):
        model(random_tokens(3, 1)).sum().backward()
    assert model.get_parameter("blocks.0.attention.qkv.weight").grad is not None


def test_muon_leaves_the_tables_to_adamw() -> None:
    """Rows of a table are looked up by distance; orthogonalised together, each would move with the others."""
    model = tiny()
    _, muon = build_optimizers(model, OptimizerConfig(kind="muon"))
    names = {parameter: name for name, parameter in model.named_parameters()}
    taken = {names[parameter] for parameter in muon.param_groups[0]["params"]}
    blocks = {name for name, p in model.named_parameters() if p.dim() == 2 and name.startswith("blocks.")}
    assert blocks - taken == {"blocks.0.attention.relative", "blocks.1.attention.relative"} and taken < blocks


def test_an_int8_checkpoint_keeps_the_tables(tmp_path: Path) -> None:
    model, tokens = tiny(relative_span=7, relative_ahead=2), random_tokens(2, 16)
    save_checkpoint(tmp_path, model.config, model.state_dict(), None, storage="int8")
    loaded = load_checkpoint(tmp_path)
    assert loaded.config == model.config
    name = "blocks.1.attention.relative"
    table = model.get_parameter(name)
    half_a_step = table.abs().amax(dim=1, keepdim=True) / 254
    assert ((loaded.state_dict[name] - table).abs() <= half_a_step * 1.001).all()
    again = Transformer(loaded.config).eval()
    again.load_state_dict(loaded.state_dict, strict=False)  # the tied head stands once in a checkpoint
    torch.testing.assert_close(again(tokens), model(tokens), rtol=0, atol=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "rotary", "relative_span": 4}, "relative_span.*'rotary'"),
        ({"position": "learned", "relative_ahead": 4}, "relative_ahead.*'learned'"),
        ({"relative_span": 0}, "relative_span is 0"),
        ({"relative_span": 17}, "from 1 to model.context \\(16\\)"),
        ({"relative_ahead": -1}, "relative_ahead is -1"),
        ({"relative_ahead": 16}, "less than model.context \\(16\\)"),
    ],
)
def test_what_does_not_fit_names_the_field(changes: dict[str, Any], message: str) -> None:
    """Rows of the table that no distance reaches would never be trained."""
    with pytest.raises(ConfigError, match=message):
        shape(**changes)
