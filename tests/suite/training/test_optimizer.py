"""Rates move as they are drawn, decay reaches matrices alone, Muon orthogonalises."""

import math

import pytest
import torch
from torch.optim import Optimizer

from suite.errors import ConfigError
from suite.model import ModelConfig, Transformer
from suite.training.optimizer import Muon, build_optimizers, orthogonalise, rate_factor
from suite.training.recipe import OptimizerConfig, ScheduleConfig


def test_schedules() -> None:
    """A first step with rate 0 is a wasted step; a last one below `final` is a mistake in the end point."""
    cosine = ScheduleConfig(warmup=10, final=0.1)
    assert [rate_factor(step, 110, cosine) for step in (0, 9, 10)] == [0.1, 1.0, 1.0]
    assert rate_factor(60, 110, cosine) == pytest.approx(0.55)
    assert rate_factor(110, 110, cosine) == pytest.approx(0.1) == rate_factor(500, 110, cosine)
    linear = ScheduleConfig(kind="linear")
    assert rate_factor(0, 100, linear) == 1.0 and rate_factor(75, 100, linear) == 0.25
    assert rate_factor(99, 100, linear) > 0
    trapezoid = ScheduleConfig(kind="trapezoid", warmup=5, cooldown=0.4)
    assert [rate_factor(step, 100, trapezoid) for step in (5, 59, 60)] == [1.0, 1.0, 1.0]
    assert rate_factor(80, 100, trapezoid) == 0.5
    assert rate_factor(99, 100, ScheduleConfig(kind="constant", warmup=5)) == 1.0


def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(vocab_size=9, context=16, d_model=8, n_layer=2, n_head=2))


def decay_of(optimizers: list[Optimizer], net: Transformer) -> dict[str, float]:
    names = {parameter: name for name, parameter in net.named_parameters()}
    decays: dict[str, float] = {}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                assert names[parameter] not in decays  # a parameter in two optimizers is stepped twice
                decays[names[parameter]] = group["weight_decay"]
    return decays


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_decay_is_on_matrices_alone(kind: str) -> None:
    net = model()
    optimizers = build_optimizers(net, OptimizerConfig(kind=kind, weight_decay=0.3))  # type: ignore[arg-type]
    decays = decay_of(optimizers, net)
    assert decays == {name: 0.3 if parameter.dim() == 2 else 0.0 for name, parameter in net.named_parameters()}


def test_muon_takes_the_matrices_of_the_blocks() -> None:
    """Embeddings and the head are tables of rows, whose directions are not alike; they stay with AdamW."""
    net = model()
    adamw, muon = build_optimizers(net, OptimizerConfig(kind="muon", lr=1.0, matrix_lr=0.5))
    names = {parameter: name for name, parameter in net.named_parameters()}
    taken = {names[parameter] for parameter in muon.param_groups[0]["params"]}
    assert taken == {name for name, p in net.named_parameters() if p.dim() == 2 and name.startswith("blocks.")}
    assert adamw.param_groups[0]["base_lr"] == 1.0 and muon.param_groups[0]["base_lr"] == 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 16, 48), (2, 48, 16), (3, 24, 24)])
def test_orthogonalise_levels_singular_values(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    levelled = orthogonalise(matrices, dtype=dtype)
    assert levelled.dtype == dtype
    values = torch.linalg.svdvals(levelled.float())
    # what starts near 0 only gets part of the way in five steps
    assert (values > 0.6).float().mean() > 0.9 and values.max() < 1.3


def test_muon_steps_are_of_adams_size() -> None:
    """The scale is what lets one learning rate serve both optimizers."""
    matrix = torch.nn.Parameter(torch.zeros(64, 64))
    matrix.grad = 1e-3 * torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    Muon([matrix], lr=1.0, momentum=0.9, weight_decay=0.0).step()
    assert 0.1 < matrix.square().mean().sqrt().item() < 0.3
    assert math.isclose(torch.linalg.svdvals(matrix.detach()).median().item(), 0.2 * 8, rel_tol=0.4)


def test_a_warm_up_below_one_is_a_share_of_all_steps() -> None:
    share, steps = ScheduleConfig(kind="linear", warmup=0.1), ScheduleConfig(kind="linear", warmup=5)
    assert [rate_factor(step, 50, share) for step in range(50)] == [rate_factor(step, 50, steps) for step in range(50)]


def test_what_learns_may_be_matrices_of_blocks_alone() -> None:
    """As with low-rank additions on a task without a head: AdamW takes no empty list."""
    net = model()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_("blocks." in name and parameter.dim() == 2)
    [optimizer] = build_optimizers(net, OptimizerConfig(kind="muon"))
    assert isinstance(optimizer, Muon)
    with pytest.raises(ConfigError, match="nothing would be trained"):
        build_optimizers(net.requires_grad_(False), OptimizerConfig())
