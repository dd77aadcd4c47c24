"""Evaluation of a classifier on labelled data, compared with the most common class and a linear model of words."""

from __future__ import annotations

import math
import random
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from suite.checkpoint import Model
from suite.data.hub import to_evaluate
from suite.data.labelled import Labelled, check_classes, read_labelled
from suite.errors import DataError
from suite.evaluation import Report
from suite.task import suggest
from suite.tasks.classify import baseline, metrics
from suite.tasks.classify.baseline import Answers, truth_of
from suite.tasks.classify.codec import text_of
from suite.tasks.classify.metrics import Bools
from suite.tasks.classify.options import ClassifyEvalOptions
from suite.tasks.classify.pipeline import Classifier
from suite.tasks.classify.report import tables
from suite.tasks.classify.zero_shot import ZeroShot
from suite.wording import count

LINEAR = "tf-idf + logistic regression"


class _Records(NamedTuple):
    """Records of known classes, records that belong to no class, and notes for the report."""

    inside: list[Labelled]
    outside: list[Labelled]
    notes: list[str]


def evaluate(
    model: Model,
    data: Sequence[str],
    options: ClassifyEvalOptions | None = None,
    *,
    labels: Sequence[str] | None = None,
    threshold: float | None = None,
    progress: Callable[[int], object] | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Report:
    """Accuracy, calibration and mistakes of a classifier, compared with baselines on the same records.

    Args:
        model: a classifier, or with `labels` any language model.
        data: labelled files, folders or data-set names.
        options: how they are read, and what else to measure.
        labels: classes for zero-shot classification.
        threshold: least probability at which a label is assigned, if a text may have several (None: 0.5).
        progress: called with the number of texts just classified.
        say: called with a line about work that `progress` does not count.

    Returns:
        a report. Its data has `model`, `records`, `labels`, `multi`, `notes`; under `results` for each of "model",
        "majority" and "tf-idf + logistic regression" its figures (`metrics.single_label` or `metrics.multi_label`),
        `classes` (precision, recall, f1, auc and support of each) and `reliability`, with `oos_label` also the AUROCs
        `out_of_scope`; `confusion` of the model's most probable classes (rows are the truth, see
        `metrics.confusion_matrix`), and its mistakes as a list, `confused`, the most frequent first. What is
        undefined is None.

    Raises:
        DataError: the data cannot be read, or has a label that the model does not know.
    """
    options = options or ClassifyEvalOptions()
    classifier: Classifier | ZeroShot
    if labels is None:
        classifier = Classifier(model, threshold=0.5 if threshold is None else threshold)
    else:
        classifier = ZeroShot(model, labels=labels)
    records = _read(data, options, classifier)
    inside, notes = records.inside, records.notes
    several = sum(len(record.labels) > 1 for record in inside)
    multi = classifier.multi or several > 0
    _check_counts(inside, several, notes, given=classifier.multi, wanted=multi)
    asked = [*inside, *records.outside]
    contenders = {"model": _ask(classifier, asked, notes, progress)}
    if options.train:
        contenders |= _baselines(options, classifier.labels, asked, multi, say)
    found = _compare(contenders, records, classifier.labels, multi, oos=options.oos_label is not None)
    plain: dict[str, Any] = _plain({"model": model.name, **found})
    summary = f"{count(len(inside), 'record')}, {count(len(classifier.labels), 'class', 'classes')}"
    return Report(data=plain, tables=tables(plain, options.confused), notes=[*notes, summary])


def _columns(options: ClassifyEvalOptions) -> dict[str, Any]:
    """Arguments of `read_labelled` that the data and the training data share."""
    return {"pair": options.pair, "separator": options.separator, "names": options.names, "header": options.header}


def _read(data: Sequence[str], options: ClassifyEvalOptions, classifier: Classifier | ZeroShot) -> _Records:
    """Read the records; raises a DataError for a label that the classifier does not know."""
    oos_label = options.oos_label
    if oos_label in classifier.labels:
        raise DataError(f"the model knows the label {oos_label!r}, so records with it are not out of scope")
    sources, notes = to_evaluate(data)
    found = read_labelled(sources, text=options.text, label=options.label, **_columns(options))
    records, notes = found.records, [*notes, *found.notes]
    if options.limit is not None and options.limit < len(records):
        notes.append(f"{options.limit:,} of {count(len(records), 'record')}, chosen at random")
        chosen = random.Random(0).sample(range(len(records)), options.limit)
        records = [records[place] for place in sorted(chosen)]
    inside = [record for record in records if oos_label not in record.labels]
    outside = [record for record in records if oos_label in record.labels]
    if not any({*record.labels} & {*classifier.labels} for record in inside):
        check_classes(
            inside,
            f"column {found.columns.label!r}",
            f"name the label's column with --label NAME (there are {', '.join(found.available)})",
        )
    _require_known(inside, classifier.labels)
    if oos_label is not None and not outside:
        raise DataError(f"no record has the out-of-scope label {oos_label!r}; available: {_some(records)}")
    if not inside:
        raise DataError(f"{records[0].where}: all records have the out-of-scope label {oos_label!r}")
    return _Records(inside, outside, notes)


def _check_counts(records: Sequence[Labelled], several: int, notes: list[str], *, given: bool, wanted: bool) -> None:
    """Add notes on several labels and empty texts; raises a DataError for a missing label that the model needs."""
    if several and not given:
        notes.append(f"{count(several, 'record')} with several labels; the model gives only one")
    if not wanted and (bare := next((record for record in records if not record.labels), None)):
        raise DataError(f"{bare.where}: no label, but the model gives one to every text; remove the record")
    empty = [record.where for record in records if not record.text.strip()]
    if empty:
        notes.append(f"{count(len(empty), 'empty text')}, the first at {empty[0]}")


def _ask(
    classifier: Classifier | ZeroShot,
    records: Sequence[Labelled],
    notes: list[str],
    progress: Callable[[int], object] | None,
) -> Answers:
    """The classifier's answers; adds a note if texts were read in pieces."""
    results = classifier([text_of(record) for record in records], progress=progress)
    if cut := sum(result.pieces > 1 for result in results):
        notes.append(f"{count(cut, 'text')} too long for the model to read at once, read in pieces")
    return Answers(
        probabilities=np.array([[result.scores[name] for name in classifier.labels] for result in results]),
        predicted=np.array([[name in result.labels for name in classifier.labels] for result in results]),
        settings={},
    )


def _baselines(
    options: ClassifyEvalOptions,
    labels: Sequence[str],
    asked: Sequence[Labelled],
    multi: bool,
    say: Callable[[str], object],
) -> dict[str, Answers]:
    """Answers of the baselines, trained on `options.train`."""
    source = read_labelled(
        options.train,
        text=options.train_text or options.text,
        label=options.train_label or options.label,
        **_columns(options),
    )
    lessons = [record for record in source.records if options.oos_label not in record.labels]
    _require_known(lessons, labels)
    say(f"training the baselines on {count(len(lessons), 'record')}")
    return {
        "majority": baseline.majority(lessons, asked, labels, multi=multi),
        LINEAR: baseline.linear(lessons, asked, labels, multi=multi),
    }


def _compare(
    contenders: dict[str, Answers], records: _Records, labels: Sequence[str], multi: bool, *, oos: bool
) -> dict[str, Any]:
    """The report's data, without the model's name."""
    inside, outside, notes = records
    truth = truth_of(inside, labels)
    results = {name: answers.settings | _figures(answers, truth, labels, multi) for name, answers in contenders.items()}
    found: dict[str, Any] = {
        "records": len(inside),
        "labels": list(labels),
        "multi": multi,
        "notes": notes,
        "results": results,
    }
    if oos:
        found["out_of_scope_records"] = len(outside)
        scope = np.arange(len(inside) + len(outside)) >= len(inside)
        for name, answers in contenders.items():
            aurocs = metrics.out_of_scope_auroc(answers.probabilities, scope)
            # probabilities that do not sum to one have no entropy
            results[name]["out_of_scope"] = {"max_probability": aurocs["max_probability"]} if multi else aurocs
    predicted = contenders["model"].probabilities[: len(inside)].argmax(axis=1)
    matrix = metrics.confusion_matrix(predicted, truth)
    found["confusion"] = matrix.tolist()
    found["confused"] = [
        {"label": labels[one.truth], "predicted": labels[one.predicted], "count": one.count, "share": one.share}
        for one in metrics.most_confused(matrix, top=matrix.size)
    ]
    return found


def _require_known(records: Sequence[Labelled], labels: Sequence[str]) -> None:
    """Raise a DataError that names the first label the model does not know, its place and its count."""
    known = set(labels)
    unknown = Counter(label for record in records for label in record.labels if label not in known)
    if unknown:
        record = next(record for record in records if not known.issuperset(record.labels))
        label = next(label for label in record.labels if label not in known)
        others = f", nor {count(len(unknown) - 1, 'other')}" if len(unknown) > 1 else ""
        share = f"{unknown[label]:,} of {count(len(records), 'record')}"
        hint = textwrap.shorten(suggest(label, labels), 300, placeholder=" ...")
        raise DataError(f"{record.where}: the model has no label {label!r} ({share}){others}; {hint}")


def _some(records: Sequence[Labelled]) -> str:
    """The most common labels, for an error message."""
    counts = Counter(label for record in records for label in record.labels).most_common()
    more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
    return ", ".join(label for label, _ in counts[:10]) + more


def _figures(answers: Answers, truth: Bools, labels: Sequence[str], multi: bool) -> dict[str, Any]:
    """The figures of a model or a baseline on the records of known classes, which come first."""
    probabilities, predicted = answers.probabilities[: len(truth)], answers.predicted[: len(truth)]
    classes = truth.argmax(axis=1)
    if multi:
        figures = metrics.multi_label(probabilities, predicted, truth)
        bins = metrics.reliability(probabilities.ravel(), truth.ravel())
    else:
        figures = metrics.single_label(probabilities, classes)
        bins = metrics.reliability(probabilities.max(axis=1), probabilities.argmax(axis=1) == classes)
    scores, aucs = metrics.class_scores(predicted, truth), metrics.class_aurocs(probabilities, truth)
    return {
        **figures,
        "classes": [
            {
                "label": label,
                "precision": scores.precision[place],
                "recall": scores.recall[place],
                "f1": scores.f1[place],
                "auc": aucs[place],
                "support": int(scores.support[place]),
            }
            for place, label in enumerate(labels)
        ],
        "reliability": {
            "edges": bins.edges.tolist(),
            "count": bins.count.tolist(),
            "confidence": bins.confidence.tolist(),
            "accuracy": bins.accuracy.tolist(),
        },
    }


def _plain(value: Any) -> Any:
    """The value as JSON types, with None for NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    return value
