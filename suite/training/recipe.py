"""A recipe: everything that decides a training run, as one TOML file read into frozen dataclasses."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from suite.errors import ConfigError
from suite.files import open_input
from suite.model.config import ModelConfig
from suite.tables import check_keys, convert, field_names, from_table


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """Examples in an optimizer step.

    Args:
        size: examples a step; 0 when `tokens` decides.
        tokens: real tokens a step, for examples of many lengths; 0 when `size` decides.
        micro_tokens: most tokens in one forward pass, padding included; 0 for the whole step at once. It changes
            memory and speed, not what is learnt.
    """

    size: int = 0
    tokens: int = 0
    micro_tokens: int = 0

    def __post_init__(self) -> None:
        if (self.size > 0) == (self.tokens > 0) or min(self.size, self.tokens, self.micro_tokens) < 0:
            raise ConfigError("batch needs either batch.size (examples a step) or batch.tokens (tokens a step)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimizer and its settings.

    Args:
        kind: "adamw", or "muon" for the matrices of the blocks and AdamW for the rest.
        lr: full learning rate.
        matrix_lr: full learning rate of the matrices that Muon updates (None: lr).
        beta1, beta2, eps: of AdamW. Source: Loshchilov and Hutter 2019.
        momentum: of Muon.
        weight_decay: of matrices; vectors have none.
        clip: largest norm of the whole gradient; 0 for no limit.
    """

    kind: Literal["adamw", "muon"] = "adamw"
    lr: float = 1e-3
    matrix_lr: float | None = None
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    momentum: float = 0.95
    weight_decay: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.lr <= 0 or (self.matrix_lr is not None and self.matrix_lr <= 0):
            raise ConfigError(f"optimizer.lr is {self.lr} (matrix_lr {self.matrix_lr}), but must be above 0")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and 0 <= self.momentum < 1):
            raise ConfigError("optimizer.beta1, beta2 and momentum must be in [0, 1)")
        if self.clip < 0 or self.weight_decay < 0 or self.eps <= 0:
            raise ConfigError("optimizer.clip and weight_decay must not be negative, and eps must be above 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """Learning rate by step; see `suite.training.optimizer.rate_factor`.

    Args:
        kind: shape of the curve after the warm-up.
        warmup: steps from near 0 to the full rate; below 1, a share of all steps.
        cooldown: share of all steps over which a trapezoid falls.
        final: share of the full rate at the end.
    """

    kind: Literal["cosine", "linear", "trapezoid", "constant"] = "cosine"
    warmup: float = 0
    cooldown: float = 0.2
    final: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0 or not 0 <= self.final <= 1 or not 0 <= self.cooldown <= 1:
            raise ConfigError("schedule.warmup must not be negative; final and cooldown must be in [0, 1]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AveragingConfig:
    """Which weights are validated and kept as the best.

    Args:
        kind: "none" (the weights themselves), "ema" (exponential moving average of all steps) or "last" (mean of
            the last few snapshots).
        decay: of the EMA, by step; it starts lower, so that the first weights are soon forgotten.
        count: snapshots in the mean.
        every: steps between snapshots.
    """

    kind: Literal["none", "ema", "last"] = "none"
    decay: float = 0.999
    count: int = 5
    every: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1 or self.count < 1 or self.every < 1:
            raise ConfigError("averaging.decay must be in [0, 1); count and every must be at least 1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The loss of next-token prediction.

    Args:
        smoothing: label smoothing.
        source_weight: weight of the tokens before an example's target; those of the target have weight 1.
    """

    smoothing: float = 0.0
    source_weight: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1 or self.source_weight < 0:
            raise ConfigError("loss.smoothing must be in [0, 1) and loss.source_weight not negative")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """Which weights of a base model are trained; see `suite.model.lora`.

    Args:
        kind: "full" (all), "head" (only the task's head), "lora" (low-rank additions to the blocks' matrices, and
            the head) or "scratch" (all, from random values: only shape and tokenizer come from the base, to compare
            with the others).
        rank: of the low-rank additions.
        alpha: the additions are scaled by alpha / rank.
    """

    kind: Literal["full", "head", "lora", "scratch"] = "full"
    rank: int = 16
    alpha: float = 16.0

    @property
    def keeps_base(self) -> bool:
        """Whether the base's weights stay frozen, with the trained weights stored separately."""
        return self.kind in ("head", "lora")

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha <= 0:
            raise ConfigError(f"tune.rank is {self.rank} and tune.alpha {self.alpha}; both must be above 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Length of a run, how often it reports and saves, and its precision.

    Args:
        steps: optimizer steps of the whole run; 0 when `epochs` decides.
        epochs: passes over the training examples, for a finite list of them; 0 when `steps` decides.
        least_steps: with `epochs`, steps to take even where the examples are few.
        log_every, valid_every, save_every: steps between log rows, validations, and saved states.
        patience: validations without a better loss before stopping early; 0 to never stop early.
        max_minutes: save and stop after this time, to be resumed; 0 for no limit.
        precision: "bfloat16" (autocast), "float32", or "auto": bfloat16 where the device computes it faster.
        compile: whether blocks are compiled; the first step then takes a minute, and on a CPU so does the first batch
            of each new length.
        tensorboard: whether to write TensorBoard's event files too.
        keep: which weights the checkpoint gets: those of the "best" validation loss, or the "last".
        storage: type of the weights in the finished checkpoint.
    """

    steps: int = 0
    epochs: float = 0.0
    least_steps: int = 1
    log_every: int = 10
    valid_every: int = 100
    save_every: int = 100
    patience: int = 0
    max_minutes: float = 0.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    tensorboard: bool = False
    keep: Literal["best", "last"] = "best"
    storage: Literal["float32", "float16", "bfloat16", "int8"] = "float16"

    def __post_init__(self) -> None:
        if (self.steps > 0) == (self.epochs > 0) or min(self.steps, self.epochs) < 0:
            raise ConfigError(
                f"run.steps is {self.steps} and run.epochs {self.epochs:g}: exactly one of them must be above 0"
            )
        for name in ("log_every", "valid_every", "save_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"run.{name} is {getattr(self, name)}, but must be at least 1")
        if self.patience < 0 or self.max_minutes < 0:
            raise ConfigError("run.patience and run.max_minutes must not be negative")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a training run.

    Args:
        task: name of the task.
        run, batch, optimizer, schedule, averaging, loss: see their classes.
        seed: of weights, batches and dropout.
        base: name of the model to start from, as for `suite.load`; "" to start from nothing.
        tune: which weights of the base are trained.
        model: fields of `ModelConfig`; the vocabulary's size may be left to the tokenizer.
        tokenizer, data: tables that the task's reader checks.
        options: the table named after the task, which the task checks.
    """

    task: str
    run: RunConfig
    batch: BatchConfig
    seed: int = 0
    base: str = ""
    tune: TuneConfig = TuneConfig()
    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: dict[str, Any] = dataclasses.field(default_factory=dict)
    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    averaging: AveragingConfig = AveragingConfig()
    loss: LossConfig = LossConfig()
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 63:
            raise ConfigError(f"seed is {self.seed}, but must be from 0 to 2**63 - 1")

    @classmethod
    def load(cls, path: Path | str, overrides: Iterable[str] = ()) -> Recipe:
        """The recipe in a file, with some values overridden.

        Args:
            path: a TOML file.
            overrides: "table.key=value"; a value that is not TOML is taken as text.

        Raises:
            ConfigError: the file cannot be read, or a key is unknown (the nearest is named) or of the wrong type.

        Example:
            >>> Recipe.load("tasks/lm/recipe.toml", ["optimizer.lr=3e-4"]).optimizer.lr
            0.0003
        """
        try:
            with open_input(Path(path)) as stream:
                table = tomllib.loads(stream.read().decode())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            fault = error.strerror if isinstance(error, OSError) else None
            raise ConfigError(f"cannot read recipe {path}: {fault or error}") from error
        for override in overrides:
            _override(table, override)
        return cls.from_dict(table, str(path))

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], where: str = "recipe") -> Recipe:
        """The recipe that `to_dict` made a table of; the task's options may also be in a table named after the task."""
        table = dict(table)
        task = table.get("task")
        if isinstance(task, str) and task in table and task not in field_names(cls):
            table["options"] = table.pop(task)
        recipe = from_table(cls, table, where)
        check_keys(recipe.model, field_names(ModelConfig), where, "model.")
        hints = typing.get_type_hints(ModelConfig)
        for key, value in recipe.model.items():
            convert(hints[key], value, where, f"model.{key}")
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """The recipe as plain JSON values, from which `from_dict` makes the same recipe."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    def differences(self, other: Recipe) -> Iterator[tuple[str, Any, Any]]:
        """Dotted keys that differ, with the value here and in `other`."""
        yield from _differences(self.to_dict(), other.to_dict(), "")

    def model_config(self, vocab_size: int) -> ModelConfig:
        """The configuration of the model.

        Args:
            vocab_size: of the tokenizer.

        Raises:
            ConfigError: the recipe states another vocabulary size, or its fields contradict each other.
        """
        stated = self.model.get("vocab_size", vocab_size)
        if stated != vocab_size:
            raise ConfigError(f"model.vocab_size is {stated}, but the tokenizer has {vocab_size} tokens")
        return ModelConfig.from_dict({**self.model, "vocab_size": vocab_size}, "recipe")


def _differences(here: Mapping[str, Any], there: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any, Any]]:
    for key in {**here, **there}:
        old, new = here.get(key), there.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield prefix + key, old, new


def _override(table: dict[str, Any], override: str) -> None:
    """Set the value of "a.b=value" in `table`."""
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"--set {override!r} is not of the form table.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for depth, key in enumerate(keys[:-1]):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override!r}: {'.'.join(keys[: depth + 1])} is not a table")
    table[keys[-1]] = value
