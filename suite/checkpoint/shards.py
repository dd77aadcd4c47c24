"""Read the weights of a directory of `transformers`: one safetensors file, or several with an index."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from suite.checkpoint.tensors import read_tensors
from suite.errors import CheckpointError


def read_weights(directory: Path) -> tuple[dict[str, Tensor], Path]:
    """Return all tensors of a directory by name, memory-mapped, and the path of the file to name in errors.

    Raises:
        CheckpointError: there are no weights, or a file is missing or damaged.
    """
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.exists():
        return read_tensors(single), single
    if not index.exists():
        raise CheckpointError(
            f"{directory} has no model.safetensors; weights in a pytorch_model.bin are pickled, and reading a pickle "
            "runs whatever code is in it: load it once with transformers and save_pretrained it again"
        )
    shards = shard_files(index)
    if missing := [shard for shard in shards if not shard.exists()]:
        raise CheckpointError(
            f"{missing[0]} does not exist, though {index.name} names it ({len(shards) - len(missing)} of "
            f"{len(shards)} files are there); copy or download the rest"
        )
    return {name: tensor for shard in shards for name, tensor in read_tensors(shard).items()}, index


def shard_files(index: Path) -> list[Path]:
    """The files that an index names.

    Raises:
        CheckpointError: it is not an index, or names a file outside its own folder.
    """
    try:
        shards = sorted({str(name) for name in json.loads(index.read_bytes())["weight_map"].values()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{index} is not an index of safetensors files: {error!r}") from error
    if outside := [name for name in shards if Path(name).name != name]:
        raise CheckpointError(f"{index} names {outside[0]!r}, which is not a file in the same folder")
    return [index.parent / name for name in shards]


def weight_bytes(directory: Path) -> int | None:
    """Bytes of a directory's weights on disk; None where there are none, or not all of them."""
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    files = [single] if single.exists() else shard_files(index) if index.exists() else []
    return sum(file.stat().st_size for file in files) if files and all(file.exists() for file in files) else None
