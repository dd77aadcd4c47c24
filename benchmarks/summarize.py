"""Fine-tuning from the language model against training from nothing, on few and on many articles.

python -m benchmarks.summarize 'wikipedia-2015/train-*.jsonl.gz' --valid wikipedia-2015/valid.jsonl.gz

Source: Khandelwal et al. 2019, "Sample Efficient Text Summarization Using a Single Pre-Trained Transformer".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from suite import load
from suite.cli.show import notice, table
from suite.data.article_sets import read_articles
from suite.data.tables import Notes
from suite.task import find_task
from suite.tasks.summarize.evaluate import evaluate
from suite.tasks.summarize.options import ComparisonOptions
from suite.training.fit import cache_directory, fit_data, kept
from suite.training.recipe import Recipe

RECIPE = Path(__file__).parents[1] / "tasks" / "summarize" / "curve.toml"
SHARES = (0.01, 0.1, 1.0)
STARTS = {  # what is trained from nothing takes larger steps
    "the language model": (),
    "nothing": ("tune.kind=scratch", "optimizer.lr=3e-3", "optimizer.matrix_lr=5e-3"),
}


@click.command()
@click.argument("train")
@click.option("--valid", required=True, help="Articles to validate on.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/curve"), show_default=True)
@click.option(
    "--limit",
    default=100,
    show_default=True,
    help="Number of articles of --valid to write leads for and score with ROUGE.",
)
@click.option("--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a setting of the recipe.")
def main(train: str, valid: str, out: Path, limit: int, settings: tuple[str, ...]) -> None:
    """Train `curve.toml` on 1%, 10% and all of TRAIN, from both starts; print loss and ROUGE of the leads written."""
    articles = sum(1 for _ in read_articles([train], Notes()))
    rows = []
    for share in SHARES:
        for start in STARTS:
            found = run(start, round(share * articles), train, valid, out, limit, settings)
            rouge = (f"{100 * found['rouge'][name]['mean']:.1f}" for name in ("ROUGE-1", "ROUGE-2", "ROUGE-L"))
            rows.append([f"{found['articles']:,}", start, f"{found['nats']:.3f}", str(found["best_step"]), *rouge])
    heads = ["articles", "from", "nats/token", "best step", "ROUGE-1", "ROUGE-2", "ROUGE-L"]
    click.echo("\n".join(table(rows, "rlrrrrr", heads)))


def run(
    start: str, articles: int, train: str, valid: str, out: Path, limit: int, settings: Sequence[str]
) -> dict[str, Any]:
    """Train and evaluate; what was made before is read."""
    label = f"{articles}-{start.split()[-1]}"
    lines = [f"data.train=[{json.dumps(train)}]", f"data.valid=[{json.dumps(valid)}]", f"data.limit={articles}"]
    recipe = Recipe.load(RECIPE, [*lines, *STARTS[start], *settings])
    return kept(out / f"{label}.json", recipe, partial(make, recipe, articles, valid, out / label, limit))


def make(recipe: Recipe, articles: int, valid: str, out: Path, limit: int) -> dict[str, Any]:
    """Train and evaluate once."""
    fitted = fit_data(recipe, find_task("summarize").prepare(recipe, cache_directory()), out, say=notice)
    scores = evaluate(load(fitted.checkpoint), [valid], ComparisonOptions(styles=("write",), limit=limit))
    return {
        "articles": articles,
        "nats": fitted.result.best_loss,
        "best_step": fitted.result.best_step,
        "rouge": scores["systems"]["write"]["rouge"],
        "nats_per_token": scores["nats_per_token"],
    }


if __name__ == "__main__":
    main()
