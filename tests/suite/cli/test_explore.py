"""`suite explore`: quick to name, and plain about what is missing."""

import socket
import subprocess
import sys

import pytest

from suite.cli import explore, main


def test_the_command_imports_no_server_before_it_is_needed() -> None:
    code = (
        "import sys; from suite.cli.main import main; main(['explore', '--help']); "
        "sys.exit(', '.join({'starlette', 'uvicorn', 'torch'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Look inside a model" in done.stdout


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(explore, "find_spec", lambda name: None if name == "uvicorn" else object())
    assert main.main(["explore"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == (
        "suite: error: the page needs uvicorn; install it: pip install 'decoder-suite[explore]'\n"
    )


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main.main(["explore", "--port", str(port), "--no-browser"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"suite: error: port {port} cannot be used (") and "choose another with --port" in err


def test_a_model_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    assert main.main(["explore", "--model", "./nowhere", "--no-browser"]) == 2
    assert "suite: error: " in capsys.readouterr().err
