"""`suite run translate` and `suite eval translate`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.options import check_is_text, json_option, load_model, model_options, prompt_text, quiet_option
from suite.cli.show import notice, percent, table, write, write_json
from suite.wording import count

if TYPE_CHECKING:
    from suite.tasks.translate.bulk import Record
    from suite.tasks.translate.pipeline import Translation, Translator

POSITIVE = click.IntRange(min=1)
TOLD = 10  # warnings that are shown one by one

beams_option = click.option(
    "--beams", type=POSITIVE, default=5, metavar="N", help="Number of beams; 1 is greedy and fastest.  [default: 5]"
)
penalty_option = click.option(
    "--length-penalty",
    type=float,
    default=1.0,
    metavar="A",
    help="Exponent of the length that scores are divided by; above 1 favours longer translations.  [default: 1]",
)


@click.command("translate")
@click.argument("text", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=click.Path(), metavar="FILE", help="Translate a file as one text; - is standard input.")
@click.option("--from", "source", metavar="LANG", help="Language of the text.  [default: detected]")
@click.option(
    "--to", "target", metavar="LANG", help="Language to translate into.  [default: the only one the model has]"
)
@beams_option
@penalty_option
@click.option(
    "--n-best",
    type=POSITIVE,
    default=1,
    metavar="N",
    help="Show the N best translations of each sentence.  [default: 1]",
)
@click.option("--prefix", default="", metavar="TEXT", help="Text that the translation must start with.")
@click.option(
    "--glossary",
    type=click.Path(),
    metavar="FILE",
    help="File of terms: on each line a term, a tab and its translation.",
)
@click.option("--align", is_flag=True, help="Show which source word each translated word came from.")
@click.option("--plot", type=click.Path(), metavar="FILE", help="Draw the word alignment (.png, .svg or .pdf).")
@click.option(
    "--input",
    "bulk",
    type=click.Path(),
    metavar="FILE",
    help="Translate each record of a .tsv, .csv, .jsonl or .txt file.",
)
@click.option("--output", type=click.Path(), metavar="FILE", help="Output file.")
@click.option(
    "--column", metavar="C", help="Column to translate in a table (number, or name in the first row).  [default: 1]"
)
@click.option("--field", metavar="NAME", help="Field to read in .jsonl input.  [default: text]")
@model_options("translate")
@json_option
@quiet_option
def run(
    text: tuple[str, ...],
    file: str | None,
    source: str | None,
    target: str | None,
    beams: int,
    length_penalty: float,
    n_best: int,
    prefix: str,
    glossary: str | None,
    align: bool,
    plot: str | None,
    bulk: str | None,
    output: str | None,
    column: str | None,
    field: str | None,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Translate text between languages.

    If TEXT is -, or is left out and input is piped, standard input is read. A text may be a document: line ends, blank
    lines and list markers are kept. Several texts are translated one by one.

    --input translates each line of a .txt, each row of a .tsv or .csv (adding a column) or each object of a .jsonl.
    To resume a run that was stopped, give the same command again.

    \b
    suite run translate "Guten Morgen, wie geht es dir?" --to en
    suite run translate --file letter.txt --from en --to fr > lettre.txt
    suite run translate --input reviews.tsv --column 2 --output reviews.en.tsv --to en
    """
    if bulk is None and (output is not None or column is not None or field is not None):
        raise click.UsageError("--output, --column and --field need --input")
    if bulk is not None and (text or file or as_json or align or plot or n_best > 1):
        raise click.UsageError("--input takes no TEXT, --file, --json, --align, --plot or --n-best")
    if bulk is not None and output is None:
        raise click.UsageError("--input needs --output, the file to write the translations to")
    if n_best > beams:
        raise click.UsageError(f"{count(beams, 'beam')} cannot give the {n_best:,} best translations; raise --beams")
    if len(text) > 1 and file is not None:
        raise click.UsageError("give the text as an argument or with --file, not both")
    if len(text) > 1:
        for one in text:
            check_is_text(one, quiet=quiet)
    texts = [] if bulk is not None else list(text) if len(text) > 1 else [_one_text(text, file, quiet)]
    words = None
    if glossary is not None:
        from suite.tasks.translate.glossary import read_glossary

        words = read_glossary(Path(glossary))
    loaded = load_model(model, revision, device, quantize)
    from suite.tasks.translate.pipeline import Translator

    translator = Translator(loaded, source=source, target=target, beams=beams, length_penalty=length_penalty)
    if bulk is not None:
        assert output is not None
        weights = {"revision": revision, "quantize": quantize}
        where = {"column": column, "field": field}
        _run_bulk(translator, Path(bulk), Path(output), prefix, words, weights, where, quiet=quiet)
        return
    results = translator(texts, n_best=n_best, prefix=prefix, glossary=words)
    if plot is not None:
        from suite.tasks.translate.align import plot as draw

        draw([alignment for result in results for alignment in result.alignment], Path(plot))
    for result in results:
        if as_json:
            write_json(to_json(result, align=align))
            continue
        if not quiet:
            _tell(result, identified=source is None)
        _show(result, n_best, align=align)


