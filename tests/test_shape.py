"""No file, function or list of parameters grows past what a reader can take in at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("suite", "tasks", "data")
LINES_OF_FILE, LINES_OF_FUNCTION, PARAMETERS = 400, 60, 12

Function = ast.FunctionDef | ast.AsyncFunctionDef


def too_large(path: str, text: str) -> Iterator[tuple[str, int]]:
    """What in a source file is over a limit, as "PATH: FUNCTION, lines", with its size."""
    lines = len(text.splitlines())
    if lines > LINES_OF_FILE:
        yield f"{path}: lines", lines
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, Function) and (lines := length(node)) > LINES_OF_FUNCTION:
            yield f"{path}: {node.name}, lines", lines
    for name, number in parameters(tree, ""):
        if number > PARAMETERS:
            yield f"{path}: {name}, parameters", number


def length(function: Function) -> int:
    """Lines of a function from `def` on, without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return lines


def parameters(scope: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, int]]:
    """The number of parameters of each public function or method, `self` and `cls` left out."""
    for node in scope.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from parameters(node, f"{prefix}{node.name}.")
        if isinstance(node, Function) and (not node.name.startswith("_") or node.name == "__init__"):
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            several = (arguments.vararg is not None) + (arguments.kwarg is not None)
            bound = isinstance(scope, ast.ClassDef) and bool(named) and named[0].arg in ("self", "cls")
            yield f"{prefix}{node.name}", len(named) + several - bound


def test_files_functions_and_parameters_stay_within_their_limits() -> None:
    found = {
        name: size
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, size in too_large(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    }
    assert not found, f"over {LINES_OF_FILE} lines a file, {LINES_OF_FUNCTION} a function or {PARAMETERS} parameters"


def function(name: str, *arguments: str, lines: int = 2, docstring: int = 0, indent: str = "") -> str:
    """A function of so many lines, with a docstring of so many lines besides."""
    text = ['    """', *["    word"] * (docstring - 2), '    """'] if docstring else []
    source = [f"def {name}({', '.join(arguments)}):", *text, *["    pass"] * (lines - 1)]
    return "".join(f"{indent}{line}\n" for line in source)


MANY = [f"p{place}" for place in range(PARAMETERS)]
SOURCES = {
    "a file of 400 lines": ("x = 1\n" * 400, []),
    "a file of 401 lines": ("x = 1\n" * 401, [("a.py: lines", 401)]),
    "a function of 60 lines": (function("f", lines=60), []),
    "60 lines and a docstring": (function("f", lines=60, docstring=20), []),
    "61 lines and a docstring": (function("f", lines=61, docstring=20), [("a.py: f, lines", 61)]),
    "a private method of 61 lines": (
        "class _A:\n" + function("_f", "self", lines=61, indent="    "),
        [("a.py: _f, lines", 61)],
    ),
    "12 parameters": (function("f", *MANY), []),
    "13 parameters": (function("f", *MANY, "last"), [("a.py: f, parameters", 13)]),
    "keywords and all others": (function("f", *MANY[1:], "*", "last", "**rest"), [("a.py: f, parameters", 13)]),
    "13 parameters in private": (function("_f", *MANY, "last"), []),
    "self": ("class A:\n" + function("__init__", "self", *MANY, indent="    "), []),
    "a method of 13": (
        "class A:\n" + function("m", "self", *MANY, "z", indent="    "),
        [("a.py: A.m, parameters", 13)],
    ),
    "a private class": ("class _A:\n" + function("m", "self", *MANY, "z", indent="    "), []),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_too_large_is_noticed(name: str) -> None:
    text, expected = SOURCES[name]
    assert list(too_large("a.py", text)) == expected
