"""Labelled texts: every form gives the same records, nothing is lost on the way, every fault is named where it is."""

import csv
import doctest
import gzip
import io
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from suite.data import labelled
from suite.data.label_columns import Columns
from suite.data.labelled import Labelled, check, check_classes, read_labelled, stratified_split
from suite.errors import DataError

ROOT = Path(__file__).parents[2]
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # a busy machine is no fault
ROWS = [('A goal,\r\nin the "last" minute', "sport"), ("Prices rise\u2028 again", "money"), (" It's 3:0 ", "sport")]


def put(path: Path, content: str | bytes) -> Path:
    content = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def csv_text(rows: list[tuple[str, ...]], **form: Any) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, **form).writerows(rows)
    return out.getvalue()


def contents(records: list[Labelled]) -> list[tuple[str, str]]:
    return [(record.text, "+".join(record.labels)) for record in records]


def write(form: str, path: Path) -> str:
    """Write ROWS in some form; returns the source to read."""
    if form == "folder":
        for number, (text, label) in enumerate(ROWS):
            put(path / label / f"{number}.txt", text)
        return str(path)
    if form == "parquet":
        import datasets

        features = datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["sport", "money"])}
        )
        columns = {"text": [text for text, _ in ROWS], "label": [int(label == "money") for _, label in ROWS]}
        datasets.Dataset.from_dict(columns, features=features).to_parquet(str(path / "a.parquet"))
        return str(path / "a.parquet")
    objects = [{"id": number, "text": text, "label": label} for number, (text, label) in enumerate(ROWS)]
    written = {
        "a.csv": csv_text([("text", "label"), *ROWS]),
        "b.csv": csv_text([("Label", "Text"), *((label, text) for text, label in ROWS)], delimiter=";"),
        "c.csv.gz": csv_text(ROWS, lineterminator="\n"),
        "a.jsonl.gz": "\n".join(json.dumps(row, ensure_ascii=False) for row in objects) + "\n",
        "b.jsonl": "\n\n".join(json.dumps([label, text]) for text, label in ROWS),
        "a.json": json.dumps(objects, indent=1),
        "b.json": "\n".join(map(json.dumps, objects)),
        "c.json:train": json.dumps({"test": [["a", "b"]], "train": [[text, label] for text, label in ROWS]}),
    }
    put(path / form.partition(":")[0], written[form])
    return str(path / form)


FORMS = ["a.csv", "b.csv", "c.csv.gz", "a.jsonl.gz", "b.jsonl", "a.json", "b.json", "c.json:train", "folder", "parquet"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(tmp_path: Path, form: str) -> None:
    """Quoted line breaks, CRLF, U+2028, spaces and class numbers come through, with or without column names."""
    data = read_labelled(write(form, tmp_path))
    assert sorted(contents(data.records)) == sorted(ROWS)
    assert all(record.where.startswith(str(tmp_path)) for record in data.records)


def test_sample() -> None:
    """The sample is what its README says."""
    data = read_labelled(ROOT / "data" / "samples" / "banking.csv")
    assert Counter(Counter(record.labels for record in data.records).values()) == {20: 10}
    assert data.columns == Columns(("text",), "category", "")
    first = data.records[0]
    assert (first.text, first.labels) == ("Was there a problem with topping up?", ("top_up_failed",))


@settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
@given(
    rows=st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.sampled_from(["x", "y, z", "1"])),
        min_size=1,
    ),
    end=st.sampled_from(["\r\n", "\n"]),
)
@example(rows=[("\r", "x"), ("a\r\n\rb\ue000", "x")], end="\n")
def test_csv_round_trip(tmp_path: Path, rows: list[tuple[str, str]], end: str) -> None:
    """Whatever the csv module writes comes back: NUL, lone carriage returns, quotes, empty texts."""
    path = put(tmp_path / "a.csv", csv_text([("text", "label"), *rows], lineterminator=end))
    assert contents(read_labelled(path).records) == rows


def test_csv_of_old_macs(tmp_path: Path) -> None:
    """Lines that end in carriage returns alone are lines."""
    path = put(tmp_path / "a.csv", "text,label\ra b,x\rc,y\r")
    assert [record.where for record in read_labelled(path).records] == [f"{path}, line 2", f"{path}, line 3"]


@settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
@given(rows=st.lists(st.text(st.sampled_from("ab\"' ,;\u2028\x85\f"), min_size=1, max_size=8), min_size=1))
def test_tsv_quotes_swallow_nothing(tmp_path: Path, rows: list[str]) -> None:
    """SST-2 and TREC have stray quotes: a TSV file has as many records as lines, and other text stays as it is."""
    path = put(tmp_path / "a.tsv", "".join(f"{text}\tx\n" for text in rows))
    found = read_labelled(path, text="1", label="2", header=False).records
    assert [record.where for record in found] == [f"{path}, line {number}" for number in range(1, len(rows) + 1)]
    assert all(record.text == text for record, text in zip(found, rows, strict=True) if '""' not in text)


def test_tsv_quotes_of_a_csv_writer(tmp_path: Path) -> None:
    """AG News' sample is TSV written by a CSV writer: quotes around doubled quotes are undone, and it is said."""
    path = put(tmp_path / "a.tsv", 'He said ""no"" twice\tx\r\n"He said ""no"""\ty\r\n"a "b" c"\tx\n"a"\ty\n"a"\t"y"')
    data = read_labelled(path)
    texts = [record.text for record in data.records]
    assert texts == ['He said ""no"" twice', 'He said "no"', '"a "b" c"', '"a"', "a"]
    assert f"{path}: removed CSV quotes around 3 fields" in data.notes


def test_header(tmp_path: Path) -> None:
    """A first line of data must not be lost as a header, nor a header become a record; the guess is told."""
    path = put(tmp_path / "a.csv", "question,how?\nanswer,so\nquestion,why?\n")
    data = read_labelled(path)
    assert contents(data.records) == [("how?", "question"), ("so", "answer"), ("why?", "question")]
    assert f"{path}: the first line is read as data" in data.notes[0]
    assert f"{path}: text from column '2', label from '1' of 1, 2" in data.notes
    assert len(read_labelled(path, header=True, text="2", label="1").records) == 2
    put(path, "phrase,mood\na b,x\n")
    assert contents(read_labelled(path).records) == [("a b", "x")]
    put(path, "a,b\na b,x\n")
    assert read_labelled(path, text="a").columns == Columns(("a",), "b", "")
    assert len(read_labelled(path).records) == 2


def test_column_names_that_come_again(tmp_path: Path) -> None:
    """Two files one after the other trained a class called "label"."""
    path = put(tmp_path / "a.csv", "text,label\na,x\ntext,label\nb,y\n")
    data = read_labelled(path)
    assert contents(data.records) == [("a", "x"), ("b", "y")]
    assert data.notes == [f"{path}: left out 1 repeated header line"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a good film, nr 1;pos\nno, never again;neg\n", [("a good film, nr 1", "pos"), ("no, never again", "neg")]),
        ('"text, body";label\na, b;x\n', [("a, b", "x")]),
        ("sep=;\r\ntext;label\r\na;x\r\n", [("a", "x")]),
        ("sep=|\ntext|label\na, b|x\n", [("a, b", "x")]),
        ("text\tlabel\na; b, c\tx\n", [("a; b, c", "x")]),
        ("text,label\na;b,x\nc;d,y\n", [("a;b", "x"), ("c;d", "y")]),
        ("a;b,x\nc;d,y\n", [("a;b", "x"), ("c;d", "y")]),
        ('id;text\n1;"' + "a,\n" * 50 + '"\n2;b\n', [("a,\n" * 50, "1"), ("b", "2")]),
    ],
)
def test_what_parts_the_fields(tmp_path: Path, content: str, expected: list[tuple[str, str]]) -> None:
    """A spreadsheet of a country with decimal commas parts fields by semicolons; its texts were cut at commas."""
    assert contents(read_labelled(put(tmp_path / "a.csv", content)).records) == expected


def test_columns(tmp_path: Path) -> None:
    """AG News' test rows are class number, title, description; columns go by number or name, texts are joined."""
    path = put(tmp_path / "a.csv", '"2","Title","Body, long"\n"1","",""\n"2","Title",""\n')
    data = read_labelled(path, text=["2", "3"], label="1", names=["World", "Sports"])
    assert contents(data.records) == [("Title\nBody, long", "Sports"), ("", "World"), ("Title", "Sports")]
    assert data.notes[-1] == "labels: 1 is World, 2 is Sports"
    path = put(tmp_path / "b.csv", "id,premise,hypothesis,gold\n1,a,b,yes\n2,c,,no\n")
    data = read_labelled(path, label="gold")
    assert data.records[0] == Labelled(text="a", pair="b", labels=("yes",), where=f"{path}, line 2")
    assert data.records[1].pair == ""
    assert read_labelled(path, text="hypothesis", pair="2", label="4").columns == Columns(
        ("hypothesis",), "gold", "premise"
    )


