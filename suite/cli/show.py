"""Terminal output: numbers, tables, bars and JSON.

Results go to stdout, notices to stderr; colours appear on terminals alone, and not where NO_COLOR is set.
"""

from __future__ import annotations

import json
import math
import os
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

BLOCKS = " ▏▎▍▌▋▊▉█"  # eighths of a character cell


def unicode_terminal() -> bool:
    """Whether stdout can carry block characters."""
    try:
        BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def first_process() -> bool:
    """Whether this process writes output: the first of those that `torchrun` started."""
    return int(os.environ.get("WORLD_SIZE") or 1) == 1 or os.environ.get("RANK", "0") == "0"


def notice(line: str) -> None:
    """Write a notice to stderr; a stderr that is full is no reason to stop."""
    with suppress(OSError):
        click.secho(line, err=True, dim=True)


def write(text: str, *, bold: bool = False) -> None:
    """Write text to stdout unchanged and flush; bold on a terminal with colours."""
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    sys.stdout.write(click.style(text, bold=True) if bold and colours else text)
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """One JSON value on a line of stdout."""
    click.echo(json.dumps(value, ensure_ascii=not unicode_terminal()))


def size(bytes_: float) -> str:
    """A number of bytes with its unit.

    Example:
        >>> size(8_388_608)
        '8.0 MiB'
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = min(int(math.log(max(bytes_, 1), 1024)), len(units) - 1)
    return f"{bytes_:,.0f} B" if power == 0 else f"{bytes_ / 1024**power:.1f} {units[power]}"


def percent(share: float) -> str:
    """A share as a percentage that is never rounded to 0 or 100 while it is neither.

    Example:
        >>> percent(0.31234), percent(0.00001), percent(0.99999)
        ('31.23%', '<0.01%', '>99.99%')
    """
    if 0 < share < 0.00005:
        return "<0.01%"
    if 0.99995 <= share < 1:
        return ">99.99%"
    return f"{100 * share:.2f}%"


def cells(text: str) -> int:
    """Character cells that a text takes: wide characters take two, combining marks and colours none."""
    text = click.unstyle(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def table(rows: Sequence[Sequence[str]], align: str, header: Sequence[str] = (), indent: str = "") -> list[str]:
    """Rows as lines of aligned columns.

    Args:
        rows: cells of text, as many in each row as `align` has letters.
        align: "l" or "r" for each column.
        header: names of the columns, shown bold on a terminal.
        indent: put before each line.

    Example:
        >>> table([["a", "1"], ["bc", "23"]], "lr")
        ['a    1', 'bc  23']
    """
    everything = [header, *rows] if header else rows
    widths = [max(cells(row[column]) for row in everything) for column in range(len(align))]
    lines = []
    for row in everything:
        padded = []
        for text, width, side in zip(row, widths, align, strict=True):
            gap = " " * (width - cells(text))
            padded.append(text + gap if side == "l" else gap + text)
        lines.append(indent + "  ".join(padded).rstrip())
    if header:
        lines[0] = click.style(lines[0], bold=True)
    return lines


def bar(share: float, width: int) -> str:
    """A bar of at most `width` cells, exact to an eighth of one; coloured on a terminal.

    Args:
        share: in [0, 1].
        width: cells of the whole.
    """
    if unicode_terminal():
        eighths = round(share * width * 8)
        drawn = BLOCKS[8] * (eighths // 8) + BLOCKS[eighths % 8].strip()
    else:
        drawn = "#" * round(share * width)
    return click.style(drawn, fg="cyan") if drawn else ""


def printable(text: str) -> str:
    """A token as one word on one line: spaces visible (or in quotes, where ␣ cannot be shown), the rest escaped."""
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
    return escaped.replace(" ", "␣") if unicode_terminal() else f'"{escaped}"'
