"""Pipes, devices and closed streams: what a shell can do to a command ends in a result or in one line."""

import os
from pathlib import Path

import pytest

from suite.cli.main import main


@pytest.mark.parametrize(
    "command",
    [
        "run music --seconds 1 --primer pipe.mid",
        "run music --melody pipe.mid",
        "run music --seconds 1 --ending pipe.mid",
        "run lm --file pipe.txt",
        "run lm --input pipe.txt",
        "next --file pipe.txt",
        "run classify --file pipe.txt",
        "run translate --to en --file pipe.txt",
        "run translate --to en --glossary pipe.txt Hallo",
        "run summarize pipe.html",
        "train pipe.toml --out run",
        "train lm --data pipe.txt --out run",
        "eval lm pipe.txt",
        "eval music pipe.mid",
    ],
)
def test_a_pipe_that_nobody_writes_to_does_not_block(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command waited for ever in opening it."""
    monkeypatch.chdir(tmp_path)
    (name,) = (word for word in command.split() if word.startswith("pipe."))
    os.mkfifo(name)
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("suite: error: ") and name in line and "pipe" in line.replace(name, "")


@pytest.mark.parametrize("option", ["-o pipe.mid", "--wav pipe.wav", "--plot pipe.svg"])
def test_music_replaces_no_pipe(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before anything is generated."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo(option.split()[1])
    assert main(["run", "music", "--seconds", "1", *option.split()]) == 2
    assert "is a device or a pipe; name a regular file" in capsys.readouterr().err
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]
