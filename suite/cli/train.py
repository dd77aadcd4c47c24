"""`suite train`: from a recipe and data to a checkpoint."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from suite.cli.options import json_option
from suite.cli.show import first_process, notice, write_json
from suite.task import find_task, registered

TASK_OPTIONS = "suite.cli.train.task_options"
FLAGS = ("--json", "-h", "--help")


def _complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in registered() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


class TrainCommand(click.Command):
    """`train` with the options of the task that its argument names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the task among the words, and add its options to the command's own."""
        ctx.meta[TASK_OPTIONS] = _task_options(args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own options, then the task's."""
        return [*super().get_params(ctx), *ctx.meta.get(TASK_OPTIONS, ())]


def _task_options(args: Sequence[str]) -> list[click.Option]:
    """The options of the task named by the first word that is not an option or its value."""
    words = iter(args)
    for word in words:
        if word.startswith("-"):
            if "=" not in word and word not in FLAGS:
                next(words, None)
        elif word in registered():
            return list(find_task(word).train_options())
        elif word.endswith(".toml"):
            task = _task_of(Path(word))
            return list(find_task(task).train_options()) if task in registered() else []
    return []


def _task_of(path: Path) -> str:
    """The task that a recipe names; "" if it cannot be read, which is reported later."""
    if not path.is_file():  # a pipe can be read but once
        return ""
    try:
        return str(tomllib.loads(path.read_text(encoding="utf-8")).get("task", ""))
    except (OSError, ValueError):
        return ""


@click.command(cls=TrainCommand)
@click.argument("recipe", metavar="TASK|RECIPE.toml", shell_complete=_complete_recipe)
@click.option("--data", multiple=True, metavar="SOURCE", help="Training data: a file, folder, glob or data-set name.")
@click.option("--valid", multiple=True, metavar="SOURCE", help="Validation data.  [default: part of --data]")
@click.option("--base", metavar="MODEL", help="Start from this model: a directory or a name, such as lm or gpt2.")
@click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a setting of the recipe.")
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Directory to write the run to."
)
@click.option(
    "--max-minutes",
    type=click.FloatRange(min=0),
    help="Save and stop after this many minutes (0: no limit).  [default: the recipe's]",
)
@click.option("--device", default="auto", show_default=True, help="Device to train on: auto, cpu, cuda, cuda:1 or mps.")
@json_option
def train(
    recipe: str,
    data: tuple[str, ...],
    valid: tuple[str, ...],
    base: str | None,
    overrides: tuple[str, ...],
    out: Path,
    max_minutes: float | None,
    device: str,
    as_json: bool,
    **of_task: Any,
) -> None:
    """Train a model.

    A TASK is trained with its default recipe; RECIPE.toml is a recipe of your own. --data, --valid and --set may be
    given several times. To resume a run that was stopped, give the same command again. From its first saved state
    on, the directory of a run holds a model that can be used.

    On several GPUs or CPU processes: torchrun --nproc-per-node N -m suite train ...

    \b
    suite train lm --data novels/ --out runs/novels
    suite train lm --data notes.txt --set model.n_layer=6 --set optimizer.lr=1e-3 --out runs/notes
    suite train lm --base gpt2 --data notes.txt --out runs/gpt2-notes
    suite train translate --data pairs.tsv --source en --target de --out runs/en-de
    suite run lm "Once" --model runs/novels
    torchrun --nproc-per-node 2 -m suite train lm --data novels/ --out runs/novels
    """
    path = Path(recipe) if recipe.endswith(".toml") else find_task(recipe).default_recipe(base is not None)
    from suite.training.fit import fit
    from suite.training.recipe import Recipe

    lines = list(overrides)
    if not recipe.endswith(".toml"):
        lines.append(f'task="{recipe}"')
    if base is not None:
        lines.append(f"base={json.dumps(base, ensure_ascii=False)}")
    for key, value in (("train", data), ("valid", valid), *of_task.items()):
        if value:
            lines.append(f"data.{key}={json.dumps(value, ensure_ascii=False)}")
    if max_minutes is not None:
        lines.append(f"run.max_minutes={max_minutes}")
    fitted = fit(Recipe.load(path, lines), out, device=device, say=notice if first_process() else None)
    result = fitted.result
    if not first_process():
        return
    if as_json:
        write_json(
            {
                "checkpoint": str(fitted.checkpoint),
                "parameters": fitted.parameters,
                "step": result.step,
                "finished": result.finished,
                "best_loss": result.best_loss,
                "best_step": result.best_step,
            }
        )
        return
    state = "finished" if result.finished else "stopped; give the same command again to resume"
    loss = "" if result.best_loss is None else f", validation loss {result.best_loss:.4f} at step {result.best_step:,}"
    click.echo(f"{fitted.checkpoint}: step {result.step:,}, {state}{loss}")
