"""Read collections of MIDI recordings (folders, zip files, MAESTRO's layout, hub data sets), parse and cache them.

Each recording belongs to a piece, and collections are split by piece: two performances of the same piece are nearly
the same music, so training on one would leak the other.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import multiprocessing
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from suite.data.hub import load_hub, parse_hub_name
from suite.data.midi import LARGEST, PedalMode, read_midi
from suite.data.performance import ONE_STROKE, Pedal, Performance
from suite.data.sources import File, find
from suite.errors import DataError
from suite.files import move_aside, new_folder
from suite.wording import count

SUFFIXES = (".mid", ".midi", ".kar")
# ASAP puts performances that leave out repeats in a folder of their own, although the piece is the same
REPEATS = re.compile(r"(_no(_first|_\d+)?)?_repeat$")
LAST = 0.1  # least share of the notes to hold out if there is only one piece
FORMAT = 2  # version of the cache; a change makes the files be read again
COLUMNS = {"pitch": np.uint8, "velocity": np.uint8, "start": np.float64, "end": np.float64}


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A performance in a collection, with its piece and split.

    Attributes:
        name: of the file within the collection.
        piece: name of the piece, used for splitting.
        split: "train", "validation" or "test" if the collection assigns one, else "".
        performance: the notes; notes on the same key do not overlap.
        melody: (N,) true for notes that the collection marks as melody; all false if it marks none.
    """

    name: str
    piece: str
    split: str
    performance: Performance
    melody: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Recordings, and messages about what was left out.

    Attributes:
        recordings: those that could be read.
        lost: a line for each file of which something was left out.
    """

    recordings: tuple[Recording, ...]
    lost: tuple[str, ...]


class _File(NamedTuple):
    """A MIDI file, or the bytes of one in a hub data set, with its piece and split."""

    name: str
    source: File | bytes
    piece: str
    split: str


def read_recordings(
    sources: Iterable[str],
    cache: Path,
    *,
    piece: Literal["file", "folder"] = "file",
    pedal: PedalMode = "fold",
) -> Collection:
    """Read every MIDI file in the sources; files that cannot be read are left out and listed in `Collection.lost`.

    Args:
        sources: MIDI files, folders or zip files with them, or hub data sets with a column of MIDI bytes, named as
            `suite.data.sources` says. A table in a folder or zip file with the columns `midi_filename` and `split`
            (as in MAESTRO) gives pieces and splits.
        cache: folder in which the notes are kept, so that files are parsed only once.
        piece: without such a table, whether each file is a piece, or all files in a folder are the same piece.
        pedal: as for `suite.data.midi.read_midi`.

    Raises:
        DataError: a source does not exist, or no file can be read.
    """
    files = [file for source in sources for file in _find(source, piece)]
    if not files:
        raise DataError("no MIDI files are given")
    kept = cache / "recordings" / _digest(files, pedal)
    collection = _read(kept) if kept.is_dir() else None
    if collection is None:
        with new_folder(kept) as folder:
            _write(folder, files, _parse(files, pedal))
        collection = _read(kept)
    if collection is None:
        raise DataError(f"{kept}: the notes cannot be read again; is the disk full?")
    if not collection.recordings:
        raise DataError(
            f"{count(len(files), 'MIDI file')} given, but none can be read; the first: {collection.lost[0]}"
        )
    return collection


def split_by_piece(recordings: Sequence[Recording], held_out: float) -> tuple[list[Recording], list[Recording]]:
    """Split recordings into training and validation, by the collection's own split or else by a hash of the piece.

    Of two or more pieces, at least one is held out, and never all. Of a single piece, the end is held out.

    Args:
        recordings: to split.
        held_out: approximate share of pieces to hold out if the collection has no split; 0 holds out only those that it
            assigns to validation.

    Returns:
        training and validation recordings; recordings in a collection's test split are in neither.
    """
    free = dict.fromkeys(one.piece for one in recordings if one.split != "test")
    named = {one.piece for one in recordings if one.split == "validation"}
    open_to_training = sorted((piece for piece in free if piece not in named), key=place_of)
    held = {one.piece for one in recordings if not one.split and place_of(one.piece) < held_out}
    if held_out and open_to_training and not named and not held:
        held = set(open_to_training[:1])
    if (named or len(open_to_training) > 1) and open_to_training and held.issuperset(open_to_training):
        held.remove(open_to_training[-1])
    train: list[Recording] = []
    valid: list[Recording] = []
    for recording in recordings:
        if recording.split == "validation" or (recording.piece in held and recording.split != "test"):
            valid.append(recording)
        elif recording.split != "test":
            train.append(recording)
    if len(free) == 1 and not named and held_out:
        halves = [divided(one, max(held_out, LAST)) for one in valid]
        train, valid = ([half[place] for half in halves if half is not None] for place in (0, 1))
    return train, valid


def place_of(piece: str) -> float:
    """Hash of a piece's name as a number in [0, 1).

    A piece is held out if its number is below the share, regardless of the other pieces.
    """
    digest = hashlib.blake2b(f"/{piece}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def divided(recording: Recording, share: float) -> tuple[Recording, Recording] | None:
    """Cut a recording into a beginning and an end whose times start at its first note; None if it is a single chord.

    Args:
        recording: what to divide. The cut is between notes that do not start together; notes still sounding end there.
        share: approximate share of the notes in the end part.
    """
    music = recording.performance
    places = np.flatnonzero(np.diff(music.start) > ONE_STROKE) + 1
    if not len(places):
        return None
    place = int(places[np.abs(places - (1 - share) * len(music)).argmin()])
    time = float(music.start[place])
    ends = np.minimum(music.end, time)
    pedal = tuple(change for change in music.pedal if change.time < time)
    first = Performance(music.pitch[:place], music.velocity[:place], music.start[:place], ends[:place], pedal)
    starts = music.start[place:] - time
    changes = [Pedal(max(0.0, change.time - time), change.down) for change in music.pedal]
    last = Performance(music.pitch[place:], music.velocity[place:], starts, music.end[place:] - time, tuple(changes))
    return (
        replace(recording, performance=first, melody=recording.melody[:place]),
        replace(recording, performance=last, melody=recording.melody[place:]),
    )


# ---- finding files


def _find(source: str, piece: str) -> list[_File]:
    files = find(source)
    if files is None and parse_hub_name(source) and Path(source).suffix.lower() not in SUFFIXES:
        return list(_find_hub(source))
    if files is None:
        raise DataError(f"{source}: no such file or folder")
    if files and not any(file.inside for file in files):
        return [_File(Path(file.name).name, file, Path(file.name).name, "") for file in files]
    found = []
    known = _maestro(file.read().decode(errors="replace") for file in files if file.inside.endswith(".csv"))
    for file in files:
        if file.suffix in SUFFIXES:
            title, split = known.get(Path(file.inside).name, ("", ""))
            title = title or (file.inside if piece == "file" else REPEATS.sub("", str(Path(file.inside).parent)))
            found.append(_File(file.inside, file, title, split))
    if not found:
        raise DataError(f"{source}: no MIDI files ({' '.join(SUFFIXES)}) in it")
    return found


def _maestro(tables: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Piece and split by file name, from tables in the format of MAESTRO."""
    found = {}
    for table in tables:
        with contextlib.suppress(csv.Error):  # a folder may hold other tables, too
            for row in csv.DictReader(io.StringIO(table)):
                if row.get("midi_filename") and row.get("split"):
                    title = f"{row.get('canonical_composer', '')}: {row.get('canonical_title', '')}"
                    found[Path(row["midi_filename"]).name] = (title, row["split"])
    return found