def _one_text(text: tuple[str, ...], file: str | None, quiet: bool) -> str:
    argument = text[0] if text else None
    if argument is None and file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("there is nothing to translate: give a TEXT or --file, or pipe a text in")
    return prompt_text(argument, file, whole=True, quiet=quiet)


def _tell(result: Translation, *, identified: bool) -> None:
    """Say which language was taken, and what is doubtful."""
    if identified and result.source is not None:
        sure = "" if result.probability is None else f" (detected, {percent(result.probability)})"
        notice(f"from {result.source}{sure} to {result.target}")
    for warning, times in list(Counter(result.warnings).items())[:TOLD]:
        notice(f"warning: {warning}" + (f" ({times:,} times)" if times > 1 else ""))
    if (more := len(set(result.warnings)) - TOLD) > 0:
        notice(f"and {count(more, 'more warning')}; --json shows all of them")


def _show(result: Translation, n_best: int, *, align: bool) -> None:
    if n_best == 1:
        write(result.text + ("" if result.text.endswith(("\n", "\r")) else "\n"))
    else:
        for number, one in enumerate(result.sentences):
            write("\n" if number else "")
            choices = [(one.score, one.text), *((other.score, other.text) for other in one.alternatives)]
            rows = [[f"{score:.3f}", choice] for score, choice in choices]
            write("\n".join(table(rows, "rl")) + "\n")
    if align:
        for alignment in result.alignment:
            rows = [[target, word, percent(weight)] for target, word, weight in alignment.pairs]
            if rows:
                write("\n" + "\n".join(table(rows, "llr")) + "\n")


def to_json(result: Translation, *, align: bool) -> dict[str, Any]:
    """A translation as plain values."""
    sentences = []
    for number, one in enumerate(result.sentences):
        sentence: dict[str, Any] = {
            "source": one.source,
            "start": one.start,
            "end": one.end,
            "text": one.text,
            "score": one.score,
            "logprob": one.logprob,
            "finish": one.finish,
            "warnings": list(one.warnings),
            "alternatives": [{"text": other.text, "score": other.score} for other in one.alternatives],
        }
        if align:
            alignment = result.alignment[number]
            sentence["alignment"] = {
                "source": list(alignment.source),
                "target": list(alignment.target),
                "weights": alignment.weights.round(4).tolist(),
            }
        sentences.append(sentence)
    return {
        "source": result.source,
        "target": result.target,
        "probability": result.probability,
        "source_text": result.source_text,
        "text": result.text,
        "score": result.score,
        "warnings": list(result.warnings),
        "sentences": sentences,
    }


