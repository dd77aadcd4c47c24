"""The loop's promises: cuts do not matter, bad numbers stop it, what is on disk stays whole."""

import dataclasses
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from suite.checkpoint import read_tensors
from suite.errors import CheckpointError, ConfigError, SuiteError
from suite.model import ModelConfig, Transformer
from suite.training import Batch, Example, ShuffledSource, TrainResult, language_modelling, train
from suite.training.keeping import Kept
from suite.training.loop import Trainer
from suite.training.recipe import AveragingConfig, BatchConfig, OptimizerConfig, Recipe, RunConfig, ScheduleConfig

RECIPE = Recipe(
    task="tiny",
    batch=BatchConfig(size=6),
    optimizer=OptimizerConfig(lr=3e-3),
    schedule=ScheduleConfig(kind="constant"),
    run=RunConfig(steps=6, log_every=2, valid_every=2, save_every=2, precision="float32"),
)
RNG = np.random.default_rng(1)
EXAMPLES = [
    Example((np.arange(RNG.integers(5, 14)) * 5 + RNG.integers(29)) % 29, prefix=place % 3, target=1 + place % 4)
    for place in range(40)
]


def tiny() -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(vocab_size=29, context=16, d_model=16, n_layer=1, n_head=2))


def run(out: Path, recipe: Recipe = RECIPE, model: Transformer | None = None, **options: Any) -> TrainResult:
    options = {"valid": EXAMPLES[:8], **options}
    return train(model or tiny(), ShuffledSource(EXAMPLES, 0), recipe, out=out, device="cpu", **options)


def rows(out: Path, key: str) -> list[Any]:
    table = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [row[key] for row in table if key in row]


def changed(recipe: Recipe, **fields: Any) -> Recipe:
    return dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, **fields))


def test_learns(tmp_path: Path) -> None:
    fast = dataclasses.replace(RECIPE, optimizer=OptimizerConfig(lr=1e-2))
    run(tmp_path, changed(fast, steps=40, log_every=10))
    losses = rows(tmp_path, "loss")
    assert losses[0] > 2.8 and losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("micro_tokens", [1, 30])
def test_cuts_of_a_step_do_not_matter(tmp_path: Path, micro_tokens: int) -> None:
    """A mean of the micro-batches' means would weigh tokens of short micro-batches more."""
    recipe = dataclasses.replace(RECIPE, optimizer=OptimizerConfig(eps=1e-3))
    cut = dataclasses.replace(recipe, batch=BatchConfig(size=6, micro_tokens=micro_tokens))
    for out, each in (("whole", recipe), ("cut", cut)):
        run(tmp_path / out, each)
    weights = [read_tensors(tmp_path / out / "last/state.safetensors") for out in ("whole", "cut")]
    for name in weights[0]:
        torch.testing.assert_close(weights[1][name], weights[0][name], rtol=1e-4, atol=1e-6)
    assert rows(tmp_path / "cut", "loss") == pytest.approx(rows(tmp_path / "whole", "loss"))
    assert rows(tmp_path / "cut", "tokens") == rows(tmp_path / "whole", "tokens")


def poisoned(at: int) -> Callable[[Transformer, Batch], tuple[torch.Tensor, float, dict[str, torch.Tensor]]]:
    """The usual loss, but not a number at training step `at`."""
    usual, calls = language_modelling(), 0

    def loss(model: Transformer, batch: Batch) -> tuple[torch.Tensor, float, dict[str, torch.Tensor]]:
        nonlocal calls
        total, count, extras = usual(model, batch)
        if model.training:
            calls += 1
            if calls == at + 1:
                total = total * float("nan")
        return total, count, extras

    return loss


def test_nan_stops_at_its_step_and_keeps_the_good_state(tmp_path: Path) -> None:
    """A saved NaN is a lost run; a step number is what one needs to look into it."""
    with pytest.raises(SuiteError, match="not finite at step 3 ") as error:
        run(tmp_path, loss=poisoned(at=3))
    assert "\n" not in str(error.value)
    state = read_tensors(tmp_path / "last/state.safetensors")
    assert all(tensor.isfinite().all() for tensor in state.values())
    resumed, whole = tiny(), tiny()
    run(tmp_path, model=resumed)  # from step 2, without the poison
    run(tmp_path / "whole", model=whole)
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))


