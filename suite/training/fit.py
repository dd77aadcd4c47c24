"""From a recipe to a checkpoint: what `suite train` does."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
from collections.abc import Callable
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
from suite.model import ModelConfig, Transformer
from suite.model.heads import Headed
from suite.model.lora import add_lora, additions
from suite.task import TrainingData, find_task
from suite.training.loop import Kept, TrainResult, train
from suite.training.recipe import Recipe

if TYPE_CHECKING:
    from suite.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A finished, or for now stopped, run.

    Attributes:
        result: how the training loop ended.
        checkpoint: directory that `suite.load` reads; it stands there from the first saved state on.
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
    say: Callable[[str], object] | None = None,
) -> Fitted:
    """Train what a recipe describes, or go on with it if `out` holds a run that was stopped.

    Args:
        recipe: of the run.
        out: directory of the run; the checkpoint is its folder `checkpoint`.
        device: "auto", or a device's name.
        cache: for tokenised data (None: `cache_directory()`).
        say: takes lines on the data and the model, for a person; how training goes then stands on standard error (None:
            nothing is said).

    Returns:
        where the checkpoint is, and how good.

    Raises:
        SuiteError: the data or the recipe does not fit, the loss is no longer a number, or the disk is full.
        KeyboardInterrupt: the run was interrupted; its state is saved, and its checkpoint can be used.

    Example:
        >>> recipe = Recipe.load("tasks/lm/small.toml", ["data.train=['notes.txt']"])  # doctest: +SKIP
        >>> fit(recipe, "runs/notes").checkpoint  # doctest: +SKIP
        PosixPath('runs/notes/checkpoint')
    """
    data = find_task(recipe.task).prepare(recipe, Path(cache) if cache is not None else cache_directory())
    return fit_data(recipe, data, out, device=device, say=say)


def fit_data(
    recipe: Recipe,
    data: TrainingData,
    out: Path | str,
    *,
    device: str = "auto",
    say: Callable[[str], object] | None = None,
) -> Fitted:
    """What `fit` does once a task has prepared its data; arguments and errors are those of `fit`."""
    out = Path(out)
    tell = say or (lambda line: None)
    for note in data.notes:
        tell(note)
    model, transformer, base = start(recipe, data)
    if base is not None and base.unfinished is not None:
        tell(f"base model {recipe.base!r} is unfinished: {base.unfinished}")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    tell(f"model: {parameters:,} parameters" + (f", {learning:,} of them trained" if learning < parameters else ""))
    checkpoint = out / "checkpoint"

    @functools.cache
    def added() -> Base | None:
        """What the checkpoint says of the base that it leaves out."""
        if base is None or not recipe.tune.keeps_base:
            return None
        rank = recipe.tune.rank if recipe.tune.kind == "lora" else 0
        weights_of_base = fingerprint(base.config, base.state_dict)
        return Base(name=recipe.base, fingerprint=weights_of_base, rank=rank, alpha=recipe.tune.alpha)

    def write(found: dict[str, Any], status: Kept | TrainResult, unfinished: Unfinished | None, first: bool) -> None:
        """Write the checkpoint of the model as it is now, with what the task found on it."""
        tensors = {name: found.pop(name) for name, value in list(found.items()) if isinstance(value, Tensor)}
        save_checkpoint(
            checkpoint,
            transformer.config,
            additions(transformer) if added() else transformer.state_dict(),
            data.tokenizer if first and not added() else None,
            task=recipe.task,
            head=model.output.state_dict() if isinstance(model, Headed) else None,
            base=added(),
            storage=recipe.run.storage,
            extra=dict(data.extra) | found,
            tensors=tensors,
            card=_card(recipe, data, status, parameters, unfinished is not None),
            unfinished=unfinished,
        )

    written = False

    def keep(status: Kept) -> None:
        nonlocal written
        unfinished = Unfinished(step=status.step, steps=status.steps)
        if status.new:
            write(dict(data.unfinished), status, unfinished, not written)
            written = True
        else:
            mark_unfinished(checkpoint, unfinished)

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
        keep=keep,
    )
    if int(os.environ.get("RANK", 0)) == 0:
        found = dict(data.finish(model.eval()) if data.finish else {})
        unfinished = None if result.finished else Unfinished(step=result.step, steps=result.steps)
        write(found, result, unfinished, not written)
    return Fitted(result=result, checkpoint=checkpoint, parameters=parameters)


def start(recipe: Recipe, data: TrainingData) -> tuple[nn.Module, Transformer, Checkpoint | None]:
    """What learns at step 0: the model with its head, the transformer in it, and the base that it starts from.

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
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
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
    config = ModelConfig.from_dict(settings)
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