def _run_bulk(
    translator: Translator,
    source: Path,
    output: Path,
    prefix: str,
    glossary: dict[str, str] | None,
    weights: dict[str, str | None],
    where: dict[str, str | None],
    *,
    quiet: bool,
) -> None:
    from tqdm import tqdm

    from suite.tasks.translate.bulk import translate_file

    settings = {
        "model": translator.model.name,
        "from": translator.source,
        "to": translator.target,
        "beams": translator.beams,
        "length_penalty": translator.length_penalty,
        "prefix": prefix,
        "glossary": glossary,
        **weights,
    }
    languages: Counter[str] = Counter()
    doubts = 0
    bar: Any = tqdm(desc="translating", unit=" records", disable=True if quiet else None, leave=False)

    def translate(texts: Any) -> list[Translation]:
        results = translator(texts, prefix=prefix, glossary=glossary)
        languages.update(result.source for result in results if result.source is not None)
        return results

    def doubt(record: Record, result: Translation) -> None:
        nonlocal doubts
        for warning in result.warnings:
            doubts += 1
            if doubts <= TOLD and not quiet:
                bar.write(f"warning: line {record.place:,}: {warning}", file=sys.stderr)

    def progress(done: int, total: int) -> None:
        if bar.total is None:
            bar.initial = done  # what an earlier run did tells nothing about the speed of this one
        bar.n, bar.total = done, total
        bar.refresh()

    with bar:
        try:
            now, total = translate_file(source, output, translate, settings, **where, progress=progress, doubt=doubt)
        except KeyboardInterrupt:
            done = f"{bar.n:,} of {count(bar.total, 'record')} done" if bar.total is not None else "stopped"
            raise KeyboardInterrupt(f"{done}; give the same command again to resume") from None
    if quiet:
        return
    before = f" ({total - now:,} had been translated before)" if total > now else ""
    notice(f"{count(now, 'record')} translated{before}: {output}")
    if translator.source is None and languages:
        notice("from " + ", ".join(f"{code}: {number:,}" for code, number in languages.most_common()))
    if doubts:
        shown = f"; the first {TOLD} are shown, and .jsonl output has all" if doubts > TOLD else ""
        notice(count(doubts, "warning") + shown)


@click.command("translate")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@click.option("--source", required=True, metavar="LANG", help="Language to translate from.")
@click.option("--target", required=True, metavar="LANG", help="Language to translate into.")
@click.option(
    "--train", multiple=True, metavar="DATA", help="Sentence pairs for a baseline that looks up the nearest sentence."
)
@click.option(
    "--columns",
    nargs=2,
    metavar="A B",
    help="Columns of source and target: numbers in a table, names in records.  [default: 1 2, or the languages]",
)
@beams_option
@penalty_option
@click.option(
    "--batch", type=POSITIVE, default=32, metavar="N", help="Number of sentences translated at once.  [default: 32]"
)
@click.option("--limit", type=POSITIVE, metavar="N", help="Evaluate the first N pairs only.  [default: all]")
@model_options("translate")
@json_option
def evaluate(
    data: tuple[str, ...],
    source: str,
    target: str,
    train: tuple[str, ...],
    columns: tuple[str, str] | None,
    beams: int,
    length_penalty: float,
    batch: int,
    limit: int | None,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
) -> None:
    """Measure how well a model translates: BLEU and chrF, with intervals.

    DATA is sentence pairs: a .tsv, a .jsonl, two text files with a comma between them, or the name of a data set;
    en-de=FILE says which languages its two columns are in. The model is compared with the untranslated source and, with
    --train, with the translation of the nearest training sentence.
    """
    from tqdm import tqdm

    from suite.tasks.translate import evaluate as evaluation

    loaded = load_model(model, revision, device, quantize)
    with tqdm(desc="translating", unit=" sentences", total=limit, disable=None, leave=False) as bar:
        found = evaluation.evaluate(
            loaded,
            data,
            source=source,
            target=target,
            train=train,
            columns=columns or (),
            beams=beams,
            length_penalty=length_penalty,
            batch=batch,
            limit=limit,
            progress=bar.update,
        )
    if as_json:
        write_json(found)
        return
    for line in found["sources"]:
        notice(line)
    metrics = list(found["signatures"])
    rows = [
        [found["model"] if name == "model" else name]
        + [f"{one[metric]['score']:.1f} [{one[metric]['low']:.1f}, {one[metric]['high']:.1f}]" for metric in metrics]
        + [f"{one['lengths']:.2f}"]
        for name, one in found["results"].items()
    ]
    notice(
        f"{count(found['sentences'], 'sentence')} from {source} to {target} in {found['seconds']:,.1f} s "
        f"({found['sentences_per_second']:,.1f} per second), {count(beams, 'beam')}"
    )
    for number, noun, what in (
        (found["left_out_empty"], "pair", "with an empty side left out"),
        (found["longer_than_learnt"], "sentence", "longer than those the model was trained on"),
        (found["cut_off"], "translation", "cut off"),
    ):
        if number:
            notice(f"{count(number, noun)} {what}")
    click.echo("\n".join(table(rows, "l" + "r" * (len(metrics) + 1), ["", *metrics, "length"])))
    for metric, signature in found["signatures"].items():
        notice(f"{metric}: {signature}")