def test_full_disk_leaves_the_old_state(tmp_path: Path) -> None:
    """Writing over the old state would lose both."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    run(tmp_path, changed(RECIPE, steps=2))
    before = (tmp_path / "last/state.safetensors").read_bytes()
    usual = language_modelling()

    def loss(model: Transformer, batch: Batch) -> tuple[torch.Tensor, float, dict[str, torch.Tensor]]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))  # no file can grow past 4 KiB
        return usual(model, batch)

    try:
        with pytest.raises(CheckpointError, match="could not write") as error:
            run(tmp_path, loss=loss)
    finally:  # before pytest writes to its own log, which may be longer than that
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert "\n" not in str(error.value)
    assert (tmp_path / "last/state.safetensors").read_bytes() == before
    assert not list(tmp_path.glob("**/.*.tmp"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_saves_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    usual, calls = language_modelling(), 0
    handler = signal.getsignal(number)

    def loss(model: Transformer, batch: Batch) -> tuple[torch.Tensor, float, dict[str, torch.Tensor]]:
        nonlocal calls
        calls += 1
        if calls == 1:
            os.kill(os.getpid(), number)
        return usual(model, batch)

    with pytest.raises(KeyboardInterrupt, match=r"stopped at step 1 of 6; .* to resume from"):
        run(tmp_path, loss=loss)
    assert signal.getsignal(number) is handler
    resumed, whole = tiny(), tiny()
    run(tmp_path, model=resumed)
    run(tmp_path / "whole", model=whole)
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))


def test_time_slices_add_up(tmp_path: Path) -> None:
    sliced, whole = tiny(), tiny()
    result = run(tmp_path / "sliced", changed(RECIPE, max_minutes=1e-9), model=tiny())
    assert result.step == 1 and not result.finished
    while not run(tmp_path / "sliced", changed(RECIPE, max_minutes=1e-9), model=sliced).finished:
        pass
    assert run(tmp_path / "whole", model=whole).finished
    assert all(torch.equal(a, b) for a, b in zip(sliced.parameters(), whole.parameters(), strict=True))
    assert rows(tmp_path / "sliced", "tokens") == rows(tmp_path / "whole", "tokens")


def test_early_stopping_returns_the_best_weights(tmp_path: Path) -> None:
    """Returning the last weights instead would hand out an overfitted model."""
    recipe = changed(RECIPE, steps=100, valid_every=1, patience=2)
    recipe = dataclasses.replace(recipe, optimizer=OptimizerConfig(lr=1.0, clip=0.0))  # gets worse soon
    model = tiny()
    result = run(tmp_path, recipe, model)
    losses = rows(tmp_path, "valid_loss")
    assert result.finished and result.step < 100 and result.step == result.best_step + 2
    assert result.best_loss == min(losses) == losses[result.best_step - 1]
    best = read_tensors(result.weights)
    assert all(torch.equal(best[name], parameter) for name, parameter in model.named_parameters())
    again = run(tmp_path, recipe)  # stays stopped
    assert again.step == result.step and again.best_loss == result.best_loss


def test_mean_of_last_snapshots(tmp_path: Path) -> None:
    """The mean must be of the snapshots' weights, and pruning must not take one that is needed."""
    recipe = changed(RECIPE, save_every=1)
    recipe = dataclasses.replace(recipe, averaging=AveragingConfig(kind="last", count=2, every=2))
    model = tiny()
    run(tmp_path, recipe, model, valid=())
    files = sorted(tmp_path.glob("snapshots/*"))
    assert [file.stem for file in files] == ["00000004", "00000006"]
    snapshots = [read_tensors(file) for file in files]
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.data, (snapshots[0][name] + snapshots[1][name]) / 2)


def test_ema_is_what_is_validated(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, averaging=AveragingConfig(kind="ema", decay=0.5))
    result = run(tmp_path, recipe)
    state = read_tensors(tmp_path / "last/state.safetensors")
    best = read_tensors(result.weights)
    assert result.best_step == 6
    assert all(torch.equal(best[name], state[f"average/{name}"]) for name in best)
    assert any(not torch.equal(best[name], state[f"weights/{name}"]) for name in best)


def test_another_recipe_in_the_same_directory(tmp_path: Path) -> None:
    """Going on with another learning rate or seed would be a run that no recipe describes."""
    run(tmp_path, changed(RECIPE, steps=2))
    with pytest.raises(ConfigError, match="a different recipe: seed was 0 and is now 1"):
        run(tmp_path, dataclasses.replace(RECIPE, seed=1))
    with pytest.raises(ConfigError, match=r"optimizer\.lr was 0\.003 and is now 0\.1"):
        run(tmp_path, dataclasses.replace(RECIPE, optimizer=OptimizerConfig(lr=0.1)))
    assert run(tmp_path, RECIPE).step == 6  # more steps are welcome


