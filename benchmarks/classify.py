"""The classification figures of FIGURES.md: fine-tuning on published data sets, several seeds, beside a linear model.

    python -m benchmarks.classify DATA --out runs/figures --only trec --only sst2

DATA is a folder with ag-news/, sst2/, trec/, banking77/ and clinc150/. Each run's figures are kept in --out and not
made twice, so a stopped session goes on where it was. Every run trains `small.toml`, with the settings of its entry.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from suite.checkpoint import load
from suite.cli.show import notice, table
from suite.data.labelled import Labelled, read_labelled, stratified_split
from suite.tasks.classify import baseline, metrics
from suite.tasks.classify.codec import text_of
from suite.tasks.classify.pipeline import Classifier
from suite.tasks.classify.task import ClassifyTask, draw
from suite.training.fit import fit_data, kept
from suite.training.recipe import Recipe


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A data set and how it is used.

    Args:
        train, test: sources under DATA; without `test`, a tenth of `train` by a fixed seed.
        outside: sources of texts that belong to no class, for out-of-scope detection.
        columns: for `read_labelled`; those of `test` may differ.
        settings: of the recipe.
    """

    train: Sequence[str]
    test: Sequence[str] = ()
    outside: Sequence[str] = ()
    columns: dict[str, Any] = dataclasses.field(default_factory=dict)
    test_columns: dict[str, Any] = dataclasses.field(default_factory=dict)
    settings: Sequence[str] = ()


PLAIN = {"header": False}
AG_TEST = {"header": False, "label": "1", "names": ["World", "Sports", "Business", "Sci/Tech"]}
BENCHMARKS = {
    "ag-news": Benchmark(
        train=["ag-news/train_part.tsv.gz"],
        test=["ag-news/test_first3800.csv.gz"],
        columns={"header": False, "text": "1", "label": "2"},
        test_columns=AG_TEST | {"text": ["2", "3"]},
        settings=["run.epochs=4"],
    ),
    "sst2": Benchmark(
        train=["sst2/train.tsv.gz"],
        test=["sst2/dev.tsv.gz"],
        columns=PLAIN | {"text": "1", "label": "2"},
        settings=["run.epochs=4"],
    ),
    "sst2-phrases": Benchmark(
        train=["sst2/train_phrases.tsv.gz"],
        test=["sst2/dev.tsv.gz"],
        columns=PLAIN | {"text": "1", "label": "2"},
        settings=["run.epochs=2"],
    ),
    "trec": Benchmark(
        train=["trec/train.tsv.gz"],
        test=["trec/valid.tsv.gz"],
        columns=PLAIN | {"text": "2", "label": "1"},
        settings=["run.epochs=12"],
    ),
    "banking77": Benchmark(train=["banking77/train.csv.gz"], settings=["run.epochs=12"]),
    "clinc150": Benchmark(
        train=["clinc150/data_full_train_val.json.gz:train"],
        test=["clinc150/data_full_train_val.json.gz:val"],
        outside=["clinc150/data_full_train_val.json.gz:oos_train", "clinc150/data_full_train_val.json.gz:oos_val"],
        columns={"text": "1", "label": "2"},
        settings=["run.epochs=10"],
    ),
}


def read(benchmark: Benchmark, data: Path) -> tuple[list[Labelled], list[Labelled], list[Labelled]]:
    """Texts to train on, to test on, and outside of all classes."""

    def records(sources: Sequence[str], columns: dict[str, Any]) -> list[Labelled]:
        return read_labelled([str(data / source) for source in sources], **columns).records if sources else []

    train = records(benchmark.train, benchmark.columns)
    if not benchmark.test:
        train, test = stratified_split(train, 0.1, seed=0)
    else:
        test = records(benchmark.test, benchmark.test_columns or benchmark.columns)
    return train, test, records(benchmark.outside, benchmark.columns)


def probabilities(classifier: Classifier, records: Sequence[Labelled]) -> tuple[metrics.Floats, metrics.Floats]:
    """(N, C) of records, columns in the order of the classifier's labels; also without its linear model of words."""
    texts = [text_of(record) for record in records]
    logits = torch.stack([found for found, _ in classifier.logits(texts)])
    parts = logits, logits - classifier.word_logits(texts)
    whole, alone = (classifier.to_probabilities(part / classifier.codec.temperature).double() for part in parts)
    return whole.numpy(), alone.numpy()


