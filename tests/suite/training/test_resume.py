"""A run that is killed and resumed must end in the same bits as one that was not; several ranks, in the same step."""

import dataclasses
import json
import multiprocessing
import runpy
import signal
import socket
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
import torch

from suite.checkpoint import read_tensors
from suite.training.recipe import AveragingConfig, BatchConfig, OptimizerConfig, Recipe, RunConfig

PROGRAM = Path(__file__).with_name("tiny_run.py")
MODEL = {"context": 16, "d_model": 16, "n_layer": 1, "n_head": 2, "dropout": 0.1}
RECIPE = Recipe(
    task="tiny",
    seed=3,
    model=MODEL,
    batch=BatchConfig(tokens=60, micro_tokens=40),
    optimizer=OptimizerConfig(kind="muon"),
    averaging=AveragingConfig(kind="ema"),
    run=RunConfig(steps=12, save_every=3, valid_every=4, log_every=5),
)


# processes that have imported torch already (and what its optimizers import), so that starting one takes no seconds
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch._dynamo", "suite.training"])


def start(out: Path, recipe: Recipe, kill: tuple[str, int] = ("", 0), **environment: str) -> ForkServerProcess:
    arguments = (out, recipe.to_dict(), kill, environment)
    process = CONTEXT.Process(target=runpy.run_path, args=(str(PROGRAM), {"ARGUMENTS": arguments}))
    process.start()
    return process


def end(process: ForkServerProcess) -> int | None:
    process.join(120)
    return process.exitcode


@pytest.mark.parametrize(
    "averaging", [AveragingConfig(kind="ema"), AveragingConfig(kind="last", count=2, every=2)], ids=["ema", "last"]
)
def test_killed_anywhere_and_resumed_is_bit_identical(tmp_path: Path, averaging: AveragingConfig) -> None:
    """Anything left out of the state, or a state file that is half old and half new, would change the last bits."""
    recipe = dataclasses.replace(RECIPE, averaging=averaging)
    assert end(start(tmp_path / "whole", recipe)) == 0
    # before the first state; with a new file written but not renamed, renamed but not synced; and in mid-step
    for kill in (("pass", 3), ("fsync", 5), ("fsync", 10), ("pass", 7)):
        assert end(start(tmp_path / "cut", recipe, kill)) == -signal.SIGKILL
    assert end(start(tmp_path / "cut", recipe)) == 0
    for file in ("last/state.safetensors", "best/weights.safetensors"):
        cut, once = read_tensors(tmp_path / "cut" / file), read_tensors(tmp_path / "whole" / file)
        assert cut.keys() == once.keys() and all(torch.equal(cut[name], once[name]) for name in cut)
    assert not list(tmp_path.glob("cut/**/.*.tmp"))
    steps = [json.loads(line)["step"] for line in (tmp_path / "cut/metrics.jsonl").read_text().splitlines()]
    assert steps == [4, 5, 8, 10, 12, 12]  # no row twice, none missing


def test_two_ranks_take_the_same_step_as_one(tmp_path: Path) -> None:
    """Dividing by each rank's own count of target tokens would weigh ranks with little text too much."""
    model = {**MODEL, "dropout": 0.0}
    batch = BatchConfig(size=7)  # odd, so that the ranks have unequal shares
    run = dataclasses.replace(RECIPE.run, steps=4, precision="float32")
    recipe = dataclasses.replace(
        RECIPE, model=model, batch=batch, run=run, optimizer=OptimizerConfig(eps=1e-3), averaging=AveragingConfig()
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    runs = [start(tmp_path / "two", recipe, RANK=rank, LOCAL_RANK=rank, **shared) for rank in "01"]
    runs.append(start(tmp_path / "one", recipe))
    assert [end(run) for run in runs] == [0, 0, 0]
    two, once = (read_tensors(tmp_path / out / "last/state.safetensors") for out in ("two", "one"))
    for name in once:
        torch.testing.assert_close(two[name], once[name], rtol=1e-4, atol=1e-6)
    rows = [[json.loads(line) for line in (tmp_path / out / "metrics.jsonl").open()] for out in ("two", "one")]
    for left, right in zip(*rows, strict=True):
        assert left.get("tokens") == right.get("tokens")
        assert left.get("loss", left.get("valid_loss")) == pytest.approx(right.get("loss", right.get("valid_loss")))
