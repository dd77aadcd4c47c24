"""A transformer with what is needed to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from suite.checkpoint.format import Checkpoint, Unfinished, skeleton
from suite.errors import ConfigError
from suite.model.config import ModelConfig
from suite.model.transformer import Transformer

if TYPE_CHECKING:
    from suite.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A transformer with what is needed to use it.

    Attributes:
        transformer: in evaluation mode.
        head: of the task, on the hidden state of a row's last token; None where it has none.
        tokenizer: None where tokens are not text (music events), or where a GPT-2 directory has none.
        task: name of the task it was trained for; "lm" for GPT-2.
        name: as it was asked for.
        directory: where it was read from.
        extra: the task's own settings, plain JSON.
        tensors: the task's own, on the CPU.
        unfinished: how far its training run had come; None where it is at its end.
    """

    transformer: Transformer
    head: nn.Linear | None = None
    tokenizer: Tokenizer | None
    task: str
    name: str
    directory: Path
    extra: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    unfinished: Unfinished | None = None

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self.transformer.config

    @property
    def parameters(self) -> int:
        """How many the transformer has, tied weights counted once; however it was prepared, and without the head."""
        return sum(parameter.numel() for parameter in skeleton(self.config).parameters())


def assemble(
    checkpoint: Checkpoint, name: str, device: torch.device, dtype: torch.dtype, quantize: str | None = None
) -> Model:
    """The model that a checkpoint holds.

    Args:
        checkpoint: as it was read.
        name: by which it was asked for.
        device: where the weights go.
        dtype: of the weights.
        quantize: as for `suite.load`.
    """
    transformer = _transformer(checkpoint, device, dtype)
    if quantize is not None:
        from suite.model.quantize import prepare_for_inference

        transformer = prepare_for_inference(transformer, quantize)
    return Model(
        transformer=transformer,
        head=_head(checkpoint, device, dtype),
        tokenizer=checkpoint.tokenizer,
        task=checkpoint.task,
        name=name,
        directory=checkpoint.directory,
        extra=checkpoint.extra,
        tensors=checkpoint.tensors,
        unfinished=checkpoint.unfinished,
    )


def _transformer(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Transformer:
    """A transformer around a checkpoint's weights; they are not copied where type and device are theirs already."""
    transformer = skeleton(checkpoint.config)
    weights = {name: tensor.to(device, dtype) for name, tensor in checkpoint.state_dict.items()}
    if checkpoint.config.tie_embeddings:
        weights["head.weight"] = weights["tokens.weight"]
    transformer.load_state_dict(weights, assign=True)
    if checkpoint.config.tie_embeddings:  # assigned one by one they share memory, but would be two parameters
        transformer.head.weight = transformer.tokens.weight
    return transformer.eval()


def _head(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> nn.Linear | None:
    """The checkpoint's head, if it has one."""
    if not checkpoint.head:
        return None
    outputs, width = checkpoint.head["weight"].shape
    with torch.device("meta"):
        head = nn.Linear(width, outputs)
    weights = {name: tensor.to(device, dtype) for name, tensor in checkpoint.head.items()}
    head.load_state_dict(weights, assign=True)
    return head.eval()


def find_device(device: str | torch.device) -> torch.device:
    """The device of that name.

    Raises:
        ConfigError: this machine has none of that name.
    """
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch built without CUDA asserts
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device {str(device)!r} cannot be used here: {reason}") from error
    return place
