"""Data-parallel training in several processes started by `torchrun`; a single process needs no setup."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn


class Ranks:
    """The group of processes that train together.

    Under `torchrun`, this process joins the others (NCCL on CUDA, gloo elsewhere); otherwise it is alone and every
    method returns at once.

    Args:
        device: the device of this process.
    """

    def __init__(self, device: torch.device) -> None:
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0")) if self.world > 1 else 0
        self.device = device
        if self.world > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def share_weights(self, model: nn.Module) -> None:
        """Give every rank the weights of the first."""
        if self.world > 1:
            for parameter in model.parameters():
                dist.broadcast(parameter.data, src=0)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace gradients by their sums over ranks; a rank that had no rows brings zeros."""
        if self.world == 1:
            return
        parameters = list(parameters)
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]
        )  # one message instead of one a parameter
        dist.all_reduce(flat)
        for parameter, gradient in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
            parameter.grad = gradient.view_as(parameter)

    def sum(self, values: Sequence[Tensor | float]) -> list[Tensor | float]:
        """Sums over ranks of a few numbers, without waiting for them."""
        if self.world == 1:
            return list(values)
        packed = torch.stack([torch.as_tensor(value, dtype=torch.float64, device=self.device) for value in values])
        dist.all_reduce(packed)
        return list(packed.unbind())

    def any(self, flag: bool) -> bool:
        """Whether `flag` is True on any rank."""
        if self.world == 1:
            return flag
        return bool(self.sum([float(flag)])[0] > 0)

    def wait(self) -> None:
        """Return once every rank is here."""
        if self.world > 1:
            dist.barrier()
