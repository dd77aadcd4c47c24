"""A run that was stopped anywhere leaves a model that can be used, whatever its task."""

import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from suite import load, pipeline
from suite.checkpoint import convert, read_config, read_tensors, save_checkpoint
from suite.cli.main import main
from suite.data.performance import Performance
from suite.errors import CheckpointError, ConfigError, UnfinishedWarning
from suite.model import ModelConfig, Transformer
from suite.task import find_task
from suite.task.tables import read_tables
from suite.tasks.lm.task import SPECIALS
from suite.text.tokenizer import Tokenizer
from suite.training.fit import fit
from suite.training.loop import Trainer
from suite.training.recipe import Recipe
from suite.training.state import RunDirectory

SHAPE = ["model.context=64", "model.d_model=16", "model.n_layer=1", "model.n_head=2", "model.position=rotary"]
NEW = ["base=''", *SHAPE]
SHORT = [
    "run.epochs=0",
    "run.steps=4",
    "run.save_every=2",
    "run.valid_every=1",
    "schedule.warmup=0",
    "data.held_out=0.3",
]


class Killed(BaseException):
    """In the place of `kill -9`: what comes after it in the same process must not have been needed."""


def text(folder: Path) -> str:
    path = folder / "cat.txt"
    path.write_text("the cat sat on the mat.\n" * 60)
    return str(path)


def labelled(folder: Path) -> str:
    path = folder / "labelled.csv"
    rows = [f"{word} {number},{label}" for word, label in (("pear", "fruit"), ("saw", "tool")) for number in range(20)]
    path.write_text("\n".join(["text,label", *rows]))
    return str(path)


def pairs(folder: Path) -> str:
    path = folder / "pairs.tsv"
    path.write_text("\n".join(f"one {number}\teins {number}" for number in range(30)))
    return str(path)


def articles(folder: Path) -> str:
    path = folder / "articles.jsonl"
    rng = np.random.default_rng(0)
    with path.open("w") as out:
        for number in range(8):
            body = [f"The {' '.join(rng.choice(['word', 'term', 'name'], 5))} {number}." for _ in range(5)]
            sections = [{"heading": "", "text": " ".join(body)}]
            out.write(json.dumps({"title": f"Title {number}", "lead": body[0], "sections": sections}) + "\n")
    return str(path)


def music(folder: Path) -> str:
    for place in range(8):
        start = np.arange(40) * 0.2
        Performance(np.full(40, 50 + place), np.full(40, 70), start, start + 0.1).save(folder / f"{place}.mid")
    return str(folder)


def base(folder: Path) -> str:
    """A language model to add to."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.bytes(SPECIALS)
    shape = {"context": 64, "d_model": 16, "n_layer": 1, "n_head": 2, "position": "rotary"}
    config = ModelConfig.from_dict({"vocab_size": tokenizer.vocab_size, **shape})
    save_checkpoint(folder / "base", config, Transformer(config).state_dict(), tokenizer)
    return str(folder / "base")


def wrote(model: str) -> None:
    assert len(pipeline("lm", model)("the", max_new_tokens=3, seed=1).tokens) == 3


def classified(model: str) -> None:
    found = pipeline("classify", model)("pear 3")
    assert set(found.scores) == {"fruit", "tool"}


def translated(model: str) -> None:
    assert isinstance(pipeline("translate", model, source="en", target="de", beams=2)("one 1").text, str)


def summed_up(model: str) -> None:
    article = {"title": "Title", "text": "The first is a word. The second is a word too. The third is not."}
    from suite.data.articles import Article, Section

    given = Article(title=article["title"], lead="", sections=(Section(heading="", text=article["text"]),))
    for style in ("extract", "write"):
        [found] = pipeline("summarize", model)([given], style=style, max_words=10)
        assert found.style == style


def played(model: str) -> None:
    assert pipeline("music", model)(seconds=1.0, seed=1)


Use = Callable[[str], None]
KINDS: dict[str, tuple[str, Callable[[Path], str], list[str], Use]] = {
    "lm": ("lm", text, [*NEW, "tokenizer.kind=bytes", "averaging.kind=ema"], wrote),
    "classify": ("classify", labelled, [*NEW, "tokenizer.kind=bytes"], classified),
    "translate": ("translate", pairs, [*NEW, "tokenizer.kind=bytes"], translated),
    "summarize": ("summarize", articles, [*NEW, "model.context=400", "tokenizer.model=lm"], summed_up),
    "music": ("music", music, NEW, played),
    "low-rank": ("lm", text, ["base=BASE", "tune.kind=lora", "tune.rank=2", "data.window=32"], wrote),
    "head": ("classify", labelled, ["base=BASE", "tune.kind=head"], classified),
    "low-rank and head": ("classify", labelled, ["base=BASE", "tune.kind=lora", "tune.rank=2"], classified),
}


def recipe_of(kind: str, folder: Path, *more: str) -> Recipe:
    task, source, settings, _ = KINDS[kind]
    based = "base=BASE" in settings
    folder.mkdir(exist_ok=True)
    (folder / "data").mkdir()
    lines = [line.replace("BASE", base(folder)) if based else line for line in settings]
    lines += [f"data.train=['{source(folder / 'data')}']", "data.held_out=0.3", *SHORT, *more]
    if task == "translate":
        lines += ["data.source=en", "data.target=de", "tokenizer.vocab_size=300"]
    return Recipe.load(find_task(task).default_recipe(based), lines)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Ctrl-C comes in the third step, once."""
    taken: list[int] = []
    plain = Trainer.take_step

    def step(trainer: Trainer, batches: Any) -> None:
        plain(trainer, batches)
        taken.append(trainer.progress.step)
        if len(taken) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Trainer, "take_step", step)
    yield taken


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_can_be_used_and_goes_on(kind: str, tmp_path: Path, interrupted: list[int]) -> None:
    """Ctrl-C left a state to go on from, and nothing that `--model` takes."""
    recipe, run = recipe_of(kind, tmp_path), tmp_path / "run"
    with pytest.raises(
        KeyboardInterrupt, match=r"step 3 of 4; give the same command again to resume from .*can be used as it is"
    ):
        fit(recipe, run, cache=tmp_path / "cache", device="cpu")
    assert read_config(run / "checkpoint")["unfinished"] == {"step": 3, "steps": 4}
    with pytest.warns(UnfinishedWarning, match=r"run is unfinished: step 3 of 4"):
        KINDS[kind][3](str(run))
    assert fit(recipe, run, cache=tmp_path / "cache", device="cpu").result.finished
    assert "unfinished" not in read_config(run / "checkpoint")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnfinishedWarning)
        KINDS[kind][3](str(run))


