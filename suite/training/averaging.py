"""Averages of the weights over training, which validate better than the last weights do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from suite.checkpoint import read_tensors, write_tensors
from suite.training.recipe import AveragingConfig
from suite.training.state import RunDirectory


class Average:
    """The average of a model's weights that a recipe asks for.

    Args:
        model: whose weights are averaged.
        config: of the recipe.
        directory: where snapshots for the mean of the last few are.

    Source: EMA as in Polyak and Juditsky 1992, with the starting decay of TensorFlow's ExponentialMovingAverage;
    mean of the last checkpoints as in Vaswani et al. 2017, section 6.1.
    """

    def __init__(self, model: nn.Module, config: AveragingConfig, directory: RunDirectory) -> None:
        self.config, self.directory = config, directory
        self.weights = {name: parameter.data for name, parameter in model.named_parameters()}
        self.ema: dict[str, Tensor] | None = None
        if config.kind == "ema":
            self.ema = {name: tensor.clone() for name, tensor in self.weights.items()}

    @torch.no_grad()
    def update(self, step: int, write: bool) -> None:
        """Add the weights after `step` steps to the average; `write` is True on the rank that writes snapshots."""
        if self.ema is not None:
            decay = min(self.config.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(list(self.ema.values()), list(self.weights.values()), 1 - decay)
        elif self.config.kind == "last" and step % self.config.every == 0 and write:
            write_tensors(self.directory.snapshot(step), self.weights)

    def snapshots(self, step: int) -> list[int]:
        """Steps whose weights make up the mean at `step`."""
        if self.config.kind != "last":
            return []
        return list(range(self.config.every, step + 1, self.config.every))[-self.config.count :]

    def at(self, step: int) -> dict[str, Tensor] | None:
        """Averaged weights after `step` steps, or None without averaging or before the first snapshot."""
        if self.ema is not None:
            return self.ema
        steps = self.snapshots(step)
        if not steps:
            return None
        mean = {name: torch.zeros_like(tensor) for name, tensor in self.weights.items()}
        for snapshot in steps:
            for name, tensor in read_tensors(self.directory.snapshot(snapshot)).items():
                mean[name].add_(tensor.to(mean[name].device), alpha=1 / len(steps))
        return mean

    @contextmanager
    def in_place(self, weights: dict[str, Tensor] | None) -> Iterator[None]:
        """The model with these weights (None: its own), inside a `with`; afterwards it has its own again."""
        if weights is None:
            yield
            return
        kept = {name: tensor.clone() for name, tensor in self.weights.items()}
        try:
            self.fill(weights)
            yield
        finally:
            self.fill(kept)

    def fill(self, weights: dict[str, Tensor]) -> None:
        """Put `weights` into the model."""
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])
