"""The evaluation of a classifier as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suite.cli.show import percent
from suite.evaluation import Figure, Table

SINGLE = ("accuracy", "macro_f1", "auc", "nll", "ece")
SEVERAL = ("subset_accuracy", "top_accuracy", "micro_f1", "macro_f1", "auc", "nll", "ece", "top_ece")
SHARES = {"accuracy", "subset_accuracy", "top_accuracy", "ece", "top_ece"}
ACRONYMS = {"f1": "F1", "ece": "ECE", "auc": "AUC", "nll": "NLL"}


def tables(found: Mapping[str, Any], confused: int) -> list[Table]:
    """Tables of the metrics of model and baselines, of the classes, and of the most confused pairs.

    Args:
        found: the data of `evaluate`'s report.
        confused: number of pairs to list.
    """
    made = [_contenders(found), _classes(found["results"]["model"]["classes"])]
    if pairs := found["confused"][:confused]:
        made.append(_confused(pairs))
    return made


def _contenders(found: Mapping[str, Any]) -> Table:
    columns = SEVERAL if found["multi"] else SINGLE
    rows = []
    for name, figures in found["results"].items():
        chosen = f", C = {figures['C']:g}" if "C" in figures else ""
        cells = [_cell(figures[column], share=column in SHARES) for column in columns]
        cells += [_cell(auroc) for auroc in figures.get("out_of_scope", {}).values()]
        rows.append((found["model"] if name == "model" else name + chosen, cells))
    heads = [" ".join(ACRONYMS.get(word, word) for word in column.split("_")) for column in columns]
    outside = found["results"]["model"].get("out_of_scope", {})
    heads += [f"out of scope by {score.replace('_', ' ')}" for score in outside]
    return Table(columns=heads, rows=rows)


def _classes(classes: Sequence[Mapping[str, Any]]) -> Table:
    keys = ("precision", "recall", "f1", "auc")
    rows = [
        (one["label"], [Figure(value=one["support"], unit="count"), *(_cell(one[key]) for key in keys)])
        for one in classes
    ]
    return Table(head="class", columns=["texts", "precision", "recall", "F1", "AUC"], rows=rows)


def _confused(pairs: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (one["label"], [one["predicted"], Figure(value=one["count"], unit="count"), percent(one["share"])])
        for one in pairs
    ]
    return Table(head="true", columns=["predicted", "texts", "share of class"], rows=rows, align="lrr")


def _cell(value: float | None, *, share: bool = False) -> Figure | str:
    return percent(value) if share and value is not None else Figure(value=value, digits=4)
