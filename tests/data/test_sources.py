"""Sources: every way to name data finds the same files, and what cannot be read is one line that names it."""

import bz2
import doctest
import gzip
import lzma
import os
import re
import struct
import sys
import types
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from suite.data import hub, packed, record_files, separated, sources
from suite.data.documents import read_documents, source_digest
from suite.data.hub import HubName, load_hub, parse_hub_name, to_evaluate, to_validate
from suite.data.labelled import read_labelled
from suite.data.packed import open_packed
from suite.data.parallel import Corpus, read_pairs
from suite.data.recordings import read_recordings
from suite.data.sources import File, find
from suite.errors import DataError

FILES = {"a.jsonl": b'{"text": "one"}\n', "deeper/b.jsonl": b'{"text": "two"}\n{"text": "three"}\n'}
TEXTS = ["one", "two", "three"]
LINES = b'{"text": "one"}\n' * 200


def put_zip(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def memory() -> Iterator[Any]:
    """A file system at memory://, empty again when the test ends."""
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture
def corpus(tmp_path: Path, memory: Any) -> Path:
    """The same files in a folder, a zip file, and both at a URL, among files that are hidden."""
    hidden = {".cache/c.jsonl": b"{", "__MACOSX/._a.jsonl": b"\0", "deeper/.b.jsonl": b"{"}
    for name, content in {**FILES, **hidden}.items():
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(content)
        memory.pipe(f"/folder/{name}", content)
    put_zip(tmp_path / "all.zip", {**FILES, **hidden})
    memory.pipe("/all.zip", (tmp_path / "all.zip").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("folder", TEXTS),
        ("folder/a.jsonl", TEXTS[:1]),
        ("folder/*.jsonl", TEXTS[:1]),
        ("folder/**/*.jsonl", TEXTS),
        ("all.zip", TEXTS),
        ("*.zip", TEXTS),
        ("all.zip/a.jsonl", TEXTS[:1]),
        ("all.zip/deeper", TEXTS[1:]),
        ("all.zip/*b.jsonl", TEXTS[1:]),
    ],
)
@pytest.mark.parametrize("root", ["{}/", "file://{}/", "memory://"])
def test_every_source(corpus: Path, root: str, source: str, texts: list[str]) -> None:
    """On disk, at a URL, in a zip file and in one at a URL, a name finds the same documents."""
    if root.startswith("file") and "*" in source:
        pytest.skip("a URL of this machine is a path, where a star may be part of a name")
    assert list(read_documents(root.format(corpus) + source)) == texts