def test_one_class_reads_as_the_others(tmp_path: Path) -> None:
    """CLINC150's out-of-scope list has one class: its label column must not be taken for the text."""
    lists = {"val": [["a b", "x"], ["c", "y"]], "oos": [["long text", "oos"], ["d", "oos"]]}
    path = put(tmp_path / "a.json", json.dumps(lists))
    for sources in ([f"{path}:oos"], [f"{path}:val", f"{path}:oos"]):
        assert contents(read_labelled(sources).records)[-2:] == [("long text", "oos"), ("d", "oos")]
    assert read_labelled(f"{path}:oos").records[1].where == f"{path}:oos, line 1, record 2"
    lists = {name: [[str(place), *row] for place, row in enumerate(rows)] for name, rows in lists.items()}
    put(path, json.dumps({"val": lists["val"] + [["3", "e", "x"]], "oos": lists["oos"]}))
    assert contents(read_labelled([f"{path}:val", f"{path}:oos"]).records)[-1] == ("d", "oos")


@pytest.mark.parametrize(
    ("cells", "names", "expected"),
    [
        (["0", "1", "1"], ["no", "yes"], ["no", "yes", "yes"]),
        (["1", "2", "1"], ["no", "yes"], ["no", "yes", "no"]),
        (["no", "yes", "no"], ["no", "yes"], ["no", "yes", "no"]),
        (["1", "1", "yes"], ["0=no", "1=yes"], ["yes", "yes", "yes"]),
    ],
)
def test_names(tmp_path: Path, cells: list[str], names: list[str], expected: list[str]) -> None:
    """Class numbers count from 0 or 1 as the data shows; names that are there already stay."""
    path = put(tmp_path / "a.csv", "".join(f"text {n},{cell}\n" for n, cell in enumerate(cells)))
    found = read_labelled(path, text="1", label="2", names=names).records
    assert [record.labels[0] for record in found] == expected


