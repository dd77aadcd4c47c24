"""Questions about what happens inside: attention weights, and one token's path through the layers.

Shapes: `T` positions, `H` heads, `D` d_model, `E` head width, `F` MLP width, `V` vocabulary.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from suite.checkpoint import Model
from suite.errors import ConfigError
from suite.explore.texts import LONGEST_LOOK, ids_of, label, pieces, tokenizer_of, whole
from suite.model.trace import trace

MASKED = 255  # byte of a cell that the query may not see; the others are weights in 254ths
THUMBNAIL = 40  # cells a side, of a head's picture in the grid
MEMORY = 64 * 1024 * 1024  # weights of so many cells are in memory at a time
KEPT = 16 * 1024 * 1024  # bytes of the grid's own layers, kept for the clicks that follow
GUESSES = 5  # tokens of the logit lens


def looked_at(model: Model, asked: Mapping[str, Any]) -> tuple[list[int], int]:
    """Tokens of the request, and how many of them see each other both ways."""
    most = LONGEST_LOOK if model.config.sliding_context else min(LONGEST_LOOK, model.config.context)
    ids = ids_of(model, asked, most=most)
    return ids, len(ids) if asked.get("both_ways") is True else 0


def packed(header: Mapping[str, Any], body: Tensor) -> bytes:
    """A header in JSON, its length before it in four bytes, and the bytes of a uint8 tensor behind it."""
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 4)
    return len(words).to_bytes(4, "little") + words + body.contiguous().numpy().tobytes()


def as_bytes(weights: Tensor, seen: Tensor) -> Tensor:
    """Weights in [0, 1] as uint8: 0 to 254, and `MASKED` where `seen` is False."""
    return torch.where(seen, (weights * 254).round(), float(MASKED)).to(torch.uint8).cpu()


def layers_at_a_time(model: Model, length: int) -> Iterator[list[int]]:
    """All layers, as many together as fit in memory."""
    step = max(1, MEMORY // (model.config.n_head * length * length))
    for first in range(0, model.config.n_layer, step):
        yield list(range(first, min(first + step, model.config.n_layer)))


class _Kept:
    """The layers of the text that a grid was drawn of last; one computation runs at a time, so it needs no lock."""

    def __init__(self) -> None:
        self._model: weakref.ref[Model] | None = None
        self._text: tuple[list[int], int] = ([], 0)
        self._layers: list[Tensor] = []

    def put(self, model: Model, ids: list[int], prefix: int, layers: list[Tensor]) -> None:
        """Keep the bytes (H, T, T) of all layers; none of a text for which they would be too many."""
        self._model, self._text, self._layers = weakref.ref(model), (ids, prefix), layers

    def get(self, model: Model, ids: list[int], prefix: int, layer: int) -> Tensor | None:
        """The bytes of a layer, where they are those of this model and text."""
        known = self._model is not None and self._model() is model and self._text == (ids, prefix)
        return self._layers[layer] if known and self._layers else None


kept = _Kept()


def attention_grid(model: Model, asked: Mapping[str, Any]) -> bytes:
    """A small picture of every head, and figures of what each looks at."""
    ids, prefix = looked_at(model, asked)
    length = len(ids)
    size = min(length, THUMBNAIL)
    pictures, figures, cells = [], [], []
    keeps = model.config.n_layer * model.config.n_head * length * length <= KEPT
    for layers in layers_at_a_time(model, length):
        found = trace(model.transformer, ids, prefix=prefix, keep=["weights", "masked"], layers=layers)
        for layer in layers:
            weights = found.weights_by_position(layer)  # (H, T, T)
            small = F.adaptive_max_pool2d(weights, size)
            pictures.append(as_bytes(small, F.adaptive_max_pool2d(_seen(found.masked[layer], length), size) > 0))
            figures.append(_habits(weights))
            if keeps:
                cells.append(as_bytes(weights, _seen(found.masked[layer], length) > 0))
    kept.put(model, ids, prefix, cells)
    header = {"tokens": pieces(model, ids), "layers": model.config.n_layer, "heads": model.config.n_head}
    return packed({**header, "size": size, "habits": figures}, torch.stack(pictures))


def _seen(masked: Tensor, length: int) -> Tensor:
    """1 where a query may see a position, (H, T, T), from masked scores (H, T, S); a compressed block is all seen."""
    seen = (masked > -torch.inf).float()
    blocks = masked.shape[-1] - length
    if not blocks:
        return seen
    stride = length // blocks
    merged, single = torch.split(seen, [blocks, length], dim=-1)
    spread = F.pad(merged.repeat_interleave(stride, dim=-1), (0, length - blocks * stride))
    return torch.maximum(spread, single)


def _habits(weights: Tensor) -> list[dict[str, float]]:
    """For each head, the mean share of its attention on the token itself, the one before and the first."""
    length = weights.shape[-1]
    rows = weights[:, 1:] if length > 1 else weights
    own = weights.diagonal(dim1=1, dim2=2)[:, 1:] if length > 1 else weights.diagonal(dim1=1, dim2=2)
    before = weights.diagonal(offset=-1, dim1=1, dim2=2) if length > 1 else own * 0
    return [
        {"self": round(a, 4), "previous": round(b, 4), "first": round(c, 4)}
        for a, b, c in zip(
            own.mean(dim=-1).tolist(), before.mean(dim=-1).tolist(), rows[:, :, 0].mean(dim=-1).tolist(), strict=True
        )
    ]


def attention_layer(model: Model, asked: Mapping[str, Any]) -> bytes:
    """The weights of all heads of one layer, H * T * T bytes behind a header."""
    ids, prefix = looked_at(model, asked)
    layer = whole(asked, "layer", 0, model.config.n_layer - 1)
    cells = kept.get(model, ids, prefix, layer)
    if cells is None:
        found = trace(model.transformer, ids, prefix=prefix, keep=["weights", "masked"], layers=[layer])
        cells = as_bytes(found.weights_by_position(layer), _seen(found.masked[layer], len(ids)) > 0)
    return packed({"heads": model.config.n_head, "size": len(ids), "masked": MASKED}, cells)


def numbers(values: Tensor) -> list[float | None]:
    """Numbers of a vector to four digits; None for minus infinity."""
    return [None if one == -torch.inf else float(f"{one:.4g}") for one in values.tolist()]


def guesses(model: Model, logits: Tensor, count: int = GUESSES) -> list[dict[str, Any]]:
    """The likeliest tokens of logits (V,)."""
    values, tokens = logits.double().softmax(dim=-1).topk(min(count, len(logits)))
    tokenizer = tokenizer_of(model)
    return [
        {"id": one, "text": label(tokenizer, one), "p": value}
        for one, value in zip(tokens.tolist(), values.tolist(), strict=True)
    ]


def path(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """One token's way through the model: the logit lens before each layer, and one layer's steps with their numbers."""
    ids, prefix = looked_at(model, asked)
    place = whole(asked, "position", len(ids) - 1, len(ids) - 1)
    layer = whole(asked, "layer", 0, model.config.n_layer - 1)
    head = whole(asked, "head", 0, model.config.n_head - 1)
    lens = trace(
        model.transformer,
        ids,
        prefix=prefix,
        keep=["embeddings", "positions", "residual", "attention", "mlp", "lens", "hidden"],
        lens_at=[place],
    )
    assert lens.embeddings is not None and lens.hidden is not None
    top = guesses(model, lens.lens[model.config.n_layer][0])
    ladder = [
        {"norm": float(lens.residual[at][place].norm()), "top": guesses(model, logits[0])}
        for at, logits in sorted(lens.lens.items())
    ]
    for at, rung in enumerate(ladder[1:]):
        rung["attention"] = float(lens.attention[at][place].norm())
        rung["mlp"] = float(lens.mlp[at][place].norm())
    return {
        "tokens": pieces(model, ids),
        "position": place,
        "layer": layer,
        "head": head,
        "ladder": ladder,
        "embedding": numbers(lens.embeddings[place]),
        "learned": None if lens.positions is None else numbers(lens.positions[place]),
        "positions": model.config.position,
        "steps": _steps(model, ids, prefix, place, layer, head),
        "hidden": numbers(lens.hidden[place]),
        "top": top,
        "why": _shares(model, ids, prefix, place, top[0]["id"]),
    }


def _steps(model: Model, ids: Sequence[int], prefix: int, place: int, layer: int, head: int) -> dict[str, Any]:
    """The steps of one layer at one position, for one head."""
    names = ["residual", "queries", "keys", "values", "scores", "masked", "weights", "mixed", "attention"]
    found = trace(model.transformer, ids, prefix=prefix, keep=[*names, "activations", "mlp"], layers=[layer])
    config = model.config
    group = head // (config.n_head // config.kv_heads)
    width = found.mixed[layer].shape[-1] // config.n_head
    scores, masked = found.scores[layer][head, place], found.masked[layer][head, place]
    return {
        "stream": numbers(found.residual[layer][place]),
        "query": numbers(found.queries[layer][head, place]),
        "key": numbers(found.keys[layer][group, place]),
        "value": numbers(found.values[layer][group, place]),
        "blocks": len(scores) - len(ids),
        "scores": numbers(scores),
        "masked": (masked == -torch.inf).tolist(),
        "weights": numbers(found.weights[layer][head, place]),
        "lengths": numbers(found.values[layer][group].norm(dim=-1)),
        "mixed": numbers(found.mixed[layer][place, head * width : (head + 1) * width]),
        "attention": numbers(found.attention[layer][place]),
        "activations": numbers(found.activations[layer][place]),
        "mlp": numbers(found.mlp[layer][place]),
        "out": numbers(found.residual[layer + 1][place]),
    }


def _shares(model: Model, ids: Sequence[int], prefix: int, place: int, token: int) -> list[float | None] | None:
    """Gradient x input of a token's logit for each token read, on the stream before the first layer.

    None where the weights have no gradients. Source: Shrikumar et al. 2016, "Not Just a Black Box".
    """
    try:
        found = trace(model.transformer, ids, prefix=prefix, keep="residual", layers=[0], gradient_of=(place, token))
    except ConfigError:
        return None
    return numbers((found.gradients[0] * found.residual[0]).sum(dim=-1))
