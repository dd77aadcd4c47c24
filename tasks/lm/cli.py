"""`suite run lm` and `suite eval lm`."""

from __future__ import annotations

import secrets
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from suite.cli.options import (
    file_option,
    json_option,
    load_model,
    model_options,
    prompt_text,
    quiet_option,
    tell_unseen,
)
from suite.cli.show import notice, table, write, write_json
from suite.wording import count

if TYPE_CHECKING:
    from suite.tasks.lm.pipeline import Text, Writer

POSITIVE = click.IntRange(min=1)


@click.command("lm")
@click.argument("prompt", required=False)
@file_option
@click.option(
    "-n",
    "--max-new-tokens",
    type=POSITIVE,
    default=100,
    metavar="N",
    help="Maximum number of tokens to generate.  [default: 100]",
)
@click.option(
    "-t",
    "--temperature",
    type=float,
    metavar="T",
    help="Sampling temperature; 0 takes the most likely token.  [default: 0.8]",
)
@click.option("--top-k", type=int, metavar="K", help="Sample from the K most likely tokens; 0 for all.  [default: 40]")
@click.option(
    "--top-p",
    type=float,
    metavar="P",
    help="Sample from the most likely tokens that together have probability P.  [default: 1, all]",
)
@click.option(
    "--min-p",
    type=float,
    metavar="P",
    help="Sample from tokens at least P times as likely as the most likely one.  [default: 0, all]",
)
@click.option(
    "--repetition-penalty",
    type=float,
    metavar="R",
    help="Penalty on tokens that have occurred; above 1 repeats less.  [default: 1]",
)
@click.option(
    "--no-repeat-ngram",
    type=int,
    metavar="N",
    help="Never generate the same N tokens in a row twice.  [default: 0, off]",
)
@click.option("--stop", multiple=True, metavar="TEXT", help="Stop before this text; may be given several times.")
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Random seed for sampling.  [default: random; printed]"
)
@click.option(
    "--samples", type=POSITIVE, default=1, metavar="N", help="Number of continuations to write.  [default: 1]"
)
@click.option(
    "--beams", type=POSITIVE, metavar="N", help="Search for the most likely text with N beams instead of sampling."
)
@click.option("--no-echo", is_flag=True, help="Write only the continuation, without the prompt.")
@model_options("lm")
@json_option
@quiet_option
def run(
    prompt: str | None,
    file: str | None,
    max_new_tokens: int,
    stop: tuple[str, ...],
    seed: int | None,
    samples: int,
    beams: int | None,
    no_echo: bool,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
    quiet: bool,
    **rules: Any,
) -> None:
    """Continue a text, token by token.

    If PROMPT is -, or is left out and input is piped, standard input is read. One newline at the end of a file or of
    standard input is removed. Without a prompt, the model begins a text of its own.

    \b
    suite run lm "The planet earth" -n 40 --top-k 40
    suite run lm --file draft.txt --samples 3 --seed 7
    """
    text = prompt_text(prompt, file, quiet=quiet)
    settings = {name: value for name, value in rules.items() if value is not None}
    if beams is not None and (settings or stop or seed is not None):
        raise click.UsageError(
            "--beams does not sample: it cannot be combined with --seed, --stop or the sampling options"
        )
    if beams is not None and samples > beams:
        raise click.UsageError(f"{count(beams, 'beam')} cannot give {samples:,} samples; raise --beams")
    loaded = load_model(model, revision, device, quantize)
    from suite.sampling.decoding import window_start
    from suite.tasks.lm.pipeline import Writer

    if loaded.task != "lm" and not quiet:
        notice(f"{model} is a model for the task {loaded.task}, not for continuing text")
    writer = Writer(loaded, **settings)
    tokens, context = len(writer.encode(text)), loaded.config.context
    learned = loaded.config.position == "learned"
    if not quiet:
        tell_unseen(tokens, tokens - window_start(tokens, context) if learned else context)
    chance = beams is None and not writer.sampling.greedy
    if seed is None and chance:
        seed = secrets.randbelow(2**31)
        if not quiet and not as_json:
            notice(f"seed {seed}")
    seed = seed or 0
    started = time.perf_counter()
    if samples == 1 and beams is None and not as_json:
        written = write_as_it_comes(writer, text, max_new_tokens, seed, stop, echo=not no_echo)
    else:
        found = writer(text, max_new_tokens=max_new_tokens, samples=samples, seed=seed, stop=stop, beams=beams or 0)
        written = sum(len(one.tokens) for one in found)
        write_whole(found, text, seed if chance else None, as_json, echo=not no_echo)
    if sys.stderr.isatty() and not quiet:
        seconds = time.perf_counter() - started
        notice(f"{count(written, 'token')} in {seconds:.1f} s, {written / seconds:,.0f} tokens/s")


