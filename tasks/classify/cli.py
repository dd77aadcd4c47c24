"""`suite run classify` and `suite eval classify`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from suite.cli.options import (
    check_is_text,
    file_option,
    json_option,
    load_model,
    model_options,
    prompt_text,
    quiet_option,
    tell_experimental,
)
from suite.cli.show import bar, notice, percent, printable, table, unicode_terminal, write_json
from suite.errors import DataError
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.tasks.classify.pipeline import Classified, Classifier, Explanation
    from suite.tasks.classify.zero_shot import ZeroShot

POSITIVE = click.IntRange(min=1)
SHARE = click.FloatRange(0, 1)
BAR = 40  # cells of a certainty
TOP = 3  # labels shown
LONG = 100_000  # characters that take a laptop some seconds
STRONGEST = 8  # tokens of an explanation that are listed
# backgrounds of the 256 colours, from weak to strong; blue and orange are told apart by nearly everyone
FOR, AGAINST, BLACK = (195, 153, 111, 75), (230, 223, 216, 209), 16

labels_option = click.option(
    "--labels",
    metavar="A,B,...",
    help="Experimental: choose among these labels with any language model (zero-shot); a small model guesses.  "
    "[default --model: lm]",
)
threshold_option = click.option(
    "--threshold",
    type=SHARE,
    metavar="P",
    help="If texts have several labels: labels with probability P or more are assigned.  [default: 0.5]",
)


@click.command("classify")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_option
@click.option("--pair", metavar="TEXT", help="Second text, for a classifier of text pairs.")
@click.option("--top-k", type=POSITIVE, metavar="K", help="Number of labels to show.  [default: 3; with --json all]")
@click.option(
    "--min-probability",
    type=SHARE,
    default=0.0,
    metavar="P",
    help="Answer 'unsure' below this probability.  [default: 0]",
)
@threshold_option
@labels_option
@click.option("--explain", is_flag=True, help="Colour the tokens by their influence on the label.")
@click.option("--lines", is_flag=True, help="Label each line of standard input.")
@click.option(
    "--input",
    "source",
    type=click.Path(),
    metavar="FILE",
    help="Label each record of a .csv, .tsv, .jsonl or .txt file.",
)
@click.option("--column", metavar="C", help="Text column (name, or number from 1).  [default: text]")
@click.option("--pair-column", metavar="C", help="Column with the second text of pairs (name, or number from 1).")
@click.option(
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="File to write the labelled records to.  [default: standard output]",
)
@model_options("classify")
@json_option
@quiet_option
def run(
    texts: tuple[str, ...],
    file: str | None,
    pair: str | None,
    top_k: int | None,
    min_probability: float,
    threshold: float | None,
    labels: str | None,
    explain: bool,
    lines: bool,
    source: str | None,
    column: str | None,
    pair_column: str | None,
    output: str | None,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Label texts, with probabilities.

    Each TEXT is labelled on its own; if TEXT is -, or is left out and input is piped, standard input is read. With
    --input, the columns label and probability are added to each record of a file.

    \b
    suite run classify "The violin is a string instrument, tuned in fifths and played with a bow."
    suite run classify --labels sport,politics,science "The match ended in a draw." --model gpt2
    suite run classify --input mail.csv --column subject --output labelled.csv --min-probability 0.6
    """
    bulk = lines or source is not None
    if bulk and (texts or file or pair is not None or explain or top_k is not None):
        raise click.UsageError("--lines and --input take no TEXT, --file, --pair, --explain or --top-k")
    if lines and source is not None:
        raise click.UsageError("--lines reads standard input and --input reads a file; give only one of them")
    if not bulk and output is not None:
        raise click.UsageError("--output needs --input or --lines")
    if source is None and (column is not None or pair_column is not None):
        raise click.UsageError("--column and --pair-column need --input")
    if output is not None and as_json:
        raise click.UsageError("--output takes its format from the file name; leave out --json")
    if labels is not None and (explain or threshold is not None or pair is not None or pair_column is not None):
        raise click.UsageError("--labels cannot be combined with --explain, --threshold, --pair or --pair-column")
    given = [] if bulk else _texts(texts, file, quiet)
    if pair is not None and len(given) != 1:
        raise click.UsageError("--pair needs exactly one TEXT")
    if explain and quantize != "float32":
        raise click.UsageError("--explain needs gradients, which quantized weights do not have; leave out --quantize")
    load = _loader(model, labels, revision, device, None if explain else quantize)
    classifier = _classifier(load, labels, threshold)
    if labels is not None and not quiet:
        tell_experimental(
            load,
            "labels little better than chance without training",
            "name a larger language model, such as --model gpt2, or train a classifier: suite train classify",
        )
    if bulk:
        columns = (column or "text", pair_column or "")
        _run_bulk(classifier, source, output, columns, min_probability, as_json=as_json, quiet=quiet)
        return
    asked = [text if pair is None else (text, pair) for text in given]
    if not quiet and (size := sum(map(len, given))) > LONG:
        notice(f"{size:,} characters to read")
    results = classifier(asked, min_probability=min_probability)
    reach = max(min_probability, 0.5 if threshold is None else threshold) if classifier.multi else min_probability
    for number, (text, result) in enumerate(zip(asked, results, strict=True)):
        explanation = classifier.explain(text) if explain else None  # type: ignore[union-attr]
        if as_json:
            write_json(_json_of(result, pair, top_k, explanation))
            continue
        if result.pieces > 1 and not quiet:
            notice(f"the text is too long for the model to read at once; it was read in {result.pieces:,} pieces")
        if len(asked) > 1:
            click.secho(("\n" if number else "") + textwrap.shorten(result.text, 76, placeholder=" ..."), dim=True)
        _show(result, top_k or TOP, reach, multi=classifier.multi, indent="  " if len(asked) > 1 else "")
        if explanation is not None:
            _show_explanation(explanation, quiet=quiet)


