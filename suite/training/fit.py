"""From a recipe to a checkpoint: what `suite train` does."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from suite.checkpoint import (
    Base,
    Checkpoint,
    Unfinished,
    check_shapes,
    fingerprint,
    mark_unfinished,
    read,
    resolve,
    save_checkpoint,
    untied,
    write_atomic,
)
from suite.errors import ConfigError
from suite.files import cache_directory, locked, move_aside
from suite.model import ModelConfig, Transformer
from suite.model.heads import Headed
from suite.model.lora import add_lora, additions
from suite.task import TrainingData, find_task
from suite.training.device import local_device
from suite.training.keeping import Kept
from suite.training.loop import TrainResult, train
from suite.training.recipe import Recipe

if TYPE_CHECKING:
    from suite.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """How a run ended, and where its checkpoint is.

    Attributes:
        result: how the training loop ended.
        checkpoint: directory that `suite.load` reads; it exists from the first saved state on.
        parameters: of the model, tied weights counted once.
    """

    result: TrainResult
    checkpoint: Path
    parameters: int


def fit(
    recipe: Recipe,
    out: Path | str,
    *,
    device: str = "auto",
    cache: Path | str | None = None,
    say: Callable[[str], object] | None = None,
) -> Fitted:
    """Train what a recipe describes, or resume it if `out` contains a run that was stopped.

    Args:
        recipe: of the run.
        out: directory of the run; the checkpoint is its folder `checkpoint`.
        device: "auto", or a device's name.
        cache: for tokenised data (None: `cache_directory()`).
        say: called with lines on the data and the model, for a person; the progress of training is then written to
            standard error (None: nothing is written).

    Returns:
        How the run ended, and where its checkpoint is.

    Raises:
        SuiteError: the data or the recipe does not fit, the loss is no longer a number, or the disk is full.
        KeyboardInterrupt: the run was interrupted; its state is saved, and its checkpoint can be used.

    Example:
        >>> recipe = Recipe.load("tasks/lm/small.toml", ["data.train=['notes.txt']"])  # doctest: +SKIP
        >>> fit(recipe, "runs/notes").checkpoint  # doctest: +SKIP
        PosixPath('runs/notes/checkpoint')
    """
    local_device(device)  # a wrong name is reported before data is read
    with _alone(out):
        data = find_task(recipe.task).prepare(recipe, Path(cache) if cache is not None else cache_directory())
        return _fit(recipe, data, out, device, say)


def _alone(out: Path | str) -> AbstractContextManager[None]:
    """Hold the lock on a run's directory; of several processes that train together, the first holds it for all."""
    if int(os.environ.get("RANK", 0)):
        return nullcontext()
    return locked(Path(out), ConfigError(f"another process trains in {out}; wait for it, or choose another --out"))


def fit_data(
    recipe: Recipe,
    data: TrainingData,
    out: Path | str,
    *,
    device: str = "auto",
    say: Callable[[str], object] | None = None,
) -> Fitted:
    """Train on data that a task has prepared; the other arguments, the result and the errors are those of `fit`."""
    with _alone(out):
        return _fit(recipe, data, out, device, say)


def _fit(
    recipe: Recipe, data: TrainingData, out: Path | str, device: str, say: Callable[[str], object] | None
) -> Fitted:
    tell = say or (lambda line: None)
    for note in data.notes:
        tell(note)
    model, transformer, base = start(recipe, data)
    if base is not None and base.unfinished is not None:
        tell(f"base model {recipe.base!r} is unfinished: {base.unfinished}")
    writer = _CheckpointWriter(Path(out) / "checkpoint", recipe, data, model, transformer, base)
    learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    trained = f", {learning:,} of them trained" if learning < writer.parameters else ""
    tell(f"model: {writer.parameters:,} parameters{trained}")
    result = train(
        model,
        data.train,
        recipe,
        out=out,
        valid=data.valid,
        loss=data.loss,
        device=device,
        show=say is not None,
        data=data_digest(data),
        keep=writer.keep,
    )
    if int(os.environ.get("RANK", 0)) == 0:
        writer.finish(result)
    return Fitted(result=result, checkpoint=writer.directory, parameters=writer.parameters)


class _CheckpointWriter:
    """Writes the checkpoint of a run, at each saved state and at its end.

    Args:
        directory: of the checkpoint.
        recipe, data: of the run.
        model, transformer, base: as `start` returns them.
    """

    def __init__(
        self,
        directory: Path,
        recipe: Recipe,
        data: TrainingData,
        model: nn.Module,
        transformer: Transformer,
        base: Checkpoint | None,
    ) -> None:
        self.directory, self.recipe, self.data = directory, recipe, data
        self.model, self.transformer = model, transformer
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self._base = base
        self._written = False

    def keep(self, status: Kept) -> None:
        """Write the checkpoint of the model as it is now, unfinished; if the weights are not new, only say its step."""
        unfinished = Unfinished(step=status.step, steps=status.steps)
        if status.new:
            self._write(dict(self.data.unfinished), status, unfinished)
            self._written = True
        else:
            mark_unfinished(self.directory, unfinished)

    def finish(self, result: TrainResult) -> None:
        """Write the checkpoint of the trained model, with what the task measures on it."""
        measured = dict(self.data.finish(self.model.eval()) if self.data.finish else {})
        self._write(measured, result, None if result.finished else Unfinished(step=result.step, steps=result.steps))

    def _write(self, settings: dict[str, Any], status: Kept | TrainResult, unfinished: Unfinished | None) -> None:
        """Write the checkpoint, with the task's settings of it; those that are tensors become tensors of its file."""
        tensors = {name: settings.pop(name) for name, value in list(settings.items()) if isinstance(value, Tensor)}
        left_out = self._left_out
        save_checkpoint(
            self.directory,
            self.transformer.config,
            additions(self.transformer) if left_out else self.transformer.state_dict(),
            None if self._written or left_out else self.data.tokenizer,
            task=self.recipe.task,
            head=self.model.output.state_dict() if isinstance(self.model, Headed) else None,
            base=left_out,
            storage=self.recipe.run.storage,
            extra=dict(self.data.extra) | settings,
            tensors=tensors,
            card=_card(self.recipe, self.data, status, self.parameters, unfinished is not None),
            unfinished=unfinished,
        )

    @functools.cached_property
    def _left_out(self) -> Base | None:
        """The base whose weights the checkpoint leaves out, or None if it has all weights."""
        base, tune = self._base, self.recipe.tune
        if base is None or not tune.keeps_base:
            return None
        rank = tune.rank if tune.kind == "lora" else 0
        weights = fingerprint(base.config, base.state_dict)
        return Base(name=self.recipe.base, fingerprint=weights, rank=rank, alpha=tune.alpha)


