"""Language modelling from records to results, on a model small enough to train in a test."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from suite import load, pipeline
from suite.checkpoint import Model
from suite.errors import ConfigError, DataError
from suite.model import ModelConfig, Transformer
from suite.task import find_task, registered
from suite.tasks.lm import pipeline as lm_pipeline
from suite.tasks.lm.evaluate import evaluate
from suite.tasks.lm.options import LMEvalOptions
from suite.tasks.lm.pipeline import Text, Writer
from suite.text.tokenizer import Tokenizer
from suite.training.fit import fit
from suite.training.recipe import Recipe

TEXT = "the cat sat on the mat.\n" * 400
TINY = [
    "model.context=32",
    "model.d_model=32",
    "model.n_head=2",
    "model.n_layer=2",
    "tokenizer.vocab_size=290",
    "batch.size=8",
    "run.steps=60",
    "run.valid_every=30",
    "schedule.warmup=5",
    "model.dropout=0.0",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a checkpoint that has learnt one line by heart."""
    folder = tmp_path_factory.mktemp("lm")
    (folder / "cat.txt").write_text(TEXT)
    recipe = Recipe.load(find_task("lm").default_recipe(), [*TINY, f"data.train=['{folder / 'cat.txt'}']"])
    fitted = fit(recipe, folder / "run", cache=folder / "cache")
    assert fitted.result.finished
    return folder


def test_the_task_is_found_by_its_entry_point() -> None:
    assert "lm" in registered()
    with pytest.raises(ConfigError, match="did you mean 'lm'"):
        find_task("lmm")


def test_a_recipe_becomes_a_checkpoint_that_knows_its_text(trained: Path) -> None:
    write = pipeline("lm", str(trained / "run"))
    result = write("the cat sat", max_new_tokens=6, temperature=0)
    assert (result.prompt + result.text).startswith("the cat sat on the mat.")
    assert len(result.tokens) == len(result.logprobs) == 6


def test_the_result_does_not_depend_on_the_batch(trained: Path) -> None:
    write = pipeline("lm", str(trained / "run"))
    together = write(["the cat", "on", ""], max_new_tokens=12, seed=3, temperature=1.5)
    for prompt, one in zip(["the cat", "on", ""], together, strict=True):
        alone = write(prompt, max_new_tokens=12, seed=3, temperature=1.5)
        assert alone.tokens == one.tokens
        streamed = list(write.stream(prompt, max_new_tokens=12, seed=3, temperature=1.5))
        assert "".join(step.text for step in streamed) == one.text


def test_next_tokens_are_true_probabilities(trained: Path) -> None:
    model = load(trained / "run")
    writer = Writer(model)
    found = writer.next("the cat sat on the", k=3)
    with torch.no_grad():
        logits = model.transformer(torch.tensor([writer.encode("the cat sat on the")]))[0, -1]
    best = logits.softmax(-1)
    assert found.next[0].id == int(best.argmax()) and str(found) == found.next[0].text
    for one in found.next:
        assert one.probability == pytest.approx(float(best[one.id]), abs=1e-5), "renormalised over the few shown"
    assert found.rest + sum(one.probability for one in found.next) == pytest.approx(1)
    everything = writer.next("the", k=model.config.vocab_size)
    assert everything.rest == pytest.approx(0, abs=1e-9) and everything.others == 0
    assert [one.prompt for one in writer.next(["the", "a"], k=1)] == ["the", "a"]


def test_evaluation_counts_every_byte_once_and_beats_its_baselines(trained: Path) -> None:
    model = load(trained / "run")
    report = evaluate(model, [str(trained / "cat.txt")], cache=trained / "cache")
    assert report["bytes"] == len(TEXT)
    results = report["results"]
    assert results["model"]["bits_per_byte"] < results["unigram"]["bits_per_byte"]
    assert results["trigram"]["bits_per_byte"] < results["unigram"]["bits_per_byte"]
    nats = results["model"]["nats_per_token"]
    assert results["model"]["bits_per_byte"] == pytest.approx(
        nats * report["tokens"] / report["bytes"] / 0.693147, rel=1e-4
    )


