"""Count a model's parameters and bytes by tensor: the table of "The Illustrated GPT-2", for any model.

Source: Alammar 2019, "The Illustrated GPT-2".
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.errors import CheckpointError
from suite.sealed import read_sealed

if TYPE_CHECKING:
    from suite.model import ModelConfig

BYTES = {"float32": 4, "float16": 2}  # per value


@dataclass(frozen=True, kw_only=True)
class Weight:
    """A weight tensor, or the tensors of the same name and shape in several blocks.

    Attributes:
        name: as in the state dict, with `*` for the block's number.
        shape: shape of each tensor.
        count: number of tensors.
    """

    name: str
    shape: tuple[int, ...]
    count: int

    @property
    def parameters(self) -> int:
        """Total number of parameters of all `count` tensors."""
        return self.count * math.prod(self.shape)

    @property
    def part(self) -> str:
        """The part of the model that it belongs to: "embeddings", "blocks", "norm" or "head"."""
        first = self.name.partition(".")[0]
        return "embeddings" if first in ("tokens", "positions") else first

    def nbytes(self, storage: str) -> int:
        """Bytes in a checkpoint stored as "float32", "float16" or "int8" (matrices, plus a float32 scale per row)."""
        if storage == "int8" and len(self.shape) == 2:
            return self.parameters + self.count * 4 * self.shape[0]
        return self.parameters * BYTES.get(storage, 4)


def tally(config: ModelConfig) -> list[Weight]:
    """List the weights of a model in the order it uses them, tied weights once. Allocates no memory for them.

    Example:
        >>> from suite import ModelConfig
        >>> sum(weight.parameters for weight in tally(ModelConfig.gpt2("124M")))
        124439808
    """
    from suite.checkpoint import expected_tensors

    counts: dict[tuple[str, tuple[int, ...]], int] = {}
    for name, tensor in expected_tensors(config).items():
        key = (re.sub(r"\.\d+\.", ".*.", name), tuple(tensor.shape))
        counts[key] = counts.get(key, 0) + 1
    return [Weight(name=name, shape=shape, count=count) for (name, shape), count in counts.items()]


def cache_bytes(config: ModelConfig, dtype: str) -> int:
    """Bytes of keys and values that the KV cache stores per token, as "float32" or "float16".

    Example:
        >>> from suite import ModelConfig
        >>> cache_bytes(ModelConfig.gpt2("124M"), "float32")
        73728
    """
    strides = (max(1, config.compression(layer)) for layer in range(config.n_layer))
    return round(sum(2 * config.kv_heads * config.head_width * BYTES[dtype] / stride for stride in strides))


def read_head(directory: Path) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """Read the settings and tensor shapes of a checkpoint in our format, without torch and without its weights.

    Returns:
        the content of config.json, and the shape of each tensor in model.safetensors (scales of int8 tensors are
        left out).

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    settings = read_sealed(directory / "config.json")
    path = directory / "model.safetensors"
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            head: dict[str, Any] = json.loads(file.read(min(length, path.stat().st_size)))
        shapes = {name: tuple(tensor["shape"]) for name, tensor in head.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is missing or damaged: {error}") from error
    return settings, {name: shape for name, shape in shapes.items() if not name.endswith(".scale")}