def _find_hub(name: str) -> Iterator[_File]:
    for number, record in enumerate(load_hub(name, None), 1):
        for value in record.values():
            content = value.get("bytes") if isinstance(value, Mapping) else value
            if isinstance(content, bytes) and content.startswith(b"MThd"):
                title = str(record.get("title") or record.get("name") or f"record {number}")
                yield _File(f"{name}, record {number}", content, title, "")
                break
        else:
            raise DataError(f"{name}, record {number}: no column holds the bytes of a MIDI file")


def _digest(files: Sequence[_File], pedal: str) -> str:
    """Hash that identifies the files to read: names, sizes and modification times, or contents of bytes."""
    digest = hashlib.sha256(json.dumps([FORMAT, pedal, ONE_STROKE]).encode())
    for file in files:
        content = file.source
        state = hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else content.stamp()
        digest.update(json.dumps([file.name, file.piece, file.split, state]).encode())
    return digest.hexdigest()[:32]


# ---- parsing


class _Parsed(NamedTuple):
    """Result of parsing a file: tensors (none if it cannot be read), and a message about what was left out."""

    tensors: Mapping[str, NDArray[Any]]
    lost: str


def _parse(files: Sequence[_File], pedal: PedalMode) -> Iterator[_Parsed]:
    from tqdm import tqdm

    jobs = [(file, pedal) for file in files]
    bar = {"total": len(files), "desc": "reading MIDI", "unit": " files", "disable": None, "leave": False}
    workers = min(os.cpu_count() or 1, len(files) // 8)
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from tqdm(map(_parse_one, jobs), **bar)
        return
    # fork is safe, as the processes only read files; spawn would need an `if __name__` guard in the caller's script
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
            yield from tqdm(pool.map(_parse_one, jobs, chunksize=4), **bar)


def _parse_one(job: tuple[_File, PedalMode]) -> _Parsed:
    file, pedal = job
    try:
        source = file.source if isinstance(file.source, bytes) else file.source.read(LARGEST + 1)
        reading = read_midi(source, pedal=pedal, name=file.name)
    except DataError as error:
        return _Parsed({}, f"left out: {error}")
    performance = reading.performance.without_unisons()
    lost = list(reading.notes)
    if fewer := len(reading.performance) - len(performance):
        lost.append(f"{count(fewer, 'note')} that doubled another on the same key left out")
    melody = np.zeros(len(performance), dtype=bool)
    for title, track in reading.tracks:
        if "melody" in title.lower() and len(reading.tracks) > 1:
            melody |= _among(performance, track)
    tensors = {name: getattr(performance, name).astype(kind) for name, kind in COLUMNS.items()}
    tensors["melody"] = melody.astype(np.uint8)
    tensors["pedal_time"] = np.array([change.time for change in performance.pedal], dtype=np.float64)
    tensors["pedal_down"] = np.array([change.down for change in performance.pedal], dtype=np.uint8)
    return _Parsed(tensors, f"{file.name}: {'; '.join(lost)}" if lost else "")


def _among(performance: Performance, track: Performance) -> NDArray[np.bool_]:
    """Mask of the notes of a performance that come from a track, (N,)."""
    starts: dict[int, list[float]] = {}
    for pitch, start in zip(track.pitch.tolist(), track.start.tolist(), strict=True):
        starts.setdefault(pitch, []).append(start)
    found = np.zeros(len(performance), dtype=bool)
    for pitch, times in starts.items():
        places = np.flatnonzero(performance.pitch == pitch)
        gaps = np.abs(performance.start[places][:, None] - np.array(times))
        found[places] = gaps.min(axis=1) <= ONE_STROKE
    return found


# ---- keeping


def _write(folder: Path, files: Sequence[_File], parsed: Iterable[_Parsed]) -> None:
    from safetensors.numpy import save_file

    rows, lost = [], []
    parts: dict[str, list[NDArray[Any]]] = {}
    for file, one in zip(files, parsed, strict=True):
        if one.lost:
            lost.append(one.lost)
        if one.tensors:
            row = {"name": file.name, "piece": file.piece, "split": file.split}
            rows.append({**row, "notes": len(one.tensors["pitch"]), "changes": len(one.tensors["pedal_time"])})
            for name, column in one.tensors.items():
                parts.setdefault(name, []).append(column)
    save_file({name: np.concatenate(columns) for name, columns in parts.items()}, folder / "notes.safetensors")
    (folder / "recordings.json").write_text(json.dumps({"recordings": rows, "lost": lost}), encoding="utf-8")


def _read(folder: Path) -> Collection | None:
    """The collection in a folder of the cache; None where it is damaged, and so was moved aside."""
    from safetensors import SafetensorError

    try:
        return _collection(folder)
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        move_aside(folder, error)
        return None


def _collection(folder: Path) -> Collection:
    from safetensors.numpy import load_file

    tensors = load_file(folder / "notes.safetensors")
    told = json.loads((folder / "recordings.json").read_text(encoding="utf-8"))
    recordings, note, change = [], 0, 0
    for row in told["recordings"]:
        notes, changes = slice(note, note + row.pop("notes")), slice(change, change + row.pop("changes"))
        note, change = notes.stop, changes.stop
        times, downs = tensors["pedal_time"][changes].tolist(), tensors["pedal_down"][changes].tolist()
        pedal = tuple(Pedal(time, bool(down)) for time, down in zip(times, downs, strict=True))
        # the notes were saved in a performance's order, so the melody's mask still matches
        pitch, velocity, start, end = (tensors[name][notes] for name in COLUMNS)
        performance = Performance(pitch, velocity, start, end, pedal)
        recordings.append(Recording(**row, performance=performance, melody=tensors["melody"][notes].astype(bool)))
    return Collection(recordings=tuple(recordings), lost=tuple(told["lost"]))
