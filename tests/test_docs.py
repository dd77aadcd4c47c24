"""What the pages name exists: targets of links, paths, modules, and `suite` commands with their options."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.exceptions import NoArgsIsHelpError

from suite.cli.main import cli
from suite.task import registered

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("README.md", "FIGURES.md", "docs/*.md", "tasks/*/README.md", "tasks/*/checkpoint/README.md")
    for path in ROOT.glob(pattern)
)
FOLDERS = ("suite", "tasks", "data", "benchmarks", "tests", "docs", "examples", "notebooks")

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
INDENTED = re.compile(r"(?:^ {4,}\S.*\n?)+", re.MULTILINE)
PATH = re.compile(rf"(?<![\w./:-])(?:{'|'.join(FOLDERS)})/[\w./*-]*")
MODULE = re.compile(r"python -m ((?:suite|benchmarks)[\w.]*)")
COMMAND = re.compile(r"^\s*(?:torchrun .* -m )?suite (.+)", re.DOTALL)
REDIRECTION = re.compile(r"[<>|]")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def links(text: str) -> list[str]:
    """Targets of the links and pictures that lie in the repository."""
    found = (target.partition("#")[0] for target in LINK.findall(FENCED.sub("", text)))
    return [target for target in found if target and not re.match(r"[a-z]+:", target)]


def spans(text: str) -> list[str]:
    """What stands in backticks, each in one line."""
    return [" ".join(span.split()) for span in SPAN.findall(INDENTED.sub("\n", FENCED.sub("", text)))]


def code(text: str) -> str:
    """All that is set as code, a line each."""
    blocks = [*FENCED.findall(text), *INDENTED.findall(text)]
    return "\n".join([*blocks, *spans(text)])


def missing_paths(text: str) -> list[str]:
    """Paths of the repository, or patterns of paths, that match nothing."""
    found = (path.rstrip(".") for path in PATH.findall(code(text)))
    return [path for path in found if not planned(path) and not list(ROOT.glob(path.rstrip("/")))]


def missing_modules(text: str) -> list[str]:
    """Modules to run with `python -m` that have no file."""
    found = []
    for module in MODULE.findall(text):
        path = ROOT.joinpath(*re.sub(r"^suite\.(?=tasks|data)", "", module).split("."))
        known = (path.with_suffix(".py"), path / "__main__.py")
        if not planned(module) and not any(file.is_file() for file in known):
            found.append(module)
    return found


def planned(name: str) -> bool:
    """Whether it is a benchmark that has not moved to `benchmarks/` yet: its script still lies in its task's folder."""
    folder, _, script = re.sub(r"[./]", " ", name).strip().partition(" ")
    return folder == "benchmarks" and any(ROOT.glob(f"tasks/{script or '*'}/figures.py"))


def commands(text: str) -> Iterator[list[str]]:
    """The words of every indented `suite` command; one may go on over several lines."""
    for block in INDENTED.findall(text):
        begun = ""
        for line in block.splitlines():
            if not begun and not COMMAND.match(line):
                continue
            begun += line + "\n"
            if line.rstrip().endswith("\\"):
                continue
            try:
                words = shlex.split(COMMAND.sub(r"\1", begun.replace("\\\n", " ")), comments=True)
            except ValueError:  # a quotation goes on in the next line
                continue
            yield words
            begun = ""
        assert not begun, f"a command has no end: {begun}"


def snippets(text: str) -> Iterator[list[str]]:
    """The words of every `suite` command in backticks; COMMAND in capitals stands for any."""
    for span in spans(text):
        if match := COMMAND.match(span):
            words = shlex.split(REDIRECTION.split(match[1])[0])
            if not words[0].isupper():
                yield words


def parse(words: list[str]) -> None:
    """Parse a command as `suite` does, and run nothing.

    Raises:
        click.UsageError: a word is no command, an option is not there, or an argument is missing.
    """
    if "reverse" in words[:2] and "reverse" not in registered():
        pytest.skip("pip install -e examples/reverse")
    words = list(words)
    command: click.Command = cli
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no command {name!r}")
        command = found
    try:
        command.make_context("suite", words)
    except click.exceptions.Exit as done:  # --help
        assert done.exit_code == 0


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes are named from the repository's root; the example task may be registered from another checkout."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "reverse"))


def test_there_are_pages() -> None:
    """A folder that moved would leave the tests below without anything to test."""
    named = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "FIGURES.md", "docs/architecture.md", "docs/log.md", "tasks/lm/README.md"} <= named


@each_page
def test_links_lead_to_files(page: Path) -> None:
    broken = [target for target in links(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()]
    assert not broken


@each_page
def test_paths_exist(page: Path) -> None:
    """README named suite/checkpoint.py and FIGURES.md tests/suite/test_gpt2.py after both had moved."""
    text = page.read_text(encoding="utf-8")
    assert not missing_paths(text) and not missing_modules(text)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)[:60]}")
        for page in PAGES
        for words in commands(page.read_text(encoding="utf-8"))
    ],
)
def test_commands_are_commands(words: list[str]) -> None:
    """Each of their options is there."""
    parse(words)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)[:60]}")
        for page in PAGES
        for words in snippets(page.read_text(encoding="utf-8"))
    ],
)
def test_commands_in_sentences_are_commands(words: list[str]) -> None:
    """They may leave out what a command needs, but name nothing that is not there."""
    with contextlib.suppress(click.MissingParameter, click.BadOptionUsage, NoArgsIsHelpError):
        parse(words)


def test_figures_fit_one_page() -> None:
    """What was tried and did not help goes to docs/log.md."""
    assert len((ROOT / "FIGURES.md").read_text(encoding="utf-8").splitlines()) <= 130


@pytest.mark.parametrize(
    "words", ["run nothing", "run lm Once --loud", "next Once --loud", "train lm --data a.txt", "bench decoding"]
)
def test_a_wrong_command_is_noticed(words: str) -> None:
    with pytest.raises(click.UsageError):
        parse(words.split())


def test_all_kinds_of_mentions_are_found() -> None:
    text = (
        "See [one](no-such.md#part), ![two](gone.svg), [web](https://a.org), `suite/gone.py`, `tasks/*/gone.md`,\n"
        "`suite run lm\n--file x` or `suite COMMAND --help`.\n\n"
        "    suite train lm --data 'a\n        b' \\\n        --out c   # why\n"
        "    python -m suite.tasks.lm.gone\n    torchrun -n 2 -m suite train lm\n    pytest tests/gone.py\n\n"
        "```python\nopen('data/gone.txt')\n```\n"
    )
    assert links(text) == ["no-such.md", "gone.svg"]
    assert sorted(missing_paths(text)) == ["data/gone.txt", "suite/gone.py", "tasks/*/gone.md", "tests/gone.py"]
    assert missing_modules(text) == ["suite.tasks.lm.gone"]
    assert list(commands(text)) == [["train", "lm", "--data", "a\n        b", "--out", "c"], ["train", "lm"]]
    assert list(snippets(text)) == [["run", "lm", "--file", "x"]]