def ten_texts(tmp_path: Path) -> Path:
    """A folder of documents that differ."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.txt").write_text(f"{number} cats. " * 20)
    return folder


def test_evaluation_can_take_some_documents_evenly_spread(trained: Path, tmp_path: Path) -> None:
    """There was no way to a quick look at a large corpus."""
    folder = ten_texts(tmp_path)
    model = load(trained / "run")
    report = evaluate(model, [str(folder)], LMEvalOptions(limit=3), cache=tmp_path)
    assert report["documents"] == 3
    chosen = [str(folder / f"{number}.txt") for number in (0, 3, 6)]
    assert report["results"] == evaluate(model, chosen, cache=tmp_path)["results"]
    assert evaluate(model, [str(folder)], LMEvalOptions(limit=99), cache=tmp_path)["documents"] == 10


def test_one_prompt_gives_one_text_and_several_a_list(trained: Path) -> None:
    """`pipeline("lm")("x")` gave a list of one, other pipelines the result itself."""
    write = pipeline("lm", str(trained / "run"))

    def tokens(prompts: Any, **rest: Any) -> Any:
        """The results' tokens, in the same lists: the last digits of log-probabilities depend on the batch."""
        found = write(prompts, max_new_tokens=4, **rest)
        return [plain(one) for one in found] if isinstance(found, list) else plain(found)

    def plain(one: Any) -> Any:
        assert isinstance(one, Text | list)
        return [each.tokens for each in one] if isinstance(one, list) else one.tokens

    one, samples, on = tokens("the cat"), tokens("the cat", samples=3), tokens("on", samples=3)
    assert str(write("the cat")) == write("the cat").text
    for several in (["the cat"], ("the cat",), (prompt for prompt in ["the cat"]), np.array(["the cat"])):
        assert tokens(several) == [one]
    assert tokens(np.str_("the cat")) == one and tokens([]) == [] == tokens([], samples=2)
    assert len(samples) == 3 and samples[0] == one
    assert tokens(["the cat", "on"], samples=3) == [samples, on]
    assert tokens("the cat", beams=3, samples=2)[0] == tokens("the cat", beams=3)
    assert tokens(["the cat"], beams=3, samples=2) == [tokens("the cat", beams=3, samples=2)]


@pytest.mark.parametrize("wrong", [None, 3, b"a", {"a": 1}, {"a"}, [None], ["a", 3]])
def test_what_is_no_prompt_is_refused(trained: Path, wrong: Any) -> None:
    """Bytes were continued byte by byte, a dictionary by its keys."""
    write = pipeline("lm", str(trained / "run"))
    for call in (write, write.stream, write.next):
        with pytest.raises(DataError, match="string"):
            call(wrong)


