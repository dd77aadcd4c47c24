"""The default evaluation: scores of results beside baselines, and the loss on the reference answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.data.hub import to_evaluate
from suite.errors import DataError
from suite.evaluation import Figure, Report, Table, bootstrap
from suite.task.kit.prepare import spread
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.task.contract import Task

BATCH = 32


def evaluate(
    task: Task[Any, Any, Any],
    model: Model,
    data: Sequence[str],
    *,
    train: Sequence[str] = (),
    limit: int = 0,
    progress: Callable[[int], object] = lambda count: None,
) -> Report:
    """Return mean scores of a model's results with 95% intervals over records, beside the task's baselines.

    Args:
        task: the task, which gives records, scores and baselines.
        model: the model to evaluate.
        data: sources of the records to evaluate on.
        train: sources of the records that baselines learn from.
        limit: records, evenly spread; 0 for all.
        progress: called with the number of records just done.

    Returns:
        a report; its `data` has `model`, `records`, and under `results` for each system its figures by name, each with
        `mean`, `low` and `high`, the model's also `nats_per_token` of the right answers.

    Raises:
        DataError: the data cannot be read or has no record.
    """
    sources, told = to_evaluate(data)
    records = spread(list(task.records(sources)), limit)
    if not records:
        raise DataError(f"{', '.join(data)}: no record to evaluate on")
    pipeline = task.pipeline(model)
    inputs = [task.input_of(record) for record in records]
    found = []
    for start in range(0, len(inputs), BATCH):
        found += pipeline(inputs[start : start + BATCH])
        progress(len(found) - start)
    systems = {model.name: found}
    for name, baseline in task.baselines(list(task.records(train)) if train else []).items():
        systems[name] = [baseline(given) for given in inputs]
    results = {name: _means(task, answers, records) for name, answers in systems.items()}
    results[model.name]["nats_per_token"] = {"mean": nats_per_token(task, model, records)}
    names = list(results[model.name])
    rows = [(name, [_cell(figures.get(one), one) for one in names]) for name, figures in results.items()]
    return Report(
        data={"model": model.name, "records": len(records), "results": results},
        tables=[Table(columns=[name.replace("_", " ") for name in names], rows=rows)],
        notes=[*told, count(len(records), "record")],
    )


def nats_per_token(task: Task[Any, Any, Any], model: Model, records: Sequence[Any]) -> float:
    """Return the mean loss, in nats, of the tokens that training would count."""
    import torch

    from suite.training.batches import Batch
    from suite.training.loss import language_modelling

    assert model.tokenizer is not None
    codec = task.codec(model.tokenizer, model.extra)
    loss = language_modelling()
    total = divisors = 0.0
    device = next(model.transformer.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(records), BATCH):
            batch = Batch.collate([codec.encode(record) for record in records[start : start + BATCH]])
            summed, divisor, _ = loss(model.transformer, batch.to(device))
            total, divisors = total + float(summed), divisors + divisor
    return total / max(1.0, divisors)


def _means(task: Task[Any, Any, Any], answers: Sequence[Any], records: Sequence[Any]) -> dict[str, Any]:
    scores = [task.score(answer, record) for answer, record in zip(answers, records, strict=True)]
    found: dict[str, Any] = {}
    for name in scores[0]:
        values = np.array([score[name] for score in scores], dtype=float)
        low, high = bootstrap(values)
        found[name] = {"mean": float(values.mean()), "low": low, "high": high}
    return found


def _cell(figure: Any, name: str) -> Figure:
    if figure is None:
        return Figure(value=None)
    if "low" not in figure:
        return Figure(value=figure["mean"], digits=4)
    from suite.evaluation import Interval

    return Figure(value=figure["mean"], interval=Interval(figure["low"], figure["high"]), unit="percent", digits=1)
