"""The example task, in a package of its own, trains, runs, evaluates and answers like the ones that come with suite."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from suite import pipeline
from suite.cli.main import main
from suite.errors import DataError
from suite.task import registered

ROOT = Path(__file__).parents[2]
SMALL = (
    "tokenizer.kind=bytes", "model.context=24", "model.d_model=32", "model.n_layer=1", "model.n_head=2",
    "model.dropout=0.0", "batch.tokens=1024", "run.steps=30", "run.valid_every=15",
)  # fmt: skip

pytestmark = pytest.mark.skipif("reverse" not in registered(), reason="pip install -e examples/reverse")


def suite(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def train(words: Path, out: Path, *settings: str) -> Sequence[str]:
    sets = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    return ["train", "reverse", "--data", str(words), "--out", str(out), *sets]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("words") / "words.txt"
    path.write_text("".join("".join(draw.choices("abcd", k=draw.randint(2, 5))) + "\n" for _ in range(300)))
    return path


@pytest.fixture(scope="module")
def model(words: Path) -> str:
    out = words.parent / "run"
    assert main(train(words, out)) == 0
    return str(out)


def test_the_task_is_short() -> None:
    """The promise of docs/new-task.md."""
    assert len((ROOT / "examples" / "reverse" / "suite_reverse.py").read_text().splitlines()) <= 60


def test_it_learns(model: str) -> None:
    rows = [json.loads(line) for line in (Path(model) / "metrics.jsonl").read_text().splitlines()]
    losses = [row["valid_loss"] for row in rows if "valid_loss" in row]
    assert losses[-1] < losses[0] < 6


def test_it_runs(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = suite(capsys, "run", "reverse", "abc", "bad", "--model", model, "--json")
    assert code == 0
    assert [json.loads(line)["source"] for line in out.splitlines()] == ["abc", "bad"]
    code, plain, _ = suite(capsys, "run", "reverse", "abc", "--model", model)
    assert code == 0 and plain == json.loads(out.splitlines()[0])["text"] + "\n"


def test_it_answers_files_in_bulk(model: str, words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.jsonl"
    code, _, err = suite(
        capsys, "run", "reverse", "--input", str(words), "--output", str(output), "--model", model, "-n", "8"
    )
    assert code == 0 and "300 records" in err
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["text"] for line in lines] == words.read_text().splitlines()
    single = pipeline("reverse", model=model, max_new_tokens=8)(lines[7]["text"])
    assert str(single) == lines[7]["result"], "a row does not depend on its batch-mates"


def test_it_is_evaluated_beside_a_baseline(model: str, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("eval", "reverse", str(words), "--limit", "20", "--model", model)
    code, out, _ = suite(capsys, *arguments, "--json")
    assert code == 0
    results = json.loads(out)["results"]
    assert set(results) == {model, "copy"} and results["copy"]["exact"]["low"] <= results["copy"]["exact"]["mean"]
    assert "| copy |" in suite(capsys, *arguments, "--markdown")[1]


def test_one_input_gives_one_result_and_several_a_list(model: str) -> None:
    backwards = pipeline("reverse", model=model, max_new_tokens=4)
    one = backwards("abc")
    assert str(one) == one.text and one.to_dict() == {"source": "abc", "text": one.text}
    assert backwards(["abc"]) == [one] == backwards(word for word in ["abc"])
    for bad, name in (
        (None, "NoneType"),
        (5, "int"),
        (b"abc", "bytes"),
        ({"a": 1}, "dict"),
        (["a", 5], "text 1 is int"),
    ):
        with pytest.raises(DataError, match=name):
            backwards(bad)


@pytest.mark.parametrize(
    ("setting", "nearest"),
    [
        ("reverse.window=3", "reads no reverse.window"),
        ("tokenizer.kinds=bytes", "tokenizer.kind"),
        ("data.hold=1", "data."),
    ],
)
def test_no_setting_is_ignored(
    words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, nearest: str
) -> None:
    code, _, err = suite(capsys, *train(words, tmp_path / "run", setting))
    assert code == 2 and nearest in err


def test_two_records_are_enough_and_one_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.txt").write_text("ab\ncd\n")
    assert suite(capsys, *train(tmp_path / "two.txt", tmp_path / "run", "run.steps=1"))[0] == 0
    (tmp_path / "one.txt").write_text("ab\n")
    code, _, err = suite(capsys, *train(tmp_path / "one.txt", tmp_path / "other"))
    assert code == 2 and "too few to hold some out" in err