def test_many_prompts_are_continued_some_at_a_time(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, a long list did not fit in memory; how it is cut must not show."""
    write = pipeline("lm", str(trained / "run"))
    prompts = [f"the cat {number}" for number in range(7)]
    whole = write(prompts, max_new_tokens=5, seed=4, samples=2)
    sizes: list[int] = []
    plain = lm_pipeline.generate
    monkeypatch.setattr(
        lm_pipeline, "generate", lambda model, ids, **rest: (sizes.append(len(ids)), plain(model, ids, **rest))[1]
    )
    monkeypatch.setattr(lm_pipeline, "ROWS", 6)
    found = write(prompts, max_new_tokens=5, seed=4, samples=2)
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in whole]
    assert sizes == [3, 3, 1]


def test_results_are_plain_values(trained: Path) -> None:
    write = pipeline("lm", str(trained / "run"))
    text = write("the", max_new_tokens=2, temperature=0, top_logprobs=2)
    plain = json.loads(json.dumps(text.to_dict()))
    assert plain["tokens"] == list(text.tokens) and plain["top"][0][0] == list(text.top[0][0])
    assert (plain["prompt"], plain["text"], plain["finish"], plain["score"]) == ("the", text.text, "length", None)


def test_keys_that_nothing_reads_are_refused(trained: Path, tmp_path: Path) -> None:
    """A table named after the task was ignored, so `--set lm.window=3` did nothing."""
    source = f"data.train=['{trained / 'cat.txt'}']"
    recipe = find_task("lm").default_recipe()
    for line, message in (
        ("lm.window=3", r"reads no lm\.window; did you mean data\.window"),
        ("data.windw=3", r"did you mean data\.window"),
        ("tokenizer.kinds='bytes'", r"did you mean tokenizer\.kind"),
        ("loss.source_weight=0.5", r"reads no loss\.source_weight"),
        ("data.valid_tokens=-1", r"data\.valid_tokens is -1"),
    ):
        with pytest.raises(ConfigError, match=message):
            find_task("lm").prepare(Recipe.load(recipe, [*TINY, source, line]), tmp_path)


def test_training_documents_can_be_limited(tmp_path: Path) -> None:
    folder = ten_texts(tmp_path)
    lines = [*TINY, "tokenizer.kind=bytes", "data.held_out=0.2", f"data.train=['{folder}']"]
    recipe = find_task("lm").default_recipe()
    everything = find_task("lm").prepare(Recipe.load(recipe, lines), tmp_path / "cache")
    some = find_task("lm").prepare(Recipe.load(recipe, [*lines, "data.limit=3"]), tmp_path / "cache")
    assert [notes.notes[0].partition(",")[0] for notes in (everything, some)] == [
        "training text: 8 documents",
        "training text: 3 documents",
    ]
    assert [list(one.tokens) for one in some.valid] == [list(one.tokens) for one in everything.valid]


def test_settings_that_mean_nothing_are_refused(trained: Path) -> None:
    write = pipeline("lm", str(trained / "run"))
    with pytest.raises(ConfigError, match="temprature"):
        write("a", temprature=1)
    with pytest.raises(ConfigError, match="beam"):
        write("a", beams=2, temperature=0.5)
    with pytest.raises(ConfigError, match="k is 0"):
        write.next("a", k=0)


def test_no_text_and_no_context_are_said_in_one_line(tmp_path: Path) -> None:
    recipe = find_task("lm").default_recipe()
    with pytest.raises(ConfigError, match="--data"):
        fit(Recipe.load(recipe), tmp_path, cache=tmp_path)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(DataError, match="no text"):
        fit(Recipe.load(recipe, [f"data.train=['{tmp_path / 'empty.txt'}']"]), tmp_path / "run", cache=tmp_path)


def test_ids_that_only_pad_the_vocabulary_are_never_drawn() -> None:
    """Drawing one made the decoder fail: it stands for no text."""
    tokenizer = Tokenizer.bytes(("<eos>",))
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=512, context=16, d_model=16, n_layer=1, n_head=2)
    model = Model(
        transformer=Transformer(config).eval(), tokenizer=tokenizer, task="lm", name="padded", directory=Path()
    )
    result = Writer(model, temperature=1.0, top_k=0)("a", max_new_tokens=60)
    assert max(result.tokens) < tokenizer.vocab_size


def test_a_model_goes_on_learning_on_other_text_in_its_own_vocabulary(trained: Path, tmp_path: Path) -> None:
    """`suite train lm --base`: the base's shape, context and tokenizer, and windows shorter than the context."""
    (tmp_path / "dog.txt").write_text("the dog sat on the cat.\n" * 200)
    recipe = Recipe.load(
        find_task("lm").default_recipe(base=True),
        [
            f"base='{trained / 'run'}'",
            f"data.train=['{tmp_path / 'dog.txt'}']",
            "data.window=16",
            "run.steps=60",
            "optimizer.lr=5e-3",
            "optimizer.matrix_lr=5e-3",
        ],
    )
    data = find_task("lm").prepare(recipe, tmp_path)
    assert {len(example.tokens) for example in data.valid[:-1]} == {17}
    fit(recipe, tmp_path / "run", cache=tmp_path)
    before, after = load(str(trained / "run")), load(str(tmp_path / "run"))
    assert before.config == after.config and before.tokenizer and after.tokenizer
    assert before.tokenizer.digest == after.tokenizer.digest
    assert Writer(after)("the dog", max_new_tokens=8, temperature=0).text.startswith(" sat on the cat")


def test_a_base_and_another_vocabulary_do_not_go_together(trained: Path, tmp_path: Path) -> None:
    """As many ids, but others: the weights would mean nothing, and nothing would say so."""
    recipe = Recipe.load(
        find_task("lm").default_recipe(base=True),
        [f"base='{trained / 'run'}'", f"data.train=['{trained / 'cat.txt'}']", "tokenizer.kind=bytes", "run.steps=1"],
    )
    with pytest.raises(ConfigError, match="different vocabulary"):
        fit(recipe, tmp_path / "run", cache=tmp_path)


def test_windows_have_a_length(trained: Path, tmp_path: Path) -> None:
    lines = [*TINY, f"data.train=['{trained / 'cat.txt'}']", "data.window=-1"]
    with pytest.raises(ConfigError, match=r"data\.window is -1"):
        find_task("lm").prepare(Recipe.load(find_task("lm").default_recipe(), lines), tmp_path)
