"""Command groups that suggest the nearest command after a typing error."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import click

from suite.errors import SuiteError
from suite.task import Task, find_task, registered, suggest

COMMANDS = "suite.commands"


class Group(click.Group):
    """A group that keeps its commands in the order they were added."""

    kind = "command"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the help page."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; raises an error that names the nearest if there is none."""
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and name not in self.list_commands(ctx):
            raise click.UsageError(f"no {self.kind} {name!r}; {suggest(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


class ExtensibleGroup(Group):
    """A group with the commands that packages register under the entry-point group `suite.commands`.

    They stand after the first of its own, and are imported when they are needed.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the help page."""
        first, *rest = self.commands
        return [first, *sorted(point.name for point in entry_points(group=COMMANDS)), *rest]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The group's own command of that name, or a registered one."""
        own = super().get_command(ctx, cmd_name)
        if own is None:
            for point in entry_points(group=COMMANDS, name=cmd_name):
                loaded: click.Command = point.load()
                return loaded
        return own


class TaskGroup(Group):
    """One command for each installed task; a task is imported when its command is needed.

    Subclasses say which of the task's commands it is.
    """

    kind = "task"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the installed tasks."""
        return sorted(registered())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The task's command."""
        return self.command_of(find_task(cmd_name)) if cmd_name in registered() else None

    def command_of(self, task: Task[Any, Any, Any]) -> click.Command:
        """The task's command for this group."""
        raise NotImplementedError

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the tasks with their summaries."""
        rows = []
        for name in self.list_commands(ctx):
            try:
                rows.append((name, find_task(name).summary))
            except (ImportError, SuiteError) as error:  # somebody's broken package must not hide the other tasks
                rows.append((name, f"cannot be imported: {error}"))
        with formatter.section("Tasks"):
            formatter.write_dl(rows)
