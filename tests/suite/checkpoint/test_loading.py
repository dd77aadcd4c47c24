"""A name must stand for one thing, and where it stands for nothing, one line must say what to do."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants, errors
from safetensors.torch import load_file

from suite.checkpoint import Model, convert, gpt2, hub, load, resolve, save_checkpoint
from suite.errors import CheckpointError, ConfigError, SuiteError
from suite.model import ModelConfig, Transformer
from suite.task import embedded
from suite.text.tokenizer import Tokenizer

CONFIG = ModelConfig(vocab_size=257, context=32, d_model=24, n_layer=2, n_head=2)


def write(directory: Path, config: ModelConfig = CONFIG, **options: Any) -> Transformer:
    """A small checkpoint of ours."""
    transformer = Transformer(config)
    save_checkpoint(directory, config, transformer.state_dict(), Tokenizer.bytes(), **options)
    return transformer.eval()


def forget(directory: Path, *keys: str) -> None:
    """Remove digests from a checkpoint's config.json, as a person who changed it on purpose does."""
    file = directory / "config.json"
    settings = {key: value for key, value in json.loads(file.read_text()).items() if key not in keys}
    file.write_text(json.dumps(settings))


def one_line(name: str | Path, **options: Any) -> str:
    with pytest.raises(SuiteError) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with the task "haiku", which has an embedded checkpoint, and "silent", which has none."""
    package = tmp_path / "site" / f"tasks_{tmp_path.name}"  # a name of its own: imported modules outlive a test
    for name in ("haiku", "silent"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    write(package / "haiku" / "checkpoint", task="haiku", extra={"syllables": [5, 7, 5]})
    monkeypatch.syspath_prepend(package.parent)
    points = {name: EntryPoint(name, f"{package.name}.{name}.task:Task", "suite.tasks") for name in ("haiku", "silent")}
    points["gone"] = EntryPoint("gone", "uninstalled_tasks.gone.task:Task", "suite.tasks")
    monkeypatch.setattr(hub, "registered", lambda: points)
    monkeypatch.setattr("suite.task.registry.registered", lambda: points)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return package


# ---- names


def test_an_embedded_checkpoint_loads_by_its_task(tasks: Path) -> None:
    model = load("haiku")
    assert (model.name, model.task, dict(model.extra)) == ("haiku", "haiku", {"syllables": [5, 7, 5]})
    assert model.directory == tasks / "haiku" / "checkpoint"
    assert embedded() == {"haiku": tasks / "haiku" / "checkpoint"}, "a task that is gone hides no other"


def test_a_folder_that_is_no_checkpoint_hides_no_name(tasks: Path) -> None:
    """Beside the data folder "haiku", or inside tasks/, the embedded model must still be found."""
    Path("haiku").mkdir()
    assert resolve("haiku") == tasks / "haiku" / "checkpoint"
    write(Path("haiku"))
    assert resolve("haiku") == Path("haiku")


def test_a_run_stands_for_its_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "run" / "checkpoint")
    assert resolve(tmp_path / "run") == tmp_path / "run" / "checkpoint"


def test_names_that_stand_for_nothing(tasks: Path) -> None:
    """None of these may reach the network, where an answer takes seconds and speaks of something else."""
    Path("notes").mkdir()
    Path("notes/text.txt").touch()
    assert "did you mean 'haiku'?" in one_line("haikou")
    assert "did you mean 'gpt2-medium'?" in one_line("gpt2-medum")
    assert "haiku" in one_line("zzz") and "gpt2-xl" in one_line("zzz")
    assert "train" in one_line("silent")
    assert "notes/model does not exist" in one_line("notes/model")
    for missing in ("./run", "/nowhere/at/all", "a/b/c", "../x", "owner/na me"):
        assert f"{missing} does not exist" in one_line(missing)
    assert "is a file" in one_line("notes/text.txt")
    assert "config.json" in one_line("notes")
    assert "config.json" in one_line(".")


def test_a_revision_of_a_directory_is_an_error(tasks: Path) -> None:
    """To ignore it would load another model than the one that was pinned."""
    assert "revision" in one_line("haiku", revision="v1")


# ---- the Hugging Face hub, without a network


@pytest.fixture
def requests(tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was asked of the hub, which has one GPT-2."""
    transformer = Transformer(CONFIG)
    model = Model(transformer=transformer, tokenizer=Tokenizer.bytes(), task="lm", name="", directory=tmp_path)
    gpt2.export(model, tmp_path / "snapshot")
    asked: list[dict[str, Any]] = []

    def snapshot_download(identifier: str, **options: Any) -> str:
        asked.append({"identifier": identifier} | options)
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("gpt2", "openai-community/gpt2"),
        ("gpt2-xl", "openai-community/gpt2-xl"),
        ("an-owner/a.model", "an-owner/a.model"),
    ],
)
def test_a_hub_id_is_fetched(name: str, identifier: str, requests: list[dict[str, Any]]) -> None:
    model = load(name, revision="abc123")
    assert model.config == CONFIG and model.name == name
    [request] = requests
    assert request["identifier"] == identifier and request["revision"] == "abc123"


