"""What stands around the training loop."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suite.errors import ConfigError, DataError
from suite.training.fit import fit, kept
from suite.training.recipe import BatchConfig, Recipe, RunConfig


def test_figures_are_made_once_for_a_recipe(tmp_path: Path) -> None:
    """A rerun with other settings printed the figures of the old ones."""
    recipe = Recipe(task="lm", run=RunConfig(steps=1), batch=BatchConfig(size=1))
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"loss": len(made)}

    file = tmp_path / "out" / "one.json"
    assert kept(file, recipe, make) == kept(file, recipe, make) == {"loss": 1}
    other = Recipe(task="lm", seed=2, run=RunConfig(steps=1), batch=BatchConfig(size=1))
    with pytest.raises(ConfigError, match="figures of a different recipe"):
        kept(file, other, make)


def test_two_processes_do_not_train_in_one_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ended well, with every row of metrics.jsonl twice. A killed process leaves no lock behind."""
    code = (
        "import sys, time; from pathlib import Path; from suite.training.fit import _alone\n"
        "with _alone(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    recipe = Recipe(task="lm", run=RunConfig(steps=1), batch=BatchConfig(size=1), data={"train": ["nowhere.txt"]})
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=r"another process trains in .*run; wait for it, or choose another --out"):
            fit(recipe, tmp_path / "run")
        with monkeypatch.context() as patch, pytest.raises(DataError, match="nowhere"):
            patch.setenv("RANK", "1")  # the first of them holds the lock for all
            fit(recipe, tmp_path / "run")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with pytest.raises(DataError, match="nowhere"):
        fit(recipe, tmp_path / "run")
