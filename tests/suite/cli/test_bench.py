"""`suite bench`: what is measured, and what is left out or cut short."""

import dataclasses
import json
from collections.abc import Callable
from concurrent.futures import Future, process
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from suite import bench
from suite.bench import decoding, long_texts
from suite.cli.main import main
from suite.model import ModelConfig, Transformer
from suite.training.optimizer import Muon


class Here:
    """In the place of a pool of processes, which take seconds to start."""

    def __init__(self, *rest: Any) -> None:
        pass

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *rest: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments))
        except process.BrokenProcessPool as error:
            future.set_exception(error)
        return future


def test_every_name_is_there_and_no_module_hides_it() -> None:
    """Importing `suite.bench.decode` would have put that module in the place of the function `decode`."""
    for name in bench.__all__:
        assert not isinstance(getattr(bench, name), ModuleType)
    with pytest.raises(AttributeError, match="no attribute 'speed'"):
        _ = bench.speed


def test_decoding_counts_the_tokens_that_equal_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The baseline here is the model's own greedy choice, but for the first of its tokens."""
    tiny = ModelConfig(vocab_size=32, context=16, d_model=16, n_layer=1, n_head=2, position="learned")
    monkeypatch.setattr(ModelConfig, "gpt2", lambda size: tiny)
    monkeypatch.setattr(decoding, "memory_bandwidth", lambda: 1e9)

    def greedy(model: Transformer) -> Callable[[torch.Tensor, int], torch.Tensor]:
        def run(ids: torch.Tensor, new: int) -> torch.Tensor:
            start = ids.shape[1]
            with torch.no_grad():
                for _ in range(new):
                    ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), 1)
            ids[:, start] = 99
            return ids[:, start:]

        return run

    monkeypatch.setattr(decoding, "as_transformers", greedy)
    options = bench.DecodeOptions(prompt=3, new=5, batches=(1, 2), weights=("float32",), repeats=1, threads=1)
    threads = torch.get_num_threads()
    try:
        speeds = bench.decode(options)
        alone = bench.decode(dataclasses.replace(options, baseline=False, weights=("float32", "int8")))
    finally:
        torch.set_num_threads(threads)
    assert [(speed.system, speed.batch, speed.agrees) for speed in speeds] == [
        (bench.BASELINE, 1, None),
        ("suite float32", 1, 4),
        (bench.BASELINE, 2, None),
        ("suite float32", 2, 8),
    ]
    assert speeds[0].ratio == 1.0 and all(speed.bandwidth_share for speed in speeds)
    assert [(speed.system, speed.ratio, speed.agrees) for speed in alone[:2]] == [
        ("suite float32", None, None),
        ("suite int8", None, None),
    ]


@pytest.mark.parametrize("work", ["train", "prefill"])
@pytest.mark.parametrize("layers", bench.LAYERS)
def test_a_case_runs(layers: str, work: str) -> None:
    threads = torch.get_num_threads()
    try:
        cost = bench.cost(layers, work, 32, 1)
    finally:
        torch.set_num_threads(threads)
    assert (cost.layers, cost.work, cost.length) == (layers, work, 32)
    assert cost.tokens_per_second > 0 and cost.peak_bytes >= 0


def test_what_would_take_minutes_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Full attention takes with the square: the shorter text foretells the longer."""

    def cost(layers: str, work: str, length: int, threads: int) -> bench.Cost:
        speed = 100.0 if (layers, work) == ("full", "train") else 1000.0
        return bench.Cost(layers=layers, work=work, length=length, tokens_per_second=speed, peak_bytes=2**20)

    monkeypatch.setattr(long_texts, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(long_texts, "cost", cost)
    command = ["bench", "attention", "--lengths", "2000", "--lengths", "1000", "--limit", "30"]
    assert main([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    assert [case["length"] for case in json.loads(out)] == [1000, *[1000, 2000] * 5]
    assert err == "train, full, 2,000 tokens: skipped, it might take 40 s\n"
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "work     layers             tokens  tokens/s   memory",
        "train    full                1,000       100  1.0 MiB",
    ]


def test_a_case_that_runs_out_of_memory_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cost(*arguments: Any) -> bench.Cost:
        raise process.BrokenProcessPool

    monkeypatch.setattr(long_texts, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(long_texts, "cost", cost)
    assert main(["bench", "attention", "--lengths", "1000"]) == 2
    assert "train, full, 1,000 tokens: the process died" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("limit", "turns"),
    [(1000.0, 6), (100.0, 6), (35.0, 3), (20.0, 2), (5.0, 1)],
)
def test_slow_systems_are_repeated_less_often(limit: float, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of minutes, six times each, made a benchmark that nobody waits for."""
    now = [0.0]
    calls: list[str] = []
    told: list[tuple[str, float]] = []

    def system(name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            calls.append(name)
            now[0] += seconds - 0.1 * len(calls)

        return run

    monkeypatch.setattr("suite.bench.timing.time.perf_counter", lambda: now[0])
    systems = {"a": system("a", 4.0), "b": system("b", 6.0)}
    best = bench.best_times(systems, 5, limit, lambda *found: told.append(found))
    assert calls == ["a", "b"] * turns
    assert told == [("a", pytest.approx(3.9)), ("b", pytest.approx(5.8))]
    assert best["a"] == pytest.approx(4.0 - 0.1 * (2 * turns - 1)) and best["b"] == pytest.approx(6.0 - 0.2 * turns)


def test_recipes_are_measured_with_either_type_of_muon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe is the one that users start from, but for its size here; random music stands in for a sample."""
    small = ["base=''", "model.context=32", "model.d_model=16", "model.n_layer=1", "model.n_head=2"]
    monkeypatch.setitem(bench.SAMPLES, "music", (*bench.SAMPLES["music"], *small))
    used: list[torch.dtype] = []
    plain = Muon.step
    monkeypatch.setattr(Muon, "step", lambda self: (used.append(self.dtype), plain(self)))
    threads = torch.get_num_threads()
    words = ["music", "--steps", "2", "--threads", "1", "--muon", "float32", "--muon", "bfloat16"]
    try:
        assert main(["bench", "recipes", *words, "--precision", "float32", "--json"]) == 0
    finally:
        torch.set_num_threads(threads)
    found = json.loads(capsys.readouterr().out)
    assert [(speed["recipe"], speed["precision"], speed["muon"], speed["steps"]) for speed in found] == [
        ("music/small.toml", "float32", "float32", 2),
        ("music/small.toml", "float32", "bfloat16", 2),
    ]
    assert all(min(speed["tokens_per_second"], speed["tokens_per_cpu_second"], speed["seconds"]) > 0 for speed in found)
    assert used == [torch.float32, *[torch.float32, torch.bfloat16] * 2]
    assert main(["bench", "recipes", "musik"]) == 2
    assert "no sample data for task 'musik'; did you mean 'music'?" in capsys.readouterr().err


@pytest.mark.parametrize("task", bench.SAMPLES)
def test_the_samples_that_recipes_are_measured_on_are_there(task: str) -> None:
    file, *_ = bench.SAMPLES[task]
    assert not file or (Path(str(files("suite.data"))) / "samples" / file).is_file()
