"""`suite run lm` and `suite eval lm`: what is typed, piped or broken."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from suite import load, pipeline
from suite.checkpoint import save_checkpoint
from suite.cli.main import main
from suite.model import ModelConfig, Transformer
from suite.tasks.lm.pipeline import Text, Writer
from suite.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint with a byte vocabulary, which writes broken UTF-8 most of the time."""
    directory = tmp_path_factory.mktemp("tiny")
    tokenizer = Tokenizer.bytes()
    config = ModelConfig(vocab_size=tokenizer.vocab_size, context=24, d_model=32, n_layer=2, n_head=2)
    torch.manual_seed(0)
    save_checkpoint(directory, config, Transformer(config).state_dict(), tokenizer)
    return str(directory)


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    """Pipe bytes into standard input, or make it a terminal."""
    stream = io.TextIOWrapper(io.BytesIO(content or b""))
    monkeypatch.setattr(stream, "isatty", lambda: content is None)
    monkeypatch.setattr(sys, "stdin", stream)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, None)


def result(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must succeed writes to stdout."""
    assert main(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result(capsys, "run", "lm", *words, "--json").splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["run", "lm", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("suite: error: ") and err.count("\n") <= 2
    return err


# ---- results


def test_the_command_is_the_pipeline(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = pipeline("lm", tiny)("ab", max_new_tokens=6, seed=3, samples=2, top_p=0.9)
    found = run_json(capsys, "ab", "-n", "6", "--seed", "3", "--samples", "2", "--top-p", "0.9", "--model", tiny)
    assert [one["tokens"] for one in found] == [list(one.tokens) for one in expected]
    assert [one["text"] for one in found] == [one.text for one in expected]
    assert found[0]["logprobs"] == pytest.approx(expected[0].logprobs)
    assert (found[0]["finish"], found[0]["seed"], found[1]["sample"]) == (expected[0].finish, 3, 1)


def test_streamed_is_whole(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes of one character arrive in several tokens; shown one by one they would be replacement characters."""
    words = ["é", "-n", "20", "--seed", "5", "--model", tiny]
    [whole] = run_json(capsys, *words)
    assert result(capsys, "run", "lm", *words) == "é" + whole["text"] + "\n"
    assert result(capsys, "run", "lm", *words, "--no-echo") == whole["text"] + "\n"


def test_a_drawn_seed_is_told_and_repeats_the_run(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "lm", "a", "-n", "20", "--model", tiny]) == 0
    first = capsys.readouterr()
    seed = first.err.split()[1]
    assert result(capsys, "run", "lm", "a", "-n", "20", "--model", tiny, "--seed", seed) == first.out