def write_as_it_comes(
    writer: Writer, prompt: str, max_new_tokens: int, seed: int, stop: tuple[str, ...], *, echo: bool
) -> int:
    """Write a continuation token by token; returns how many there were."""
    steps = writer.stream(prompt, max_new_tokens=max_new_tokens, seed=seed, stop=stop)
    if echo:
        write(prompt, bold=True)
    written = 0
    for step in steps:
        write(step.text)
        written += 1
    write("\n")
    return written


def write_whole(found: list[Text], prompt: str, seed: int | None, as_json: bool, *, echo: bool) -> None:
    """Write finished continuations, under headings if there are several."""
    for number, one in enumerate(found):
        if as_json:
            result: dict[str, Any] = {"prompt": prompt, "text": one.text, "tokens": one.tokens}
            result |= {"logprobs": one.logprobs, "finish": one.finish, "seed": seed, "sample": number}
            write_json(result if one.score is None else result | {"score": one.score})
            continue
        if len(found) > 1:
            score = "" if one.score is None else f", {one.score:.3f} nats per token"
            write("\n" if number else "")
            click.secho(f"--- {number + 1} of {len(found)}{score}", dim=True)
        if echo:
            write(prompt, bold=True)
        write(one.text + "\n")


@click.command("lm")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@click.option(
    "--train", multiple=True, metavar="SOURCE", help="Text to count the n-grams on.  [default: the other half of DATA]"
)
@click.option(
    "--stride", type=POSITIVE, metavar="N", help="Tokens from one window's start to the next.  [default: half a window]"
)
@click.option(
    "--length", type=POSITIVE, metavar="N", help="Length of a window in tokens.  [default: the model's context]"
)
@click.option("--column", default="text", metavar="NAME", help="Column or field that holds the text.  [default: text]")
@model_options("lm")
@json_option
def evaluate(
    data: tuple[str, ...],
    train: tuple[str, ...],
    stride: int | None,
    length: int | None,
    column: str,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
) -> None:
    """Measure how well a model predicts text.

    DATA is files, folders, globs or data-set names. The model is compared with n-grams over its tokens, counted on
    --train or on the other half of DATA, and with xz compression of the same bytes.
    """
    from tqdm import tqdm

    from suite.tasks.lm import evaluate as evaluation

    loaded = load_model(model, revision, device, quantize)

    @cache
    def bar() -> Any:  # made when the first tokens are scored: before that, tokenising has a bar of its own
        return tqdm(desc="scoring", unit=" tokens", unit_scale=True, disable=None, leave=False)

    found = evaluation.evaluate(
        loaded,
        data,
        train=train,
        stride=stride,
        length=length,
        column=column,
        progress=lambda tokens: bar().update(tokens),
    )
    bar().close()
    if as_json:
        write_json(found)
        return
    for line in found["sources"]:
        notice(line)
    rows = []
    for name, figures in found["results"].items():
        nats, perplexity = figures.get("nats_per_token"), figures.get("perplexity")
        rows.append(
            [
                found["model"] if name == "model" else name,
                "" if nats is None else f"{nats:.4f}",
                "" if perplexity is None else f"{perplexity:,.2f}",
                f"{figures['bits_per_byte']:.4f}",
            ]
        )
    notice(
        f"{count(found['documents'], 'document')}, {count(found['tokens'], 'token')}, {count(found['bytes'], 'byte')}; "
        f"windows of {count(found['length'], 'token')} every {found['stride']:,}"
    )
    click.echo("\n".join(table(rows, "lrrr", ["", "nats/token", "perplexity", "bits/byte"])))
