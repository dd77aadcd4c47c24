"""Checkpoints come back as they were, and every way in which one can be broken is one clear line."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from suite.checkpoint import convert, load, load_checkpoint, save_checkpoint, write_atomic
from suite.errors import CheckpointError
from suite.model import ModelConfig, Transformer
from suite.text.tokenizer import Tokenizer

CONFIG = ModelConfig(vocab_size=261, context=16, d_model=16, n_layer=2, n_head=2)


def save(directory: Path, storage: str = "float32") -> Transformer:
    torch.manual_seed(0)
    model = Transformer(CONFIG)
    tokenizer = Tokenizer.bytes(("<eos>", "<pad>", "<bos>", "<sep>", "<cls>"))
    save_checkpoint(
        directory, CONFIG, model.state_dict(), tokenizer, storage=storage, extra={"note": "é"}, card="# Card\n"
    )
    return model


@pytest.mark.parametrize(("storage", "error"), [("float32", 0), ("float16", 1e-4), ("bfloat16", 1e-3), ("int8", 1e-3)])
def test_what_is_saved_is_loaded(tmp_path: Path, storage: str, error: float) -> None:
    model = save(tmp_path, storage)
    found = load_checkpoint(tmp_path)
    assert found.config == CONFIG
    assert found.task == "lm"
    assert found.extra == {"note": "é"}
    assert found.tokenizer is not None
    assert found.tokenizer.decode(found.tokenizer.encode("ein Wörtchen")) == "ein Wörtchen"
    for name, tensor in found.state_dict.items():
        assert tensor.dtype == torch.float32
        assert (tensor - model.state_dict()[name]).abs().max() <= error, name
    assert "head.weight" not in found.state_dict, "tied weights were written twice"


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_a_tasks_own_tensors_come_back(tmp_path: Path, storage: str) -> None:
    """Numbers as near as the storage type has them, and codes, which have no near, to the bit."""
    model = Transformer(CONFIG)
    own = {
        "words.codes": torch.tensor([-(2**31), 2**24 + 1, 2**31 - 1], dtype=torch.int32),
        "matrix": torch.randn(3, 4),
    }
    save_checkpoint(tmp_path / "a", CONFIG, model.state_dict(), None, storage=storage, tensors=own)
    convert(tmp_path / "a", tmp_path / "b", to="suite", storage=storage)
    found = load(tmp_path / "b").tensors
    assert found.keys() == own.keys()
    assert torch.equal(found["words.codes"], own["words.codes"]) and found["words.codes"].dtype == torch.int32
    assert found["matrix"] == pytest.approx(own["matrix"], abs=0.05)


def test_int8_is_a_quarter_of_float32_and_a_fixed_point(tmp_path: Path) -> None:
    save(tmp_path / "full")
    save(tmp_path / "int8", "int8")
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("full", "int8")]
    assert sizes[1] < 0.4 * sizes[0]
    first = load_checkpoint(tmp_path / "int8")
    save_checkpoint(tmp_path / "again", first.config, first.state_dict, None, storage="int8")
    second = load_checkpoint(tmp_path / "again")
    for name, tensor in first.state_dict.items():
        assert torch.equal(tensor, second.state_dict[name]), "rounding twice moved a weight"


def rewrite(directory: Path, change: str) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    if change == "missing":
        del tensors["blocks.1.mlp.up.weight"]
    elif change == "extra":
        tensors["blocks.7.mlp.up.weight"] = torch.zeros(2)
    elif change == "misshapen":
        tensors["blocks.1.mlp.up.weight"] = torch.zeros(3, 16)
    elif change == "scale":
        del tensors["blocks.1.mlp.up.weight.scale"]
    save_file(tensors, file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("missing", r"'blocks\.1\.mlp\.up\.weight' is missing"),
        ("extra", r"'blocks\.7\.mlp\.up\.weight' is not part of this model"),
        ("misshapen", r"'blocks\.1\.mlp\.up\.weight' has shape \(3, 16\).*\(64, 16\)"),
    ],
)
def test_a_wrong_tensor_is_named(tmp_path: Path, change: str, message: str) -> None:
    save(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(tmp_path)


def test_int8_without_its_scales_is_named(tmp_path: Path) -> None:
    save(tmp_path, "int8")
    rewrite(tmp_path, "scale")
    with pytest.raises(CheckpointError, match=r"up\.weight\.scale' is missing"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("length", [0, 5, 200, -1])
def test_truncated_weights_name_the_file(tmp_path: Path, length: int) -> None:
    save(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 99, "version 99"),
        ("version", "1", "version '1'"),
        ("format", "other", '"format": "suite"'),
        ("task", None, "task is missing"),
        ("model", {"vocab_sise": 3}, "did you mean 'model.vocab_size'"),
        ("model", {"vocab_size": "many"}, "config.json"),
        ("model", [], "config.json"),
    ],
)
def test_a_config_that_cannot_be_is_one_line(tmp_path: Path, key: str, value: object, message: str) -> None:
    save(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    settings[key] = value
    if value is None:
        del settings[key]
    if isinstance(value, dict) and "vocab_size" in value:
        settings[key] = CONFIG.to_dict() | value
    del settings["sha256"]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=message) as caught:
        load_checkpoint(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_directory_without_config_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        load_checkpoint(tmp_path)


def test_a_full_disk_leaves_the_old_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        save(tmp_path, "float16")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_weights_of_another_shape_are_never_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="missing"):
        save_checkpoint(tmp_path, CONFIG, {}, None)
    assert not list(tmp_path.iterdir())


def test_atomic_write_replaces_and_leaves_no_temporary(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b.txt"
    write_atomic(file, b"one")
    write_atomic(file, b"two")
    assert file.read_bytes() == b"two"
    assert [path.name for path in file.parent.iterdir()] == ["b.txt"]


def test_all_files_of_a_checkpoint_are_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    """safetensors writes mode 0600: a model installed or trained by one user could not be read by another."""
    save(tmp_path)
    (tmp_path / "plain").touch()
    assert len({file.stat().st_mode for file in tmp_path.iterdir()}) == 1
