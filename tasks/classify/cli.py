"""`suite run classify` and `suite eval classify`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.options import tell_experimental
from suite.cli.session import Session, session
from suite.cli.settings import takes
from suite.errors import DataError
from suite.task.kit.commands import BulkOptions, ReportOptions, check_format, run_bulk, show_report
from suite.task.kit.commands import texts as read_input
from suite.tasks.classify.options import ClassifyEvalOptions, ClassifyRunOptions, LabelOptions, PictureOptions
from suite.tasks.classify.task import ClassifyTask

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.evaluation import Report
    from suite.task.kit.bulk import Done
    from suite.tasks.classify.pipeline import Classifier
    from suite.tasks.classify.zero_shot import ZeroShot

TOP = 3  # labels shown
LONG = 100_000  # characters; a laptop needs several seconds for them


@click.command("classify")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@takes(ClassifyRunOptions)
@takes(LabelOptions, "choice")
@takes(BulkOptions, "bulk")
@session("classify")
def run(
    texts: tuple[str, ...], options: ClassifyRunOptions, choice: LabelOptions, bulk: BulkOptions, session: Session
) -> None:
    """Label texts, with probabilities.

    Each TEXT is labelled on its own; if TEXT is -, or is left out and input is piped, standard input is read. With
    --input, the columns label and probability are added to each record of a file.

    \b
    suite run classify "The violin is a string instrument, tuned in fifths and played with a bow."
    suite run classify --labels sport,politics,science "The match ended in a draw." --model gpt2
    suite run classify --input mail.csv --column subject --output labelled.csv --min-probability 0.6
    """
    _check(texts, options, choice, bulk, session)
    in_bulk = options.lines or bulk.source is not None
    given = [] if in_bulk else _given(texts, options.file, session)
    if options.pair is not None and len(given) != 1:
        raise click.UsageError("--pair needs exactly one TEXT")
    # gradients need the weights as they are
    model = _load(session, choice, **({"quantize": None} if options.explain else {}))
    classifier = _classifier(model, choice)
    if choice.labels is not None and not session.quiet:
        tell_experimental(
            model,
            "labels little better than chance without training",
            "name a larger language model, such as --model gpt2, or train a classifier: suite train classify",
        )
    if in_bulk:
        _label_file(classifier, options, choice, bulk, session)
    else:
        _label_texts(classifier, given, options, choice, session)


def _check(
    texts: Sequence[str], options: ClassifyRunOptions, choice: LabelOptions, bulk: BulkOptions, session: Session
) -> None:
    """Raise a usage error for options that contradict each other."""
    one = texts or options.file or options.pair is not None or options.explain or options.top_k is not None
    if (options.lines or bulk.source is not None) and one:
        raise click.UsageError("--lines and --input take no TEXT, --file, --pair, --explain or --top-k")
    if options.lines and bulk.source is not None:
        raise click.UsageError("--lines reads standard input and --input reads a file; give only one of them")
    if not options.lines and bulk.source is None and bulk.output is not None:
        raise click.UsageError("--output needs --input or --lines")
    if bulk.source is None and (bulk.column is not None or options.pair_column is not None):
        raise click.UsageError("--column and --pair-column need --input")
    if bulk.output is not None and session.as_json:
        raise click.UsageError("--output takes its format from the file name; leave out --json")
    pairs = options.pair is not None or options.pair_column is not None
    if choice.labels is not None and (options.explain or choice.threshold is not None or pairs):
        raise click.UsageError("--labels cannot be combined with --explain, --threshold, --pair or --pair-column")
    if options.explain and session.quantize != "float32":
        raise click.UsageError("--explain needs gradients, which quantized weights do not have; leave out --quantize")


def _given(texts: tuple[str, ...], file: str | None, session: Session) -> list[str]:
    """The texts from the command line, the file or standard input; raises an error if any is empty."""
    found = read_input(texts, file, quiet=session.quiet)
    for number, text in enumerate(found, 1):
        if not text.strip():
            raise DataError(
                f"text {number} is empty" if len(found) > 1 else "the text is empty; there is nothing to label"
            )
    return found


def _load(session: Session, choice: LabelOptions, **changes: Any) -> Model:
    """Load the model that the options name; the default for zero-shot labelling is a language model."""
    if choice.labels is not None and not session.named:
        changes["name"] = "lm"
    return session.load(**changes)


def _classifier(model: Model, choice: LabelOptions) -> Classifier | ZeroShot:
    from suite.tasks.classify.pipeline import Classifier
    from suite.tasks.classify.zero_shot import ZeroShot

    if choice.labels is not None:
        return ZeroShot(model, labels=choice.labels)
    if choice.threshold is None:
        return Classifier(model)
    classifier = Classifier(model, threshold=choice.threshold)
    if not classifier.multi:
        raise click.UsageError("--threshold needs a model that gives several labels per text; this one gives one")
    return classifier


def _label_texts(
    classifier: Classifier | ZeroShot,
    given: Sequence[str],
    options: ClassifyRunOptions,
    choice: LabelOptions,
    session: Session,
) -> None:
    """Label the texts of the command line."""
    from suite.tasks.classify.show import json_of, show_explanation, show_result

    asked = [text if options.pair is None else (text, options.pair) for text in given]
    if (size := sum(map(len, given))) > LONG:
        session.notice(f"{size:,} characters to read")
    results = classifier(asked, min_probability=options.min_probability)
    reach = options.min_probability
    if classifier.multi:
        reach = max(reach, 0.5 if choice.threshold is None else choice.threshold)
    for number, (text, result) in enumerate(zip(asked, results, strict=True)):
        explanation = classifier.explain(text) if options.explain else None  # type: ignore[union-attr]
        if session.as_json:
            session.json(json_of(result, options.pair, options.top_k, explanation))
            continue
        if result.pieces > 1:
            session.notice(
                f"the text is too long for the model to read at once; it was read in {result.pieces:,} pieces"
            )
        if len(asked) > 1:
            click.secho(("\n" if number else "") + textwrap.shorten(result.text, 76, placeholder=" ..."), dim=True)
        indent = "  " if len(asked) > 1 else ""
        show_result(result, options.top_k or TOP, reach, multi=classifier.multi, indent=indent)
        if explanation is not None:
            show_explanation(explanation, quiet=session.quiet)


def _label_file(
    classifier: Classifier | ZeroShot,
    options: ClassifyRunOptions,
    choice: LabelOptions,
    bulk: BulkOptions,
    session: Session,
) -> None:
    """Label the records of a file, or the lines of standard input."""
    from suite.task.kit.bulk import STANDARD_INPUT
    from suite.tasks.classify.results import check_pairs

    check_pairs(classifier.pairs, options.pair_column is not None)  # before anything is written
    least = options.min_probability
    counts = {f"unsure (below {least:g})": 0, "too long to read at once (read in pieces)": 0}
    unsure, in_pieces = counts

    def seen(row: Any, result: Any) -> None:
        counts[unsure] += result.label is None
        counts[in_pieces] += result.pieces > 1

    def remarks(done: Done) -> list[str]:
        all_counts = {"without text or label": done.empty, **counts}
        return [f"{number:,} {what}" for what, number in all_counts.items() if number]

    done = run_bulk(
        ClassifyTask(),
        classifier,
        lambda texts: classifier(texts, min_probability=least),
        replace(bulk, source=STANDARD_INPUT) if options.lines else bulk,
        session,
        {"min_probability": least, "threshold": choice.threshold, "labels": choice.labels},
        second=options.pair_column,
        seen=seen,
        remarks=remarks,
    )
    if done.columns[:1] == ("predicted_label",):
        names = ", ".join(done.columns)
        session.notice(f"the records have columns of the usual names already; the new ones are {names}")


@click.command("classify")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@takes(ClassifyEvalOptions)
@takes(LabelOptions, "choice")
@takes(PictureOptions, "pictures")
@takes(ReportOptions, "shown")
@session("classify")
def evaluate(
    data: tuple[str, ...],
    options: ClassifyEvalOptions,
    choice: LabelOptions,
    pictures: PictureOptions,
    shown: ReportOptions,
    session: Session,
) -> None:
    """Measure a classifier on labelled data.

    DATA is .csv, .tsv, .jsonl, .json or .parquet files, folders with one subfolder of texts for each class, or data-set
    names. With --train, the model is compared with the most common class and with tf-idf + logistic regression.

    \b
    suite eval classify test.csv --train train.csv --model runs/mine
    suite eval classify test.csv --confusion mistakes.png --reliability trust.png
    """
    check_format(session, shown.markdown)
    for picture in (pictures.reliability, pictures.confusion):
        if picture is not None:
            from suite.tasks.classify.plots import check_picture

            check_picture(picture)
    if choice.labels is not None and choice.threshold is not None:
        raise click.UsageError("--labels cannot be combined with --threshold")
    model = _load(session, choice)
    if choice.threshold is not None:
        _classifier(model, choice)  # refuses a threshold that it has no use for
    from suite.tasks.classify import evaluate as evaluation

    with session.progress("classifying", unit="texts") as progress:
        report = evaluation.evaluate(
            model,
            data,
            options,
            labels=choice.labels,
            threshold=choice.threshold,
            progress=progress.update,
            say=progress.set_postfix_str,
        )
    _draw(report, data, pictures)
    show_report(report, session, markdown=shown.markdown)


def _draw(report: Report, data: Sequence[str], pictures: PictureOptions) -> None:
    """Write the pictures that were asked for."""
    if pictures.reliability is None and pictures.confusion is None:
        return
    import numpy as np

    from suite.tasks.classify import plots
    from suite.tasks.classify.metrics import Reliability

    names = textwrap.shorten(", ".join(Path(one).name for one in data), 60, placeholder=" ...")
    title = f"{report['model']} on {names}"
    if pictures.reliability is not None:
        found = report["results"]["model"]["reliability"]
        bins = {key: np.array(values, dtype=float) for key, values in found.items()}
        plots.plot_reliability(
            Reliability(**{**bins, "count": bins["count"].astype(int)}), pictures.reliability, title=title
        )
    if pictures.confusion is not None:
        plots.plot_confusion(np.array(report["confusion"]), report["labels"], pictures.confusion, title=title)
