"""next, models, convert, train and bench say what the API says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from suite import load, pipeline
from suite.bench import Speed
from suite.checkpoint import save_checkpoint
from suite.cli import bench
from suite.cli.main import main
from suite.model import ModelConfig, Transformer
from suite.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint with a byte vocabulary and weights large enough to prefer some tokens."""
    directory = tmp_path_factory.mktemp("tiny")
    tokenizer = Tokenizer.bytes()
    config = ModelConfig(vocab_size=tokenizer.vocab_size, context=16, d_model=32, n_layer=2, n_head=2)
    torch.manual_seed(0)
    model = Transformer(config)
    with torch.no_grad():
        model.tokens.weight.mul_(5)
    card = "---\nlicense: CC BY-SA 3.0\n---\n# Tiny\n"
    save_checkpoint(directory, config, model.state_dict(), tokenizer, storage="int8", card=card)
    return str(directory)


@pytest.fixture(autouse=True)
def nothing_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)


def result(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must succeed writes to stdout."""
    assert main(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(result(capsys, *words, "--json"))


# ---- next


def test_next_gives_true_probabilities(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A softmax over the k shown tokens alone would make every model look sure of itself."""
    model = load(tiny)
    assert model.tokenizer is not None
    with torch.no_grad():
        logits = model.transformer(torch.tensor([model.tokenizer.encode("abc")]))[0, -1]
    truth = logits.double().softmax(-1)
    found = as_json(capsys, "next", "abc", "-k", "5", "--model", tiny)
    assert [entry["id"] for entry in found["next"]] == truth.topk(5).indices.tolist()
    for entry in found["next"]:
        assert entry["probability"] == pytest.approx(truth[entry["id"]].item(), rel=1e-4)
    assert found["rest"] == pytest.approx(1 - truth.topk(5).values.sum().item(), rel=1e-4)
    assert found["others"] == 252


def test_next_draws_a_line_for_each_token_and_one_for_the_rest(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = result(capsys, "next", "abc", "-k", "3", "--model", tiny).splitlines()
    assert len(lines) == 4 and lines[-1].startswith("254 others")
    assert len({line.index("%") for line in lines}) == 1, "the percentages do not line up"


def test_next_of_all_tokens_leaves_nothing_over(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "next", "-k", "100000", "--model", tiny)
    assert (len(found["next"]), found["others"]) == (257, 0)
    assert found["rest"] == pytest.approx(0, abs=1e-9)


def test_next_tells_what_the_model_does_not_see(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", "a" * 40, "--model", tiny]) == 0
    assert "40 tokens" in (err := capsys.readouterr().err) and "last 16" in err


# ---- models


def test_models_lists_what_is_embedded(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("suite.cli.models.embedded", lambda: {"lm": Path(tiny)})
    [found] = as_json(capsys, "models")
    assert found["parameters"] == sum(p.numel() for p in load(tiny).transformer.parameters())
    assert (found["name"], found["context"], found["storage"]) == ("lm", 16, "int8")
    assert found["licence"] == "CC BY-SA 3.0"
    assert found["bytes"] == sum(file.stat().st_size for file in Path(tiny).iterdir())
    header, row = result(capsys, "models").splitlines()
    assert header.split()[0] == "name" and "CC BY-SA 3.0" in row


def test_models_show_needs_no_weights_for_gpt2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("suite.checkpoint.hub._fetch", lambda *_: pytest.fail("it went to the network"))
    found = as_json(capsys, "models", "show", "gpt2")
    assert found["parameters"] == 124439808
    assert found["cache_bytes_per_token"] == {"float32": 73728, "float16": 36864}
    assert json.loads(result(capsys, "models", "--json", "show", "gpt2")) == found, "--json before the command counts"
    out = result(capsys, "models", "show", "gpt2-xl")
    assert "1,557,611,200" in out and "all 48 blocks" in out and "shared with the embeddings" in out


def test_models_show_reads_a_directory(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "models", "show", tiny)
    assert found["bytes_on_disk"] == (Path(tiny) / "model.safetensors").stat().st_size
    assert found["config"]["context"] == 16
    (tmp_path / "config.json").write_text('{"format": "suite", "model": {"contxt": 3}}')
    assert main(["models", "show", str(tmp_path)]) == 2
    assert "did you mean 'model.context'?" in capsys.readouterr().err


# ---- convert


def test_convert_goes_to_transformers_and_back(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    result(capsys, "convert", tiny, theirs)
    assert json.loads((tmp_path / "theirs" / "config.json").read_text())["model_type"] == "gpt2"
    out = result(capsys, "convert", theirs, ours, "--to", "suite", "--storage", "float32")
    assert out.startswith(ours) and "float32" in out
    tokens = torch.arange(10)[None]
    with torch.no_grad():
        assert torch.equal(load(tiny).transformer(tokens), load(ours).transformer(tokens))


# ---- train


SMALL = [
    *("--set", "model.context=16", "--set", "model.d_model=16", "--set", "model.n_head=1", "--set", "model.n_layer=1"),
    *("--set", "tokenizer.kind=bytes", "--set", "batch.size=4", "--set", "run.valid_every=5"),
]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / 'a "text".txt'  # a name that must be quoted on its way into the recipe
    path.write_text("the cat sat on the mat.\n" * 60)
    return str(path)


def test_train_makes_a_model_that_runs(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "lm", "--data", text, *SMALL, "--set", "run.steps=10", "--out", str(tmp_path / "run")]
    found = as_json(capsys, *words)
    assert (found["step"], found["finished"]) == (10, True)
    assert found["best_loss"] > 0
    out = result(capsys, "run", "lm", "the", "--model", str(tmp_path / "run"), "-n", "3", "-t", "0")
    assert out == "the" + pipeline("lm", str(tmp_path / "run"), temperature=0)("the", max_new_tokens=3).text + "\n"
    assert "step 10, finished" in result(capsys, *words), "the same command again finds the run finished"


def test_train_stops_after_max_minutes_and_goes_on(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "lm", "--data", text, *SMALL, "--set", "run.steps=6", "--out", str(tmp_path / "run")]
    assert as_json(capsys, *words, "--max-minutes", "0.00001")["finished"] is False
    assert as_json(capsys, *words)["finished"] is True


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["lm"], "there is no training data"),
        (["lm", "--set", "run.stesp=3"], "'run.steps'"),
        (["lm", "--set", "steps"], "--set 'steps'"),
        (["nowhere.toml"], "cannot read recipe nowhere.toml"),
        (["lm", "--data", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_what_train_cannot_do_is_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and line in err and err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_saves_and_says_how_to_go_on(text: str, tmp_path: Path) -> None:
    """The traceback of a KeyboardInterrupt would bury the one thing to know: that nothing is lost."""
    words = [*SMALL, "--set", "run.steps=1000000", "--set", "run.log_every=1", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "suite.cli.main", "train", "lm", "--data", text, *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while not process.stderr.readline().startswith("step"):
        assert process.poll() is None
    process.send_signal(2)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "give the same command again to resume" in err and "Traceback" not in err


# ---- bench


def test_bench_leaves_out_columns_without_figures(capsys: pytest.CaptureFixture[str]) -> None:
    bench.report([Speed(system="suite float32", batch=16, tokens_per_second=1234.56)], False, per="tokens/s")
    assert capsys.readouterr().out.splitlines() == [
        "system         batch  tokens/s",
        "suite float32     16   1,234.6",
    ]


TRAIN = ["bench", "train", "--layers", "1", "--width", "16", "--heads", "1", "--vocabulary", "64", "--batch", "1"]
TRAIN += ["--length", "8", "--repeats", "1", "--threads", "1", "--no-baseline"]


@pytest.fixture
def threads() -> Iterator[None]:
    """As many of them as before, after a benchmark has chosen its own."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("instructions", [False, True])
def test_bench_train_leaves_out_emulated_bfloat16(
    instructions: bool, threads: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It did not end in 17 minutes on a CPU without bfloat16, and said nothing meanwhile."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: instructions)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert main([*TRAIN, "--json"]) == 0
    out, err = capsys.readouterr()
    systems = ["suite float32", "suite bfloat16"] if instructions else ["suite float32"]
    assert [speed["system"] for speed in json.loads(out)] == systems
    assert ("bfloat16 is left out" in err) is not instructions
    lines = [line for line in err.splitlines() if "tokens/s in a first step of" in line]
    assert [line.partition(":")[0] for line in lines] == systems


def test_bench_train_measures_what_is_asked_for(
    threads: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert main([*TRAIN, "--precision", "bfloat16", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [speed["system"] for speed in json.loads(out)] == ["suite bfloat16"]
    assert "no instructions for bfloat16" in err
