"""The tables of a recipe that a task reads. Each is parsed once; a key that nothing reads is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from suite.errors import CheckpointError, ConfigError
from suite.tables import field_names, from_table, nearest

if TYPE_CHECKING:
    from suite.task.contract import Task
    from suite.training.recipe import Recipe

T = TypeVar("T")


LEAST_HELD_OUT = 1e-6  # no data is so large that less of it holds a record


def check_held_out(share: float) -> None:
    """Raise a ConfigError for a `data.held_out` that is no share of records."""
    if not 0 < share < 1:
        raise ConfigError(f"data.held_out is {share}, and must be between 0 and 1")
    if share < LEAST_HELD_OUT:
        raise ConfigError(f"data.held_out is {share}, too small to hold a record; the least is {LEAST_HELD_OUT}")


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """A table without keys, for a task that reads none."""


@dataclass(frozen=True, kw_only=True)
class DataTable:
    """The table `data` of a recipe, as far as all tasks have it.

    Args:
        train, valid: sources, as the task's reader takes them. Without `valid`, a part of `train` is held out. A hub
            data set in `valid` without a split gets its validation split (`suite.data.hub.to_validate`).
        held_out: share of the training records held out; at least one record is.
        limit: training records to use, drawn by the seed; 0 for all.
    """

    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    held_out: float = 0.05
    limit: int = 0

    def __post_init__(self) -> None:
        if not self.train:
            raise ConfigError("there is no training data; give it with --data or in the recipe's data.train")
        check_held_out(self.held_out)
        if self.limit < 0:
            raise ConfigError(f"data.limit is {self.limit}, and must not be negative")


@dataclass(frozen=True, kw_only=True)
class TokenizerTable:
    """The table `tokenizer` of a recipe.

    Args:
        kind: "auto" (the base model's, "bpe" without a base), "bpe" (trained on the training records), "characters",
            "bytes", or "file".
        vocab_size: of a trained one, special tokens included.
        path: of an existing tokenizer's file or directory.
    """

    kind: Literal["auto", "bpe", "characters", "bytes", "file"] = "auto"
    vocab_size: int = 8192
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """A recipe's tables as the dataclasses that a task declares (`Task.data_table` and so on).

    Attributes:
        data: the table `data`.
        tokenizer: the table `tokenizer`.
        options: the table named after the task.
        notes: a line for each split of a hub data set that was chosen to validate on.
    """

    data: Any
    tokenizer: Any
    options: Any
    notes: tuple[str, ...] = ()


def read_tables(task: Task[Any, Any, Any], recipe: Recipe) -> Tables:
    """The tables of a recipe that a task reads, as the dataclasses that it declares.

    Raises:
        ConfigError: a key that the task does not read (the nearest is named), or a value of the wrong type.
        DataError: a hub data set to validate on cannot be reached, or has no split for it.
    """
    from suite.data.hub import to_validate

    kinds = {"data": task.data_table, "tokenizer": task.tokenizer_table, task.name: task.options_table}
    given = {"data": recipe.data, "tokenizer": recipe.tokenizer, task.name: recipe.options}
    names = {table: field_names(kind) for table, kind in kinds.items()}
    for table, values in given.items():
        for key in values:
            if key not in names[table]:
                near = _nearest(table, key, names)
                hint = f"did you mean {near}?" if near else f"available: {', '.join(names[table]) or 'none'}"
                raise ConfigError(f"the task {task.name!r} reads no {table}.{key}; {hint}")
    for key in ("smoothing", "source_weight"):
        if key not in task.loss_keys and getattr(recipe.loss, key):
            raise ConfigError(f"the task {task.name!r} reads no loss.{key}; leave it out")
    parsed: list[Any] = [from_table(kind, given[table], "recipe", f"{table}.") for table, kind in kinds.items()]
    data, tokenizer, options = parsed
    valid, notes = to_validate(data.valid)
    return Tables(data=replace(data, valid=valid), tokenizer=tokenizer, options=options, notes=tuple(notes))


def read_extra(cls: type[T], extra: Mapping[str, Any], where: str) -> T:
    """The task's settings in a checkpoint, its `extra`, as a dataclass, parsed as strictly as a recipe's table.

    Args:
        cls: the dataclass; a ConfigError of its own names the key.
        extra: of the checkpoint.
        where: its config.json, for errors.

    Raises:
        CheckpointError: a key is unknown (a near one is named) or missing, or a value has the wrong type or is out of
            its range.
    """
    try:
        return from_table(cls, extra, where, "extra.")
    except ConfigError as error:
        raise CheckpointError(str(error)) from error


def _nearest(table: str, key: str, names: dict[str, list[str]]) -> str | None:
    """The full key that `table.key` was probably meant to be: the same in another table, or one alike in this one."""
    for other, keys in names.items():
        if key in keys:
            return f"{other}.{key}"
    near = nearest(key, names[table])
    return near and f"{table}.{near}"
