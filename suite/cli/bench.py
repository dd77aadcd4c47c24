"""`suite bench`: speed, beside `transformers` in the same run, and what long texts cost."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from suite.cli.groups import Group
from suite.cli.options import json_option
from suite.cli.show import notice, percent, size, table, write_json

if TYPE_CHECKING:
    from suite.bench import Speed

COUNT = click.IntRange(min=1)
threads_option = click.option("--threads", type=COUNT, default=2, metavar="N", help="CPU threads to use.  [default: 2]")
baseline_option = click.option(
    "--baseline/--no-baseline", default=True, help="Also measure transformers.  [default: yes]"
)


@click.group(cls=Group)
def bench() -> None:
    """Measure speed and memory, and compare them with transformers."""


@bench.command()
@click.option(
    "--size",
    type=click.Choice(["124M", "355M", "774M", "1558M"]),
    default="124M",
    help="Number of parameters of the GPT-2 model.  [default: 124M]",
)
@click.option("--prompt", type=COUNT, default=64, metavar="N", help="Length of the prompt in tokens.  [default: 64]")
@click.option("--new", type=COUNT, default=128, metavar="N", help="Number of tokens to decode.  [default: 128]")
@click.option(
    "--batch",
    "batches",
    type=COUNT,
    multiple=True,
    metavar="N",
    help="Prompts decoded at once; may be given several times.  [default: 1 and 8]",
)
@click.option(
    "--weights",
    type=click.Choice(["float32", "float16", "int8"]),
    multiple=True,
    default=("float32", "float16", "int8"),
    help="Type of the weights; may be given several times.  [default: all three]",
)
@click.option("--compile", is_flag=True, help="Also measure the compiled step; compiling takes about a minute.")
@click.option("--repeats", type=COUNT, default=3, metavar="N", help="Number of runs; the fastest counts.  [default: 3]")
@threads_option
@baseline_option
@json_option
def decode(
    size: str,
    prompt: int,
    new: int,
    batches: tuple[int, ...],
    weights: tuple[str, ...],
    compile: bool,
    repeats: int,
    threads: int,
    baseline: bool,
    as_json: bool,
) -> None:
    """Measure decoding on the CPU, with a GPT-2 of random weights."""
    from suite import bench

    speeds = bench.decode(
        size=size,
        prompt=prompt,
        new=new,
        batches=batches or (1, 8),
        weights=weights,
        compile=compile,
        baseline=baseline,
        threads=threads,
        repeats=repeats,
        say=notice,
    )
    report(speeds, as_json, per="tokens/s per row")


@bench.command()
@click.option("--batch", type=COUNT, default=16, metavar="N", help="Sequences in a step.  [default: 16]")
@click.option("--length", type=COUNT, default=256, metavar="N", help="Tokens in a sequence.  [default: 256]")
@click.option("--layers", type=COUNT, default=6, metavar="N", help="Number of layers.  [default: 6]")
@click.option(
    "--width", type=COUNT, default=384, metavar="N", help="Width of the model, a multiple of --heads.  [default: 384]"
)
@click.option("--heads", type=COUNT, default=6, metavar="N", help="Number of attention heads.  [default: 6]")
@click.option("--vocabulary", type=COUNT, default=8192, metavar="N", help="Size of the vocabulary.  [default: 8192]")
@click.option(
    "--device", default="cpu", metavar="NAME", help="Device to train on: cpu, cuda, cuda:1 or mps.  [default: cpu]"
)
@click.option(
    "--precision",
    "precisions",
    type=click.Choice(["float32", "bfloat16"]),
    multiple=True,
    help="Precision to train in.  [default: float32, and bfloat16 if the device has instructions for it]",
)
@click.option(
    "--repeats", type=COUNT, default=5, metavar="N", help="Number of steps to time; the fastest counts.  [default: 5]"
)
@click.option(
    "--limit",
    type=click.FloatRange(min=0),
    default=150.0,
    metavar="SECONDS",
    help="Time fewer steps than --repeats if all would take longer than this.  [default: 150]",
)
@threads_option
@baseline_option
@json_option
def train(
    batch: int,
    length: int,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int,
    device: str,
    precisions: tuple[str, ...],
    repeats: int,
    limit: float,
    threads: int,
    baseline: bool,
    as_json: bool,
) -> None:
    """Measure training steps of a small GPT-2."""
    from suite import bench

    speeds = bench.train(
        n_layer=layers,
        d_model=width,
        n_head=heads,
        vocab_size=vocabulary,
        batch=batch,
        length=length,
        precisions=precisions,
        baseline=baseline,
        threads=threads,
        repeats=repeats,
        limit=limit,
        device=device,
        say=notice,
    )
    report(speeds, as_json, per="tokens/s")


@bench.command()
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("--steps", type=COUNT, default=3, metavar="N", help="Number of steps to time.  [default: 3]")
@click.option(
    "--muon",
    type=click.Choice(["float32", "bfloat16"]),
    multiple=True,
    help="Type of Muon's iteration; several take turns.  [default: the run's precision]",
)
@click.option(
    "--precision",
    type=click.Choice(["auto", "float32", "bfloat16"]),
    default="auto",
    help="Precision to train in.  [default: auto]",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=0),
    default=30.0,
    metavar="SECONDS",
    help="Begin no further turn of a recipe after this time.  [default: 30]",
)
@threads_option
@json_option
def recipes(
    tasks: tuple[str, ...],
    steps: int,
    muon: tuple[str, ...],
    precision: str,
    limit: float,
    threads: int,
    as_json: bool,
) -> None:
    """Take a few training steps of the default recipes, on the sample data and the CPU."""
    from suite import bench

    speeds = []
    for speed in bench.recipes(
        tasks=tasks, steps=steps, muon=muon, precision=precision, threads=threads, limit=limit, say=notice
    ):
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
@click.option(
    "--lengths",
    type=COUNT,
    multiple=True,
    default=(1024, 4096, 11264, 32768),
    metavar="N",
    help="Length of a text in tokens; may be given several times.  [default: 1024, 4096, 11264 and 32768]",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=0),
    default=100.0,
    metavar="SECONDS",
    help="Skip measurements that might take longer.  [default: 100]",
)
@threads_option
@json_option
def attention(lengths: tuple[int, ...], limit: float, threads: int, as_json: bool) -> None:
    """Measure full, local and compressed attention on long texts, on the CPU."""
    from suite import bench

    costs = bench.attention(lengths=lengths, limit=limit, threads=threads, say=notice)
    if as_json:
        write_json([dataclasses.asdict(cost) for cost in costs])
        return
    rows = [
        (cost.work, cost.layers, f"{cost.length:,}", f"{cost.tokens_per_second:,.0f}", size(cost.peak_bytes))
        for cost in costs
    ]
    click.echo("\n".join(table(rows, "llrrr", ("work", "layers", "tokens", "tokens/s", "memory"))))


def report(speeds: list[Speed], as_json: bool, per: str) -> None:
    """Write the figures as a table, without the columns that nobody filled."""
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
