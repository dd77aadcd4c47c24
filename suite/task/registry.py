"""How the core finds tasks without importing one: the entry-point group `suite.tasks`.

A package of somebody else adds a task the same way as ours do.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.errors import ConfigError

if TYPE_CHECKING:
    from suite.task.contract import Task

GROUP = "suite.tasks"


def registered() -> dict[str, EntryPoint]:
    """Names of the installed tasks, and where each is; nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def embedded() -> dict[str, Path]:
    """Installed tasks that came with a checkpoint, the folder `checkpoint` beside their module; no task is imported."""
    found = {}
    for name, point in registered().items():
        with contextlib.suppress(ModuleNotFoundError):  # registered by a package that is gone
            directory = folder_of(point.module) / "checkpoint"
            if (directory / "config.json").is_file():
                found[name] = directory
    return found


def folder_of(module: str) -> Path:
    """The folder that a module lies in; the module itself is not imported.

    Raises:
        ModuleNotFoundError: there is none of that name.
    """
    package = module.rpartition(".")[0]
    spec = find_spec(package or module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module {module!r}")
    return Path(spec.origin).parent


def find_task(name: str) -> Task[Any, Any, Any]:
    """The task of that name.

    Raises:
        ConfigError: there is none; the message lists those there are and the nearest.
    """
    points = registered()
    if name not in points:
        raise ConfigError(f"no task {name!r}; {suggest(name, points)}")
    task: Task[Any, Any, Any] = points[name].load()()
    return task


def suggest(name: str, choices: Iterable[str]) -> str:
    """The end of an error message: "did you mean 'x'?" where one is near, or all choices."""
    choices = sorted(choices)
    near = difflib.get_close_matches(name, choices, n=1)
    return f"did you mean {near[0]!r}?" if near else f"available: {', '.join(choices) or 'none'}"
