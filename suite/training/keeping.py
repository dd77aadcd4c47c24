"""What is kept of a run: its state, to resume from, and the weights that it would end with."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from suite.checkpoint import read_tensors, write_atomic, write_tensors
from suite.errors import ConfigError
from suite.training.averaging import Average
from suite.training.recipe import Recipe
from suite.training.state import Progress, RunDirectory
from suite.training.step import Stepper


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A saved state, told while the model holds the weights that the run would end with if it ended now.

    Attributes:
        step: optimizer steps taken.
        steps: of the whole run.
        best_loss, best_step: the best validation so far, or None without any.
        new: whether these weights were not told before, in this session.
    """

    step: int
    steps: int
    best_loss: float | None
    best_step: int | None
    new: bool


Keep = Callable[[Kept], object]


class Keeper:
    """Writes a run's state and its best weights into its directory, and reads them again.

    Args:
        stepper: of the run.
        directory: of the run.
        data: digest of the data; see `train`.
        keep: called before each saved state; see `train`.
    """

    def __init__(self, stepper: Stepper, directory: RunDirectory, data: str, keep: Keep | None) -> None:
        self.model, self.optimizers, self.ranks = stepper.model, stepper.optimizers, stepper.ranks
        self.recipe, self.directory, self.data, self.keep = stepper.recipe, directory, data, keep
        self.average = Average(stepper.model, self.recipe.averaging, directory)
        self.notice = ""  # of a damaged file that was moved aside, for a person
        self._told: int | None = None  # step whose weights `keep` got last

    def update(self, step: int) -> None:
        """Count the weights after `step` steps into the average."""
        self.average.update(step, write=self.ranks.rank == 0)

    def averaged(self, step: int) -> AbstractContextManager[None]:
        """The model with its averaged weights after `step` steps, inside a `with`."""
        self.ranks.wait()  # for the snapshots that the first rank writes
        return self.average.in_place(self.average.at(step))

    def write_best(self) -> None:
        """Write the model's present weights as the best."""
        if self.ranks.rank == 0:
            write_tensors(self.directory.best, self.average.weights)

    def save(self, progress: Progress) -> None:
        """Write the state; before it `keep` is called, so that there is no state without a checkpoint."""
        self._tell(progress)
        if self.ranks.rank == 0:
            self.directory.save(
                self.model, self.optimizers, self.average.ema, progress, self.recipe.to_dict(), self.data
            )
            if self.recipe.averaging.kind == "last":
                self.directory.prune_snapshots(self.average.snapshots(progress.step))

    def _tell(self, progress: Progress) -> None:
        """Call `keep` while the model holds the weights that would be kept if the run ended here."""
        keep = self.keep
        if keep is None or self.ranks.rank > 0:
            return
        best = progress.best_step if self.recipe.run.keep == "best" else None
        step = progress.step if best is None else best
        status = Kept(
            step=progress.step,
            steps=self.recipe.run.steps,
            best_loss=progress.best_loss,
            best_step=progress.best_step,
            new=step != self._told,
        )
        weights = None
        if status.new:
            weights = self.average.at(step) if best is None else read_tensors(self.directory.best)
        with torch.no_grad(), self.average.in_place(weights):
            keep(status)
        self._told = step

    def resume(self) -> Progress:
        """The numbers of the saved state, read into the model and the optimizers; those of step 0 if there is none.

        Raises:
            ConfigError: the state is of another recipe, or of other data.
        """
        progress = Progress()
        if self.directory.state.exists():
            self._check_same()
            progress = self.directory.load(self.model, self.optimizers, self.average.ema)
        if self.ranks.rank == 0:
            self.notice = self.directory.clean(progress.step)
            write_atomic(self.directory.path / "recipe.json", json.dumps(self.recipe.to_dict(), indent=1).encode())
        self.ranks.wait()
        return progress

    def _check_same(self) -> None:
        """Raise a ConfigError if the saved state is of another recipe, or of other data."""
        header = self.directory.header()
        saved = Recipe.from_dict(header["recipe"], str(self.directory.state))
        for key, old, new in saved.differences(self.recipe):
            if not key.startswith("run."):  # how long and how often may change
                raise ConfigError(
                    f"{self.directory.path} contains a run of a different recipe: {key} was {old!r} and is now "
                    f"{new!r}; choose another directory, or restore the old value"
                )
        if header.get("data", self.data) != self.data:
            raise ConfigError(
                f"{self.directory.path} contains a run on different data; choose another directory, or remove that one"
            )

    def finish(self, progress: Progress) -> None:
        """Load the weights to keep into the model, and write them as the best: the last ones without validation."""
        last = progress.best_step is None or self.recipe.run.keep == "last"
        if last:
            average = self.average.at(progress.step)
            if average is not None:
                self.average.fill(average)
            self.write_best()
        self.ranks.wait()
        if not last:
            self.average.fill(read_tensors(self.directory.best))
