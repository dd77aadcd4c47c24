"""The configuration is a value: what does not fit is refused when it is made, and it survives JSON."""

import dataclasses
import json

import pytest
import torch

from suite.errors import ConfigError
from suite.model import ModelConfig, Transformer
from suite.model.config import RopeScaling

SMALL = {"vocab_size": 10, "context": 8, "d_model": 16, "n_layer": 2, "n_head": 4}


@pytest.mark.parametrize(
    ("size", "parameters"),
    [("124M", 124_439_808), ("355M", 354_823_168), ("774M", 774_030_080), ("1558M", 1_557_611_200)],
)
def test_gpt2_has_the_published_number_of_parameters(size: str, parameters: int) -> None:
    with torch.device("meta"):
        model = Transformer(ModelConfig.gpt2(size))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_json_and_back() -> None:
    config = ModelConfig(**SMALL, position="rotary", windows=(4, 0), n_kv_head=2)  # type: ignore[arg-type]
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_later_fields_are_written_only_where_they_say_something() -> None:
    """An earlier suite, which does not know them, could read no checkpoint of this one."""
    config = ModelConfig(**SMALL, position="rotary")  # type: ignore[arg-type]
    assert not {"d_head", "qkv_bias", "rope_scaling", "parallel_residual"} & config.to_dict().keys()
    scaling = RopeScaling(kind="llama3", factor=8.0, original_context=4)
    later = dataclasses.replace(config, d_head=6, qkv_bias=True, rotary_width=2, rope_scaling=scaling)
    assert ModelConfig.from_dict(json.loads(json.dumps(later.to_dict()))) == later


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_head": 3}, "n_head"),
        ({"n_kv_head": 3}, "n_kv_head"),
        ({"n_kv_head": 0}, "n_kv_head"),
        ({"d_model": 12, "position": "rotary"}, "even"),
        ({"windows": (4,)}, "windows"),
        ({"windows": (4, -1)}, "negative"),
        ({"dropout": 1.0}, "model.dropout"),
        ({"attention_dropout": 1.0}, "attention_dropout"),
        ({"attention_dropout": -0.1}, "attention_dropout"),
        ({"restart_positions": True, "position": "relative"}, "not numbered"),
        ({"norm": "batch"}, "layer, rms"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"d_ff": 0}, "d_ff"),
        ({"d_head": 0}, "d_head"),
        ({"d_head": 3, "position": "rotary"}, "model.d_head is 3"),
        ({"rotary_width": 2}, "rotary_width needs rotary"),
        ({"rotary_width": 6, "position": "rotary"}, "rotary_width is 6"),
        ({"rotary_width": 3, "position": "rotary"}, "rotary_width is 3"),
        ({"qk_norm_weight": True}, "needs model.qk_norm"),
        ({"rope_scaling": {"kind": "yarn", "factor": 2.0}, "position": "rotary"}, "linear, llama3"),
        ({"rope_scaling": {"kind": "linear", "factor": 0.5}, "position": "rotary"}, "factor is 0.5"),
        ({"rope_scaling": {"kind": "linear", "factr": 2}, "position": "rotary"}, "factr"),
        ({"rope_scaling": {"kind": "llama3", "factor": 2.0, "low": 5.0}, "position": "rotary"}, "low 5.0, high 4.0"),
    ],
)
def test_what_does_not_fit_names_the_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModelConfig.from_dict({**SMALL, **change})


def test_an_unknown_field_names_the_nearest_and_a_missing_one_itself() -> None:
    with pytest.raises(ConfigError, match=r"n_heads'.*'model.n_head'"):
        ModelConfig.from_dict({**SMALL, "n_heads": 4})
    with pytest.raises(ConfigError, match=r"model\.context is missing"):
        ModelConfig.from_dict({name: value for name, value in SMALL.items() if name != "context"})


def test_initial_weights_are_gpt2s() -> None:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=500, context=64, d_model=128, n_layer=8, n_head=4))
    deviation = {name: parameter.std().item() for name, parameter in model.named_parameters()}
    assert deviation["tokens.weight"] == pytest.approx(0.02, rel=0.02)
    assert deviation["blocks.3.mlp.up.weight"] == pytest.approx(0.02, rel=0.02)
    assert deviation["blocks.3.mlp.down.weight"] == pytest.approx(0.02 / 4, rel=0.02), "1 / sqrt(2 * 8 layers)"
    assert deviation["blocks.3.attention.out.weight"] == pytest.approx(0.02 / 4, rel=0.03)
    assert not any(parameter.any() for name, parameter in model.named_parameters() if name.endswith("bias"))
