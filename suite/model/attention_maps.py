"""What each position attends to, for people to look at.

Shapes: `B` batch, `T` positions, `H` heads, `K` key/value heads, `E` head width.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from suite.model.transformer import Attention, Transformer


class _Watched:
    """A layer's view of a pass that writes down the attention weights.

    Fused attention never tells its weights. But what it returns for the columns of an identity matrix in the place of
    the values is those weights, with every mask, rotation and scale of the pass itself.
    """

    def __init__(self, view: Any) -> None:
        self.view = view
        self.weights: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> Tensor:
        """What the view's own `attend` returns."""
        out, self.weights = self._watch(self.view.attend, queries, keys, values, *rest)
        return out

    def attend_compressed(self, queries: Tensor, keys: Tensor, values: Tensor, layer: int, dropout: float) -> Tensor:
        """What the view's own `attend_compressed` returns; the weight of a block is shared among its positions."""
        out, weights = self._watch(self.view.attend_compressed, queries, keys, values, layer, dropout)
        stride, length = self.view.compression(layer), queries.shape[2]
        blocks, self.weights = torch.split(weights, [length // stride, length], dim=-1)
        shares = (blocks / stride).repeat_interleave(stride, dim=-1)
        self.weights[..., : shares.shape[-1]] += shares
        return out

    def _watch(
        self, attend: Callable[..., Tensor], queries: Tensor, keys: Tensor, values: Tensor, *rest: Any
    ) -> tuple[Tensor, Tensor]:
        """The result of `attend`, and the weights that led to it, (B, H, T, S)."""
        columns = torch.eye(keys.shape[2], dtype=values.dtype, device=values.device)  # (S, S)
        # as many at a time as a head is wide, so that the kernel meets the shapes it is made for
        pieces = []
        for part in torch.split(columns, values.shape[3], dim=1):  # (S, E)
            padded = torch.nn.functional.pad(part, (0, values.shape[3] - part.shape[1]))
            as_values = padded.expand(*values.shape)  # (B, K, S, E)
            mixed = attend(queries, keys, as_values, *rest)  # (B, H, T, E)
            pieces.append(mixed[..., : part.shape[1]])
        return attend(queries, keys, values, *rest), torch.cat(pieces, dim=-1)


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
    watched: dict[int, _Watched] = {}

    def watch(module: Attention, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        x, view, *rest = arguments
        watched[module.layer] = _Watched(view)
        return (x, watched[module.layer], *rest)

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
    maps = [watched[layer].weights for layer in sorted(watched)]
    return [weights[0] for weights in maps if weights is not None]
