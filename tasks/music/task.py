"""Music: `<bos> events <eos>`, loss on every event, and the result is a performance.

Torch is imported inside functions, so that the command line can list this task without paying for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.errors import ConfigError, DataError
from suite.task import PackagedTask, TrainingData
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.tasks.music.format import Format
    from suite.tasks.music.pipeline import Player
    from suite.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The table `data` of a music recipe.

    Args:
        train, valid: MIDI files, folders, zip files, or hub data sets. Without `valid`, whole pieces are held out: as
            a table of MAESTRO's says, or else by a hash of their names.
        piece: whether each file is a piece of its own, or all files in a folder are one.
        held_out: share of the pieces held out, at least one; of a single piece, its end.
        valid_tokens: tokens of the validation pieces that training looks at, evenly spread; 0 for all.
    """

    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    piece: Literal["file", "folder"] = "file"
    held_out: float = 0.1
    valid_tokens: int = 65_536

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1 or self.valid_tokens < 0:
            raise ConfigError("data.held_out must be between 0 and 1, and data.valid_tokens not negative")


@dataclass(frozen=True, kw_only=True)
class MusicConfig:
    """The table `music` of a recipe.

    Args:
        pedal: "fold" (into the ends of the notes) or "events" (of its own).
        transpose: semitones up or down, at most, by which training moves a window.
        stretch: how much slower or faster it makes one at most, as a share.
        accompaniment: share of the windows that learn to accompany a melody: the track that the file calls so, or
            else the highest notes.
        fill: share of the windows that learn to fill a gap.
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


class Music(PackagedTask[Any, Any, Any]):
    """The task `music`."""

    name = "music"
    summary = "write a piano performance, or continue one of yours"

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Read the recipe's MIDI files, and cut windows out of them."""
        from suite.data.recordings import read_recordings, split_by_piece
        from suite.tasks.music.bounds import Bounds
        from suite.tasks.music.examples import Windows, validation_windows
        from suite.tasks.music.format import Format
        from suite.training.recipe import from_table

        data = from_table(DataConfig, recipe.data, "recipe", "data.")
        options = from_table(MusicConfig, recipe.options, "recipe", "music.")
        if not data.train:
            raise ConfigError("there is no training music; give MIDI files with --data or in data.train")
        format = Format(pedal=options.pedal == "events")
        context = self._context(recipe, format)
        mode: Literal["keep", "fold"] = "keep" if format.pedal else "fold"
        found = read_recordings(data.train, cache, piece=data.piece, pedal=mode)
        lost = found.lost
        if data.valid:
            others = read_recordings(data.valid, cache, piece=data.piece, pedal=mode)
            train, valid, lost = list(found.recordings), list(others.recordings), (*lost, *others.lost)
        else:
            train, valid = split_by_piece(found.recordings, data.held_out)
        if not valid:
            raise DataError(
                "the only piece is a single chord, of which no end can be held out; give music with --valid"
            )
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
        held, total = validation_windows(valid, format, context, data.valid_tokens)
        return TrainingData(
            train=windows,
            valid=held,
            tokenizer=None,
            vocab_size=format.vocab_size,
            extra={**format.to_dict(), "bounds": bounds.to_dict()},
            notes=(
                f"training music: {described(train)}",
                f"validation music: {described(valid)}; {sum(len(one.tokens) for one in held):,} of {total:,} "
                "tokens used",
                *report(lost, cache),
            ),
        )

    def _context(self, recipe: Recipe, format: Format) -> int:
        """Events that the model will see at once."""
        from suite.checkpoint import read, resolve
        from suite.tasks.music.format import Format

        context = int(recipe.model.get("context", 0))
        if recipe.base:
            base = read(resolve(recipe.base))
            if Format.from_dict(base.extra, recipe.base) != format:
                raise ConfigError(
                    f"base model {recipe.base!r} has different pedal events from those music.pedal asks for"
                )
            context = context or base.config.context
        if context < 16:
            raise ConfigError("model.context (events the model sees at once) is missing or below 16")
        return context

    def pipeline(self, model: Model, **options: Any) -> Player:
        """A callable that gives performances."""
        from suite.tasks.music.pipeline import Player

        return Player(model, **options)


def described(recordings: Sequence[Any]) -> str:
    """How much some recordings are."""
    notes = sum(len(recording.performance) for recording in recordings)
    hours = sum(recording.performance.duration for recording in recordings) / 3600
    pieces = len({recording.piece for recording in recordings})
    return (
        f"{count(len(recordings), 'recording')} of {count(pieces, 'piece')}, {count(notes, 'note')}, {hours:.1f} hours"
    )


def report(lost: Sequence[str], cache: Path) -> list[str]:
    """The first few lines of what files lost, and where the others can be read."""
    if len(lost) <= 5:
        return list(lost)
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / "music-lost.txt"
    path.write_text("\n".join(lost) + "\n", encoding="utf-8")
    return [*lost[:3], f"{len(lost):,} files could not be read completely; {path} lists all of them"]
