"""Dataclasses made of tables, as TOML has them: every key and type is checked, and an error names what is wrong.

Nothing here imports torch.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from suite.errors import ConfigError

T = TypeVar("T")
# likeness of two keys, from 0 to 1: the share of equal letters, but no less than CONTAINED where one is part of the
# other, and INITIALS where one is the initials of the other's words; a key less alike than NEAR is not suggested
NEAR, CONTAINED, INITIALS = 0.6, 0.7, 0.8

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def brief(value: Any) -> str:
    """A value as Python writes it, cut where it is long or deeply nested, for a message of one line.

    Example:
        >>> brief([1, [2, "x"]]), brief("a" * 100)[-6:]
        ("[1, [2, 'x']]", "aaaaa'")
    """
    return _short.repr(value)


def from_table(cls: type[T], table: Mapping[str, Any], where: str, prefix: str = "") -> T:
    """A dataclass made of a table, with every key and type checked.

    Args:
        cls: a dataclass of plain values, Literals, unions, tuples, dicts and other dataclasses.
        table: as tomllib gives it.
        where: where it comes from, for errors: the name of a file, for example.
        prefix: what errors put before its keys, such as "optimizer.".

    Raises:
        ConfigError: a key is unknown (the nearest is named) or missing, or a value has the wrong type.

    Example:
        >>> from suite.training.recipe import ScheduleConfig
        >>> from_table(ScheduleConfig, {"kind": "linear", "warmup": 10}, "recipe.toml").warmup
        10.0
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: {prefix.removesuffix('.') or 'the content'} must be a table, not {brief(table)}")
    check_keys(table, field_names(cls), where, prefix)
    hints = typing.get_type_hints(cls)
    values = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in table:
            values[field.name] = convert(hints[field.name], table[field.name], where, prefix + field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}: {prefix}{field.name} is missing")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def field_names(cls: type) -> list[str]:
    """Names of a dataclass's fields, in their order."""
    return [field.name for field in dataclasses.fields(cls)]


def check_keys(table: Mapping[str, Any], names: Iterable[str], where: str, prefix: str) -> None:
    """Raise a ConfigError if a key of `table` is not among `names`; it names the first one, and the nearest name."""
    names = list(names)
    for key in table:
        if key not in names:
            near = nearest(key, names)
            hint = f"did you mean {prefix + near!r}?" if near else f"available: {', '.join(names) or 'none'}"
            raise ConfigError(f"{where}: unknown key {brief(prefix + key)}; {hint}")


def nearest(key: str, names: Iterable[str]) -> str | None:
    """The name that `key` was probably meant to be, or None if none is near.

    A misspelt name has most letters of the right one. Besides, one may be the initials of the other's words, or one may
    contain the other.

    Example:
        >>> nearest("learning_rate", ["lr", "weight_decay"]), nearest("batch_size", ["size", "tokens"])
        ('lr', 'size')
        >>> nearest("colour", ["lr", "weight_decay"])
    """

    def likeness(name: str) -> tuple[float, float]:
        ratio = SequenceMatcher(None, key, name).ratio()
        short, long = sorted((key, name), key=len)
        if len(short) > 1 and short == "".join(word[:1] for word in long.split("_")):
            return max(INITIALS, ratio), ratio
        if len(short) > 2 and short in long:
            return max(CONTAINED, ratio), ratio
        return ratio, ratio

    best = max(names, key=likeness, default=None)
    return best if best is not None and likeness(best)[0] >= NEAR else None


def convert(hint: Any, value: Any, where: str, key: str) -> Any:
    """A table's value as the type `hint`: an int becomes a float, a list a tuple, a table a dataclass.

    Args:
        hint: type of a dataclass's field.
        value: as tomllib gives it.
        where, key: where it comes from and its full key, for errors.

    Raises:
        ConfigError: the value has another type, or is not one of the choices.
    """
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_table(hint, value, where, key + ".")
    if origin in (Union, types.UnionType):
        return _convert_union(hint, value, where, key)
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise ConfigError(f"{where}: {key} is {brief(value)}; the choices are {', '.join(map(str, get_args(hint)))}")
    if origin is tuple and isinstance(value, list | tuple):
        return _convert_tuple(get_args(hint), value, where, key)
    if origin is list and isinstance(value, list):
        return [convert(get_args(hint)[0], item, where, f"{key}[{place}]") for place, item in enumerate(value)]
    if origin is dict and isinstance(value, Mapping):
        return {name: convert(get_args(hint)[1], item, where, f"{key}.{name}") for name, item in value.items()}
    if hint is float and type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:  # a whole number of more than 308 digits
            number = math.inf
        if not math.isfinite(number):
            raise ConfigError(f"{where}: {key} is {brief(value)}, which is not a finite number")
        return number
    if hint is Any or (isinstance(hint, type) and type(value) is hint):
        return value
    wanted = "a table" if origin is dict or dataclasses.is_dataclass(hint) else getattr(hint, "__name__", str(hint))
    raise ConfigError(f"{where}: {key} must be {wanted}, not {brief(value)}")


def _convert_tuple(hints: tuple[Any, ...], value: Sequence[Any], where: str, key: str) -> tuple[Any, ...]:
    """The values as a tuple of `hints`, of which the last may be `...`: as many of the first as there are."""
    if hints[-1] is ...:
        hints = hints[:1] * len(value)
    if len(hints) != len(value):
        raise ConfigError(f"{where}: {key} must have {len(hints)} values, not {len(value)}")
    pairs = zip(hints, value, strict=True)
    return tuple(convert(hint, item, where, f"{key}[{place}]") for place, (hint, item) in enumerate(pairs))


def _convert_union(hint: Any, value: Any, where: str, key: str) -> Any:
    """The value as the first of a union's types that takes it; else the error of the first."""
    if value is None and type(None) in get_args(hint):
        return None
    errors = []
    for choice in get_args(hint):
        try:
            return convert(choice, value, where, key)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]
