"""The training loop: steps, and between them log rows, validation and saved states.

Every step is a pure function of the weights, the optimizer state, the recipe and the step's number, so a run that was
stopped anywhere and resumed ends in the same bits.

    step      one optimizer step
    keeping   the saved state, and the best weights
    pace      how long the run will take
    signals   Ctrl-C and SIGTERM
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from suite.training.batches import Batch, Example, ExampleSource, FiniteSource
from suite.training.device import emulates_bfloat16, local_device
from suite.training.keeping import Keep, Keeper
from suite.training.loss import LossFunction, language_modelling
from suite.training.pace import Pace
from suite.training.recipe import Recipe
from suite.training.report import Reporter, advice, forecast
from suite.training.signals import StopSignals
from suite.training.state import Progress, RunDirectory
from suite.training.step import Stepper

VALID_TOKENS = 16384  # in one forward pass of validation, where the recipe sets no limit
ADVICE_MINUTES = 30  # a longer run gets a line on what would shorten it
EMULATED = (
    "run.precision is bfloat16, for which this device has no instructions: it emulates them, on a CPU up to a hundred "
    "times slower than float32 (--set run.precision=auto)"
)


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """How a run ended.

    Attributes:
        step: steps taken.
        steps: of the whole run.
        finished: False if `max_minutes` ran out and the run is to be resumed.
        best_loss: of the validations, in nats per target token; None without any.
        best_step: steps taken before that validation.
        weights: file of the weights to keep, averaged if the recipe says so: the best, or the last if the recipe says
            so or nothing was validated.
    """

    step: int
    steps: int
    finished: bool
    best_loss: float | None
    best_step: int | None
    weights: Path


def train(
    model: nn.Module,
    source: ExampleSource,
    recipe: Recipe,
    *,
    out: Path | str,
    valid: Sequence[Example] = (),
    loss: LossFunction | None = None,
    device: str = "auto",
    show: bool = True,
    data: str = "",
    keep: Keep | None = None,
) -> TrainResult:
    """Train `model`, resuming from `out` if a run of the same recipe on the same data was stopped there.

    Args:
        model: starts from its present weights; holds the best ones on return.
        source: of examples; with `batch.tokens` it must be a `ShuffledSource`.
        recipe: of the run.
        out: directory of the run.
        valid: examples to validate on.
        loss: (model, batch) -> (sum, divisor, other sums); None: next-token prediction by `recipe.loss`.
        device: "auto", or a device's name.
        show: whether to write lines, or on terminals a bar, to standard error.
        data: digest of the data, such as `suite.training.fit.data_digest`: a run resumes on the same data alone.
        keep: called on the first rank before each saved state, while the model holds the weights to keep so far: those
            of the best validation or the last, averaged if the recipe says so.

    Returns:
        How the run ended.

    Raises:
        ConfigError: `out` contains a run of another recipe, or on other data.
        CheckpointError: the state cannot be read or written; the old one is whole.
        SuiteError: the loss or the gradient is not finite; the message says at which step.
        KeyboardInterrupt: SIGINT or SIGTERM came; the state is saved, and the message says how to resume.
    """
    if loss is None:
        loss = language_modelling(recipe.loss.smoothing, recipe.loss.source_weight)
    place = local_device(device)
    trainer = Trainer(model, source, recipe, RunDirectory(Path(out)), valid, loss, place, show, data, keep)
    with torch.random.fork_rng(), trainer.signals:
        return trainer.run()


class Trainer:
    """One session of a run. Arguments are those of `train`, with the loss and the device chosen."""

    def __init__(
        self,
        model: nn.Module,
        source: ExampleSource,
        recipe: Recipe,
        directory: RunDirectory,
        valid: Sequence[Example],
        loss: LossFunction,
        device: torch.device,
        show: bool = True,
        data: str = "",
        keep: Keep | None = None,
    ) -> None:
        self.epochs, self.show, self.directory = recipe.run.epochs, show, directory
        self.stepper = Stepper(model, source, recipe, loss, device, directory.state)
        self.recipe, self.ranks = self.stepper.recipe, self.stepper.ranks
        self.keeper = Keeper(self.stepper, directory, data, keep)
        self.valid = self._valid_batches(valid)
        self.progress = Progress()
        self.signals = StopSignals()
        self.told_long = False
        self.logged: tuple[float, int, int] = (0.0, 0, 0)  # seconds, tokens and steps at the last row
        self.tallied = time.perf_counter()  # up to when `progress.seconds` counts

    def _valid_batches(self, valid: Sequence[Example]) -> list[Batch]:
        """This rank's share of the validation examples, in batches of similar lengths."""
        if not valid:
            return []
        source = FiniteSource(sorted(valid, key=lambda example: len(example.tokens)))
        limit = self.recipe.batch.micro_tokens or VALID_TOKENS
        return list(self.stepper.cut(source, range(len(valid)), limit))

    def run(self) -> TrainResult:
        """Take all steps that are left.

        Returns:
            How the run ended, as `train` says.
        """
        progress = self.progress = self.keeper.resume()
        self.reporter = self._reporter()
        if self.keeper.notice:
            self.reporter.say(self.keeper.notice)
        if progress.step:
            self.reporter.say(f"resuming {self.directory.path} at step {progress.step}")
        if self.stepper.bfloat16 and emulates_bfloat16(self.stepper.device):
            self.reporter.say(EMULATED)
        steps, warmup = self.recipe.run.steps, self.recipe.schedule.warmup
        if warmup >= steps > 1:
            self.reporter.say(
                f"schedule.warmup is {warmup:,.0f} steps, but the run has {steps:,} and never gets to its full rate"
            )
        self.tallied = time.perf_counter()
        self.stepper.tokens, self.logged = progress.tokens, self._clock()
        self.pace = Pace(progress.tokens)
        try:
            self._take_steps()
            if progress.step < self.recipe.run.steps and self._finished():
                self.reporter.say(f"stopped early: no better validation loss since step {progress.best_step}")
            self.keeper.finish(progress)
        finally:
            self.reporter.close()
        return TrainResult(
            step=progress.step,
            steps=self.recipe.run.steps,
            finished=self._finished(),
            best_loss=progress.best_loss,
            best_step=progress.best_step,
            weights=self.directory.best,
        )

    def _take_steps(self) -> None:
        """Take steps until the run is finished or its time is up, loading each step's batches during the one before."""
        run, progress, ranks = self.recipe.run, self.progress, self.ranks
        start = time.perf_counter()
        self.stepper.model.train()
        out_of_time = False
        with ThreadPoolExecutor(1) as loader:
            upcoming: Future[list[Batch]] = loader.submit(self.stepper.load, progress.step)
            while not self._finished() and not out_of_time:
                began = time.perf_counter()
                batches = upcoming.result()
                self._tell_long(batches)
                upcoming = loader.submit(self.stepper.load, progress.step + 1)
                self.take_step(batches)
                self.reporter.advance()
                self._forecast(time.perf_counter() - began)
                last = progress.step == run.steps
                talk = progress.step % run.log_every == 0 or last  # when ranks agree on stopping
                minutes = (time.perf_counter() - start) / 60
                out_of_time = bool(run.max_minutes) and minutes > run.max_minutes
                interrupted = self.signals.came
                if ranks.world > 1:
                    out_of_time = talk and ranks.any(out_of_time)
                    interrupted = talk and ranks.any(interrupted)
                if talk:
                    self.stepper.check()
                    self._log()
                if self.valid and (progress.step % run.valid_every == 0 or last):
                    self.stepper.check()
                    self._validate()
                if progress.step % run.save_every == 0 or out_of_time or interrupted or self._finished():
                    self.stepper.check()
                    self._tally()
                    self.keeper.save(progress)
                if interrupted:
                    self._interrupt()

    def _tell_long(self, batches: list[Batch]) -> None:
        """Say once that an example is longer than a forward pass should be."""
        limit = self.recipe.batch.micro_tokens
        longest = max(len(batch.tokens) * (batch.tokens.shape[1] - 1) for batch in batches)
        if 0 < limit < longest and not self.told_long:
            self.reporter.say(
                f"batch.micro_tokens is {limit:,}, fewer than an example has ({longest:,}), which is read by itself"
            )
            self.told_long = True

    def take_step(self, batches: list[Batch]) -> None:
        """Take one optimizer step on this rank's batches."""
        self.stepper.take(batches, self.progress.step)
        self.progress.step += 1
        self.keeper.update(self.progress.step)

    @torch.no_grad()
    def _validate(self) -> None:
        """Measure the averaged weights on the validation examples, and keep them if they are the best so far."""
        progress = self.progress
        with self.keeper.averaged(progress.step):
            loss, extras = self.stepper.evaluate(self.valid)
            better = math.isfinite(loss) and (progress.best_loss is None or loss < progress.best_loss)
            if better and self.recipe.run.keep == "best":
                self.keeper.write_best()
        progress.worse = 0 if better else progress.worse + 1
        if better:
            progress.best_loss, progress.best_step = loss, progress.step
        row = {"step": progress.step, "valid_loss": loss, "best": better}
        self.reporter.row(row | {f"valid_{name}": value for name, value in extras.items()})

    def _log(self) -> None:
        """Write a row of what happened since the last one."""
        self._tally()
        progress = self.progress
        seconds, tokens, steps = (now - before for now, before in zip(self._clock(), self.logged, strict=True))
        numbers, extras = self.stepper.collect()
        row: dict[str, Any] = {
            "step": progress.step,
            **numbers,
            "tokens": progress.tokens,
            "tokens_per_second": round(tokens / seconds, 1),
            "seconds": round(progress.seconds, 2),
            **extras,
        }
        self.reporter.row(row, (self.recipe.run.steps - progress.step) * seconds / steps)
        self.logged = self._clock()

    def _tally(self) -> None:
        """Bring the counts of tokens and seconds up to date; waits for the device."""
        self.progress.tokens = int(self.stepper.tokens)
        now = time.perf_counter()
        self.progress.seconds += now - self.tallied
        self.tallied = now

    def _clock(self) -> tuple[float, int, int]:
        """Seconds, tokens and steps of the run so far."""
        return self.progress.seconds, self.progress.tokens, self.progress.step

    def _forecast(self, seconds: float) -> None:
        """Say how long the run will take, as soon as a few steps tell; the last step took `seconds`."""
        if self.pace.known:
            return
        waited = time.perf_counter()
        tokens = int(self.stepper.tokens)  # waits for the device
        speed = self.pace.add(seconds + time.perf_counter() - waited, tokens)
        run, step = self.recipe.run, self.progress.step
        left = run.steps - step
        if speed is None or not left:
            return
        # a forward pass alone is a third of a step's work
        validations = (run.steps - 1) // run.valid_every + 1 - step // run.valid_every if self.valid else 0
        validated = self.ranks.world * sum(batch.real for batch in self.valid)
        expected = left * speed.seconds_per_step + validations * validated / 3 / speed.tokens_per_second
        self.reporter.say(forecast(expected, left, speed.tokens_per_second, early=run.patience > 0))
        if expected > 60 * ADVICE_MINUTES:
            based = bool(self.recipe.base)
            self.reporter.say(advice(expected, run.steps, self.epochs, based=based, limited=run.max_minutes > 0))

    def _reporter(self) -> Reporter:
        """What writes the rows, and shows them."""
        run = self.recipe.run
        events = self.directory.path / "tensorboard" if run.tensorboard else None
        silent = self.ranks.rank > 0
        return Reporter(self.directory.metrics, run.steps, self.progress.step, events, silent=silent, show=self.show)

    def _finished(self) -> bool:
        """Whether all steps are taken, or validation says that more would not help."""
        run = self.recipe.run
        early = run.patience > 0 and self.progress.worse >= run.patience
        return early or self.progress.step >= run.steps

    def _interrupt(self) -> None:
        """Raise the KeyboardInterrupt of a run that was stopped, once its state is saved."""
        useful = "" if self.keeper.keep is None else ", which can be used as it is"
        raise KeyboardInterrupt(
            f"stopped at step {self.progress.step} of {self.recipe.run.steps}; give the same command again to "
            f"resume from {self.directory.path}{useful}"
        )
