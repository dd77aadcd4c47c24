"""Make the music figures of FIGURES.md, and measure the bounds that a checkpoint keeps; run from the repository's root.

python -m benchmarks.music round-trip asap_performances.zip
python -m benchmarks.music positions asap_performances.zip --out runs/positions
python -m benchmarks.music speed
python -m benchmarks.music reading asap_performances.zip
python -m benchmarks.music bounds piano-midi-de.zip pop909.zip --held-out 0.05 --write tasks/music/checkpoint
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from suite.cli.show import notice, table
from suite.data.events import EventTable
from suite.data.midi import read_midi
from suite.data.performance import Performance
from suite.data.recordings import read_recordings, split_by_piece
from suite.errors import DataError
from suite.files import cache_directory
from suite.tasks.music.task import MusicTask
from suite.training.fit import fit_data, kept
from suite.training.recipe import Recipe

RECIPES = Path(__file__).parents[1] / "tasks" / "music"
POSITIONS = ("rotary", "relative", "learned")


@click.group()
def main() -> None:
    """Figures of the music task, one command each."""


@main.command("round-trip")
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--limit", default=0, help="Number of files to read.  [default: all]")
def round_trip(archive: Path, limit: int) -> None:
    """Encode and decode every MIDI file of a zip file, and compare note by note."""
    coding = EventTable()
    files = notes = tokens = short = 0
    onset = offset = late = bump = 0.0
    velocity = 0
    wrong: list[str] = []
    for name, content in members(archive, limit):
        performance = read_midi(content, name=name).performance
        encoded = coding.encode(performance)
        decoded = coding.decode(encoded.tokens.tolist())
        again = coding.encode(decoded).tokens
        files, notes, tokens = files + 1, notes + len(performance), tokens + len(encoded.tokens)
        short += encoded.lengthened
        if len(decoded) != len(performance) or not np.array_equal(again, encoded.tokens):
            wrong.append(name)
            continue
        before, after = in_pairs(performance), in_pairs(decoded)
        if not np.array_equal(before[0], after[0]):
            wrong.append(name)
            continue
        errors = np.abs(after[1] - before[1])
        onset = max(onset, float(errors.max()))
        late = max(late, float(errors[before[1] >= performance.duration - 60].max(initial=0)))
        grown = before[2] - before[1] < 0.02  # may have been lengthened to a step
        ends = np.abs(after[2] - before[2])
        offset, bump = max(offset, float(ends[~grown].max())), max(bump, float(ends[grown].max(initial=0)))
        velocity = max(velocity, int(np.abs(after[3] - before[3]).max()))
    rows = [
        ["files, notes, events", f"{files:,}, {notes:,}, {tokens:,}"],
        ["files whose pitches, count or second encoding differ", f"{len(wrong):,}"],
        ["largest error of an onset", f"{1000 * onset:.2f} ms"],
        ["... in a file's last minute", f"{1000 * late:.2f} ms"],
        ["largest error of an end", f"{1000 * offset:.2f} ms"],
        ["notes shorter than a step, made one step long", f"{short:,}"],
        ["largest error of the end of a note under 20 ms", f"{1000 * bump:.2f} ms"],
        ["largest error of a velocity", f"{velocity}"],
    ]
    click.echo("\n".join(table(rows, "lr")))
    for name in wrong[:10]:
        notice(f"differs: {name}")


def in_pairs(performance: Performance) -> tuple[Any, Any, Any, Any]:
    """Pitch, start, end and velocity of the notes, those of each pitch in order of start."""
    order = np.lexsort((performance.end, performance.start, performance.pitch))
    columns = (performance.pitch, performance.start, performance.end, performance.velocity)
    pitch, start, end, velocity = (column[order] for column in columns)
    return pitch, start, end, velocity


def members(archive: Path, limit: int = 0) -> Iterator[tuple[str, bytes]]:
    """Name and content of the MIDI files in a zip file."""
    with zipfile.ZipFile(archive) as packed:
        names = sorted(name for name in packed.namelist() if name.lower().endswith((".mid", ".midi")))
        for name in names[: limit or None]:
            yield name, packed.read(name)


@main.command()
@click.argument("archive", type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/positions"), show_default=True)
@click.option("--seeds", default=3, show_default=True, help="Number of seeds; they are 1, 2, ...")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(POSITIONS),
    help="Kind of positions; may be given several times.  [default: all]",
)
@click.option("--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a setting of the recipe.")
def positions(archive: Path, out: Path, seeds: int, only: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Train `positions.toml` with each kind of position and seed; print nats a token on the pieces held out."""
    rows = []
    for kind in only or POSITIONS:
        found = [run_positions(kind, seed, archive, out, settings) for seed in range(1, seeds + 1)]
        losses = [one["nats"] for one in found]
        speed, minutes = (np.mean([one[key] for one in found]) for key in ("tokens_per_second", "minutes"))
        each = " ".join(f"{loss:.3f}" for loss in losses)
        rows.append([kind, f"{np.mean(losses):.3f}", each, f"{speed:,.0f}", f"{minutes:.1f}"])
    click.echo("\n".join(table(rows, "lrlrr", ["positions", "nats/token", "by seed", "tokens/s", "minutes"])))


