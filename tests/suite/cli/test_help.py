"""The help of every command is written in plain English."""

import re
from collections.abc import Iterator

import click
import pytest

from suite.cli.main import cli
from suite.wording import count

# what no English-speaking engineer would write, and what help texts of this project once said
BANNED = re.compile(
    r"^Of |^None more|^At most\.|^Their |^Its |\bso (?:many|long|much)\b|\band told\b|\bsum(?:s|med)? (?:\w+ )?up\b"
    r"|\bgoes? on\b|\bon hold\b|\bto rely on\b|\bas (?:it|they) stands?\b|\bthe draws\b|\bin words\b|\bstand beside\b"
    r"|\bfar fewer\b|\bnone taken\b|\bfor now\b|\blikeliest\b",
    re.IGNORECASE,
)
DEFAULT = re.compile(r"  \[default[^\[\]]*\]$")


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command of a tree, with its full name."""
    yield context.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, click.Context(below, parent=context, info_name=name))


def faults(command: click.Command) -> list[str]:
    """What is wrong with the help of a command and its options."""
    found = []
    help = command.help or ""
    if not help.partition("\n")[0].endswith("."):
        found.append("the summary is not a sentence with a full stop")
    if match := BANNED.search(help):
        found.append(f"the help says {match[0]!r}")
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        name = option.opts[0]
        text = DEFAULT.sub("", option.help or "")
        if not text:
            found.append(f"{name} has no help")
            continue
        if not text.endswith("."):
            found.append(f"{name}: {text!r} lacks its full stop, or its default is not in the form '  [default: ...]'")
        has_default = isinstance(option.default, str | int | float) and option.default != "" and not option.is_flag
        if has_default and text == option.help and not option.show_default:
            found.append(f"{name}: the default is not stated")
        if not text[0].isupper():
            found.append(f"{name}: {text!r} does not begin with a capital letter")
        if match := BANNED.search(text):
            found.append(f"{name}: {text!r} says {match[0]!r}")
    return found


COMMANDS = dict(walk(cli, click.Context(cli, info_name="suite")))


def test_the_walk_reaches_every_task() -> None:
    """A walk that missed the tasks' own commands would pass whatever they say."""
    for group in ("run", "eval"):
        for task in ("classify", "lm", "music", "summarize", "translate"):
            assert f"suite {group} {task}" in COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_in_plain_english(name: str) -> None:
    """Help texts were riddles such as "Of the draws." and "At most so many.", and some options had none at all."""
    assert faults(COMMANDS[name]) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Of the draws.  [default: 0]", "Of "),
        ("At most so many.", "so many"),
        ("Save and stop after so long.", "so long"),
        ("Random seed.  [default: random, and told.", "and told"),
        ("Number of tokens  [default: 10]", "full stop"),
        ("Number of tokens. [default: 10]", "full stop"),
        ("cpu, cuda or mps.", "capital"),
        ("", "no help"),
    ],
)
def test_riddles_are_found(text: str, fault: str) -> None:
    """The check itself catches each kind of text that it was written against."""
    command = click.Command("sample", params=[click.Option(["--seed"], help=text)], help="Sample a text.")
    assert any(fault in line for line in faults(command)), faults(command)


def test_summaries_of_tasks_are_plain() -> None:
    """`suite run --help` promised "probabilities to rely on"."""
    for group in (cli.commands["run"], cli.commands["eval"]):
        context = click.Context(group, info_name="suite")
        assert not BANNED.search(group.get_help(context))


@pytest.mark.parametrize(
    ("number", "noun", "plural", "expected"),
    [
        (0, "record", "", "0 records"),
        (1, "other", "", "1 other"),
        (1, "class", "classes", "1 class"),
        (1200, "class", "classes", "1,200 classes"),
    ],
)
def test_count_knows_the_singular(number: int, noun: str, plural: str, expected: str) -> None:
    """Notices said "1 others" and "1 documents"."""
    assert count(number, noun, plural) == expected
