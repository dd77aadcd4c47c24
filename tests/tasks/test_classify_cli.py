"""`suite run classify` and `suite eval classify`: what is typed, piped, in files, or broken."""

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import torch

from suite import pipeline
from suite.checkpoint import save_checkpoint
from suite.cli.main import main
from suite.data.labelled import read_labelled
from suite.errors import DataError
from suite.model import ModelConfig, Transformer
from suite.task.kit.bulk import Done, process
from suite.tasks.classify import pipeline as module
from suite.tasks.classify.codec import ClassifyCodec
from suite.tasks.classify.results import Classified, Explanation, classified
from suite.tasks.classify.show import show_explanation
from suite.tasks.classify.task import ClassifyTask
from suite.text.tokenizer import Tokenizer

LABELS = ("cat", "dog", "owl")


class Fake:
    """Takes the first label that stands in the text for true, with probability 0.8; else is unsure."""

    labels = LABELS
    multi = False
    pairs: bool | None = None
    asked: list[int]

    def __init__(self, model: Any = None, *, threshold: float = 0.5) -> None:
        self.threshold, self.asked = threshold, []

    def __call__(
        self,
        texts: Sequence[str | tuple[str, str]],
        *,
        min_probability: float = 0.0,
        progress: Callable[[int], object] | None = None,
    ) -> list[Classified]:
        self.asked.append(len(texts))
        results = []
        for text in texts:
            words = " ".join([text] if isinstance(text, str) else text)
            found = [label for label in LABELS if label in words]
            if self.multi:
                probabilities = [0.8 if label in found else 0.2 for label in LABELS]
            else:
                probabilities = [0.8 if label in found[:1] else 0.1 if found else 1 / 3 for label in LABELS]
            results.append(
                classified(text, LABELS, probabilities, min_probability, self.threshold if self.multi else None, 1)
            )
        return results


class Several(Fake):
    multi = True


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    """Pipe bytes into standard input, or make it a terminal."""
    stream = io.TextIOWrapper(io.BytesIO(content or b""))
    monkeypatch.setattr(stream, "isatty", lambda: content is None)
    monkeypatch.setattr(sys, "stdin", stream)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, None)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command with a classifier that needs no model."""
    monkeypatch.setattr(module, "Classifier", Fake)
    monkeypatch.setattr("suite.checkpoint.load", lambda name, **options: None)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A classifier with a byte vocabulary that has learnt nothing."""
    directory = tmp_path_factory.mktemp("tiny")
    tokenizer = Tokenizer.bytes(("<eos>", "<pad>", "<bos>", "<sep>", "<cls>"))
    config = ModelConfig(vocab_size=tokenizer.vocab_size, context=32, d_model=32, n_layer=2, n_head=2)
    torch.manual_seed(0)
    head = torch.nn.Linear(32, 3).state_dict()
    extra = ClassifyCodec(tokenizer, labels=LABELS, max_tokens=32).to_dict()
    weights = Transformer(config).state_dict()
    save_checkpoint(directory, config, weights, tokenizer, task="classify", head=head, extra=extra)
    return str(directory)


