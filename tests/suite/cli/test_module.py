"""`python -m suite` is `suite`, also in the processes that `torchrun` starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TINY = ["model.context=32", "model.d_model=16", "model.n_head=2", "model.n_layer=1", "tokenizer.kind=bytes"]
TINY += ["batch.size=4", "run.steps=12", "run.valid_every=6", "run.save_every=6", "run.log_every=6"]


def environment() -> dict[str, str]:
    """That of this process, where a test of another file may have left what `torchrun` sets."""
    return {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}


def test_the_module_is_the_command() -> None:
    """`torchrun -m suite` had nothing to run."""
    done = subprocess.run([sys.executable, "-m", "suite", "--help"], capture_output=True, text=True, env=environment())
    assert done.returncode == 0 and done.stdout.startswith("Usage: suite ")


@pytest.mark.skipif(sys.platform == "win32", reason="gloo")
def test_two_processes_train_one_model_and_one_of_them_speaks(tmp_path: Path) -> None:
    text = tmp_path / "cat.txt"
    text.write_text("the cat sat on the mat.\n" * 100)
    words = [word for line in TINY for word in ("--set", line)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "suite"]
    done = subprocess.run(
        [*launcher, "train", "lm", "--data", str(text), "--out", str(tmp_path / "run"), "--device", "cpu", *words],
        capture_output=True,
        text=True,
        env=environment() | {"OMP_NUM_THREADS": "1", "SUITE_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step 12, finished") == 1
    for line in ("training text:", "model: ", "about ", "step 12/12  loss", "step 12/12  valid loss"):
        assert sum(told.startswith(line) for told in done.stderr.splitlines()) == 1, (line, done.stderr)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    assert [row["tokens"] for row in rows if "tokens" in row] == [6 * 4 * 32, 12 * 4 * 32]  # of both, and not twice
    assert "unfinished" not in json.loads((tmp_path / "run/checkpoint/config.json").read_text())