def test_several_labels(tmp_path: Path) -> None:
    """A list or a separator gives several labels, each once; an empty list is none, and counted."""
    rows = [
        {"text": "a", "topics": ["x", "y", "x"]},
        {"text": "b", "topics": []},
        {"text": "c", "topics": [1, 2.0, True]},
    ]
    path = put(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    data = read_labelled(path)
    assert [record.labels for record in data.records] == [("x", "y"), (), ("1", "2", "true")]
    assert f"{path}: 1 record with an empty list of labels" in data.notes
    path = put(tmp_path / "a.csv", 'text,label\na,"[""x"", ""y""]"\nb,x| z |\n')
    assert [record.labels for record in read_labelled(path).records] == [("x", "y"), ("x| z |",)]
    path = put(tmp_path / "a.csv", "text,label\na,x\nb,x| z |\nc,\n")
    assert [record.labels for record in read_labelled(path, separator="|").records] == [("x",), ("x", "z"), ()]


def test_labels_in_square_brackets(tmp_path: Path) -> None:
    """A forum's [removed] made the whole file unreadable; that it is no list is told."""
    path = put(tmp_path / "a.csv", "text,label\na,[removed]\nb,x\n")
    data = read_labelled(path)
    assert contents(data.records) == [("a", "[removed]"), ("b", "x")]
    assert data.notes == [
        f"{path}: 1 record with a label in square brackets that is not a JSON list, read as one label"
    ]


def test_long_text(tmp_path: Path) -> None:
    """The csv module refuses fields over 131,072 characters; a text of 1 MB is read, and the module's limit stays."""
    limit = csv.field_size_limit()
    path = put(tmp_path / "a.csv", f"text,label\n{'word ' * 200_000},x\n")
    assert len(read_labelled(path).records[0].text) == 1_000_000
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "text,label\na,x\nb,\n",
            {},
            "a.csv, line 3: no label in column 'label'; add one, or remove the record",
        ),
        ("a.csv", 'text,label\n"a\nb",x\nc, \n', {}, "a.csv, line 4: no label"),
        ("a.csv", "text,label\na,x\nb\n", {}, "a.csv, line 3: 1 field where the first line has 2"),
        ("a.csv", 'text,label\na,x\n"b,y\nc,x\n', {}, "a.csv, line 3: not CSV (unexpected end of data)"),
        ("a.csv", 'text,label\n"b" c,y\n', {}, "a.csv, line 2: not CSV ("),
        ("a.csv", "text,label\na,x\n", {"text": "body"}, "a.csv: no column 'body'; available: text, label"),
        ("a.csv", "text,label\na,x\n", {"label": "3"}, "a.csv: no column '3'; available: text, label"),
        ("a.csv", "text,label,label\na,x,y\n", {}, "a.csv: two columns are called 'label'"),
        ("a.csv", "text,b,c\na,x,y\n", {}, "a.csv: which column is the label? Name one of text, b, c"),
        ("a.csv", "a\nb\n", {}, "a.csv: which column is the text? Name one of 1"),
        ("a.csv", "", {}, "a.csv: no rows"),
        ("a.csv", "text,label\n", {}, "a.csv: no rows"),
        ("a.csv", b"text,label\na\xe9,x\n", {}, "a.csv, line 2: not UTF-8, byte 0xe9 at offset 12"),
        ("a.csv", "text,label\na,1\nb,2\n", {"names": ["A", "B", "C"]}, "no label is 0 or 3"),
        ("a.csv", "text,label\na,0\nb,3\n", {"names": ["A", "B", "C"]}, "a.csv, line 3: the label '3' has no name"),
        ("a.tsv", "a\tx\nb\ty\tz\n", {}, "a.tsv, line 2: 3 fields where the first line has 2"),
        ("a.jsonl", '{"text": "a", "label": "x"}\n\n{"text": "b"}', {}, "a.jsonl, line 3: no label in column 'label'"),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n{"label": "b"}',
            {},
            "a.jsonl, line 2: no column 'text'; available: label",
        ),
        ("a.jsonl", '{"text": "a", "label": null}', {}, "a.jsonl, line 1: no label in column 'label'"),
        ("a.jsonl", '{"text": "a", "label": NaN}', {}, "a.jsonl, line 1: no label in column 'label'"),
        ("a.jsonl", '{"text": "a", "label": 0.5}', {}, "a.jsonl, line 1: the label in column 'label' is float"),
        ("a.jsonl", '{"text": "a", "label": ["x", ""]}', {}, "a.jsonl, line 1: no label in column 'label'"),
        ("a.jsonl", '{"text": 3, "label": "x"}', {}, "a.jsonl, line 1: column 'text' contains int, not text"),
        ("a.jsonl", '{"text": "\\ud800", "label": "x"}', {}, "a.jsonl, line 1: half of a surrogate pair"),
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text"', {}, "a.jsonl, line 2: not JSON"),
        (
            "a.jsonl",
            '{"text": "a", "label": %s}' % ("9" * 5000),
            {},
            "a.jsonl, line 1: not JSON (a number with too many",
        ),
        ("a.json", "[" * 100_000, {}, "a.json, line 1: not JSON (nested too deeply)"),
        (
            "a.json",
            '{"train": [["a", "x"]], "test": [["b", "y"]]}',
            {},
            "a.json: contains the lists train, test; choose one",
        ),
        ("a.json", '[{"text": "a",\n "label": oops}]', {}, "a.json, line 2: not JSON (Expecting value at column 11)"),
        ("a.json", '["a"]', {}, "a.json, line 1, record 1: expected a JSON object or list, not str"),
        ("a.txt", "a", {}, "a.txt: not a table (.csv .tsv"),
    ],
)
def test_faults_are_named(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], message: str
) -> None:
    """Each fault is one line with the file and the place in it."""
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_labelled(put(tmp_path / name, content), **options)
    assert "\n" not in str(caught.value)


