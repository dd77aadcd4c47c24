"""`suite run`, `eval` and `train summarize`: typed, piped, whole files, and broken ones."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import suite
from suite.cli import options as shared
from suite.cli.main import main
from suite.data.articles import Article, Section
from suite.sampling import Generated
from suite.tasks.summarize import evaluate, pipeline
from suite.tasks.summarize.metrics import truncate

TEXT = """The violin

The violin is a wooden instrument with four strings. It is tuned in fifths, and played with a bow.

Its sound comes from the strings, which make the belly vibrate. Makers in Cremona built the most famous ones.
Antonio Stradivari made about a thousand instruments. Many of them are still played on today.
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    assert main(["run", "summarize", *words]) == 0, capsys.readouterr().err
    found = capsys.readouterr()
    return found.out, found.err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("suite: error: ") and err.count("\n") <= 2
    return err


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "violin.txt"
    path.write_text(TEXT)
    return str(path)


def sentences() -> list[str]:
    text = " ".join(TEXT.split())
    return [part.strip() + "." for part in text.removeprefix("The violin ").split(".") if part.strip()]


def test_an_extract_of_a_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The embedded model, with its default style, says nothing that is not in the file."""
    out, _ = run(capsys, file, "--sentences", "2")
    text = out.strip()
    for one in sentences():
        text = text.replace(one, "")
    assert out.strip() and text.strip() == ""


def test_piped_text_is_the_same(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard input, named or not, is a file like another."""
    expected, _ = run(capsys, file, "--sentences", "1")
    for words in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
        assert run(capsys, *words, "--sentences", "1")[0] == expected


def test_several_files_stand_under_headings(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HTML without its scripts, and plain text, each under its title."""
    page = tmp_path / "page.html"
    paragraphs = "".join(f"<p>Bees are insects that make honey. They live in hives of {n} thousand.</p>" for n in "234")
    page.write_text(
        f"<html><head><title>Bees</title><script>var x = 1;</script></head><body>{paragraphs}</body></html>"
    )
    out, _ = run(capsys, file, str(page), "--sentences", "1")
    assert "--- The violin" in out and "--- Bees" in out and "var x" not in out


def test_a_title_that_is_given_is_the_title(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The help said that it counts only where the file names none."""
    page = tmp_path / "page.html"
    page.write_text(
        "<html><head><title>Bees</title></head><body><p>Bees make honey. They live in hives.</p></body></html>"
    )
    out, _ = run(capsys, str(page), "--title", "Given", "--json")
    assert json.loads(out)["title"] == "Given"
    assert main(["run", "summarize", "--help"]) == 0
    assert "in place of the one" in " ".join(capsys.readouterr().out.split())


def test_sources_are_shown(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--show-source names paragraph and characters of each sentence."""
    out, _ = run(capsys, file, "--sentences", "1", "--show-source")
    assert "[paragraph " in out and "characters " in out


def test_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Machines get text, style, sentences with offsets, and warnings."""
    out, _ = run(capsys, file, "--sentences", "1", "--json")
    found: dict[str, Any] = json.loads(out)
    [sentence] = found["sentences"]
    assert found["style"] == "extract" and found["text"] == sentence["text"] and found["title"] == "The violin"
    assert sentence["end"] - sentence["start"] == len(sentence["text"])


def test_what_is_written_and_not_there_is_warned_of(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number that a written summary has from nowhere is told on standard error, unless told to be quiet."""
    made_up = Generated(tokens=(), text="It was made in 1555.", logprobs=(), top=(), finish="stop")
    monkeypatch.setattr(pipeline, "generate", lambda *arguments, **options: [made_up])
    words = [file, "--style", "write"]
    out, err = run(capsys, *words)
    assert out == "It was made in 1555.\n"
    assert err.endswith("\nwarning: the number '1555' is not in the article\n")
    assert run(capsys, *words, "--quiet") == ("It was made in 1555.\n", "")


def test_written_summaries_are_experimental_with_a_small_model(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The embedded models invent, and TL;DR repeats itself: that was not said, nor what to do."""
    made_up = Generated(tokens=(), text="It has strings.", logprobs=(), top=(), finish="stop")
    monkeypatch.setattr(pipeline, "generate", lambda *arguments, **options: [made_up])
    monkeypatch.chdir(Path(file).parent)
    name = Path(file).name
    for words in ([name, "--style", "write"], [name, "--style", "tldr"], [name, "--model", "lm"]):
        out, err = run(capsys, *words)
        assert out == "It has strings.\n" and err.count("experimental: a model of 7.5 million parameters") == 1
        assert "--model gpt2" in err and "--style extract" in err
        out, err = run(capsys, *words, "--json")
        assert json.loads(out)["text"] == "It has strings." and "experimental" in err
        assert run(capsys, *words, "--quiet")[1] == ""
    assert "experimental" not in run(capsys, name, "--style", "extract")[1]
    monkeypatch.setattr(shared, "SMALL", 7_000_000)
    assert "experimental" not in run(capsys, name, "--style", "write")[1], "a model of that size may do better"
    assert main(["run", "summarize", "--help"]) == 0
    assert "Experimental: write new ones" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "no text"), ("   \n\n", "no text"), ("#REDIRECT [[Fiddle]]", "is a redirect to 'Fiddle'")],
)
def test_nothing_to_sum_up(content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty files and redirects are told in one line."""
    path = tmp_path / ("page.wiki" if "REDIRECT" in content else "empty.txt")
    path.write_text(content)
    assert message in refused(capsys, "run", "summarize", str(path))


def test_wrong_names(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, and a model that cannot do the style."""
    assert "nowhere.txt" in refused(capsys, "run", "summarize", "nowhere.txt")
    too_long_for_a_name = "It has strings. " * 500
    for text in ("The violin has four strings.", too_long_for_a_name):
        assert "no file there; to sum up a text itself, pipe it in" in refused(capsys, "run", "summarize", text)
    assert "only the style tldr" in refused(capsys, "run", "summarize", file, "--model", "lm", "--style", "write")


# ---- training and evaluating


@pytest.fixture
def articles(tmp_path: Path) -> str:
    """Twelve articles whose lead is their body's first sentence."""
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(80)]
    path = tmp_path / "articles.jsonl"
    with path.open("w") as out:
        for number in range(12):
            body = [" ".join(["The", *random.choice(words, 7)]) + "." for _ in range(6)]
            sections = [{"heading": "", "text": " ".join(body)}]
            out.write(json.dumps({"title": f"Title {number}", "lead": body[0], "sections": sections}) + "\n")
    return str(path)