def _texts(texts: tuple[str, ...], file: str | None, quiet: bool) -> list[str]:
    """The texts that were given, none of them empty."""
    if len(texts) > 1:
        if file is not None:
            raise click.UsageError("give the text as an argument or with --file, not both")
        for text in texts:
            check_is_text(text, quiet=quiet)
        found = list(texts)
    elif not texts and file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("there is nothing to label: give a TEXT, --file or --input, or pipe a text in")
    else:
        found = [prompt_text(texts[0] if texts else None, file, quiet=quiet)]
    for number, text in enumerate(found, 1):
        if not text.strip():
            raise DataError(
                f"text {number} is empty" if len(found) > 1 else "the text is empty; there is nothing to label"
            )
    return found


def _loader(model: str, labels: str | None, revision: str | None, device: str, quantize: str | None) -> Model:
    """The model that the options name; zero-shot, it is a language model unless one is named."""
    if labels is not None and click.get_current_context().get_parameter_source("model") is ParameterSource.DEFAULT:
        model = "lm"
    if quantize is None:  # as it is, with weights that gradients reach
        from suite.checkpoint import load

        return load(model, revision=revision, device=device)
    return load_model(model, revision, device, quantize)


def _classifier(model: Model, labels: str | None, threshold: float | None) -> Classifier | ZeroShot:
    from suite.tasks.classify.pipeline import Classifier
    from suite.tasks.classify.zero_shot import ZeroShot

    if labels is not None:
        return ZeroShot(model, labels=labels.split(","))
    classifier = Classifier(model) if threshold is None else Classifier(model, threshold=threshold)
    if threshold is not None and not classifier.multi:
        raise click.UsageError("--threshold needs a model that gives several labels per text; this one gives one")
    return classifier


def _json_of(
    result: Classified, pair: str | None, top_k: int | None, explanation: Explanation | None
) -> dict[str, Any]:
    found: dict[str, Any] = {"text": result.text}
    if pair is not None:
        found["pair"] = pair
    found |= {"label": result.label, "probability": result.probability, "labels": result.labels}
    found |= {"scores": dict(list(result.scores.items())[:top_k]), "pieces": result.pieces}
    if explanation is not None:
        pieces = [[piece, weight] for piece, weight in zip(explanation.pieces, explanation.weights, strict=True)]
        found["explanation"] = {"method": "gradient x input", "label": explanation.label, "tokens": pieces}
    return found


def _show(result: Classified, top_k: int, reach: float, *, multi: bool, indent: str) -> None:
    """Write the likeliest labels with bars; of several that hold, all."""
    if not result.labels:
        click.secho(f"{indent}unsure: no label reaches {percent(reach)}", bold=True)
    shown = list(result.scores.items())[: max(top_k, len(result.labels) if multi else 1)]
    tick = "✓" if unicode_terminal() else "*"
    rows = []
    for label, odds in shown:
        holds = label in result.labels
        mark = [tick if holds else " "] if multi else []
        rows.append([*mark, click.style(label, bold=True) if holds else label, percent(odds), bar(odds, BAR)])
    if not multi and len(result.scores) > len(shown):
        rest = max(0.0, 1 - sum(odds for _, odds in shown))
        rows.append([count(len(result.scores) - len(shown), "other"), percent(rest), ""])
    lines = table(rows, "llrl" if multi else "lrl", indent=indent)
    click.echo("\n".join(lines))


