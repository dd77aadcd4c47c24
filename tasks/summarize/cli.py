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
from typing import TYPE_CHECKING, Any

import click

from suite.cli.options import json_option, load_model, model_options, quiet_option, tell_experimental
from suite.cli.show import notice, percent, write, write_json
from suite.errors import DataError
from suite.wording import count

if TYPE_CHECKING:
    from suite.data.articles import Article
    from suite.tasks.summarize.pipeline import Progress, Summary

POSITIVE, COUNT = click.IntRange(min=1), click.IntRange(min=0)
STYLES = click.Choice(["extract", "write", "tldr"])
STYLES_HELP = "Extract sentences. Experimental: write new ones; tldr, as GPT-2.  [default: the model's]"


@click.command("summarize")
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option("--style", type=STYLES, help=STYLES_HELP)
@click.option("--max-words", type=POSITIVE, metavar="N", help="Maximum number of words.  [default: 100 for an extract]")
@click.option("--sentences", type=POSITIVE, metavar="N", help="Maximum number of sentences.  [default: no limit]")
@click.option("--title", metavar="TEXT", help="Title of the article, in place of the one in its file.")
@click.option("--show-source", is_flag=True, help="Show where each sentence comes from.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Random seed for sampling with --style tldr.  [default: 0]",
)
@model_options("summarize")
@json_option
@quiet_option
def run(
    files: tuple[str, ...],
    style: str | None,
    max_words: int | None,
    sentences: int | None,
    title: str | None,
    show_source: bool,
    seed: int,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Summarise articles.

    FILE is plain text, Markdown, HTML, a MediaWiki page, or a MediaWiki dump; - is standard input, which is also read
    if no FILE is given. Names and numbers in a written summary that are not in the article cause a warning.

    \b
    suite run summarize article.txt --max-words 60
    suite run summarize page.html notes.md --sentences 3 --show-source
    suite run summarize article.txt --style tldr --model gpt2
    """
    articles = read(files or ("-",), title, quiet)
    first = next(articles)  # before the model is loaded, so that a wrong name is told at once
    from suite.tasks.summarize.pipeline import Summarizer, check_style

    summarizer = Summarizer(load_model(model, revision, device, quantize))
    options: dict[str, Any] = {"max_words": max_words, "sentences": sentences, "seed": seed}
    if style is not None:
        options["style"] = check_style(style)
    for number, article in enumerate(itertools.chain([first], articles)):
        with bar() as progress:
            found = summarizer(article, progress=progress, **options)
        if found.style != "extract" and not number and not quiet:
            tell_experimental(
                summarizer.model,
                "invents much of what it writes",
                "take an extract, --style extract with the embedded model, or name a larger language model for TL;DR, "
                "such as --style tldr --model gpt2",
            )
        if as_json:
            write_json({"where": article.where, **dataclasses.asdict(found)})
            continue
        if number or len(files) > 1:
            write("\n" if number else "")
            click.secho(f"--- {article.title or article.where}", dim=True)
        show(found, article, show_source, quiet)


@contextlib.contextmanager
def bar() -> Iterator[Progress]:
    """A bar of what is being done to one article, on terminals alone, once it takes a while."""
    from tqdm import tqdm

    with tqdm(total=1, delay=0.5, disable=None, leave=False, bar_format="{desc} {percentage:3.0f}%|{bar}|") as shown:
        last = ""

        def progress(stage: str, done: int, of: int) -> None:
            nonlocal last
            if stage != last:
                shown.reset(of)
                shown.set_description(stage, refresh=False)
                last = stage
            shown.update(done - shown.n)

        yield progress


def show(found: Summary, article: Article, show_source: bool, quiet: bool) -> None:
    """Write one summary; where its sentences come from under it, and what to doubt on standard error."""
    write(found.text + "\n", bold=show_source)
    if show_source:
        for one in found.sentences:
            if one.start is None or one.end is None:
                write(f"  [not in the article] {one.text}\n")
                continue
            before = article.body[: one.start]
            share = "" if one.share == 1 else f", {percent(one.share)} of its word pairs"
            line = f"paragraph {before.count(chr(10)) + 1}, characters {one.start:,} to {one.end:,}{share}"
            source = one.text if one.share == 1 else article.body[one.start : one.end]
            write(f"  [{line}] {source}\n")
    if quiet:
        return
    for warning in found.warnings:
        notice(f"warning: {warning}")
    if found.read < found.of and found.style != "extract":
        notice(f"the model read {found.read:,} of {count(found.of, 'sentence')}: the best-ranked ones that fit")


@click.command("summarize")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@click.option(
    "--style",
    "styles",
    type=STYLES,
    multiple=True,
    help="Style to evaluate; may be given several times.  [default: extract and write]",
)
@click.option(
    "--words",
    type=COUNT,
    default=100,
    metavar="N",
    help="Words in each summary; 0 for as many as in the lead.  [default: 100]",
)
@click.option(
    "--limit", type=COUNT, default=300, metavar="N", help="Number of articles to evaluate; 0 for all.  [default: 300]"
)
@model_options("summarize")
@json_option
def evaluate(
    data: tuple[str, ...],
    styles: tuple[str, ...],
    words: int,
    limit: int,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
) -> None:
    """Measure how close summaries come to the articles' own leads.

    DATA is articles with leads: JSON lines, WikiText, MediaWiki dumps, or data-set names. The model is compared with
    simple summaries of the same number of words, and with the best that sentences of the article could achieve.
    """
    from tqdm import tqdm

    from suite.tasks.summarize import evaluate as evaluation
    from suite.tasks.summarize.pipeline import check_style

    loaded = load_model(model, revision, device, quantize)
    chosen = [check_style(style) for style in styles or ("extract", "write")]
    with tqdm(desc="summarising", unit=" articles", disable=None, leave=False) as progress:
        found = evaluation.evaluate(loaded, data, styles=chosen, words=words, limit=limit, progress=progress.update)
    if as_json:
        write_json(found)
        return
    for line in found["notes"]:
        notice(line)
    click.echo("\n".join(evaluation.lines(found)))


def read(files: Sequence[str], title: str | None, quiet: bool) -> Iterator[Article]:
    """The articles of files; a lead that one has already is the beginning of what is summed up."""
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
        if not quiet:
            for line in notes.lines():
                notice(line)
