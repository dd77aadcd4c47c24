"""The weights that are shown must be those that the model used."""

from typing import Any

import pytest
import torch
from torch import Tensor

from suite.model import ModelConfig, Transformer
from suite.model.attention_maps import attention_maps
from suite.model.quantize import prepare_for_inference

KINDS: dict[str, dict[str, Any]] = {
    "learned": {},
    "rotary": {"position": "rotary", "norm": "rms", "bias": False},
    "relative": {"position": "relative", "relative_span": 6, "relative_ahead": 3, "n_kv_head": 2},
    "grouped": {"position": "rotary", "n_kv_head": 2},
    "window": {"position": "rotary", "windows": (3, 0)},
    "normalised": {"position": "rotary", "qk_norm": True, "n_kv_head": 1},
}


def model(kind: str) -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=50, context=32, d_model=32, n_layer=2, n_head=4, **KINDS[kind])
    transformer = Transformer(config).eval()
    for parameter in transformer.parameters():
        parameter.data = torch.randn_like(parameter) * 0.3  # sharp attention, so that a wrong map shows
    return transformer


def mixed_values(transformer: Transformer, tokens: Tensor, prefix: int) -> tuple[list[Tensor], list[Tensor]]:
    """Per layer, what goes into attention (T, D) and what comes out of it (T, D)."""
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    for block in transformer.blocks:
        block.attention.register_forward_pre_hook(lambda module, arguments: inputs.append(arguments[0][0]))
        block.attention.register_forward_hook(lambda module, arguments, out: outputs.append(out[0]))
    with torch.no_grad():
        transformer.hidden(tokens[None], prefix=torch.tensor([prefix]) if prefix else None)
    return inputs, outputs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "prefix"), [(11, 0), (11, 6), (20, 20), (1, 0)])
def test_maps_times_values_are_what_attention_gives(kind: str, length: int, prefix: int) -> None:
    """Worked out beside the model, a map can miss the rotation, a window or the prefix, and nobody sees it."""
    transformer = model(kind)
    tokens = torch.arange(length) * 7 % 50
    maps = attention_maps(transformer, tokens, prefix=prefix)
    inputs, outputs = mixed_values(transformer, tokens, prefix)
    for block, weights, x, out in zip(transformer.blocks, maps, inputs, outputs, strict=True):
        attention = block.attention
        with torch.no_grad():
            values = attention.qkv(x).view(length, -1, attention.width)[:, -attention.kv_heads :]  # (T, K, E)
            values = values.transpose(0, 1).repeat_interleave(attention.n_head // attention.kv_heads, dim=0)
            mixed = (weights @ values).transpose(0, 1).reshape(length, -1)
            assert torch.allclose(attention.out(mixed), out, atol=1e-5)
        assert torch.allclose(weights.sum(dim=-1), torch.ones(4, length))


def test_who_sees_whom() -> None:
    """A map that looks into the future, or not both ways in the prefix, is of another model."""
    tokens = torch.arange(8)
    for weights in attention_maps(model("rotary"), tokens, prefix=3):
        assert (weights[:, 3:].triu(diagonal=4) == 0).all() and (weights[:, 0, 2] > 0).all()
        assert (weights[:, :3, 3:] == 0).all()
    local, whole = attention_maps(model("window"), tokens)
    assert (local[:, 7, :5] == 0).all() and (whole[:, 7, 0] > 0).all()


def test_looking_changes_nothing() -> None:
    """Hooks that stay behind would slow every later pass."""
    transformer = model("grouped")
    tokens = torch.arange(9)[None]
    before = transformer(tokens)
    [second] = attention_maps(transformer, tokens[0], layers=[1])
    assert torch.equal(second, attention_maps(transformer, tokens[0])[1])
    assert torch.equal(transformer(tokens), before)
    assert not any(module._forward_pre_hooks for module in transformer.modules())


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
def test_models_prepared_for_inference_can_be_looked_at(weights: str) -> None:
    transformer = model("rotary")
    exact = attention_maps(transformer, torch.arange(9), prefix=4)
    found = attention_maps(prepare_for_inference(transformer, weights), torch.arange(9), prefix=4)
    assert torch.allclose(exact[0], found[0], atol=0.1)