def run_positions(kind: str, seed: int, archive: Path, out: Path, settings: Iterable[str]) -> dict[str, Any]:
    """One run; what was made before is read."""
    lines = [f"data.train=[{json.dumps(str(archive))}]", f"model.position={kind}", f"seed={seed}", *settings]
    recipe = Recipe.load(RECIPES / "positions.toml", lines)
    label = f"{kind}-seed{seed}"
    return kept(out / f"{label}.json", recipe, partial(timed_run, recipe, out / label))


def timed_run(recipe: Recipe, out: Path) -> dict[str, Any]:
    """Train once: the loss, and how long it took."""
    data = MusicTask().prepare(recipe, cache_directory())
    started = time.perf_counter()
    fitted = fit_data(recipe, data, out, say=notice)
    minutes = (time.perf_counter() - started) / 60
    read = fitted.result.step * recipe.batch.size * int(recipe.model["context"])
    return {
        "nats": fitted.result.best_loss,
        "parameters": fitted.parameters,
        "tokens": read,
        "tokens_per_second": read / minutes / 60,
        "minutes": minutes,
    }


@main.command()
@click.option(
    "--context", default=2048, show_default=True, help="Context of the model and length of the prompt, in tokens."
)
@click.option("--tokens", default=64, show_default=True, help="Number of tokens to generate with a cache.")
@click.option("--uncached", default=4, show_default=True, help="Number of tokens to generate without a cache.")
def speed(context: int, tokens: int, uncached: int) -> None:
    """Tokens/s of the embedded model's shape at a full context, with the cache and in a loop without one."""
    import torch

    from suite.model import ModelConfig, Transformer
    from suite.sampling import Sampling, generate
    from suite.tasks.music.format import Format

    rows = []
    for kind in ("rotary", "relative"):
        recipe = Recipe.load(RECIPES / "recipe.toml")
        shape = recipe.model | {"vocab_size": Format().vocab_size, "context": context, "position": kind}
        torch.manual_seed(0)
        model = Transformer(ModelConfig.from_dict(shape)).eval()
        for batch in (1, 8):
            prompts = np.random.default_rng(0).integers(0, 388, (batch, context)).tolist()

            def timed(count: int, prompts: list[list[int]] = prompts, model: Transformer = model) -> float:
                started = time.perf_counter()
                generate(model, prompts, max_new_tokens=count, sampling=Sampling(), seed=0)
                return time.perf_counter() - started

            first = timed(1)  # prefill and one token
            cached = tokens / (timed(tokens + 1) - first)
            started = time.perf_counter()
            loop(model, torch.tensor(prompts), uncached)
            plain = uncached / (time.perf_counter() - started)
            row = [kind, str(batch), f"{cached:,.1f}", f"{cached * batch:,.1f}", f"{plain:,.2f}"]
            rows.append([*row, f"{cached / plain:,.1f}"])
    heads = ["positions", "batch", "tokens/s a row", "in all", "uncached a row", "ratio"]
    click.echo("\n".join(table(rows, "lrrrrr", heads)))