def result(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must succeed writes to stdout."""
    assert main(["run", "classify", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result(capsys, *words, "--json").splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["run", "classify", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("suite: error: ") and err.count("\n") <= 2
    return err


def test_help_does_not_wait_for_torch() -> None:
    """The page would take seconds to appear."""
    code = "from suite.cli.main import main; main(['run', 'classify', '-h']); import sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "--min-probability" in done.stdout and done.stdout.endswith("False\n")


# ---- single texts


def test_the_command_is_the_pipeline(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["an owl", "a longer text about a cat that no context of 32 tokens can hold"]
    expected = pipeline("classify", tiny)(texts)
    found = run_json(capsys, *texts, "--model", tiny)
    for one, other in zip(found, expected, strict=True):
        assert one["scores"] == pytest.approx(dict(other.scores), abs=1e-6)
        assert (one["label"], one["labels"], one["pieces"]) == (other.label, list(other.labels), other.pieces)
    assert found[1]["pieces"] > 1


@pytest.mark.usefixtures("fake")
def test_the_likeliest_labels_have_bars(capsys: pytest.CaptureFixture[str]) -> None:
    lines = result(capsys, "a dog", "--top-k", "2").splitlines()
    assert lines[0].split()[:2] == ["dog", "80.00%"] and lines[0].endswith("█" * 32)
    assert lines[2].split() == ["1", "other", "10.00%"]
    assert len(result(capsys, "a dog").splitlines()) == 3


@pytest.mark.usefixtures("fake")
def test_several_texts_stand_under_their_headings(capsys: pytest.CaptureFixture[str]) -> None:
    out = result(capsys, "a dog\nor so", "an owl", "--top-k", "1")
    assert out.startswith("a dog or so\n  dog") and "\n\nan owl\n  owl" in out


@pytest.mark.usefixtures("fake")
def test_below_the_minimum_it_is_unsure(capsys: pytest.CaptureFixture[str]) -> None:
    assert result(capsys, "a fox", "--min-probability", "0.6").startswith("unsure: no label reaches 60.00%\n")
    assert "unsure" not in result(capsys, "a dog", "--min-probability", "0.6")
    [found] = run_json(capsys, "a fox", "--min-probability", "0.6")
    assert found["label"] is None and found["labels"] == [] and found["probability"] == pytest.approx(1 / 3)


@pytest.mark.usefixtures("fake")
def test_several_labels_are_ticked_however_few_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three labels that hold, --top-k 1 must not hide two."""
    monkeypatch.setattr(module, "Classifier", Several)
    lines = result(capsys, "a cat and a dog", "--top-k", "1").splitlines()
    assert [line.split()[:2] for line in lines] == [["✓", "cat"], ["✓", "dog"]]
    assert result(capsys, "a fox").startswith("unsure: no label reaches 50.00%\n  ")
    assert result(capsys, "a fox", "--threshold", "0.1").count("✓") == 3


@pytest.mark.usefixtures("fake")
def test_a_pair_is_two_texts(capsys: pytest.CaptureFixture[str]) -> None:
    [found] = run_json(capsys, "a fox", "--pair", "an owl")
    assert (found["text"], found["pair"], found["label"]) == ("a fox", "an owl", "owl")


@pytest.mark.usefixtures("fake")
def test_a_text_comes_from_a_file_or_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text.txt"
    file.write_text("an\nowl\n")
    expected = run_json(capsys, "an\nowl")
    assert run_json(capsys, "--file", str(file)) == expected
    for words in ([], ["-"]):
        stdin(monkeypatch, b"an\nowl\n")
        assert run_json(capsys, *words) == expected


def test_labels_of_ones_own_take_a_language_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The classifier is no use for other labels, so --labels alone must not load it."""
    loaded: list[str] = []

    def load(name: str, **options: object) -> SimpleNamespace:
        loaded.append(name)
        return SimpleNamespace(parameters=10**9)

    monkeypatch.setattr("suite.checkpoint.load", load)
    monkeypatch.setattr(
        "suite.tasks.classify.zero_shot.ZeroShot", lambda model, labels: Fake() if labels == ("cat", "dog") else None
    )
    [found] = run_json(capsys, "a dog", "--labels", "cat, dog")
    assert found["label"] == "dog"
    run_json(capsys, "a dog", "--labels", "cat, dog", "--model", "classify")
    assert loaded == ["lm", "classify"]


def test_labels_without_training_are_experimental_with_a_small_model(capsys: pytest.CaptureFixture[str]) -> None:
    """The embedded model's zero-shot labels are little better than chance, and nothing said so."""
    words = ["run", "classify", "a dog", "another", "--labels", "cat, dog"]
    assert main(words) == 0
    plain, err = capsys.readouterr()
    assert err.count("experimental: a model of 7.5 million parameters") == 1 and "--model gpt2" in err
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr() == (plain, "")
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert len([json.loads(line) for line in out.splitlines()]) == 2 and err.startswith("experimental: ")
    assert main(["run", "classify", "a dog"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["run", "classify", "--help"]) == 0
    assert "Experimental: choose among these" in capsys.readouterr().out


def test_an_explanation_lists_what_mattered(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "classify", "an owl", "--explain", "--model", tiny]) == 0
    out, err = capsys.readouterr()
    assert "\n\nan owl\n\n" in out and "share of weight" in out
    assert "does not show why" in err
    [found] = run_json(capsys, "an owl", "--explain", "--model", tiny)
    assert "".join(piece for piece, _ in found["explanation"]["tokens"]) == "an owl"
    assert found["explanation"]["label"] == found["label"]


def test_colours_tell_for_from_against_and_strong_from_weak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(click, "echo", lambda text="", nl=True: print(text, end="\n" if nl else ""))
    show_explanation(
        Explanation(label="cat", pieces=("a", "b\n", "c", "d"), weights=(1.0, -0.5, 0.05, 0.3)), quiet=True
    )
    out = capsys.readouterr().out
    strong, against, faint = (click.style(text, bg=shade, fg=16) for text, shade in (("a", 75), ("b", 223), ("d", 195)))
    assert f"{strong}{against}\nc{faint}" in out
    show_explanation(Explanation(label="cat", pieces=(), weights=()), quiet=True)


# ---- whole files; what is true of every task's stands in tests/suite/task/test_bulk.py


def label_file(classifier: Fake, source: Path, output: Path, min_probability: float = 0.0, **options: str) -> Done:
    """As the command does it."""
    form = ClassifyTask().bulk_format(classifier)  # type: ignore[arg-type]
    return process(source, output, lambda texts: classifier(texts, min_probability=min_probability), form, **options)


def test_a_table_gets_two_columns_and_keeps_the_rest(tmp_path: Path) -> None:
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_bytes(b'\xef\xbb\xbfid,text,note\r\n1,"a ""dog"", or\r\ntwo","x,y"\r\n2,a fox,\r\n3,  ,z\r\n')
    done = label_file(Fake(), source, output, min_probability=0.5)
    assert output.read_bytes() == (
        b'\xef\xbb\xbfid,text,note,label,probability\r\n1,"a ""dog"", or\r\ntwo","x,y",dog,0.8\r\n'
        b"2,a fox,,,0.333333\r\n3,  ,z,,\r\n"
    )
    assert (done.records, done.empty) == (3, 1)


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        ("a.tsv", 'say "dog\t1\n\t2\n', {"column": "1"}, 'say "dog\t1\tdog\t0.8\n\t2\t\t\n'),
        ("a.tsv", "n\tbody\n1\towl\n", {"column": "body"}, "n\tbody\tlabel\tprobability\n1\towl\towl\t0.8\n"),
        ("a.csv", "text;n\ncat, dog;1\n", {}, "text;n;label;probability\ncat, dog;1;cat;0.8\n"),
        ("a.csv", "text\ncat\n\ndog\n", {}, "text,label,probability\ncat,cat,0.8\n,,\ndog,dog,0.8\n"),
        ("a.csv", "text,n\n", {}, "text,n,label,probability\n"),
        ("a.csv", "a cat, nr 1;1\n", {"column": "1"}, "a cat, nr 1;1;cat;0.8\n"),
        (
            "a.csv",
            '"text, body";n\ncat;1\n',
            {"column": "text, body"},
            '"text, body";n;label;probability\ncat;1;cat;0.8\n',
        ),
        ("a.csv", "sep=;\r\ntext;n\r\ncat;1\r\n", {}, "sep=;\r\ntext;n;label;probability\r\ncat;1;cat;0.8\r\n"),
        ("a.csv", "n,text\n1,cat\n", {"column": "2"}, "n,text,label,probability\n1,cat,cat,0.8\n"),
        ("a.csv", "cat,text\nowl,text\n", {"column": "1"}, "cat,text,cat,0.8\nowl,text,owl,0.8\n"),
        ("a.csv", "n,n,text\n1,2,cat\n", {}, "n,n,text,label,probability\n1,2,cat,cat,0.8\n"),
        ("a.csv", "text,n\na\rcat,1\n", {}, "text,n,label,probability\na\rcat,1,cat,0.8\n"),
        ("a.txt", "dog\r\n\ncat\tor so", {}, "dog\t0.800000\tdog\r\n\t\t\ncat\t0.800000\tcat\tor so\n"),
        ("a.txt", "", {}, ""),
    ],
)
def test_every_record_has_its_line(
    tmp_path: Path, name: str, content: str, options: dict[str, str], expected: str
) -> None:
    source, output = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    source.write_bytes(content.encode())
    label_file(Fake(), source, output, **options)
    assert output.read_bytes().decode() == expected


