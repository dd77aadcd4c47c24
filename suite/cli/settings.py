"""Options declared once: the fields of a frozen dataclass are a command's options, and its value is what code gets.

    @dataclass(frozen=True, kw_only=True)
    class RunOptions:
        beams: int = setting(5, "Hypotheses to keep; 1 is greedy and fastest.", min=1, metavar="N")

    @click.command()
    @takes(RunOptions)
    def run(options: RunOptions) -> None: ...

The type of a field decides the option's: `bool` is a flag, `X | None` may be left out, `tuple[str, ...]` may be given
several times, a `Literal` is a choice. An option whose default is `REQUIRED` must be given.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
REQUIRED: Any = dataclasses.MISSING  # as a default: the option must be given, and so must the field
_KEY = "option"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Option:
    help: str
    flags: tuple[str, ...]
    metavar: str | None
    shown: str | None
    type: Any
    extra: dict[str, Any]


def setting(
    default: Any,
    help: str,
    *,
    flags: Sequence[str] = (),
    metavar: str | None = None,
    shown: str | None = None,
    min: float | None = None,
    max: float | None = None,
    type: Any = None,
    **extra: Any,
) -> Any:
    """A dataclass field that is also an option of a command.

    Args:
        default: None for an option that may be left out, `REQUIRED` for one that may not.
        help: one sentence; the default is added to it.
        flags: names on the command line (by default `--` and the field's name with hyphens).
        metavar: placeholder of the value in the help.
        shown: the default in words, where the value does not say it; "" to leave it out.
        min, max: of a number.
        type: click's, where the field's type does not say enough.
        extra: as `click.option` takes it.
    """
    if min is not None or max is not None:
        whole = not any(isinstance(bound, float) for bound in (min, max, default))
        type = click.IntRange(min=min, max=max) if whole else click.FloatRange(min=min, max=max)  # type: ignore[arg-type]
    option = _Option(help=help, flags=tuple(flags), metavar=metavar, shown=shown, type=type, extra=extra)
    return dataclasses.field(default=default, metadata={_KEY: option})


def takes(cls: type, name: str = "options", **defaults: Any) -> Callable[[Decorated], Decorated]:
    """Give a command the options of a dataclass's fields, and its function the value as the argument `name`.

    Args:
        cls: whose fields were made with `setting`; others are not options.
        name: of the argument.
        defaults: instead of those of some fields.

    Raises:
        TypeError: the function already has an option of a field's name.
    """
    hints = typing.get_type_hints(cls)
    chosen = [field for field in dataclasses.fields(cls) if _KEY in field.metadata]

    def decorate(function: Decorated) -> Decorated:
        present = {parameter.name for parameter in getattr(function, "__click_params__", ())}
        if twice := sorted(present.intersection(field.name for field in chosen)):
            raise TypeError(f"{cls.__name__}.{twice[0]} is an option of the command already")

        @functools.wraps(function)
        def collect(*args: Any, **kwargs: Any) -> Any:
            values = {field.name: kwargs.pop(field.name) for field in chosen}
            return function(*args, **{name: cls(**values)}, **kwargs)

        collect.__click_params__ = list(getattr(function, "__click_params__", ()))  # type: ignore[attr-defined]
        decorated: Any = collect
        for field in reversed(chosen):
            decorated = option_of(field, hints[field.name], defaults.get(field.name, field.default))(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def option_of(field: dataclasses.Field[Any], hint: Any, default: Any) -> Callable[[Decorated], Decorated]:
    """The click option of one field."""
    option: _Option = field.metadata[_KEY]
    flags = option.flags or ("--" + field.name.replace("_", "-"),)
    settings: dict[str, Any] = dict(option.extra)
    if hint is bool and not any("/" in flag for flag in flags):
        settings.setdefault("is_flag", True)
    else:
        settings["type"] = option.type or _type(hint)
        settings["multiple"] = get_origin(hint) is tuple and "nargs" not in settings
        settings["metavar"] = option.metavar
    if default is REQUIRED:
        default, settings["required"] = None, True
    else:
        settings["default"] = default  # given as None it would be a value, and nothing required
    shown = option.shown
    if shown is None and default is not None and default is not False and default not in ("", ()):
        shown = ", ".join(map(str, default)) if isinstance(default, tuple) else f"{default}"
    text = f"{option.help}  [default: {shown}]" if shown else option.help
    return click.option(*flags, field.name, help=text, **settings)


def _type(hint: Any) -> Any:
    """The click type of a field's type."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _type(next(one for one in get_args(hint) if one is not type(None)))
    if origin is Literal:
        return click.Choice(list(get_args(hint)))
    if origin is tuple:
        return _type(get_args(hint)[0])
    return click.Path(path_type=Path) if hint is Path else hint
