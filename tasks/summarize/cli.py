"""`suite run summarize` and `suite eval summarize`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from suite.cli.options import tell_experimental
from suite.cli.session import Session, session
from suite.cli.settings import setting, takes
from suite.cli.show import percent, write
from suite.errors import DataError
from suite.task import find_task
from suite.task.kit.commands import BulkOptions, ReportOptions, check_format, run_bulk, show_report
from suite.tasks.summarize.options import ComparisonOptions, SummaryOptions
from suite.wording import count

if TYPE_CHECKING:
    from suite.data.articles import Article
    from suite.tasks.summarize.extract import Progress
    from suite.tasks.summarize.pipeline import Summarizer
    from suite.tasks.summarize.summary import Summary


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options for reading files and showing their summaries.

    Attributes:
        title: replaces the title of every article.
        show_source: whether to show where each sentence comes from.
    """

    title: str | None = setting(None, "Title of the article, in place of the one in its file.", metavar="TEXT")
    show_source: bool = setting(False, "Show where each sentence comes from.")


@click.command("summarize")
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
@takes(SummaryOptions)
@takes(PageOptions, "pages")
@takes(BulkOptions, "bulk")
@session("summarize")
def run(
    files: tuple[str, ...], options: SummaryOptions, pages: PageOptions, bulk: BulkOptions, session: Session
) -> None:
    """Summarise articles.

    FILE is plain text, Markdown, HTML, a MediaWiki page, or a MediaWiki dump; - is standard input, which is also read
    if no FILE is given. Names and numbers in a written summary that are not in the article cause a warning. --input
    summarises the plain texts of a table's column, and adds the column summary.

    \b
    suite run summarize article.txt --max-words 60
    suite run summarize page.html notes.md --sentences 3 --show-source
    suite run summarize article.txt --style tldr --model gpt2
    suite run summarize --input articles.jsonl --column text --output summaries.jsonl
    """
    bulk.check(bool(files))
    if bulk.source is not None:
        if pages != PageOptions():
            raise click.UsageError("--title and --show-source do not go with --input")
        run_texts(summarizer_of(session), options, bulk, session)
        return
    articles = read(files or ("-",), pages.title, session)
    first = next(articles)  # before the model is loaded, so that a wrong name is reported at once
    summarizer = summarizer_of(session)
    told = False
    for number, article in enumerate(itertools.chain([first], articles)):
        with bar(session) as progress:
            summary = summarizer(article, progress=progress, **dataclasses.asdict(options))
        if not told:
            tell_style(summarizer, summary.style, session)
            told = True
        if session.as_json:
            session.json({"where": article.where, **summary.to_dict()})
            continue
        if number or len(files) > 1:
            write("\n" if number else "")
            click.secho(f"--- {article.title or article.where}", dim=True)
        show(summary, article, pages.show_source, session)


def summarizer_of(session: Session) -> Summarizer:
    """Load the session's model and return its pipeline."""
    from suite.tasks.summarize.pipeline import Summarizer

    return Summarizer(session.load())


def tell_style(summarizer: Summarizer, style: str, session: Session) -> None:
    """Show a notice if the style is experimental with a model of this size."""
    if style != "extract" and not session.quiet:
        tell_experimental(
            summarizer.model,
            "invents much of what it writes",
            "take an extract, --style extract with the embedded model, or name a larger language model for TL;DR, "
            "such as --style tldr --model gpt2",
        )


def run_texts(summarizer: Summarizer, options: SummaryOptions, bulk: BulkOptions, session: Session) -> None:
    """Summarise the texts of a table; a text without sentences has no summary."""
    from suite.tasks.summarize.pipeline import has_sentences

    options = dataclasses.replace(options, style=options.style or summarizer.style)
    settings = dataclasses.asdict(options)

    def answer(texts: list[str]) -> list[Summary | None]:
        return [summarizer(text, **settings) if has_sentences(text) else None for text in texts]

    tell_style(summarizer, str(options.style), session)
    run_bulk(find_task("summarize"), summarizer, answer, bulk, session, settings)


@contextlib.contextmanager
def bar(session: Session) -> Iterator[Progress]:
    """Show a progress bar of the current step of an article, only on a terminal and after half a second."""
    with session.progress("", total=1, delay=0.5) as shown:
        last = ""

        def progress(step: str, done: int, total: int) -> None:
            nonlocal last
            if step != last:
                shown.reset(total)
                shown.set_description(step, refresh=False)
                last = step
            shown.update(done - shown.n)

        yield progress


def show(summary: Summary, article: Article, show_source: bool, session: Session) -> None:
    """Write a summary, with the sources of its sentences if asked for; warnings go to standard error."""
    write(summary.text + "\n", bold=show_source)
    if show_source:
        for one in summary.sentences:
            if one.start is None or one.end is None:
                write(f"  [not in the article] {one.text}\n")
                continue
            before = article.body[: one.start]
            share = "" if one.share == 1 else f", {percent(one.share)} of its word pairs"
            line = f"paragraph {before.count(chr(10)) + 1}, characters {one.start:,} to {one.end:,}{share}"
            source = one.text if one.share == 1 else article.body[one.start : one.end]
            write(f"  [{line}] {source}\n")
    for warning in summary.warnings:
        session.notice(f"warning: {warning}")
    if summary.read < summary.of and summary.style != "extract":
        sentences = count(summary.of, "sentence")
        session.notice(f"the model read {summary.read:,} of {sentences}: the best-ranked ones that fit")


@click.command("summarize")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@takes(ComparisonOptions)
@takes(ReportOptions, "shown")
@session("summarize")
def evaluate(data: tuple[str, ...], options: ComparisonOptions, shown: ReportOptions, session: Session) -> None:
    """Measure how close summaries come to the articles' own leads.

    DATA is articles with leads: JSON lines, WikiText, MediaWiki dumps, or data-set names. The model is compared with
    simple summaries of the same number of words, and with the best that sentences of the article could achieve.
    """
    check_format(session, shown.markdown)
    check_format(session, shown.markdown)
    model = session.load()
    with session.progress("summarising", unit="articles") as bar:
        report = find_task("summarize").evaluate(model, data, options=options, progress=bar.update)
    show_report(report, session, markdown=shown.markdown)


def read(files: Sequence[str], title: str | None, session: Session) -> Iterator[Article]:
    """Yield the articles in files; an existing lead becomes the beginning of the body."""
    from suite.data.articles import Section
    from suite.data.pages import read_pages
    from suite.data.tables import Notes

    for file in files:
        notes = Notes()
        if file != "-" and not os.path.exists(file):  # noqa: PTH110 (Path.exists fails for a text too long to be a name)
            name = textwrap.shorten(file, 60, placeholder=" ...")
            raise DataError(
                f"{name}: no file there; to sum up a text itself, pipe it in: echo TEXT | suite run summarize"
            )
        source = sys.stdin.buffer.read() if file == "-" else Path(file)
        for article in read_pages(source, notes, name="standard input" if file == "-" else ""):
            sections = [Section(heading="", text=article.lead)] if article.lead else []
            whole = dataclasses.replace(article, lead="", sections=(*sections, *article.sections))
            yield whole if title is None else dataclasses.replace(whole, title=title)
        for line in notes.lines():
            session.notice(line)