def test_train_and_evaluate(articles: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file of articles to a summariser, which is then compared with baselines on the same."""
    small = ["base=''", "tokenizer.model=lm", "model.context=400", "model.d_model=16", "model.n_layer=1"]
    small += ["model.n_head=2", "model.position=rotary", "run.epochs=0", "run.steps=2", "data.held_out=0.25"]
    words = [word for line in small for word in ("--set", line)]
    out = str(tmp_path / "run")
    assert main(["train", "summarize", "--data", articles, "--out", out, *words]) == 0
    capsys.readouterr()
    assert main(["eval", "summarize", articles, "--model", out, "--words", "10", "--limit", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["articles"] == 4
    assert found["systems"]["oracle"]["rouge"]["ROUGE-2"]["mean"] == pytest.approx(1.0, abs=0.05)
    assert found["systems"]["lead-3"]["rouge"]["ROUGE-2"]["mean"] > 0.7
    assert found["systems"]["extract"]["unsupported"] == 0 and found["systems"]["extract"]["novel"] == 0
    assert set(found["nats_per_token"]) == {"own body", "another body", "no body"}
    words = ["eval", "summarize", articles, "--model", out, "--words", "0", "--limit", "2", "--style", "extract"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "first of each paragraph" in text and "2 articles, each summarised in as many words as its lead" in text
    assert "after another body" in text and "nats per token of the lead" in text
    assert main([*words, "--markdown"]) == 0
    assert "| extract |" in capsys.readouterr().out


def test_the_split_that_is_evaluated_is_named(
    articles: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report took the notes of the reader alone, so the split stood in --json and nowhere else."""
    told = "owner/name: evaluated on split 'test'"
    monkeypatch.setattr(evaluate, "to_evaluate", lambda sources: ([articles], [told]))
    words = ("eval", "summarize", "owner/name", "--limit", "1", "--style", "extract")
    assert main(words) == 0
    assert told in capsys.readouterr().err
    assert main([*words, "--json"]) == 0
    assert told in json.loads(capsys.readouterr().out)["notes"]


def test_two_formats_are_refused_before_the_work(articles: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("eval", "summarize", articles, "--model", "no-such-model", "--json", "--markdown")
    assert "two formats; choose one" in refused(capsys, *words)


def test_intervals_and_shares() -> None:
    """The mean of resampled articles lies about the mean; shares are of all n-grams together, not of each article's."""
    found = evaluate.mean_and_interval(np.arange(100) / 100)
    low, high = found["interval"]
    assert found["mean"] == pytest.approx(0.495)
    assert low < found["mean"] < high and 0.08 < high - low < 0.16
    assert evaluate.share([(1, 2), (0, 8)]) == pytest.approx(0.1)


def test_figures_of_a_copy() -> None:
    """A summary that is the lead itself scores 1 and has its length."""
    article = Article(title="A", lead="Cats sleep all day long.", sections=(Section(heading="", text="Cats sleep."),))
    figures = evaluate.system([truncate(article.lead, 99)], [article])
    assert figures["rouge"]["ROUGE-L"]["mean"] == 1 and figures["length"] == {"words": 5.0, "ratio": 1.0}


def test_articles_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No data, and records without a text and its summary, are told in one line."""
    assert "no training data" in refused(capsys, "train", "summarize", "--out", str(tmp_path / "run"))
    path = tmp_path / "odd.jsonl"
    path.write_text('{"colour": "red"}\n')
    assert "odd.jsonl" in refused(capsys, "eval", "summarize", str(path))


# ---- bulk work


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Four JSON objects, one of them with nothing to summarise."""
    texts = [TEXT, "Bees make honey. They live in hives.\n\nFlowers feed them.", "* * *", "One sentence alone."]
    path = tmp_path / "articles.jsonl"
    path.write_text("".join(json.dumps({"id": number, "body": text}) + "\n" for number, text in enumerate(texts)))
    return path


def bulk(capsys: pytest.CaptureFixture[str], source: Path, output: Path, *words: str) -> str:
    return run(capsys, "--input", str(source), "--output", str(output), *words)[1]


def test_a_file_of_texts_gets_a_column(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every record keeps its fields and order, and a text without words has no summary, and stops nothing."""
    output = records.with_name("out.jsonl")
    err = bulk(capsys, records, output, "--column", "body", "--sentences", "1")
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    given = [json.loads(line) for line in records.read_text().splitlines()]
    assert [{key: line[key] for key in ("id", "body")} for line in lines] == given
    summarize = suite.pipeline("summarize")
    expected = [None if line["id"] == 2 else summarize(line["body"], sentences=1).text for line in given]
    assert [line["summary"] for line in lines] == expected
    assert [line["summary_warnings"] for line in lines] == [[], [], None, []]
    assert "4 records" in err


def test_a_table_gets_one_column_and_the_options_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings are for JSON objects; a summary of two sentences is longer than one of three words."""
    source = tmp_path / "a.csv"
    source.write_text('id,text\n1,"Bees make honey. They live in hives."\n')
    for name, words in (("long", ("--sentences", "2")), ("short", ("--max-words", "4"))):
        bulk(capsys, source, tmp_path / f"{name}.csv", *words)
    rows = {name: (tmp_path / f"{name}.csv").read_text().splitlines() for name in ("long", "short")}
    assert rows["long"] == [
        "id,text,summary",
        '1,"Bees make honey. They live in hives.",Bees make honey. They live in hives.',
    ]
    assert len(rows["short"][1].rpartition(",")[2].split()) <= 4


def test_the_style_counts_and_its_warnings_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a written summary has from nowhere is told record by record; that it is experimental, once."""
    made_up = Generated(tokens=(), text="Honey was made in 1555.", logprobs=(), top=(), finish="stop")
    monkeypatch.setattr(pipeline, "generate", lambda *arguments, **options: [made_up])
    source, output = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    source.write_text('{"text": "Bees make honey."}\n' * 2)
    err = bulk(capsys, source, output, "--style", "write")
    assert err.count("experimental") == 1
    for line in output.read_text().splitlines():
        expected = ["the number '1555' is not in the article"]
        assert json.loads(line) == {
            "text": "Bees make honey.",
            "summary": "Honey was made in 1555.",
            "summary_warnings": expected,
        }


def test_what_does_not_go_with_a_file_of_texts(file: str, records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each would have been ignored without a word."""
    words = ("run", "summarize", "--input", str(records))
    assert "no other input" in refused(capsys, *words, file)
    assert "do not go with --input" in refused(capsys, *words, "--title", "Bees")
    assert "do not go with --input" in refused(capsys, *words, "--show-source")
    assert "go with --input" in refused(capsys, "run", "summarize", file, "--output", "out.jsonl")
