"""Folders, zip files, MAESTRO's table and hub data sets give the same recordings, parsed once."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.data.performance import Note, Performance
from suite.data.recordings import Recording, place_of, read_recordings, split_by_piece
from suite.errors import DataError

TABLE = """canonical_composer,canonical_title,split,year,midi_filename,audio_filename,duration
Franz Liszt,Liebestraum,train,2004,2004/one.midi,2004/one.wav,3.0
Franz Liszt,"Sonata, in B minor",validation,2004,2004/two.midi,2004/two.wav,3.0
Clara Schumann,Romanze,test,2006,2006/three.midi,2006/three.wav,3.0
"""
SPLITS = {"one.midi": "train", "two.midi": "validation", "three.midi": "test"}


def performance(count: int) -> Performance:
    """Notes one after the other."""
    return Performance.of([Note(60 + number, 64, number * 0.5, number * 0.5 + 0.4) for number in range(count)])


@pytest.fixture
def maestro(tmp_path: Path) -> Path:
    """A folder as MAESTRO's archive unpacks."""
    folder = tmp_path / "maestro-v3.0.0"
    for number, name in enumerate(("2004/one.midi", "2004/two.midi", "2006/three.midi"), 3):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        performance(number).save(folder / name)
    (folder / "maestro-v3.0.0.csv").write_text(TABLE, encoding="utf-8")
    return folder


@pytest.mark.parametrize("given", ["folder", "zip", "folder above"])
def test_maestro_says_which_piece_and_split_a_file_is(maestro: Path, tmp_path: Path, given: str) -> None:
    """The published split must hold, or figures on its test part compare with nobody's."""
    source = maestro
    if given == "zip":
        source = tmp_path / "maestro.zip"
        with zipfile.ZipFile(source, "w") as packed:
            for file in sorted(maestro.rglob("*")):
                packed.write(file, file.relative_to(tmp_path))
    elif given == "folder above":
        source = tmp_path
    found = read_recordings([str(source)], tmp_path / "cache").recordings
    assert {Path(one.name).name: one.split for one in found} == SPLITS
    assert {one.piece for one in found} == {
        "Franz Liszt: Liebestraum",
        "Franz Liszt: Sonata, in B minor",
        "Clara Schumann: Romanze",
    }
    train, valid = split_by_piece(found, held_out=0.9)
    assert [[Path(one.name).name for one in part] for part in (train, valid)] == [["one.midi"], ["two.midi"]]


