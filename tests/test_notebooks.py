"""The notebooks run as they stand, and what they store is fit for others to read."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
LARGEST = 400 * 1024  # bytes
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home|root|tmp|Users|usr|opt|var)\b")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs(book: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What the cells of a notebook gave."""
    for cell in book["cells"]:
        yield from cell.get("outputs", ())


def test_there_are_notebooks() -> None:
    """A folder that moved would leave the tests below without anything to test."""
    assert NOTEBOOKS


@pytest.mark.notebook
@each_notebook
def test_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that changes in the package must change in the notebook; a warning would stand in the reader's page."""
    reason = "notebooks are not run: they need nbclient and ipykernel (pip install 'decoder-suite[test]')"
    nbformat = pytest.importorskip("nbformat", reason=reason)
    nbclient = pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    # a kernel of this Python, whatever kernels, settings and start-up files the user has
    kernel = tmp_path / "jupyter" / "kernels" / "this"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "this", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    folder = tmp_path / "empty"
    folder.mkdir()

    book = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(book, kernel_name="this", timeout=None, resources=resources).execute()

    told = [output["text"] for output in outputs(book) if output.get("name") == "stderr"]
    assert told == []
    assert list(folder.iterdir()) == []


@each_notebook
def test_stored_outputs_are_clean(path: Path) -> None:
    """An error, a warning or a path of somebody's machine would be published with the page."""
    book = json.loads(path.read_text(encoding="utf-8"))
    found = list(outputs(book))
    assert found, "the notebook is stored without its outputs"
    assert not [output for output in found if output["output_type"] == "error" or output.get("name") == "stderr"]
    without_pictures = [
        {kind: text for kind, text in output.get("data", {"text": output.get("text")}).items() if "image" not in kind}
        for output in found
    ]
    assert not MACHINE_PATH.findall(json.dumps([without_pictures, book["metadata"]], ensure_ascii=False))


@each_notebook
def test_is_small(path: Path) -> None:
    """Pictures and sound grow a repository with each run that is stored."""
    assert path.stat().st_size < LARGEST
