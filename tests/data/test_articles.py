"""Articles with leads: every form gives the same ones, what lacks a part is counted, every fault is named."""

# ruff: noqa: RUF001 (dashes are meant)

import bz2
import csv
import doctest
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from suite.data import article_sets
from suite.data.article_sets import read_articles
from suite.data.articles import Article, Section
from suite.data.tables import Notes
from suite.errors import DataError

ROOT = Path(__file__).parents[2]
RECORDS = [
    {"title": "Bee", "lead": "A bee is an insect.", "sections": [{"heading": "Food", "text": "Nectar.\nPollen."}]},
    {
        "title": "Hive",
        "lead": "A hive is a home.\nIt hums.",
        "sections": [{"heading": "", "text": "Wax, \u2028mostly."}],
    },
]
FOUND = [("Bee", "A bee is an insect.", "Nectar.\nPollen."), ("Hive", "A hive is a home.\nIt hums.", "Wax, mostly.")]
ROWS = [
    {"id": 1, "article": 'Nectar, "it" is.\n\nPollen.', "highlights": "A bee is an insect.", "title": "Bee"},
    {"id": 2, "article": "Wax.", "highlights": "A hive\nis a home.", "title": "Hive"},
]
PAIRS = [("Bee", "A bee is an insect.", 'Nectar, "it" is.\nPollen.'), ("Hive", "A hive is a home.", "Wax.")]
WIKITEXT = """
 = Bee =

 The <unk> bee ( Apis mellifera ) lives 3 @.@ 5 – 4 weeks , flies 1 @,@ 000 km , and is " well @-@ known " .
 It is the keepers ' pride .

 = = Food = =

 = 2 =
 Nectar 's sweet .

 = = = In winter = = =

 It doesn 't eat at − 5 ° C .

 = Nothing =

 Just a lead .

 = Hive =

 A home .

 = = Wax = =

 It hums .
""".replace("\n", " \n")


def contents(found: list[Article]) -> list[tuple[str, str, str]]:
    return [(article.title, article.lead, article.body) for article in found]


def read(source: Any, **columns: str) -> tuple[list[tuple[str, str, str]], list[str]]:
    notes = Notes()
    return contents(list(read_articles(source, notes, **columns))), notes.lines()


def put(path: Path, content: str | bytes) -> str:
    content = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    return str(path)


