"""A text on the command line that is the name of a file."""

import io
import json
import sys
from pathlib import Path

import pytest

from suite import load
from suite.cli.main import main
from suite.cli.options import is_file_name, prompt_text

NAMES = [
    *("article.txt", "NOTES.TXT", "notes/a.md", "page.html", "a.json", "rows.jsonl.gz", "pairs.tsv", "paper.pdf"),
    *("letter.docx", "table.csv", "*.txt", "my.docs.v2/notes.txt", "./a", "../a/b", "~/letter", "~me/letter"),
]
WORDS = [
    *(
        "word",
        "e.g.",
        "i.e.",
        "U.S.",
        "3.14",
        "1.2.3",
        "/s",
        "/",
        "and/or",
        "24/7",
        ".",
        "..",
        "...",
        "./",
        "./.txt"[2:],
    ),
    *(
        "example.com",
        "example.com/page.html",
        "https://example.org/page.html",
        "www.example.org/a.txt",
        "ftp://a.org/a.txt",
    ),
    *("me@example.md", "mailto:me@example.md", "Node.js", "console.log", "file.read()", "read article.txt", "a b.txt"),
    *("/nowhere-at-all/notes", "", "\n", "Hello.", "text.", "C.", "~"),
]
TAKES_TEXT = [["run", "lm"], ["next"], ["run", "translate"], ["run", "classify"]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The error line of a command that must fail."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("suite: error: ")
    return err.splitlines()[0]


def test_what_looks_like_the_name_of_a_file() -> None:
    assert [name for name in NAMES if not is_file_name(name)] == []
    assert [word for word in WORDS if is_file_name(word)] == []
    assert is_file_name(f"{Path.cwd()}/letter"), "its first folder is there"


def test_words_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    for word in (word for word in WORDS if word):
        assert prompt_text(word, None) == word
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", TAKES_TEXT, ids=" ".join)
def test_the_name_of_no_file_is_refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`suite run lm article.txt` continued the name where there was no such file."""
    assert refused(capsys, *command, "article.txt") == (
        "suite: error: 'article.txt' looks like a file name, but there is no such file; to use the name itself as "
        f"text, pipe it in: echo article.txt | suite {' '.join(command)}"
    )


@pytest.mark.parametrize("command", TAKES_TEXT, ids=" ".join)
def test_the_name_of_a_file_is_refused_with_the_option_that_reads_it(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`suite run lm article.txt` continued the name, too, where there was one."""
    Path("my article.txt").write_text("text")
    assert "is a file; to read it, use --file 'my article.txt'; " in refused(capsys, *command, "my article.txt")
    Path("folder").mkdir()
    assert "'./folder' is a folder, but a text is needed; " in refused(capsys, *command, "./folder")
    Path("folder/plain").write_text("text")
    assert "use --file folder/plain; " in refused(capsys, *command, "folder/plain")
    Path("rows.csv").write_text("text\n")
    option = "--input" if command[-1] in ("lm", "translate", "classify") else "--file"
    assert f"use {option} rows.csv; " in refused(capsys, *command, "rows.csv")


@pytest.mark.parametrize("command", ["translate", "classify"])
def test_each_of_several_texts_is_looked_at(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'b.txt' looks like" in refused(capsys, "run", command, "a text", "b.txt")


def test_a_word_that_is_also_a_file_is_text_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    Path("README").write_text("text")
    assert prompt_text("README", None) == "README"
    assert "warning: 'README' is used as text; to read the file of that name, use --file" in capsys.readouterr().err
    assert prompt_text("README", None, quiet=True) == "README"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (["run", "lm", "-n", "1", "--seed", "1"], "prompt"),
        (["next", "-k", "1"], "prompt"),
        (["run", "translate", "--from", "en", "--to", "de"], "source_text"),
        (["run", "classify"], "text"),
    ],
    ids=["lm", "next", "translate", "classify"],
)
def test_piped_in_a_name_is_text(
    command: list[str], key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the error says, with every command."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"article.txt\n")))
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[key].strip() == "article.txt"


def test_parameters_are_counted_however_a_model_was_prepared() -> None:
    """Weights for inference alone are no parameters of torch's, and a count of 0 would call GPT-2 small."""
    assert load("lm", quantize="int8").parameters == load("lm").parameters == 7_539_520
