"""What stands around the training loop."""

from pathlib import Path

import pytest

from suite.errors import ConfigError
from suite.training.fit import kept
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
