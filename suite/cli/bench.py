"""`suite bench`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from suite.cli.options import json_option
from suite.cli.show import notice, table, write_json

if TYPE_CHECKING:
    from suite.bench import Speed


@click.group()
def bench() -> None:
    """Measure speed, beside transformers in the same run."""


@bench.command()
@click.option("--size", default="124M", show_default=True, help="Of GPT-2, with random weights.")
@click.option("--prompt", default=64, show_default=True, type=click.IntRange(min=1), help="Tokens of each prompt.")
@click.option("--new", default=128, show_default=True, type=click.IntRange(min=1), help="New tokens.")
@click.option("--batch", "batches", default=(1, 8), show_default=True, multiple=True, type=click.IntRange(min=1))
@click.option(
    "--weights",
    default=("float32", "float16", "int8"),
    show_default=True,
    multiple=True,
    type=click.Choice(["float32", "float16", "int8"]),
)
@click.option("--compile", "compiled", is_flag=True, help="Also the float32 step compiled; takes minutes.")
@click.option("--threads", default=2, show_default=True, type=click.IntRange(min=1))
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(min=1), help="Turns; the best counts.")
@click.option("--no-baseline", is_flag=True, help="Without transformers.")
@json_option
def decode(
    size: str,
    prompt: int,
    new: int,
    batches: tuple[int, ...],
    weights: tuple[str, ...],
    compiled: bool,
    threads: int,
    repeats: int,
    no_baseline: bool,
    as_json: bool,
) -> None:
    """Greedy decoding on the CPU. Let nothing else run meanwhile."""
    from suite.bench import decode

    speeds = decode(
        size=size,
        prompt=prompt,
        new=new,
        batches=batches,
        weights=weights,
        compile=compiled,
        baseline=not no_baseline,
        threads=threads,
        repeats=repeats,
        say=notice,
    )
    _show(speeds, as_json, "tokens/s a row", new)


@bench.command()
@click.option("--device", default="cpu", show_default=True)
@click.option("--threads", default=2, show_default=True, type=click.IntRange(min=1))
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(min=1), help="Steps; the best counts.")
@click.option("--no-baseline", is_flag=True, help="Without transformers.")
@json_option
def train(device: str, threads: int, repeats: int, no_baseline: bool, as_json: bool) -> None:
    """Training steps of a GPT-2 of 6 layers, 384 wide, on 16 x 256 tokens. Let nothing else run meanwhile."""
    from suite.bench import train

    speeds = train(device=device, threads=threads, repeats=repeats, baseline=not no_baseline)
    _show(speeds, as_json, "tokens/s", None)


def _show(speeds: Sequence[Speed], as_json: bool, unit: str, new: int | None) -> None:
    """A table, or a JSON object a line."""
    if as_json:
        for speed in speeds:
            write_json(dataclasses.asdict(speed))
        return
    rows = [
        (
            speed.system,
            str(speed.batch),
            f"{speed.tokens_per_second:,.1f}",
            "" if speed.ratio is None else f"{speed.ratio:.2f} x",
            "" if speed.bandwidth_share is None else f"{100 * speed.bandwidth_share:.0f}%",
            "" if speed.agrees is None or new is None else f"{speed.agrees} of {new * speed.batch}",
        )
        for speed in speeds
    ]
    header = ("system", "batch", unit, "ratio", "of bandwidth", "same tokens")
    used = [place for place in range(len(header)) if any(row[place] for row in rows)]
    lines = table(
        [[row[place] for place in used] for row in rows], "l" + "r" * (len(used) - 1), [header[p] for p in used]
    )
    click.echo("\n".join(lines))
