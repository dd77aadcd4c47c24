"""The music task: sequences are `<bos> events <eos>`, with loss on every event; the result is a performance.

Torch is imported inside functions, so that the command line can list this task without loading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.errors import ConfigError, DataError
from suite.task import NoOptions, PackagedTask, TrainingData
from suite.task.tables import check_held_out
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.data.recordings import Recording
    from suite.tasks.music.format import Format
    from suite.tasks.music.pipeline import Player
    from suite.tasks.music.take import Take  # noqa: F401 (named in a string)
    from suite.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class MusicData:
    """The table `data` of a music recipe.

    Args:
        train, valid: MIDI files, folders, zip files, or hub data sets. Without `valid`, whole pieces are held out: by
            MAESTRO's own table, or else by a hash of their names.
        piece: whether each file counts as a piece, or each folder of files.
        held_out: share of the pieces held out, at least one piece; of a single piece, its end is held out.
        valid_tokens: number of validation tokens to compute the loss on, evenly spread; 0 for all.
    """

    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    piece: Literal["file", "folder"] = "file"
    held_out: float = 0.1
    valid_tokens: int = 65_536

    def __post_init__(self) -> None:
        check_held_out(self.held_out)
        if self.valid_tokens < 0:
            raise ConfigError(f"data.valid_tokens is {self.valid_tokens}, and must not be negative")
        if not self.train:
            raise ConfigError("there is no training music; give MIDI files with --data or in data.train")


@dataclass(frozen=True, kw_only=True)
class MusicOptions:
    """The table `music` of a recipe.

    Args:
        pedal: "fold" (notes end when the pedal releases them) or "events" (the pedal has events of its own).
        transpose: maximum number of semitones, up or down, by which training moves a window.
        stretch: maximum change of a window's tempo, slower or faster, as a share.
        accompaniment: share of the windows that train accompanying a melody: the track named so, or else the highest
            notes.
        fill: share of the windows that train filling a gap.
    """

    pedal: Literal["fold", "events"] = "fold"
    transpose: int = 3
    stretch: float = 0.05
    accompaniment: float = 0.0
    fill: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.transpose <= 12 or not 0 <= self.stretch < 1:
            raise ConfigError("music.transpose must be from 0 to 12 semitones, and music.stretch in [0, 1)")
        if min(self.accompaniment, self.fill) < 0 or self.accompaniment + self.fill > 1:
            raise ConfigError("music.accompaniment and music.fill are shares, and must add up to 1 at most")


class MusicTask(PackagedTask["Recording", None, "Take"]):
    """The task `music`. Its pipeline takes only keyword arguments: see `suite.tasks.music.pipeline.Player`."""

    name = "music"
    summary = "write a piano performance, or continue one of yours"
    data_table, tokenizer_table, options_table = MusicData, NoOptions, MusicOptions
    loss_keys = ("smoothing", "source_weight")

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Read the recipe's MIDI files and cut training windows from them."""
        from suite.tasks.music.bounds import Bounds
        from suite.tasks.music.examples import Windows, validation_windows
        from suite.tasks.music.format import Format

        tables = self.tables(recipe)
        options: MusicOptions = tables.options
        format = Format(pedal=options.pedal == "events")
        context = context_of(recipe, format)
        train, valid, lost = read_music(tables.data, format, cache)
        bounds = Bounds.of([one.performance for one in train]) or Bounds()
        windows = Windows(
            train,
            format,
            context,
            recipe.seed,
            transpose=options.transpose,
            stretch=options.stretch,
            accompaniment=options.accompaniment,
            fill=options.fill,
        )
        held, total = validation_windows(valid, format, context, tables.data.valid_tokens)
        used = sum(len(one.tokens) for one in held)
        return TrainingData(
            train=windows,
            valid=held,
            tokenizer=None,
            vocab_size=format.vocab_size,
            extra={**format.to_dict(), "bounds": bounds.to_dict()},
            notes=(
                *tables.notes,
                f"training music: {described(train)}",
                f"validation music: {described(valid)}; {used:,} of {total:,} tokens used",
                *lines_of_lost(lost, cache),
            ),
        )

    def pipeline(self, model: Model, **options: Any) -> Player:
        """Return a callable that generates performances."""
        from suite.tasks.music.pipeline import Player

        return Player(model, **options)


def read_music(data: MusicData, format: Format, cache: Path) -> tuple[list[Recording], list[Recording], Sequence[str]]:
    """Return recordings to train on, recordings to validate on, and lines on files that could not be read completely.

    Raises:
        DataError: a source cannot be read, or nothing can be held out.
    """
    from suite.data.recordings import read_recordings, split_by_piece

    mode: Literal["keep", "fold"] = "keep" if format.pedal else "fold"
    first = read_recordings(data.train, cache, piece=data.piece, pedal=mode)
    if data.valid:
        second = read_recordings(data.valid, cache, piece=data.piece, pedal=mode)
        return list(first.recordings), list(second.recordings), (*first.lost, *second.lost)
    train, valid = split_by_piece(first.recordings, data.held_out)
    if not valid:
        raise DataError("the only piece is a single chord, of which no end can be held out; give music with --valid")
    return train, valid, first.lost


def context_of(recipe: Recipe, format: Format) -> int:
    """Return the context of the model: the number of events that it sees at once.

    Raises:
        ConfigError: it is missing or below 16, or the base model represents the pedal in another way.
    """
    from suite.checkpoint import read, resolve
    from suite.tasks.music.format import Format

    context = int(recipe.model.get("context", 0))
    if recipe.base:
        base = read(resolve(recipe.base))
        if Format.from_dict(base.extra, str(base.directory / "config.json")) != format:
            raise ConfigError(f"base model {recipe.base!r} has different pedal events from those music.pedal asks for")
        context = context or base.config.context
    if context < 16:
        raise ConfigError("model.context (events the model sees at once) is missing or below 16")
    return context


def described(recordings: Sequence[Recording]) -> str:
    """Return a summary for the log: "12 recordings of 5 pieces, 4,321 notes, 1.2 hours"."""
    notes = sum(len(recording.performance) for recording in recordings)
    hours = sum(recording.performance.duration for recording in recordings) / 3600
    pieces = len({recording.piece for recording in recordings})
    return (
        f"{count(len(recordings), 'recording')} of {count(pieces, 'piece')}, {count(notes, 'note')}, {hours:.1f} hours"
    )


def lines_of_lost(lost: Sequence[str], cache: Path) -> list[str]:
    """Return lines on damaged files: up to five, or else three and the name of a file in `cache` that lists all."""
    if len(lost) <= 5:
        return list(lost)
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / "music-lost.txt"
    path.write_text("\n".join(lost) + "\n", encoding="utf-8")
    return [*lost[:3], f"{len(lost):,} files could not be read completely; {path} lists all of them"]
