"""The training loop: batches, gradients, steps, and what is kept of them.

Every step is a pure function of the weights, the optimizer state, the recipe and the step's number, so a run that was
stopped anywhere and resumed ends in the same bits.
"""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from suite.checkpoint import read_tensors, write_atomic, write_tensors
from suite.errors import ConfigError, SuiteError
from suite.model.transformer import Block
from suite.training.averaging import Average
from suite.training.batches import (
    Batch,
    Example,
    ExampleSource,
    FiniteSource,
    FixedBatches,
    ShuffledSource,
    StepBatches,
    TokenBatches,
    micro_batches,
)
from suite.training.device import emulates_bfloat16, local_device, seed_step, use_bfloat16
from suite.training.distributed import Ranks
from suite.training.loss import LossFunction, language_modelling
from suite.training.optimizer import build_optimizers, rate_factor, set_rates
from suite.training.recipe import Recipe
from suite.training.report import Reporter, advice, forecast
from suite.training.state import Progress, RunDirectory

VALID_TOKENS = 16384  # in one forward pass of validation, where the recipe sets no limit
# the run's time is foretold after so many steps of a session, or so many seconds
FORECAST_STEPS, FORECAST_SECONDS = 10, 30.0
ADVICE_MINUTES = 30  # a run longer than this is told what would shorten it
EMULATED = (
    "run.precision is bfloat16, for which this device has no instructions: it emulates them, on a CPU up to a hundred "
    "times slower than float32 (--set run.precision=auto)"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept:
    """The weights that a run would end with if it ended now; the model holds them while this is handed on.

    Args:
        step: optimizer steps taken.
        steps: of the whole run.
        best_loss, best_step: the best validation so far, or None without any.
        new: whether these weights were not handed on before, in this session.
    """

    step: int
    steps: int
    best_loss: float | None
    best_step: int | None
    new: bool


Keep = Callable[[Kept], object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainResult:
    """How a run ended.

    Args:
        step: steps taken.
        steps: of the whole run.
        finished: False when `max_minutes` ran out and the run is to be resumed.
        best_loss: nats a target token on the validation examples, or None without any.
        best_step: when that was.
        weights: file of the weights to keep (averaged by recipe): the best, or by recipe or without
            validation the last.
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
    """Train `model`, going on from `out` if a run of the same recipe on the same data was stopped there.

    Args:
        model: starts from its present weights; holds the best ones on return.
        source: of examples; with `batch.tokens` it must be a `ShuffledSource`.
        recipe: sizes, rates and rhythm.
        out: directory of the run.
        valid: examples to validate on.
        loss: (model, batch) -> (sum, divisor, other sums); None: next-token prediction by `recipe.loss`.
        device: "auto", or a device's name.
        show: whether to write lines, or on terminals a bar, to standard error.
        data: what tells this data from other, such as `suite.training.fit.data_digest` of it.
        keep: called on the first rank before each saved state, while the model holds the weights to keep so far: those
            of the best validation, or the last, averaged by recipe.

    Returns:
        how it ended.

    Raises:
        ConfigError: `out` holds a run of another recipe, or on other data.
        CheckpointError: the state cannot be read or written; the old one is whole.
        SuiteError: the loss is not a number any more; says at which step.
        KeyboardInterrupt: SIGINT or SIGTERM came; the state is saved, and the message says how to go on.
    """
    if loss is None:
        loss = language_modelling(recipe.loss.smoothing, recipe.loss.source_weight)
    place = local_device(device)
    trainer = Trainer(model, source, recipe, RunDirectory(Path(out)), valid, loss, place, show, data, keep)
    with torch.random.fork_rng(), trainer.signals():
        return trainer.run()


class Trainer:
    """One session of a run; see `train`."""

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
        self.epochs, self.keep = recipe.run.epochs, keep
        self.model, self.source, self.recipe, self.loss = model.to(device), source, recipe, loss
        self.directory, self.device, self.show, self.data = directory, device, show, data
        self.ranks = Ranks(device)
        self.ranks.share_weights(model)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.bfloat16 = use_bfloat16(recipe.run.precision, device)
        self.optimizers = build_optimizers(model, recipe.optimizer, torch.bfloat16 if self.bfloat16 else torch.float32)
        self.average = Average(model, recipe.averaging, directory)
        self.batches = self._batches()
        if recipe.run.epochs:
            steps = max(recipe.run.least_steps, self.batches.steps(recipe.run.epochs))
            run = dataclasses.replace(recipe.run, steps=steps, epochs=0.0)
            self.recipe = dataclasses.replace(recipe, run=run)
        self.valid = list(self._valid_batches(valid))
        self.progress = Progress()
        self.stop: int | None = None  # the signal that came
        # numbers of a step stay on the device, so that no step waits for them: sums since the last row, and all tokens
        self.total: Tensor | float = 0.0
        self.count: Tensor | float = 0.0
        self.extras: dict[str, Tensor | float] = {}
        self.tokens: Tensor | float = 0.0
        self.began = 0  # tokens before this session
        self.logged: tuple[float, int, int] = (0.0, 0, 0)  # seconds, tokens and steps at the last row
        self.tallied = time.perf_counter()  # up to when `progress.seconds` counts
        self.norm: Tensor | float = 0.0
        self.kept: int | None = None  # step whose weights `keep` got last
        self.pace: list[tuple[float, int]] | None = []  # seconds and tokens of each step, until the time is foretold
        self.bad: Tensor = torch.full((), -1, device=device)  # first step whose loss was not a number
        if recipe.run.compile:
            # the CPU's attention kernel fails when compiled for lengths that vary (torch 2.13)
            dynamic = None if device.type == "cuda" else False
            for module in model.modules():
                if isinstance(module, Block):
                    module.compile(dynamic=dynamic)

    def _batches(self) -> StepBatches:
        batch = self.recipe.batch
        if not batch.tokens:
            return FixedBatches(self.source, batch.size)
        if not isinstance(self.source, ShuffledSource):
            raise ConfigError("batch.tokens needs a finite list of examples; with packed text, set batch.size")
        return TokenBatches(self.source, batch.tokens, self.recipe.seed)

    def _valid_batches(self, valid: Sequence[Example]) -> Iterator[Batch]:
        source = FiniteSource(sorted(valid, key=lambda example: len(example.tokens)))
        limit = self.recipe.batch.micro_tokens or VALID_TOKENS
        if not valid:
            return iter(())
        return self._cut(source, range(len(valid)), limit)

    def _cut(self, source: ExampleSource, indices: Sequence[int], micro_tokens: int) -> Iterator[Batch]:
        """This rank's share of some examples, in batches."""
        ranks = self.ranks
        return micro_batches(source, indices, rank=ranks.rank, world=ranks.world, micro_tokens=micro_tokens)

    # -- one step ----------------------------------------------------------------------------------------------------

    def load_step(self, step: int) -> list[Batch]:
        return list(self._cut(self.source, self.batches.indices(step), self.recipe.batch.micro_tokens))

    def _losses(self, batch: Batch) -> tuple[Tensor, float, dict[str, Tensor]]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            return self.loss(self.model, batch.to(self.device))

    def take_step(self, batches: list[Batch]) -> None:
        """One optimizer step on this rank's share of its examples."""
        step = self.progress.step
        seed_step(self.recipe.seed, step, self.ranks.rank)
        total: Tensor | float = 0.0
        count: Tensor | float = 0.0
        real: Tensor | float = float(sum(batch.real for batch in batches))
        for batch in batches:
            summed, divisor, extras = self._losses(batch)
            summed.backward()  # type: ignore[no-untyped-call]
            total, count = total + summed.detach(), count + divisor
            for name, value in extras.items():
                self.extras[name] = self.extras.get(name, 0.0) + value.detach()
        self.ranks.sum_gradients(self.parameters)
        total, count, real = self.ranks.sum([total, count, real])
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        self.norm = torch.nn.utils.get_total_norm(gradients) / count
        finite = torch.isfinite(self.norm) & torch.isfinite(torch.as_tensor(total))
        self.bad = torch.where(finite | (self.bad >= 0), self.bad, step)
        if self.device.type == "cpu":  # a GPU would have to wait; it is asked before anything is kept
            self._check()
        scale = 1.0 / count
        if self.recipe.optimizer.clip:
            scale = scale * (self.recipe.optimizer.clip / (self.norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, scale)
        set_rates(self.optimizers, self.factor)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.total, self.count, self.tokens = self.total + total, self.count + count, self.tokens + real
        self.progress.step += 1
        self.average.update(self.progress.step, write=self.ranks.rank == 0)

    @property
    def factor(self) -> float:
        """Of the learning rate at the present step."""
        return rate_factor(self.progress.step, self.recipe.run.steps, self.recipe.schedule)

    def _check(self) -> None:
        """Raise if a step's loss or gradient was not a number."""
        bad = int(self.bad)
        if bad >= 0:
            saved = f"{self.directory.state} is the last good state" if self.directory.state.exists() else "none saved"
            raise SuiteError(
                f"loss or gradient is not finite at step {bad} ({saved}); "
                "lower optimizer.lr or lengthen schedule.warmup"
            )

    # -- between steps -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _validate(self) -> None:
        """Loss of the averaged weights on the validation examples; keeps them if they are the best so far."""
        progress = self.progress
        total: Tensor | float = 0.0
        count: Tensor | float = 0.0
        sums: dict[str, Tensor | float] = {}
        self.model.eval()
        self.ranks.wait()  # for the snapshots that the first rank writes
        with self.average.in_place(self.average.at(progress.step)):
            for batch in self.valid:
                summed, divisor, extras = self._losses(batch)
                total, count = total + summed, count + divisor
                sums = {name: sums.get(name, 0.0) + value for name, value in extras.items()}
            names = sorted(sums)
            total, count, *values = self.ranks.sum([total, count, *(sums[name] for name in names)])
            loss = float(total / count)
            better = math.isfinite(loss) and (progress.best_loss is None or loss < progress.best_loss)
            if better and self.ranks.rank == 0 and self.recipe.run.keep == "best":
                write_tensors(self.directory.best, self.average.weights)
        self.model.train()
        progress.worse = 0 if better else progress.worse + 1
        if better:
            progress.best_loss, progress.best_step = loss, progress.step
        row = {"step": progress.step, "valid_loss": loss, "best": better}
        self.reporter.row(row | {f"valid_{name}": float(v / count) for name, v in zip(names, values, strict=True)})

    def _log(self) -> None:
        """A row of what happened since the last one."""
        self._tally()
        progress, count = self.progress, float(self.count)
        seconds, tokens, steps = (now - before for now, before in zip(self._clock(), self.logged, strict=True))
        names = sorted(self.extras)
        values = self.ranks.sum([self.extras[name] for name in names]) if names else []
        row: dict[str, Any] = {
            "step": progress.step,
            "loss": float(self.total) / count,
            "lr": self.optimizers[0].param_groups[0]["lr"],
            "grad_norm": float(self.norm),
            "tokens": progress.tokens,
            "tokens_per_second": round(tokens / seconds, 1),
            "seconds": round(progress.seconds, 2),
        }
        row |= {name: float(value) / count for name, value in zip(names, values, strict=True)}
        self.reporter.row(row, (self.recipe.run.steps - progress.step) * seconds / steps)
        self.total, self.count, self.extras, self.logged = 0.0, 0.0, {}, self._clock()

    def _tally(self) -> None:
        """Bring the counts of tokens and seconds up to date; waits for the device."""
        self.progress.tokens = int(self.tokens)
        now = time.perf_counter()
        self.progress.seconds += now - self.tallied
        self.tallied = now

    def _clock(self) -> tuple[float, int, int]:
        """Seconds, tokens and steps of the run so far."""
        return self.progress.seconds, self.progress.tokens, self.progress.step

    def _foretell(self, seconds: float) -> None:
        """Say how long the run will take, once there are a few steps to tell it by; the last took so many seconds."""
        pace, run = self.pace, self.recipe.run
        if pace is None:
            return
        before = sum(tokens for _, tokens in pace)
        waited = time.perf_counter()
        tokens = int(self.tokens) - self.began - before  # waits for the device
        pace.append((seconds + time.perf_counter() - waited, tokens))
        if len(pace) < FORECAST_STEPS and sum(taken for taken, _ in pace) < FORECAST_SECONDS:
            return
        self.pace = None
        steady = pace[1:] or pace  # a first step also compiles kernels and fills caches
        taken, tokens = sum(taken for taken, _ in steady), sum(tokens for _, tokens in steady)
        left = run.steps - self.progress.step
        if not left or not taken or not tokens:
            return
        # a forward pass alone is a third of a step's work
        looks = (run.steps - 1) // run.valid_every + 1 - self.progress.step // run.valid_every if self.valid else 0
        seen = self.ranks.world * sum(batch.real for batch in self.valid)
        expected = left * taken / len(steady) + looks * seen / 3 * taken / tokens
        self.reporter.say(forecast(expected, left, tokens / taken, early=run.patience > 0))
        if expected > 60 * ADVICE_MINUTES:
            based = bool(self.recipe.base)
            self.reporter.say(advice(expected, run.steps, self.epochs, based=based, limited=run.max_minutes > 0))

    def _hand_on(self) -> None:
        """Give `keep` the weights that would be kept if the run ended here."""
        progress, keep = self.progress, self.keep
        if keep is None or self.ranks.rank > 0:
            return
        best = progress.best_step if self.recipe.run.keep == "best" else None
        step = progress.step if best is None else best
        status = Kept(
            step=progress.step,
            steps=self.recipe.run.steps,
            best_loss=progress.best_loss,
            best_step=progress.best_step,
            new=step != self.kept,
        )
        weights = None
        if status.new:
            weights = self.average.at(step) if best is None else read_tensors(self.directory.best)
        with torch.no_grad(), self.average.in_place(weights):
            keep(status)
        self.kept = step

    def _save(self) -> None:
        self._tally()
        self._hand_on()  # before the state, so that there is no state without a checkpoint
        if self.ranks.rank == 0:
            self.directory.save(
                self.model, self.optimizers, self.average.ema, self.progress, self.recipe.to_dict(), self.data
            )
            if self.recipe.averaging.kind == "last":
                self.directory.prune_snapshots(self.average.snapshots(self.progress.step))

    def _resume(self) -> None:
        """Go on from the state in the directory, if there is one."""
        if self.directory.state.exists():
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
                    f"{self.directory.path} contains a run on different data; "
                    "choose another directory, or remove that one"
                )
            self.progress = self.directory.load(self.model, self.optimizers, self.average.ema)
        if self.ranks.rank == 0:
            self.directory.clean(self.progress.step)
            write_atomic(self.directory.path / "recipe.json", json.dumps(self.recipe.to_dict(), indent=1).encode())
        self.ranks.wait()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Inside a `with`, the first SIGINT or SIGTERM ends the run after its step; the second at once."""

        def note(number: int, frame: object) -> None:
            if self.stop is not None:
                raise KeyboardInterrupt
            self.stop = number

        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread can take signals
            return
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- the whole ---------------------------------------------------------------------------------------------------

    def run(self) -> TrainResult:
        """All steps that are left."""
        self._resume()
        run, progress = self.recipe.run, self.progress
        events = self.directory.path / "tensorboard" if run.tensorboard else None
        self.reporter = Reporter(
            self.directory.metrics, run.steps, progress.step, events, silent=self.ranks.rank > 0, show=self.show
        )
        if progress.step:
            self.reporter.say(f"resuming {self.directory.path} at step {progress.step}")
        if self.bfloat16 and emulates_bfloat16(self.device):
            self.reporter.say(EMULATED)
        start = self.tallied = time.perf_counter()
        self.tokens, self.logged = progress.tokens, self._clock()
        self.began = progress.tokens
        self.model.train()
        out_of_time = False
        try:
            with ThreadPoolExecutor(1) as loader:
                upcoming: Future[list[Batch]] = loader.submit(self.load_step, progress.step)
                while not self._finished() and not out_of_time:
                    began = time.perf_counter()
                    batches = upcoming.result()
                    upcoming = loader.submit(self.load_step, progress.step + 1)
                    self.take_step(batches)
                    self.reporter.advance()
                    self._foretell(time.perf_counter() - began)
                    last = progress.step == run.steps
                    talk = progress.step % run.log_every == 0 or last  # when ranks agree on stopping
                    minutes = (time.perf_counter() - start) / 60
                    out_of_time = bool(run.max_minutes) and minutes > run.max_minutes
                    interrupted = self.stop is not None
                    if self.ranks.world > 1:
                        out_of_time = talk and self.ranks.any(out_of_time)
                        interrupted = talk and self.ranks.any(interrupted)
                    if talk:
                        self._check()
                        self._log()
                    if self.valid and (progress.step % run.valid_every == 0 or last):
                        self._check()
                        self._validate()
                    if progress.step % run.save_every == 0 or out_of_time or interrupted or self._finished():
                        self._check()
                        self._save()
                    if interrupted:
                        useful = "" if self.keep is None else ", which can be used as it is"
                        raise KeyboardInterrupt(
                            f"stopped at step {progress.step} of {run.steps}; give the same command again to "
                            f"resume from {self.directory.path}{useful}"
                        )
            if progress.step < run.steps and self._finished():
                self.reporter.say(f"stopped early: no better validation loss since step {progress.best_step}")
            return self._result()
        finally:
            self.reporter.close()

    def _finished(self) -> bool:
        run = self.recipe.run
        early = run.patience > 0 and self.progress.worse >= run.patience
        return early or self.progress.step >= run.steps

    def _result(self) -> TrainResult:
        """The weights to keep into the model; without validation, those are the last ones."""
        progress = self.progress
        last = progress.best_step is None or self.recipe.run.keep == "last"
        if last:
            average = self.average.at(progress.step)
            if average is not None:
                self.average.fill(average)
            if self.ranks.rank == 0:
                write_tensors(self.directory.best, self.average.weights)
        self.ranks.wait()
        if not last:
            self.average.fill(read_tensors(self.directory.best))
        return TrainResult(
            step=progress.step,
            steps=self.recipe.run.steps,
            finished=self._finished(),
            best_loss=progress.best_loss,
            best_step=progress.best_step,
            weights=self.directory.best,
        )
