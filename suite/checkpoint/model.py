"""A loaded model: a transformer with its head, tokenizer and task settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from suite.checkpoint import inspection
from suite.checkpoint.format import Checkpoint, skeleton
from suite.checkpoint.generation import Generation
from suite.checkpoint.settings import Unfinished
from suite.errors import ConfigError
from suite.model.config import ModelConfig
from suite.model.transformer import Transformer

if TYPE_CHECKING:
    from suite.checkpoint.inspection import Given
    from suite.checkpoint.tensors import Storage
    from suite.model.trace import Trace
    from suite.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A transformer with its head, tokenizer and task settings, ready for use.

    Attributes:
        transformer: in evaluation mode.
        head: the task's head, applied to the hidden state of a row's last token; None if the task has no head.
        tokenizer: None if tokens are not text (music events), or if a GPT-2 directory lacks a tokenizer.
        task: name of the task it was trained for; "lm" for GPT-2.
        name: the name it was loaded by.
        directory: where it was read from.
        extra: the task's own settings, plain JSON.
        tensors: the task's own tensors, on the CPU.
        unfinished: progress of its training run; None if the run is finished.
        generation: the model's own defaults for writing.
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
    generation: Generation = field(default_factory=Generation)

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self.transformer.config

    @property
    def config_file(self) -> str:
        """Path of its config.json, for errors in `extra`."""
        return str(self.directory / "config.json")

    @property
    def parameters(self) -> int:
        """Number of parameters of the transformer before quantization, tied weights counted once; excludes the head."""
        return sum(parameter.numel() for parameter in skeleton(self.config).parameters())

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> Model:
        """Load a model by name: `suite.load`, under the name that it has in other libraries, with its options."""
        from suite.checkpoint.loading import load

        return load(name, **options)

    def save_pretrained(
        self, directory: str | Path, *, to: Literal["suite", "transformers"] = "suite", storage: Storage = "float32"
    ) -> None:
        """Write the model to a directory, which is made if need be; `from_pretrained` reads both formats.

        Args:
            directory: files of the same names in it are replaced.
            to: suite's own format, or that of `transformers`, which cannot hold every model.
            storage: type of the weights on disk.

        Raises:
            ConfigError: the format cannot hold this model.
            CheckpointError: the directory cannot be written, or the model was quantized when it was loaded.
        """
        from suite.checkpoint.loading import write

        write(self, directory, to=to, storage=storage)

    def trace(self, given: Given, **options: Any) -> Trace:
        """Run a text, or token ids, and keep what the pass computed; `options` are those of `suite.model.trace.trace`.

        Example:
            >>> from suite import load
            >>> load("lm").trace("A robot must obey", keep="weights").weights[0].shape
            torch.Size([5, 6, 6])
        """
        return inspection.trace_model(self, given, **options)

    def hidden_states(self, given: Given, *, prefix: int = 0) -> Tensor:
        """The residual stream (n_layer + 1, T, D) before each layer and behind the last, before the final norm."""
        return inspection.hidden_states(self, given, prefix)

    def attentions(self, given: Given, *, prefix: int = 0) -> Tensor:
        """Attention weights (n_layer, H, T, T) of a text or token ids; each row sums to 1."""
        return inspection.attentions(self, given, prefix)

    def logprobs(self, given: Given, *, prefix: int = 0) -> Tensor:
        """Log-probability (T - 1,) in nats of each token after the first, given those before it."""
        return inspection.logprobs(self, given, prefix)

    def bertviz(self, given: Given, *, prefix: int = 0) -> dict[str, Any]:
        """What BertViz draws: `bertviz.head_view(**model.bertviz(text))`, likewise `model_view`."""
        return inspection.bertviz(self, given, prefix)


def assemble(
    checkpoint: Checkpoint, name: str, device: torch.device, dtype: torch.dtype, quantize: str | None = None
) -> Model:
    """Build a model from a checkpoint.

    Args:
        checkpoint: the content of the checkpoint directory.
        name: the name that the model is loaded by.
        device: device of the weights.
        dtype: type of the weights.
        quantize: as for `suite.load`.
    """
    transformer = _transformer(checkpoint, device, dtype)
    if quantize is not None:
        from suite.model.quantize import prepare_for_inference

        transformer = prepare_for_inference(transformer, quantize)
    vars(transformer)["origin"] = str(checkpoint.directory)  # for the error where its logits are not numbers
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
        generation=checkpoint.generation,
    )


def _transformer(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Transformer:
    """Build a transformer on a checkpoint's weights; they are copied only if dtype or device differs."""
    transformer = skeleton(checkpoint.config)
    weights = {name: tensor.to(device, dtype) for name, tensor in checkpoint.state_dict.items()}
    if checkpoint.config.tie_embeddings:
        weights["head.weight"] = weights["tokens.weight"]
    transformer.load_state_dict(weights, assign=True)
    if checkpoint.config.tie_embeddings:  # load_state_dict makes two parameters that share memory
        transformer.head.weight = transformer.tokens.weight
    return transformer.eval()


def _head(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> nn.Linear | None:
    """Build the linear layer of a checkpoint's head; None if it has no head."""
    if not checkpoint.head:
        return None
    outputs, width = checkpoint.head["weight"].shape
    with torch.device("meta"):
        head = nn.Linear(width, outputs)
    weights = {name: tensor.to(device, dtype) for name, tensor in checkpoint.head.items()}
    head.load_state_dict(weights, assign=True)
    return head.eval()


def find_device(device: str | torch.device) -> torch.device:
    """Return the torch device of a name, after allocating on it as a check.

    Raises:
        ConfigError: the device cannot be used on this machine.
    """
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()  # "meta" holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch built without CUDA asserts
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device {str(device)!r} cannot be used here: {reason}") from error
    return place
