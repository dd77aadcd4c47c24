"""A recipe's mistakes are named, with the key that was probably meant; a right one survives being saved."""

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import pytest

from suite.errors import ConfigError
from suite.tables import from_table, nearest
from suite.training import Recipe
from suite.training.recipe import OptimizerConfig

TEXT = """
task = "lm"
seed = 7
[model]
d_model = 64
windows = [0, 8]
[batch]
size = 4
[optimizer]
lr = 1
[run]
steps = 10
[lm]
stride = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(TEXT)
    return path


def test_round_trip(file: Path) -> None:
    recipe = Recipe.load(file)
    assert recipe.optimizer.lr == 1.0 and isinstance(recipe.optimizer.lr, float)
    assert recipe.options == {"stride": 3} and recipe.seed == 7
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("optimizer.lr=3e-4", lambda recipe: recipe.optimizer.lr == 3e-4),
        ("optimizer.kind=muon", lambda recipe: recipe.optimizer.kind == "muon"),
        ('data.train=["a.txt"]', lambda recipe: recipe.data == {"train": ["a.txt"]}),
        ("data.train=a b.txt", lambda recipe: recipe.data == {"train": "a b.txt"}),
        ("lm.stride=9", lambda recipe: recipe.options == {"stride": 9}),
        ("run.compile=true", lambda recipe: recipe.run.compile is True),
    ],
)
def test_overrides(file: Path, override: str, read: Any) -> None:
    assert read(Recipe.load(file, [override]))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.lrr=1", "unknown key 'optimizer.lrr'; did you mean 'optimizer.lr'?"),
        ("optimiser.lr=1", "unknown key 'optimiser'; did you mean 'optimizer'?"),
        ("model.d_modle=1", "unknown key 'model.d_modle'; did you mean 'model.d_model'?"),
        ("run.steps=many", "run.steps must be int, not 'many'"),
        ("run.steps=true", "run.steps must be int, not True"),
        ("run.steps=0", "run.steps is 0 and run.epochs 0: exactly one of them must be above 0"),
        ("run.epochs=2", "exactly one"),
        ("model.d_model=wide", "model.d_model must be int, not 'wide'"),
        ("model.dropout=high", "model.dropout must be float, not 'high'"),
        ("optimizer.lr=nan", "optimizer.lr is nan"),
        ("schedule.warmup=inf", "schedule.warmup is inf"),
        ("seed=-1", "seed is -1"),
        ("seed=99999999999999999999", "seed is 99999999999999999999"),
        ("optimizer.kind=sgd", "optimizer.kind is 'sgd'; the choices are adamw, muon"),
        ("optimizer=1", "optimizer must be a table, not 1"),
        ("batch.tokens=5", "batch needs either batch.size"),
        ("seed.x=1", "seed is not a table"),
        ("nothing", "not of the form table.key=value"),
    ],
)
def test_mistakes(file: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Recipe.load(file, [override])
    assert message in str(error.value) and "\n" not in str(error.value)
    assert str(file) in str(error.value) or "--set" in str(error.value)


def test_missing_key_and_broken_file(tmp_path: Path, file: Path) -> None:
    (tmp_path / "short.toml").write_text('task = "lm"\n[batch]\nsize = 1\n')
    with pytest.raises(ConfigError, match=r"short.toml: run is missing"):
        Recipe.load(tmp_path / "short.toml")
    (tmp_path / "broken.toml").write_text("task = \n")
    with pytest.raises(ConfigError, match=r"cannot read recipe .*broken.toml"):
        Recipe.load(tmp_path / "broken.toml")
    with pytest.raises(ConfigError, match="cannot read recipe"):
        Recipe.load(tmp_path / "absent.toml")


def test_model_config(file: Path) -> None:
    recipe = Recipe.load(file, ["model.context=16", "model.n_layer=2", "model.n_head=2"])
    assert recipe.model_config(99).vocab_size == 99
    with pytest.raises(ConfigError, match="the tokenizer has 99"):
        Recipe.load(file, ["model.vocab_size=5"]).model_config(99)


def test_tables_of_a_task() -> None:
    """Tasks check tables of their own with the same function, so their messages are as good."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        pair: tuple[str, ...] = ()
        ratio: float | None = None
        mode: Literal["a", "b"] = "a"

    made = from_table(Options, {"pair": ["en", "de"], "ratio": 2}, "here", "translate.")
    assert made.pair == ("en", "de") and made.ratio == 2.0
    with pytest.raises(ConfigError, match=r"here: translate.pair\[1\] must be str, not 3"):
        from_table(Options, {"pair": ["en", 3]}, "here", "translate.")
    with pytest.raises(ConfigError, match=r"here: unknown key 'translate.rato'; did you mean 'translate.ratio'"):
        from_table(Options, {"rato": 1}, "here", "translate.")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("learning_rate", "lr"),
        ("leaning_rate", "lr"),
        ("wd", "weight_decay"),
        ("weight_deca", "weight_decay"),
        ("beta_1", "beta1"),
        ("gradient_clip", "clip"),
        ("matrix_rate", "matrix_lr"),
        ("colour", None),
        ("x", None),
    ],
)
def test_the_nearest_key_is_one_that_was_probably_meant(key: str, expected: str | None) -> None:
    """`optimizer.learning_rate` was answered with "did you mean 'optimizer.weight_decay'?"."""
    assert nearest(key, [field.name for field in dataclasses.fields(OptimizerConfig)]) == expected
    assert nearest(key, []) is None


@pytest.mark.parametrize(
    ("key", "expected"),
    [("batch_size", "size"), ("max_steps", "steps"), ("epoch", "epochs"), ("minutes", "max_minutes"), ("valid", None)],
)
def test_a_part_of_a_key_is_near_it(key: str, expected: str | None) -> None:
    names = ["size", "steps", "least_steps", "epochs", "max_minutes", "log_every"]
    assert nearest(key, names) == expected


def test_all_keys_are_listed_where_none_is_near(file: Path) -> None:
    """Any word got a "did you mean", however unlike it was."""
    with pytest.raises(ConfigError, match=r"unknown key 'batch.colour'; available: size, tokens, micro_tokens$"):
        Recipe.load(file, ["batch.colour=red"])
