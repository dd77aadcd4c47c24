"""Types of a training step: bfloat16 where the device has instructions for it or somebody asks, and nowhere else."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from suite.model import ModelConfig, Transformer
from suite.model.heads import Headed
from suite.model.lora import add_lora
from suite.tasks.classify.loss import classification
from suite.training import Example, ShuffledSource, train
from suite.training.device import emulates_bfloat16, has_bfloat16, use_bfloat16
from suite.training.loss import LossFunction
from suite.training.recipe import AveragingConfig, BatchConfig, OptimizerConfig, Recipe, RunConfig

CPU = torch.device("cpu")
RECIPE = Recipe(
    task="tiny",
    batch=BatchConfig(size=4),
    optimizer=OptimizerConfig(kind="muon"),
    averaging=AveragingConfig(kind="ema"),
    run=RunConfig(steps=2, valid_every=1),
)
RNG = np.random.default_rng(0)
EXAMPLES = [Example(RNG.integers(0, 29, 8), prefix=2, label=place % 2) for place in range(12)]


class Types(TorchDispatchMode):
    """Notes the type of whatever is computed inside a `with`, and the types of matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()
        self.products: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        dtypes = {leaf.dtype for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)}
        self.seen |= dtypes
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
            self.products |= dtypes
        return out


def pretend(monkeypatch: pytest.MonkeyPatch, avx512: bool = False, amx: bool = False) -> None:
    """Make this CPU one with these instructions for bfloat16, or with none."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)


def transformer() -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(vocab_size=29, context=16, d_model=16, n_layer=1, n_head=2, position="rotary"))


def added() -> Transformer:
    model = transformer().requires_grad_(False)
    add_lora(model, 2, 4.0)
    return model


KINDS = {
    "text": (transformer, None),
    "head": (lambda: Headed(transformer(), 2), classification(lm_weight=0.5)),
    "additions": (added, None),
}


def types_of_a_run(out: Path, precision: str, kind: str = "text") -> tuple[Types, set[torch.dtype]]:
    """Types of everything computed in a short run with validation, and those of Muon's iteration."""
    import suite.training.optimizer as optimizer

    iterations: set[torch.dtype] = set()
    plain = optimizer.orthogonalise

    def noted(*arguments: Any, **options: Any) -> torch.Tensor:
        levelled = plain(*arguments, **options)
        iterations.add(levelled.dtype)
        return levelled

    make, loss = KINDS[kind]
    recipe = dataclasses.replace(RECIPE, run=dataclasses.replace(RECIPE.run, precision=precision))
    with pytest.MonkeyPatch.context() as patch, Types() as types:
        patch.setattr(optimizer, "orthogonalise", noted)
        chosen: LossFunction | None = loss
        source = ShuffledSource(EXAMPLES, 0)
        train(make(), source, recipe, out=out, valid=EXAMPLES[:4], loss=chosen, device="cpu", show=False)
    return types, iterations


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_a_cpu_without_bfloat16_computes_none(
    kind: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Muon iterated in bfloat16 whatever the run's precision, which an ordinary laptop emulates."""
    pretend(monkeypatch)
    types, iterations = types_of_a_run(tmp_path, precision, kind)
    assert types.products == iterations == {torch.float32}
    assert torch.bfloat16 not in types.seen and torch.float16 not in types.seen


@pytest.mark.parametrize("instructions", [{"avx512": True}, {"amx": True}], ids=["avx512", "amx"])
def test_a_cpu_with_bfloat16_uses_it(
    instructions: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, **instructions)
    types, iterations = types_of_a_run(tmp_path, "auto")
    assert iterations == {torch.bfloat16} and torch.bfloat16 in types.products


def test_float32_is_obeyed_where_bfloat16_is_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, avx512=True, amx=True)
    types, iterations = types_of_a_run(tmp_path, "float32")
    assert types.products == iterations == {torch.float32} and torch.bfloat16 not in types.seen


def test_who_asks_for_what_is_slow_gets_it_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch)
    recipe = dataclasses.replace(RECIPE, run=dataclasses.replace(RECIPE.run, precision="bfloat16"))
    with Types() as types:
        train(transformer(), ShuffledSource(EXAMPLES, 0), recipe, out=tmp_path / "slow", device="cpu")
    assert torch.bfloat16 in types.products
    assert "emulates them" in capsys.readouterr().err
    pretend(monkeypatch, amx=True)
    train(transformer(), ShuffledSource(EXAMPLES, 0), recipe, out=tmp_path / "fast", device="cpu")
    assert "emulates" not in capsys.readouterr().err


def test_which_devices_have_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    assert not has_bfloat16(CPU) and emulates_bfloat16(CPU)
    assert use_bfloat16("bfloat16", CPU) and not use_bfloat16("auto", CPU)
    assert not use_bfloat16("auto", torch.device("mps")) and not emulates_bfloat16(torch.device("mps"))
    pretend(monkeypatch, avx512=True)
    assert has_bfloat16(CPU) and use_bfloat16("auto", CPU) and not use_bfloat16("float32", CPU)