def run(
    name: str, data: Path, out: Path, seed: int, limit: int, nothing: bool, settings: Sequence[str]
) -> dict[str, Any]:
    """Train and test; what was made before is read."""
    label = "-".join([name, *(["nothing"] if nothing else []), *([str(limit)] if limit else []), f"seed{seed}"])
    benchmark, task = BENCHMARKS[name], ClassifyTask()
    lines = [*benchmark.settings, *(["tune.kind=scratch"] if nothing else []), *settings, f"seed={seed}"]
    recipe = Recipe.load(task.default_recipe(), lines)
    return kept(out / f"{label}.json", recipe, partial(make, benchmark, task, recipe, data, out / label, limit))


def make(benchmark: Benchmark, task: ClassifyTask, recipe: Recipe, data: Path, out: Path, limit: int) -> dict[str, Any]:
    """Train and test once."""
    train, test, outside = read(benchmark, data)
    if limit:
        train = draw(train, limit, recipe.seed)
    learn, held = stratified_split(train, 0.05 if len(train) > 2000 else 0.2, recipe.seed)
    start = time.perf_counter()
    tables = task.tables(dataclasses.replace(recipe, data={"train": list(benchmark.train), **recipe.data}))
    fitted = fit_data(recipe, task.prepare_records(recipe, tables, learn, held), out, say=notice)
    seconds = time.perf_counter() - start
    classifier = Classifier(load(fitted.checkpoint))
    truth = np.array([classifier.labels.index(record.labels[0]) for record in test])
    inside, alone = probabilities(classifier, test)
    # texts outside of all classes need some label to be read; it is never looked at
    others = [dataclasses.replace(record, labels=classifier.labels[:1]) for record in outside]
    linear = baseline.linear(train, [*test, *others], classifier.labels, multi=False).probabilities
    found: dict[str, Any] = {
        "benchmark": out.name,
        "train": len(learn),
        "held_out": len(held),
        "test": len(test),
        "steps": fitted.result.step,
        "minutes": round(seconds / 60, 2),
        "model": metrics.single_label(inside, truth),
        # of its probabilities nothing is told: the temperature is that of the sum
        "transformer": {key: metrics.single_label(alone, truth)[key] for key in ("accuracy", "macro_f1")},
        "linear": metrics.single_label(linear[: len(test)], truth),
    }
    if outside:
        is_outside = np.arange(len(test) + len(outside)) >= len(test)
        found["model"] |= outside_figures(np.concatenate([inside, probabilities(classifier, outside)[0]]), is_outside)
        found["linear"] |= outside_figures(linear, is_outside)
    return found


def outside_figures(found: metrics.Floats, outside: metrics.Bools) -> dict[str, float]:
    """Out-of-scope AUROC of probabilities, named for the table."""
    return {f"outside_{key}": value for key, value in metrics.out_of_scope_auroc(found, outside).items()}


@click.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/figures"), show_default=True)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(BENCHMARKS)),
    help="Data set to use; may be given several times.  [default: all]",
)
@click.option("--seeds", default=3, show_default=True, help="Number of seeds; they are 1, 2, ...")
@click.option("--limit", default=0, help="Training texts to use, chosen at random by the seed.  [default: all]")
@click.option("--nothing", is_flag=True, help="Start from random weights instead of the language model.")
@click.option("--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a setting of the recipe.")
def main(
    data: Path, out: Path, only: tuple[str, ...], seeds: int, limit: int, nothing: bool, settings: tuple[str, ...]
) -> None:
    """Print, for each data set, accuracy and calibration over the seeds beside tf-idf + logistic regression."""
    rows = []
    for name in only or BENCHMARKS:
        runs = [run(name, data, out, seed, limit, nothing, settings) for seed in range(1, seeds + 1)]
        keys = [key for key in ("accuracy", "macro_f1", "ece", *runs[0]["model"]) if key in runs[0]["model"]]
        for key in dict.fromkeys(keys):
            ours = [found["model"][key] for found in runs]
            others = ([found[side][key] for found in runs if key in found[side]] for side in ("transformer", "linear"))
            means = (f"{np.mean(figures):.4f}" if figures else "" for figures in others)
            rows.append([name, key, f"{np.mean(ours):.4f}", f"{np.ptp(ours) / 2:.4f}", *means])
        rows.append([name, "minutes", f"{np.mean([found['minutes'] for found in runs]):.1f}", "", "", ""])
    heads = ["data", "figure", "mean", "half the range", "transformer alone", "tf-idf + LR"]
    click.echo("\n".join(table(rows, "llrrrr", heads)))


if __name__ == "__main__":
    main()
