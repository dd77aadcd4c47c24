"""`suite`: the command line, a thin layer over the Python API.

Neither this module nor those it imports may import torch at the top: `suite --help` and tab completion are quick.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click
from click.exceptions import Exit, NoArgsIsHelpError
from click.shell_completion import shell_complete

from suite.cli.bench import bench
from suite.cli.completion import completion
from suite.cli.convert import convert
from suite.cli.explore import explore
from suite.cli.groups import ExtensibleGroup
from suite.cli.models import models
from suite.cli.show import first_process, notice
from suite.cli.tasks import evaluate, run
from suite.cli.train import train
from suite.errors import SuiteError, UnfinishedWarning
from suite.files import DamagedWarning

USER_ERROR = 2
INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + 13  # SIGPIPE, which Windows lacks


@click.group(
    cls=ExtensibleGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command has its own --help. Set SUITE_DEBUG=1 to see the traceback of an error.",
)
@click.version_option(package_name="decoder-suite", message="suite %(version)s")
def cli() -> None:
    """Train and use one decoder-only transformer for five tasks.

    \b
    suite run lm "The planet earth"       continue a text
    suite next "The planet earth is"      see the most likely next tokens
    suite train lm --data texts/ --out runs/a
    """


for command in (run, train, evaluate, models, explore, convert, bench, completion):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: words after `suite` (None: those of this process).

    Returns:
        the exit code: 0; 2 for an error that the user can fix, with a line on stderr; 130 for Ctrl-C; 141 for a closed
        pipe.
    """
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 is no reason to stop
    if "_SUITE_COMPLETE" in os.environ:
        return shell_complete(cli, {}, "suite", "_SUITE_COMPLETE", os.environ["_SUITE_COMPLETE"])
    words = list(sys.argv[1:] if arguments is None else arguments)
    color = False if os.environ.get("NO_COLOR") else None
    # not `cli.main`, which handles Ctrl-C and closed pipes in its own way
    try:
        with cli.make_context("suite", words, color=color) as context, _plain_warnings():
            cli.invoke(context)
        sys.stdout.flush()
        return 0
    except Exit as done:
        return done.exit_code
    except NoArgsIsHelpError as error:
        error.show()
        return USER_ERROR
    except (KeyboardInterrupt, click.Abort) as interrupt:
        if first_process():
            _tell(f"\nsuite: {str(interrupt) or 'interrupted'}")
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except (click.ClickException, SuiteError, OSError, MemoryError, RuntimeError) as error:
        if os.environ.get("SUITE_DEBUG") or (isinstance(error, RuntimeError) and not _out_of_memory(error)):
            raise
        _forget_stdout()
        _tell(f"suite: error: {_one_line(error)}")
        if isinstance(error, click.UsageError) and error.ctx is not None:
            _tell(f"try: {error.ctx.command_path} --help")
        return USER_ERROR


def _open_streams() -> None:
    """Open a stream that the shell closed (`<&-`, `>&-`, `2>&-`): standard input is empty, what is written is lost.

    All of them before any other file, which would get the number of a closed one, and what others write to it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 (open until the end)


def _tell(line: str) -> None:
    """Write a line to stderr, if it can be written to."""
    with suppress(OSError):
        click.echo(line, err=True)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show our own warnings as notices, without the line of code that they come from."""
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
        if issubclass(category, (UnfinishedWarning, DamagedWarning)):
            notice(str(message))
        else:
            others(message, category, *rest, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnfinishedWarning)
        warnings.simplefilter("always", DamagedWarning)
        warnings.showwarning = show
        yield


def _one_line(error: Exception) -> str:
    """The error as a one-line message for the user."""
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    elif isinstance(error, SuiteError | OSError):
        text = str(error)
    else:
        text = "not enough memory; try a smaller model or batch, a shorter text, or --quantize int8"
    return " ".join(text.splitlines())


def _out_of_memory(error: RuntimeError) -> bool:
    """Whether torch ran out of memory, which only the error's message shows."""
    return "out of memory" in str(error) or "can't allocate memory" in str(error)


def _forget_stdout() -> None:
    """Keep the interpreter from complaining at exit about a closed stdout."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
