"""A dataclass is a command's options: declared once, with types, ranges and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import pytest
from click.testing import CliRunner

from suite.cli.settings import REQUIRED, setting, takes


@dataclass(frozen=True, kw_only=True)
class Options:
    beams: int = setting(5, "Hypotheses to keep.", min=1, metavar="N")
    share: float | None = setting(None, "A share.", min=0.0, max=1.0)
    loud: bool = setting(False, "Shout.")
    stop: tuple[str, ...] = setting((), "End before this.")
    kind: Literal["a", "b"] = setting("a", "Which.", flags=("-k", "--kind"))
    out: Path | None = setting(None, "Output file.")
    inner: int = 3  # no option


@click.command()
@takes(Options, beams=4)
def command(options: Options) -> None:
    click.echo(repr(options))


def ask(*words: str) -> str:
    return CliRunner().invoke(command, words).output


def test_defaults_come_from_the_fields_or_the_command() -> None:
    assert ask() == repr(Options(beams=4)) + "\n"


def test_values_have_the_types_of_the_fields() -> None:
    words = ("--beams", "2", "--share", "0.5", "--loud", "--stop", "x", "--stop", "y", "-k", "b", "--out", "f")
    expected = Options(beams=2, share=0.5, loud=True, stop=("x", "y"), kind="b", out=Path("f"))
    assert ask(*words) == repr(expected) + "\n"


@pytest.mark.parametrize("words", [("--beams", "0"), ("--share", "1.5"), ("--kind", "c"), ("--inner", "4")])
def test_what_does_not_fit_is_refused(words: tuple[str, str]) -> None:
    assert "Error" in ask(*words)


def test_an_option_declared_twice_is_found_when_the_command_is_made() -> None:
    """The second took its value away from the first, which ended in a KeyError when the command ran."""
    with pytest.raises(TypeError, match=r"Options\.beams is an option of the command"):
        takes(Options, "more")(takes(Options)(lambda **_: None))


@dataclass(frozen=True, kw_only=True)
class Needed:
    source: str = setting(REQUIRED, "Language of the text.", metavar="LANG")


def test_what_is_required_must_be_given_on_the_command_line_and_in_python() -> None:
    """With a default of None, Python's caller was told of it by a failure far away."""
    needs = click.command()(takes(Needed)(lambda options: click.echo(repr(options))))
    assert CliRunner().invoke(needs, ["--source", "en"]).output == repr(Needed(source="en")) + "\n"
    assert "Missing option '--source'" in CliRunner().invoke(needs, []).output
    with pytest.raises(TypeError, match="source"):
        Needed()
    assert "[required]" in CliRunner().invoke(needs, ["--help"]).output


def test_help_states_the_default_once() -> None:
    text = " ".join(ask("--help").split())
    assert "Hypotheses to keep. [default: 4]" in text and "Shout. --" in text
