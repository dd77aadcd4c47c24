"""`suite run translate` and `suite eval translate`."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from suite.cli.session import Session, session
from suite.cli.settings import takes
from suite.cli.show import percent, table, write
from suite.task.kit.commands import BulkOptions, ReportOptions, check_format, run_bulk, show_report, texts
from suite.tasks.translate.options import TranslateEvalOptions, TranslateRunOptions
from suite.tasks.translate.task import TranslateTask
from suite.wording import count

if TYPE_CHECKING:
    from suite.task.kit.bulk_rows import BulkRow
    from suite.tasks.translate.pipeline import Translator
    from suite.tasks.translate.results import Translation

TOLD = 10  # warnings that are shown one by one


@click.command("translate")
@click.argument("text", nargs=-1, metavar="[TEXT]...")
@takes(TranslateRunOptions)
@takes(BulkOptions, "bulk")
@session("translate")
def run(text: tuple[str, ...], options: TranslateRunOptions, bulk: BulkOptions, session: Session) -> None:
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
    shown = session.as_json or options.align or options.plot or options.n_best > 1
    if bulk.source is not None and (text or options.file or shown):
        raise click.UsageError("--input takes no TEXT, --file, --json, --align, --plot or --n-best")
    bulk.check(False)
    if options.n_best > options.beams:
        beams = count(options.beams, "beam")
        raise click.UsageError(f"{beams} cannot give the {options.n_best:,} best translations; raise --beams")
    given = [] if bulk.source is not None else texts(text, options.file, quiet=session.quiet, whole=True)
    words = None
    if options.glossary is not None:
        from suite.tasks.translate.glossary import read_glossary

        words = read_glossary(options.glossary)
    model = session.load()
    from suite.tasks.translate.pipeline import Translator

    translator = Translator(
        model,
        source=options.source_language,
        target=options.target_language,
        beams=options.beams,
        length_penalty=options.length_penalty,
    )
    if bulk.source is not None:
        _run_bulk(translator, options, words, bulk, session)
        return
    results = translator(given, n_best=options.n_best, prefix=options.prefix, glossary=words)
    if options.plot is not None:
        from suite.tasks.translate.align import plot

        plot([alignment for result in results for alignment in result.alignment], options.plot)
    for result in results:
        if session.as_json:
            session.json(result.to_dict(align=options.align))
        else:
            _tell(result, session, identified=options.source_language is None)
            _show(result, options)


def _tell(result: Translation, session: Session, *, identified: bool) -> None:
    """Say which language was detected, and write the warnings."""
    if identified and result.source is not None:
        sure = "" if result.probability is None else f" (detected, {percent(result.probability)})"
        session.notice(f"from {result.source}{sure} to {result.target}")
    for warning, times in list(Counter(result.warnings).items())[:TOLD]:
        session.notice(f"warning: {warning}" + (f" ({times:,} times)" if times > 1 else ""))
    if (more := len(set(result.warnings)) - TOLD) > 0:
        session.notice(f"and {count(more, 'more warning')}; --json shows all of them")


def _show(result: Translation, options: TranslateRunOptions) -> None:
    """Write a translation, or the best ones of each sentence, and the words that each word came from."""
    if options.n_best == 1:
        write(result.text + ("" if result.text.endswith(("\n", "\r")) else "\n"))
    else:
        for number, one in enumerate(result.sentences):
            write("\n" if number else "")
            choices = [(one.score, one.text), *((other.score, other.text) for other in one.alternatives)]
            rows = [[f"{score:.3f}", choice] for score, choice in choices]
            write("\n".join(table(rows, "rl")) + "\n")
    if options.align:
        for alignment in result.alignment:
            rows = [[target, word, percent(weight)] for target, word, weight in alignment.pairs]
            if rows:
                write("\n" + "\n".join(table(rows, "llr")) + "\n")


def _run_bulk(
    translator: Translator,
    options: TranslateRunOptions,
    glossary: dict[str, str] | None,
    bulk: BulkOptions,
    session: Session,
) -> None:
    """Translate each record of a file; write warnings as they come, and at the end how many texts each language had."""
    from tqdm import tqdm

    languages: Counter[str] = Counter()
    doubts = 0

    def seen(row: BulkRow, result: Translation) -> None:
        nonlocal doubts
        if result.source is not None:
            languages[result.source] += 1
        for warning in result.warnings:
            doubts += 1
            if doubts <= TOLD and not session.quiet:
                tqdm.write(f"warning: {row.where}: {warning}", file=sys.stderr)

    settings = {
        "from": options.source_language,
        "to": options.target_language,
        "beams": options.beams,
        "length_penalty": options.length_penalty,
        "prefix": options.prefix,
        "glossary": glossary,
    }
    run_bulk(
        TranslateTask(),
        translator,
        lambda given: translator(given, prefix=options.prefix, glossary=glossary),
        bulk,
        session,
        settings,
        seen=seen,
    )
    if options.source_language is None and languages:
        session.notice("from " + ", ".join(f"{code}: {number:,}" for code, number in languages.most_common()))
    if doubts:
        shown = f"; the first {TOLD} are shown, and .jsonl output has all" if doubts > TOLD else ""
        session.notice(count(doubts, "warning") + shown)


@click.command("translate")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@takes(TranslateEvalOptions)
@takes(ReportOptions, "shown")
@session("translate")
def evaluate(data: tuple[str, ...], options: TranslateEvalOptions, shown: ReportOptions, session: Session) -> None:
    """Measure how well a model translates: BLEU and chrF, with intervals.

    DATA is sentence pairs: a .tsv, a .jsonl, two text files with a comma between them, or the name of a data set;
    en-de=FILE says which languages its two columns are in. The model is compared with the untranslated source and, with
    --train, with the translation of the nearest training sentence.
    """
    check_format(session, shown.markdown)
    from suite.tasks.translate import evaluate as evaluation

    model = session.load()
    with session.progress(desc="translating", unit="sentences", total=options.limit) as bar:
        report = evaluation.evaluate(model, data, options, progress=bar.update)
    show_report(report, session, markdown=shown.markdown)