def _show_explanation(explanation: Explanation, *, quiet: bool) -> None:
    """Write the text with its tokens coloured, and the strongest of them."""
    strongest = max((abs(weight) for weight in explanation.weights), default=0) or 1
    click.echo()
    for piece, weight in zip(explanation.pieces, explanation.weights, strict=True):
        level = round(len(FOR) * abs(weight) / strongest)
        shade = (FOR if weight > 0 else AGAINST)[level - 1]
        for part in piece.splitlines(keepends=True):  # a background would run on to the end of the line
            body = part.rstrip("\r\n")
            click.echo(
                (click.style(body, bg=shade, fg=BLACK) if level and body else body) + part[len(body) :], nl=False
            )
    click.echo("\n")
    total = sum(map(abs, explanation.weights)) or 1
    order = sorted(range(len(explanation.pieces)), key=lambda place: -abs(explanation.weights[place]))
    rows = []
    for place in order[:STRONGEST]:
        weight = explanation.weights[place] / total
        side = (
            click.style("for", bg=FOR[1], fg=BLACK) if weight > 0 else click.style("against", bg=AGAINST[1], fg=BLACK)
        )
        rows.append([printable(explanation.pieces[place]), side, percent(abs(weight)), bar(abs(weight), BAR)])
    click.echo("\n".join(table(rows, "llrl", ["token", explanation.label, "share of weight", ""])))
    if not quiet:
        notice(
            "gradient x input: how sensitive the label's score is to each token of this text; it does not show why the "
            "model decided so"
        )


