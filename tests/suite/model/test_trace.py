"""What a trace shows must be what the fast path computed."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from suite.errors import ConfigError, SuiteError
from suite.model import ModelConfig, Transformer
from suite.model.attention_maps import attention_maps
from suite.model.lora import add_lora
from suite.model.quantize import prepare_for_inference
from suite.model.trace import NAMES, Trace, trace

KINDS: dict[str, dict[str, Any]] = {
    "learned": {},
    "rotary": {"position": "rotary", "norm": "rms", "bias": False, "activation": "relu2"},
    "relative": {"position": "relative", "relative_span": 6, "relative_ahead": 3, "n_kv_head": 2},
    "whole relative": {"position": "relative"},
    "grouped": {"position": "rotary", "n_kv_head": 2},
    "window": {"position": "rotary", "windows": (3, 0)},
    "window, learned": {"windows": (0, 4), "activation": "gelu"},
    "normalised": {"position": "rotary", "qk_norm": True, "n_kv_head": 1},
    "swiglu": {"position": "rotary", "activation": "swiglu", "norm": "rms", "tie_embeddings": False},
    "compressed": {"position": "rotary", "compress": (0, 3)},
    "restarting": {"restart_positions": True},
}
FULL = {"queries", "keys", "values", "scores", "masked", "weights", "mixed", "attention", "activations", "mlp"}


def model(kind: str, **changes: Any) -> Transformer:
    torch.manual_seed(0)
    fields = {"vocab_size": 50, "context": 32, "d_model": 32, "n_layer": 2, "n_head": 4, **KINDS[kind], **changes}
    transformer = Transformer(ModelConfig(**fields)).eval()
    for parameter in transformer.parameters():
        parameter.data = torch.randn_like(parameter) * 0.3  # sharp attention, so that a wrong weight shows
    return transformer


def ids(length: int) -> Tensor:
    return torch.arange(length) * 7 % 50


def near(found: Tensor, expected: Tensor) -> bool:
    """Equal to 1e-5, relative to the largest number there is."""
    return bool((found - expected).abs().max() <= 1e-5 * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "prefix"), [(11, 0), (11, 6), (20, 20), (1, 0)])
@torch.no_grad()
def test_a_trace_retells_the_fast_pass(kind: str, length: int, prefix: int) -> None:
    """Each tensor leads to the next one, and the last are the logits of the pass without a trace."""
    transformer = model(kind)
    tokens = ids(length)
    found = trace(transformer, tokens, prefix=prefix)
    bounds = torch.tensor([prefix]) if prefix else None
    assert found.logits is not None and found.hidden is not None
    assert torch.equal(found.logits, transformer(tokens[None], prefix=bounds)[0])
    assert torch.equal(found.hidden, transformer.hidden(tokens[None], prefix=bounds)[0])
    maps = attention_maps(transformer, tokens, prefix=prefix)  # from the real kernel
    for layer, block in enumerate(transformer.blocks):
        assert near(found.weights_by_position(layer), maps[layer])
        if "compressed" not in kind or layer == 0:
            values = found.values[layer].repeat_interleave(4 // block.attention.kv_heads, dim=0)
            mixed = (found.weights[layer] @ values).transpose(0, 1).reshape(length, -1)
            assert near(mixed, found.mixed[layer])
        assert near(block.attention.out(found.mixed[layer]), found.attention[layer])
        assert near(block.mlp.down(found.activations[layer]), found.mlp[layer])
        assert near(found.residual[layer] + found.attention[layer] + found.mlp[layer], found.residual[layer + 1])
        assert near(found.masked[layer].softmax(dim=-1), found.weights[layer])
        seen = found.masked[layer] > -torch.inf
        assert torch.equal(found.masked[layer][seen], found.scores[layer][seen])
        assert found.scores[layer].isfinite().all()
    assert near(found.lens[2], found.logits)
    assert near(found.lens[1], transformer.logits(transformer.norm(found.residual[1])))


@pytest.mark.parametrize("kind", ["rotary", "relative", "window", "compressed"])
@pytest.mark.parametrize("prefix", [0, 150])
@torch.no_grad()
def test_long_passes_in_blocks_are_retold_too(kind: str, prefix: int) -> None:
    """Local and skewed attention work in blocks of 128 queries, and cut off what slides out of the context."""
    transformer = model(kind, context=40)
    tokens = ids(300)
    found = trace(transformer, tokens, prefix=prefix, keep=["weights", "mixed"])
    for layer, expected in enumerate(attention_maps(transformer, tokens, prefix=prefix)):
        assert near(found.weights_by_position(layer), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_those_of_the_documentation(kind: str) -> None:
    transformer = model(kind)
    config, length = transformer.config, 11
    found = trace(transformer, ids(length), gradient_of=(-1, 4))
    heads, groups, width = config.n_head, config.kv_heads, config.head_width
    for layer in range(2):
        stride = config.compression(layer)
        keys = length + (length // stride if stride else 0)
        shapes = {
            "queries": (heads, length, width),
            "keys": (groups, length, width),
            "values": (groups, length, width),
            **dict.fromkeys(("scores", "masked", "weights"), (heads, length, keys)),
            "mixed": (length, heads * width),
            **dict.fromkeys(("attention", "mlp", "residual", "gradients"), (length, config.d_model)),
            "activations": (length, config.ff_width),
            "lens": (length, config.vocab_size),
        }
        assert {name: tuple(getattr(found, name)[layer].shape) for name in shapes} == shapes
    assert set(found.residual) == set(found.lens) == set(found.gradients) == {0, 1, 2}
    assert found.embeddings is not None and found.embeddings.shape == (length, config.d_model)
    assert (found.positions is not None) == (config.position == "learned")


def everything(found: Trace) -> dict[str, Any]:
    return {name: getattr(found, name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_asked_for_is_kept(name: str) -> None:
    transformer = model("learned")
    whole, found = everything(trace(transformer, ids(7))), everything(trace(transformer, ids(7), keep=name))
    for other in NAMES:
        if other != name:
            assert found[other] is None or found[other] == {}, other
        elif isinstance(found[other], dict):
            assert found[other].keys() == whole[other].keys()
            assert all(torch.equal(found[other][layer], whole[other][layer]) for layer in whole[other])
        else:
            assert torch.equal(found[other], whole[other])


def test_only_what_is_asked_for_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of all pairs, or logits of all layers, cost more than the pass itself."""
    transformer = model("rotary")

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("computed without being asked for")

    monkeypatch.setattr("suite.model.trace._scores", never)
    trace(transformer, ids(5), keep=["residual", "queries", "mlp"])
    monkeypatch.setattr(transformer, "logits", never)
    trace(transformer, ids(5), keep=["hidden", "values"])
    with pytest.raises(AssertionError):
        trace(transformer, ids(5), keep="lens")