def test_damaged_state(tmp_path: Path) -> None:
    run(tmp_path, changed(RECIPE, steps=2))
    state = tmp_path / "last/state.safetensors"
    state.write_bytes(state.read_bytes()[:5000])
    with pytest.raises(CheckpointError, match=r"state.safetensors is not a training state.*remove it") as error:
        run(tmp_path)
    assert "\n" not in str(error.value)


def test_another_model(tmp_path: Path) -> None:
    run(tmp_path, changed(RECIPE, steps=2))
    other = Transformer(ModelConfig(vocab_size=29, context=16, d_model=32, n_layer=1, n_head=2))
    with pytest.raises(CheckpointError, match="'weights/tokens"):
        run(tmp_path, model=other)


def test_own_loss_reports_its_sums(tmp_path: Path) -> None:
    usual = language_modelling()

    def loss(model: Transformer, batch: Batch) -> tuple[torch.Tensor, float, dict[str, torch.Tensor]]:
        total, count, _ = usual(model, batch)
        return total, count, {"half": torch.tensor(count / 2)}

    run(tmp_path, loss=loss)
    assert set(rows(tmp_path, "half")) == {0.5} == set(rows(tmp_path, "valid_half"))


def test_global_random_state_is_left_alone(tmp_path: Path) -> None:
    """Seeding each step must not make the caller's own sampling repeat itself."""
    model = tiny()
    before = torch.get_rng_state()
    run(tmp_path, model=model)
    assert torch.equal(torch.get_rng_state(), before)


def test_epochs_become_steps(tmp_path: Path) -> None:
    """40 examples, 6 a step: two epochs are 13 steps, few examples still take the least, endless ones are refused."""
    for settings, steps in (({"epochs": 2.0}, 13), ({"epochs": 0.1, "least_steps": 4}, 4)):
        run = dataclasses.replace(RECIPE.run, steps=0, **settings)
        recipe = dataclasses.replace(RECIPE, run=run)
        result = train(tiny(), ShuffledSource(EXAMPLES, 0), recipe, out=tmp_path / str(steps))
        assert result.step == steps and result.finished
    with pytest.raises(ConfigError, match="finite list"):
        train(tiny(), EXAMPLES, recipe, out=tmp_path / "endless")  # type: ignore[arg-type]


def test_the_last_weights_are_kept_where_the_recipe_says_so(tmp_path: Path) -> None:
    """At a rate that ruins the model, the best weights are the first and the last ones are not."""
    kept = {}
    for keep in ("best", "last"):
        recipe = dataclasses.replace(
            RECIPE,
            optimizer=OptimizerConfig(lr=2.0),
            run=dataclasses.replace(RECIPE.run, steps=5, valid_every=1, keep=keep),
        )
        result = train(tiny(), ShuffledSource(EXAMPLES, 0), recipe, out=tmp_path / keep, valid=EXAMPLES)
        assert result.best_step != 5, "the last weights must not be the best"
        kept[keep] = read_tensors(result.weights)["tokens.weight"]
    last = read_tensors(tmp_path / "best" / "last" / "state.safetensors")["weights/tokens.weight"]
    assert torch.equal(kept["last"], last) and not torch.equal(kept["best"], last)


class Clock:
    """A clock that goes on by so many seconds whenever the loop takes a step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: float, later: float) -> None:
        self.now, self.seconds = 0.0, iter([first, *[later] * 10_000])
        plain = Trainer.take_step

        def step(trainer: Trainer, batches: list[Batch]) -> None:
            plain(trainer, batches)
            self.now += next(self.seconds)

        monkeypatch.setattr(Trainer, "take_step", step)
        monkeypatch.setattr("suite.training.loop.time.perf_counter", lambda: self.now)


def foretold(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith(("about ", "to shorten"))]


def test_the_time_of_a_run_is_foretold_after_ten_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A first step that takes long (it compiles kernels) must not count, and a short run needs no advice."""
    Clock(monkeypatch, first=11.0, later=2.0)
    run(tmp_path / "run", changed(RECIPE, steps=40, valid_every=40, log_every=40, save_every=40), valid=[])
    assert foretold(err := capsys.readouterr().err)[0].startswith("about 1 min for 30 steps at ")
    assert len(foretold(err)) == 1
    Clock(monkeypatch, first=1.0, later=1.0)
    run(tmp_path / "quiet", changed(RECIPE, steps=40), valid=[], show=False)
    assert capsys.readouterr().err == ""