@pytest.mark.parametrize("where", ["state", "config"])
def test_killed_after_a_saved_state_there_is_a_model(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kill -9` right behind the state, and between the two files of the checkpoint that goes with a later one."""
    recipe, run = recipe_of("lm", tmp_path), tmp_path / "run"
    saves = []
    plain = RunDirectory.save

    def save(self: RunDirectory, *arguments: Any) -> None:
        plain(self, *arguments)
        saves.append(arguments)
        if where == "state":
            raise Killed

    def write(path: Path, *rest: Any) -> None:
        if saves and path.parent.name == "checkpoint":
            raise Killed
        written(path, *rest)

    import suite.checkpoint

    written = suite.checkpoint.write_tensors
    monkeypatch.setattr(RunDirectory, "save", save)
    monkeypatch.setattr("suite.checkpoint.format.write_tensors", write)
    with pytest.raises(Killed):
        fit(recipe, run, cache=tmp_path / "cache", device="cpu")
    with pytest.warns(UnfinishedWarning, match=f"step {2 if where == 'state' else 4} of 4"):
        wrote(str(run))


def test_a_finished_run_that_goes_on_never_passes_for_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the new weights and the old config.json, it would."""
    run, cache = tmp_path / "run", tmp_path / "cache"
    recipe = recipe_of("classify", tmp_path)
    fit(recipe, run, cache=cache, device="cpu")
    longer = Recipe.from_dict(recipe.to_dict() | {"run": recipe.to_dict()["run"] | {"steps": 8}})
    order = []
    import suite.checkpoint

    plain = suite.checkpoint.write_atomic

    def write(path: Path, *rest: Any) -> None:
        if path.parent.name == "checkpoint":
            order.append(path.name)
        if order.count("model.safetensors") == 1:
            raise Killed
        plain(path, *rest)

    for module in ("format", "settings", "tensors"):
        monkeypatch.setattr(f"suite.checkpoint.{module}.write_atomic", write)
    with pytest.raises(Killed):
        fit(longer, run, cache=cache, device="cpu")
    assert order == ["config.json", "model.safetensors"]
    with pytest.warns(UnfinishedWarning, match="step 6 of 8"):
        classified(str(run))


def test_a_run_that_is_out_of_time_is_unfinished_and_calibrated(tmp_path: Path) -> None:
    """`--max-minutes` ends in its own time, so the task has its say on the model."""
    recipe = recipe_of("classify", tmp_path, "run.max_minutes=0.00001")
    fitted = fit(recipe, tmp_path / "run", device="cpu")
    assert not fitted.result.finished
    settings = read_config(fitted.checkpoint)
    assert settings["unfinished"] == {"step": 1, "steps": 4} and settings["extra"]["temperature"] != 1.0


def test_the_weights_are_the_best_so_far(tmp_path: Path, interrupted: list[int]) -> None:
    """The last ones of a run that has begun to learn by heart are worse."""
    recipe, run = (
        recipe_of("lm", tmp_path, "run.storage=float32", "optimizer.lr=5.0", "optimizer.matrix_lr=5.0"),
        tmp_path,
    )
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, run, cache=tmp_path / "cache", device="cpu")
    best = read_tensors(run / "best/weights.safetensors")
    last = read_tensors(run / "last/state.safetensors")
    found = read_tensors(run / "checkpoint/model.safetensors")
    assert all(torch.equal(found[name], best[name]) for name in best)
    assert any(not torch.equal(found[name], last[f"weights/{name}"]) for name in best)
    with pytest.warns(UnfinishedWarning):
        convert(run, tmp_path / "copy", to="suite")
    with pytest.warns(UnfinishedWarning):
        assert load(tmp_path / "copy").unfinished is not None, "a copy is not finished either"


def test_a_run_that_saved_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(CheckpointError, match="has no checkpoint yet; give its training command again"):
        load(tmp_path)


def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, interrupted: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the file and the line of code that Python's warnings come with."""
    recipe, run = recipe_of("lm", tmp_path), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, run, cache=tmp_path / "cache", device="cpu")
    for _ in range(2):
        assert main(["run", "lm", "the", "-n", "2", "--model", str(run)]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == f"{run} is unfinished: step 3 of 4; give its training command again to resume it"


@pytest.mark.parametrize("task", ["lm", "classify", "translate", "summarize", "music"])
def test_a_share_that_holds_no_record_is_refused(task: str) -> None:
    """data.held_out=1e-30 was taken without a word."""
    more = ["data.source=en", "data.target=de"] if task == "translate" else []
    recipe = Recipe.load(find_task(task).default_recipe(False), ["data.train=['a']", "data.held_out=1e-30", *more])
    with pytest.raises(ConfigError, match=r"data.held_out is 1e-30, too small to hold a record; the least is 1e-06"):
        read_tables(find_task(task), recipe)
