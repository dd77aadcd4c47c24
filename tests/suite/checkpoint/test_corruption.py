"""A checkpoint with a single fault either gives the same logits or one line that says what is wrong, never else."""

import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from suite.checkpoint import Base, Unfinished, load, save_checkpoint
from suite.checkpoint.settings import write_settings
from suite.errors import SuiteError
from suite.model import ModelConfig, Transformer
from suite.task import embedded
from suite.text.tokenizer import Tokenizer

CONFIG = ModelConfig(vocab_size=64, context=16, d_model=16, n_layer=1, n_head=2, position="rotary", windows=(8,))
NASTY: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 8, 10**9, 10**30, 10**400, 8192.0, 0.5, -0.5, 1e-300, 1e300),
    *("", "8", "nan", "\ud800", "a" * 5000, [], [[]], [1], ["a", "a"], {}, {"a": {"b": 1}}),
]
GONE = object()
STRIDE = 6  # of NASTY, a place has one value in so many, the next place others; 1 tries all, and takes a minute
RAW = ["NaN", "Infinity", "-Infinity", "1e400", "[" * 100_000, "1" * 5000, '"', "{", ""]  # text in place of a value


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint whose config.json has every field but `base`."""
    folder = tmp_path_factory.mktemp("whole")
    torch.manual_seed(0)
    save_checkpoint(
        folder,
        CONFIG,
        Transformer(CONFIG).state_dict(),
        Tokenizer.characters("the fox"),
        storage="int8",
        extra={"note": [1, {"x": 0.5}]},
        tensors={"codes": torch.tensor([1, 2], dtype=torch.int32)},
        unfinished=Unfinished(step=1, steps=2),
    )
    return folder


@pytest.fixture
def broken(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "broken")
    return tmp_path / "broken"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON document, a few of a long list or object."""
    if path:
        yield path
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        for key in keys[: 30 if isinstance(value, dict) else 2]:
            yield from places(value[key], (*path, key))


