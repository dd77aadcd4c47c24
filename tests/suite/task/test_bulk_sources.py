"""Bulk work reads files as all other readers do: packed, in zip files, with the same bounds and messages."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.data import record_files
from suite.errors import ConfigError, DataError
from suite.task.kit.bulk import BulkFormat, Done, process

TABLE = b"\xef\xbb\xbfid,text\r\n1,a\r\n2,b\r\n"
DONE = b"\xef\xbb\xbfid,text,result\r\n1,a,A\r\n2,b,B\r\n"


def run(source: Path, output: Path) -> Done:
    def shout(texts: list[str]) -> list[Any]:
        return [SimpleNamespace(text=text.upper()) for text in texts]

    return process(source, output, shout, BulkFormat())


def zstd(content: bytes) -> bytes:
    packed: bytes = pytest.importorskip("zstandard").compress(content)
    return packed


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstd)]
)
def test_a_packed_file_gives_what_the_file_gives(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    """Packed with xz or Zstandard, it was read as if it were text."""
    (tmp_path / f"a.csv.{suffix}").write_bytes(pack(TABLE))
    run(tmp_path / f"a.csv.{suffix}", tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_bytes() == DONE


def test_a_member_of_a_zip_file_is_read(tmp_path: Path) -> None:
    """It ended in a traceback: the zip file is no folder."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/a.csv", TABLE)
        archive.writestr("in/b.csv", TABLE)
    run(tmp_path / "a.zip" / "in" / "a.csv", tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_bytes() == DONE
    with pytest.raises(DataError, match="no such file"):
        run(tmp_path / "a.zip" / "in" / "c.csv", tmp_path / "c.csv")
    with pytest.raises(DataError, match=r"several files, but bulk work reads a single file"):
        run(tmp_path / "a.zip" / "in" / "*.csv", tmp_path / "c.csv")
    with pytest.raises(ConfigError, match="bulk work reads and writes"):
        run(tmp_path / "a.zip", tmp_path / "c.csv")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.txt.gz",
            gzip.compress(b"text\n" * 99, mtime=0)[:-9],
            "a.txt.gz, line 100: cannot be read (Compressed file ended",
        ),
        ("a.txt.gz", b"text\n", "a.txt.gz: cannot be read (its name ends in .gz, but it is not packed that way)"),
        ("a.txt", b"text\n" + b"x" * 99, "a.txt, line 2: longer than"),
        (
            "a.jsonl",
            b'{"text": "a"}\n{"text": "b", "n": 1e400}\n',
            "a.jsonl, line 2: not JSON (1e400 is not a JSON value",
        ),
    ],
)
def test_faults_are_named_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
) -> None:
    """A number beyond what a float holds was written as Infinity, which no other reader of JSON takes."""
    monkeypatch.setattr(record_files, "LONGEST", 64)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        run(tmp_path / name, tmp_path / f"b.{name.split('.')[1]}")
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_standard_input_may_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO(gzip.compress(b"a\nb\n", mtime=0))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream, isatty=lambda: False))
    assert run(Path("-"), tmp_path / "b.txt").records == 2
    assert (tmp_path / "b.txt").read_text() == "A\nB\n"
    assert not stream.closed


def test_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\n")
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match="a folder"):
        run(tmp_path / "in", tmp_path / "b.txt")
    with pytest.raises(DataError, match="a pipe or a device; save it to a file, or pipe it in as -"):
        run(tmp_path / "pipe.txt", tmp_path / "b.txt")
