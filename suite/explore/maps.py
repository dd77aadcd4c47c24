"""Where a model's parameters are, and how its key/value cache grows."""

from __future__ import annotations

from typing import Any

from suite.cli.models import GPT2, model_config
from suite.errors import ConfigError
from suite.explore.work import Workbench
from suite.model import KVCache, ModelConfig
from suite.tally import cache_bytes
from suite.task import suggest

POINTS = 64  # of the cache's curve


def config_of(bench: Workbench, name: str) -> ModelConfig:
    """The shape of a model on the page, or of a GPT-2 in one of its sizes; no weights are read.

    Raises:
        ConfigError: there is no such model.
    """
    if name in bench.models:
        from suite.checkpoint import resolve

        return model_config(resolve(bench.models[name]))
    if name in GPT2:
        return ModelConfig.gpt2(GPT2[name])
    raise ConfigError(f"no model {name!r} on this page; {suggest(name, [*bench.models, *GPT2])}")


def model_map(bench: Workbench, name: str) -> dict[str, Any]:
    """Every weight with its shape, and the bytes of the cache after so many tokens."""
    from suite.checkpoint import expected_tensors

    config = config_of(bench, name)
    weights = [
        {"name": weight, "shape": list(tensor.shape), "parameters": tensor.numel()}
        for weight, tensor in expected_tensors(config).items()
    ]
    return {
        "name": name,
        "config": config.to_dict() | {"kv_heads": config.kv_heads, "head_width": config.head_width},
        "weights": weights,
        "total": sum(weight["parameters"] for weight in weights),
        "tied": config.tie_embeddings,
        "cache": {
            "per_token": {dtype: cache_bytes(config, dtype) for dtype in ("float32", "float16")},
            "slides": bool(config.sliding_context),
            "whole": _whole(config),
        },
    }


def _whole(config: ModelConfig) -> int:
    """Bytes of a cache for the whole context in float32, as it is allocated, on no device."""
    return KVCache(config, 1, config.context, device="meta").nbytes


def task_of(directory: str) -> str:
    """The task that a model was trained for, from its settings alone."""
    from suite.checkpoint import read_config, resolve

    return str(read_config(resolve(directory)).get("task", "lm"))
