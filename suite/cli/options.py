"""Options that several commands share, and reading of prompts from arguments, files and standard input."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from suite.cli.show import notice
from suite.errors import DataError
from suite.files import open_input
from suite.task import embedded

if TYPE_CHECKING:
    from suite.checkpoint import Model

# fewer parameters than the smallest GPT-2's 124 million: too few for summaries or for labels without training
SMALL = 100_000_000
# not .py or .log: a prompt may be code, such as console.log
TEXT_FILES = frozenset(
    [
        *(".txt", ".md", ".markdown", ".rst", ".tex", ".rtf", ".srt", ".html", ".htm", ".xhtml", ".xml", ".pdf"),
        *(".doc", ".docx", ".odt", ".epub", ".ipynb", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"),
    ]
)
TABLES = frozenset((".csv", ".tsv", ".jsonl", ".ndjson"))
PACKED = (".gz", ".bz2", ".xz")
_PATH = re.compile(r"(\.{1,2}|~\w*)[/\\].")  # ./a, ../a, ~/a
_ABSOLUTE = re.compile(r"(/[^/]+)/")
_ADDRESS = re.compile(r"\w+://|www\.|mailto:|[^/@]+@", re.IGNORECASE)
_HOST = re.compile(r"\w[\w-]*(\.[\w-]+)*\.[a-z]{2,}(:\d+)?/", re.IGNORECASE)

json_option = click.option("--json", "as_json", is_flag=True, help="Write the result as JSON.")


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completions of a model name: embedded models that start with `incomplete`, and directories."""
    names = [CompletionItem(name) for name in embedded() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="dir")]


def tell_unseen(tokens: int, seen: int) -> None:
    """Print a notice if the prompt is longer than what the model sees."""
    if tokens > seen:
        notice(f"the prompt has {tokens:,} tokens, but the model sees only the last {seen:,}")


def tell_experimental(model: Model, what: str, instead: str) -> None:
    """Print a notice if a model has fewer than `SMALL` parameters, too few for the task at hand.

    Args:
        model: the model in use.
        what: what such a model does, such as "invents much of what it writes".
        instead: what to do.
    """
    if model.parameters < SMALL:
        notice(f"experimental: a model of {model.parameters / 1e6:.1f} million parameters {what}; {instead}")


def read_text(source: str, *, whole: bool = False) -> str:
    """The text of a file, without a byte order mark.

    Args:
        source: a path, or "-" for standard input.
        whole: with the newline at its end, which is otherwise left out.

    Raises:
        DataError: it is not UTF-8; the message names the first byte that does not fit.
    """
    name = "standard input" if source == "-" else source
    content = sys.stdin.buffer.read() if source == "-" else _read_file(Path(source))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not UTF-8: byte {error.start:,} is {content[error.start]:#04x}; "
            "convert it, for example with: iconv -f LATIN1 -t UTF-8"
        ) from None
    text = text.removeprefix("\ufeff")
    return text if whole else text.removesuffix("\n").removesuffix("\r")


def _read_file(path: Path) -> bytes:
    with open_input(path) as stream:
        return stream.read()


def prompt_text(argument: str | None, file: str | None, *, whole: bool = False, quiet: bool = False) -> str:
    """The prompt from the argument, the file, or piped standard input; else the empty string.

    Args:
        argument, file: the command's argument and option.
        whole: see `read_text`.
        quiet: no warning.

    Raises:
        click.UsageError: both were given, or the argument is a file's name; see `check_is_text`.
    """
    if argument is not None and file is not None:
        raise click.UsageError("give the prompt as an argument or with --file, not both")
    if file is not None:
        return read_text(file, whole=whole)
    if argument == "-" or (argument is None and sys.stdin is not None and not sys.stdin.isatty()):
        return read_text("-", whole=whole)
    if argument:
        check_is_text(argument, quiet=quiet)
    return argument or ""


def check_is_text(argument: str, *, quiet: bool = False) -> None:
    """Refuse the name of a file where a text belongs: who types one means what is in the file.

    A name that could as well be a word, such as README, is text even where there is such a file, with a warning.

    Args:
        argument: as it was given.
        quiet: no warning.

    Raises:
        click.UsageError: it is a file's name; the message says how to have it taken as text.
    """
    # not Path.exists: that is an error for a text too long to name a file
    there = os.path.exists(argument)  # noqa: PTH110
    name = Path(argument).name
    if not (is_file_name(argument) or (there and name and (name != argument or _ends(name)))):
        if there and not quiet and os.path.isfile(argument):  # noqa: PTH113
            notice(f"warning: {argument!r} is used as text; to read the file of that name, use --file")
        return
    context = click.get_current_context(silent=True)
    options = {name for one in context.command.params for name in one.opts} if context is not None else set()
    command = context.command_path if context is not None else "suite"
    if not there:
        fault = "looks like a file name, but there is no such file"
    elif os.path.isdir(argument):  # noqa: PTH112
        fault = "is a folder, but a text is needed"
    else:
        table = "--input" in options and _ends(argument) in TABLES
        fault = f"is a file; to read it, use {'--input' if table else '--file'} {shlex.quote(argument)}"
    piped = f"echo {shlex.quote(argument)} | {command}"
    raise click.UsageError(f"{argument!r} {fault}; to use the name itself as text, pipe it in: {piped}")


def is_file_name(text: str) -> bool:
    """Whether a text looks like a file's name, and hardly like anything else.

    That is a single word that ends like a file of text or of a table, or that begins like a path: with ./, ../ or ~/,
    or with / and a folder that is there. Web and mail addresses are none.

    Example:
        >>> [is_file_name(text) for text in ("article.txt", "notes/a.md.gz", "./a", "~/letter")]
        [True, True, True, True]
        >>> [is_file_name(text) for text in ("e.g.", "3.14", "example.com", "https://a.org/b.html", "read a.txt", "/s")]
        [False, False, False, False, False, False]
    """
    if not text or any(character.isspace() for character in text) or _ADDRESS.match(text):
        return False
    if _PATH.match(text):
        return True
    if (absolute := _ABSOLUTE.match(text)) and os.path.isdir(absolute[1]):  # noqa: PTH112
        return True
    if _HOST.match(text) and not os.path.isdir(text.split("/")[0]):  # noqa: PTH112
        return False
    return _ends(text) in TEXT_FILES


def _ends(text: str) -> str:
    """The suffix of a file's name, in lower case, without that of its compression."""
    name = text.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix
