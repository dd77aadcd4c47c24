"""`suite run lm` and `suite eval lm`."""

from __future__ import annotations

import secrets
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import click

from suite.cli.options import prompt_text, tell_unseen
from suite.cli.session import Session, session
from suite.cli.settings import takes
from suite.cli.show import write
from suite.task.kit.commands import BulkOptions, ReportOptions, check_format, run_bulk, show_report
from suite.tasks.lm.options import LMEvalOptions, LMRunOptions
from suite.tasks.lm.task import LMTask
from suite.wording import count

if TYPE_CHECKING:
    from suite.tasks.lm.pipeline import Text, Writer


@click.command("lm")
@click.argument("prompt", required=False)
@takes(LMRunOptions)
@takes(BulkOptions, "bulk")
@session("lm")
def run(prompt: str | None, options: LMRunOptions, bulk: BulkOptions, session: Session) -> None:
    """Continue a text, token by token.

    If PROMPT is -, or is left out and input is piped, standard input is read. One newline at the end of a file or of
    standard input is removed. Without a prompt, the model begins a text of its own. With --input, every record of a
    file gets its continuation in a new column.

    \b
    suite run lm "The planet earth" -n 40 --top-k 40
    suite run lm --file draft.txt --samples 3 --seed 7
    suite run lm --input prompts.jsonl --output continued.jsonl --seed 7
    """
    bulk.check(prompt is not None or options.file is not None)
    options.check()
    text = "" if bulk.source is not None else prompt_text(prompt, options.file, quiet=session.quiet)
    model = session.load()
    from suite.tasks.lm.pipeline import Writer

    if model.task != "lm":
        session.notice(f"{session.model} is a model for the task {model.task}, not for continuing text")
    writer = Writer(model, **options.rules)
    if bulk.source is not None:
        continue_file(writer, options, bulk, session)
    else:
        continue_text(writer, text, options, session)


def continue_file(writer: Writer, options: LMRunOptions, bulk: BulkOptions, session: Session) -> None:
    """Continue every prompt of a file. The default seed is 0, so that the same command resumes a stopped run."""
    settings = {name: value for name, value in asdict(options).items() if name not in ("file", "no_echo")}
    settings["seed"] = options.seed or 0
    run_bulk(LMTask(), writer, partial(writer, **_call(options), seed=settings["seed"]), bulk, session, settings)


def continue_text(writer: Writer, text: str, options: LMRunOptions, session: Session) -> None:
    """Continue one prompt, with notices on standard error."""
    from suite.sampling.decoding import window_start

    config = writer.model.config
    tokens, context = len(writer.encode(text)), config.context
    if not session.quiet:
        tell_unseen(tokens, tokens - window_start(tokens, context) if config.position == "learned" else context)
    seed = options.seed
    chance = options.beams is None and not writer.sampling.greedy
    if seed is None and chance:
        seed = secrets.randbelow(2**31)
        if not session.as_json:
            session.notice(f"seed {seed}")
    started = time.perf_counter()
    if options.samples == 1 and options.beams is None and not session.as_json:
        written = write_as_it_comes(writer, text, options, seed or 0)
    else:
        found = writer(text, **_call(options), seed=seed or 0)
        found = found if isinstance(found, list) else [found]
        written = sum(len(one.tokens) for one in found)
        write_whole(found, options, seed or 0 if chance else None, session)
    if sys.stderr.isatty():
        seconds = time.perf_counter() - started
        session.notice(f"{count(written, 'token')} in {seconds:.1f} s, {written / seconds:,.0f} tokens/s")


def _call(options: LMRunOptions) -> dict[str, Any]:
    """The pipeline's arguments, except prompt and seed."""
    return {
        "max_new_tokens": options.max_new_tokens,
        "samples": options.samples,
        "stop": options.stop,
        "beams": options.beams or 0,
    }


def write_as_it_comes(writer: Writer, prompt: str, options: LMRunOptions, seed: int) -> int:
    """Write a continuation token by token; returns the number of tokens."""
    steps = writer.stream(prompt, max_new_tokens=options.max_new_tokens, seed=seed, stop=options.stop)
    if not options.no_echo:
        write(prompt, bold=True)
    written = 0
    for step in steps:
        write(step.text)
        written += 1
    write("\n")
    return written


def write_whole(found: list[Text], options: LMRunOptions, seed: int | None, session: Session) -> None:
    """Write finished continuations, under headings if there are several."""
    for number, one in enumerate(found):
        if session.as_json:
            plain = one.to_dict()
            del plain["top"]
            score = {} if plain.pop("score") is None else {"score": one.score}
            session.json({**plain, "seed": seed, "sample": number, **score})
            continue
        if len(found) > 1:
            score_text = "" if one.score is None else f", {one.score:.3f} nats per token"
            write("\n" if number else "")
            click.secho(f"--- {number + 1} of {len(found)}{score_text}", dim=True)
        if not options.no_echo:
            write(one.prompt, bold=True)
        write(f"{one}\n")


@click.command("lm")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@takes(LMEvalOptions)
@takes(ReportOptions, "shown")
@session("lm")
def evaluate(data: tuple[str, ...], options: LMEvalOptions, shown: ReportOptions, session: Session) -> None:
    """Measure how well a model predicts text.

    DATA is files, folders, globs or data-set names. The model is compared with n-grams over its tokens, counted on
    --train or on the other half of DATA, and with xz compression of the same bytes.
    """
    check_format(session, shown.markdown)
    model = session.load()
    with ExitStack() as stack:

        @cache
        def bar() -> Any:  # made when the first tokens are scored: before that, tokenising shows its own bar
            return stack.enter_context(session.progress("scoring", unit="tokens"))

        report = LMTask().evaluate(model, data, options=options, progress=lambda tokens: bar().update(tokens))
    show_report(report, session, markdown=shown.markdown)
