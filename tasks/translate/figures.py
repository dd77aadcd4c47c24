"""Which choices of format and positions matter to a small translator: an ablation on Multi30k, English to German.

    python -m suite.tasks.translate.figures multi30k --out runs/ablation

DATA is a folder with train.en.gz, train.de.gz, val.* and test_2016_flickr.*. Runs that are in --out already are read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from suite import load
from suite.cli.show import notice, table
from suite.data.files import write_atomic
from suite.tasks.translate.evaluate import evaluate
from suite.tasks.translate.task import Translation
from suite.training.fit import cache_directory, fit_data
from suite.training.recipe import Recipe

CAUSAL = "translate.attention=causal"
# loss on the source needs causal attention: in a prefix each token sees the one that it should foretell
CHOICES = {
    "prefix, rotary positions": (),
    "causal source": (CAUSAL,),
    "causal, loss on the source 0.1": (CAUSAL, "loss.source_weight=0.1"),
    "causal, loss on the source 0.5": (CAUSAL, "loss.source_weight=0.5"),
    "prefix, relative positions": ("model.position=relative", "model.relative_span=64", "model.relative_ahead=63"),
    "prefix, learned positions": ("model.position=learned",),
    "prefix, rotary, restarted": ("model.restart_positions=true",),
}


@click.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/ablation"), show_default=True)
@click.option("--seeds", default=3, show_default=True, help="How many: 1, 2, ...")
@click.option("--only", multiple=True, type=click.Choice(list(CHOICES)), help="Choices. [default: all]")
@click.option("--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a line of the recipe.")
def main(data: Path, out: Path, seeds: int, only: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Train `ablation.toml` with each choice and seed; print loss on val and greedy BLEU on test_2016."""
    runs: dict[str, list[dict[str, Any]]] = {choice: [] for choice in only or CHOICES}
    for seed in range(1, seeds + 1):  # seed by seed, so that a run cut short compares all choices
        for choice, found in runs.items():
            found.append(run(choice, seed, data, out, settings))
    rows = []
    for choice, found in runs.items():
        nats, bleu = ([one[key] for one in found] for key in ("nats", "bleu"))
        each = " ".join(f"{score:.1f}" for score in bleu)
        rows.append([choice, f"{np.mean(nats):.3f}", f"{np.mean(bleu):.1f}", each])
    click.echo("\n".join(table(rows, "lrrl", ["choice", "nats/token", "BLEU lowercased", "by seed"])))


def run(choice: str, seed: int, data: Path, out: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Train and evaluate once; figures that are there already are read."""
    label = f"{choice.replace(', ', '-').replace(' ', '-')}-seed{seed}"
    kept = out / f"{label}.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    train, valid, test = (
        f"en-de={data / name}.en.gz,{data / name}.de.gz" for name in ("train", "val", "test_2016_flickr")
    )
    lines = [f"data.train=[{json.dumps(train)}]", f"data.valid=[{json.dumps(valid)}]", f"seed={seed}"]
    recipe = Recipe.load(Path(__file__).with_name("ablation.toml"), [*lines, *CHOICES[choice], *settings])
    fitted = fit_data(recipe, Translation().prepare(recipe, cache_directory()), out / label, say=notice)
    scores = evaluate(load(fitted.checkpoint), [test], source="en", target="de", beams=1)
    found = {
        "choice": choice,
        "seed": seed,
        "steps": fitted.result.step,
        "parameters": fitted.parameters,
        "nats": fitted.result.best_loss,
        "bleu": scores["results"]["model"]["BLEU lowercased"]["score"],
    }
    write_atomic(kept, (json.dumps(found, indent=1) + "\n").encode())
    return found


if __name__ == "__main__":
    main()
