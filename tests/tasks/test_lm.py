"""Language modelling from records to results, on a model small enough to train in a test."""

from pathlib import Path

import pytest
import torch

from suite import load, pipeline
from suite.checkpoint import Model
from suite.errors import ConfigError, DataError
from suite.model import ModelConfig, Transformer
from suite.task import find_task, registered
from suite.tasks.lm.evaluate import evaluate
from suite.tasks.lm.pipeline import Writer
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
    [result] = write("the cat sat", max_new_tokens=6, temperature=0)
    assert (result.prompt + result.text).startswith("the cat sat on the mat.")
    assert len(result.tokens) == len(result.logprobs) == 6


def test_the_result_does_not_depend_on_the_batch(trained: Path) -> None:
    write = pipeline("lm", str(trained / "run"))
    together = write(["the cat", "on", ""], max_new_tokens=12, seed=3, temperature=1.5)
    for prompt, one in zip(["the cat", "on", ""], together, strict=True):
        [alone] = write(prompt, max_new_tokens=12, seed=3, temperature=1.5)
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
    assert found.tokens[0][0] == int(best.argmax())
    for token, _, probability in found.tokens:
        assert probability == pytest.approx(float(best[token]), abs=1e-5), "renormalised over the few shown"
    assert found.rest + sum(probability for _, _, probability in found.tokens) == pytest.approx(1)
    everything = writer.next("the", k=model.config.vocab_size)
    assert everything.rest == pytest.approx(0, abs=1e-9)


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
    [result] = Writer(model, temperature=1.0, top_k=0)("a", max_new_tokens=60)
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
    assert Writer(after)("the dog", max_new_tokens=8, temperature=0)[0].text.startswith(" sat on the cat")


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
