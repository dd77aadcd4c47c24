"""`suite run` and `suite eval`: one command for each installed task, which the task brings along."""

from __future__ import annotations

from typing import Any

import click

from suite.cli.groups import TaskGroup
from suite.task import Task


class RunGroup(TaskGroup):
    """The tasks' run commands."""

    def command_of(self, task: Task[Any, Any, Any]) -> click.Command:
        """The command that does the task."""
        return task.run_command()


class EvalGroup(TaskGroup):
    """The tasks' eval commands."""

    def command_of(self, task: Task[Any, Any, Any]) -> click.Command:
        """The command that measures a model on the task."""
        return task.eval_command()


@click.group(cls=RunGroup)
def run() -> None:
    """Run a task with a model."""


@click.group("eval", cls=EvalGroup)
def evaluate() -> None:
    """Evaluate a model on data and compare it with baselines."""