def test_slow_steps_are_foretold_after_thirty_seconds_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Clock(monkeypatch, first=10.0, later=25.0)
    recipe = changed(RECIPE, steps=100, valid_every=100, log_every=100, save_every=100, max_minutes=2.0)
    run(tmp_path / "run", recipe, valid=[])
    line, how = foretold(capsys.readouterr().err)
    assert line.startswith("about 41 min for 98 steps at ")  # 98 x 25 s, told after the second step
    assert "--set run.steps=73 " in how and "--max-minutes" not in how


def test_validation_counts_in_what_is_foretold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validation that reads as much as training does would make the figure too low by a third."""
    lines = []
    for valid in ([], EXAMPLES * 3):
        Clock(monkeypatch, first=1.0, later=1.0)
        monkeypatch.setattr(Trainer, "_validate", lambda trainer: None)
        recipe = changed(RECIPE, steps=50, valid_every=20, log_every=50, save_every=50)
        run(tmp_path / str(len(valid)), recipe, valid=valid)
        lines.append(foretold(capsys.readouterr().err)[0])
    assert lines[0].startswith("about 40 s for 40 steps")
    # validations at 20, 40 and 50 of 120 examples, where a step has 6: 20 steps' tokens each, at a third of the time
    seconds = int(lines[1].removeprefix("about ").split(" s ")[0]) if " min" not in lines[1] else 60
    assert seconds == pytest.approx(60, abs=3)


@pytest.mark.parametrize("averaging", ["none", "ema", "last"])
@pytest.mark.parametrize("keep", ["best", "last"])
def test_what_is_handed_on_at_each_save_is_what_a_run_would_end_with(keep: str, averaging: str, tmp_path: Path) -> None:
    """A run that is stopped after a save must leave weights to use, and handing them on must not change a bit of it."""
    config = AveragingConfig(kind=averaging, every=1, count=3)  # type: ignore[arg-type]
    recipe = changed(dataclasses.replace(RECIPE, averaging=config), keep=keep, save_every=3)
    model = tiny()
    handed: dict[int, tuple[Kept, dict[str, torch.Tensor]]] = {}

    def take(status: Kept) -> None:
        handed[status.step] = status, {name: p.detach().clone() for name, p in model.named_parameters()}

    run(tmp_path / "kept", recipe, model, keep=take)
    run(tmp_path / "plain", recipe)
    for file in ("last/state.safetensors", "best/weights.safetensors"):
        kept, plain = (read_tensors(tmp_path / out / file) for out in ("kept", "plain"))
        assert kept.keys() == plain.keys() and all(torch.equal(kept[name], plain[name]) for name in plain)
    assert list(handed) == [3, 6]
    for step, (status, weights) in handed.items():
        assert (status.step, status.steps, status.new) == (step, 6, True)  # the loss of this run falls all the time
        assert status.best_step == step // 2 * 2
        # a run of so many steps, which validates when that one did
        end = step if keep == "last" else step // 2 * 2
        short = tiny()
        run(tmp_path / str(step), changed(recipe, steps=end), short)
        assert all(torch.equal(weights[name], parameter) for name, parameter in short.named_parameters())


def test_the_same_best_weights_are_handed_on_as_such(tmp_path: Path) -> None:
    """Writing them again at each save would cost time for nothing."""
    new: list[bool] = []
    run(tmp_path, changed(RECIPE, save_every=1, valid_every=4), keep=lambda status: new.append(status.new))
    assert new == [True, True, True, True, False, True]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"batch": BatchConfig(size=6, micro_tokens=1)},
            "batch.micro_tokens is 1, fewer than an example has (12), which",
        ),
        ({"schedule": ScheduleConfig(warmup=999_999)}, "schedule.warmup is 999,999 steps, but the run has 6 and never"),
        ({"batch": BatchConfig(size=6, micro_tokens=12), "schedule": ScheduleConfig(warmup=5)}, ""),
    ],
)
def test_settings_that_do_nothing_are_told(
    changes: dict[str, Any], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were taken without a word."""
    run(tmp_path, dataclasses.replace(RECIPE, **changes))
    told = [found for found in capsys.readouterr().err.splitlines() if "micro_tokens" in found or "warmup" in found]
    assert len(told) == bool(line) and all(found.startswith(line) for found in told)
