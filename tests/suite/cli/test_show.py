"""Tables stay aligned and figures stay true, whatever stands in them."""

import io
import sys

import click
import pytest

from suite.cli import show


def terminal(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.00%"), (1e-9, "<0.01%"), (0.31234, "31.23%"), (0.999999, ">99.99%"), (1.0, "100.00%")],
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(share: float, text: str) -> None:
    assert show.percent(share) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (8 << 20, "8.0 MiB"), (3 << 40, "3.0 TiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert show.size(count) == text


def test_columns_line_up_behind_wide_characters_and_combining_marks() -> None:
    """Padding by len() shifts every column after a Chinese token."""
    lines = show.table([["日本", "1"], ["e\u0301", "22"], [click.style("abc", fg="red"), "333"]], "lr")
    assert [click.unstyle(line) for line in lines] == ["日本    1", "e\u0301      22", "abc   333"]


def test_bars_are_exact_to_an_eighth(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, "utf-8")
    assert show.bar(0.0, 10) == ""
    assert click.unstyle(show.bar(1.0, 10)) == "█" * 10
    assert click.unstyle(show.bar(0.5, 9)) == "████▌"


def test_bars_and_tokens_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, "ascii")
    assert click.unstyle(show.bar(0.5, 10)) == "#####"
    assert show.printable(" the\n") == '" the\\n"'


def test_a_token_is_one_word_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newline in a token must not break the table, nor an escape sequence colour the terminal."""
    terminal(monkeypatch, "utf-8")
    assert show.printable(" the\n\x1b[31m") == "␣the\\n\\x1b[31m"
    assert show.printable("é日") == "é日"


def test_text_is_written_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """click.echo drops escape sequences where stdout is no terminal, and with them a part of the result."""
    show.write("a\x1b[31mb")
    assert capsys.readouterr().out == "a\x1b[31mb"
