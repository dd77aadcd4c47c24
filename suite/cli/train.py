"""`suite train`: from a recipe and data to a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from suite.cli.options import json_option
from suite.cli.show import first_process, notice, write_json
from suite.task import find_task, registered


def _complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in registered() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("recipe", metavar="TASK|RECIPE.toml", shell_complete=_complete_recipe)
@click.option("--data", multiple=True, metavar="SOURCE", help="Training data: file, folder, glob or data-set name.")
@click.option("--valid", multiple=True, metavar="SOURCE", help="Validation data. [default: a part is held out]")
@click.option("--base", metavar="MODEL", help="Start from this model: a directory or a name, such as lm or gpt2.")
@click.option("--source", metavar="LANG", help="Language of a pair's first side, for `translate`.")
@click.option("--target", metavar="LANG", help="Language of its second side.")
@click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a line of the recipe.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Directory of the run.")
@click.option("--max-minutes", type=click.FloatRange(min=0), help="Save and stop after so long.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 or mps.")
@json_option
def train(
    recipe: str,
    data: tuple[str, ...],
    valid: tuple[str, ...],
    base: str | None,
    source: str | None,
    target: str | None,
    overrides: tuple[str, ...],
    out: Path,
    max_minutes: float | None,
    device: str,
    as_json: bool,
) -> None:
    """Train a model.

    A TASK starts from its default recipe; RECIPE.toml is one of your own. --data, --valid and --set may be given
    several times. The same command goes on with a run that was stopped. From its first saved state on, the run's
    directory is a model that can be used.

    On several GPUs, or CPU processes, `torchrun -m suite train` takes each step with all of them.

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
    if base is not None:
        lines.append(f"base={json.dumps(base, ensure_ascii=False)}")
    for key, value in (("train", data), ("valid", valid), ("source", source), ("target", target)):
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
    state = "finished" if result.finished else "stopped for now; the same command goes on"
    loss = "" if result.best_loss is None else f", validation loss {result.best_loss:.4f} at step {result.best_step:,}"
    click.echo(f"{fitted.checkpoint}: step {result.step:,}, {state}{loss}")