def test_quotes_of_a_tsv_file_are_undone_as_in_training(tmp_path: Path) -> None:
    """Training read the text without them, and use with them."""
    source, output = tmp_path / "a.tsv", tmp_path / "b.jsonl"
    source.write_text('text\tn\n"A ""cat"""\t"1\n"dog"\t"2"\n')
    label_file(Fake(), source, output)
    found = [json.loads(line) for line in output.read_text().splitlines()]
    expected = [record.text for record in read_labelled(source, text="text", label="n").records]
    assert [record["text"] for record in found] == expected == ['A "cat"', "dog"]


def test_json_lines_keep_their_fields(tmp_path: Path) -> None:
    source, output = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"
    records = [{"text": "é dog", "more": [1, {"a": None}]}, {"text": "", "b": 2}, {"text": None}]
    source.write_bytes(gzip.compress("\n\n".join(map(json.dumps, records)).encode()))
    done = label_file(Several(), source, output)
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert found[0] == records[0] | {"label": "dog", "probability": 0.8, "labels": ["dog"]}
    assert found[1] == records[1] | {"label": None, "probability": None, "labels": []}
    assert done.records == 3 and done.empty == 2


def test_other_formats_of_the_output(tmp_path: Path) -> None:
    lines, table = tmp_path / "a.txt", tmp_path / "a.csv"
    lines.write_text('a "dog"\n')
    table.write_text("n,text\n1,a dog\n")

    def written(source: Path, name: str, classifier: Fake) -> str:
        label_file(classifier, source, tmp_path / name)
        return (tmp_path / name).read_text()

    assert written(lines, "b.csv", Fake()) == 'text,label,probability\n"a ""dog""",dog,0.8\n'
    assert json.loads(written(table, "b.jsonl", Fake())) == {
        "n": "1",
        "text": "a dog",
        "label": "dog",
        "probability": 0.8,
    }
    assert written(table, "b.tsv", Several()) == 'n\ttext\tlabel\tprobability\tlabels\n1\ta dog\tdog\t0.8\t["dog"]\n'


