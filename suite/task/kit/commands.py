"""The default `suite run TASK` and `suite eval TASK`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.options import check_is_text, prompt_text
from suite.cli.session import Session, session
from suite.cli.settings import setting, takes
from suite.cli.show import write
from suite.errors import ConfigError
from suite.wording import count

if TYPE_CHECKING:
    from suite.evaluation import Report
    from suite.task.contract import Task
    from suite.task.kit.bulk import Done
    from suite.task.kit.bulk_rows import BulkRow


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of the default run command.

    Attributes:
        file: a file that holds one input.
        max_new_tokens: maximum length of a result in tokens.
        temperature: sampling temperature; 0 takes the likeliest tokens.
        seed: random seed for sampling.
    """

    file: str | None = setting(None, "Read the text from a file; - is standard input.", metavar="FILE")
    max_new_tokens: int = setting(
        256, "Maximum number of tokens to generate.", flags=("-n", "--max-new-tokens"), metavar="N", min=1
    )
    temperature: float = setting(
        0.0, "Sampling temperature; 0 always takes the most likely token.", metavar="T", min=0.0, shown="0"
    )
    seed: int = setting(0, "Random seed for sampling.", metavar="N", min=0)


@dataclass(frozen=True, kw_only=True)
class BulkOptions:
    """Options of bulk work, the same for every task that reads text.

    Attributes:
        source: the file to read.
        output: the file to write.
        column: column with the text.
    """

    source: Path | None = setting(
        None,
        "Read many inputs: .txt (one a line), .csv, .tsv or .jsonl, perhaps packed.",
        flags=("--input",),
        metavar="FILE",
    )
    output: Path | None = setting(
        None, "Output file for --input. The same command resumes a run that was stopped.", metavar="FILE"
    )
    column: str | None = setting(
        None,
        "Text column of --input (name, or number from 1).",
        flags=("--column", "--field"),
        metavar="C",
        shown="text; the first of a table without names",
    )

    def check(self, given: bool) -> None:
        """Refuse options that exclude each other.

        Args:
            given: whether there is other input.
        """
        if self.source is None and (self.output is not None or self.column is not None):
            raise click.UsageError("--output and --column go with --input")
        if self.source is not None and given:
            raise click.UsageError("--input takes no other input")


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of every eval command.

    Attributes:
        markdown: whether the report is written as Markdown.
    """

    markdown: bool = setting(False, "Write the report as Markdown.")


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """Options of the default eval command.

    Attributes:
        train: data that baselines learn from.
        limit: number of records to evaluate; 0 for all.
    """

    train: tuple[str, ...] = setting((), "Data that baselines learn from.", metavar="SOURCE")
    limit: int = setting(0, "Number of records to evaluate, evenly spread (0: all).", metavar="N", min=0)


def run_command(task: Task[Any, Any, Any]) -> click.Command:
    """`suite run TASK [INPUT]...` for a task whose inputs are texts."""

    @click.command(task.name, help=f"{task.summary[:1].upper()}{task.summary[1:]}.")
    @click.argument("inputs", nargs=-1, metavar="[TEXT]...")
    @takes(RunOptions)
    @takes(BulkOptions, "bulk")
    @session(task.name)
    def run(inputs: tuple[str, ...], options: RunOptions, bulk: BulkOptions, session: Session) -> None:
        bulk.check(bool(inputs or options.file))
        given = [] if bulk.source is not None else texts(inputs, options.file, quiet=session.quiet)
        pipeline = task.pipeline(session.load(), max_new_tokens=options.max_new_tokens, temperature=options.temperature)
        if bulk.source is not None:
            settings = dataclasses.asdict(options)
            run_bulk(task, pipeline, lambda given: pipeline(given, seed=options.seed), bulk, session, settings)
            return
        for result in pipeline(given, seed=options.seed):
            if session.as_json:
                session.json(result)
            else:
                write(f"{result}\n")

    return run


def texts(inputs: tuple[str, ...], file: str | None, *, quiet: bool = False, whole: bool = False) -> list[str]:
    """The texts of a command line: arguments, a file, or standard input.

    Raises:
        click.UsageError: there is none, or both arguments and a file.
    """
    if len(inputs) > 1:
        if file is not None:
            raise click.UsageError("give the text as an argument or with --file, not both")
        for one in inputs:
            check_is_text(one, quiet=quiet)
        return list(inputs)
    if not inputs and file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("there is no input: give a TEXT, --file, --input, or pipe one in")
    return [prompt_text(inputs[0] if inputs else None, file, quiet=quiet, whole=whole)]


def run_bulk(
    task: Task[Any, Any, Any],
    pipeline: Any,
    answer: Any,
    bulk: BulkOptions,
    session: Session,
    settings: dict[str, Any],
    *,
    second: str | None = None,
    seen: Callable[[BulkRow, Any], object] = lambda row, result: None,
    remarks: Callable[[Done], Sequence[str]] = lambda done: (),
) -> Done:
    """Answer every record of a file; see `suite.task.kit.bulk.process`.

    Args:
        task: whose results they are.
        pipeline: of the task; says how results are written.
        answer: from texts to a result each.
        bulk: the files.
        session: of the command.
        settings: what else decides the results, plain JSON.
        second: column with the second text of pairs.
        seen: called with each new row and its result.
        remarks: what else to say at the end, such as "2 unsure".

    Raises:
        KeyboardInterrupt: somebody stopped it; the message says how to resume.
    """
    from suite.task.kit.bulk import STANDARD_INPUT, process

    assert bulk.source is not None
    settings = {"task": task.name, "model": session.model, "revision": session.revision, **settings}
    answered = 0
    with session.progress(desc=task.name, unit="records") as bar:

        def progress(records: int) -> None:
            nonlocal answered
            answered += records
            bar.update(records)

        try:
            done = process(
                bulk.source,
                bulk.output,
                answer,
                task.bulk_format(pipeline),
                column=bulk.column,
                second=second,
                as_json=session.as_json,
                settings=settings | {"quantize": session.quantize},
                progress=progress,
                seen=seen,
                total=lambda records: setattr(bar, "total", records),
            )
        except KeyboardInterrupt:
            if bulk.output is None or bulk.source == STANDARD_INPUT:
                raise
            raise KeyboardInterrupt(
                f"{count(answered, 'record')} done; give the same command again to resume"
            ) from None
    before = f", {done.before:,} of them before" if done.before else ""
    line = f"{count(done.records, 'record')}{before}: {bulk.output or 'standard output'}"
    session.notice("; ".join([line, *remarks(done)]))
    return done


def eval_command(task: Task[Any, Any, Any]) -> click.Command:
    """`suite eval TASK DATA...` for a task that scores its results."""

    @click.command(task.name, help=f"Measure a model on data, beside baselines: {task.summary}.")
    @click.argument("data", nargs=-1, required=True, metavar="DATA...")
    @takes(EvalOptions)
    @takes(ReportOptions, "shown")
    @session(task.name)
    def evaluate(data: tuple[str, ...], options: EvalOptions, shown: ReportOptions, session: Session) -> None:
        check_format(session, shown.markdown)
        model = session.load()
        with session.progress(desc=task.name, unit="records") as bar:
            report = task.evaluate(model, data, train=options.train, limit=options.limit, progress=bar.update)
        show_report(report, session, markdown=shown.markdown)

    return evaluate


def check_format(session: Session, markdown: bool) -> None:
    """Refuse two formats at once, before there is anything to write.

    Raises:
        ConfigError: both JSON and Markdown are asked for.
    """
    if session.as_json and markdown:
        raise ConfigError("--json and --markdown are two formats; choose one")


def show_report(report: Report, session: Session, *, markdown: bool = False) -> None:
    """Write a report as text, Markdown or JSON; its notes go to standard error."""
    check_format(session, markdown)
    if session.as_json:
        session.json(report)
    elif markdown:
        write(report.markdown())
    else:
        for note in report.notes:
            session.notice(note)
        click.echo(str(report))
