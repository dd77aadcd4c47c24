"""`suite run translate` and `suite eval translate`: what is typed, piped, interrupted or broken."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from suite import pipeline
from suite.cli.main import main
from suite.task.kit import bulk
from suite.tasks.translate.pipeline import Translator
from suite.tasks.translate.results import Translation


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    """Pipe bytes into standard input, or make it a terminal."""
    stream = io.TextIOWrapper(io.BytesIO(content or b""))
    monkeypatch.setattr(stream, "isatty", lambda: content is None)
    monkeypatch.setattr(sys, "stdin", stream)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, None)


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that must succeed writes to stdout."""
    assert main(arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["run", "translate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("suite: error: ") and err.count("\n") <= 2
    return err


# ---- results


def test_the_command_is_the_pipeline(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "der Hund sieht. Katze liebt Haus."
    expected = pipeline("translate", words, target="en", beams=3)(text, n_best=2)
    options = ["--to", "en", "--beams", "3", "--model", words]
    found = json.loads(result(capsys, "run", "translate", text, "--n-best", "2", "--json", "--align", *options))
    assert (found["text"], found["source"], found["target"]) == (expected.text, "de", "en")
    assert found["score"] == pytest.approx(expected.score) and found["probability"] == pytest.approx(
        expected.probability
    )
    assert [one["score"] for one in found["sentences"]] == pytest.approx([one.score for one in expected.sentences])
    assert [text[one["start"] : one["end"]] for one in found["sentences"]] == ["der Hund sieht.", "Katze liebt Haus."]
    assert len(found["sentences"][0]["alternatives"]) == 1
    assert found["sentences"][0]["alignment"]["source"] == ["der", "Hund", "sieht", "."]
    assert result(capsys, "run", "translate", text, "-q", *options) == expected.text + "\n"


def test_a_text_comes_from_a_file_or_a_pipe(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = "1. der Hund.\r\n\r\n- Katze. 😀\n".encode()
    file = tmp_path / "text.txt"
    file.write_bytes(b"\xef\xbb\xbf" + content)
    options = ["--from", "de", "--to", "en", "--model", words]
    expected = "1. the dog.\r\n\r\n- cat. 😀\n"
    assert result(capsys, "run", "translate", "--file", str(file), *options) == expected
    for arguments in ([], ["-"], ["--file", "-"]):
        stdin(monkeypatch, content)
        assert result(capsys, "run", "translate", *arguments, *options) == expected
    for content, expected in ((b"", "\n"), (b"Katze.\r\n", "cat.\r\n"), (b"Katze.\n\n", "cat.\n\n")):
        stdin(monkeypatch, content)
        assert result(capsys, "run", "translate", *options) == expected, "the last line end is the document's"


def test_the_name_of_a_file_is_text_with_a_warning(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`suite run summarize article.txt` reads the file, so people try that here."""
    monkeypatch.chdir(tmp_path)
    options = ["--from", "de", "--to", "en", "--model", words]
    for name in ("Hund", "Hund " * 1000):  # the second is too long to be a file's
        assert main(["run", "translate", name, *options]) == 0
        assert "used as text" not in capsys.readouterr().err
    Path("Hund").write_text("Katze.")
    assert main(["run", "translate", "Hund", *options]) == 0
    out, err = capsys.readouterr()
    assert out == "dog.\n" and "warning: 'Hund' is used as text; to read the file of that name, use --file" in err
    assert main(["run", "translate", "Hund", "-q", *options]) == 0
    assert capsys.readouterr().err == ""


def test_the_language_taken_is_told_apart_from_the_result(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--to", "en", "--model", words]
    assert main(["run", "translate", "der Hund sieht der Katze und Haus.", "le chien voit.", *options]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 2 and "from de (detected, " in err and "from fr (detected, " in err
    for silent in (["--from", "de"], ["-q"], ["--json"]):
        assert main(["run", "translate", "der Hund.", *silent, *options]) == 0
        assert capsys.readouterr().err == ""


def test_warnings_are_told(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    english = "The weather has been quite awful for the whole week."
    assert main(["run", "translate", english, "--from", "de", "--to", "en", "--model", words]) == 0
    assert "warning: the text looks like en" in capsys.readouterr().err
    many = "der Hund sieht Katze " * 100
    assert main(["run", "translate", many, "--from", "de", "--to", "en", "--model", words]) == 0
    err = capsys.readouterr().err
    assert "parts" in err and err.count("\n") < 15, "hundreds of lines for one text hide what they say"


def test_alternatives_and_alignment_are_shown(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--from", "de", "--to", "en", "--model", words]
    lines = result(capsys, "run", "translate", "der Hund. Katze.", "--n-best", "2", *options).splitlines()
    assert len(lines) == 5 and lines[0].endswith("  the dog.") and lines[2] == ""
    picture = tmp_path / "a.svg"
    out = result(capsys, "run", "translate", "der Hund.", "--align", "--plot", str(picture), *options)
    assert out.startswith("the dog.\n\nthe  der") and "dog  Hund" in out
    assert "<svg" in picture.read_text()


def test_forced_words(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Hund\tbird\n")
    options = ["--from", "de", "--to", "en", "--model", words]
    assert "bird" in result(capsys, "run", "translate", "der Hund sieht.", "--glossary", str(glossary), *options)
    assert result(capsys, "run", "translate", "der Hund.", "--prefix", "house", *options).startswith("house")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["a", "--to", "es"], "does not know the language 'es'; available: de, en, fr"),
        (["a", "--from", "xx", "--to", "en"], "does not know the language 'xx'"),
        (["a", "--from", "en", "--to", "fr"], "available: de to en, en to de, fr to en"),
        (["a", "--from", "de", "--to", "de"], "not trained to translate from de to de"),
        (["a\udcff", "--to", "en"], "lone surrogate"),
        (["--to", "en"], "there is no input: give a TEXT"),
        (["a", "--file", "b", "--to", "en"], "not both"),
        (["a", "b", "--file", "b", "--to", "en"], "not both"),
        (["--file", "nowhere.txt", "--to", "en"], "nowhere.txt: No such file"),
        (["a", "--to", "en", "--n-best", "6"], "raise --beams"),
        (["a", "--to", "en", "--length-penalty", "nan"], "error: length_penalty is nan, but must be a number"),
        (["a", "--model", "lm"], "lm is not a translation model (its task is lm); choose another\n"),
        (["a", "--to", "en", "--plot", "a.xyz"], "xyz"),
        (["a", "--to", "en", "--glossary", "nowhere.tsv"], "nowhere.tsv"),
        (["a", "--to", "en", "--output", "b"], "--output and --column go with --input"),
        (["a", "--to", "en", "--input", "b", "--output", "c"], "--input takes no TEXT"),
        (["--to", "en", "--input", "b.tsv", "--json"], "--input takes no TEXT, --file, --json"),
        (["--to", "en", "--input", "nowhere.tsv", "--output", "nowhere.tsv"], "nowhere.tsv"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: str, capsys: pytest.CaptureFixture[str], arguments: list[str], part: str
) -> None:
    assert part in refused(capsys, "--model", words, *arguments)


def test_input_that_is_not_utf_8_is_refused_by_its_byte(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(monkeypatch, b"caf\xe9")
    assert "byte 3 is 0xe9" in refused(capsys, "--to", "en", "--model", words)


def test_help_costs_nothing() -> None:
    code = "import sys; from suite.cli.main import main; main(['run', 'translate', '--help']); sys.exit('torch' in "
    code += "sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert found.returncode == 0 and "--glossary" in found.stdout, found.stderr


# ---- files


def bulk_command(words: str, source: Path, output: Path, *more: str) -> list[str]:
    options = ["--from", "de", "--to", "en", "--beams", "2", "--model", words]
    return ["run", "translate", "--input", str(source), "--output", str(output), *options, *more]


def test_each_line_of_a_text_is_a_record(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "deep" / "out.txt"
    source.write_bytes("der Hund.\r\n\nKatze. Haus.\n😀\nHaus. \x85der Vogel.".encode())
    assert result(capsys, *bulk_command(words, source, output)) == ""
    assert output.read_bytes() == "the dog.\r\n\ncat. house.\n😀\nhouse. \x85the bird.\n".encode()
    assert [path.name for path in output.parent.iterdir()] == ["out.txt"]


def test_a_table_gets_one_more_column(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "in.tsv", tmp_path / "out.tsv"
    source.write_text('1\tder Hund.\tx\n2\t\ty\n3\t"Katze\tz\n')
    assert main(bulk_command(words, source, output, "--column", "2")) == 0
    lines = output.read_text().splitlines()
    assert lines[:2] == ["1\tder Hund.\tx\tthe dog.", "2\t\ty\t"] and lines[2].startswith('3\t"Katze\tz\t')
    source.write_text("id\tsatz\n1\tHaus.\n")
    assert main(bulk_command(words, source, tmp_path / "named.tsv", "--column", "satz")) == 0
    assert (tmp_path / "named.tsv").read_text() == "id\tsatz\ttranslation\n1\tHaus.\thouse.\n"


def test_a_line_end_within_a_cell_stops_no_table(words: str, tmp_path: Path) -> None:
    """It is in the translation, too, which does not fit a .tsv: the work ended there, on every run again."""
    source, output = tmp_path / "in.tsv", tmp_path / "out.tsv"
    source.write_bytes(b"Hund.\rKatze.\tx\nHaus.\ty\n")
    assert main(bulk_command(words, source, output)) == 0
    assert output.read_bytes() == b"Hund.\rKatze.\tx\tdog. cat.\nHaus.\ty\thouse.\n"


def test_csv_is_a_table_too(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was taken for a text a line: header, quotes and other columns were translated with it."""
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes('\ufeffid;"satz"\r\n"1;""x""";"Katze.\nHund."\r\n\r\n"2";Haus.'.encode())
    assert main(bulk_command(words, source, output, "--column", "satz")) == 0
    expected = '\ufeffid;"satz";translation\r\n"1;""x""";"Katze.\nHund.";"cat.\ndog."\r\n;;\r\n"2";Haus.;house.\n'
    assert output.read_bytes().decode() == expected


def test_json_lines_get_their_fields(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"n": 1, "t": "der\nHund."},
        {"n": 2, "t": ""},
        {"n": 3, "t": "The weather has been quite awful for weeks."},
    ]
    source.write_text("\n\n".join(map(json.dumps, rows)))
    assert main(bulk_command(words, source, output, "--field", "t")) == 0
    assert "line 5: the text looks like en" in capsys.readouterr().err
    first, second, third = map(json.loads, output.read_text().splitlines())
    assert (first["n"], first["t"], first["translation"].split("\n")[1]) == (1, "der\nHund.", "dog.")
    assert (first["translation_source"], first["translation_warnings"]) == ("de", []) and first["translation_score"] < 0
    assert (second["translation"], second["translation_score"], second["translation_warnings"]) == ("", 0.0, [])
    assert second["translation_source"] is None
    assert "looks like en" in third["translation_warnings"][0]


@pytest.fixture
def halting(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Translate two records at a time, and stop as by Ctrl-C where `left` is used up; `seen` counts the texts."""
    state: dict[str, Any] = {"left": 1000, "seen": 0}
    whole = Translator.__call__

    def call(self: Translator, texts: Sequence[str], **options: Any) -> list[Translation]:
        state["left"] -= 1
        if state["left"] < 0:
            raise KeyboardInterrupt
        state["seen"] += len(texts)
        return whole(self, texts, **options)

    chunks = bulk._chunks
    monkeypatch.setattr(bulk, "_chunks", lambda rows, most, characters: chunks(rows, 2, characters))
    monkeypatch.setattr(Translator, "__call__", call)
    return state


LINES = ["der Hund.", "Katze.", "Haus sieht.", "", "der Vogel.", "Vogel liebt.", "heute."]


def test_a_run_that_stopped_goes_on(
    words: str, tmp_path: Path, halting: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Starting over, or translating a record twice, makes a long run on a small machine hopeless."""
    source = tmp_path / "in.txt"
    source.write_text("\n".join(LINES) + "\n")
    command = bulk_command(words, source, tmp_path / "out.txt")
    halting["left"] = 2
    assert main(command) == 130
    assert "4 records done; give the same command again to resume" in capsys.readouterr().err
    part = tmp_path / "out.txt.part"
    assert part.exists() and not (tmp_path / "out.txt").exists()
    with part.open("a") as file:
        file.write("the unfinished li")  # what a power cut leaves
    halting.update(left=1000, seen=0)
    assert main(command) == 0
    assert halting["seen"] == 3 and "7 records, 4 of them before" in capsys.readouterr().err
    assert not part.exists()
    whole = (tmp_path / "out.txt").read_bytes()
    assert main(bulk_command(words, source, tmp_path / "at-once.txt")) == 0
    assert (tmp_path / "at-once.txt").read_bytes() == whole


@pytest.mark.parametrize("name", ["in.txt", "in.tsv", "in.csv", "in.jsonl"])
def test_another_results_place_is_not_taken(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A file of as many lines was called finished, though it was another input's, another language's, or anything."""
    output = tmp_path / name.replace("in", "out")
    for text in ("Katze.", "Hund."):
        (tmp_path / name).write_text(json.dumps({"text": text}) + "\n" if name == "in.jsonl" else f"{text}\n")
        if text == "Katze.":
            assert main(bulk_command(words, tmp_path / name, output)) == 0
            content = output.read_bytes()
            capsys.readouterr()
    assert "exists already; remove it" in refused(capsys, *bulk_command(words, tmp_path / name, output)[2:])
    assert output.read_bytes() == content and len(list(tmp_path.iterdir())) == 2


def test_a_run_does_not_go_on_with_another(
    words: str, tmp_path: Path, halting: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of a file by one model and half by another is no result of anything."""
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(LINES))
    halting["left"] = 1
    assert main(bulk_command(words, source, output)) == 130
    capsys.readouterr()
    halting["left"] = 1000
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Hund\tbird\n")
    for name, *more in (
        ("beams", "--beams", "3"),
        ("quantize", "--quantize", "int8"),
        ("prefix", "--prefix", "the"),
        ("length_penalty", "--length-penalty", "1.5"),
        ("glossary", "--glossary", str(glossary)),
    ):
        told = refused(capsys, *bulk_command(words, source, output, *more)[2:])
        assert f"begun with another {name};" in told
    source.write_text("\n".join(LINES) + "\nmore")
    assert "begun with another input;" in refused(capsys, *bulk_command(words, source, output)[2:])


def test_an_unfinished_output_of_before_is_refused(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose first line said what it belongs to; now a file beside it does."""
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(LINES))
    part = tmp_path / "out.txt.part"
    part.write_text('{"beams": 2}\n"the dog.\\n"\n')
    told = refused(capsys, *bulk_command(words, source, output)[2:])
    assert "out.txt.part is in the way, and is not the unfinished output of this command: remove it" in told
    part.unlink()
    assert main(bulk_command(words, source, output)) == 0


def test_doubts_and_languages_are_told_at_the_end(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    english = "The weather has been quite awful for the whole week.\n"
    source.write_text("le chien voit le chat et maison.\nder Hund sieht der Katze und Haus.\n\n" * 2 + english * 11)
    command = ["run", "translate", "--input", str(source), "--output", str(output), "--to", "en", "--model", words]
    assert main([*command, "--beams", "1"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(f"warning: {source}, line 7: the text looks like en" in line for line in lines)
    assert sum("warning: " in line for line in lines) == 10, "as many are shown one by one"
    assert any(line.startswith("17 records: ") for line in lines)
    counted = next(line for line in lines if line.startswith("from "))
    assert counted == "from fr: 13, de: 2"
    assert lines[-1].endswith(" warnings; the first 10 are shown, and .jsonl output has all")
    output.unlink()
    assert main([*command, "--beams", "1", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_without_an_output_results_go_to_standard_output(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("Hund.\nKatze.\n")
    options = ["--from", "de", "--to", "en", "--model", words]
    assert result(capsys, "run", "translate", "--input", str(tmp_path / "in.txt"), *options) == "dog.\ncat.\n"
    stdin(monkeypatch, b"Haus.\n")
    assert result(capsys, "run", "translate", "--input", "-", *options) == "house.\n"


@pytest.mark.parametrize(
    ("name", "content", "more", "part"),
    [
        ("a.txt", b"ab\ncaf\xe9", [], "a.txt, line 2: not UTF-8, byte 0xe9 at offset 6"),
        ("a.tsv", b"1\tx\n2\n", ["--column", "2"], "a.tsv, line 2: 1 cell, where the first row has 2"),
        ("a.tsv", b"id\tx\n", ["--column", "y"], "line 1: no column 'y'; available: id, x"),
        ("a.tsv", b"a\n", ["--column", "0"], "no column '0'"),
        ("a.jsonl", b'{"text": "a"}\n[1]\n', [], "a.jsonl, line 2: a JSON object is needed"),
        ("a.jsonl", b'{"text": "a"}\n{"txt": 1}\n', [], "line 2: no field 'text'; available: txt"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', [], "a.jsonl, line 1: half of a surrogate pair"),
        ("a.jsonl", b"{\n", [], "line 1: not JSON"),
        ("a.csv", b'x,y\n"a,b,c\n', [], "a.csv, line 2: not CSV (unexpected end of data)"),
        ("a.csv", b"x,y\na, b, c\n", ["--column", "y"], "a.csv, line 2: 3 cells, where the first row has 2"),
        ("a.json", b"[]", [], "a.json: bulk work reads and writes .csv, .tsv"),
        ("a.txt", b"a\n", ["--column", "x"], "lines of text have no columns"),
        ("a.txt", b"a\n", ["--output", "."], "is a directory"),
        ("a.txt", b"a\n", ["--output", "/"], "is a directory"),
        ("a.txt", b"a\n", ["--output", "a.txt"], "is the input"),
        ("a.txt", b"a\n", ["--output", "b.txt.gz"], "leave out .gz"),
    ],
)
def test_files_that_cannot_be_are_one_line(
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    more: list[str],
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    output = Path(name).with_stem("out")
    assert part in refused(capsys, *bulk_command(words, Path(name), output, *more)[2:])
    assert Path(name).read_bytes() == content and [path.name for path in Path().iterdir()] == [name]


def test_a_field_that_is_there_already_is_kept(words: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "Hund.", "translation": "mine"}\n')
    assert main(bulk_command(words, tmp_path / "a.jsonl", tmp_path / "b.jsonl")) == 0
    found = json.loads((tmp_path / "b.jsonl").read_text())
    assert (found["translation"], found["predicted_translation"]) == ("mine", "dog.")


def test_a_comma_in_prose_parts_no_cells(words: str, tmp_path: Path) -> None:
    """Read by the same rule as the tables that models learn from, and written back as it stood, Excel's line too."""
    file, output = tmp_path / "a.csv", tmp_path / "b.csv"
    file.write_text("sep=;\nHund, Katze;7\nKatze, Hund;8\n", encoding="utf-8")
    assert main(bulk_command(words, file, output)) == 0
    assert output.read_text() == "sep=;\nHund, Katze;7;dog cat.\nKatze, Hund;8;cat dog.\n"


# ---- evaluation


def test_eval_stands_beside_its_baselines(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("der Hund sieht Katze.\tthe dog sees cat.\nKatze liebt.\tcat loves.\nHaus.\t\n" * 3)
    options = ["--source", "de", "--target", "en", "--train", str(data), "--beams", "1", "--model", words]
    found = json.loads(result(capsys, "eval", "translate", str(data), *options, "--json"))
    assert found["sentences"] == 6 and set(found["results"]) == {"model", "copy", "nearest training sentence"}
    assert main(["eval", "translate", str(data), *options, "--limit", "2"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 4 and all(name in lines[0] for name in ("BLEU", "BLEU lowercased", "chrF2"))
    assert "2 sentences from de to en" in err and "tok:13a" in err and "3 pairs with an empty side" in err


def test_eval_names_the_line_without_a_tab(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\nc\n")
    (tmp_path / "a.en").write_text("a\nb\n")
    (tmp_path / "a.de").write_text("a\n")
    options = ["--source", "de", "--target", "en", "--model", words]
    for data, part in ((f"{tmp_path}/pairs.tsv", "pairs.tsv, line 2"), (f"{tmp_path}/a.de,{tmp_path}/a.en", "a.en")):
        assert main(["eval", "translate", data, *options]) == 2
        err = capsys.readouterr().err
        assert part in err and err.count("\n") == 1


def test_eval_writes_markdown(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.tsv").write_text("Hund.\tdog.\n")
    options = ["--source", "de", "--target", "en", "--beams", "1", "--model", words]
    out = result(capsys, "eval", "translate", str(tmp_path / "pairs.tsv"), *options, "--markdown")
    assert out.startswith("|  | BLEU | BLEU lowercased | chrF2 | length |\n") and "\n- BLEU: nrefs:1|" in out
    assert main(["eval", "translate", str(tmp_path / "pairs.tsv"), *options, "--markdown", "--json"]) == 2
