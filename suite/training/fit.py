"""From a recipe to a checkpoint: what `suite train` does."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from suite.checkpoint import save_checkpoint
from suite.model import Transformer
from suite.task import TrainingData, find_task
from suite.training.loop import TrainResult, train
from suite.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A finished, or for now stopped, run.

    Attributes:
        result: how the training loop ended.
        checkpoint: directory that `suite.load` reads.
        parameters: of the model, tied weights counted once.
    """

    result: TrainResult
    checkpoint: Path
    parameters: int


def cache_directory() -> Path:
    """Where tokenised text and the like is kept: $SUITE_CACHE, or suite/ in the user's cache folder."""
    if named := os.environ.get("SUITE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "suite"


def fit(
    recipe: Recipe,
    out: Path | str,
    *,
    device: str = "auto",
    cache: Path | str | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Fitted:
    """Train what a recipe describes, or go on with it if `out` holds a run that was stopped.

    Args:
        recipe: of the run.
        out: directory of the run; the checkpoint is its folder `checkpoint`.
        device: "auto", or a device's name.
        cache: for tokenised data (None: `cache_directory()`).
        say: takes lines for the person at the terminal.

    Returns:
        where the checkpoint is, and how good.

    Raises:
        SuiteError: the data or the recipe does not fit, the loss is no longer a number, or the disk is full.
        KeyboardInterrupt: the run was interrupted; its state is saved.

    Example:
        >>> recipe = Recipe.load("tasks/lm/small.toml", ["data.train=['notes.txt']"])  # doctest: +SKIP
        >>> fit(recipe, "runs/notes").checkpoint  # doctest: +SKIP
        PosixPath('runs/notes/checkpoint')
    """
    out = Path(out)
    task = find_task(recipe.task)
    data = task.prepare(recipe, Path(cache) if cache is not None else cache_directory())
    for note in data.notes:
        say(note)
    config = recipe.model_config(data.vocab_size)
    torch.manual_seed(recipe.seed)
    model = Transformer(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    say(f"model: {parameters:,} parameters")
    result = train(model, data.train, recipe, out=out, valid=data.valid, device=device)
    checkpoint = out / "checkpoint"
    if int(os.environ.get("RANK", 0)) == 0:
        save_checkpoint(
            checkpoint,
            config,
            model.state_dict(),
            data.tokenizer,
            task=recipe.task,
            storage=recipe.run.storage,
            extra=data.extra,
            card=_card(recipe, data, result, parameters),
        )
    return Fitted(result=result, checkpoint=checkpoint, parameters=parameters)


def _card(recipe: Recipe, data: TrainingData, result: TrainResult, parameters: int) -> str:
    """The start of a model card: what is known without asking anybody."""
    loss = (
        "none taken" if result.best_loss is None else f"{result.best_loss:.4f} nats a token (step {result.best_step})"
    )
    lines = [
        f"# A `{recipe.task}` model",
        "",
        f"- {parameters:,} parameters, {result.step:,} of {recipe.run.steps:,} steps, seed {recipe.seed}",
        f"- validation loss: {loss}",
        *(f"- {note}" for note in data.notes),
        "- data, licence and limits: to be written by whoever publishes this model",
    ]
    return "\n".join(lines) + "\n"
