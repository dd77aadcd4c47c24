"""A run of a second, which tests kill, start again, or start in two ranks; see `start` in test_resume.py.

It finds its ARGUMENTS in place: the run's directory, the recipe as a dictionary, what to die at ("fsync" or "pass", and
the number of that call, from 1), and environment variables.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suite.model import Transformer
from suite.training import Example, Recipe, ShuffledSource, train

ARGUMENTS: tuple[Path, dict[str, Any], tuple[str, int], dict[str, str]] = globals()["ARGUMENTS"]


def dying(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`function`, except that at its call number `count` this process is killed."""
    calls = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    return counted


out, table, (where, count), environment = ARGUMENTS
os.environ.update(environment)
torch.set_num_threads(1)
if where == "fsync":
    os.fsync = dying(os.fsync, count)
elif where == "pass":
    Transformer.hidden = dying(Transformer.hidden, count)  # type: ignore[method-assign]
recipe = Recipe.from_dict(table)
rng = np.random.default_rng(0)
examples = [Example((np.arange(rng.integers(4, 12)) * 3 + rng.integers(31)) % 31, prefix=2) for _ in range(50)]
torch.manual_seed(recipe.seed)
model = Transformer(recipe.model_config(31))
train(model, ShuffledSource(examples, recipe.seed), recipe, out=out, valid=examples[:5], device="cpu")
