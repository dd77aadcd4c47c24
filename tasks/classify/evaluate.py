"""How good a classifier is on labelled data, beside the commonest class and a linear model of words."""

from __future__ import annotations

import math
import random
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from suite.checkpoint import Model
from suite.data.hub import to_evaluate
from suite.data.labelled import Labelled, check_classes, read_labelled
from suite.errors import DataError
from suite.task import suggest
from suite.tasks.classify import baseline, metrics
from suite.tasks.classify.baseline import truth_of
from suite.tasks.classify.codec import text_of
from suite.tasks.classify.metrics import Bools, Floats
from suite.tasks.classify.pipeline import Classifier
from suite.tasks.classify.zero_shot import ZeroShot
from suite.wording import count

LINEAR = "tf-idf + logistic regression"


def evaluate(
    model: Model,
    data: Sequence[str],
    *,
    train: Sequence[str] = (),
    labels: Sequence[str] = (),
    threshold: float = 0.5,
    text: str | Sequence[str] = "",
    label: str = "",
    pair: str = "",
    separator: str = "",
    names: Sequence[str] = (),
    header: bool | None = None,
    train_text: str | Sequence[str] = "",
    train_label: str = "",
    limit: int | None = None,
    oos_label: str | None = None,
    progress: Callable[[int], object] | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Accuracy, calibration and mistakes of a classifier, beside baselines on the same records.

    Args:
        model: a classifier, or with `labels` any language model.
        data: labelled files, folders or data-set names; this and the next options as `suite.data.labelled` has them.
        train: labelled data that the baselines learn from (none: there are no baselines).
        labels: classes to choose from zero-shot.
        threshold: with several labels a text, the least probability of those that hold.
        text, label, pair, separator, names, header: how records are read, of `data` and `train` alike.
        train_text, train_label: the columns of `train`, where they are others.
        limit: evaluate so many records, drawn at random, the same each time.
        oos_label: records with this label belong to none of the classes. They count for nothing but how well the
            probabilities tell them from the rest.
        progress: called with the number of texts just classified.
        say: takes a line on what goes on that `progress` does not count.

    Returns:
        plain values: `model`, `records`, `labels`, `multi`, `notes`; under `results` for each of "model", "majority"
        and "tf-idf + logistic regression" its figures (`metrics.single_label` or `metrics.multi_label`), `classes`
        (precision, recall, f1, auc and support of each) and `reliability`, with `oos_label` also the AUROCs
        `out_of_scope`; `confusion` of the model's likeliest classes (rows are the truth, see
        `metrics.confusion_matrix`), and its mistakes as a list, `confused`, the most frequent first. What is
        undefined is None.

    Raises:
        DataError: the data cannot be read, or has a label that the model does not know.
    """
    classifier = ZeroShot(model, labels=labels) if labels else Classifier(model, threshold=threshold)
    if oos_label in classifier.labels:
        raise DataError(f"the model knows the label {oos_label!r}, so records with it are not out of scope")
    options: dict[str, Any] = {"pair": pair, "separator": separator, "names": names, "header": header}
    sources, notes = to_evaluate(data)
    found = read_labelled(sources, text=text, label=label, **options)
    notes += found.notes
    records = found.records
    if limit is not None and limit < len(records):
        notes.append(f"{limit:,} of {count(len(records), 'record')}, chosen at random")
        records = [records[place] for place in sorted(random.Random(0).sample(range(len(records)), limit))]
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
    several = sum(len(record.labels) > 1 for record in inside)
    if several and not classifier.multi:
        notes.append(f"{count(several, 'record')} with several labels; the model gives only one")
    multi = classifier.multi or several > 0
    if not multi and (bare := next((record for record in inside if not record.labels), None)):
        raise DataError(f"{bare.where}: no label, but the model gives one to every text; remove the record")
    notes += _odd(inside)

    known = classifier.labels
    asked = [*inside, *outside]
    answers = classifier([text_of(record) for record in asked], progress=progress)
    if cut := sum(answer.pieces > 1 for answer in answers):
        notes.append(f"{count(cut, 'text')} too long for the model to read at once, read in pieces")
    probabilities = np.array([[answer.scores[name] for name in known] for answer in answers])
    named = np.array([[name in answer.labels for name in known] for answer in answers])
    contenders: dict[str, tuple[Floats, Bools, dict[str, Any]]] = {"model": (probabilities, named, {})}
    if train:
        source = read_labelled(train, text=train_text or text, label=train_label or label, **options)
        lessons = [record for record in source.records if oos_label not in record.labels]
        _require_known(lessons, known)
        say(f"training the baselines on {count(len(lessons), 'record')}")
        for name, learn in (("majority", baseline.majority), (LINEAR, baseline.linear)):
            made = learn(lessons, asked, known, multi=multi)
            contenders[name] = (made.probabilities, made.predicted, made.settings)
    truth = truth_of(inside, known)
    results = {
        name: settings | _figures(odds, predicted, truth, known, multi)
        for name, (odds, predicted, settings) in contenders.items()
    }
    report: dict[str, Any] = {
        "model": model.name,
        "records": len(inside),
        "labels": list(known),
        "multi": multi,
        "notes": notes,
        "results": results,
    }
    if oos_label is not None:
        report["out_of_scope_records"] = len(outside)
        scope = np.arange(len(asked)) >= len(inside)
        for name, (odds, _, _) in contenders.items():
            aurocs = metrics.out_of_scope_auroc(odds, scope)
            # probabilities that do not sum to one have no entropy
            results[name]["out_of_scope"] = {"max_probability": aurocs["max_probability"]} if multi else aurocs
    matrix = metrics.confusion_matrix(probabilities[: len(inside)].argmax(axis=1), truth)
    report["confusion"] = matrix.tolist()
    report["confused"] = [
        {"label": known[one.truth], "predicted": known[one.predicted], "count": one.count, "share": one.share}
        for one in metrics.most_confused(matrix, top=matrix.size)
    ]
    plain: dict[str, Any] = _plain(report)
    return plain


def _require_known(records: Sequence[Labelled], labels: Sequence[str]) -> None:
    """Raise a DataError that names the first label the model does not know, where it stands and how often."""
    known = set(labels)
    unknown = Counter(label for record in records for label in record.labels if label not in known)
    if unknown:
        record = next(record for record in records if not known.issuperset(record.labels))
        label = next(label for label in record.labels if label not in known)
        others = f", nor {count(len(unknown) - 1, 'other')}" if len(unknown) > 1 else ""
        share = f"{unknown[label]:,} of {count(len(records), 'record')}"
        hint = textwrap.shorten(suggest(label, labels), 300, placeholder=" ...")
        raise DataError(f"{record.where}: the model has no label {label!r} ({share}){others}; {hint}")


def _odd(records: Sequence[Labelled]) -> list[str]:
    """What a person should know of the records."""
    empty = [record.where for record in records if not record.text.strip()]
    return [f"{count(len(empty), 'empty text')}, the first at {empty[0]}"] if empty else []


def _some(records: Sequence[Labelled]) -> str:
    """The labels of some records, the commonest first."""
    counts = Counter(label for record in records for label in record.labels).most_common()
    more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
    return ", ".join(label for label, _ in counts[:10]) + more


def _figures(
    probabilities: Floats, predicted: Bools, truth: Bools, labels: Sequence[str], multi: bool
) -> dict[str, Any]:
    """The figures of one contender on the records of known classes, which stand first."""
    probabilities, predicted = probabilities[: len(truth)], predicted[: len(truth)]
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
    """JSON values, with None for what is undefined: JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    return value