def json_lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def table(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    import datasets

    datasets.Dataset.from_list(rows).to_parquet(str(path))
    return str(path)


def test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The docstrings' examples are true, on the samples in the repository."""
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(article_sets).failed == 0


def test_body() -> None:
    """Offsets count in the body: sections' texts with one line end between, and no headings."""
    sections = [Section(heading="A", text="One.\nTwo."), Section(heading="B", text=""), Section(heading="C", text="3.")]
    assert Article(sections=sections).body == "One.\nTwo.\n3."


@pytest.mark.parametrize("form", ["a.jsonl", "a.jsonl.gz", "a.jsonl.bz2", "a.ndjson", "a.json", "b.json", "parquet"])
def test_articles_in_sections(tmp_path: Path, form: str) -> None:
    """Title, lead and sections come through from every form of record, one paragraph a line."""
    if form == "parquet":
        source = parquet(tmp_path / "a.parquet", RECORDS)
    else:
        source = put(tmp_path / form, json.dumps(RECORDS) if form == "b.json" else json_lines(RECORDS))
    assert read(source) == (FOUND, [])
    (article, _) = read_articles(source, Notes())
    assert [section.heading for section in article.sections] == ["Food"]
    assert article.where.startswith(source)


@pytest.mark.parametrize("form", ["a.jsonl", "a.json", "a.csv", "a.csv.gz", "a.csv.bz2", "parquet"])
def test_texts_with_summaries(tmp_path: Path, form: str) -> None:
    """Data sets of summaries are read without naming their columns, and what was guessed is told."""
    if form == "parquet":
        source = parquet(tmp_path / "a.parquet", ROWS)
    else:
        source = put(tmp_path / form, table(ROWS) if ".csv" in form else json_lines(ROWS))
    note = f"{source}: lead from column 'highlights', body from 'article' of id, article, highlights, title"
    assert read(source) == (PAIRS, [note])
    assert read(source, lead="title", body="highlights", title="id" if ".csv" in form else "title")[0][0][1:] == (
        "Bee",
        "A bee is an insect.",
    )


@pytest.mark.parametrize(
    ("columns", "lead", "body"),
    [
        (("document", "summary", "id"), "summary", "document"),  # XSum, Multi-News, Gigaword
        (("dialogue", "summary"), "summary", "dialogue"),  # SAMSum
        (("text", "summary", "title"), "summary", "text"),  # BillSum
        (("article", "abstract"), "abstract", "article"),  # scientific papers
        (("description", "abstract"), "abstract", "description"),  # BigPatent
        (("Source", "Target"), "Target", "Source"),
        (("text", "headline"), "headline", "text"),
    ],
)
def test_usual_columns(tmp_path: Path, columns: tuple[str, ...], lead: str, body: str) -> None:
    """Published data sets name their columns so."""
    rows = [{column: f"This is the {column}." for column in columns}]
    found, _ = read(put(tmp_path / "a.jsonl", json_lines(rows)))
    assert found[0][1:] == (f"This is the {lead}.", f"This is the {body}.")


def test_lists_of_sentences(tmp_path: Path) -> None:
    """As SciTLDR has them: a text in sentences, and summaries by several people, which are no text together."""
    rows = [{"source": ["One.", "Two."], "target": ["First.", "Second."]}, {"source": ["Three."], "target": ["Third."]}]
    source = put(tmp_path / "a.jsonl", json_lines(rows))
    found, notes = read(source)
    assert found == [("", "First.", "One. Two."), ("", "Third.", "Three.")]
    assert notes[1:] == [f"{source}: used the first lead of 1 article with several"]


def test_wrapped_texts_are_unwrapped(tmp_path: Path) -> None:
    """Bills and patents have lines of 72 characters; an article's sentences must not end at them."""
    text = (
        "The Secretary shall, not later than one year after the date of the\nenactment of this Act, report to Congress."
    )
    found, _ = read(put(tmp_path / "a.jsonl", json_lines([{"text": text, "summary": "A report."}])))
    assert "\n" not in found[0][2]


def test_what_lacks_a_part_is_counted(tmp_path: Path) -> None:
    """Nothing is learned from an article without a lead or a body, and none disappears in silence."""
    records = [*RECORDS, {**RECORDS[0], "lead": ""}, {**RECORDS[0], "sections": []}, {**RECORDS[0], "lead": None}]
    source = put(tmp_path / "a.jsonl", json_lines(records))
    assert read(source) == (FOUND, [f"{source}: left out 2 articles without a lead and 1 article without a body"])
    source = put(tmp_path / "b.jsonl", json_lines(records[2:3]))
    with pytest.raises(DataError, match="no article has both a lead and a body \\(1 article without a lead\\)"):
        read(source)


@pytest.mark.parametrize("name", ["wiki.train.tokens", "a.txt", "a.txt.gz", "a.raw", "hub.jsonl"])
def test_wikitext(tmp_path: Path, name: str) -> None:
    """WikiText's lines give articles in sections, written as they were before they were cut into tokens."""
    lines = [{"text": line + "\n" if line.strip() else ""} for line in WIKITEXT.split("\n")]  # as the hub has them
    source = put(tmp_path / name, json_lines(lines) if name == "hub.jsonl" else WIKITEXT)
    notes = Notes()
    bee, hive = read_articles(source, notes)
    assert bee.title == "Bee"
    assert bee.lead == (
        'The <unk> bee (Apis mellifera) lives 3.5–4 weeks, flies 1,000 km, and is "well-known".\n'
        "It is the keepers' pride."
    )
    assert [(section.heading, section.text) for section in bee.sections] == [
        ("Food", "= 2 =\nNectar's sweet."),
        ("In winter", "It doesn't eat at − 5° C."),
    ]
    assert (hive.title, hive.body) == ("Hive", "It hums.")
    assert notes.lines() == [
        f"{source}: 1 word outside WikiText's vocabulary, written as <unk>",
        f"{source}: left out 1 article without a lead",
    ]


def test_dumps_and_several_sources(tmp_path: Path) -> None:
    """A folder, a pattern and a list are read in order; of a dump, articles with a lead are taken."""
    page = "<page><title>{}</title><ns>0</ns><id>1</id><revision><id>1</id><text>{}</text></revision></page>"
    pages = page.format("Bee", "Lead.\n== A ==\nBody.") + page.format("Hive", "No heading.")
    dump = f"<mediawiki><siteinfo><sitename>W</sitename></siteinfo>{pages}</mediawiki>"
    put(tmp_path / "x" / "a.xml-p1p9.gz", dump)
    put(tmp_path / "x" / "b.jsonl", json_lines(RECORDS))
    put(tmp_path / "x" / "notes.pdf", b"%PDF")
    found, notes = read(tmp_path / "x")
    assert found == [("Bee", "Lead.", "Body."), *FOUND]
    assert notes == [f"{tmp_path / 'x'}: left out 1 article without a lead"]
    assert read([tmp_path / "x" / "b.jsonl", str(tmp_path / "x" / "a.*")])[0] == [*FOUND, ("Bee", "Lead.", "Body.")]


def test_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hub data set goes by its name, configuration and split, and columns such as images are passed over."""
    import datasets
    import huggingface_hub

    asked: list[Any] = []

    def load_dataset(name: str, configuration: str | None, split: str) -> datasets.Dataset:
        asked.append((name, configuration, split))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.chdir(tmp_path)
    assert read("abisee/cnn_dailymail:3.0.0:test")[0] == PAIRS
    assert asked == [("abisee/cnn_dailymail", "3.0.0", "test")]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.jsonl", '{"text": "a", "label": "b"}', {}, "a.jsonl: which column is the lead? Name one of text, label"),
        ("a.jsonl", '{"summary": "a"}', {}, "a.jsonl: which column is the body? Name one of summary"),
        ("a.jsonl", '{"text": "a", "summary": "b"}', {"body": "summary"}, "a.jsonl: which column is the lead?"),
        ("a.csv", "x,y\n1,2\n", {"lead": "z", "body": "x"}, "a.csv: no column 'z'; available: x, y"),
        (
            "a.jsonl",
            '{"text": "a", "summary": "b"}',
            {"title": "z"},
            "a.jsonl: no column 'z'; available: text, summary",
        ),
        ("a.jsonl", '{"text": 3, "summary": "b"}', {}, "a.jsonl, line 1: column 'text' contains int, not text"),
        ("a.jsonl", '{"text": ["a", 3], "summary": "b"}', {}, "a.jsonl, line 1: column 'text' contains int, not text"),
        (
            "a.jsonl",
            '{"text": "a\\ud800", "summary": "b"}',
            {},
            "a.jsonl, line 1: half of a surrogate pair at character 1",
        ),
        ("a.jsonl", '\n["a"]', {}, "a.jsonl: which column is the lead?"),
        (
            "a.jsonl",
            '{"lead": "a", "sections": ["b"]}',
            {},
            "a.jsonl, line 1: not an article with title, lead and sections",
        ),
        (
            "a.jsonl",
            '{"lead": "a", "sections": [{"heading": "", "text": "\\udc00"}]}',
            {},
            "a.jsonl, line 1: half of a",
        ),
        ("a.jsonl", "", {}, "a.jsonl: no rows"),
        ("a.jsonl", '{"text": "just a line"}', {}, "a.jsonl: no article title found; WikiText writes it as"),
        (
            "a.jsonl",
            '{"text": "a line"}',
            {},
            "blank lines; 'text' is the only column, but articles as records need title, lead",
        ),
        ("a.jsonl", '{"text": "a"}', {"lead": "summary"}, "a.jsonl: no column 'summary'; available: text"),
        ("a.txt", "Just a line.\n", {}, "a.txt: no article title found; WikiText writes it as"),
        ("a.txt", b" = A = \n\xff", {}, "a.txt, line 2: not UTF-8, byte 0xff at offset 8"),
        ("a.txt.gz", b"", {}, "a.txt.gz: no article title"),
        (
            "a.md",
            "# A",
            {},
            "a.md: not a file of articles; those end in .jsonl .ndjson .json .csv .tsv .parquet .xml .txt .tokens .raw",
        ),
        ("b/none.jsonl", "", {}, "none.txt: no such file or folder"),
    ],
)
def test_faults_are_named(tmp_path: Path, name: str, content: str, columns: dict[str, str], message: str) -> None:
    """Each fault is one line with the file and the place in it."""
    source = put(tmp_path / name, content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(source if name[0] == "a" else str(tmp_path / "none.txt"), **columns)
    assert "\n" not in str(caught.value)
