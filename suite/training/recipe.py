"""A recipe: everything that decides a training run, as one TOML file over frozen dataclasses.

`from_table` turns any table into any dataclass and names what does not fit; tasks use it for tables of their own.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from suite.errors import ConfigError
from suite.model.config import ModelConfig

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """How much an optimizer step sees.

    Args:
        size: examples a step; 0 when `tokens` decides.
        tokens: real tokens a step, for examples of many lengths; 0 when `size` decides.
        micro_tokens: tokens in one forward pass at most, padding included; 0 for the whole step at once. It changes
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
    """How gradients become steps.

    Args:
        kind: "adamw", or "muon" for the matrices of the blocks and AdamW for the rest.
        lr: full learning rate.
        matrix_lr: full learning rate of what Muon takes (None: lr).
        beta1, beta2, eps: AdamW's. Source: Loshchilov and Hutter 2019.
        momentum: Muon's.
        weight_decay: of matrices.
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
    """How the learning rate moves; see `suite.training.optimizer.rate_factor`.

    Args:
        kind: its shape after the warm-up.
        warmup: steps from near 0 to the full rate; below 1, the share of all steps that they are.
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
        decay: of the EMA a step; it starts lower, so that the first weights are soon forgotten.
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
    """What next-token prediction is charged for.

    Args:
        smoothing: label smoothing.
        source_weight: weight of the tokens before an example's target.
    """

    smoothing: float = 0.0
    source_weight: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1 or self.source_weight < 0:
            raise ConfigError("loss.smoothing must be in [0, 1) and loss.source_weight not negative")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """Which weights of a base model learn; see `suite.model.lora`.

    Args:
        kind: "full" (all), "head" (none but the task's head), "lora" (low-rank additions to the blocks' matrices, and
            the head) or "scratch" (all, from random values: the base gives shape and tokenizer alone, to compare with).
        rank: of the additions.
        alpha: they are scaled by alpha / rank.
    """

    kind: Literal["full", "head", "lora", "scratch"] = "full"
    rank: int = 16
    alpha: float = 16.0

    @property
    def keeps_base(self) -> bool:
        """Whether the base's own weights stay as they are, and what is learnt stands beside them."""
        return self.kind in ("head", "lora")

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha <= 0:
            raise ConfigError(f"tune.rank is {self.rank} and tune.alpha {self.alpha}; both must be above 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How long, how often, and on what.

    Args:
        steps: optimizer steps of the whole run; 0 when `epochs` decides.
        epochs: passes over the training examples, for a finite list of them; 0 when `steps` decides.
        least_steps: with `epochs`, steps to take even where the examples are few.
        log_every, valid_every, save_every: steps between log rows, validations, and saved states.
        patience: validations without a better loss before stopping early; 0 to never stop early.
        max_minutes: stop after saving, to be resumed; 0 for no limit.
        precision: "bfloat16" (autocast), "float32", or "auto": bfloat16 where the device computes it faster.
        compile: whether blocks are compiled; the first step then takes a minute, on a CPU each new length does.
        tensorboard: whether to write its event files too.
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
    """One training run.

    Args:
        task: name of the task.
        run, batch, optimizer, schedule, averaging, loss: see their classes.
        seed: of weights, batches and dropout.
        base: name of the model to start from, as for `suite.load`; "" to start from nothing.
        tune: which weights of the base learn.
        model: fields of `ModelConfig`; the vocabulary's size may be left to the tokenizer.
        tokenizer, data: tables for the readers, which check them.
        options: the table named after the task, which checks it.
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
        """Read a recipe.

        Args:
            path: a TOML file.
            overrides: "table.key=value", the value as in TOML, or else taken as text.

        Raises:
            ConfigError: the file cannot be read, or a key is unknown (the nearest is named) or of the wrong type.

        Example:
            >>> Recipe.load("tasks/lm/recipe.toml", ["optimizer.lr=3e-4"]).optimizer.lr
            0.0003
        """
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"cannot read recipe {path}: {error}") from error
        for override in overrides:
            _override(table, override)
        return cls.from_dict(table, str(path))

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], where: str = "recipe") -> Recipe:
        """The inverse of `to_dict`; also takes the task's options in a table named after the task."""
        table = dict(table)
        task = table.get("task")
        if isinstance(task, str) and task in table and task not in _names(cls):
            table["options"] = table.pop(task)
        recipe = from_table(cls, table, where)
        check_keys(recipe.model, _names(ModelConfig), where, "model.")
        hints = typing.get_type_hints(ModelConfig)
        for key, value in recipe.model.items():
            _convert(hints[key], value, where, f"model.{key}")
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, from which `from_dict` makes the same recipe."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    def differences(self, other: Recipe) -> Iterator[tuple[str, Any, Any]]:
        """Dotted keys that differ, with the value here and in `other`."""
        yield from _differences(self.to_dict(), other.to_dict(), "")

    def model_config(self, vocab_size: int) -> ModelConfig:
        """The model's configuration.

        Args:
            vocab_size: of the tokenizer.

        Raises:
            ConfigError: the recipe has another vocabulary size, or fields do not fit together.
        """
        stated = self.model.get("vocab_size", vocab_size)
        if stated != vocab_size:
            raise ConfigError(f"model.vocab_size is {stated}, but the tokenizer has {vocab_size} tokens")
        return ModelConfig.from_dict({**self.model, "vocab_size": vocab_size})


def from_table(cls: type[T], table: Mapping[str, Any], where: str, prefix: str = "") -> T:
    """Make a dataclass of a table, checking every key and type.

    Args:
        cls: a dataclass of plain values, Literals, unions, tuples, dicts and other dataclasses.
        table: as tomllib gives it.
        where: what to call its origin in an error, such as a file's name.
        prefix: what stands before its keys there, such as "optimizer.".

    Raises:
        ConfigError: a key is unknown (the nearest is named) or missing, or a value has the wrong type.

    Example:
        >>> from_table(ScheduleConfig, {"kind": "linear", "warmup": 10}, "recipe.toml").warmup
        10.0
    """
    names = _names(cls)
    check_keys(table, names, where, prefix)
    hints = typing.get_type_hints(cls)
    values = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in table:
            values[field.name] = _convert(hints[field.name], table[field.name], where, prefix + field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}: {prefix}{field.name} is missing")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def check_keys(table: Mapping[str, Any], names: list[str], where: str, prefix: str) -> None:
    """Raise a ConfigError that names the first key of `table` not among `names`, and the nearest that is."""
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{where}: unknown key {prefix + key!r}; did you mean {prefix + near!r}?")


def _names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _differences(here: Mapping[str, Any], there: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any, Any]]:
    for key in {**here, **there}:
        old, new = here.get(key), there.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield prefix + key, old, new


