"""A transformer and its KV cache bound to the compiled step.

Shapes: `B` rows, `D` d_model, `H` heads, `E` head width, `F` MLP width, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from suite.errors import SuiteError
from suite.model.cache import KVCache
from suite.model.plan import check_room
from suite.model.quantize import ShortEmbedding, ShortLinear
from suite.model.rotary import rotary_table
from suite.model.step import layout
from suite.model.step.layout import BFLOAT16, CHUNK, FLOAT16, FLOAT32, INT8, LAYER, LINE, MODEL
from suite.model.step.team import Team, team
from suite.model.step.work import PHASES, work
from suite.model.transformer import Transformer

KINDS = {torch.float32: FLOAT32, torch.float16: FLOAT16, torch.bfloat16: BFLOAT16, torch.int8: INT8}
ACTIVATIONS = {name: getattr(layout, name.upper()) for name in ("gelu", "gelu_tanh", "relu2", "swiglu")}
SHARE = 4 << 20  # bytes of weights, times rows, that are worth a thread
TABLE = 1 << 16  # positions whose rotations are kept; later ones are computed step by step


class BoundStep:
    """The decoding step of a transformer, compiled: as `Transformer` in evaluation mode, up to rounding.

    It reads the weights where they lie, and keys and values in the cache that it is given, so that PyTorch and it can
    take turns. One thread at a time may use it.

    Args:
        transformer: one that `why_not` finds nothing against. It must keep its weights while this is in use.
        threads: that share the work.
    """

    def __init__(self, transformer: Transformer, threads: int) -> None:
        config = transformer.config
        self.config, self.threads = config, threads
        self.held: list[Any] = []  # tensors whose addresses are in use
        self.model, self.layers = np.zeros(1, MODEL), np.zeros(config.n_layer, LAYER)
        self.counters = np.zeros((1 + 2 * (PHASES * config.n_layer + 1)) * LINE // 8 + 8, np.int64)
        self.number = 0
        self.team: Team | None = team(threads) if threads > 1 else None
        self._describe(transformer)
        for record, block in zip(self.layers, transformer.blocks, strict=True):
            self._describe_layer(record, block)
        self._cos = self._sin = np.zeros((0, config.rotated), np.float32)
        self._rows = 0

    def __call__(self, tokens: Sequence[int], cache: KVCache) -> Tensor:
        """Feed a new token per row and count it in the cache; returns the logits (B, V) of the next token."""
        logits = torch.empty(len(tokens), self.config.vocab_size)
        self._prepare(tokens, cache, logits)
        self.number += 1
        if self.team is None:
            work(self.model, self.layers, 0, self.number)
        else:
            with self.team.helping(self.help):
                work(self.model, self.layers, 0, self.number)
        cache.advance([1] * len(tokens))
        return logits

    def help(self, thread: int) -> None:
        """Work on this step and those that follow it, until none comes for a millisecond or two."""
        work(self.model, self.layers, thread, self.number - 1)

    def _describe(self, transformer: Transformer) -> None:
        """Write down the sizes, and the tensors outside of layers."""
        config, model = self.config, self.model[0]
        for name in ("n_layer", "d_model", "n_head", "kv_heads", "head_width", "ff_width", "span", "qk_norm"):
            model[name] = getattr(config, name)
        model["norm_eps"], model["scale"] = config.norm_eps, config.head_width**-0.5
        model["rms"], model["activation"] = config.norm == "rms", ACTIVATIONS[config.activation]
        model["rotary_width"] = config.rotated if config.position == "rotary" else 0
        model["threads"], model["parallel"] = self.threads, config.parallel_residual
        self._describe_matrix(model["tokens"], transformer.tokens)
        self._describe_matrix(model["head"], transformer.head)
        if config.position == "learned":
            self._describe_matrix(model["positions"], transformer.positions)
        self._describe_norm(model["norm"], transformer.norm)
        start = self._hold(self.counters)
        model["counters"] = start + -start % LINE

    def _describe_layer(self, record: Any, block: Any) -> None:
        attention, mlp = block.attention, block.mlp
        matrices = {"qkv": attention.qkv, "out": attention.out, "up": mlp.up, "down": mlp.down}
        for name, module in matrices.items():
            self._describe_matrix(record[name], module)
        self._describe_norm(record["attention_norm"], block.attention_norm)
        self._describe_norm(record["mlp_norm"], block.mlp_norm)
        if self.config.qk_norm_weight:
            self._describe_norm(record["query_norm"], attention.query_norm)
            self._describe_norm(record["key_norm"], attention.key_norm)
        record["relative"] = self._hold(attention.relative)
        reach = self.config.window(attention.layer), self.config.sliding_context
        record["reach"] = min((limit for limit in reach if limit), default=np.iinfo(np.int64).max)

    def _describe_matrix(self, record: Any, module: nn.Module) -> None:
        weight: Any = module.weight
        record["weight"], record["kind"] = self._hold(weight), KINDS[weight.dtype]
        record["outputs"], record["inputs"] = weight.shape
        record["scales"] = self._hold(getattr(module, "scales", None))
        record["bias"] = self._hold(getattr(module, "bias", None))

    def _describe_norm(self, record: Any, module: nn.Module) -> None:
        record["weight"], record["bias"] = self._hold(module.weight), self._hold(getattr(module, "bias", None))

    def _hold(self, array: Any) -> int:
        """The address of a tensor or array, which is kept; 0 for None."""
        if array is None:
            return 0
        self.held.append(array)
        return int(array.data_ptr() if isinstance(array, Tensor) else array.ctypes.data)

    def _prepare(self, tokens: Sequence[int], cache: KVCache, logits: Tensor) -> None:
        """Write down what is new in this step: tokens, positions, and where the cache lies."""
        rows, model = len(tokens), self.model[0]
        check_room(self.config, cache, 1)
        if not 0 <= min(tokens) <= max(tokens) < self.config.vocab_size:
            raise SuiteError(
                f"the token ids {min(tokens)} to {max(tokens)} are not all 0 to {self.config.vocab_size - 1}"
            )
        if (rows, cache.capacity) != (self._rows, model["capacity"]):
            self._make_room(rows, cache)
        self.ids[:], self.newest[:], self.places[:] = tokens, cache.seen, cache.seen
        if self.config.restart_positions:
            restarts = cache.restarts.numpy()
            self.places -= np.where(self.newest >= restarts, restarts, 0)
        if self.config.position == "rotary":
            self._rotations()
        self.layers["keys"] = [keys.data_ptr() for keys in cache.keys]
        self.layers["values"] = [values.data_ptr() for values in cache.values]
        model["logits"] = logits.data_ptr()

    def _make_room(self, rows: int, cache: KVCache) -> None:
        """Arrays for so many rows, and for scores of all keys."""
        config, model = self.config, self.model[0]
        self._rows = model["rows"] = rows
        model["capacity"], model["slots"] = cache.capacity, cache.keys[0].shape[2]
        width = config.n_head * config.head_width
        group = config.n_head // config.kv_heads
        results = max(rows * max(CHUNK, config.head_width), (group + 1) * cache.capacity + 1)
        model["scratch"] = -(-(rows * config.d_model + results) // 16) * 16
        sizes = {
            "x": config.d_model,
            "before": config.d_model,
            "queries": width,
            "mixed": width,
            "wide": config.ff_width,
        }
        sizes |= {"cos": config.rotated, "sin": config.rotated}
        self.room = {name: np.zeros((rows, size), np.float32) for name, size in sizes.items()}
        self.room["own"] = np.zeros((self.threads, int(model["scratch"])), np.float32)
        self.ids, self.newest, self.places = np.zeros((3, rows), np.int64)
        rooms: dict[str, Any] = {**self.room, "ids": self.ids, "newest": self.newest, "places": self.places}
        for name, array in rooms.items():
            model[name] = array.ctypes.data

    def _rotations(self) -> None:
        """Cosines and sines of the rows' positions, as PyTorch computes them."""
        last = int(self.places.max())
        if last >= TABLE:
            cos, sin = self._table(torch.from_numpy(self.places))
            self.room["cos"][:], self.room["sin"][:] = cos, sin
            return
        if last >= len(self._cos):
            self._cos, self._sin = self._table(torch.arange(min(TABLE, max(64, 2 * last + 2))))
        np.take(self._cos, self.places, axis=0, out=self.room["cos"])
        np.take(self._sin, self.places, axis=0, out=self.room["sin"])

    def _table(self, positions: Tensor) -> tuple[Any, Any]:
        config = self.config
        cos, sin = rotary_table(positions, config.rotated, config.rope_theta, config.rope_scaling)
        return cos.numpy(), sin.numpy()


