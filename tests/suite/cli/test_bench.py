"""`suite bench`: what is measured, and what is left out or cut short."""

import json
from collections.abc import Callable
from concurrent.futures import Future, process
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch

from suite import bench
from suite.cli.main import main
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

    monkeypatch.setattr(bench, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(bench, "cost", cost)
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

    monkeypatch.setattr(bench, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(bench, "cost", cost)
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

    monkeypatch.setattr("suite.bench.time.perf_counter", lambda: now[0])
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
