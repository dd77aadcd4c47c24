"""Tokens a second in training steps of each task's default recipe, on the sample data and the CPU."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from suite.bench.options import RecipeOptions
from suite.errors import ConfigError
from suite.task import find_task, suggest
from suite.training.fit import start
from suite.training.loop import Trainer
from suite.training.loss import language_modelling
from suite.training.optimizer import Muon
from suite.training.recipe import Recipe
from suite.training.state import RunDirectory

# what each task is trained on: a file in data/samples ("" for random music), and settings of the recipe
SAMPLES: dict[str, tuple[str, ...]] = {
    "lm": ("articles.jsonl.gz",),
    "classify": ("banking.csv",),
    "music": ("", "data.held_out=0.5"),
    "translate": ("tatoeba-en-de.tsv.gz", "data.source=en", "data.target=de"),
    "summarize": ("articles.jsonl.gz",),
}


@dataclass(frozen=True, kw_only=True)
class RecipeSpeed:
    """How fast a default recipe trains.

    Attributes:
        recipe: its file: "lm/small.toml".
        precision: of the products in the model.
        muon: type of Muon's Newton-Schulz iteration; "" if the recipe does not use Muon.
        tokens_per_second: of the fastest step that counts, padding left out.
        seconds: that this step took.
        tokens_per_cpu_second: the same by the processor time of all threads, which other work on the machine
            changes less.
        steps: how many counted.
    """

    recipe: str
    precision: str
    muon: str
    tokens_per_second: float
    seconds: float
    tokens_per_cpu_second: float
    steps: int


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One timed step: tokens in it, seconds, and seconds of the processor."""

    tokens: int
    seconds: float
    cpu_seconds: float

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def recipes(
    options: RecipeOptions, tasks: Sequence[str] = (), *, say: Callable[[str], object] = lambda line: None
) -> Iterator[RecipeSpeed]:
    """Speeds of a few optimizer steps of each task's default recipe on the sample data; the models are thrown away.

    Args:
        options: how to measure.
        tasks: names; empty for all that have a sample.
        say: called with a line before each recipe.

    Raises:
        ConfigError: there is no sample for a task.
    """
    for name in tasks:
        if name not in SAMPLES:
            raise ConfigError(f"no sample data for task {name!r}; {suggest(name, SAMPLES)}")
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        for name in tasks or SAMPLES:
            say(f"{name}: preparing its sample data, then {options.steps + 1} steps")
            yield from _recipe_speeds(name, Path(folder), options)


def _recipe_speeds(name: str, folder: Path, options: RecipeOptions) -> list[RecipeSpeed]:
    """The speeds of one recipe, one for each type of Muon's iteration."""
    path, trainer = _trainer(name, folder, options.precision)
    iterations = [optimizer for optimizer in trainer.stepper.optimizers if isinstance(optimizer, Muon)]
    usual = str(iterations[0].dtype).removeprefix("torch.") if iterations else ""
    types = list(options.muon) if iterations and options.muon else [usual]
    best: dict[str, _Step] = {}
    counted = 0
    began = time.perf_counter()
    for turn in range(options.steps + 1):
        if counted and time.perf_counter() - began > options.limit:
            break
        batches = trainer.stepper.load(turn)
        for kind in types if turn else types[:1]:
            for optimizer in iterations:
                optimizer.dtype = getattr(torch, kind)
            start_of_step, cpu = time.perf_counter(), time.process_time()
            trainer.take_step(batches)
            taken = _Step(
                tokens=sum(batch.real for batch in batches),
                seconds=time.perf_counter() - start_of_step,
                cpu_seconds=time.process_time() - cpu,
            )
            if turn and (kind not in best or taken.speed > best[kind].speed):
                best[kind] = taken
        counted = turn
    return [
        RecipeSpeed(
            recipe=f"{name}/{path.name}",
            precision="bfloat16" if trainer.stepper.bfloat16 else "float32",
            muon=kind,
            tokens_per_second=step.speed,
            seconds=step.seconds,
            tokens_per_cpu_second=step.tokens / step.cpu_seconds,
            steps=counted,
        )
        for kind, step in best.items()
    ]


def _trainer(name: str, folder: Path, precision: str) -> tuple[Path, Trainer]:
    """A task's default recipe, and a trainer of it on the sample data."""
    task = find_task(name)
    path = task.default_recipe()
    file, *settings = SAMPLES[name]
    source = Path(str(files("suite.data"))) / "samples" / file if file else random_music(folder / "music")
    recipe = Recipe.load(path, [f"data.train=[{json.dumps(str(source))}]", f"run.precision={precision}", *settings])
    data = task.prepare(recipe, folder / "cache")
    model, _, _ = start(recipe, data)
    loss = data.loss or language_modelling(recipe.loss.smoothing, recipe.loss.source_weight)
    directory, place = RunDirectory(folder / name), torch.device("cpu")
    trainer = Trainer(model, data.train, recipe, directory, [], loss, place, show=False)
    trainer.stepper.model.train()
    return path, trainer


def random_music(folder: Path) -> Path:
    """A new folder of twenty MIDI files of random notes, since the samples contain no music."""
    from suite.data.performance import Performance

    folder.mkdir()
    for piece in range(20):
        rng = np.random.default_rng(piece)
        start = np.cumsum(rng.exponential(0.1, 1000))
        end = start + rng.uniform(0.1, 1.0, 1000)
        Performance(rng.integers(30, 90, 1000), rng.integers(20, 110, 1000), start, end).save(folder / f"{piece}.mid")
    return folder
