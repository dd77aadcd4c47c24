"""The evaluation of a classifier: its report by hand, its baselines, its pictures."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from suite.data.labelled import Labelled
from suite.errors import ConfigError, DataError
from suite.tasks.classify import baseline, evaluate, metrics, plots
from suite.tasks.classify.options import ClassifyEvalOptions
from suite.tasks.classify.results import Classified, classified

LABELS = ("cat", "dog", "owl")
MODEL: Any = SimpleNamespace(name="fake")


class Fake:
    """Reads its answer from the text: "cat .6 dog .3 owl .1"."""

    labels = LABELS
    multi = False

    def __init__(self, model: Any, *, threshold: float = 0.5) -> None:
        self.threshold = threshold if self.multi else None

    def __call__(
        self,
        texts: Sequence[str],
        *,
        min_probability: float = 0.0,
        progress: Callable[[int], object] | None = None,
    ) -> list[Classified]:
        probabilities = [dict(zip(text.split()[::2], map(float, text.split()[1::2]), strict=True)) for text in texts]
        if progress:
            progress(len(texts))
        return [
            classified(text, LABELS, [scores.get(label, 0.0) for label in LABELS], min_probability, self.threshold, 1)
            for text, scores in zip(texts, probabilities, strict=True)
        ]


class Several(Fake):
    multi = True


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "Classifier", Fake)


def options(**fields: Any) -> ClassifyEvalOptions:
    return ClassifyEvalOptions(**fields)


def csv(path: Path, *rows: tuple[str, str]) -> list[str]:
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return [str(path)]


ROWS = (
    ("cat .6 dog .3 owl .1", "cat"),
    ("cat .8 dog .1 owl .1", "dog"),
    ("cat .2 dog .7 owl .1", "dog"),
    ("cat .5 dog .1 owl .4", "dog"),
)


# ---- the report


def test_the_report_by_hand(tmp_path: Path) -> None:
    counted: list[int] = []
    found = evaluate.evaluate(MODEL, csv(tmp_path / "a.csv", *ROWS), progress=counted.append)
    model = found["results"]["model"]
    assert (found["model"], found["records"], found["multi"], sum(counted)) == ("fake", 4, False, 4)
    assert list(found["results"]) == ["model"]
    assert model["accuracy"] == 0.5
    assert model["macro_f1"] == pytest.approx((0.5 + 0.5) / 2)  # cat: precision 1/3, recall 1; dog: 1 and 1/3
    assert model["nll"] == pytest.approx(-np.log([0.6, 0.1, 0.7, 0.1]).mean())
    assert [one["support"] for one in model["classes"]] == [1, 3, 0]
    assert model["classes"][1]["recall"] == pytest.approx(1 / 3)
    assert model["classes"][2]["recall"] is None and model["classes"][2]["auc"] is None
    assert found["confusion"] == [[1, 0, 0], [2, 1, 0], [0, 0, 0]]
    assert found["confused"] == [{"label": "dog", "predicted": "cat", "count": 2, "share": pytest.approx(2 / 3)}]
    assert sum(model["reliability"]["count"]) == 4


def test_the_report_is_json(tmp_path: Path) -> None:
    """NaN and numpy's numbers are none: a page that reads the report would fail at the first empty bin."""
    found = evaluate.evaluate(MODEL, csv(tmp_path / "a.csv", *ROWS), options(train=csv(tmp_path / "b.csv", *TRAIN)))
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.data


TRAIN = tuple((f"{word} {number}", label) for number in range(10) for word, label in (("meow", "cat"), ("woof", "dog")))


def test_the_report_is_markdown(tmp_path: Path) -> None:
    found = evaluate.evaluate(
        MODEL, csv(tmp_path / "a.csv", *ROWS), options(train=csv(tmp_path / "b.csv", *TRAIN), confused=1)
    )
    text = found.markdown()
    assert "|  | accuracy | macro F1 | AUC | NLL | ECE |" in text and "| fake | 50.00% | " in text
    assert "| class | texts | precision |" in text and "| dog | cat | 2 | 66.67% |" in text
    assert text.endswith("- 4 records, 3 classes\n") and str(found).count("66.67%") == 1


def test_baselines_stand_beside_the_model(tmp_path: Path) -> None:
    found = evaluate.evaluate(MODEL, csv(tmp_path / "a.csv", *ROWS), options(train=csv(tmp_path / "b.csv", *TRAIN)))
    assert list(found["results"]) == ["model", "majority", evaluate.LINEAR]
    assert {"accuracy", "macro_f1", "auc", "nll", "ece", "classes", "reliability"} <= found["results"][
        "majority"
    ].keys()
    assert found["results"][evaluate.LINEAR]["C"] in baseline.STRENGTHS


