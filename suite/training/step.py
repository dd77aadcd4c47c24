"""One optimizer step: the gradient of this rank's share of the examples, clipping, and the update."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from suite.errors import ConfigError, SuiteError
from suite.model.transformer import Block
from suite.training.batches import (
    Batch,
    ExampleSource,
    FixedBatches,
    ShuffledSource,
    StepBatches,
    TokenBatches,
    micro_batches,
)
from suite.training.device import seed_step, use_bfloat16
from suite.training.distributed import Ranks
from suite.training.loss import LossFunction
from suite.training.optimizer import build_optimizers, rate_factor, set_rates
from suite.training.recipe import Recipe


class Stepper:
    """Takes the optimizer steps of a run, and sums up the losses of their batches.

    Args:
        model: starts from its present weights; all ranks get those of the first.
        source: of examples; with `batch.tokens` it must be a `ShuffledSource`.
        recipe: of the run.
        loss: (model, batch) -> (sum, divisor, other sums).
        device: where the model is trained.
        state: file of the last saved state, for the error that the loss is not finite.

    Attributes:
        recipe: of the run, with the number of steps that its epochs take.
        ranks: this process among those that train together.
        bfloat16: whether the products are computed in it.
        optimizers: of the model's parameters.
        tokens: read in the whole run, padding left out. It stays on the device, as all sums do, so that no step waits.
    """

    def __init__(
        self,
        model: nn.Module,
        source: ExampleSource,
        recipe: Recipe,
        loss: LossFunction,
        device: torch.device,
        state: Path,
    ) -> None:
        self.model, self.source, self.loss = model.to(device), source, loss
        self.device, self.state = device, state
        self.ranks = Ranks(device)
        self.ranks.share_weights(model)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.bfloat16 = use_bfloat16(recipe.run.precision, device)
        self.optimizers = build_optimizers(model, recipe.optimizer, torch.bfloat16 if self.bfloat16 else torch.float32)
        self.batches = _batches(source, recipe)
        if recipe.run.epochs:
            steps = max(recipe.run.least_steps, self.batches.steps(recipe.run.epochs))
            recipe = dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, steps=steps, epochs=0.0))
        self.recipe = recipe
        self.tokens: Tensor | float = 0.0
        self._total: Tensor | float = 0.0  # this and the next two: since the last call of `collect`
        self._count: Tensor | float = 0.0
        self._extras: dict[str, Tensor | float] = {}
        self._norm: Tensor | float = 0.0
        self._bad: Tensor = torch.full((), -1, device=device)  # first step whose loss was not a number
        if recipe.run.compile:
            # the CPU's attention kernel fails when compiled for lengths that vary (torch 2.13)
            dynamic = None if device.type == "cuda" else False
            for module in model.modules():
                if isinstance(module, Block):
                    module.compile(dynamic=dynamic)

    def load(self, step: int) -> list[Batch]:
        """This rank's batches of a step."""
        indices = self.batches.indices(step)
        return list(self.cut(self.source, indices, self.recipe.batch.micro_tokens))

    def cut(self, source: ExampleSource, indices: Sequence[int], micro_tokens: int) -> Iterator[Batch]:
        """This rank's share of some examples, in batches of at most `micro_tokens` tokens (0: one batch)."""
        ranks = self.ranks
        return micro_batches(source, indices, rank=ranks.rank, world=ranks.world, micro_tokens=micro_tokens)

    def take(self, batches: list[Batch], step: int) -> None:
        """Take a step on this rank's batches.

        Raises:
            SuiteError: the loss or the gradient is not finite (a GPU reports it in `check` alone).
        """
        seed_step(self.recipe.seed, step, self.ranks.rank)
        total: Tensor | float = 0.0
        count: Tensor | float = 0.0
        real: Tensor | float = float(sum(batch.real for batch in batches))
        for batch in batches:
            summed, divisor, extras = self._losses(batch)
            summed.backward()  # type: ignore[no-untyped-call]
            total, count = total + summed.detach(), count + divisor
            for name, value in extras.items():
                self._extras[name] = self._extras.get(name, 0.0) + value.detach()
        self.ranks.sum_gradients(self.parameters)
        total, count, real = self.ranks.sum([total, count, real])
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        self._norm = torch.nn.utils.get_total_norm(gradients) / count
        finite = torch.isfinite(self._norm) & torch.isfinite(torch.as_tensor(total))
        self._bad = torch.where(finite | (self._bad >= 0), self._bad, step)
        if self.device.type == "cpu":  # a GPU would have to wait; it is asked before anything is kept
            self.check()
        scale = 1.0 / count
        if self.recipe.optimizer.clip:
            scale = scale * (self.recipe.optimizer.clip / (self._norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, scale)
        set_rates(self.optimizers, rate_factor(step, self.recipe.run.steps, self.recipe.schedule))
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self._total, self._count, self.tokens = self._total + total, self._count + count, self.tokens + real

    def check(self) -> None:
        """Raise a SuiteError if the loss or the gradient of a step was not finite; waits for the device."""
        bad = int(self._bad)
        if bad >= 0:
            saved = f"{self.state} is the last good state" if self.state.exists() else "none saved"
            raise SuiteError(
                f"loss or gradient is not finite at step {bad} ({saved}); "
                "lower optimizer.lr or lengthen schedule.warmup"
            )

    def collect(self) -> tuple[dict[str, float], dict[str, float]]:
        """Numbers for a row of the log: loss, learning rate and norm of the gradient, and the loss function's others.

        The losses are means over the target tokens of all ranks since the last call.
        """
        count = float(self._count)
        names = sorted(self._extras)
        values = self.ranks.sum([self._extras[name] for name in names]) if names else []
        numbers = {
            "loss": float(self._total) / count,
            "lr": self.optimizers[0].param_groups[0]["lr"],
            "grad_norm": float(self._norm),
        }
        self._total, self._count, self._extras = 0.0, 0.0, {}
        return numbers, {name: float(value) / count for name, value in zip(names, values, strict=True)}

    @torch.no_grad()
    def evaluate(self, batches: list[Batch]) -> tuple[float, dict[str, float]]:
        """Loss of the model on all ranks' batches, and the loss function's other numbers: means over target tokens."""
        total: Tensor | float = 0.0
        count: Tensor | float = 0.0
        sums: dict[str, Tensor | float] = {}
        self.model.eval()
        for batch in batches:
            summed, divisor, extras = self._losses(batch)
            total, count = total + summed, count + divisor
            sums = {name: sums.get(name, 0.0) + value for name, value in extras.items()}
        self.model.train()
        names = sorted(sums)
        total, count, *values = self.ranks.sum([total, count, *(sums[name] for name in names)])
        return float(total / count), {name: float(v / count) for name, v in zip(names, values, strict=True)}

    def _losses(self, batch: Batch) -> tuple[Tensor, float, dict[str, Tensor]]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            return self.loss(self.model, batch.to(self.device))


def _batches(source: ExampleSource, recipe: Recipe) -> StepBatches:
    """The examples of each step, by number or by tokens."""
    if not recipe.batch.tokens:
        return FixedBatches(source, recipe.batch.size)
    if not isinstance(source, ShuffledSource):
        raise ConfigError("batch.tokens needs a finite list of examples; with packed text, set batch.size")
    return TokenBatches(source, recipe.batch.tokens, recipe.seed)
