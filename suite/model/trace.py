"""A forward pass with its intermediate tensors, for looking inside.

`trace` runs the transformer itself and listens at its modules, so that what is shown is what was computed. Fused
attention has no scores to listen to; those are worked out from the layer's own queries, keys and mask.

Shapes: `T` positions, `S` keys, `H` heads, `K` key/value heads, `E` head width, `D` d_model, `F` MLP width, `V`
vocabulary, `P` positions of the logit lens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from suite.errors import ConfigError, SuiteError
from suite.model.cache import Aligned
from suite.model.config import ModelConfig
from suite.model.plan import Plan, compressed_mask, make_mask, pairs, reach_of, relative_rows
from suite.model.relative import by_distance
from suite.model.transformer import Attention, Transformer

NAMES = (
    "embeddings",
    "positions",
    "residual",
    "queries",
    "keys",
    "values",
    "scores",
    "masked",
    "weights",
    "mixed",
    "attention",
    "activations",
    "mlp",
    "hidden",
    "logits",
    "lens",
)
SCORED = ("scores", "masked", "weights")
PROJECTED = ("queries", "keys", "values", *SCORED)

ByLayer = dict[int, Tensor]
Hook = Callable[..., Any]


@dataclass(kw_only=True)
class Trace:
    """What one pass over one sequence computed; what was not asked for is None or {}.

    Tensors by layer are in dictionaries from the layer's number, counted from 0.

    Attributes:
        tokens: (T,) ids.
        prefix: tokens at the start that see each other both ways.
        embeddings: (T, D) rows of the embedding table.
        positions: (T, D) learned positions; None where positions are not learned.
        residual: (T, D) the residual stream before each layer, and under the last layer's number + 1 behind it.
        queries: (H, T, E) as they are compared with keys, norm and rotation included.
        keys: (K, T, E) likewise; each serves H / K heads.
        values: (K, T, E).
        scores: (H, T, S) scaled products of queries and keys, relative positions included, before the mask. S is T; in
            a layer that compresses, the blocks stand before the T positions.
        masked: (H, T, S) the same with -inf where a query may not look.
        weights: (H, T, S) their softmax; rows sum to 1.
        mixed: (T, H * E) the weighted values of all heads, side by side.
        attention: (T, D) what attention adds to the residual stream.
        activations: (T, F) inside the MLP, behind the activation.
        mlp: (T, D) what the MLP adds to the residual stream.
        hidden: (T, D) the residual stream after the final norm.
        logits: (T, V) of the token after each position.
        lens: (P, V) logits of the residual stream as it stands before each layer (numbered as `residual`), final norm
            applied. Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
        gradients: (T, D) gradient of the chosen logit with respect to `residual`, numbered likewise.
    """

    tokens: Tensor
    prefix: int = 0
    embeddings: Tensor | None = None
    positions: Tensor | None = None
    residual: ByLayer = field(default_factory=dict)
    queries: ByLayer = field(default_factory=dict)
    keys: ByLayer = field(default_factory=dict)
    values: ByLayer = field(default_factory=dict)
    scores: ByLayer = field(default_factory=dict)
    masked: ByLayer = field(default_factory=dict)
    weights: ByLayer = field(default_factory=dict)
    mixed: ByLayer = field(default_factory=dict)
    attention: ByLayer = field(default_factory=dict)
    activations: ByLayer = field(default_factory=dict)
    mlp: ByLayer = field(default_factory=dict)
    hidden: Tensor | None = None
    logits: Tensor | None = None
    lens: ByLayer = field(default_factory=dict)
    gradients: ByLayer = field(default_factory=dict)

    def weights_by_position(self, layer: int) -> Tensor:
        """`weights` of a layer as (H, T, T); a compressed block's weight is split evenly among its positions."""
        weights, length = self.weights[layer], len(self.tokens)
        blocks = weights.shape[-1] - length
        if not blocks:
            return weights
        stride = length // blocks
        merged, single = torch.split(weights, [blocks, length], dim=-1)
        shares = (merged / stride).repeat_interleave(stride, dim=-1)  # (H, T, C * stride)
        return single + nn.functional.pad(shares, (0, length - shares.shape[-1]))


