"""What a run tells goes where it should: numbers to a file, lines for a person to stderr, nothing to stdout."""

import json
import sys
from pathlib import Path

import pytest

from suite.errors import CheckpointError, ConfigError
from suite.training.report import Reporter, advice, duration, forecast
from suite.training.state import RunDirectory

ROW = {"step": 5, "loss": 2.5, "lr": 1e-3, "tokens_per_second": 1234.5}


def test_plain_lines_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A progress bar in a log file is a mess, and anything on stdout breaks a pipe."""
    reporter = Reporter(tmp_path / "run/metrics.jsonl", 100, 0, None, silent=False)
    reporter.row(ROW, eta=3725.0)
    reporter.row({"step": 5, "valid_loss": 2.25, "best": True})
    reporter.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "step 5/100  loss 2.5000  lr 1.00e-03  1,234 tok/s  eta 1:02:05",
        "step 5/100  valid loss 2.2500  best so far",
    ]
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert rows == [ROW, {"step": 5, "valid_loss": 2.25, "best": True}]


def test_bar_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    reporter = Reporter(tmp_path / "metrics.jsonl", 100, 40, None, silent=False)
    reporter.advance()
    reporter.row(ROW, eta=1.0)
    reporter.close()
    out, err = capsys.readouterr()
    assert out == "" and "41/100" in err and "loss 2.500, 1,234 tok/s" in err


def test_other_ranks_are_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter(tmp_path / "metrics.jsonl", 100, 0, None, silent=True)
    reporter.row(ROW, eta=1.0)
    reporter.say("hello")
    reporter.close()
    assert capsys.readouterr() == ("", "") and not (tmp_path / "metrics.jsonl").exists()


def test_nobody_looks_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook that trains shows no lines that it did not ask for; the numbers are kept all the same."""
    reporter = Reporter(tmp_path / "metrics.jsonl", 100, 0, None, silent=False, show=False)
    reporter.row(ROW, eta=1.0)
    reporter.say("hello")
    reporter.close()
    assert capsys.readouterr() == ("", "") and (tmp_path / "metrics.jsonl").exists()


def test_unwritable_metrics(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    reporter = Reporter(tmp_path / "metrics.jsonl", 100, 0, None, silent=False)
    with pytest.raises(CheckpointError, match="could not write"):
        reporter.row(ROW, eta=1.0)


def test_tensorboard_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for it without having it is told what to install."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install \"decoder-suite\[tensorboard\]\""):
        Reporter(tmp_path / "metrics.jsonl", 100, 0, tmp_path, silent=False)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (100, "1 min 40 s"),
        (1810, "30 min"),
        (3599, "1 h"),
        (7800, "2 h 10 min"),
        (200_000, "2 d 8 h"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_how_long_and_what_would_shorten_it() -> None:
    assert forecast(7800, 6000, 1480.4) == "about 2 h 10 min for 6,000 steps at 1,480 tokens/s"
    assert forecast(3, 1, 9, early=True) == (
        "about 3 s for 1 step at 9 tokens/s, or less if the validation loss stops falling"
    )
    line = advice(7800, 6000, 0, based=False, limited=False)
    assert "--set run.steps=1400 " in line and "model.n_layer" in line and "--max-minutes 30" in line
    line = advice(7800, 6000, 4.0, based=True, limited=True)
    assert "--set run.epochs=0.9 " in line and "--base" in line and "--max-minutes" not in line


@pytest.mark.parametrize("damage", [b"[]\n", b"\xff\xfe\n", b"3\n", b'{"loss": 1}\n', b"[" * 100_000 + b"\n"])
def test_damaged_metrics_are_moved_aside(damage: bytes, tmp_path: Path) -> None:
    """They ended the resume of a run with a traceback."""
    rows = [json.dumps({"step": step}).encode() + b"\n" for step in range(1, 5)]
    directory = RunDirectory(tmp_path)
    directory.metrics.write_bytes(rows[0] + damage + b"".join(rows[1:]))
    assert "metrics.jsonl.damaged" in directory.clean(3)
    assert directory.metrics.read_bytes() == b"".join(rows[:3])
    assert damage in (tmp_path / "metrics.jsonl.damaged").read_bytes()


def test_a_last_line_that_was_cut_off_is_no_damage(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.metrics.write_bytes(b'{"step": 1}\n{"ste')
    assert directory.clean(3) == ""
    assert directory.metrics.read_bytes() == b'{"step": 1}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