def test_columns_of_those_names_are_not_overwritten(tmp_path: Path) -> None:
    """A file with the true labels must still have them."""
    source, output, again = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    source.write_text("text,label\na dog,cat\n")
    done = label_file(Fake(), source, output)
    assert output.read_text() == "text,label,predicted_label,predicted_probability\na dog,cat,dog,0.8\n"
    assert done.columns == ("predicted_label", "predicted_probability")
    with pytest.raises(DataError, match="there is a column 'predicted_label' already"):
        label_file(Fake(), output, again)
    assert not again.exists()


def test_second_texts_have_a_column(tmp_path: Path) -> None:
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text("one,two\nfox,dog\n")
    label_file(Fake(), source, output, column="one", second="two")
    assert output.read_text() == "one,two,label,probability\nfox,dog,dog,0.8\n"


def test_a_large_file_is_never_held_as_a_whole(tmp_path: Path) -> None:
    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("a dog\n" * 2000 + "x" * (1 << 20) + "\n" + "a cat\n" * 3)
    classifier = Fake()
    assert label_file(classifier, source, output).records == 2004
    assert max(classifier.asked) == 512 and classifier.asked[-2:] == [1, 3]
    assert len(output.read_text().splitlines()) == 2004


@pytest.mark.usefixtures("fake")
def test_lines_of_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stdin(monkeypatch, b"a dog\n\nan owl\n")
    assert main(["run", "classify", "--lines"]) == 0
    out, err = capsys.readouterr()
    assert out == "dog\t0.800000\ta dog\n\t\t\nowl\t0.800000\tan owl\n"
    assert err == "3 records: standard output; 1 without text or label\n"
    stdin(monkeypatch, b"a dog\n")
    assert run_json(capsys, "--lines") == [{"text": "a dog", "label": "dog", "probability": 0.8}]
    stdin(monkeypatch, b"a dog\n")
    assert result(capsys, "--input", "-") == "dog\t0.800000\ta dog\n"


