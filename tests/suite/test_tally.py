"""The tally must count what the model has, and tied weights once."""

from pathlib import Path

import pytest

from suite.checkpoint import save_checkpoint
from suite.errors import CheckpointError
from suite.model import KVCache, ModelConfig, Transformer
from suite.tally import cache_bytes, read_head, tally
from suite.text.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("size", "count"), [("124M", 124439808), ("355M", 354823168), ("774M", 774030080), ("1558M", 1557611200)]
)
def test_gpt2_counts(size: str, count: int) -> None:
    assert sum(weight.parameters for weight in tally(ModelConfig.gpt2(size))) == count


def small(*, tied: bool) -> ModelConfig:
    return ModelConfig(
        vocab_size=257,
        context=16,
        d_model=32,
        n_layer=3,
        n_head=4,
        n_kv_head=2,
        position="rotary",
        activation="swiglu",
        bias=False,
        tie_embeddings=tied,
    )


@pytest.mark.parametrize("tied", [True, False])
def test_tally_is_what_the_model_has(tied: bool) -> None:
    model = Transformer(small(tied=tied))
    weights = tally(model.config)
    assert sum(weight.parameters for weight in weights) == sum(p.numel() for p in model.parameters())
    assert ("head.weight" in [weight.name for weight in weights]) is not tied
    [up] = [weight for weight in weights if weight.name == "blocks.*.mlp.up.weight"]
    assert (up.count, up.part) == (3, "blocks")


def test_cache_bytes_are_those_of_the_cache() -> None:
    """Grouped heads keep fewer keys and values; a formula of d_model alone would miss that."""
    config = small(tied=True)
    assert cache_bytes(config, "float32") * (10 + 1) == KVCache(config, 1, 10).nbytes


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_the_head_of_a_file_tells_the_parameters(tmp_path: Path, storage: str) -> None:
    """The scales of int8 weights are no parameters."""
    config = small(tied=True)
    model = Transformer(config)
    save_checkpoint(tmp_path, config, model.state_dict(), Tokenizer.bytes(), storage=storage)  # type: ignore[arg-type]
    settings, shapes = read_head(tmp_path)
    assert settings["storage"] == storage
    assert shapes == {name: tuple(weight.shape) for name, weight in model.state_dict().items() if name != "head.weight"}
    weights = sum(weight.nbytes(storage) for weight in tally(config))
    assert 0 < (tmp_path / "model.safetensors").stat().st_size - weights < 10_000  # the head alone


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, b"\x02\0\0\0\0\0\0\0[]", b"\x07\0\0\0\0\0\0\0" + b'{"a":1}'])
def test_a_damaged_head_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing or damaged"):
        read_head(tmp_path)