def trace(
    transformer: Transformer,
    tokens: Tensor | Sequence[int],
    *,
    prefix: int = 0,
    keep: str | Iterable[str] = NAMES,
    layers: Collection[int] | None = None,
    lens_at: Sequence[int] | None = None,
    gradient_of: tuple[int, int] | None = None,
) -> Trace:
    """Run one sequence and keep what the pass computed.

    Args:
        transformer: in evaluation mode, if it has dropout.
        tokens: (T,) ids, at least one.
        prefix: tokens at the start that see each other both ways.
        keep: names of the tensors to keep, attributes of `Trace`; nothing else is computed for it.
        layers: layers whose tensors are kept (None: all).
        lens_at: P positions for the logit lens (None: all T). A lens of all positions and layers is T * V numbers a
            layer.
        gradient_of: a position and a token id: keep the gradients of that token's logit there, too.

    Raises:
        ConfigError: a name, a layer or a position that there is not; gradients of float16 or int8 weights.
        SuiteError: no tokens, or learned positions end before the last.

    Example:
        >>> from suite.model import ModelConfig
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> found = trace(Transformer(config), [1, 2, 3], keep=["weights", "residual"])
        >>> found.weights[1].shape, sorted(found.residual), found.logits is None
        (torch.Size([4, 3, 3]), [0, 1, 2], True)
    """
    names = _check_names(keep)
    chosen = _check_layers(transformer, layers)
    table = transformer.tokens.weight
    assert isinstance(table, Tensor)
    ids = torch.as_tensor(tokens, dtype=torch.long, device=table.device)
    if ids.dim() != 1 or not len(ids):
        raise SuiteError("a trace needs the tokens of one sequence, at least one")
    at = _check_places(range(len(ids)) if lens_at is None else lens_at, len(ids), "lens_at")
    if gradient_of is not None and not isinstance(transformer.tokens, nn.Embedding):
        raise ConfigError("gradients need float32 weights; load the model without quantize")
    found = Trace(tokens=ids, prefix=prefix)
    recorder = _Recorder(transformer, found, names, chosen, gradient_of is not None)
    lengths = torch.tensor([prefix], device=ids.device) if prefix else None
    with torch.set_grad_enabled(gradient_of is not None):
        with recorder:
            hidden = transformer.hidden(ids[None], prefix=lengths)[0]  # (T, D)
        if gradient_of is not None:
            _gradients(transformer, found, recorder.stream, hidden, gradient_of)
    with torch.no_grad():
        hidden = hidden.detach()
        if "hidden" in names:
            found.hidden = hidden
        if "logits" in names:
            found.logits = transformer.logits(hidden)
        if "lens" in names:
            for layer, stream in recorder.stream.items():
                found.lens[layer] = transformer.logits(transformer.norm(stream.detach()[0, at]))
    return found


class _Recorder(ExitStack):
    """Hooks on a transformer's modules that fill a `Trace`; they are gone when it is left.

    Attributes:
        stream: (1, T, D) the residual stream before each layer kept, and behind it, in the pass's own graph.
    """

    def __init__(
        self, transformer: Transformer, found: Trace, names: set[str], layers: Sequence[int], graph: bool
    ) -> None:
        super().__init__()
        self.transformer, self.found, self.names, self.layers = transformer, found, names, layers
        self.graph = graph
        self.stream: ByLayer = {}

    def __enter__(self) -> _Recorder:
        transformer = self.transformer
        self._after(transformer.tokens, self._embedded)
        if "positions" in self.names and hasattr(transformer, "positions"):
            self._after(transformer.positions, self._positioned)
        for layer in self.layers:
            block: Any = transformer.blocks[layer]
            if self.graph or self.names & {"residual", "lens"}:
                self._before(block, lambda x, layer=layer: self.stream.update({layer: x}))
                self._after(block, lambda x, layer=layer: self.stream.update({layer + 1: x}))
            if self.names & set(PROJECTED):
                self.callback(block.attention.register_forward_pre_hook(self._project).remove)
            for name, module in (("attention", block.attention), ("mlp", block.mlp)):
                self._keep(name, layer, module, self._after)
            for name, module in (("mixed", block.attention.out), ("activations", block.mlp.down)):
                self._keep(name, layer, module, self._before)
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if "residual" in self.names:
            self.found.residual = {layer: x[0].detach() for layer, x in self.stream.items()}

    def _before(self, module: nn.Module, hook: Hook) -> None:
        """Call `hook` with the module's first argument, (1, T, ...)."""
        self.callback(module.register_forward_pre_hook(lambda _, given: _nothing(hook(given[0]))).remove)

    def _after(self, module: nn.Module, hook: Hook) -> None:
        """Call `hook` with the module's result, (1, T, ...); what it returns, if anything, replaces the result."""
        self.callback(module.register_forward_hook(lambda _, given, out: hook(out)).remove)

    def _keep(self, name: str, layer: int, module: nn.Module, listen: Callable[[nn.Module, Hook], None]) -> None:
        if name in self.names:
            kept = getattr(self.found, name)
            listen(module, lambda x: kept.update({layer: x[0].detach()}))

    def _embedded(self, x: Tensor) -> Tensor | None:
        if "embeddings" in self.names:
            self.found.embeddings = x[0].detach()
        # a leaf of its own: weights that are frozen have gradients to show, too
        return x.detach().requires_grad_() if self.graph else None

    def _positioned(self, x: Tensor) -> None:
        self.found.positions = x.detach().reshape(-1, x.shape[-1])

    @torch.no_grad()
    def _project(self, attention: Attention, given: tuple[Any, ...]) -> None:
        x, plan, _, rotary = given
        found, layer = self.found, attention.layer
        queries, keys, values = attention.project(x, rotary)
        for name, tensor in (("queries", queries), ("keys", keys), ("values", values)):
            if name in self.names:
                getattr(found, name)[layer] = tensor[0]
        if not self.names & set(SCORED):
            return
        keys, _ = attention.store(keys, values, plan, None)  # (1, K, S, E)
        scores = _scores(self.transformer, attention, queries, keys, plan)  # (H, T, S)
        if "scores" in self.names:
            found.scores[layer] = scores
        if self.names & {"masked", "weights"}:
            bounds = torch.tensor([found.prefix], device=scores.device) if found.prefix else None
            mask = whole_mask(self.transformer.config, layer, plan.places, bounds)
            masked = scores.masked_fill(~mask, -torch.inf)
            if "masked" in self.names:
                found.masked[layer] = masked
            if "weights" in self.names:
                found.weights[layer] = masked.softmax(dim=-1)


