"""Readers of text corpora: every form gives the same documents, every fault is named where it is."""

import bz2
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.data.documents import read_documents, source_digest
from suite.errors import DataError

ROOT = Path(__file__).parents[2]
TEXTS = ["First line.\r\nSecond, with é and \u2028.\n", "日本語", "\0 and \x85"]


def write_text(folder: Path) -> Path:
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_bytes(text.encode())
    (folder / "deeper").mkdir()
    (folder / "deeper" / "z.md.gz").write_bytes(gzip.compress(b"# last", mtime=0))
    (folder / "notes.pdf").write_bytes(b"\xff not for reading")
    return folder


def write_json(path: Path, column: str = "text") -> Path:
    lines = [json.dumps({"id": number, column: text}, ensure_ascii=False) for number, text in enumerate(TEXTS)]
    content = ("\n".join([*lines, ""]) + "\n" + json.dumps({"id": 9, column: ""})).encode()
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    return path


def write_parquet(path: Path, column: str = "text") -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"n": range(len(TEXTS)), column: TEXTS}), path)
    return path


def test_text_files(tmp_path: Path) -> None:
    """A file is one document, line ends and odd characters as they are; a folder is all its text files in order."""
    write_text(tmp_path)
    assert list(read_documents(tmp_path)) == [*TEXTS[:1], *TEXTS[1:], "# last"]
    assert list(read_documents(tmp_path / "0.txt")) == TEXTS[:1]
    assert list(read_documents(str(tmp_path / "[01].txt"))) == TEXTS[:2]
    assert list(read_documents([tmp_path / "2.txt", str(tmp_path / "0.*")])) == [TEXTS[2], TEXTS[0]]
    (tmp_path / "bom.txt").write_bytes("\ufeffa\ufeff".encode())
    assert list(read_documents(tmp_path / "bom.txt")) == ["a\ufeff"]
    (tmp_path / "README").write_text("no suffix is text")
    assert list(read_documents(tmp_path / "README")) == ["no suffix is text"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz", "a.jsonl.bz2"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    """A record is a document; U+2028 and U+0085 inside one do not end a line; empty texts are left out."""
    assert list(read_documents(write_json(tmp_path / name))) == TEXTS
    assert list(read_documents(write_json(tmp_path / name, "body"), column="body")) == TEXTS


def test_parquet(tmp_path: Path) -> None:
    """Parquet gives what JSON lines give."""
    assert list(read_documents(write_parquet(tmp_path / "a.parquet"))) == TEXTS
    with pytest.raises(DataError, match=r"a.parquet, record 1: no column 'body'; available: n, text"):
        list(read_documents(tmp_path / "a.parquet", column="body"))
    (tmp_path / "bad.parquet").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"bad.parquet: cannot be read as Parquet"):
        list(read_documents(tmp_path / "bad.parquet"))


def test_articles(tmp_path: Path) -> None:
    """Articles in sections are written out; a heading over nothing leaves no hole."""
    record = {
        "title": "Title",
        "lead": "Lead.\nMore.",
        "sections": [{"heading": "Empty", "text": ""}, {"heading": "Full", "text": "Text."}],
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    assert list(read_documents(tmp_path / "a.jsonl")) == ["Title\n\nLead.\nMore.\n\nFull\nText."]
    samples = list(read_documents(ROOT / "data" / "samples" / "articles.jsonl.gz"))
    assert len(samples) == 76
    assert samples[0].startswith("Charge of the Goddess\n\n")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"hel\xfflo", "a.txt, line 1: not UTF-8, byte 0xff at offset 3"),
        ("a.txt.gz", gzip.compress(b"hello" * 100, mtime=0)[:-12], "a.txt.gz: cannot be read (Compressed file ended"),
        ("a.txt.gz", gzip.compress(b"ab\xe9", mtime=0), "a.txt.gz, line 1: not UTF-8, byte 0xe9 at offset 2"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": oops}\n', "a.jsonl, line 3: not JSON (Expecting value at column 10)"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}', "a.jsonl, line 2: not UTF-8, byte 0xff at offset 24"),
        ("a.jsonl", b'{"text": "a"}\n{"body": "a", "id": 3}', "a.jsonl, line 2: no column 'text'; available: body, id"),
        ("a.jsonl", b'{"text": null}', "a.jsonl, line 1: column 'text' contains NoneType, not text"),
        ("a.jsonl", b'{"text": "a\\ud800"}', "a.jsonl, line 1: half of a surrogate pair at character 1"),
        ("a.jsonl", b'{"title": "a", "lead": 3, "sections": []}', "a.jsonl, line 1: not an article"),
        ("a.json", b'["a"]', "a.json, line 1, record 1: expected a JSON object, not str"),
    ],
)
def test_faults_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Each fault is one line with the file and the place in it."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        list(read_documents(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    """A mistyped path must not be looked up on the hub, nor a mixture be read by chance."""
    for source in (tmp_path / "none.txt", str(tmp_path / "*.txt"), "./none", [tmp_path, "none/where"], tmp_path):
        with pytest.raises(DataError, match="no such file, and no folder or pattern of"):
            read_documents(source)
    with pytest.raises(DataError, match="no text source"):
        read_documents([])
    (tmp_path / "a.txt").write_text("a")
    write_json(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="a mixture of json, text files"):
        read_documents(tmp_path)


def test_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set's name goes to the hub with its configuration and split; without a network that is one line."""
    import datasets
    import huggingface_hub

    asked: list[Any] = []

    def load_dataset(name: str, configuration: str | None, split: str) -> datasets.Dataset:
        asked.append((name, configuration, split))
        return datasets.Dataset.from_dict({"text": TEXTS, "image": [None] * len(TEXTS)})

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.chdir(tmp_path)
    assert list(read_documents("owner/name:small", split="test")) == TEXTS
    assert list(read_documents("name")) == TEXTS
    assert asked == [("owner/name", "small", "test"), ("name", None, "train")]

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Name or service not known\nand more")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", unreachable)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(DataError, match=r"name: not a file, .* \(Name or service not known\); .*HF_HUB_OFFLINE=1"):
        list(read_documents("owner/name"))


@pytest.mark.parametrize("write", [write_json, write_parquet])
def test_digest_follows_the_contents(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    """A changed file of the same size and time must not be taken for the old one; a copy must be."""
    path = write(tmp_path / f"a.{'jsonl' if write is write_json else 'parquet'}")
    first = source_digest(path)
    assert source_digest(path, column="other") != first
    copy = path.with_stem("b")
    copy.write_bytes(path.read_bytes())
    assert source_digest(copy) == first
    path.write_bytes(path.read_bytes().replace(b"First", b"Fist!"))
    assert source_digest(path) != first