@pytest.mark.parametrize("words", [["-t", "0"], ["--seed", "3"], ["--beams", "2"], ["--quiet"]])
def test_no_seed_is_told_where_none_was_drawn(tiny: str, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(["run", "lm", "a", "-n", "2", "--model", tiny, *words]) == 0
    assert capsys.readouterr().err == ""


def test_several_samples_stand_under_headings(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = result(capsys, "run", "lm", "ab", "-n", "2", "--samples", "2", "-q", "--model", tiny)
    assert out.startswith("--- 1 of 2\nab") and "\n\n--- 2 of 2\nab" in out


def test_beams_give_the_likeliest(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "ab", "-n", "4", "--beams", "4", "--samples", "2", "--model", tiny)
    assert [one["tokens"] for one in found] == [
        list(one.tokens) for one in pipeline("lm", tiny)("ab", max_new_tokens=4, beams=4, samples=2)
    ]
    assert found[0]["score"] >= found[1]["score"] and found[0]["seed"] is None


def test_a_stop_string_ends_the_text(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    [whole] = run_json(capsys, "ab", "-n", "40", "--seed", "1", "--model", tiny)
    stop = whole["text"][4:6]
    [cut] = run_json(capsys, "ab", "-n", "40", "--seed", "1", "--stop", stop, "--model", tiny)
    assert cut["text"] == whole["text"][: whole["text"].index(stop)] and cut["finish"] == "stop"


# ---- prompts


def test_a_prompt_comes_from_a_file_or_a_pipe(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A continuation of "ab\\n" is another one; the newline is the editor's, and so is the byte-order mark."""
    file = tmp_path / "prompt.txt"
    file.write_bytes(b"\xef\xbb\xbfab\r\n")
    options = ["-n", "3", "--seed", "1", "--model", tiny]
    typed = run_json(capsys, "ab", *options)
    assert run_json(capsys, "--file", str(file), *options) == typed
    for words in ([], ["-"], ["--file", "-"]):
        stdin(monkeypatch, b"ab\n")
        assert run_json(capsys, *words, *options) == typed


def test_without_a_prompt_a_text_begins(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-n", "3", "--seed", "1", "--model", tiny]
    begun = run_json(capsys, *options)
    assert run_json(capsys, "", *options) == begun
    stdin(monkeypatch, b"")
    assert run_json(capsys, *options) == begun
    assert begun[0]["tokens"] == list(pipeline("lm", tiny)("", max_new_tokens=3, seed=1).tokens)


def test_a_file_that_is_not_utf_8_is_refused_by_its_byte(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes("aé ".encode() + b"caf\xe9")
    line = refused(capsys, "--file", str(file), "--model", tiny)
    assert "latin.txt is not UTF-8: byte 7 is 0xe9" in line
    stdin(monkeypatch, b"\xff")
    assert "standard input is not UTF-8: byte 0" in refused(capsys, "--model", tiny)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["a\udcffb"], "lone surrogate (U+DCFF) at character 1"),
        (["--file", "nowhere.txt"], "nowhere.txt: No such file or directory"),
        (["--file", "/"], "/: Is a directory"),
        (["a", "--file", "b"], "not both"),
        (["a", "--temperature", "-1"], "temperature is -1"),
        (["a", "--top-p", "0"], "top_p is 0"),
        (["a", "-n", "0"], "-n"),
        (["a", "--stop", "", "--seed", "1"], "stop strings"),
        (["a", "--beams", "2", "--seed", "1"], "--seed"),
        (["a", "--beams", "2", "--samples", "3"], "raise --beams"),
        (["a", "--device", "cuda:99"], "cuda:99"),
        (["a", "--quantize", "int3"], "int8"),
        (["a", "--input", "b.jsonl", "--output", "c.jsonl"], "--input takes no other input"),
        (["--file", "a", "--input", "b.jsonl"], "--input takes no other input"),
        (["a", "--output", "c.jsonl"], "go with --input"),
    ],
)
def test_what_cannot_be_is_one_line(tiny: str, capsys: pytest.CaptureFixture[str], words: list[str], part: str) -> None:
    assert part in refused(capsys, *words, "--model", tiny)


def test_a_model_for_another_task_is_told(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A translator continues a text with garbage, and nothing said why."""
    model = load(tiny)
    state = model.transformer.state_dict()
    save_checkpoint(tmp_path / "m", model.config, state, model.tokenizer, task="translate")
    words = ["run", "lm", "a", "-n", "1", "--seed", "1", "--model", str(tmp_path / "m")]
    assert main(words) == 0
    assert "m is a model for the task translate" in (err := capsys.readouterr().err) and err.count("\n") == 1
    assert main([*words, "--quiet"]) == 0 and capsys.readouterr().err == ""


def test_odd_characters_are_text(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    """NUL, a special token's name and an escape sequence must reach the output as they came."""
    prompt = "\0<eos>\x1b[1m"
    out = result(capsys, "run", "lm", prompt, "-n", "1", "--seed", "1", "--model", tiny)
    assert out.startswith(prompt)


def test_a_prompt_over_the_context_is_told(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Silent truncation is what people complain of most."""
    assert main(["run", "lm", "a" * 30, "-n", "1", "--seed", "1", "--model", tiny]) == 0
    err = capsys.readouterr().err
    assert "30 tokens" in err and "the last 18" in err, "learned positions begin again in the middle of the context"
    assert main(["run", "lm", "a" * 24, "-n", "1", "--seed", "1", "--model", tiny]) == 0
    assert capsys.readouterr().err == ""


# ---- many prompts


PROMPTS = ["ab", "", "the cat", "ab", "x" * 30]


def continued(tiny: str, prompt: str, *words: str) -> str:
    """What a model writes behind one prompt alone."""
    options = {"-n": "max_new_tokens", "--seed": "seed", "--beams": "beams"}
    values = {options[name]: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    return str(pipeline("lm", tiny)(prompt, **values))


@pytest.mark.parametrize("words", [["-n", "6", "--seed", "3"], ["-n", "4", "--beams", "2"], ["-n", "6"]])
def test_every_prompt_of_a_file_is_continued_as_if_alone(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """A row's text depends on its own prompt and the seed; without --seed that is 0, so that a stopped run resumes."""
    source, output = tmp_path / "prompts.jsonl", tmp_path / "continued.jsonl"
    source.write_text("".join(json.dumps({"id": n, "text": prompt}) + "\n" for n, prompt in enumerate(PROMPTS)))
    assert main(["run", "lm", "--input", str(source), "--output", str(output), *words, "--model", tiny]) == 0
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert rows == [
        {"id": n, "text": prompt, "continuation": continued(tiny, prompt, *words) if prompt else None}
        for n, prompt in enumerate(PROMPTS)
    ]
    assert "5 records" in (err := capsys.readouterr().err) and "seed" not in err


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv"])
def test_continuations_of_several_lines_fit_every_kind_of_file(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    """A line end or a tab in a text would break a table of tab-separated cells, or a file of one text a line."""
    text = "\tone\ntwo\r\nthree"
    monkeypatch.setattr(
        Writer,
        "__call__",
        lambda self, prompts, **rest: [Text(prompt=p, text=text, tokens=(), logprobs=()) for p in prompts],
    )
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    source.write_text("ab\ncd\n" if suffix == "txt" else "text\nab\ncd\n")
    assert main(["run", "lm", "--input", str(source), "--output", str(output), "--model", tiny, "-q"]) == 0
    found = output.read_bytes().decode()
    assert (
        found
        == {
            "txt": "\tone two three\n" * 2,
            "csv": f'text,continuation\nab,"{text}"\ncd,"{text}"\n',
            "tsv": "text\tcontinuation\nab\t one two three\ncd\t one two three\n",
        }[suffix]
    )
    assert capsys.readouterr().err == ""


def test_several_samples_of_a_row_are_a_list(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nab\n")
    words = ["run", "lm", "--input", str(tmp_path / "a.csv"), "--model", tiny, "-n", "5", "--samples", "2", "-q"]
    assert main([*words, "--output", str(tmp_path / "b.jsonl")]) == 0
    [row] = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert row["continuation"] == [one.text for one in pipeline("lm", tiny)("ab", max_new_tokens=5, samples=2)]
    assert main([*words, "--output", str(tmp_path / "c.csv")]) == 0
    with (tmp_path / "c.csv").open(newline="") as file:
        [cells] = csv.DictReader(file)
    assert json.loads(cells["continuation"]) == row["continuation"]


def test_a_stopped_run_resumes_only_with_the_same_settings(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("".join(f"{number}\n" for number in range(70)))
    words = ["run", "lm", "--input", str(source), "--model", tiny, "-n", "2"]
    assert main([*words, "--output", str(tmp_path / "whole.txt")]) == 0
    plain = Writer.__call__

    def breaks(self: Writer, prompts: Any, **rest: Any) -> Any:
        if "64" in prompts:
            raise KeyboardInterrupt
        return plain(self, prompts, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "__call__", breaks)
        assert main([*words, "--output", str(output)]) == 130
    capsys.readouterr()
    assert main([*words, "--output", str(output), "-t", "0.5"]) == 2
    assert "begun with another temperature" in capsys.readouterr().err
    assert main([*words, "--output", str(output)]) == 0
    assert "70 records, 64 of them before" in capsys.readouterr().err
    assert output.read_bytes() == (tmp_path / "whole.txt").read_bytes()


# ---- evaluation


def test_eval_stands_beside_its_baselines(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "text.txt"
    file.write_text("the cat sat on the mat.\n" * 30)
    words = ["eval", "lm", str(file), "--model", tiny, "--stride", "7"]
    found = json.loads(result(capsys, *words, "--json"))
    assert found["stride"] == 7 and set(found["results"]) == {"model", "unigram", "trigram", "xz -9"}
    lines = result(capsys, *words).splitlines()
    assert len(lines) == 5 and f"{found['results']['model']['bits_per_byte']:.4f}" in lines[1]


def test_eval_says_which_split_of_a_data_set_it_scored(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It scored the training split, and did not say so."""
    import datasets
    import huggingface_hub

    asked: list[str] = []

    def load_dataset(name: str, configuration: str | None, split: str) -> datasets.Dataset:
        asked.append(split)
        found = datasets.Dataset.from_dict({"text": ["the cat sat on the mat.\n" * 30]})
        found.save_to_disk(str(tmp_path / "kept"))
        return datasets.load_from_disk(str(tmp_path / "kept"))

    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_: ["train", "validation"])
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "lm", "owner/name", "--model", tiny]) == 0
    assert "owner/name: evaluated on split 'validation' (of train, validation)" in capsys.readouterr().err
    assert set(asked) == {"validation"}


def test_eval_writes_markdown(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("the cat sat on the mat.\n" * 30)
    words = ["eval", "lm", str(tmp_path / "text.txt"), "--model", tiny]
    found = json.loads(result(capsys, *words, "--json"))
    lines = result(capsys, *words, "--markdown").splitlines()
    assert lines[:2] == ["|  | nats/token | perplexity | bits/byte |", "| --- | ---: | ---: | ---: |"]
    assert lines[5] == f"| xz -9 |  |  | {found['results']['xz -9']['bits_per_byte']:.4f} |"
    assert lines[7] == "- 1 document, 721 tokens, 720 bytes; windows of 24 tokens every 12"


def test_two_formats_are_refused_before_the_work(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole evaluation ran before the command said so."""
    assert main(["eval", "lm", "nowhere.txt", "--model", tiny, "--json", "--markdown"]) == 2
    assert "choose one" in capsys.readouterr().err


# ---- next tokens


def test_next_is_the_pipeline(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = Writer(load(tiny)).next("ab", k=3)
    found = json.loads(result(capsys, "next", "ab", "-k", "3", "--model", tiny, "--json"))
    assert found["next"] == [
        {"id": one.id, "text": one.text, "probability": pytest.approx(one.probability)} for one in expected.next
    ]
    assert (found["prompt"], found["prompt_tokens"], found["others"]) == ("ab", 2, 254)
    assert len(result(capsys, "next", "ab", "-k", "999", "--model", tiny).splitlines()) == 258


def test_next_says_what_it_does_not_see_unless_quiet(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["next", "a" * 30, "-k", "1", "--model", tiny]
    assert main(words) == 0
    assert "30 tokens, but the model sees only the last 24" in capsys.readouterr().err
    assert main([*words, "--quiet"]) == 0 and capsys.readouterr().err == ""