def whole_mask(config: ModelConfig, layer: int, places: Aligned, prefix: Tensor | None) -> Tensor:
    """The mask that a layer's pattern stands for in a pass of one row from position 0, written out for all pairs.

    Returns:
        (T, S), True where a query may look. S is T; in a layer that compresses, the blocks stand before them.
    """
    if stride := config.compression(layer):
        queries, keys = pairs(places)
        blocks = torch.arange(places.length // stride, device=places.positions.device) * stride
        mask = compressed_mask(queries, blocks, keys, stride, config.sliding_context, prefix)
    else:
        mask = make_mask(places, reach_of(config, places, config.window(layer)), prefix)
    return mask.view(mask.shape[-2:])


def _scores(transformer: Transformer, attention: Attention, queries: Tensor, keys: Tensor, plan: Plan) -> Tensor:
    """Scores (H, T, S) of queries (1, H, T, E) and keys (1, K, S, E), before the mask."""
    queries = queries * queries.shape[-1] ** -0.5
    scores = queries @ keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1).mT  # (1, H, T, S)
    if attention.relative is not None:
        at, of = pairs(plan.places)
        rows = relative_rows(transformer.config, of - at).expand(*scores.shape)  # (1, H, T, S)
        scores = scores + by_distance(queries, attention.relative).gather(-1, rows)
    return scores[0].float()


def _gradients(
    transformer: Transformer, found: Trace, stream: ByLayer, hidden: Tensor, gradient_of: tuple[int, int]
) -> None:
    """Fill in the gradients of one token's logit with respect to the residual stream."""
    [place] = _check_places([gradient_of[0]], len(hidden), "gradient_of")
    vocabulary = transformer.config.vocab_size
    if not 0 <= gradient_of[1] < vocabulary:
        raise ConfigError(f"gradient_of names token {gradient_of[1]}, but the vocabulary has {vocabulary}")
    logit = transformer.logits(hidden[place])[gradient_of[1]]
    known = torch.autograd.grad(logit, list(stream.values()), allow_unused=True)
    for (layer, x), gradient in zip(stream.items(), known, strict=True):
        found.gradients[layer] = torch.zeros_like(x[0]) if gradient is None else gradient[0]


def _nothing(_: object) -> None:
    """A hook's result that leaves the module's arguments as they are."""


def _check_names(keep: str | Iterable[str]) -> set[str]:
    names = {keep} if isinstance(keep, str) else set(keep)
    if unknown := sorted(names - set(NAMES)):
        raise ConfigError(f"a trace has no {unknown[0]!r}; available: {', '.join(NAMES)}")
    return names


def _check_layers(transformer: Transformer, layers: Collection[int] | None) -> list[int]:
    count = transformer.config.n_layer
    chosen = sorted(range(count) if layers is None else set(layers))
    if wrong := [layer for layer in chosen if not 0 <= layer < count]:
        raise ConfigError(f"the model has no layer {wrong[0]}; its layers are 0 to {count - 1}")
    return chosen


def _check_places(places: Iterable[int], length: int, name: str) -> list[int]:
    """Positions counted from 0; negative ones count from the end."""
    found = []
    for place in places:
        if not -length <= place < length:
            raise ConfigError(f"{name} names position {place}, but there are {length}")
        found.append(place % length)
    return found
