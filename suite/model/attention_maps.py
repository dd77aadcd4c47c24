"""Attention weights of each layer, for inspection.

Shapes: `B` batch, `T` positions, `S` keys, `C` compressed blocks, `H` heads, `K` key/value heads, `E` head width.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from suite.model.plan import CompressedWhole, Plan
from suite.model.transformer import Attention, Transformer


def _weights(attention: Attention, x: Tensor, plan: Plan, rotary: tuple[Tensor, Tensor] | None) -> Tensor:
    """The weights (B, H, T, T) with which a layer attends to its input (B, T, D).

    Fused attention does not return its weights. With the columns of an identity matrix as values, though, its output is
    those weights, with every mask, rotation and scale of the real pass.
    """
    queries, keys, values = attention.project(x, rotary)
    keys, values = attention.store(keys, values, plan, None)  # (B, K, S, E)
    pattern = plan.patterns[attention.layer]
    columns = torch.eye(keys.shape[2], dtype=values.dtype, device=values.device)  # (S, S)
    # as many at a time as a head is wide, so that the kernel meets the shapes it is made for
    pieces = []
    for part in torch.split(columns, values.shape[3], dim=1):  # (S, E)
        padded = torch.nn.functional.pad(part, (0, values.shape[3] - part.shape[1]))
        mixed = attention.attend(queries, keys, padded.expand(*values.shape), pattern)  # (B, H, T, E)
        pieces.append(mixed[..., : part.shape[1]])
    weights = torch.cat(pieces, dim=-1)  # (B, H, T, S)
    return _shared(weights, pattern.stride) if isinstance(pattern, CompressedWhole) else weights


def _shared(weights: Tensor, stride: int) -> Tensor:
    """Weights (B, H, T, T) by position from (B, H, T, C + T): a block's weight is split among its positions."""
    length = weights.shape[2]
    blocks, single = torch.split(weights, [length // stride, length], dim=-1)
    shares = (blocks / stride).repeat_interleave(stride, dim=-1)
    single[..., : shares.shape[-1]] += shares
    return single


@torch.inference_mode()
def attention_maps(
    transformer: Transformer, tokens: Tensor, *, prefix: int = 0, layers: Collection[int] | None = None
) -> list[Tensor]:
    """The attention weights of one sequence.

    Args:
        transformer: in evaluation mode, if it has dropout.
        tokens: (T,) ids.
        prefix: tokens at the start that see each other both ways.
        layers: which to report (None: all).

    Returns:
        for each layer in order, (H, T, T): row `t` of a head is how position `t` spreads its attention over all
        positions, and sums to 1. Where a layer compresses positions into one, they share its weight evenly.

    Raises:
        SuiteError: learned positions end before the last token.

    Example:
        >>> from suite.model import ModelConfig
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> [tuple(weights.shape) for weights in attention_maps(Transformer(config), torch.tensor([1, 2, 3]))]
        [(4, 3, 3), (4, 3, 3)]
    """
    watched: dict[int, Tensor] = {}

    def watch(attention: Attention, arguments: tuple[Any, ...]) -> None:
        x, plan, _, rotary = arguments
        watched[attention.layer] = _weights(attention, x, plan, rotary)[0]

    chosen = range(transformer.config.n_layer) if layers is None else layers
    hooks = [
        module.register_forward_pre_hook(watch)
        for module in transformer.modules()
        if isinstance(module, Attention) and module.layer in chosen
    ]
    try:
        lengths = torch.tensor([prefix], device=tokens.device) if prefix else None
        transformer.hidden(tokens[None], prefix=lengths)
    finally:
        for hook in hooks:
            hook.remove()
    return [watched[layer] for layer in sorted(watched)]
