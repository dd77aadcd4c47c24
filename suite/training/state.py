"""The files of a training run; a run killed at any moment resumes as if it had never stopped.

    last/state.safetensors        weights, optimizer state, average; the step and the recipe in its metadata
    best/weights.safetensors      the weights with the best validation loss, averaged if the recipe says so
    snapshots/STEP.safetensors    weights for the mean of the last few
    checkpoint/                   what `suite.load` reads, from the first saved state on; see `suite.training.fit`
    metrics.jsonl                 a row for each log step and each validation

Random states are not saved: each step seeds its own generators. Each file is replaced by a rename, so it is either the
complete new version or the old one.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from suite.checkpoint import check_shapes, read_tensors, write_atomic, write_tensors
from suite.errors import CheckpointError
from suite.files import free_name
from suite.training.optimizer import optimizer_tensors, restore_optimizers

FORMAT = 1


@dataclasses.dataclass
class Progress:
    """The numbers of a run so far.

    Args:
        step: optimizer steps taken.
        best_loss, best_step: the best validation so far.
        worse: validations since.
        tokens: real tokens read.
        seconds: spent training, over all sessions.
    """

    step: int = 0
    best_loss: float | None = None
    best_step: int | None = None
    worse: int = 0
    tokens: int = 0
    seconds: float = 0.0


class RunDirectory:
    """The files of one run.

    Args:
        path: made when first written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / "last" / "state.safetensors"
        self.best = path / "best" / "weights.safetensors"
        self.metrics = path / "metrics.jsonl"

    def snapshot(self, step: int) -> Path:
        """File of the weights at `step`."""
        return self.path / "snapshots" / f"{step:08d}.safetensors"

    def save(
        self,
        model: nn.Module,
        optimizers: list[Optimizer],
        average: dict[str, Tensor] | None,
        progress: Progress,
        recipe: dict[str, Any],
        data: str,
    ) -> None:
        """Write the state, with the recipe and the digest of the data; the old file is replaced only at the end.

        Raises:
            CheckpointError: it could not be written.
        """
        tensors: dict[str, Tensor] = {f"weights/{name}": parameter for name, parameter in model.named_parameters()}
        tensors |= optimizer_tensors(optimizers, model)
        tensors |= {f"average/{name}": tensor for name, tensor in (average or {}).items()}
        header = {"format": FORMAT, "progress": dataclasses.asdict(progress), "recipe": recipe, "data": data}
        write_tensors(self.state, tensors, {"suite": json.dumps(header)})

    def header(self) -> dict[str, Any]:
        """Step, recipe and digest of the data of the saved state.

        Raises:
            CheckpointError: the file is damaged, or of a later version.
        """
        try:
            with safe_open(self.state, framework="pt") as file:
                header: dict[str, Any] = json.loads(file.metadata()["suite"])
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{self.state} is not a training state: {error}; remove it to start over") from error
        if not isinstance(header, dict) or not {"progress", "recipe"} <= header.keys():
            raise CheckpointError(f"{self.state} is not a training state; remove it to start over")
        if header.get("format") != FORMAT:
            raise CheckpointError(f"{self.state} is of format {header.get('format')}; this version reads {FORMAT}")
        return header

    def load(self, model: nn.Module, optimizers: list[Optimizer], average: dict[str, Tensor] | None) -> Progress:
        """Read the state into the model, the optimizers and the average.

        Raises:
            CheckpointError: the file is damaged, or belongs to another model.
        """
        header = self.header()
        tensors = read_tensors(self.state)
        targets = {f"weights/{name}": parameter.data for name, parameter in model.named_parameters()}
        targets |= {f"average/{name}": tensor for name, tensor in (average or {}).items()}
        check_shapes({name: t for name, t in tensors.items() if not name.startswith("optimizer/")}, targets, self.state)
        for name, target in targets.items():
            target.copy_(tensors[name])
        restore_optimizers(optimizers, model, tensors)
        return Progress(**header["progress"])

    def clean(self, step: int) -> str:
        """Remove what an interrupted session left behind: temporary files, and metrics after `step`.

        A file of metrics with a line that is none is moved aside, and its other lines are kept.

        Returns:
            a notice of that for a person, or "".
        """
        for stray in self.path.glob("**/.*.tmp"):
            stray.unlink()
        if not self.metrics.exists():
            return ""
        *whole, last = self.metrics.read_bytes().split(b"\n")
        steps = [_step_of(line) for line in whole]
        kept = [line + b"\n" for line, of in zip(whole, steps, strict=True) if of is not None and of <= step]
        if (of := _step_of(last)) is not None and of <= step:  # else it was cut off
            kept.append(last + b"\n")
        notice = ""
        if None in steps:
            aside = free_name(self.metrics)
            self.metrics.rename(aside)
            notice = f"{self.metrics} was damaged; it is now {aside.name}, and the rows that can be read are kept"
        write_atomic(self.metrics, b"".join(kept))
        return notice

    def prune_snapshots(self, keep: list[int]) -> None:
        """Remove the snapshots of steps not in `keep`."""
        kept = {self.snapshot(step) for step in keep}
        for file in self.path.glob("snapshots/*.safetensors"):
            if file not in kept:
                file.unlink()


def _step_of(line: bytes) -> int | None:
    """The step of a row of metrics; None if the line is no such row."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    step = row.get("step") if isinstance(row, dict) else None
    return step if type(step) is int else None
