"""Low-rank additions to frozen matrices, so that fine-tuning learns, and stores, a small part of the weights.

Source: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models".

Shapes: `O` output channels, `I` input channels, `R` rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from suite.model.transformer import Transformer

DOWN, UP = ".lora_down", ".lora_up"  # suffixes that stand in the place of ".weight"


class LoRALinear(nn.Linear):
    """A linear layer whose own weights are frozen: y = W x + scale * up (down x).

    Args:
        linear: the layer to add to; its parameters are taken over, not copied.
        rank: R.
        alpha: the addition's scale is alpha / R.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        nn.Module.__init__(self)  # no second set of weights
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.lora_down = nn.Parameter(torch.empty(rank, linear.in_features, device=linear.weight.device))  # (R, I)
        self.lora_up = nn.Parameter(torch.zeros(linear.out_features, rank, device=linear.weight.device))  # (O, R)
        nn.init.kaiming_uniform_(self.lora_down, a=math.sqrt(5))
        self.scale = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O)."""
        return super().forward(x) + self.scale * F.linear(F.linear(x, self.lora_down), self.lora_up)


def add_lora(transformer: Transformer, rank: int, alpha: float) -> None:
    """Freeze the transformer and add LoRA to every matrix of its blocks, in place; the additions start at zero."""
    transformer.requires_grad_(False)
    for module in list(transformer.blocks.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, rank, alpha))


def additions(transformer: Transformer) -> dict[str, Tensor]:
    """The LoRA weights by name, without the frozen weights."""
    return {name: tensor for name, tensor in transformer.state_dict().items() if name.endswith((DOWN, UP))}


def merge(weights: Mapping[str, Tensor], added: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """A plain state dict with the LoRA additions merged into the frozen weights.

    Args:
        weights: a state dict; LoRA weights in it are ignored.
        added: LoRA weights from `additions`.
        scale: alpha / R.

    Returns:
        a new state dict without additions.
    """
    merged = {name: tensor for name, tensor in weights.items() if not name.endswith((DOWN, UP))}
    for name, down in added.items():
        if name.endswith(DOWN):
            layer = name.removesuffix(DOWN)
            merged[layer + ".weight"] = merged[layer + ".weight"] + scale * (added[layer + UP] @ down)
    return merged
