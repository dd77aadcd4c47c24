"""Weights for decoding on a CPU: as float16 or bfloat16, or as int8 with a scale per row.

A decoding step reads every weight once and does little arithmetic, so memory bandwidth limits it.
`prepare_for_inference` makes the weights smaller; activations stay float32. The compiled step (`suite.model.step`)
reads short weights as they are; PyTorch, which reads prompts, widens them block by block.

Shapes: `O` output channels (rows), `I` input channels (columns).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from suite.errors import ConfigError, SuiteError
from suite.model.step import installed
from suite.model.transformer import Transformer

WEIGHTS = ("float32", "float16", "bfloat16", "int8")
WIDENED = 1 << 18  # weights that are float32 at a time: 1 MiB


def prepare_for_inference(transformer: Transformer, weights: str = "float32") -> Transformer:
    """Make a model fast on a CPU, in place; it can no longer be trained.

    float32 weights change their layout at most, and logits by rounding. Shorter weights save memory everywhere, and
    time in decoding where Numba is installed.

    Args:
        transformer: the model; its old weights are dropped one by one, so that memory never holds both.
        weights: "float32", "float16", "bfloat16" or "int8", for all matrices but the tables of positions.

    Returns:
        the same model, in evaluation mode. With shorter weights it has no state dict worth saving.

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
        if not installed():  # the compiled step reads rows, and is faster still
            for module in transformer.modules():
                if isinstance(module, nn.Linear):
                    lay_out(module)
        return transformer

    def shorten(weight: Tensor) -> tuple[Tensor, Tensor | None]:
        return quantize_int8(weight) if weights == "int8" else (weight.detach().to(getattr(torch, weights)), None)

    tied = transformer.head.weight is transformer.tokens.weight
    table, scales = shorten(transformer.tokens.weight)
    if tied:
        replace(transformer, "head", ShortLinear(table, scales, None))
    replace(transformer, "tokens", ShortEmbedding(table, scales))
    for module in list(transformer.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                replace(module, name, ShortLinear(*shorten(child.weight), child.bias))
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


class ShortLinear(nn.Module):
    """Linear layer with a float16, bfloat16 or int8 weight (O, I), which becomes float32 for the product alone.

    Activations are not rounded, so that results are those of the dequantized weights on every machine.
    """

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
        out = F.linear(x, self.weight.to(x.dtype)) if x.device.type != "cpu" or x.requires_grad else self._blocks(x)
        if self.scales is not None:
            out = out * self.scales
        return out if self.bias is None else out + self.bias

    def _blocks(self, x: Tensor) -> Tensor:
        """The product, widening as many channels at a time as stay in the CPU's cache."""
        channels, inputs = self.weight.shape
        rows = x.reshape(-1, inputs)
        out, widened = x.new_empty(len(rows), channels), x.new_empty(max(16, WIDENED // inputs), inputs)
        for start in range(0, channels, len(widened)):
            part = self.weight[start : start + len(widened)]
            torch.mm(rows, widened[: len(part)].copy_(part).t(), out=out[:, start : start + len(part)])
        return out.view(*x.shape[:-1], channels)


class ShortEmbedding(nn.Module):
    """Embedding table (V, D) in float16, bfloat16 or int8; rows are converted to float32 when they are looked up."""

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
