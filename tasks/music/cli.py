"""`suite run music` and `suite eval music`."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.options import json_option, load_model, model_options, quiet_option
from suite.cli.show import notice, write_json

if TYPE_CHECKING:
    from suite.data.midi import Reading
    from suite.data.performance import Performance

POSITIVE = click.IntRange(min=1)


@click.command("music")
@click.option("--seconds", type=float, metavar="S", help="Length in seconds.  [default: 30, or the melody's length]")
@click.option(
    "--primer", type=click.Path(), metavar="MIDI", help="Continue this performance; the result begins with it."
)
@click.option("--melody", type=click.Path(), metavar="MIDI", help="Accompany this melody.")
@click.option("--ending", type=click.Path(), metavar="MIDI", help="Passage to lead into, --seconds after the primer.")
@click.option("--gap", metavar="FROM:TO", help="Replace the primer's notes between these times, in seconds.")
@click.option("-o", "--out", type=click.Path(), metavar="FILE", help="MIDI file to write.  [default: music-SEED.mid]")
@click.option("--wav", type=click.Path(), metavar="FILE", help="Also write an audio recording (.wav).")
@click.option(
    "--soundfont",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Soundfont for --wav; needs FluidSynth.  [default: $SOUNDFONT or the system's]",
)
@click.option("--plot", type=click.Path(), metavar="FILE", help="Also draw the piano roll (.png or .svg).")
@click.option(
    "--takes",
    type=POSITIVE,
    default=1,
    metavar="N",
    help="Number of versions, written to FILE-1.mid, FILE-2.mid, ... if several.  [default: 1]",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Random seed for sampling.  [default: random; printed]"
)
@click.option(
    "-t",
    "--temperature",
    type=float,
    metavar="T",
    help="Sampling temperature; higher is more surprising.  [default: 1]",
)
@click.option("--top-k", type=int, metavar="K", help="Sample from the K most likely events; 0 for all.  [default: 0]")
@click.option(
    "--top-p",
    type=float,
    metavar="P",
    help="Sample from the most likely events that together have probability P.  [default: 0.98]",
)
@click.option(
    "--density", type=float, default=1.0, metavar="D", help="Density of notes; above 1 plays more notes.  [default: 1]"
)
@click.option(
    "--transpose",
    type=int,
    default=0,
    metavar="N",
    help="Transpose the given music, or else the result, up by N semitones.  [default: 0]",
)
@click.option(
    "--tempo",
    type=float,
    default=1.0,
    metavar="F",
    help="Speed up the given music, or else the result; 2 is twice as fast.  [default: 1]",
)
@click.option(
    "--may-end", is_flag=True, help="Let the model end the piece; --seconds is then the maximum, and 300 by default."
)
@click.option("--only-new", is_flag=True, help="Write only the new notes, without primer, melody and ending.")
@model_options("music")
@json_option
@quiet_option
def run(
    seconds: float | None,
    primer: str | None,
    melody: str | None,
    ending: str | None,
    gap: str | None,
    out: str | None,
    wav: str | None,
    soundfont: str | None,
    plot: str | None,
    takes: int,
    seed: int | None,
    density: float,
    transpose: int,
    tempo: float,
    may_end: bool,
    only_new: bool,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
    quiet: bool,
    **rules: Any,
) -> None:
    """Write a piano performance, or continue one of yours.

    The names of the written files are printed to standard output.

    \b
    suite run music --seconds 60 --seed 7 -o piece.mid --wav piece.wav --plot piece.png
    suite run music --primer mine.mid --seconds 20 --takes 3 -o mine.mid
    suite run music --melody tune.mid -o song.mid
    suite run music --primer mine.mid --gap 10:14 -o mended.mid
    """
    settings = {name: value for name, value in rules.items() if value is not None}
    if gap is not None and (primer is None or melody or ending or may_end or seconds is not None):
        raise click.UsageError(
            "--gap needs a --primer and cannot be combined with --melody, --ending, --seconds or --may-end"
        )
    for option, path, endings in (("--wav", wav, (".wav",)), ("--plot", plot, (".png", ".svg"))):
        if path is not None and Path(path).suffix.lower() not in endings:
            raise click.UsageError(f"{option} {path} must end in {' or '.join(endings)}")
    if out is not None and Path(out).suffix.lower() not in (".mid", ".midi"):
        raise click.UsageError(f"--out {out} must end in .mid; use --wav for sound and --plot for a picture")
    if soundfont is not None and wav is None:
        raise click.UsageError("--soundfont needs --wav, the recording to write")
    given: dict[str, Any] = {
        name: read(path, quiet) for name, path in (("primer", primer), ("ending", ending)) if path is not None
    }
    if melody is not None:
        given["melody"] = read_melody(melody, quiet)
    place = between(gap) if gap is not None else None
    from suite.tasks.music.pipeline import Player, check, moved

    check(
        takes,
        seconds,
        given.get("primer"),
        given.get("melody"),
        given.get("ending"),
        density,
        tempo,
        may_end,
        transpose,
    )
    player = Player(load_model(model, revision, device, quantize), **settings)
    if seed is None:
        seed = secrets.randbelow(2**31)
    started = time.perf_counter()
    with bar(seconds, given.get("melody"), place, may_end) as progress:
        common: dict[str, Any] = {"seed": seed, "density": density, "only_new": only_new, "progress": progress.update}
        if place is not None:
            whole = moved(given["primer"], "primer", transpose, tempo)
            results = player.refill(whole, *(time / tempo for time in place), count=takes, **common)
        else:
            common.update(seconds=seconds, transpose=transpose, tempo=tempo, may_end=may_end)
            results = player.takes(takes, **common, **given)
    if not quiet:
        notice(f"seed {seed}; {time.perf_counter() - started:.1f} s")
    for number, result in enumerate(results, 1):
        suffix = f"-{number}" if takes > 1 else ""
        wanted = (out or f"music-{seed}.mid", wav, plot)
        files = [save(result, named(path, suffix), soundfont, quiet) for path in wanted if path is not None]
        if as_json:
            described = {"files": files, "seconds": result.duration, "notes": len(result), "seed": seed, "take": number}
            write_json(described)
        else:
            click.echo("\n".join(files))


def save(result: Performance, path: Path, soundfont: str | None, quiet: bool) -> str:
    """Write a performance as what the file's ending says; returns its name."""
    ending = path.suffix.lower()
    if ending == ".wav":
        from suite.data.sound import write_wav

        player = write_wav(result, path, Path(soundfont) if soundfont is not None else None)
        if not quiet:
            notice(f"{path}: played by {player}")
    elif ending in (".png", ".svg"):
        from suite.data.piano_roll import draw_file

        draw_file(result, path)
    else:
        result.save(path)
    return str(path)