def test_several_sources_and_standard_input(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is read once, though a corpus is hashed before it is read."""
    named = [corpus / "all.zip", f"{corpus}/folder/a.jsonl", "memory://folder/deeper"]
    assert list(read_documents(named)) == [*TEXTS, TEXTS[0], *TEXTS[1:]]
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=gzip.GzipFile(fileobj=_stream(b"typed\n"))))
    first = source_digest("-")
    assert source_digest("-") == first
    assert list(read_documents("-")) == ["typed\n"]


def _stream(content: bytes) -> Any:
    import io

    return io.BytesIO(gzip.compress(content))


def test_every_reader_takes_zip_members_and_urls(tmp_path: Path, memory: Any) -> None:
    """What one task could open, another could not."""
    memory.pipe("/t.csv", b"text,label\na,x\nb,y\n")
    table = put_zip(tmp_path / "t.zip", {"root/x/1.txt": b"a", "root/y/2.txt": b"b", "root/y/no.pdf": b""})
    for source in ("memory://t.csv", table):
        assert [(one.text, one.labels) for one in read_labelled(source).records] == [("a", ("x",)), ("b", ("y",))]
    pairs = put_zip(tmp_path / "p.zip", {"p.en": b"Hi.\n", "p.de": bz2.compress(b"Na.\n"), "p.csv": b'"Hi.","Na."\n'})
    for name in (f"{pairs}/p.en,{pairs}/p.de", f"{pairs}/p.csv", str(pairs)):
        assert [pair[:2] for pair in read_pairs(Corpus(source="en", target="de", name=name))] == [("Hi.", "Na.")]


def test_documents_of_tables(tmp_path: Path) -> None:
    """A .csv was read as a single document, commas and all; beside texts, it describes them."""
    (tmp_path / "a.csv").write_text('id,text\n1,"a, b"\n2,c\n')
    assert list(read_documents(tmp_path / "a.csv")) == ["a, b", "c"]
    with pytest.raises(DataError, match=r"a\.csv, line 2: no column 'body'; available: id, text"):
        list(read_documents(tmp_path / "a.csv", column="body"))
    (tmp_path / "a.txt").write_text("d")
    assert list(read_documents(tmp_path)) == ["d"]


# ---- packed


def test_packed_streams(tmp_path: Path) -> None:
    """The first bytes tell how a file is packed, and a text that begins with BZh is none."""
    for pack in (bytes, gzip.compress, bz2.compress, lzma.compress):
        (tmp_path / "a").write_bytes(pack(LINES))
        assert File.of(tmp_path / "a").read() == LINES
    (tmp_path / "a").write_bytes(b"BZhello")
    assert File.of(tmp_path / "a").read() == b"BZhello"
    assert open_packed(bz2.compress(b""), "a").read() == b""


def _fake_zstandard() -> Any:
    """A package of zstandard's interface: frames of its mark and zlib's bytes."""

    class Frame:
        def __init__(self) -> None:
            self.inner, self.mark = zlib.decompressobj(), 4

        def decompress(self, packed: bytes) -> bytes:
            skipped, packed = packed[: self.mark], packed[self.mark :]
            self.mark -= len(skipped)
            return self.inner.decompress(packed)

        @property
        def eof(self) -> bool:
            return self.inner.eof

        @property
        def unused_data(self) -> bytes:
            return self.inner.unused_data

    return types.SimpleNamespace(ZstdDecompressor=lambda: types.SimpleNamespace(decompressobj=Frame))


def test_zstandard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames in a row are a text; one that is cut off is no whole text; without the package, its name is told."""
    mark = b"\x28\xb5\x2f\xfd"
    frame = mark + zlib.compress(os.urandom(5000) + LINES)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(mark + zlib.compress(LINES) + mark + zlib.compress(LINES))
    real = packed.importlib.import_module

    def missing(name: str) -> Any:
        if name in ("zstandard", "compression.zstd"):
            raise ModuleNotFoundError(name)
        return real(name)

    monkeypatch.setattr(packed.importlib, "import_module", missing)
    with pytest.raises(DataError, match=r"a\.jsonl\.zst: packed with Zstandard; to read it, pip install zstandard"):
        list(read_documents(path))
    monkeypatch.setattr(
        packed.importlib, "import_module", lambda name: _fake_zstandard() if name == "zstandard" else missing(name)
    )
    assert list(read_documents(path)) == ["one"] * 400
    path.write_bytes(frame[:-20])
    with pytest.raises(DataError, match=r"a\.jsonl\.zst: cannot be read \(it ends within a frame\)"):
        File.of(path).read()


def _zip_with(offset_local: int, offset_central: int, value: int, path: Path) -> Path:
    """A zip file of one member, with a number of its headers changed."""
    content = bytearray(put_zip(path, {"a.jsonl": LINES}).read_bytes())
    central = content.find(b"PK\x01\x02")
    struct.pack_into("<H", content, offset_local, value)
    struct.pack_into("<H", content, central + offset_central, value)
    path.write_bytes(content)
    return path


def test_damaged_zip_files(tmp_path: Path) -> None:
    """Each of these ended in a traceback: no zip, encrypted, unknown method, damaged; the bad one of two is named."""
    good = put_zip(tmp_path / "good.zip", {"a.jsonl": LINES})
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 and nothing else")
    _zip_with(6, 8, 1, tmp_path / "encrypted.zip")
    _zip_with(8, 10, 97, tmp_path / "method.zip")
    noise = put_zip(tmp_path / "noise.zip", {"a.jsonl": b'{"text": "%s"}\n' % os.urandom(9000).hex().encode()})
    content = bytearray(noise.read_bytes())
    content[200:260] = b"\xff" * 60
    noise.write_bytes(content)
    for name, message in [
        ("bad.zip", "bad.zip: cannot be read as a zip file"),
        ("encrypted.zip", "encrypted.zip/a.jsonl: cannot be read (encrypted"),
        ("method.zip", "method.zip/a.jsonl: cannot be read (That compression method is not supported"),
        ("noise.zip", "noise.zip/a.jsonl: cannot be read ("),
    ]:
        for source in (tmp_path / name, [good, tmp_path / name]):
            with pytest.raises(DataError, match=re.escape(message)) as caught:
                list(read_documents(source))
            assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"bad\.zip: cannot be read as a zip file"):
        find(f"{tmp_path}/*.zip")
    tune = put_zip(tmp_path / "tune.zip", {"a.mid": b"MThd"})
    with pytest.raises(DataError, match=r"bad\.zip: cannot be read as a zip file"):
        read_recordings([str(tune), str(tmp_path / "bad.zip")], tmp_path / "cache")


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.txt.gz", "a.csv.gz", "a.json.gz", "a.tsv.gz", "a.zip"])
def test_what_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """800 MB of NULs in 800 KB took all memory; the bound is lowered here so that the test is quick."""
    monkeypatch.setattr(packed, "FREE", 1 << 20)
    path = tmp_path / name
    if name == "a.zip":
        put_zip(path, {"a.jsonl": b"\0" * (8 << 20)})
    else:
        path.write_bytes(gzip.compress(b"\0" * (8 << 20)))
    with pytest.raises(DataError, match=r"cannot be read \(it unpacks to more than 200 times its size") as caught:
        list(read_documents(path))
    assert name in str(caught.value)
    monkeypatch.setattr(packed, "FREE", 16 << 20)
    if name == "a.txt.gz":
        assert [len(text) for text in read_documents(path)] == [8 << 20]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_lines_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A line that no bound holds is a fault of its file, and no reason to take all memory."""
    monkeypatch.setattr(record_files, "LONGEST", 1000)
    (tmp_path / name).write_bytes(b'"text"\n' + b"x" * 1001)
    with pytest.raises(DataError, match=rf"{re.escape(name)}, line 2: longer than"):
        list(record_files.text_lines(tmp_path / name))


def test_pipes_and_devices(tmp_path: Path) -> None:
    """A pipe that nobody writes to stopped the command for ever."""
    os.mkfifo(tmp_path / "pipe.txt")
    for source in (tmp_path / "pipe.txt", "/dev/zero"):
        with pytest.raises(DataError, match="a pipe or a device"):
            read_documents(source)
    (tmp_path / "a.txt").write_text("a")
    assert list(read_documents(tmp_path)) == ["a"], "in a folder, it is passed over"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none://there/a.jsonl", "none://there/a.jsonl: cannot be opened (Protocol not known: none)"),
        ("memory://nothing/a.jsonl", "memory://nothing/a.jsonl: no such file"),
        ("memory://nothing/*.jsonl", "memory://nothing/*.jsonl: no such file"),
        ("memory://nothing/a.zip/b.jsonl", "no such file"),
        ("", "an empty source"),
        ("a\0b", "no such file"),
        ("x" * 5000, "no such file"),
        ("none.zip/a.csv", "no such file"),
    ],
)
def test_sources_that_are_not_there(memory: Any, source: str, message: str) -> None:
    """A mistyped URL is not looked up on the hub, and no name ends in a traceback."""
    with pytest.raises(DataError, match=re.escape(message)):
        read_documents(source)


# ---- digests


def test_digests_of_urls_and_members(tmp_path: Path, memory: Any) -> None:
    """A changed file must not be taken for the old one, wherever it is."""
    memory.pipe("/a.jsonl", FILES["a.jsonl"])
    memory.pipe("/copy.jsonl", FILES["a.jsonl"])
    put_zip(tmp_path / "a.zip", FILES)
    before = [source_digest("memory://a.jsonl"), source_digest(tmp_path / "a.zip/a.jsonl")]
    assert before[0] == source_digest("memory://copy.jsonl") == before[1]
    memory.pipe("/a.jsonl", FILES["a.jsonl"].replace(b"one", b"two"))
    put_zip(tmp_path / "a.zip", {**FILES, "a.jsonl": FILES["a.jsonl"].replace(b"one", b"two")})
    after = [source_digest("memory://a.jsonl"), source_digest(tmp_path / "a.zip/a.jsonl")]
    assert after[0] == after[1] != before[0]


def test_a_checksum_of_the_server_stands_for_the_contents(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terabytes at s3:// are not fetched to learn that nothing has changed."""
    memory.pipe("/a.jsonl", FILES["a.jsonl"])
    info = type(memory).info
    tags = ["1", "1", "2"]
    monkeypatch.setattr(type(memory), "info", lambda *a, **k: {**info(*a, **k), "ETag": tags[0]})
    monkeypatch.setattr(File, "open_raw", lambda self: pytest.fail("it was read"))
    first = source_digest("memory://a.jsonl")
    assert source_digest("memory://a.jsonl") == first
    tags[0] = "2"
    assert source_digest("memory://a.jsonl") != first


