"""Folders, zip files, MAESTRO's table and hub data sets give the same recordings, parsed once."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.data.performance import Note, Performance
from suite.data.recordings import read_recordings, split_by_piece
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