def start(recipe: Recipe, data: TrainingData) -> tuple[nn.Module, Transformer, Checkpoint | None]:
    """The model at step 0 with its head, the transformer in it, and the base that it starts from.

    Raises:
        ConfigError: see `build` and `check_vocabulary`.
    """
    torch.manual_seed(recipe.seed)
    base = read(resolve(recipe.base)) if recipe.base else None
    transformer = build(recipe, data.vocab_size, base)
    if base is not None and recipe.tune.kind != "scratch":
        check_vocabulary(recipe.base, base.tokenizer, data.tokenizer)
    return (Headed(transformer, data.outputs) if data.outputs else transformer), transformer, base


def kept(file: Path, recipe: Recipe, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Figures of a run, made once: read where `file` has them of this recipe, else made and written.

    Raises:
        ConfigError: `file` has figures of another recipe.
    """
    about = recipe.to_dict()
    if file.exists():
        try:
            found: dict[str, Any] = dict(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError) as error:
            move_aside(file, error)
        else:
            if found.pop("recipe", None) != about:
                raise ConfigError(f"{file} has figures of a different recipe; choose another --out, or remove it")
            return found
    found = make()
    write_atomic(file, (json.dumps(found | {"recipe": about}, indent=1) + "\n").encode())
    return found


def data_digest(data: TrainingData) -> str:
    """What tells data from other data, by which no run may go on: validation examples, some to learn from, settings.

    Numbers with a point do not count: fitted on the data, they may differ in the last place from machine to machine.
    """
    settings = json.loads(json.dumps(dict(data.extra)), parse_float=lambda number: None)
    about = [settings, data.vocab_size, data.outputs, data.tokenizer.digest if data.tokenizer else ""]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for example in itertools.chain((data.train[index] for index in range(16)), data.valid):
        digest.update(repr((example.prefix, example.target, example.label)).encode())
        digest.update(np.asarray(example.tokens, dtype=np.int64).tobytes())
    return digest.hexdigest()


def build(recipe: Recipe, vocab_size: int, base: Checkpoint | None) -> Transformer:
    """The transformer that a recipe starts from.

    Args:
        recipe: of the run; with a base, its table `model` changes the base's choices, but no shape of a weight.
        vocab_size: that the data needs.
        base: the checkpoint that `recipe.base` names.

    Raises:
        ConfigError: the table `model` does not fit the base, or there is something to tune and no base.
        CheckpointError: the table `model` changes the shape of a weight.
    """
    if base is None:
        if recipe.tune.kind != "full":
            raise ConfigError(f'tune.kind "{recipe.tune.kind}" needs a base model; set base')
        return Transformer(recipe.model_config(vocab_size))
    settings = {**base.config.to_dict(), **recipe.model}
    config = ModelConfig.from_dict(settings, "recipe")
    if vocab_size > config.vocab_size:
        raise ConfigError(
            f"the data has {vocab_size} token ids, but base model {recipe.base!r} has {config.vocab_size}"
        )
    transformer = Transformer(config)
    if recipe.tune.kind == "scratch":
        return transformer
    weights = untied(config, transformer.state_dict())
    check_shapes(base.state_dict, weights, base.directory)
    transformer.load_state_dict(base.state_dict, strict=not config.tie_embeddings)
    if recipe.tune.keeps_base:
        transformer.requires_grad_(False)
    if recipe.tune.kind == "lora":
        add_lora(transformer, recipe.tune.rank, recipe.tune.alpha)
    return transformer


def check_vocabulary(name: str, base: Tokenizer | None, data: Tokenizer | None) -> None:
    """Raise a ConfigError where a base model's weights would meet ids of another vocabulary."""
    if base is not None and data is not None and base.digest != data.digest:
        raise ConfigError(
            f"the data has a different vocabulary from base model {name!r}; leave out the recipe's table tokenizer"
        )


def _card(recipe: Recipe, data: TrainingData, status: Kept | TrainResult, parameters: int, unfinished: bool) -> str:
    """The start of a model card: what is known without asking anybody."""
    loss = (
        "not measured"
        if status.best_loss is None
        else f"{status.best_loss:.4f} nats per token (step {status.best_step})"
    )
    length = "unfinished: config.json says at which step" if unfinished else f"{status.step:,} optimizer steps"
    lines = [
        f"# A `{recipe.task}` model",
        "",
        f"- {parameters:,} parameters, {length}, seed {recipe.seed}",
        f"- validation loss: {loss}",
        *(f"- {note}" for note in data.notes),
        "- data, licence and limits: to be added by whoever publishes this model",
    ]
    return "\n".join(lines) + "\n"
