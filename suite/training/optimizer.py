"""AdamW, Muon and the learning-rate schedule.

Both optimizers decay matrices alone: never norms, biases or other vectors. The embedding tables do decay, as in GPT-2's
descendants: the token table is mostly the output head as well, and a head that only grows makes logits that only grow.
So do the tables of relative positions, which lie inside the blocks but are embeddings, and not for Muon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from suite.errors import ConfigError
from suite.training.recipe import OptimizerConfig, ScheduleConfig


@torch.no_grad()
def orthogonalise(matrices: Tensor, steps: int = 5, dtype: torch.dtype = torch.float32) -> Tensor:
    """Roughly U V^T of each matrix U S V^T, by Newton-Schulz iteration.

    Args:
        matrices: (n, rows, columns).
        steps: of the iteration; five bring singular values from 1e-3 to around 1.
        dtype: of the iteration. bfloat16 is enough, but a CPU without instructions for it emulates them, a hundred
            times slower than float32.

    Returns:
        as `matrices`, of type `dtype`; singular values between about 0.7 and 1.2.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks" (with its coefficients).
    """
    x: Tensor
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.to(dtype)
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.mT if tall else x


class Muon(Optimizer):
    """Momentum with an orthogonalised update, so that all directions of a matrix move equally far.

    The update is scaled to the size that Adam's usually has, so that one learning rate serves both.

    Args:
        params: matrices.
        lr: learning rate.
        momentum: of the gradient's running mean, Nesterov's form.
        weight_decay: share of the weights taken off a step, times lr.
        dtype: of the Newton-Schulz iteration.

    Source: Jordan et al. 2024; the scale: Liu et al. 2025, "Muon is scalable for LLM training".
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float,
        weight_decay: float,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step; matrices of one shape are orthogonalised together."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}  # (parameter, gradient)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append((parameter, parameter.grad))
            for (rows, columns), pairs in shapes.items():
                updates = []
                for parameter, gradient in pairs:
                    state = self.state[parameter]
                    if not state:
                        state["momentum"] = torch.zeros_like(parameter)
                    state["momentum"].lerp_(gradient, 1 - group["momentum"])
                    updates.append(gradient.lerp(state["momentum"], group["momentum"]))
                scale = 0.2 * math.sqrt(max(rows, columns)) * group["lr"]
                levelled = orthogonalise(torch.stack(updates), dtype=self.dtype)
                for (parameter, _), update in zip(pairs, levelled, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-scale)


def build_optimizers(model: nn.Module, config: OptimizerConfig, dtype: torch.dtype = torch.float32) -> list[Optimizer]:
    """The optimizers of a model's parameters, each parameter in one of them.

    Args:
        model: its matrices inside `blocks`, but for tables of relative positions, are what Muon takes.
        config: of the recipe.
        dtype: of Muon's Newton-Schulz iteration.

    Returns:
        AdamW, Muon or both, whichever has something to learn; each group keeps its full rate in "base_lr".

    Raises:
        ConfigError: no parameter learns.
    """
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    hidden: list[Tensor] = []
    rest: list[Tensor] = []
    for name, parameter in named:
        matrix = parameter.dim() == 2 and "blocks." in name and not name.endswith(".relative")
        (hidden if config.kind == "muon" and matrix else rest).append(parameter)
    if not named:
        raise ConfigError('nothing would be trained: tune.kind "head" is for a task with a head')
    groups: list[dict[str, Any]] = [
        {"params": [p for p in rest if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizers: list[Optimizer] = []
    if rest:
        groups = [group for group in groups if group["params"]]
        optimizers.append(AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), eps=config.eps, fused=True))
    if hidden:
        rate = config.lr if config.matrix_lr is None else config.matrix_lr
        optimizers.append(Muon(hidden, rate, config.momentum, config.weight_decay, dtype))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers


def rate_factor(step: int, steps: int, schedule: ScheduleConfig) -> float:
    """The factor of the learning rate at a step, in [0, 1].

    Args:
        step: from 0.
        steps: of the whole run.
        schedule: warm-up steps, then cosine from 1 to `final`, linear from 1 to `final`, a trapezoid (1, then linear
            to `final` over the last `cooldown` share of steps), or constant.

    Returns:
        in [0, 1], above 0 at step 0.
    """
    warmup = schedule.warmup if schedule.warmup >= 1 else math.ceil(schedule.warmup * steps)
    if step < warmup:
        return (step + 1) / warmup
    if schedule.kind == "constant":
        return 1.0
    start = warmup
    if schedule.kind == "trapezoid":
        start = max(start, steps - round(schedule.cooldown * steps))
    # the last step is one short of the end, so that with final = 0 it still learns
    progress = min(1.0, max(0.0, (step - start) / max(1, steps - start)))
    height = (1 + math.cos(math.pi * progress)) / 2 if schedule.kind == "cosine" else 1 - progress
    return schedule.final + (1 - schedule.final) * height


def set_rates(optimizers: Iterable[Optimizer], factor: float) -> None:
    """Scale every group's learning rate from its full rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base_lr"] * factor


def optimizer_tensors(optimizers: Iterable[Optimizer], model: nn.Module) -> dict[str, Tensor]:
    """The state tensors of all optimizers, named "optimizer/KEY/PARAMETER"."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"optimizer/{key}/{names[parameter]}": value
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def restore_optimizers(optimizers: Iterable[Optimizer], model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned; other names in `tensors` are ignored."""
    found: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        kind, _, rest = key.partition("/")
        if kind == "optimizer":
            field, _, name = rest.partition("/")
            found.setdefault(name, {})[field] = value
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                for field, value in found.get(names[parameter], {}).items():
                    optimizer.state[parameter][field] = value.to(parameter.device)