def _convert(hint: Any, value: Any, where: str, key: str) -> Any:
    """`value` as `hint` wants it: int for float, list for tuple, table for dataclass."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_table(hint, value, where, key + ".")
    if origin in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        errors = []
        for choice in get_args(hint):
            try:
                return _convert(choice, value, where, key)
            except ConfigError as error:
                errors.append(error)
        raise errors[0]
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise ConfigError(f"{where}: {key} is {value!r}; the choices are {', '.join(map(str, get_args(hint)))}")
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(get_args(hint)[0], item, where, f"{key}[{place}]") for place, item in enumerate(value))
    if origin is list and isinstance(value, list):
        return [_convert(get_args(hint)[0], item, where, f"{key}[{place}]") for place, item in enumerate(value)]
    if origin is dict and isinstance(value, Mapping):
        return dict(value)
    if hint is float and type(value) in (int, float):
        if not math.isfinite(value):
            raise ConfigError(f"{where}: {key} is {value}, which is not a finite number")
        return float(value)
    if hint is Any or (isinstance(hint, type) and type(value) is hint):
        return value
    wanted = "a table" if origin is dict or dataclasses.is_dataclass(hint) else getattr(hint, "__name__", str(hint))
    raise ConfigError(f"{where}: {key} must be {wanted}, not {value!r}")


def _override(table: dict[str, Any], override: str) -> None:
    """Put "a.b=value" into `table`."""
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
