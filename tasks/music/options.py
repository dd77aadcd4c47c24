"""Options of `suite run music` and `suite eval music`, and of the functions behind them; nothing here imports torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from suite.cli.settings import setting
from suite.errors import ConfigError, require_numbers
from suite.files import check_output
from suite.task.kit.commands import EvalOptions

if TYPE_CHECKING:
    from suite.data.performance import Performance

LONGEST_TAKE = 6 * 3600.0  # seconds
RULES = ("temperature", "top_k", "top_p")


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Length and style of the music to generate.

    Attributes:
        seconds: length of the new music (None: 30, as long as the melody, or at most 300 where it may end).
        density: factor for the odds of a note against time passing; above 1 gives more notes, and also scales the
            bounds on notes at once.
        transpose: semitones by which the given music is moved first; if none is given, the result is moved.
        tempo: factor by which the given music is sped up first; if none is given, the result is sped up.
        may_end: whether the model may end a take, in a silence, before `seconds`.
        only_new: whether to leave out primer, melody and ending; time then counts from the primer's end.

    Raises:
        ConfigError: a number is out of its range.
    """

    seconds: float | None = setting(None, "Length in seconds.", metavar="S", shown="30, or the melody's length")
    density: float = setting(1.0, "Density of notes; above 1 plays more notes.", metavar="D", shown="1")
    transpose: int = setting(
        0, "Transpose the given music, or else the result, up by N semitones.", metavar="N", shown="0"
    )
    tempo: float = setting(
        1.0, "Speed up the given music, or else the result; 2 is twice as fast.", metavar="F", shown="1"
    )
    may_end: bool = setting(False, "Let the model end the piece; --seconds is then the maximum, and 300 by default.")
    only_new: bool = setting(False, "Write only the new notes, without primer, melody and ending.")

    def __post_init__(self) -> None:
        from suite.data.events import STEP_RATE

        require_numbers(density=self.density, tempo=self.tempo, transpose=self.transpose)
        require_numbers(seconds=0 if self.seconds is None else self.seconds)
        shortest = 1 / STEP_RATE
        if self.seconds is not None and not shortest <= self.seconds <= LONGEST_TAKE:
            raise ConfigError(f"seconds is {self.seconds:g}, but must be between {shortest} and {LONGEST_TAKE:g}")
        for name in ("density", "tempo"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name):g}, but must be above 0")
        if self.seconds is not None and not shortest <= (slow := self.seconds * self.tempo) <= LONGEST_TAKE:
            raise ConfigError(
                f"{self.seconds:g} s at {self.tempo:g} times the tempo is {slow:g} s, but must be between {shortest} "
                f"and {LONGEST_TAKE:g}"
            )
        if not -127 <= self.transpose <= 127:
            raise ConfigError(f"transpose is {self.transpose}, but must be from -127 to 127")

    def check(self, *, primer: bool, melody: bool, ending: bool) -> None:
        """Refuse given music that cannot be combined with other given music or with `may_end`.

        Raises:
            ConfigError: the options cannot be combined.
        """
        if melody and (primer or ending):
            raise ConfigError("a melody is accompanied from its beginning to its end; it takes no primer and no ending")
        if self.may_end and (melody or ending):
            raise ConfigError("with a melody or an ending the length is fixed, so the model cannot end the piece")

    def length(self, melody: Performance | None) -> float:
        """Return the length of the new music in seconds."""
        if self.seconds is not None:
            return self.seconds
        if melody is not None:
            return melody.duration
        return 300.0 if self.may_end else 30.0


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """MIDI files that `suite run music` starts from.

    Attributes:
        primer, melody, ending: see `Player.takes`.
        gap: times in the primer between which its notes are replaced, "FROM:TO".
    """

    primer: str | None = setting(
        None, "Continue this performance; the result begins with it.", metavar="MIDI", type=click.Path()
    )
    melody: str | None = setting(None, "Accompany this melody.", metavar="MIDI", type=click.Path())
    ending: str | None = setting(
        None, "Passage to lead into, --seconds after the primer.", metavar="MIDI", type=click.Path()
    )
    gap: str | None = setting(None, "Replace the primer's notes between these times, in seconds.", metavar="FROM:TO")

    def check(self, play: PlayOptions) -> None:
        """Refuse options that cannot be combined with a gap."""
        others = self.melody or self.ending or play.may_end or play.seconds is not None
        if self.gap is not None and (self.primer is None or others):
            raise click.UsageError(
                "--gap needs a --primer and cannot be combined with --melody, --ending, --seconds or --may-end"
            )

    @property
    def times(self) -> tuple[float, float] | None:
        """Start and end of the gap in seconds; None without a gap."""
        if self.gap is None:
            return None
        first, _, last = self.gap.partition(":")
        try:
            return float(first), float(last)
        except ValueError:
            raise click.UsageError(
                f"--gap {self.gap!r} is not of the form FROM:TO, in seconds, such as 10:14.5"
            ) from None


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Files that `suite run music` writes.

    Attributes:
        out: MIDI file; None for a name that contains the seed.
        wav: audio file.
        soundfont: soundfont for the audio.
        plot: picture of the piano roll.
    """

    out: str | None = setting(
        None,
        "MIDI file to write.",
        flags=("-o", "--out"),
        metavar="FILE",
        shown="music-SEED.mid",
        type=click.Path(),
    )
    wav: str | None = setting(None, "Also write an audio recording (.wav).", metavar="FILE", type=click.Path())
    soundfont: str | None = setting(
        None,
        "Soundfont for --wav; needs FluidSynth.",
        metavar="FILE",
        shown="$SOUNDFONT or the system's",
        type=click.Path(exists=True, dir_okay=False),
    )
    plot: str | None = setting(None, "Also draw the piano roll (.png or .svg).", metavar="FILE", type=click.Path())

    def check(self) -> None:
        """Refuse names with the wrong file extension, and a soundfont without an audio file to write."""
        for option, path, endings in (("--wav", self.wav, (".wav",)), ("--plot", self.plot, (".png", ".svg"))):
            if path is not None and Path(path).suffix.lower() not in endings:
                raise click.UsageError(f"{option} {path} must end in {' or '.join(endings)}")
        if self.out is not None and Path(self.out).suffix.lower() not in (".mid", ".midi"):
            raise click.UsageError(f"--out {self.out} must end in .mid; use --wav for sound and --plot for a picture")
        for path in (self.out, self.wav, self.plot):
            if path is not None:
                check_output(Path(path))
        if self.soundfont is not None and self.wav is None:
            raise click.UsageError("--soundfont needs --wav, the recording to write")

    def paths(self, seed: int, suffix: str) -> list[Path]:
        """Return the paths of a take's files, with `suffix` before their extensions."""
        wanted = (self.out or f"music-{seed}.mid", self.wav, self.plot)
        return [Path(path).with_stem(Path(path).stem + suffix) for path in wanted if path is not None]