def test_sources(tmp_path: Path) -> None:
    """A mistyped path is not looked up on the hub; folders say what they left out; several sources are one corpus."""
    for name in ("a", "b"):
        put(tmp_path / "tables" / f"{name}.csv", f"text,topic\n{name},x\n")
    put(tmp_path / "tables" / "c.xlsx", b"\xff")
    data = read_labelled(tmp_path / "tables")
    assert contents(data.records) == [("a", "x"), ("b", "x")]
    a, left = tmp_path / "tables" / "a.csv", tmp_path / "tables" / "c.xlsx"
    assert data.notes == [
        f"{tmp_path / 'tables'}: left out 1 file of other kinds, such as {left}",
        f"{a} and 1 more: text from column 'text', label from 'topic' of text, topic",
    ]
    assert read_labelled([f"{tmp_path}/tables/*.csv", a]).records == [*data.records, data.records[0]]

    put(tmp_path / "classes" / "sci.space" / "deep" / "60123", "s")
    put(tmp_path / "classes" / "x" / "1.txt.gz", "t")
    put(tmp_path / "classes" / "x" / "1.pdf", b"\xff")
    put(tmp_path / "classes" / "x" / ".hidden", b"\xff")
    data = read_labelled(tmp_path / "classes")
    assert contents(data.records) == [("s", "sci.space"), ("t", "x")]
    assert data.notes == [
        f"{tmp_path / 'classes'}: left out 1 file of other kinds, such as {tmp_path / 'classes' / 'x' / '1.pdf'}"
    ]

    put(tmp_path / "classes" / "a.csv", "text,label\na,x\n")
    for source, message in [
        (tmp_path / "none.csv", "no such file or folder"),
        ("none.csv", "no such file or folder"),
        ("none.json:train", "no such file or folder"),
        (f"{tmp_path}/*.csv", "no such file or folder"),
        (f"{a}:train", "only a .json file can hold several lists"),
        (tmp_path / "classes", "contains both tables and folders"),
        ([], "no source is given"),
    ]:
        with pytest.raises(DataError, match=re.escape(message)):
            read_labelled(source)


def test_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set's name goes to the hub with configuration and split; its class names are used, -1 is no label."""
    import datasets
    import huggingface_hub

    asked: list[Any] = []
    labels = [1, 0]

    def load_dataset(name: str, configuration: str | None, split: str) -> datasets.Dataset:
        asked.append((name, configuration, split))
        features = datasets.Features(
            {
                "sentence": datasets.Value("string"),
                "label": datasets.ClassLabel(names=["bad", "good"]),
                "tags": datasets.List(datasets.ClassLabel(names=["p", "q"])),
                "image": datasets.Image(),
            }
        )
        columns = {"sentence": ["a", "b"], "label": labels, "tags": [[0, 1], [1]], "image": [None, None]}
        return datasets.Dataset.from_dict(columns, features=features)

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.chdir(tmp_path)
    data = read_labelled("owner/name::validation[:10%]")
    assert contents(data.records) == [("a", "good"), ("b", "bad")]
    assert data.records[0].where == "owner/name::validation[:10%], record 1"
    assert [record.labels for record in read_labelled("name:small", label="tags").records] == [("p", "q"), ("q",)]
    assert asked == [("owner/name", None, "validation[:10%]"), ("name", "small", "train")]
    labels[1] = -1
    with pytest.raises(DataError, match="name, record 2: no label in column 'label'"):
        read_labelled("name")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Name or service not known\nand more")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", unreachable)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(DataError, match=r"name: not a file, .* \(Name or service not known\)"):
        read_labelled("owner/name")


def record(text: str, *labels: str) -> Labelled:
    return Labelled(text=text, labels=labels, where=f"a.csv:{text}")


@settings(max_examples=100, deadline=None, suppress_health_check=CHECKS)
@given(
    texts=st.lists(
        st.tuples(st.integers(0, 30), st.lists(st.sampled_from("abcd"), max_size=2, unique=True)),
        min_size=1,
        max_size=60,
    ),
    share=st.floats(0.05, 0.6),
    seed=st.integers(0, 3),
)
def test_split_holds(texts: list[tuple[int, list[str]]], share: float, seed: int) -> None:
    """No record is lost or doubled, no text is on both sides, no class is in validation alone."""
    records = [
        Labelled(text=f"{'A ' if n % 2 else ' a  '}{text}", labels=tuple(labels))
        for n, (text, labels) in enumerate(texts)
    ]
    try:
        train, valid = stratified_split(records, share, seed)
    except DataError as error:
        assert re.match("only one class|no class has two", str(error))
        return
    assert Counter(train + valid) == Counter(records)
    assert [item for item in records if item in valid] == valid
    sides = [{item.text.replace(" ", "").lower() for item in side} for side in (train, valid)]
    assert not sides[0] & sides[1]
    classes = [{label for item in side for label in item.labels} for side in (train, valid)]
    assert classes[1] <= classes[0]
    assert valid