def faults(document: Any) -> Iterator[tuple[Any, tuple[Any, ...], Any]]:
    """The document with a single value changed, the path of that value, and what it is now."""
    for number, path in enumerate(places(document)):
        for value in (GONE, *NASTY[number % STRIDE :: STRIDE]):
            yield changed(document, path, value), path, value


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at a path, or without it."""
    found = copy.deepcopy(document)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    if value is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return found


def logits(folder: Path) -> Tensor | str:
    """The logits of a text, or the one line that says why there are none."""
    try:
        model = load(folder)
        assert model.tokenizer is not None
        with torch.no_grad():
            return model.transformer(torch.tensor([model.tokenizer.encode("the fox")]))
    except SuiteError as error:
        assert "\n" not in str(error) and len(str(error)) < 700
        return str(error)


@pytest.mark.filterwarnings("ignore::suite.errors.UnfinishedWarning")
def test_a_changed_config_is_refused_or_changes_nothing(whole: Path, broken: Path) -> None:
    """Half the heads, or another base of rotation, gave nonsense with exit code 0."""
    right, file = logits(whole), broken / "config.json"
    settings = json.loads(file.read_text())
    for wrong, *fault in faults(settings):
        file.write_text(json.dumps(wrong))
        found = logits(broken)
        assert isinstance(found, str) or torch.equal(found, right), fault  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::suite.errors.UnfinishedWarning")
def test_an_accepted_change_of_config_is_loaded_or_refused(broken: Path) -> None:
    """With the digest of config.json removed or right, its fields are checked one by one: no traceback, no hang."""
    file = broken / "config.json"
    settings = {key: value for key, value in json.loads(file.read_text()).items() if key != "sha256"}
    for wrong, *fault in faults(settings):
        file.write_text(json.dumps(wrong))
        found = logits(broken)
        assert isinstance(found, str) or found.isfinite().all(), fault


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: raw[:9])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_what_is_no_json_is_named(name: str, raw: str, broken: Path) -> None:
    file = broken / name
    settings = json.loads(file.read_text())
    settings["version"] = "HERE"
    file.write_text(json.dumps(settings).replace('"HERE"', raw))
    assert name in str(logits(broken))


@pytest.mark.filterwarnings("ignore::suite.errors.UnfinishedWarning")
@pytest.mark.parametrize("signed", [True, False])
def test_a_changed_tokenizer_is_refused_or_changes_nothing(signed: bool, whole: Path, broken: Path) -> None:
    right, file = logits(whole), broken / "tokenizer.json"
    if not signed:
        settings = json.loads((broken / "config.json").read_text())
        del settings["tokenizer_sha256"]
        write_settings(broken / "config.json", settings)
    document = json.loads(file.read_text())
    for wrong, *fault in faults(document):
        file.write_text(json.dumps(wrong))
        found = logits(broken)
        assert isinstance(found, str) or not signed or torch.equal(found, right), fault  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::suite.errors.UnfinishedWarning")
def test_every_changed_byte_of_the_weights_is_found(broken: Path) -> None:
    """Also one that makes I8 of a header U8, or that turns a weight."""
    file = broken / "model.safetensors"
    content = file.read_bytes()
    rng = random.Random(0)
    for place in [*range(0, 300, 3), *(rng.randrange(len(content)) for _ in range(60))]:
        wrong = bytearray(content)
        wrong[place] ^= 1 << rng.randrange(8)
        file.write_bytes(wrong)
        assert "model.safetensors" in str(logits(broken)), place


def unsigned(folder: Path, **changes: Any) -> None:
    """Change a config.json as a person does who accepts any files."""
    file = folder / "config.json"
    settings = {key: value for key, value in json.loads(file.read_text()).items() if "sha256" not in key}
    file.write_text(json.dumps(settings | changes))


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("tokens.weight", torch.zeros(64, 16, dtype=torch.int8), "zero everywhere"),
        ("tokens.weight", torch.ones(64, 16, dtype=torch.uint8), "storage 'int8'"),
        ("tokens.weight", torch.ones(64, 16, dtype=torch.bool), "storage 'int8'"),
        ("tokens.weight.scale", torch.full((64,), torch.nan), "not numbers"),
        ("norm.weight", torch.full((16,), torch.inf), "not numbers"),
        ("output.weight", torch.tensor(1.0), "output.weight"),
        ("task.codes", torch.tensor([torch.nan]), "not numbers"),
    ],
)
def test_weights_that_cannot_be_are_refused_without_a_digest(
    name: str, tensor: Tensor, words: str, broken: Path
) -> None:
    unsigned(broken)
    file = broken / "model.safetensors"
    save_file(load_file(file) | {name: tensor}, file)
    message = str(logits(broken))
    assert words in message and "model.safetensors" in message


@pytest.mark.filterwarnings("ignore::suite.errors.UnfinishedWarning")
def test_a_checkpoint_without_digests_loads_as_before(whole: Path, broken: Path) -> None:
    unsigned(broken)
    assert torch.equal(logits(broken), logits(whole))  # type: ignore[arg-type]


def test_a_change_on_purpose_is_accepted_by_removing_a_line(broken: Path) -> None:
    file = broken / "config.json"
    text = file.read_text().replace('"rope_theta": 10000.0', '"rope_theta": 500.0')
    file.write_text(text)
    assert 'remove its line "sha256" to accept' in str(logits(broken))
    settings = json.loads(text)
    del settings["sha256"]
    file.write_text(json.dumps(settings))
    with pytest.warns(UserWarning, match="unfinished"):
        assert load(broken).config.rope_theta == 500.0


@pytest.mark.parametrize("base", ["x", 3, [], {"name": "a"}, {"name": 1, "fingerprint": "0" * 64}])
def test_a_base_that_is_none(base: Any, broken: Path) -> None:
    unsigned(broken, base=base)
    assert "config.json" in str(logits(broken))


def test_a_base_that_is_the_checkpoint_itself(broken: Path) -> None:
    unsigned(broken, base=vars(Base(name=str(broken), fingerprint="0" * 64)))
    assert "leads back to the checkpoint itself" in str(logits(broken))


@pytest.mark.filterwarnings("ignore::suite.errors.UnfinishedWarning")
def test_a_file_cut_short_while_in_use_changes_nothing(broken: Path) -> None:
    """Memory-mapped weights would be other weights then, or a bus error."""
    model = load(broken)
    tokens = torch.arange(8)[None]
    before = model.transformer(tokens)
    with (broken / "model.safetensors").open("r+b") as file:
        file.truncate(0)
    shutil.rmtree(broken)
    assert torch.equal(model.transformer(tokens), before)


@pytest.mark.parametrize("name", ["lm", "classify", "music", "summarize", "translate"])
def test_the_embedded_checkpoints_have_digests(name: str) -> None:
    settings = json.loads((embedded()[name] / "config.json").read_text())
    assert "sha256" in settings and "weights_sha256" in settings
    assert "tokenizer_sha256" in settings or not (embedded()[name] / "tokenizer.json").exists()