def loop(model: Any, tokens: Any, count: int) -> Any:
    """Generation as public implementations of Music Transformer do it: all of the context again for each token."""
    import torch

    context = model.config.context
    with torch.inference_mode():
        for _ in range(count):
            scores = model(tokens[:, -context:])[:, -1]
            tokens = torch.cat([tokens, torch.multinomial(scores.softmax(dim=-1), 1)], dim=1)
    return tokens


@main.command()
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--megabytes", default=10.0, show_default=True, help="Size of the large file in megabytes.")
def reading(archive: Path, megabytes: float) -> None:
    """Notes/s from MIDI files to events on all cores, and time and memory of one large file."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        started = time.perf_counter()
        counts = list(pool.map(encode_one, members(archive), chunksize=4))
        took = time.perf_counter() - started
    notes, seconds = sum(count for count, _ in counts), sum(encoding for _, encoding in counts)
    rows = [["MIDI files to events, all cores", f"{notes / took:,.0f} notes/s ({notes:,} notes in {took:.1f} s)"]]
    rows.append(["notes to events, one core", f"{notes / seconds:,.0f} notes/s"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.mid"
        large(path, int(megabytes * 1e6))
        for label, function in (("mido alone", parse_alone), ("suite, to notes", read_midi)):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                took, peak = pool.submit(measured, function, path).result()
            size = path.stat().st_size / 1e6
            rows.append([f"{label}, a file of {size:.1f} MB", f"{took:.1f} s, {peak:,.0f} MB at most"])
    click.echo("\n".join(table(rows, "lr")))


@main.command()
@click.argument("data", nargs=-1, required=True)
@click.option("--held-out", default=0.1, show_default=True, help="Share of the pieces held out in training.")
@click.option(
    "--piece", type=click.Choice(["file", "folder"]), default="file", show_default=True, help="What a piece is."
)
@click.option(
    "--write", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Checkpoint to keep them in."
)
def bounds(data: tuple[str, ...], held_out: float, piece: Literal["file", "folder"], write: Path | None) -> None:
    """Measure density, keys sounding and lengths on training pieces, as training does; keep them in a checkpoint."""
    from suite.files import write_atomic
    from suite.tasks.music.bounds import Bounds
    from suite.tasks.music.format import Format

    path = None if write is None else write / "config.json"
    config = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    pedal: Literal["keep", "fold"] = "fold"
    if path is not None and Format.from_dict(config["extra"], str(write)).pedal:
        pedal = "keep"
    music = read_recordings(data, cache_directory(), piece=piece, pedal=pedal).recordings
    train, _ = split_by_piece(music, held_out)
    found = Bounds.of([one.performance for one in train])
    if found is None:
        raise DataError("there are no notes to measure")
    click.echo(json.dumps(found.to_dict()))
    if path is not None:
        config["extra"]["bounds"] = found.to_dict()
        write_atomic(path, (json.dumps(config, indent=2) + "\n").encode())


def encode_one(file: tuple[str, bytes]) -> tuple[int, float]:
    """Notes of a MIDI file, and the seconds that encoding them took."""
    performance = read_midi(file[1], name=file[0]).performance
    started = time.perf_counter()
    EventTable().encode(performance)
    return len(performance), time.perf_counter() - started


def parse_alone(path: Path) -> Any:
    """What mido makes of a file."""
    from mido import MidiFile

    return MidiFile(path)


def measured(function: Any, path: Path) -> tuple[float, float]:
    """Seconds that a function takes on a file, and megabytes that this process has taken at most by then."""
    started = time.perf_counter()
    kept = function(path)
    took = time.perf_counter() - started
    del kept
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def large(path: Path, size: int) -> None:
    """Write a MIDI file of about `size` bytes: one track, a note after another."""
    count = size // 8  # a delta time, a status, a pitch and a velocity, twice
    notes = b"".join(bytes((10, 0x90, 21 + place % 88, 64, 20, 0x80, 21 + place % 88, 0)) for place in range(count))
    track = notes + b"\x00\xff\x2f\x00"
    head = b"MThd" + (6).to_bytes(4) + (0).to_bytes(2) + (1).to_bytes(2) + (480).to_bytes(2)
    path.write_bytes(head + b"MTrk" + len(track).to_bytes(4) + track)


if __name__ == "__main__":
    main()
