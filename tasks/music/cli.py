"""`suite run music` and `suite eval music`."""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.session import Session, session
from suite.cli.settings import takes
from suite.task.kit.commands import ReportOptions, check_format, show_report
from suite.tasks.music.options import MusicEvalOptions, OutputOptions, PlayOptions, SourceOptions, TakeOptions
from suite.tasks.music.task import MusicTask

if TYPE_CHECKING:
    from suite.data.midi import Reading
    from suite.data.performance import Performance
    from suite.tasks.music.pipeline import Player
    from suite.tasks.music.take import Take


@click.command("music")
@takes(SourceOptions, "sources")
@takes(PlayOptions, "play")
@takes(TakeOptions, "draws")
@takes(OutputOptions, "output")
@session("music")
def run(sources: SourceOptions, play: PlayOptions, draws: TakeOptions, output: OutputOptions, session: Session) -> None:
    """Write a piano performance, or continue one of yours.

    The names of the written files are printed to standard output.

    \b
    suite run music --seconds 60 --seed 7 -o piece.mid --wav piece.wav --plot piece.png
    suite run music --primer mine.mid --seconds 20 --takes 3 -o mine.mid
    suite run music --melody tune.mid -o song.mid
    suite run music --primer mine.mid --gap 10:14 -o mended.mid
    """
    sources.check(play)
    output.check()
    given = read_given(sources, session)
    gap = sources.times
    play.check(**{name: name in given for name in ("primer", "melody", "ending")})
    from suite.tasks.music.pipeline import Player

    player = Player(session.load(), **draws.rules)
    seed = secrets.randbelow(2**31) if draws.seed is None else draws.seed
    started = time.perf_counter()
    with bar(play, given.get("melody"), gap, session) as progress:
        calls: dict[str, Any] = {"seed": seed, "progress": progress.update}
        if gap is None:
            results = player.takes(draws.takes, **asdict(play), **given, **calls)
        else:
            results = refilled(player, given["primer"], gap, draws.takes, play, calls)
    session.notice(f"seed {seed}; {time.perf_counter() - started:.1f} s")
    for number, result in enumerate(results, 1):
        paths = output.paths(seed, f"-{number}" if draws.takes > 1 else "")
        files = [save(result, path, output.soundfont, session) for path in paths]
        if session.as_json:
            length = {"seconds": result.duration, "notes": len(result)}
            session.json({"files": files, **length, "seed": seed, "take": number})
        else:
            click.echo("\n".join(files))


def refilled(
    player: Player, primer: Performance, gap: tuple[float, float], count: int, play: PlayOptions, calls: dict[str, Any]
) -> list[Take]:
    """Return takes of a primer with new notes in a gap, given in the primer's original time (seconds)."""
    from suite.tasks.music.pipeline import moved

    whole = moved(primer, "primer", play.transpose, play.tempo)
    start, end = (moment / play.tempo for moment in gap)
    return player.refill(whole, start, end, count=count, density=play.density, only_new=play.only_new, **calls)


def save(result: Performance, path: Path, soundfont: str | None, session: Session) -> str:
    """Write a performance in the format of the file's extension; return the file's name."""
    ending = path.suffix.lower()
    if ending == ".wav":
        from suite.data.sound import write_wav

        player = write_wav(result, path, Path(soundfont) if soundfont is not None else None)
        session.notice(f"{path}: played by {player}")
    elif ending in (".png", ".svg"):
        from suite.data.piano_roll import draw_file

        draw_file(result, path)
    else:
        result.save(path)
    return str(path)


def read_given(sources: SourceOptions, session: Session) -> dict[str, Any]:
    """Read those of primer, ending and melody for which a file was given; return them by name."""
    given = {
        name: read(path, session).performance
        for name, path in (("primer", sources.primer), ("ending", sources.ending))
        if path is not None
    }
    return given if sources.melody is None else {**given, "melody": read_melody(sources.melody, session)}


def read(path: str, session: Session) -> Reading:
    """Read a MIDI file; a notice lists anything that could not be read."""
    from suite.data.midi import read_midi

    reading = read_midi(path)
    for line in reading.notes:
        session.notice(f"{path}: {line}")
    return reading


def read_melody(path: str, session: Session) -> Performance:
    """Read the melody of a MIDI file: the track named "melody", or else the highest notes; a notice says which."""
    from suite.tasks.music.examples import part, skyline

    reading = read(path, session)
    for title, track in reading.tracks:
        if "melody" in title.lower() and len(reading.tracks) > 1:
            session.notice(
                f"{path}: the melody is the track {title!r}, {len(track):,} of {len(reading.performance):,} notes"
            )
            return track
    highest = skyline(reading.performance)
    if not highest.all():
        session.notice(f"{path}: the melody is the highest notes, {highest.sum():,} of {len(highest):,}")
    return part(reading.performance, highest)


def bar(play: PlayOptions, melody: Performance | None, gap: tuple[float, float] | None, session: Session) -> Any:
    """Return a progress bar that counts seconds of music; it is shown only on a terminal."""
    from tqdm import tqdm

    total = play.length(melody) if gap is None else gap[1] - gap[0]
    form = "{desc} {percentage:3.0f}%|{bar}| {n:.0f} of {total:.0f} s [{elapsed}<{remaining}]"
    return tqdm(desc="generating", total=total, bar_format=form, disable=True if session.quiet else None, leave=False)


@click.command("music")
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@takes(MusicEvalOptions)
@takes(ReportOptions, "shown")
@session("music")
def evaluate(data: tuple[str, ...], options: MusicEvalOptions, shown: ReportOptions, session: Session) -> None:
    """Measure how well a model predicts performances, and how similar its own are to them.

    DATA is MIDI files, folders, zip files or data-set names. The model is compared with n-grams over the same events.

    \b
    suite eval music recordings/ --samples 16
    suite eval music asap_performances.zip --piece folder --held-out 0.2 --model runs/asap
    """
    check_format(session, shown.markdown)
    model = session.load()
    with session.progress("scoring", unit="tokens") as progress:
        report = MusicTask().evaluate(model, data, options=options, progress=progress.update)
    show_report(report, session, markdown=shown.markdown)