@pytest.mark.usefixtures("fake")
def test_a_file_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text("text,label\na dog,x\na fox,y\n")
    words = ["--input", str(source), "--min-probability", "0.5", "--output"]
    assert main(["run", "classify", *words, str(output)]) == 0
    out, err = capsys.readouterr()
    assert out == "" and len(output.read_text().splitlines()) == 3
    assert "b.csv; 1 unsure (below 0.5)" in err and "predicted_label, predicted_probability" in err
    assert "exists already" in refused(capsys, *words, str(output))
    assert main(["run", "classify", *words, str(tmp_path / "c.csv"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("fake")
def test_a_table_of_pairs_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.csv"
    source.write_text("one,two\nfox,dog\n,owl\n")
    words = ["--input", str(source), "--column", "one", "--pair-column", "two"]
    assert result(capsys, *words) == "one,two,label,probability\nfox,dog,dog,0.8\n,owl,,\n"
    [first, second] = run_json(capsys, *words)
    assert first == {"one": "fox", "two": "dog", "label": "dog", "probability": 0.8} and second["label"] is None


@pytest.mark.usefixtures("fake")
def test_a_stopped_run_goes_on_only_with_the_same_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("a dog\n" * 600 + "a fox\n")
    words = ["run", "classify", "--input", str(source), "--output", str(output), "--min-probability"]

    class Breaks(Fake):
        def __call__(self, texts: Sequence[str | tuple[str, str]], **options: Any) -> list[Classified]:
            if self.asked:
                raise KeyboardInterrupt
            return super().__call__(texts, **options)

    monkeypatch.setattr(module, "Classifier", Breaks)
    assert main([*words, "0.5"]) != 0
    monkeypatch.setattr(module, "Classifier", Fake)
    capsys.readouterr()
    assert "begun with another min_probability" in refused(capsys, *words[2:], "0.1")
    assert main([*words, "0.5"]) == 0
    assert "601 records, 512 of them before: " in capsys.readouterr().err
    assert output.read_text() == "dog\t0.800000\ta dog\n" * 600 + "\t0.333333\ta fox\n"


# ---- evaluation


def test_the_evaluation_is_a_table_and_pictures(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "a.csv"
    data.write_text(
        "text,label\n" + "".join(f"a {label} {number},{label}\n" for label in LABELS for number in range(8))
    )
    words = ["eval", "classify", str(data), "--model", tiny]
    pictures = [str(tmp_path / "r.svg"), str(tmp_path / "c.png")]
    assert main([*words, "--train", str(data), "--reliability", pictures[0], "--confusion", pictures[1]]) == 0
    out = capsys.readouterr().out
    assert out.split()[:6] == ["accuracy", "macro", "F1", "AUC", "NLL", "ECE"]
    assert "\nmajority " in out and "\ntf-idf + logistic regression, C = " in out and "\nowl " in out
    assert "true" in out and "predicted" in out
    assert all(Path(picture).stat().st_size > 1000 for picture in pictures)
    assert main([*words, "--json", "--limit", "5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"] == 5 and list(found["results"]) == ["model"]
    assert main([*words, "--markdown", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("|  | accuracy | macro F1 |") and "\n- 24 records, 3 classes\n" in out and err == ""


# ---- what is refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "there is no input"),
        ([""], "the text is empty"),
        (["a", " "], "text 2 is empty"),
        (["a", "b", "--pair", "c"], "--pair needs exactly one TEXT"),
        (["a", "--lines"], "--lines and --input take no TEXT"),
        (["--lines", "--input", "a.csv"], "give only one of them"),
        (["a", "--output", "b.csv"], "--output needs --input or --lines"),
        (["a", "--column", "b"], "--column and --pair-column need --input"),
        (["--input", "a.csv", "--output", "b.csv", "--json"], "leave out --json"),
        (["a", "--labels", "b,c", "--explain"], "--labels cannot be combined with --explain"),
        (["a", "--explain", "--quantize", "int8"], "leave out --quantize"),
        (["a", "--min-probability", "2"], "2.0 is not in the range"),
        (["--input", "none.csv"], "none.csv: no such file"),
        (["--lines", "--column", "b"], "--column and --pair-column need --input"),
        (["--input", "-", "--column", "b"], "lines of text have no columns"),
        (["--input", "a.doc"], "bulk work reads and writes .csv, .tsv"),
        (["--input", "a.jsonl", "--output", "b.csv"], "name a .jsonl file"),
        (["--input", "a.csv", "--output", "b.txt"], "name a .csv, .tsv or .jsonl file"),
        (["--input", "a.csv", "--output", "b.csv.gz"], "leave out .gz"),
    ],
)
@pytest.mark.usefixtures("fake")
def test_what_cannot_be_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "a.jsonl", "a.doc"):
        Path(name).write_text("text\na\n" if name == "a.csv" else "")
    assert message in refused(capsys, *words)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv: no rows"),
        ("a.csv", b"id,text\n1\n", "a.csv, line 2: 1 cell, where the first row has 2"),
        ("a.csv", b'id,text\n1,x\n2,"y\n', "a.csv, line 3: not CSV (unexpected end of data)"),
        ("a.csv", b"text\nok\ncaf\xe9\n", "a.csv, line 3: not UTF-8, byte 0xe9 at offset 11"),
        ("a.csv.gz", gzip.compress(b"text\nok\n" * 99, mtime=0)[:-9], "a.csv.gz, line 199: cannot be read ("),
        ("a.jsonl", b'{"text": "x"}\n{"text": 1}\n', "a.jsonl, line 2: field 'text' holds int, not text"),
        ("a.jsonl", b'{"text": "x"}\n{"body": 1}\n', "a.jsonl, line 2: no field 'text'; available: body"),
        ("a.jsonl", b'{"text": "x"}\n{"text"\n', "a.jsonl, line 2: not JSON"),
        (
            "a.jsonl",
            b'{"text": "x"}\n{"text": "y", "n": %s}\n' % (b"9" * 5000),
            "a.jsonl, line 2: not JSON (a number with too",
        ),
        (
            "a.jsonl",
            b'{"text": "x"}\n{"n": ' + b"[" * 100_000,
            "a.jsonl, line 2: not JSON (nested too deeply)",
        ),
        ("a.jsonl", b'{"text": "x"}\n{"text": "y", "n": NaN}\n', "a.jsonl, line 2: not JSON (NaN is not a JSON value"),
        (
            "a.jsonl",
            b'{"text": "x"}\n{"text": "y", "n": 1e400}\n',
            "a.jsonl, line 2: not JSON (1e400 is not a JSON value",
        ),
        ("a.jsonl", b'{"text": "x", "n": "\\ud800"}\n', "a.jsonl, line 1: half of a surrogate pair"),
        ("a.csv", b"text,text\na,b\n", "a.csv: two columns of the name 'text'"),
        ("a.csv", b"text,n,n\na,b,c\n", "a.csv: two columns of the name 'n'"),
        ("a.csv", b"sep=;\n", "a.csv: no rows"),
        ("a.jsonl", b'["x"]\n', "a.jsonl, line 1: a JSON object is needed on each line, not list"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', "a.jsonl, line 1: half of a surrogate pair"),
    ],
)
@pytest.mark.usefixtures("fake")
def test_a_broken_file_is_named_with_its_line_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert message in refused(capsys, "--input", name, "--output", "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("words", [["run", "classify", "a"], ["eval", "classify", "a.csv"]])
def test_a_threshold_without_use_is_refused(tiny: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A model that gives one label took it without a word."""
    assert main([*words, "--model", tiny, "--threshold", "0.3"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "--threshold needs a model that gives several labels" in err


@pytest.mark.usefixtures("fake")
def test_pairs_that_do_not_fit_the_model_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of pairs labelled half of each record."""
    source = tmp_path / "a.csv"
    source.write_text("text,other\na cat,b\n")
    monkeypatch.setattr(Fake, "pairs", True)
    assert "give the second text too" in refused(capsys, "--input", str(source))
    monkeypatch.setattr(Fake, "pairs", False)
    assert "leave out the second one" in refused(capsys, "--input", str(source), "--pair-column", "other")


@pytest.mark.usefixtures("fake")
def test_a_missing_column_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard output a header would already have gone to the reader."""
    source = tmp_path / "a.csv"
    source.write_text("id,body\n1,x\n")
    assert "no column 'text'; available: id, body" in refused(capsys, "--input", str(source), "--column", "text")
    assert "no column 'second'" in refused(
        capsys, "--input", str(source), "--column", "body", "--pair-column", "second"
    )