@dataclass(frozen=True, kw_only=True)
class TakeOptions:
    """How `suite run music` draws its takes.

    Attributes:
        takes: number of takes.
        seed: of the first take; None for a random seed.
        temperature, top_k, top_p: see `suite.Sampling`; None for the pipeline's defaults.
    """

    takes: int = setting(
        1, "Number of versions, written to FILE-1.mid, FILE-2.mid, ... if several.", metavar="N", min=1
    )
    seed: int | None = setting(None, "Random seed for sampling.", metavar="N", min=0, shown="random; printed")
    temperature: float | None = setting(
        None,
        "Sampling temperature; higher is more surprising.",
        flags=("-t", "--temperature"),
        metavar="T",
        shown="1",
    )
    top_k: int | None = setting(None, "Sample from the K most likely events; 0 for all.", metavar="K", shown="0")
    top_p: float | None = setting(
        None, "Sample from the most likely events that together have probability P.", metavar="P", shown="0.98"
    )

    @property
    def rules(self) -> dict[str, Any]:
        """The sampling settings that were given, by name."""
        given = {name: getattr(self, name) for name in RULES}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class MusicEvalOptions(EvalOptions):
    """Options of `suite eval music`.

    Attributes:
        train: recordings to count n-grams on and to search for copies, without their own held-out pieces. Empty: the
            pieces of the data that are not held out; if nothing is held out, each half of the recordings is scored with
            n-grams counted on the other half, and no copies are searched for.
        limit: number of recordings to score, evenly spread; 0 for all. Samples are compared with all recordings.
        piece: whether each file counts as a piece, or each folder of files.
        held_out: share of the pieces held out, as in training: only they are evaluated, and n-grams are never
            counted on them.
        part: "held-out" evaluates the pieces that a collection holds out itself (MAESTRO's validation part), or else by
            `held_out`; "all" with a `held_out` of 0 evaluates everything.
        stride: tokens from one window's start to the next (None: half of `length`); a token sees at least
            `length - stride` tokens before it, where its recording has them.
        length: tokens in a window (None: the model's context).
        samples: number of samples to draw and compare; 0 for none.
        takes: number of takes of each kind (alone, after a primer, under a melody, in a gap) whose notes are counted
            and compared with the recordings; 0 for none.
        seconds: length of each sample or take.
        seed: of the samples and takes.

    Raises:
        ConfigError: a number is out of its range.
    """

    train: tuple[str, ...] = setting((), "Recordings to count n-grams and copied passages on.", metavar="SOURCE")
    limit: int = setting(0, "Number of recordings to read; 0 for all.", metavar="N", min=0)
    piece: Literal["file", "folder"] = setting("file", "What counts as one piece: a file, or a folder of recordings.")
    held_out: float = setting(0.0, "Evaluate only on this share of DATA's pieces; 0 for all.", metavar="S", shown="0")
    part: Literal["all", "held-out"] = setting(
        "all", "Evaluate all pieces, or only those that DATA's own table holds out."
    )
    stride: int | None = setting(
        None, "Tokens from one window's start to the next.", metavar="N", min=1, shown="half a window"
    )
    length: int | None = setting(None, "Length of a window in tokens.", metavar="N", min=1, shown="the model's context")
    samples: int = setting(0, "Number of samples to compare with DATA.", metavar="N", min=0)
    takes: int = setting(0, "Number of takes of each kind of generation whose notes are counted.", metavar="N", min=0)
    seconds: float = setting(30.0, "Length of each sample in seconds.", metavar="S", shown="30")
    seed: int = setting(0, "Random seed for the samples.", metavar="N", min=0)

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1 or min(self.samples, self.takes, self.limit) < 0 or not self.seconds > 0:
            raise ConfigError("held_out must be in [0, 1), samples, takes and limit not negative, and seconds above 0")