# ---- the hub


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("ag_news", HubName("ag_news", "", "")),
        ("owner/name:small", HubName("owner/name", "small", "")),
        ("owner/name:small:test", HubName("owner/name", "small", "test")),
        ("name::validation[:10%]", HubName("name", "", "validation[:10%]")),
        ("a.csv", None),
        ("a.json:train", None),
        ("a.jsonl.zst", None),
        ("./name", None),
        ("a/b/c", None),
        ("*.txt", None),
        ("memory://a", None),
        ("some words", None),
    ],
)
def test_hub_names(source: str, found: HubName | None) -> None:
    """What cannot be the name of a data set is a mistyped path."""
    assert parse_hub_name(source) == found


@pytest.mark.parametrize(
    ("splits", "chosen"),
    [
        (["train", "test", "validation"], "owner/name:small:test"),
        (["train", "validation"], "owner/name:small:validation"),
        (["train"], "owner/name:small"),
    ],
)
def test_what_is_evaluated_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: list[str], chosen: str) -> None:
    """`suite eval lm name` scored the split that the model may have been trained on, and did not say so."""
    import datasets
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name, configuration: splits)
    monkeypatch.chdir(tmp_path)
    Path("here").write_text("a")
    found, told = to_evaluate(["owner/name:small", "here", "other::train", "a.csv"])
    assert found == [chosen, "here", "other::train", "a.csv"]
    (line,) = told
    assert line.startswith("owner/name:small: evaluated on ") and (chosen.rpartition(":")[2] in line)
    monkeypatch.setattr(datasets, "load_dataset", lambda *words, **more: (words, more))
    assert load_hub("owner/name:small") == (("owner/name", "small"), {"split": "train"}), "training still takes train"
    if splits == ["train"]:
        with pytest.raises(DataError, match=r"owner/name:small: it has no validation or test split \(of train\)"):
            to_validate("owner/name:small")
    else:
        (name,), (line,) = to_validate("owner/name:small")
        assert name.endswith(":validation" if "validation" in splits else ":test") and "validated on split" in line
    assert load_hub(chosen, "dev")[1]["split"] == (chosen.rpartition(":")[2] if chosen.count(":") > 1 else "dev")


def test_examples() -> None:
    """The examples in the docstrings run."""
    for module in (packed, sources, hub, separated, record_files):
        assert doctest.testmod(module).failed == 0
