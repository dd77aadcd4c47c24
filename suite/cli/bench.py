"""`suite bench`: speed compared with `transformers` in the same run, and what long texts cost."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from suite.bench.options import AttentionOptions, DecodeOptions, RecipeOptions, TrainOptions
from suite.cli.groups import Group
from suite.cli.options import json_option
from suite.cli.settings import takes
from suite.cli.show import notice, percent, size, table, write_json

if TYPE_CHECKING:
    from suite.bench import Speed


@click.group(cls=Group)
def bench() -> None:
    """Measure speed and memory, and compare them with transformers."""


@bench.command()
@takes(DecodeOptions)
@json_option
def decode(options: DecodeOptions, as_json: bool) -> None:
    """Measure decoding on the CPU, with a GPT-2 of random weights."""
    from suite import bench

    report(bench.decode(options, say=notice), as_json, per="tokens/s per row")


@bench.command()
@takes(TrainOptions)
@json_option
def train(options: TrainOptions, as_json: bool) -> None:
    """Measure training steps of a small GPT-2."""
    from suite import bench

    report(bench.train(options, say=notice), as_json, per="tokens/s")


@bench.command()
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@takes(RecipeOptions)
@json_option
def recipes(options: RecipeOptions, tasks: tuple[str, ...], as_json: bool) -> None:
    """Take a few training steps of the default recipes, on the sample data and the CPU."""
    from suite import bench

    speeds = []
    for speed in bench.recipes(options, tasks, say=notice):
        notice(f"{speed.recipe}: {speed.tokens_per_second:,.0f} tokens/s")
        speeds.append(speed)
    if as_json:
        write_json([dataclasses.asdict(speed) for speed in speeds])
        return
    header = ("recipe", "products", "Muon", "tokens/s", "seconds a step", "tokens/CPU second")
    rows = [
        (
            speed.recipe,
            speed.precision,
            speed.muon,
            f"{speed.tokens_per_second:,.0f}",
            f"{speed.seconds:.2f}",
            f"{speed.tokens_per_cpu_second:,.0f}",
        )
        for speed in speeds
    ]
    click.echo("\n".join(table(rows, "lllrrr", header)))


@bench.command()
@takes(AttentionOptions)
@json_option
def attention(options: AttentionOptions, as_json: bool) -> None:
    """Measure full, local and compressed attention on long texts, on the CPU."""
    from suite import bench

    costs = bench.attention(options, say=notice)
    if as_json:
        write_json([dataclasses.asdict(cost) for cost in costs])
        return
    rows = [
        (cost.work, cost.layers, f"{cost.length:,}", f"{cost.tokens_per_second:,.0f}", size(cost.peak_bytes))
        for cost in costs
    ]
    click.echo("\n".join(table(rows, "llrrr", ("work", "layers", "tokens", "tokens/s", "memory"))))


def report(speeds: list[Speed], as_json: bool, per: str) -> None:
    """Write speeds as JSON, or as a table without its empty columns."""
    if as_json:
        write_json([dataclasses.asdict(speed) for speed in speeds])
        return
    columns = {
        "system": [speed.system for speed in speeds],
        "batch": [str(speed.batch) for speed in speeds],
        per: [f"{speed.tokens_per_second:,.1f}" for speed in speeds],
        "ratio": ["" if speed.ratio is None else f"{speed.ratio:.2f}" for speed in speeds],
        "bandwidth": ["" if speed.bandwidth_share is None else percent(speed.bandwidth_share) for speed in speeds],
        "same tokens": ["" if speed.agrees is None else f"{speed.agrees:,}" for speed in speeds],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    rows = list(zip(*kept.values(), strict=True))
    click.echo("\n".join(table(rows, "l" + "r" * (len(kept) - 1), list(kept))))
