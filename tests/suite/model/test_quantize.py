"""Shorter weights: rounding must be tight and never hide a broken weight; prepared models must say the same."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from suite.errors import ConfigError, SuiteError
from suite.model import KVCache, ModelConfig, Transformer, quantize
from suite.model.quantize import ShortLinear, dequantize_int8, prepare_for_inference, quantize_int8

CONFIGS = {
    "gpt2": ModelConfig(vocab_size=300, context=64, d_model=64, n_layer=3, n_head=4),
    "relative": ModelConfig(vocab_size=300, context=64, d_model=64, n_layer=3, n_head=4, position="relative"),
    "untied, no bias": ModelConfig(
        vocab_size=300, context=64, d_model=64, n_layer=3, n_head=4, n_kv_head=2, position="rotary", norm="rms",
        activation="swiglu", bias=False, tie_embeddings=False,
    ),
}  # fmt: skip
TOLERANCE = {
    "float32": 1e-6,
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "int8": 0.06,
}  # deviation of the error, over that of the logits


def model(config: ModelConfig) -> Transformer:
    """Random weights, large enough that rounding shows and that no bias or gain is idle."""
    torch.manual_seed(0)
    transformer = Transformer(config).eval()
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return transformer


def matrix(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def test_error_is_at_most_half_a_step_of_each_row() -> None:
    """One scale for the whole matrix would drown small rows beside large ones."""
    weight = matrix(64, 96) * torch.logspace(-4, 2, 64)[:, None]
    quantized, scales = quantize_int8(weight)
    assert quantized.dtype == torch.int8 and quantized.abs().max() == 127
    error = (dequantize_int8(quantized, scales) - weight).abs()
    assert (error <= scales[:, None] * 0.5001).all()


def test_quantizing_twice_changes_nothing() -> None:
    """Loading an int8 checkpoint and saving it again must not wear it down."""
    once = dequantize_int8(*quantize_int8(matrix(16, 40)))
    twice = dequantize_int8(*quantize_int8(once))
    torch.testing.assert_close(once, twice, rtol=1e-6, atol=0)


def test_zero_rows_stay_zero_and_broken_rows_stay_broken() -> None:
    """0 / 0 must not make NaN of an unused row, and a NaN must not be laundered into a number."""
    weight = torch.tensor([[0.0, 0.0], [1.0, float("nan")], [float("inf"), 1.0], [1.0, -2.0]])
    restored = dequantize_int8(*quantize_int8(weight))
    assert restored[0].tolist() == [0.0, 0.0]
    assert restored[1].isnan().all() and restored[2].isnan().all()
    torch.testing.assert_close(restored[3], weight[3], rtol=0, atol=0.01)


def test_only_matrices() -> None:
    with pytest.raises(SuiteError, match="1 dimensions"):
        quantize_int8(torch.zeros(3))


@pytest.mark.parametrize("weights", TOLERANCE)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_logits_stay_within_the_rounding_of_the_weights(config: ModelConfig, weights: str) -> None:
    """A forgotten bias, a head that lost its tie, or scales on the wrong axis would show at once."""
    whole, short = model(config), prepare_for_inference(model(config), weights)
    tokens = torch.randint(config.vocab_size, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected, found = whole(tokens), short(tokens)
    assert found.dtype == torch.float32
    assert (found - expected).std() <= TOLERANCE[weights] * expected.std()


@pytest.mark.parametrize("weights", TOLERANCE)
def test_a_step_of_one_row_agrees_with_a_pass_over_many(weights: str) -> None:
    """One row takes another path than many; both must be the same product, up to rounding."""
    config = CONFIGS["gpt2"]
    short = prepare_for_inference(model(config), weights)
    tokens = torch.randint(config.vocab_size, (1, 20), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        together = short(tokens)
        cache = KVCache(config, 1, 20)
        alone = torch.cat([short(tokens[:, place : place + 1], cache=cache) for place in range(20)], dim=1)
    assert (alone - together).std() <= TOLERANCE[weights] * together.std()


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_only_weights_are_rounded(rows: int) -> None:
    """Activations rounded to 7 or 8 bits gave other tokens on each kind of CPU."""
    quantized, scales = quantize_int8(matrix(700, 1000))  # more channels than are widened at a time
    bias, x = torch.randn(700), matrix(rows, 1000, seed=3) * torch.logspace(-3, 3, rows)[:, None]
    found = ShortLinear(quantized, scales, bias)(x)
    expected = x.double() @ dequantize_int8(quantized, scales).double().T + bias
    assert ((found - expected).abs() <= 1e-5 * expected.abs().amax(dim=1, keepdim=True)).all()


def test_nan_comes_through_a_batch() -> None:
    """A NaN activation rounded to some integer would let a broken model talk on."""
    layer = ShortLinear(*quantize_int8(matrix(8, 16)), None)
    rows = torch.ones(2, 16)
    rows[1, 3] = torch.nan
    out = layer(rows)
    assert out[0].isfinite().all() and out[1].isnan().all()


def test_no_deprecated_operator_is_left() -> None:
    """PyTorch announced that `torch.quantized` and what rests on it go away."""
    source = Path(quantize.__file__).read_text(encoding="utf-8")
    assert "ops.quantized" not in source and "per_channel" not in source and "fbgemm" not in source


@pytest.mark.parametrize("there", [True, False])
def test_without_numba_float32_weights_are_laid_out_for_pytorch(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled step reads rows; PyTorch alone is a fifth faster and more with columns."""
    monkeypatch.setattr(quantize, "installed", lambda: there)
    assert prepare_for_inference(model(CONFIGS["gpt2"])).head.weight.is_contiguous() == there


def test_float32_stays_trained_weights_in_their_shapes() -> None:
    """The new layout must not reach anybody who reads the state dict, and embeddings must stay tied."""
    config = CONFIGS["gpt2"]
    whole = model(config)
    laid_out = prepare_for_inference(copy.deepcopy(whole), "float32")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(laid_out.state_dict()[name], tensor), name
    assert laid_out.head.weight is laid_out.tokens.weight


def test_int8_takes_little_memory() -> None:
    """Keeping the float32 weights beside the packed ones would make the smaller type the larger model."""
    short = prepare_for_inference(model(CONFIGS["gpt2"]), "int8")
    assert not any(isinstance(module, nn.Linear) for module in short.modules())
    tensors = [*short.parameters(), *short.buffers()]
    assert all(tensor.dim() < 2 or tensor.dtype == torch.int8 or tensor.shape[0] == 64 for tensor in tensors)


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(ConfigError, match="int4"):
        prepare_for_inference(model(CONFIGS["gpt2"]), "int4")
