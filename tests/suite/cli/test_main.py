"""The command line must be quick to start, and must never answer a user's mistake with a traceback."""

import io
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest

from suite.cli import groups, main
from suite.errors import SuiteError

HEAVY = "{'torch', 'numpy', 'tiktoken', 'transformers', 'datasets'}"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What stderr says to a command that must fail with 2 and leave stdout empty."""
    assert main.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    assert err.startswith("suite: error: ") and err.count("\n") <= 2
    return err


def boom(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `suite boom` raise an error."""

    def callback() -> None:
        raise error

    monkeypatch.setitem(main.cli.commands, "boom", click.Command("boom", callback=callback))


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--help"], {}),
        (["run", "--help"], {}),
        (["run", "lm", "--help"], {}),
        (["eval", "lm", "--help"], {}),
        (["train", "--help"], {}),
        (["models"], {}),
        (["completion", "bash"], {}),
        ([], {"_SUITE_COMPLETE": "bash_complete", "COMP_WORDS": "suite run ", "COMP_CWORD": "2"}),
        ([], {"_SUITE_COMPLETE": "bash_complete", "COMP_WORDS": "suite run lm --model ", "COMP_CWORD": "4"}),
    ],
)
def test_help_and_completion_import_nothing_heavy(words: list[str], environment: dict[str, str]) -> None:
    """torch alone takes seconds; a Tab key that takes seconds is not pressed twice."""
    code = (
        "import sys; from suite.cli.main import main; code = main(sys.argv[1:]); "
        f"sys.exit(code or ', '.join({HEAVY} & set(sys.modules)) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["rnu"], "'run'"),
        (["run", "l"], "'lm'"),
        (["eval", "lmm"], "'lm'"),
        (["models", "shwo"], "'show'"),
        (["run", "lm", "--tempature", "1"], "'--temperature'"),
        (["train", "lmm", "--out", "x"], "'lm'"),
    ],
)
def test_an_unknown_word_is_told_its_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], nearest: str
) -> None:
    assert nearest in refused(capsys, *words)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SuiteError("this and\nthat"), "suite: error: this and that\n"),
        (PermissionError(13, "Permission denied", "a.txt"), "suite: error: a.txt: Permission denied\n"),
        (OSError("it broke"), "suite: error: it broke\n"),
        (click.ClickException("no"), "suite: error: no\n"),
    ],
)
def test_what_a_user_can_cause_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    boom(monkeypatch, error)
    assert refused(capsys, "boom") == line


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    boom(monkeypatch, error)
    assert "not enough memory" in refused(capsys, "boom")


def test_a_bug_stays_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no user caused is ours: it must not be swallowed into a line."""
    boom(monkeypatch, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError):
        main.main(["boom"])
    boom(monkeypatch, SuiteError("where from?"))
    monkeypatch.setenv("SUITE_DEBUG", "1")
    with pytest.raises(SuiteError):
        main.main(["boom"])


def test_ctrl_c_is_130_and_passes_on_what_was_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boom(monkeypatch, KeyboardInterrupt("stopped at step 7; give the same command again to resume"))
    assert main.main(["boom"]) == 130
    assert "stopped at step 7" in capsys.readouterr().err
    boom(monkeypatch, KeyboardInterrupt())
    assert main.main(["boom"]) == 130
    assert capsys.readouterr().err == "\nsuite: interrupted\n"


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    """`suite ... | head` must be silent; 141 is what the shell shows for every program that a closed pipe ended."""
    command = [sys.executable, "-m", "suite.cli.main", "--help"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-m", "suite.cli.main", "--help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == b"suite: error: No space left on device\n"


def test_output_survives_a_terminal_that_is_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stdout is Latin-1, `print("€")` raises UnicodeEncodeError."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    monkeypatch.setitem(main.cli.commands, "say", click.Command("say", callback=lambda: click.echo("é € \udcff")))
    assert main.main(["say"]) == 0
    assert raw.getvalue() == b"\xe9 \\u20ac \\udcff\n"


def test_without_arguments_stands_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_tasks_stand_with_their_summary_beside_one_that_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody's package that no longer imports must not take ours away."""
    registered = groups.registered()
    broken = EntryPoint("haiku", "no_such_package.haiku:Task", "suite.tasks")
    monkeypatch.setattr("suite.task.registry.registered", lambda: registered | {"haiku": broken})
    monkeypatch.setattr(groups, "registered", lambda: registered | {"haiku": broken})
    assert main.main(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert "continue a text, token by token" in out
    assert "haiku" in out and "cannot be imported" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main.main(["completion", shell]) == 0
    assert f"_SUITE_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_completion_knows_tasks_and_embedded_models(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("suite.cli.options.embedded", lambda: {"lm": Path("x"), "haiku": Path("y")})
    monkeypatch.setenv("_SUITE_COMPLETE", "bash_complete")
    for line, word, found in [
        ("suite run l", "2", "plain,lm\n"),
        ("suite train l", "2", "plain,lm\nfile,l\n"),
        ("suite run lm --model ha", "4", "plain,haiku\ndir,ha\n"),
        ("suite models show l", "3", "plain,lm\ndir,l\n"),
    ]:
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", word)
        assert main.main([]) == 0
        assert capsys.readouterr().out == found