def recordings(count: int, split: str = "") -> list[Recording]:
    """Of so many pieces, two each."""
    notes = performance(50)
    return [
        Recording(name=f"{n}.mid", piece=str(n // 2), split=split, performance=notes, melody=np.arange(50) % 2 == 0)
        for n in range(2 * count)
    ]


@pytest.mark.parametrize("count", [2, 3, 6, 20])
@pytest.mark.parametrize("share", [1e-9, 0.05, 0.5, 0.999999])
def test_one_piece_at_least_is_held_out_and_never_all(count: int, share: float) -> None:
    """Of six files, training found that no piece was held out, or that all were."""
    music = recordings(count)
    train, valid = split_by_piece(music, share)
    assert train and valid and len(train) + len(valid) == len(music)
    assert not {one.piece for one in train} & {one.piece for one in valid}
    if 0 < (drawn := sum(place_of(str(n)) < share for n in range(count))) < count:
        assert len(valid) == 2 * drawn, "where the hash leaves pieces on both sides, it alone decides"
    assert split_by_piece(music[::-1], share)[1][::-1] == valid


def test_a_collection_that_names_no_validation_pieces() -> None:
    """A folder with MAESTRO's training files alone has a piece held out all the same; its test files stay out."""
    music = [*recordings(3, "train"), *recordings(8, "test")[12:]]
    train, valid = split_by_piece(music, 0.1)
    assert (len(train), len(valid)) == (4, 2) and "test" not in {one.split for one in (*train, *valid)}
    assert split_by_piece(music, 0.0)[1] == []


def test_of_a_single_piece_the_end_is_held_out() -> None:
    """One file is enough to train on; the cut is between notes, never within a chord, and no note is on both sides."""
    chords = Performance.of(
        Note(60 + key, 64, time + key / 100, time + 0.8) for time in np.arange(50) / 2 for key in range(3)
    )
    one = Recording(name="a.mid", piece="a", split="", performance=chords, melody=np.arange(150) % 3 == 2)
    [first], [last] = split_by_piece([one], 0.02)
    assert len(first.performance) == 135 == len(first.melody) and len(last.performance) == 15 == len(last.melody)
    assert last.performance.start[0] == 0 and first.performance.duration <= chords.start[135]
    assert (last.performance.start + chords.start[135]).tolist() == pytest.approx(chords.start[135:].tolist())
    assert last.melody.tolist() == one.melody[135:].tolist()
    chord = Recording(name="b", piece="b", split="", performance=chords.between(0, 0.4), melody=np.zeros(3, dtype=bool))
    assert split_by_piece([chord], 0.5) == ([], [])


def test_a_table_that_is_no_table_is_passed_over(maestro: Path, tmp_path: Path) -> None:
    """Any spreadsheet may lie beside somebody's files, in any encoding."""
    (maestro / "maestro-v3.0.0.csv").write_bytes("Titel;L\xe4nge\nSonate;3\n".encode("latin-1"))
    found = read_recordings([str(maestro)], tmp_path / "cache").recordings
    assert {one.split for one in found} == {""}
    assert len(found) == len({one.piece for one in found}) == 3


@pytest.mark.parametrize("column", ["bytes", "struct"])
def test_hub(column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub data set holds the files' bytes, alone or beside their path, and perhaps a title."""
    import datasets
    import huggingface_hub

    contents = []
    for number in (3, 4):
        performance(number).save(tmp_path / "saved.mid")
        contents.append((tmp_path / "saved.mid").read_bytes())
    records: list[dict[str, Any]] = [
        {"title": f"Waltz {number}", "midi": content if column == "bytes" else {"bytes": content, "path": "a.mid"}}
        for number, content in enumerate(contents)
    ]
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.Dataset.from_list(records))
    found = read_recordings(["somebody/waltzes"], tmp_path / "cache").recordings
    assert [(one.piece, len(one.performance)) for one in found] == [("Waltz 0", 3), ("Waltz 1", 4)]

    records[1] = {"title": "no music", "midi": b"PNG" if column == "bytes" else {"bytes": b"PNG", "path": "a.png"}}
    with pytest.raises(DataError, match="somebody/waltzes, record 2: no column holds"):
        read_recordings(["somebody/waltzes"], tmp_path / "cache")


def test_files_are_parsed_once_and_again_when_they_change(maestro: Path, tmp_path: Path) -> None:
    """An hour of parsing must not be repeated, and a file that was mended must not stay broken."""
    cache = tmp_path / "cache"
    first = read_recordings([str(maestro)], cache).recordings
    kept = sorted((cache / "recordings").iterdir())
    second = read_recordings([str(maestro)], cache).recordings
    assert sorted((cache / "recordings").iterdir()) == kept and len(kept) == 1
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one.performance.start, other.performance.start)
    performance(9).save(maestro / "2004/one.midi")
    changed = {Path(one.name).name: one for one in read_recordings([str(maestro)], cache).recordings}
    assert len(changed["one.midi"].performance) == 9


def test_what_a_file_lost_is_told(maestro: Path, tmp_path: Path) -> None:
    """A broken file among good ones is left out with its name; none at all is an error that shows the first."""
    (maestro / "2004/two.midi").write_bytes(b"MThd and nothing else")
    found = read_recordings([str(maestro)], tmp_path / "cache")
    assert len(found.recordings) == 2
    assert any("two.midi" in line for line in found.lost)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("broken.mid", b"no MIDI")
    (tmp_path / "all.zip").write_bytes(packed.getvalue())
    with pytest.raises(DataError, match=r"1 MIDI file given, but none can be read; the first: .*broken\.mid"):
        read_recordings([str(tmp_path / "all.zip")], tmp_path / "cache")
