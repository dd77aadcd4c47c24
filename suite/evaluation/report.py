"""Evaluation reports of all tasks: tables for people, as text or Markdown, and plain values for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import click

from suite.evaluation.bootstrap import Interval

Unit = Literal["number", "percent", "count"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number in a table, with its interval and format.

    Attributes:
        value: the number; None if it is undefined or was not measured.
        interval: its 95% interval.
        unit: "percent" shows a share from 0 to 1 as a percentage; "count" shows a whole number.
        digits: number of digits after the decimal point.

    Example:
        >>> str(Figure(value=0.5, interval=Interval(0.4, 0.61), unit="percent", digits=1))
        '50.0% [40.0, 61.0]'
    """

    value: float | None
    interval: Interval | None = None
    unit: Unit = "number"
    digits: int = 2

    def __str__(self) -> str:
        if self.value is None:
            return "-"
        if self.unit == "count":
            return f"{self.value:,.0f}"
        scale = 100.0 if self.unit == "percent" else 1.0
        text = f"{scale * self.value:,.{self.digits}f}" + ("%" if self.unit == "percent" else "")
        if self.interval is not None:
            low, high = (f"{scale * bound:,.{self.digits}f}" for bound in self.interval)
            text += f" [{low}, {high}]"
        return text


Cell = Figure | str


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of figures with named rows and columns.

    Attributes:
        columns: column headings.
        rows: name of each row (a system, a class) and its cells, one per column.
        title: shown above; "" for none.
        align: "l" or "r" for each column ("": all right-aligned).
        head: heading of the column of row names.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    title: str = ""
    align: str = ""
    head: str = ""

    def text(self) -> str:
        """Return the table as aligned columns for a terminal."""
        from suite.cli.show import table

        rows = [[name, *map(str, cells)] for name, cells in self.rows]
        lines = table(rows, "l" + (self.align or "r" * len(self.columns)), [self.head, *self.columns])
        return "\n".join([self.title, *lines] if self.title else lines)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        sides = {"l": "---", "r": "---:"}
        rows = [
            [self.head, *self.columns],
            ["---", *(sides[side] for side in self.align or "r" * len(self.columns))],
            *([click.unstyle(name), *(click.unstyle(str(cell)) for cell in cells)] for name, cells in self.rows),
        ]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        return "\n".join([f"**{self.title}**", "", *lines] if self.title else lines)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The results of an evaluation.

    Attributes:
        data: all results as plain JSON values (None if undefined).
        tables: the main results, for people.
        notes: lines that say what was evaluated, guessed or left out.

    `report["results"]` reads from `data`.
    """

    data: Mapping[str, Any]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default=())

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return `data` as a dictionary."""
        return dict(self.data)

    def markdown(self) -> str:
        """Return the tables in Markdown, followed by the notes as a list."""
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join([*(table.markdown() for table in self.tables), *([notes] if notes else [])]) + "\n"
