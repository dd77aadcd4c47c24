"""`suite bench attention`: what is measured, and what is left out."""

import json
from collections.abc import Callable
from concurrent.futures import Future, process
from typing import Any

import pytest
import torch

from suite import bench
from suite.cli.main import main


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
