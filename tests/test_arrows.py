"""Who imports whom: data readers and the model know nothing of tasks, and the core never imports a task.

Every import statement counts, also those within functions and those for types alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"suite": ROOT / "suite", "suite.data": ROOT / "data", "suite.tasks": ROOT / "tasks"}
LEAVES = ("suite.errors", "suite.files", "suite.wording")

# all that the modules of a package may import of suite
ONLY = {
    "suite.errors": (),
    "suite.files": (),
    "suite.wording": (),
    "suite.text": (*LEAVES, "suite.text"),
    "suite.data": (*LEAVES, "suite.text", "suite.data"),
    "suite.model": ("suite.errors", "suite.files", "suite.tables", "suite.model"),
    "suite.tables": ("suite.errors",),
}
# what they may not
NEVER = {
    "suite": ("suite.tasks",),
    "suite.sampling": ("suite.data",),
    "suite.training": ("suite.data",),
    "suite.checkpoint": ("suite.data",),
}


class Import(NamedTuple):
    """An import statement: the module that has it, where, and the module that it imports."""

    module: str
    where: str
    target: str


def lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def modules() -> dict[str, Path]:
    found = {}
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path
    return found


def imports(module: str, source: str, where: str, known: dict[str, Path]) -> Iterator[Import]:
    package = module if Path(where).name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = [f"{base}.{name.name}" for name in node.names]
            targets = [name if name in known else base for name in inner]
        for target in targets:
            if lies_in(target, "suite"):
                yield Import(module, f"{where}:{getattr(node, 'lineno', 0)}", target)


@pytest.fixture(scope="module")
def found() -> list[Import]:
    known = modules()
    return [
        one
        for module, path in known.items()
        for one in imports(module, path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)), known)
    ]


def told(wrong: list[Import]) -> str:
    return "\n".join(f"{one.where} imports {one.target}" for one in wrong)


@pytest.mark.parametrize("package", ONLY)
def test_a_package_imports_only_what_lies_below_it(found: list[Import], package: str) -> None:
    assert any(lies_in(module, package) for module in modules())
    wrong = [
        one
        for one in found
        if lies_in(one.module, package) and not any(lies_in(one.target, below) for below in ONLY[package])
    ]
    assert not wrong, told(wrong)


@pytest.mark.parametrize("package", NEVER)
def test_a_package_never_imports_what_stands_above_it(found: list[Import], package: str) -> None:
    own = [one for one in found if lies_in(one.module, package) and not one.module.startswith("suite.tasks")]
    assert own
    wrong = [one for one in own if any(lies_in(one.target, above) for above in NEVER[package])]
    assert not wrong, told(wrong)


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("import suite.tasks.lm.task", "suite.tasks.lm.task"),
        ("from suite.tasks.lm.task import LanguageModelling", "suite.tasks.lm.task"),
        ("from suite import files", "suite.files"),
        ("from . import files", "suite.files"),
        ("from .data import text", "suite.data.text"),
        ("def f():\n    from suite.data.text import Source", "suite.data.text"),
        ("if TYPE_CHECKING:\n    from suite.data import text", "suite.data.text"),
        ("import torch", None),
    ],
)
def test_no_way_to_import_is_overlooked(line: str, target: str | None) -> None:
    assert [one.target for one in imports("suite.tally", line, "suite/tally.py", modules())] == [target] * bool(target)
