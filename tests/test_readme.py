"""What a newcomer sees first: `make demo`. The commands of README.md are tested in test_docs.py."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from suite.cli.main import main

ROOT = Path(__file__).parents[1]
DEMO = re.findall(r"^\t\$\(BIN\)/suite (.+)", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", DEMO)
def test_the_demo_puts_nobody_off(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its text said that the Earth was the second largest Sun, and README's violin was labelled "unsure"."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)  # it writes files
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main(shlex.split(line)) == 0
    out, err = capsys.readouterr()
    assert out.strip() and "unsure" not in out and "warning" not in err and "experimental" not in err
    expected = {
        "lm": r"founded in \w+",
        "next": " ?War",
        "translate": "Hund|station",
        "summarize": "Timor is an island",
        "classify": "Music",
        "music": r"demo\.mid",
    }
    command = next(word for word in shlex.split(line) if word != "run")
    assert re.search(expected[command], out.splitlines()[0])
    assert all((tmp_path / name).stat().st_size > 500 for name in re.findall(r"demo\.\w+", line))
