"""Weights for decoding on a CPU: in a faster layout, as float16, or as int8 with a scale per row.

A decoding step reads every weight once and does little arithmetic, so memory bandwidth limits it.
`prepare_for_inference` makes the weights smaller and faster to read; activations stay float32.

Shapes: `O` output channels (rows), `I` input channels (columns).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from suite.errors import ConfigError, SuiteError
from suite.model.transformer import Transformer

WEIGHTS = ("float32", "float16", "int8")


def prepare_for_inference(transformer: Transformer, weights: str = "float32") -> Transformer:
    """Make a model fast on a CPU, in place; it can no longer be trained.

    float32 weights change their layout alone, and logits move by rounding at most. On a machine without the kernels
    (anything but an x86 CPU), float16 and int8 save memory but no time.

    Args:
        transformer: the model; its old weights are dropped one by one, so that memory never holds both.
        weights: "float32", "float16" or "int8", for all matrices but the tables of positions.

    Returns:
        the same model, in evaluation mode. With float16 or int8 weights it has no state dict worth saving.

    Raises:
        ConfigError: `weights` is none of those.

    Example:
        >>> from suite.model import ModelConfig
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> prepare_for_inference(Transformer(config), "int8")(torch.zeros(1, 5, dtype=torch.long)).dtype
        torch.float32
    """
    if weights not in WEIGHTS:
        raise ConfigError(f"unknown type of weights {weights!r}; the choices are {', '.join(WEIGHTS)}")
    transformer.eval().requires_grad_(False).float()
    if weights == "float32":
        for module in transformer.modules():
            if isinstance(module, nn.Linear):
                lay_out(module)
        return transformer
    shorten: Callable[[Tensor], tuple[Tensor, Tensor | None]] = quantize_int8 if weights == "int8" else _float16
    tied = transformer.head.weight is transformer.tokens.weight
    table, scales = shorten(transformer.tokens.weight)
    if tied:
        replace(transformer, "head", short_linear(table, scales, None))
    replace(transformer, "tokens", ShortEmbedding(table, scales))
    for module in list(transformer.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                replace(module, name, short_linear(*shorten(child.weight), child.bias))
    return transformer


def replace(module: nn.Module, name: str, child: nn.Module) -> None:
    """Replace a child module; the attribute's declared type no longer holds."""
    setattr(module, name, child)


def lay_out(linear: nn.Linear) -> None:
    """Store the weight (O, I) column-major if O > I; its shape stays, and results change by rounding at most.

    A product with a single row of input then adds up columns instead of taking many short dot products: a fifth
    faster on two cores, on some half as fast again, and more with a few rows. Layers with O <= I stay as they are.
    """
    if linear.out_features > linear.in_features:
        linear.weight.data = linear.weight.data.t().contiguous().t()


def _float16(weight: Tensor) -> tuple[Tensor, None]:
    return weight.detach().half(), None


def short_linear(weight: Tensor, scales: Tensor | None, bias: Tensor | None) -> nn.Module:
    """The fastest available layer for a float16 weight (O, I), or an int8 weight with scales (O,)."""
    if weight.device.type != "cpu" or "fbgemm" not in torch.backends.quantized.supported_engines:
        return WidenedLinear(weight, scales, bias)
    return Float16Linear(weight, bias) if scales is None else Int8Linear(weight, scales, bias)


class WidenedLinear(nn.Module):
    """Linear layer that converts its float16 or int8 weight (O, I) for every product: slow, but works on any device."""

    weight: Tensor
    scales: Tensor | None
    bias: Tensor | None

    def __init__(self, weight: Tensor, scales: Tensor | None, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O)."""
        out = F.linear(x, self.weight.to(x.dtype))
        if self.scales is not None:
            out = out * self.scales
        return out if self.bias is None else out + self.bias


class ShortEmbedding(nn.Module):
    """Embedding table (V, D) in float16 or int8; rows are converted to float32 when they are looked up."""

    weight: Tensor
    scales: Tensor | None

    def __init__(self, weight: Tensor, scales: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)

    def forward(self, ids: Tensor) -> Tensor:
        """(...) -> (..., D) float32."""
        rows = F.embedding(ids, self.weight).float()
        return rows if self.scales is None else rows * self.scales[ids][..., None]


class Float16Linear(nn.Module):
    """float16 weight (O, I), products in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        with _engine():
            self.packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O)."""
        out: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self.packed)
        return out


class Int8Linear(nn.Module):
    """int8 weight (O, I) with scales (O,); each row of input is rounded to 8 bits too, for the product alone."""

    bias: Tensor | None

    def __init__(self, weight: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("bias", bias)
        # without VNNI the kernel adds pairs of products in 16 bits, which holds no more than 7 bits of input
        self.bits = 8 if torch.cpu._is_vnni_supported() else 7
        with _engine(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
            zeros = torch.zeros(len(scales), dtype=torch.long)
            quantized = torch._make_per_channel_quantized_tensor(weight, scales.double(), zeros, 0)
            self.packed = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O)."""
        if x.numel() == x.shape[-1]:
            one: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed, self.bits == 7)
            return one
        # the kernel knows one scale for all rows, so each row is brought to [-1, 1] first: a row's result must not
        # depend on how large its batch-mates are
        size = x.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-30)  # (..., 1)
        levels = 2 ** (self.bits - 1)
        out: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / size, 1 / (levels - 1), levels, self.packed
        )
        # the kernel has added the bias to the product of the row as it was brought to [-1, 1]
        return out * size if self.bias is None else torch.lerp(self.bias, out, size)


@contextlib.contextmanager
def _engine() -> Iterator[None]:
    """Pack weights for FBGEMM, whose one-row products are the fastest, whatever engine is set."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


def quantize_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round a matrix to int8, symmetrically, with one scale for each row.

    Args:
        weight: (O, I), any floating type.

    Returns:
        int8 (O, I) within -127..127, and float32 scales (O,): the row's largest magnitude / 127 (1 where all are 0).
        The error of an element is at most half its row's scale; a row that holds NaN or infinity comes back as NaN.

    Raises:
        SuiteError: `weight` is not a matrix.

    Example:
        >>> quantized, scales = quantize_int8(torch.tensor([[0.5, -1.27]]))
        >>> quantized.tolist(), round(scales.item(), 6)
        ([[50, -127]], 0.01)
    """
    if weight.dim() != 2:
        raise SuiteError(f"int8 weights need a matrix, and this tensor has {weight.dim()} dimensions")
    weight = weight.detach().float()
    scales = weight.abs().amax(dim=1) / 127  # (O,)
    scales[scales == 0] = 1.0
    quantized = (weight / scales[:, None]).round_().clamp_(-127, 127).nan_to_num_(0).to(torch.int8)  # (O, I)
    scales[~scales.isfinite()] = torch.nan
    return quantized, scales


def dequantize_int8(quantized: Tensor, scales: Tensor) -> Tensor:
    """The inverse of `quantize_int8`, up to rounding: int8 (O, I) and float32 (O,) -> float32 (O, I)."""
    return quantized.float() * scales[:, None]
