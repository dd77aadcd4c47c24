"""What the project computes is what the golden files say; a change that is meant to alter it runs `make.py` again."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_compare", HERE / "compare.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "section",
    [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("commands", "losses", "logits", "errors")],
)
def test_nothing_changed(section: str, tmp_path: Path) -> None:
    """In a process of its own, so that no other test's settings reach it; and it leaves nothing in the home folder."""
    command = [sys.executable, str(HERE / "make.py"), "--check", section]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr}\nif that is meant, run and commit: python tests/golden/make.py {section}"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"exit": 0, "out": ["a 12.34%"]}, {"exit": 0, "out": ["a 12.35%"]}),
        ({"losses": [4.00001, 3.5]}, {"losses": [4.00002, 3.5]}),
        (["0.1 nats"], ["0.2 nats"]),  # one in the last place shown
    ],
)
def test_rounding_is_no_difference(compare: ModuleType, old: object, new: object) -> None:
    """Sums are taken in another order on another CPU; a golden file that fails there would soon be ignored."""
    assert compare.differences(old, new, "commands") == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"exit": 0}, {"exit": 2}, "exit: was 0, is 2"),
        ({"out": ["12 tokens"]}, {"out": ["13 tokens"]}, "out: 1: was '12 tokens', is '13 tokens'"),
        ({"out": ["a 12.34%"]}, {"out": ["b 12.34%"]}, "out: 1: was 'a 12.34%', is 'b 12.34%'"),
        ({"out": ["a 12.34%"]}, {"out": ["a 12.84%"]}, "out: 1: was 'a 12.34%', is 'a 12.84%'"),
        ({"losses": [4.0]}, {"losses": [4.1]}, "losses: 1: was 4.0, is 4.1"),
        ({"losses": [4.0]}, {"losses": [4.0, 3.0]}, "losses: 1 items were [4.0], and 2 are [4.0, 3.0]"),
        ({"tokens": 3}, {"tokens": 3, "more": 1}, "more: is new"),
        ({"found": None}, {"found": 0.0}, "found: was None, is 0.0"),
        (None, {"exit": 0}, "is new"),
    ],
)
def test_a_difference_is_told(compare: ModuleType, old: object, new: object, told: str) -> None:
    assert compare.differences(old, new, "commands") == [told]


def test_a_file_reads_as_it_was_written(compare: ModuleType, tmp_path: Path) -> None:
    entries = {"a | suite": {"exit": 0, "out": ["ü", {"x": [1.5, None]}, "long " * 40], "err": []}, "b": [1, 2]}
    compare.write(tmp_path / "a.json", entries)
    assert compare.read(tmp_path / "a.json") == entries
    assert len((tmp_path / "a.json").read_text(encoding="utf-8").splitlines()) > 6, "no lines to see a difference in"
