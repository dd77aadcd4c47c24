"""Options that several commands share, and how their text reaches us."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from suite.cli.show import notice
from suite.errors import DataError
from suite.task import embedded

if TYPE_CHECKING:
    from suite.hub import Model

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Write the result as JSON.")
file_option = click.option(
    "--file", type=click.Path(), metavar="FILE", help="Read the text from a file; - is standard input."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Do not print notices to standard error.")


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Embedded names that begin so, and directories."""
    names = [CompletionItem(name) for name in embedded() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="dir")]


def model_options(default: str) -> Callable[[Decorated], Decorated]:
    """Add the options that say which model to load, and how; `load_model` takes them.

    Args:
        default: the embedded model used where none is named.
    """
    options = (
        click.option(
            "--model",
            default=default,
            metavar="MODEL",
            shell_complete=complete_model,
            help=f"Model to use: an embedded model, a directory or a Hugging Face id.  [default: {default}]",
        ),
        click.option(
            "--revision", metavar="REV", help="Branch, tag or commit of a Hugging Face model.  [default: main]"
        ),
        click.option(
            "--device",
            default="cpu",
            metavar="NAME",
            help="Device to run on: cpu, cuda, cuda:1 or mps.  [default: cpu]",
        ),
        click.option(
            "--quantize",
            type=click.Choice(["float32", "float16", "int8"]),
            default="float32",
            help="Type of the weights in memory; smaller types are faster on a CPU.  [default: float32]",
        ),
    )

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def load_model(model: str, revision: str | None, device: str, quantize: str) -> Model:
    """Load what the options of `model_options` name."""
    from suite.hub import load

    return load(model, revision=revision, device=device, quantize=quantize)


def tell_unseen(tokens: int, seen: int) -> None:
    """Say so if a model will not see all of a prompt."""
    if tokens > seen:
        notice(f"the prompt has {tokens:,} tokens, but the model sees only the last {seen:,}")


def read_text(source: str, *, whole: bool = False) -> str:
    """The text of a file, without a byte order mark.

    Args:
        source: a path, or "-" for standard input.
        whole: with the newline at its end, which is otherwise left out.

    Raises:
        DataError: it is not UTF-8; the message names the first byte that does not fit.
    """
    name = "standard input" if source == "-" else source
    content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is not UTF-8: byte {error.start:,} is {content[error.start]:#04x}; "
            "convert it, for example with: iconv -f LATIN1 -t UTF-8"
        ) from None
    text = text.removeprefix("\ufeff")
    return text if whole else text.removesuffix("\n").removesuffix("\r")


def prompt_text(argument: str | None, file: str | None, *, whole: bool = False, quiet: bool = False) -> str:
    """A prompt from the argument, the file, or standard input where it is piped; else the empty one.

    An argument that names a file is still the prompt, but people who meant the file are told how to say so.

    Args:
        argument, file: as they were given.
        whole: see `read_text`.
        quiet: no warning.
    """
    if argument is not None and file is not None:
        raise click.UsageError("give the prompt as an argument or with --file, not both")
    if file is not None:
        return read_text(file, whole=whole)
    if argument == "-" or (argument is None and sys.stdin is not None and not sys.stdin.isatty()):
        return read_text("-", whole=whole)
    # not Path.is_file: that is an error for a text too long to name a file
    if argument and not quiet and os.path.isfile(argument):  # noqa: PTH113
        notice(f"warning: {argument!r} is used as text; to read the file of that name, use --file")
    return argument or ""