def _run_bulk(
    classifier: Classifier | ZeroShot,
    source: str | None,
    output: str | None,
    columns: tuple[str, str],
    min_probability: float,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Label a file, or the lines of standard input."""
    from tqdm import tqdm

    from suite.tasks.classify.bulk import classify_file

    path = None if source is None else Path(source)
    size = None if path is None else path.stat().st_size
    unit = {"unit": " records"} if size is None else {"unit": "B", "unit_divisor": 1024}
    with tqdm(desc="labelling", total=size, unit_scale=True, disable=None, leave=False, **unit) as progress:
        done = 0

        def report(records: int, read: int) -> None:
            nonlocal done
            done += records
            progress.update(records if size is None else read - progress.n)
            if size is not None:
                progress.set_postfix_str(count(done, "record"), refresh=False)

        summary = classify_file(
            classifier,
            path,
            None if output is None else Path(output),
            column=columns[0],
            pair=columns[1],
            min_probability=min_probability,
            as_json=as_json,
            progress=report,
        )
    if quiet:
        return
    counts = {
        "without text or label": summary.empty,
        f"unsure (below {min_probability:g})": summary.unsure,
        "too long to read at once (read in pieces)": summary.in_pieces,
    }
    notice(
        "; ".join(
            [count(summary.records, "record"), *(f"{number:,} {what}" for what, number in counts.items() if number)]
        )
    )
    if summary.columns[:1] == ("predicted_label",):
        notice(f"the records have columns of the usual names already; the new ones are {', '.join(summary.columns)}")


@click.command("classify")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@click.option("--train", multiple=True, metavar="SOURCE", help="Labelled data to train the baselines on.")
@click.option(
    "--text",
    multiple=True,
    metavar="C",
    help="Column with the text; if given several times, the texts are joined.  [default: guessed]",
)
@click.option("--label", default="", metavar="C", help="Column with the label.  [default: guessed]")
@click.option("--pair", default="", metavar="C", help="Column with the second text of pairs.")
@click.option("--separator", default="", metavar="S", help="Separator between several labels in a cell.")
@click.option(
    "--names",
    default="",
    metavar="A,B,...",
    help="Names of labels that are numbers, in order, or as 1=A,2=B,..., each once.",
)
@click.option(
    "--header/--no-header", default=None, help="Whether the first line holds the column names.  [default: guessed]"
)
@click.option("--train-text", multiple=True, metavar="C", help="Column with the text in --train.  [default: as --text]")
@click.option("--train-label", default="", metavar="C", help="Column with the label in --train.  [default: as --label]")
@click.option("--limit", type=POSITIVE, metavar="N", help="Evaluate N records chosen at random.  [default: all]")
@click.option("--oos-label", metavar="LABEL", help="Label of the records that belong to none of the classes.")
@threshold_option
@labels_option
@click.option(
    "--confused",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    help="Number of confused pairs to list.  [default: 10]",
)
@click.option(
    "--reliability", type=click.Path(path_type=Path), metavar="FILE", help="Draw the calibration (.png or .svg)."
)
@click.option(
    "--confusion", type=click.Path(path_type=Path), metavar="FILE", help="Draw the confusion matrix (.png or .svg)."
)
@model_options("classify")
@json_option
def evaluate(
    data: tuple[str, ...],
    train: tuple[str, ...],
    names: str,
    threshold: float | None,
    labels: str | None,
    confused: int,
    reliability: Path | None,
    confusion: Path | None,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure a classifier on labelled data.

    DATA is .csv, .tsv, .jsonl, .json or .parquet files, folders with one subfolder of texts for each class, or data-set
    names. With --train, the model is compared with the most common class and with tf-idf + logistic regression.

    \b
    suite eval classify test.csv --train train.csv --model runs/mine
    suite eval classify test.csv --confusion mistakes.png --reliability trust.png
    """
    import numpy as np

    from suite.tasks.classify import plots
    from suite.tasks.classify.metrics import Reliability

    for picture in (reliability, confusion):
        if picture is not None:
            plots.check_format(picture)
    if labels is not None and threshold is not None:
        raise click.UsageError("--labels cannot be combined with --threshold")
    loaded = _loader(model, labels, revision, device, quantize)
    if threshold is not None:
        _classifier(loaded, None, threshold)  # refuses a threshold that it has no use for
    from tqdm import tqdm

    from suite.tasks.classify import evaluate as evaluation

    with tqdm(desc="classifying", unit=" texts", unit_scale=True, disable=None, leave=False) as progress:
        found = evaluation.evaluate(
            loaded,
            data,
            train=train,
            names=[name.strip() for name in names.split(",") if name.strip()],
            labels=[] if labels is None else labels.split(","),
            threshold=0.5 if threshold is None else threshold,
            progress=progress.update,
            say=lambda line: progress.set_postfix_str(line),
            **options,
        )
    title = f"{found['model']} on {textwrap.shorten(', '.join(Path(one).name for one in data), 60, placeholder=' ...')}"
    if reliability is not None:
        bins = {key: np.array(values, dtype=float) for key, values in found["results"]["model"]["reliability"].items()}
        plots.plot_reliability(Reliability(**{**bins, "count": bins["count"].astype(int)}), reliability, title=title)
    if confusion is not None:
        plots.plot_confusion(np.array(found["confusion"]), found["labels"], confusion, title=title)
    if as_json:
        write_json(found)
        return
    _show_report(found, confused)


def _show_report(found: Mapping[str, Any], confused: int) -> None:
    """Write the figures as tables."""
    for note in found["notes"]:
        notice(note)
    notice(f"{count(found['records'], 'record')}, {count(len(found['labels']), 'class', 'classes')}")
    columns = (
        ["subset_accuracy", "top_accuracy", "micro_f1", "macro_f1", "auc", "nll", "ece", "top_ece"]
        if found["multi"]
        else ["accuracy", "macro_f1", "auc", "nll", "ece"]
    )
    shares = {"accuracy", "subset_accuracy", "top_accuracy", "ece", "top_ece"}
    rows = []
    for name, figures in found["results"].items():
        chosen = f", C = {figures['C']:g}" if "C" in figures else ""
        row = [found["model"] if name == "model" else name + chosen]
        row += [_figure(figures[column], share=column in shares) for column in columns]
        row += [_figure(auroc) for auroc in figures.get("out_of_scope", {}).values()]
        rows.append(row)
    outside = found["results"]["model"].get("out_of_scope", {})
    heads = [column.replace("_", " ").replace("f1", "F1").replace("ece", "ECE") for column in columns]
    heads = [{"auc": "AUC", "nll": "NLL"}.get(head, head) for head in heads]
    heads += [f"out of scope by {score.replace('_', ' ')}" for score in outside]
    click.echo("\n".join(table(rows, "l" + "r" * len(heads), ["", *heads])))
    click.echo()
    classes = [
        [one["label"], f"{one['support']:,}", *(_figure(one[key]) for key in ("precision", "recall", "f1", "auc"))]
        for one in found["results"]["model"]["classes"]
    ]
    click.echo("\n".join(table(classes, "lrrrrr", ["class", "texts", "precision", "recall", "F1", "AUC"])))
    pairs = found["confused"][:confused]
    if pairs:
        click.echo()
        rows = [[one["label"], one["predicted"], f"{one['count']:,}", percent(one["share"])] for one in pairs]
        click.echo("\n".join(table(rows, "llrr", ["true", "predicted", "texts", "share of class"])))


def _figure(value: float | None, *, share: bool = False) -> str:
    if value is None:
        return "-"
    return percent(value) if share else f"{value:.4f}"
