"""Records of files: each kind, packed in each way, gives the same, and each fault is named with its line."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.data import separated
from suite.data.labelled import read_labelled
from suite.data.record_files import check_surrogates, read_records, text_lines
from suite.data.separated import csv_rows
from suite.data.sources import File, find
from suite.data.tables import Notes, read_tables
from suite.errors import DataError

ROWS = [{"n": "1", "text": 'a "b", c\td'}, {"n": "2", "text": "é\u2028\x85"}, {"n": "3", "text": ""}]
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def written(kind: str) -> bytes:
    """ROWS in a file's form."""
    table = [["n", "text"], *([row["n"], row["text"]] for row in ROWS)]
    if kind == "csv":
        out = io.StringIO(newline="")
        csv.writer(out).writerows(table)
        return out.getvalue().encode()
    if kind == "tsv":
        return "".join("\t".join(cells).replace("c\td", "c d") + "\n" for cells in table).encode()
    if kind == "json":
        return json.dumps(ROWS, indent=1).encode()
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), sink)
    return sink.getvalue()


@pytest.mark.parametrize("packing", [*PACKINGS, "zip", "zip.gz", "url"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_every_kind_in_every_packing(tmp_path: Path, kind: str, packing: str) -> None:
    """A kind that could be read bare could not be read packed, or only by some tasks."""
    content, path = written(kind), tmp_path / f"a.{kind}{packing if packing in PACKINGS else ''}"
    source = name = str(path)
    if packing.startswith("zip"):
        member = f"in/a.{kind}{packing.removeprefix('zip')}"
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, PACKINGS[packing.removeprefix("zip")](content))
        source = name = f"{tmp_path}/a.zip/{member}"
    elif packing == "url":
        import fsspec

        fsspec.filesystem("memory").pipe(f"/kinds/a.{kind}", content)
        source = name = f"memory://kinds/a.{kind}"
    else:
        path.write_bytes(PACKINGS[packing](content))
    (table,) = read_tables(source, Notes(), header=True)
    rows = list(table.rows)
    expected = [{**row, "text": row["text"].replace("\t", " ")} if kind == "tsv" else row for row in ROWS]
    assert [row for _, row in rows] == expected and table.columns == ["n", "text"]
    places = {
        "csv": ["line 2", "line 3", "line 4"],
        "tsv": ["line 2", "line 3", "line 4"],
        "json": ["line 2, record 1", "line 6, record 2", "line 10, record 3"],
        "jsonl": ["line 1", "line 2", "line 3"],
        "parquet": ["record 1", "record 2", "record 3"],
    }
    assert [where.removeprefix("memory://").removeprefix("/") for where, _ in rows] == [
        f"{name}, {place}".removeprefix("memory://").removeprefix("/") for place in places[kind]
    ]


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
@given(rows=st.lists(st.tuples(cells, cells), min_size=1), packing=st.sampled_from([*PACKINGS]))
def test_csv_comes_back(tmp_path: Path, rows: list[tuple[str, str]], packing: str) -> None:
    """Whatever the csv module writes is read cell by cell as it was, with the line where each row begins."""
    out = io.StringIO(newline="")
    writer, starts = csv.writer(out, quoting=csv.QUOTE_ALL), []
    for row in rows:
        starts.append(out.getvalue().count("\n") + 1)
        writer.writerow(row)
    path = tmp_path / f"a.csv{packing}"
    path.write_bytes(PACKINGS[packing](out.getvalue().encode()))
    _, found = csv_rows(text_lines(path), "a.csv")
    if not rows[0][0].lower().startswith("sep="):
        assert list(found) == [(start, [*row]) for start, row in zip(starts, rows, strict=True)]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | cells,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(cells, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
@given(
    records=st.lists(st.dictionaries(cells.map(lambda key: f"k{key}"), values, max_size=3), min_size=2, max_size=6),
    form=st.sampled_from(["a.jsonl", "a.json", "list.json", "indented.json"]),
    ascii_only=st.booleans(),
)
def test_json_comes_back(tmp_path: Path, records: list[dict[str, Any]], form: str, ascii_only: bool) -> None:
    """Whatever the json module writes is read as it was, from lines and from a list, with the line of each record."""
    written = [json.dumps(record, ensure_ascii=ascii_only) for record in records]
    text = {
        "list.json": f"[{', '.join(written)}]",
        "indented.json": json.dumps(records, indent=2, ensure_ascii=ascii_only),
    }.get(form, "\n\n".join(written))
    path = tmp_path / form
    path.write_bytes(text.encode())
    found = list(read_records(File.of(path)))
    assert [record.value for record in found] == records
    lines = text.split("\n")
    for number, record in enumerate(found, 1):
        last = f", record {number}" if form in ("list.json", "indented.json") else ""
        assert record.where == f"{path}, line {record.place}{last}"
        assert lines[record.place - 1].strip().lstrip("[").startswith("{")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"a": 1}\n\n{"a": oops}\n', "a.jsonl, line 3: not JSON (Expecting value at column 7)"),
        ("a.jsonl", b'{"a": 1}\n{"a"\n{"b": 2}\n', "a.jsonl, line 2: not JSON ("),
        ("a.jsonl", b'{"a": 1}\n{"a": "\xe9"}\n', "a.jsonl, line 2: not UTF-8, byte 0xe9 at offset 16; convert it"),
        ("a.json", b'[{"a": 1},\n {"a": 2,}]', "a.json, line 2: not JSON ("),
        (
            "a.json",
            b'[{"a": 1},\n {"a": 2}\n {}]',
            "a.json, line 3: not JSON (Expecting ',' delimiter at column 2)",
        ),
        ("a.json", b'[{"a": 1},\n]', "a.json, line 2: not JSON (Expecting value at column 1)"),
        ("a.json", b'[{"a": 1}', "a.json, line 1: not JSON ("),
        ("a.json", b'[{"a": 1}] x', "a.json, line 1: not JSON (Extra data at column 12)"),
        ("a.json", b'[{"a": 1},\n {"a": "\xff"}]', "a.json, line 2: not UTF-8, byte 0xff at offset 19"),
        ("a.json", b"[" * 100_000, "a.json, line 1: not JSON (nested too deeply)"),
        ("a.csv", b'a,b\n"x\ny",2\n3\n', "a.csv, line 4: 1 field where the first line has 2"),
        ("a.csv", b'a,b\n1,"2\n', "a.csv, line 2: not CSV (unexpected end of data)"),
        ("a.csv", b"a,b\n1,\xff\n", "a.csv, line 2: not UTF-8, byte 0xff at offset 6"),
        ("a.tsv", b"a\tb\n1\t2\t3\n", "a.tsv, line 2: 3 fields where the first line has 2"),
        ("a.parquet", b"PAR1 and no more", "a.parquet: cannot be read as Parquet ("),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-12], "a.jsonl.gz, line "),
        (
            "a.jsonl.gz",
            b'{"a": 1}\n',
            "a.jsonl.gz: cannot be read (its name ends in .gz, but it is not packed that way)",
        ),
        ("a.doc", b"", "a.doc: not a table (.csv"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Each fault is one line, of one form, whatever the kind."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        for table in read_tables(tmp_path / name, Notes(), header=True):
            list(table.rows)
    assert "\n" not in str(caught.value)


def test_a_field_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One quote too many took the rest of the file for a field; two files read in turn kept each other's limit."""
    limit = csv.field_size_limit()
    monkeypatch.setattr(separated, "LONGEST", 200_000)
    (tmp_path / "a.csv").write_text('text,label\na,b\n"' + "x,y\n" * 60_000)
    with pytest.raises(DataError, match=r"a\.csv, line 3: not CSV \(field larger than field limit"):
        read_labelled(tmp_path / "a.csv")
    assert csv.field_size_limit() == limit
    one, other = (csv_rows(iter([f"{'x' * 150_000},1\n"] * 3), "a.csv")[1] for _ in range(2))
    assert [len(row[0]) for pair in zip(one, other, strict=True) for _, row in pair] == [150_000] * 6
    assert csv.field_size_limit() == limit


def test_files_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    """A fault at the end of 10 GB must not keep the start of them from being read, nor all of them be in memory."""
    for name, line in {"a.jsonl": b"[1]\n", "a.csv": b"x,1\n", "a.tsv": b"x\t1\n", "a.json": b"[1]\n"}.items():
        (tmp_path / name).write_bytes(line * 20_000 + b"\xff\n")
        records = read_records(File.of(tmp_path / name))
        assert [next(records).place for _ in range(1000)][-1] == 1000
        with pytest.raises(DataError, match="line 20001: not UTF-8"):
            list(records)


def test_surrogates_are_found_anywhere() -> None:
    """A record that is written again is as bad by a key or a nested field as by its text."""
    check_surrogates({"a": ["é", {"b": "\U0001f600"}]}, "here")
    for value in ("\ud800", ["\udfff"], {"\ud800": 1}, {"a": {"b": [1, ("x", "y\udc00")]}}):
        with pytest.raises(DataError, match="here: half of a surrogate pair"):
            check_surrogates(value, "here")


def test_a_list_of_a_file_with_several(tmp_path: Path) -> None:
    """Its records are named by line too, and an article's sections are no lists of records."""
    path = tmp_path / "a.json"
    path.write_text('{"n": {"x": [1]}, "test": [],\n "train": [\n{"text": "a"},\n{"text": "b"}]}')
    (file,) = find(path) or []
    assert [(record.where, record.value["text"]) for record in read_records(file, key="train")] == [
        (f"{path}:train, line 3, record 1", "a"),
        (f"{path}:train, line 4, record 2", "b"),
    ]
    with pytest.raises(DataError, match="no list of records 'test'; available: train"):
        list(read_records(file, key="test"))
    path.write_text('{"lead": "a",\n "sections": [{"heading": "", "text": "b"}]}')
    assert [record.value["lead"] for record in read_records(file)] == ["a"]