def test_several_labels_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "Classifier", Several)
    rows = [("cat .9 dog .8 owl .1", "cat|dog"), ("cat .9 dog .2 owl .1", "dog"), ("cat .1 dog .4 owl .3", "owl")]
    data = csv(tmp_path / "a.csv", *rows)
    model = evaluate.evaluate(MODEL, data, options(separator="|"))["results"]["model"]
    assert model["subset_accuracy"] == pytest.approx(1 / 3) and model["top_accuracy"] == pytest.approx(1 / 3)
    assert model["micro_f1"] == pytest.approx(2 * 2 / (3 + 4))
    lower = evaluate.evaluate(MODEL, data, options(separator="|"), threshold=0.3)["results"]["model"]
    assert lower["micro_f1"] == pytest.approx(2 * 3 / (5 + 4))


def test_one_label_against_several_is_told(tmp_path: Path) -> None:
    """Also of a text with several labels a classifier that gives one can be half right."""
    found = evaluate.evaluate(MODEL, csv(tmp_path / "a.csv", (ROWS[0][0], "cat|dog"), ROWS[2]), options(separator="|"))
    assert found["multi"] and found["results"]["model"]["top_accuracy"] == 1.0
    assert "1 record with several labels; the model gives only one" in found["notes"]


# ---- what belongs to no class


def test_out_of_scope_records_count_for_their_detection_alone(tmp_path: Path) -> None:
    rows = [*ROWS, ("cat .4 dog .3 owl .3", "none"), ("cat .34 dog .33 owl .33", "none")]
    train = csv(tmp_path / "b.csv", *TRAIN, ("what", "none"))
    found = evaluate.evaluate(MODEL, csv(tmp_path / "a.csv", *rows), options(train=train, oos_label="none"))
    assert found["records"] == 4 and found["out_of_scope_records"] == 2
    assert found["results"]["model"]["accuracy"] == 0.5
    assert found["results"]["model"]["out_of_scope"] == {"max_probability": 1.0, "entropy": 1.0}
    assert found["results"]["majority"]["out_of_scope"] == {"max_probability": 0.5, "entropy": 0.5}


@pytest.mark.parametrize(
    ("rows", "oos_label", "message"),
    [
        (ROWS, "none", "no record has the out-of-scope label 'none'; available: dog, cat"),
        (ROWS, "dog", "the model knows the label 'dog'"),
        ([("cat 1", "none")], "none", "all records have the out-of-scope label"),
    ],
)
def test_an_out_of_scope_label_that_cannot_be(
    tmp_path: Path, rows: Sequence[tuple[str, str]], oos_label: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        evaluate.evaluate(MODEL, csv(tmp_path / "a.csv", *rows), options(oos_label=oos_label))


# ---- bad data


def test_an_unseen_label_is_named_with_its_place(tmp_path: Path) -> None:
    data = csv(tmp_path / "a.csv", *ROWS, ("dog 1", "dgo"), ("dog 1", "dgo"), ("dog 1", "cow"))
    with pytest.raises(
        DataError, match=r"a\.csv, line 6: the model has no label 'dgo' \(2 of 7 records\), nor 1 other; did"
    ):
        evaluate.evaluate(MODEL, data)
    with pytest.raises(DataError, match=r"b\.csv, line 3: the model has no label 'zebra' .*; available: cat, dog, owl"):
        evaluate.evaluate(
            MODEL, csv(tmp_path / "a.csv", *ROWS), options(train=csv(tmp_path / "b.csv", *ROWS[:1], ("x", "zebra")))
        )


def test_a_column_of_free_text_is_told(tmp_path: Path) -> None:
    """It was told that the model had no label of the first row's text."""
    data = csv(tmp_path / "a.csv", *((f"cat {n}", f"note {n}") for n in range(20)))
    with pytest.raises(
        DataError, match=r"column 'label': 20 distinct labels in 20 rows.*--label NAME \(there are text, "
    ):
        evaluate.evaluate(MODEL, data)


def test_a_record_without_a_label_is_named(tmp_path: Path) -> None:
    data = csv(tmp_path / "a.csv", *ROWS, ("dog 1", "|"))
    with pytest.raises(DataError, match=r"a\.csv, line 6: no label"):
        evaluate.evaluate(MODEL, data, options(separator="|"))


def test_a_part_is_drawn_from_everywhere_and_told(tmp_path: Path) -> None:
    """The first records of a file that is sorted by class are of one class."""
    data = csv(tmp_path / "a.csv", *[(f"cat {1 - number / 500}", label) for label in LABELS for number in range(100)])
    found = evaluate.evaluate(MODEL, data, options(limit=60))
    assert found["records"] == 60 and "60 of 300 records, chosen at random" in found["notes"]
    assert all(one["support"] > 5 for one in found["results"]["model"]["classes"])
    assert evaluate.evaluate(MODEL, data, options(limit=60)) == found


def test_training_data_may_have_other_columns(tmp_path: Path) -> None:
    data = csv(tmp_path / "a.csv", *ROWS)
    other = tmp_path / "b.csv"
    other.write_text("kind,words\n" + "".join(f"{label},{text}\n" for text, label in TRAIN))
    same = options(train=[str(other)], text=["text"], label="label")
    found = evaluate.evaluate(MODEL, data, replace(same, train_text=("words",), train_label="kind"))
    assert len(found["results"]) == 3
    with pytest.raises(DataError, match="no column 'text'"):
        evaluate.evaluate(MODEL, data, same)


# ---- baselines


def records(*rows: tuple[str, Sequence[str]]) -> list[Labelled]:
    return [Labelled(text=text, labels=tuple(labels)) for text, labels in rows]


def test_majority_by_hand() -> None:
    found = baseline.majority(
        records(("", ["dog"]), ("", ["dog"]), ("", ["cat"])), records(("", ["owl"])), LABELS, multi=False
    )
    np.testing.assert_allclose(found.probabilities, [[2 / 6, 3 / 6, 1 / 6]])
    assert found.predicted.tolist() == [[False, True, False]]
    several = baseline.majority(records(("", ["dog", "cat"]), ("", ["dog"])), records(("", [])), LABELS, multi=True)
    np.testing.assert_allclose(several.probabilities, [[2 / 4, 3 / 4, 1 / 4]])


def test_the_linear_baseline_learns_words_and_gives_classes_it_never_saw_nothing() -> None:
    train = records(
        *[(f"{word} {number}", [label]) for word, label in (("meow", "cat"), ("hoot", "owl")) for number in range(8)]
    )
    found = baseline.linear(train, records(("a meow", []), ("no hoot", [])), LABELS, multi=False)
    assert found.probabilities.argmax(axis=1).tolist() == [0, 2]
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)
    assert (found.probabilities[:, 1] == 0).all()