def test_only_needed_files_are_fetched(requests: list[dict[str, Any]]) -> None:
    """The repository of gpt2-xl is 32 GB, of which 6 are the weights in the format that is read."""
    load("gpt2-xl")
    files = ["config.json", "model.safetensors", "model-00001-of-00002.safetensors", "tokenizer.json", "README.md"]
    others = ["pytorch_model.bin", "tf_model.h5", "onnx/decoder_model.onnx", "rust_model.ot", "onnx/config.json"]
    patterns = requests[0]["allow_patterns"]
    kept = huggingface_hub.utils.filter_repo_objects([*files, *others], allow_patterns=patterns)
    assert list(kept) == files


RESPONSE: Any = SimpleNamespace(headers={}, request=None)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.GatedRepoError("403\nsorry", response=RESPONSE), ["gated", "https://huggingface.co/an/id", "login"]),
        (errors.RepositoryNotFoundError("401\nno", response=RESPONSE), ["has no an/id", "login"]),
        (errors.RevisionNotFoundError("404\nno", response=RESPONSE), ["no revision 'v9'"]),
        (errors.LocalEntryNotFoundError("cannot\nreach"), ["an/id at v9", "cannot be reached", "directory"]),
        (errors.HfHubHTTPError("503 Server Error\nRequest ID: 1", response=RESPONSE), ["an/id", "503 Server Error"]),
        (OSError(28, "No space left on device"), ["No space left"]),
        (RuntimeError(), ["RuntimeError"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_hub_refuses_is_one_line(
    error: Exception, words: list[str], tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot_download(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    message = one_line("an/id", revision="v9")
    assert all(word in message for word in words), message


def test_offline_by_choice(tmp_path: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself, told to stay offline and with an empty cache."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    message = one_line("gpt2")
    assert "openai-community/gpt2" in message and "HF_HUB_OFFLINE" in message


# ---- models


@pytest.mark.parametrize("settings", [{}, {"tie_embeddings": False, "position": "rotary", "activation": "swiglu"}])
def test_our_checkpoint_loads_as_it_was_saved(settings: dict[str, Any], tmp_path: Path) -> None:
    saved = write(tmp_path, replace(CONFIG, dropout=0.5, **settings))
    model = load(tmp_path)
    assert not model.transformer.training, "dropout would make every answer random"
    assert model.config == saved.config and model.task == "lm"
    assert (model.transformer.head.weight is model.transformer.tokens.weight) == saved.config.tie_embeddings
    tokens = torch.arange(20)[None]
    assert torch.equal(model.transformer(tokens), saved(tokens))


def test_type_of_weights(tmp_path: Path) -> None:
    write(tmp_path, storage="float16")
    assert {p.dtype for p in load(tmp_path).transformer.parameters()} == {torch.float32}
    assert {p.dtype for p in load(tmp_path, dtype=torch.bfloat16).transformer.parameters()} == {torch.bfloat16}
    with pytest.raises(ConfigError, match="not both"):
        load(tmp_path, dtype=torch.bfloat16, quantize="int8")


@pytest.mark.parametrize(("weights", "error"), [("float32", 1e-5), ("float16", 1e-3), ("int8", 2e-2)])
def test_quantized_for_inference(weights: str, error: float, tmp_path: Path) -> None:
    """Weights assigned from a file, tied and memory-mapped, must survive being rounded and laid out."""
    saved = write(tmp_path)
    tokens = torch.arange(20)[None]
    with torch.no_grad():
        found, expected = load(tmp_path, quantize=weights).transformer(tokens), saved(tokens)
    torch.testing.assert_close(found, expected, rtol=0, atol=error)
    with pytest.raises(ConfigError, match="int4"):
        load(tmp_path, quantize="int4")


@pytest.mark.parametrize("device", ["cuda:77", "tpu", "auto", "meta"])
def test_a_device_that_is_not_there(device: str, tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(ConfigError, match=f"'{device}'"):
        load(tmp_path, device=device)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    """Its ids would be out of range in the middle of a run, and crash a GPU."""
    write(tmp_path)
    Tokenizer.bytes(("<eos>", "<more>")).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is not the file that was written"):
        load(tmp_path)
    forget(tmp_path, "sha256", "tokenizer_sha256")
    with pytest.raises(CheckpointError, match=r"258 ids.* 257"):
        load(tmp_path)


def test_convert_there_and_back(tmp_path: Path) -> None:
    saved = write(tmp_path / "ours", task="lm", card="# A card\n\nlicence: CC BY-SA 3.0\n")
    convert(tmp_path / "ours", tmp_path / "theirs")
    convert(tmp_path / "theirs", tmp_path / "again", to="suite", storage="float16")
    tokens = torch.arange(20)[None]
    torch.testing.assert_close(load(tmp_path / "theirs").transformer(tokens), saved(tokens), rtol=0, atol=0)
    torch.testing.assert_close(load(tmp_path / "again").transformer(tokens), saved(tokens), rtol=0, atol=2e-3)
    weights = load_file(tmp_path / "again" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert "CC BY-SA" in (tmp_path / "again" / "README.md").read_text(), "the licence goes with the weights"


def test_convert_refuses_what_cannot_be(tmp_path: Path) -> None:
    write(tmp_path / "ours")
    with pytest.raises(ConfigError, match="own directory"):
        convert(tmp_path / "ours", tmp_path / "ours" / ".." / "ours", to="suite")
    with pytest.raises(ConfigError, match="int8"):
        convert(tmp_path / "ours", tmp_path / "out", storage="int8")


@pytest.mark.parametrize("to", ["transformers", "suite"])
def test_convert_overwrites_no_model(to: Any, tmp_path: Path) -> None:
    """Another checkpoint, or that of a run, was gone without a word."""
    write(tmp_path / "ours")
    write(tmp_path / "other", task="other")
    write(tmp_path / "run" / "checkpoint")
    before = (tmp_path / "other" / "config.json").read_bytes()
    for out in ("other", "run"):
        with pytest.raises(ConfigError, match=f"{out} already contains a model"):
            convert(tmp_path / "ours", tmp_path / out, to=to)
    assert (tmp_path / "other" / "config.json").read_bytes() == before


def test_loading_imports_no_more_than_it_needs(tmp_path: Path) -> None:
    """transformers takes 10 seconds, the compiler (which normal_ on the meta device imports) 3: a command's start."""
    write(tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "theirs")
    heavy = ["transformers", "datasets", "huggingface_hub", "tokenizers", "torch._dynamo"]
    program = (
        "import sys; from suite.checkpoint import load; load(sys.argv[1]); load(sys.argv[2]); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "ours"), str(tmp_path / "theirs")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