def threads_for(transformer: Transformer, rows: int) -> int:
    """Threads that are worth their waiting for each other: at most PyTorch's number, fewer for small models."""
    size = sum(tensor.nbytes for tensor in (*transformer.blocks.parameters(), *transformer.blocks.buffers()))
    head: Any = transformer.head.weight
    return max(1, min(torch.get_num_threads(), int(size + head.nbytes) * rows // SHARE))


def why_not(transformer: Transformer, cache_dtype: torch.dtype = torch.float32) -> str | None:
    """Why the compiled step cannot run a transformer; None if it can."""
    config = transformer.config
    if config.compresses:
        return "compressed keys and values"
    if transformer.training and (config.dropout or config.attention_rate):
        return "dropout"
    if cache_dtype != torch.float32:
        return f"activations in {str(cache_dtype).removeprefix('torch.')}"
    for name, module in transformer.named_modules():
        if type(module) in (nn.Linear, ShortLinear, nn.Embedding, ShortEmbedding):
            weight: Any = module.weight
            if weight.dtype not in KINDS or weight.device.type != "cpu" or not weight.is_contiguous():
                return f"the weights of {name}, which are {weight.dtype} on {weight.device} in an order of their own"
        elif not list(module.children()) and type(module) not in (nn.LayerNorm, nn.RMSNorm):
            return f"{name}, a {type(module).__name__}"
    return None