def test_split_is_stratified() -> None:
    """Each class gives its share, a rare one at least one, a single example stays; the seed alone decides."""
    counts = {"big": 1000, "small": 30, "rare": 3, "single": 1}
    records = [record(f"{label} {n}", label) for label, count in counts.items() for n in range(count)]
    train, valid = stratified_split(records, 0.1, 1)
    assert Counter(item.labels[0] for item in valid) == {"big": 100, "small": 3, "rare": 1}
    assert (train, valid) == stratified_split(records, 0.1, 1)
    assert valid != stratified_split(records, 0.1, 2)[1]
    assert "only one training example: single" in check(train, valid)

    both = [record(f"{n}", "x", *(["y"] if n % 10 == 0 else [])) for n in range(1000)]
    valid = stratified_split(both, 0.2, 1)[1]
    assert Counter(label for item in valid for label in item.labels) == {"x": 200, "y": 20}


def test_split_of_what_cannot_be_split() -> None:
    """One class, or only classes of one text, are named faults."""
    for records, message in [
        ([record("a", "x"), record("b", "x")], "only one class: every record has the label x"),
        ([record("a", "x"), record("A ", "x"), record("b", "y")], "no class has two different texts"),
        ([], "no records"),
    ]:
        with pytest.raises(DataError, match=message):
            stratified_split(records, 0.5, 0)
    with pytest.raises(DataError, match="only one class"):
        check([record("a", "x")], [record("b", "y")])
    with pytest.raises(DataError, match=r"share of 1\.5"):
        stratified_split([], 1.5, 0)


def test_check() -> None:
    """What makes a figure too good or a class unlearnable is told, with a place to look at."""
    train = [record(f"text {n}", "x") for n in range(20)] + [
        record("Text  3", "y"),
        record("text 4", "x"),
        record("", "y"),
    ]
    valid = [record("text 5", "x"), record("new", "z"), Labelled(text="a", pair=" ", labels=("x",), where="v:1")]
    assert check(train, valid) == [
        "23 records for training, 3 for validation, 2 classes: x 21, y 2; "
        "the largest class has 10 times as many examples as the smallest",
        "in validation but not in training: z",
        "not in validation: y",
        "1 empty text in training, the first a.csv:",
        "1 empty text in validation, the first v:1",
        "2 duplicate texts within training, such as a.csv:text 3 and a.csv:Text  3",
        "1 validation text also in training, such as a.csv:text 5 and a.csv:text 5",
        "1 text with conflicting labels, such as a.csv:text 3 and a.csv:Text  3 (x and y)",
    ]
    assert check([record("a", "x"), record("b", "y")], []) == [
        "2 records for training, 2 classes: 1 each",
        "only one training example: x, y",
    ]


def test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example in the docstring runs."""
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(labelled).failed == 0


# ---- classes or free text

LONG = "a description that goes on and on, as no name of a class does, number"


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "c"] * 2,
        ["a"],
        list("abcdefghi"),
        [f"class {n % 150}" for n in range(300)],
        [f"class {n}" for n in range(77) for _ in range(n + 1)],
        [f"class {random.Random(n).randrange(77)}" for n in range(100)],  # a third of the rows alone in their class
        [f"{LONG} {n % 5}" for n in range(10)],
        [f"{LONG} {n % 3}" for n in range(6)],
    ],
    ids=["six rows", "one row", "nine classes", "150", "77", "100 of 77", "questionnaire", "long, six rows"],
)
def test_classes_are_classes(labels: list[str]) -> None:
    check_classes([Labelled(text="x", labels=(label,)) for label in labels], "labels", "")


@pytest.mark.parametrize(
    "labels",
    [
        [f"a{n}" for n in range(10)],
        [f"note {n}" for n in range(70)] + ["none"] * 30,
        [f"{LONG} {n}" for n in range(4)],
        [f"{LONG} {n % 12}" for n in range(20)],
    ],
    ids=["ids", "a note in most rows", "four long", "long, some twice"],
)
def test_free_text_is_no_class(labels: list[str]) -> None:
    records = [Labelled(text="x", labels=(label,)) for label in labels]
    with pytest.raises(
        DataError, match=rf"^column 'b': {len({*labels})} distinct labels in {len(labels)} rows.*; hint$"
    ):
        check_classes(records, "column 'b'", "hint")
    pairs = [Labelled(text="x", labels=(label, "common", "other")) for label in labels]
    if len(labels) > 4:
        check_classes(pairs, "column 'b'", "hint")  # of several labels a text most occur again and again
