"""Pipes, devices and closed streams: what a shell can do to a command ends in a result or in one line."""

import json
import os
import shlex
import subprocess
import sys
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


CLOSED = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full")


@pytest.mark.parametrize("redirection", CLOSED)
def test_closed_streams_end_no_command(redirection: str, tmp_path: Path) -> None:
    """`sys.stdout` is None where the shell closed it, and what was opened next got its number."""
    trains = redirection == "2>&-"
    write_recipe(tmp_path)
    code = (
        "import sys; from suite.cli.main import main; from suite.cli.show import notice, write; import click\n"
        "def told(*words): notice('a notice'); write('a result\\n'); click.echo(sys.stdin.read())\n"
        "main.__globals__['cli'].add_command(click.Command('told', callback=told)); codes = [main(['told'])]\n"
        "codes.append(main(['run', 'lm', '--no-such-option']))\n"
        f"if {trains}: codes.append(main(['train', 'tiny.toml', '--out', 'run']))\n"
        "open('codes', 'w').write(repr(codes))"
    )
    (tmp_path / "told.py").write_text(code)
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(sys.executable)} told.py {redirection}"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (tmp_path / "codes").read_text() == ("[0, 2, 0]" if trains else "[0, 2]"), done.stderr
    assert "Traceback" not in done.stderr
    if ">&-" not in redirection.replace("2>&-", ""):
        assert done.stdout.startswith("a result\n")
    if not trains:
        return
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == 2, "no notice went into a file"


def write_recipe(folder: Path, *more: str) -> None:
    """A recipe of two steps, tiny.toml."""
    (folder / "cat.txt").write_text("the cat sat on the mat.\n" * 60)
    lines = [
        'task = "lm"',
        "data = {train = ['cat.txt'], held_out = 0.3}",
        "run = {steps = 2, log_every = 1, valid_every = 1}",
        "batch = {size = 2}",
        "tokenizer = {kind = 'bytes'}",
        "model = {context = 16, d_model = 16, n_layer = 1, n_head = 2}",
        *more,
    ]
    (folder / "tiny.toml").write_text("\n".join(lines))


@pytest.mark.parametrize(
    "command", ["run lm a", "run classify a", "run translate a --to en", "next a", "train tiny.toml --out run"]
)
@pytest.mark.parametrize("device", ["meta", "nonsense"])
def test_a_device_that_computes_nothing_is_refused(
    command: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`meta` ended in a NotImplementedError after the model was read, or never finished."""
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    assert main([*command.split(), "--device", device]) == 2
    assert f"suite: error: device '{device}' cannot be used here" in capsys.readouterr().err
