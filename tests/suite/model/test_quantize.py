"""int8 rounding must be tight, row by row, and never hide a broken weight."""

import pytest
import torch

from suite.errors import SuiteError
from suite.model.quantize import dequantize_int8, quantize_int8


def test_error_is_at_most_half_a_step_of_each_row() -> None:
    """One scale for the whole matrix would drown small rows beside large ones."""
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(0)) * torch.logspace(-4, 2, 64)[:, None]
    quantized, scales = quantize_int8(weight)
    assert quantized.dtype == torch.int8 and quantized.abs().max() == 127
    error = (dequantize_int8(quantized, scales) - weight).abs()
    assert (error <= scales[:, None] * 0.5001).all()


def test_quantizing_twice_changes_nothing() -> None:
    """Loading an int8 checkpoint and saving it again must not wear it down."""
    weight = torch.randn(16, 40, generator=torch.Generator().manual_seed(1))
    once = dequantize_int8(*quantize_int8(weight))
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