def read(path: str, quiet: bool) -> Performance:
    """A MIDI file's performance; what it lost is told."""
    return read_file(path, quiet).performance


def read_file(path: str, quiet: bool) -> Reading:
    """What a MIDI file holds; what it lost is told."""
    from suite.data.midi import read_midi

    reading = read_midi(path)
    if not quiet:
        for line in reading.notes:
            notice(f"{path}: {line}")
    return reading


def read_melody(path: str, quiet: bool) -> Performance:
    """The melody of a MIDI file: the track that is called so, or else its highest notes; which of them is told."""
    from suite.tasks.music.examples import part, skyline

    reading = read_file(path, quiet)
    for title, track in reading.tracks:
        if "melody" in title.lower() and len(reading.tracks) > 1:
            if not quiet:
                notice(
                    f"{path}: the melody is the track {title!r}, {len(track):,} of {len(reading.performance):,} notes"
                )
            return track
    highest = skyline(reading.performance)
    if not highest.all() and not quiet:
        notice(f"{path}: the melody is the highest notes, {highest.sum():,} of {len(highest):,}")
    return part(reading.performance, highest)


def between(gap: str) -> tuple[float, float]:
    """The two times of --gap."""
    first, _, last = gap.partition(":")
    try:
        return float(first), float(last)
    except ValueError:
        raise click.UsageError(f"--gap {gap!r} is not of the form FROM:TO, in seconds, such as 10:14.5") from None


def bar(seconds: float | None, melody: Performance | None, gap: tuple[float, float] | None, may_end: bool) -> Any:
    """A bar of seconds of music, on terminals alone."""
    from tqdm import tqdm

    from suite.tasks.music.pipeline import default_seconds

    total = gap[1] - gap[0] if gap is not None else seconds or default_seconds(melody, may_end)
    form = "{desc} {percentage:3.0f}%|{bar}| {n:.0f} of {total:.0f} s [{elapsed}<{remaining}]"
    return tqdm(desc="generating", total=total, bar_format=form, disable=None, leave=False)


def named(path: str, suffix: str) -> Path:
    """A file's name with something before its ending."""
    return Path(path).with_stem(Path(path).stem + suffix)


@click.command("music")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@click.option("--train", multiple=True, metavar="SOURCE", help="Recordings to count n-grams and copied passages on.")
@click.option(
    "--piece",
    type=click.Choice(["file", "folder"]),
    default="file",
    help="What counts as one piece: a file, or a folder of recordings.  [default: file]",
)
@click.option(
    "--held-out",
    type=float,
    default=0.0,
    metavar="S",
    help="Evaluate only on this share of DATA's pieces; 0 for all.  [default: 0]",
)
@click.option(
    "--part",
    type=click.Choice(["all", "held-out"]),
    default="all",
    help="Evaluate all pieces, or only those that DATA's own table holds out.  [default: all]",
)
@click.option(
    "--stride", type=POSITIVE, metavar="N", help="Tokens from one window's start to the next.  [default: half a window]"
)
@click.option(
    "--length", type=POSITIVE, metavar="N", help="Length of a window in tokens.  [default: the model's context]"
)
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of samples to compare with DATA.  [default: 0]",
)
@click.option(
    "--takes",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of takes of each kind of generation whose notes are counted.  [default: 0]",
)
@click.option(
    "--seconds", type=float, default=30.0, metavar="S", help="Length of each sample in seconds.  [default: 30]"
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Random seed for the samples.  [default: 0]"
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of recordings to read; 0 for all.  [default: 0]",
)
@model_options("music")
@json_option
def evaluate(
    data: tuple[str, ...],
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure how well a model predicts performances, and how similar its own are to them.

    DATA is MIDI files, folders, zip files or data-set names. The model is compared with n-grams over the same events.

    \b
    suite eval music recordings/ --samples 16
    suite eval music asap_performances.zip --piece folder --held-out 0.2 --model runs/asap
    """
    from tqdm import tqdm

    from suite.tasks.music import evaluate as evaluation

    loaded = load_model(model, revision, device, quantize)
    with tqdm(desc="scoring", unit=" tokens", unit_scale=True, disable=None, leave=False) as progress:
        found = evaluation.evaluate(loaded, data, progress=progress.update, **options)
    if as_json:
        write_json(found)
        return
    for line in found["sources"]:
        notice(line)
    for line in evaluation.lines(found):
        click.echo(line)