def test_the_linear_baseline_gives_several_labels() -> None:
    random_ = random.Random(0)
    words = {"cat": "meow", "dog": "woof"}
    rows = []
    for number in range(60):
        labels = [label for label in words if random_.random() < 0.5]
        rows.append((" ".join(["and", str(number), *(words[label] for label in labels)]), [*labels, "owl"]))
    found = baseline.linear(records(*rows), records(("meow", []), ("and meow woof", [])), LABELS, multi=True)
    assert found.predicted.tolist() == [[True, False, True], [True, True, True]]  # all have owl


def test_the_linear_baseline_finds_the_threshold_of_a_rare_label() -> None:
    """With 0.5 for every label, the baseline beside a classifier of several labels never named the rare ones."""
    more = [f"{first} {second}" for first in "abcdefgh" for second in "ijklmnop"]
    rows = [(f"woof {words}", ["dog"] if number < 4 else []) for number, words in enumerate(more)]
    rows += [(f"meow {words}", ["cat"] if number % 7 < 3 else []) for number, words in enumerate(more)]
    found = baseline.linear(records(*rows), records(("meow", []), ("woof", [])), LABELS, multi=True)
    assert found.settings["threshold"] < 0.5
    assert found.predicted.tolist() == [[True, False, False], [False, False, False]]


def test_the_texts_of_a_pair_have_features_of_their_own() -> None:
    """Joined to one text, "a then b" could not be told from "b then a"."""
    rows = [("up", "down", "cat"), ("down", "up", "dog")] * 10
    train = [Labelled(text=f"{a} {n}", pair=b, labels=(label,)) for n, (a, b, label) in enumerate(rows)]
    asked = [Labelled(text="up", pair="down"), Labelled(text="down", pair="up")]
    assert baseline.linear(train, asked, LABELS, multi=False).probabilities.argmax(axis=1).tolist() == [0, 1]


def test_texts_without_words_are_no_lessons() -> None:
    train = records(
        *[(sign * number, [label]) for sign, label in (("!", "cat"), ("?", "dog")) for number in range(1, 5)]
    )
    with pytest.raises(DataError, match="no words"):
        baseline.linear(train, train, LABELS, multi=False)


# ---- pictures


def drawn(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


@pytest.mark.parametrize("count", [2, 90])
def test_confusion_is_drawn_for_few_and_many_classes(tmp_path: Path, count: int) -> None:
    matrix = np.eye(count, dtype=np.int64) * 9
    matrix[0, 1] = 1
    path = tmp_path / "c.png"
    plots.plot_confusion(matrix, [f"class {number}" for number in range(count)], path, title="a test")
    assert len(np.unique(drawn(path).reshape(-1, 3), axis=0)) > 10 and min(drawn(path).shape[:2]) > 300


def test_pictures_are_the_same_bytes_each_time_and_keep_their_text(tmp_path: Path) -> None:
    """matplotlib writes the date and random ids into an SVG, which makes every commit of a figure a change."""
    found = metrics.reliability(np.array([0.9, 0.8, 0.3]), np.array([True, False, True]))
    contents = []
    for name in ("a.svg", "b.svg"):
        plots.plot_reliability(found, tmp_path / name, title="a test")
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert b"a test" in contents[0] and b"expected calibration error 53.3 %" in contents[0]


def test_a_picture_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.png or \.svg"):
        plots.check_picture(tmp_path / "c.jpg")