def test_layers_and_positions_can_be_chosen() -> None:
    transformer = model("swiglu", n_layer=3)
    whole = trace(transformer, ids(9))
    found = trace(transformer, ids(9), layers=[1], lens_at=[0, -1])
    assert all(set(getattr(found, name)) == {1} for name in FULL)
    assert set(found.residual) == set(found.lens) == {1, 2}
    assert near(found.lens[2], whole.lens[2][[0, 8]])


@pytest.mark.parametrize("kind", ["learned", "relative", "window", "swiglu"])
def test_gradients_are_those_of_a_small_step(kind: str) -> None:
    """Taken in float64 along a random direction, so that the difference quotient is exact enough to tell."""
    transformer = model(kind).double()
    found = trace(transformer, ids(8), keep="residual", gradient_of=(5, 3))
    direction = torch.randn(8, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for layer in range(3):
        step, logits = 1e-5, []
        for sign in (1, -1):
            module = transformer.blocks[layer] if layer < 2 else transformer.norm
            moved = sign * step * direction
            hook = module.register_forward_pre_hook(lambda _, given, moved=moved: (given[0] + moved, *given[1:]))
            with torch.no_grad():
                hidden = transformer.hidden(ids(8)[None])[0, 5]
                logits.append(transformer.head(hidden)[3])
            hook.remove()
        slope = float(logits[0] - logits[1]) / (2 * step)
        assert slope == pytest.approx(float((found.gradients[layer] * direction).sum()), rel=1e-4, abs=1e-6)


def test_gradients_of_frozen_weights_with_lora() -> None:
    transformer = model("rotary")
    expected = trace(transformer, ids(6), keep=[], gradient_of=(-1, 2)).gradients
    add_lora(transformer, rank=2, alpha=4.0)
    found = trace(transformer, ids(6), keep=[], gradient_of=(5, 2)).gradients
    assert all(torch.allclose(found[layer], expected[layer], atol=1e-6) for layer in range(3))


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
def test_models_prepared_for_decoding_can_be_traced(weights: str) -> None:
    transformer = prepare_for_inference(model("rotary"), weights)
    found = trace(transformer, ids(9))
    with torch.no_grad():
        assert found.logits is not None and near(found.logits, transformer(ids(9)[None])[0])
    assert torch.allclose(found.weights[1].sum(dim=-1), torch.ones(4, 9))
    if weights != "float32":
        with pytest.raises(ConfigError, match="without quantize"):
            trace(transformer, ids(9), gradient_of=(0, 0))


def test_tracing_leaves_nothing_behind() -> None:
    """A hook that stays behind would slow every later pass, also where the pass failed."""
    transformer = model("learned")
    before = transformer(ids(9)[None])
    trace(transformer, ids(9), gradient_of=(0, 0))
    with pytest.raises(SuiteError, match="context"):
        trace(transformer, ids(33))
    assert torch.equal(transformer(ids(9)[None]), before)
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in transformer.modules())
    assert all(parameter.grad is None for parameter in transformer.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": "score"}, "no 'score'; available: embeddings"),
        ({"layers": [2]}, "no layer 2; its layers are 0 to 1"),
        ({"lens_at": [9]}, "lens_at names position 9, but there are 9"),
        ({"gradient_of": (-10, 0)}, "gradient_of names position -10"),
        ({"gradient_of": (0, 50)}, "token 50, but the vocabulary has 50"),
    ],
)
def test_what_there_is_not_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        trace(model("learned"), ids(9), **arguments)
    with pytest.raises(SuiteError, match="at least one"):
        trace(model("learned"), [])


def test_scores_follow_the_textbook() -> None:
    """One head worked out by hand: rotate nothing, scale by the root of the head's width, mask, softmax."""
    transformer = model("learned")
    found = trace(transformer, ids(5), layers=[0])
    q, k, v = found.queries[0][2], found.keys[0][2], found.values[0][2]
    scores = q @ k.T / 8**0.5
    assert near(found.scores[0][2], scores)
    weights = F.softmax(scores + torch.full((5, 5), -torch.inf).triu(1), dim=-1)
    assert near(found.mixed[0][:, 16:24], weights @ v)
