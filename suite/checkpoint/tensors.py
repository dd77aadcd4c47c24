"""Read and write tensors as safetensors files, and convert weights to and from their storage types.

Nothing here reads or writes pickle. Every file is written to a temporary name, synced and renamed, so that a full disk
or a crash leaves the previous file as it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from suite import files
from suite.errors import CheckpointError
from suite.model.quantize import dequantize_int8, quantize_int8

Storage = Literal["float32", "float16", "bfloat16", "int8"]
SCALE = ".scale"  # suffix of the tensor with an int8 tensor's scales, one per output channel
HEAD = "output."  # prefix of the head's tensors
TASK = "task."  # prefix of the task's own tensors
_LAYER = re.compile(r"(?:^|\.)(?:blocks|h)\.(\d{1,9})\.")  # ours, and GPT-2's


def write_atomic(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Write a file completely or not at all; see `suite.files.write_atomic`.

    Raises:
        CheckpointError: the file could not be written (for example, the disk is full); the old file is unchanged.
    """
    try:
        files.write_atomic(path, content)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"could not write {path}: {error}; what was there before is unchanged") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomic(path, lambda temporary: save_file(content, temporary, metadata=dict(metadata or {})))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file by name; they are memory-mapped.

    Raises:
        CheckpointError: the file is missing, truncated or not a safetensors file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} does not exist") from error
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path} is damaged or not a safetensors file: {reason}; copy it again") from error


def check_layers(found: Iterable[str], n_layer: int, path: Path) -> None:
    """Check that there are tensors of the last layer, before `n_layer` layers are built to compare them one by one.

    Raises:
        CheckpointError: there are not as many layers.
    """
    layers = 1 + max((int(match[1]) for name in found if (match := _LAYER.search(name))), default=-1)
    if 0 < layers < n_layer:
        raise CheckpointError(f"{path} has the tensors of {layers} layers, but the configuration says {n_layer:,}")


def check_storage(tensors: Mapping[str, Tensor], storage: Storage, path: Path) -> None:
    """Check that tensors have the types that `pack` gives them; the task's own may also be whole numbers.

    Raises:
        CheckpointError: a tensor has another type than the configuration says; the message names the first.
    """
    for name, tensor in tensors.items():
        scaled = name + SCALE in tensors
        expected = getattr(torch, storage)
        if name.endswith(SCALE) or (storage == "int8" and not scaled and tensor.dim() != 2):
            expected = torch.float32
        free = name.startswith(TASK) and not scaled and not tensor.is_floating_point() and tensor.dtype != torch.int8
        if tensor.dtype != expected and not free:
            raise CheckpointError(
                f"{path}: tensor {name!r} is of type {tensor.dtype}, but must be {expected}, because the "
                f"configuration says storage {storage!r}"
            )


def check_numbers(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Check that weights, packed or not, are numbers, and that the embeddings are not all zeros.

    Raises:
        CheckpointError: a weight is NaN or infinite, or all embeddings are zero; the message names the tensor.
    """
    for name, tensor in tensors.items():
        if not tensor.numel() or not (tensor.is_floating_point() or name == "tokens.weight"):
            continue
        least, most = (float(bound) for bound in tensor.aminmax())  # a tenth of the time of isfinite
        # the task's own may be infinite: so is the bias of a label that no text has
        if math.isnan(most) or (max(-least, most) == math.inf and not name.startswith(TASK)):
            raise CheckpointError(f"{path}: tensor {name!r} has values that are not numbers")
        if name == "tokens.weight" and least == most == 0:
            raise CheckpointError(f"{path}: tensor {name!r} is zero everywhere; copy the file again")


def check_shapes(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], path: Path) -> None:
    """Check that tensors have the expected names and shapes.

    Raises:
        CheckpointError: a tensor is missing, extra or misshapen; the message names the first.
    """
    for name, tensor in expected.items():
        if name not in found:
            raise CheckpointError(f"{path}: tensor {name!r} is missing")
        if found[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path}: tensor {name!r} has shape {tuple(found[name].shape)}, "
                f"but the configuration says {tuple(tensor.shape)}"
            )
    for name in found:
        if name not in expected:
            raise CheckpointError(f"{path}: tensor {name!r} is not part of this model")


def pack(state_dict: Mapping[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Convert weights to a storage type; integer tensors are unchanged.

    int8 quantizes matrices, with a float32 scale for each output channel, and stores vectors as float32.
    """
    packed: dict[str, Tensor] = {}
    for name, tensor in state_dict.items():
        if not tensor.is_floating_point():
            packed[name] = tensor
        elif storage != "int8":
            packed[name] = tensor.to(getattr(torch, storage))
        elif tensor.dim() == 2:
            packed[name], packed[name + SCALE] = quantize_int8(tensor.float())
        else:
            packed[name] = tensor.float()
    return packed


def unpack(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Convert packed tensors back to float32, the inverse of `pack`; integer tensors are unchanged.

    All are copies: a memory-mapped file that another program cuts short would end this one with a bus error.

    Raises:
        CheckpointError: an int8 tensor and its scales do not match.
    """
    state_dict: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALE):
            if name.removesuffix(SCALE) not in tensors:
                raise CheckpointError(f"{path}: tensor {name!r} scales a tensor that is missing")
        elif tensor.dtype == torch.int8:
            if name + SCALE not in tensors:
                raise CheckpointError(f"{path}: tensor {name + SCALE!r} is missing")
            scale = tensors[name + SCALE]
            if scale.shape != tensor.shape[:1]:
                raise CheckpointError(
                    f"{path}: tensor {name + SCALE!r} has shape {tuple(scale.shape)}, not {tuple(tensor.shape[:1])}"
                )
            state_dict[name] = dequantize_int8(tensor, scale)
        else:
            state_dict[name] = tensor.to(torch.float32 if tensor.is_floating_point() else tensor.dtype, copy=True)
    return state_dict
