"""What every pipeline's result can do, and the one rule of what pipelines take."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suite.errors import DataError


class Result:
    """A base of results, which are frozen dataclasses: a result prints as its text and turns into plain values.

    Fields whose names begin with `_` belong to the pipeline and are not part of the values.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: field by field, nested results likewise."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if not field.name.startswith("_")
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def several(inputs: Any, *, what: str = "text") -> tuple[list[str], bool]:
    """The texts given to a pipeline, and whether they were several: one gives one result, a sequence gives a list.

    Args:
        inputs: a string (numpy's too), or a list, tuple, generator, array or other iterable of strings.
        what: what an input is, for the error.

    Raises:
        DataError: it is neither; the message names the type and, in a sequence, the place.

    Example:
        >>> several("ab"), several(["ab", "cd"])
        ((['ab'], False), (['ab', 'cd'], True))
    """
    given, many = listed(inputs, what=what)
    texts = []
    for place, one in enumerate(given):
        if not isinstance(one, str):
            raise DataError(f"{what} {place} is {type(one).__name__}, not a string")
        texts.append(str(one))
    return texts, many


def listed(inputs: Any, *, what: str = "text") -> tuple[list[Any], bool]:
    """The inputs given to a pipeline whose inputs are not all strings, unchecked, and whether they were several.

    Raises:
        DataError: they are neither a string nor a list, tuple, generator, array or other iterable.
    """
    if isinstance(inputs, str):
        return [inputs], False
    if not isinstance(inputs, Iterable) or isinstance(inputs, bytes | bytearray | Mapping | set | frozenset):
        raise DataError(f"a {what} is a string, and several are a list of strings, not {type(inputs).__name__}")
    try:
        items = iter(inputs)
    except TypeError:  # an array without dimensions says that it is iterable
        raise DataError(f"a {what} is a string, not {type(inputs).__name__} without dimensions") from None
    return list(items), True


def alike(results: Sequence[Any], many: bool) -> Any:
    """The results as the inputs were given: a list, or the only one."""
    return list(results) if many else results[0]
