"""From a name to a model: an embedded checkpoint, a directory, or a Hugging Face id."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from suite import gpt2
from suite.checkpoint import (
    Checkpoint,
    Storage,
    Unfinished,
    load_checkpoint,
    read_config,
    save_checkpoint,
    skeleton,
)
from suite.errors import CheckpointError, ConfigError, UnfinishedWarning
from suite.model.config import ModelConfig
from suite.model.transformer import Transformer
from suite.task import embedded, registered, suggest

if TYPE_CHECKING:
    from suite.text.tokenizer import Tokenizer

PUBLISHED = {name: f"openai-community/{name}" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")}
# what is fetched of a repository; the same weights for other libraries stay where they are
NEEDED = (
    "config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "README.md",
)
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


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


def load(
    name: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    quantize: str | None = None,
    revision: str | None = None,
) -> Model:
    """Read a model.

    Args:
        name: of an embedded checkpoint ("lm"), a directory (ours, or GPT-2 as `transformers` saves it), "gpt2",
            "gpt2-medium", "gpt2-large", "gpt2-xl", or another Hugging Face id of one of the two kinds.
        device: where the weights go.
        dtype: of the weights (None: float32).
        quantize: prepares for inference alone, with "float32", "float16" or "int8" weights (None: as they are, ready to
            train or to save); see `suite.model.quantize.prepare_for_inference`.
        revision: branch, tag or commit of a Hugging Face id.

    Raises:
        CheckpointError: there is no such model, or it cannot be read; the message says what to do.
        ConfigError: the device is not there, or the options contradict each other.

    Warns:
        UnfinishedWarning: the model's training run has not come to its end.

    Example:
        >>> from suite import load
        >>> model = load("lm")
        >>> ids = torch.tensor([model.tokenizer.encode("The planet earth")])
        >>> model.transformer(ids).shape == (*ids.shape, model.config.vocab_size)
        True
    """
    if quantize is not None and dtype is not None:
        raise ConfigError("quantize decides the type of the weights; give it or dtype, not both")
    place = _device(device)
    checkpoint = read(resolve(name, revision=revision))
    if checkpoint.unfinished is not None:
        warnings.warn(
            f"{name} is unfinished: {checkpoint.unfinished}; give its training command again to resume it",
            UnfinishedWarning,
            stacklevel=2,
        )
    transformer = _assemble(checkpoint, place, dtype or torch.float32)
    if quantize is not None:
        from suite.model.quantize import prepare_for_inference

        transformer = prepare_for_inference(transformer, quantize)
    return Model(
        transformer=transformer,
        head=_head(checkpoint, place, dtype or torch.float32),
        tokenizer=checkpoint.tokenizer,
        task=checkpoint.task,
        name=str(name),
        directory=checkpoint.directory,
        extra=checkpoint.extra,
        tensors=checkpoint.tensors,
        unfinished=checkpoint.unfinished,
    )


def convert(
    name: str | Path,
    directory: Path | str,
    *,
    to: Literal["transformers", "suite"] = "transformers",
    storage: Storage = "float32",
    revision: str | None = None,
) -> None:
    """Write a model in another format.

    Args:
        name: of the model, as for `load`.
        directory: made if need be; there must be no model in it.
        to: "transformers" (a GPT-2 directory) or "suite".
        storage: type of the weights on disk; int8 for "suite" alone.
        revision: branch, tag or commit of a Hugging Face id.

    Raises:
        CheckpointError: the model cannot be read, or the directory not written.
        ConfigError: the format cannot hold this model, or the directory holds one already.
    """
    source, directory = resolve(name, revision=revision), Path(directory)
    if directory.resolve() == source.resolve():
        raise ConfigError(f"{directory} is the model's own directory; choose another one to write to")
    if _local(str(directory)) is not None:
        raise ConfigError(f"{directory} already contains a model; choose a new directory, or remove it")
    model = load(source)
    if to == "transformers":
        if storage == "int8":
            raise ConfigError("int8 is a storage type of suite's own format; transformers gets float32 or float16")
        gpt2.export(model, directory, storage=storage)
    else:
        card = source / "README.md"
        save_checkpoint(
            directory,
            model.config,
            model.transformer.state_dict(),
            model.tokenizer,
            task=model.task,
            head=None if model.head is None else model.head.state_dict(),
            storage=storage,
            extra=dict(model.extra),
            tensors=model.tensors,
            card=card.read_text(encoding="utf-8") if card.exists() else None,
            unfinished=model.unfinished,
        )


def read(directory: Path) -> Checkpoint:
    """Read a directory of either kind, told apart by its config.json; what is added to a base, with its base.

    Raises:
        CheckpointError: it is of neither kind, or damaged, or its tokenizer has ids that the model has not.
    """
    settings = read_config(directory)
    if settings.get("format") != "suite":
        checkpoint = gpt2.read(directory)
    elif "base" in settings:
        checkpoint = load_checkpoint(directory, read(resolve(str(settings["base"]["name"]))))
    else:
        checkpoint = load_checkpoint(directory)
    if checkpoint.tokenizer is not None and checkpoint.tokenizer.vocab_size > checkpoint.config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {checkpoint.tokenizer.vocab_size} ids, but the model has "
            f"{checkpoint.config.vocab_size}; they do not belong together"
        )
    return checkpoint


def vocabulary(name: str) -> tuple[Tokenizer, int]:
    """The tokenizer and the context of the model that training data are prepared for.

    Raises:
        CheckpointError: there is no such model.
        ConfigError: it has no tokenizer.
    """
    checkpoint = read(resolve(name))
    if checkpoint.tokenizer is None:
        raise ConfigError(f"{name} has no tokenizer, so it cannot read texts")
    return checkpoint.tokenizer, checkpoint.config.context


def _assemble(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Transformer:
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


def _device(device: str | torch.device) -> torch.device:
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


def resolve(name: str | Path, *, revision: str | None = None) -> Path:
    """The directory a name stands for.

    Args:
        name: in this order, a directory with a checkpoint (or of a run, with a checkpoint in it), an embedded
            checkpoint, or a Hugging Face id, which is fetched into that library's cache.
        revision: branch, tag or commit of a Hugging Face id.

    Raises:
        CheckpointError: there is no such model, or it cannot be fetched; the message says what to do.
        ConfigError: a revision of something that has none.
    """
    name = str(name)
    directory = _local(name) or embedded().get(name)
    if directory is not None:
        if revision is not None:
            raise ConfigError(f"a revision belongs to a Hugging Face id, but {name!r} is the directory {directory}")
        return directory
    if name in PUBLISHED:
        return _fetch(PUBLISHED[name], revision)
    path = Path(name)
    if path.is_file():
        raise CheckpointError(f"{name} is a file; give the directory it is in")
    if (path / "recipe.json").is_file():
        raise CheckpointError(f"the run in {name} has no checkpoint yet; give its training command again to resume it")
    if path.exists():
        raise CheckpointError(f"{name} is not a checkpoint: it has no config.json")
    if "/" not in name:
        if name in registered():
            raise CheckpointError(f"task {name!r} has no embedded checkpoint; train one with `suite train {name}`")
        raise CheckpointError(f"no model {name!r}; {suggest(name, [*embedded(), *PUBLISHED])}")
    if _HUB_ID.fullmatch(name) and not path.parent.is_dir():
        return _fetch(name, revision)
    raise CheckpointError(f"{name} does not exist; give a checkpoint's directory, or a Hugging Face id as owner/name")


def _local(name: str) -> Path | None:
    """A checkpoint's directory of that name, or the checkpoint in a run's directory."""
    path = Path(name)
    return next((folder for folder in (path, path / "checkpoint") if (folder / "config.json").is_file()), None)


def _fetch(identifier: str, revision: str | None) -> Path:
    """Fetch a repository of the Hugging Face hub, or find it in the cache.

    Raises:
        CheckpointError: one line that says what to do.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(identifier, revision=revision, allow_patterns=list(NEEDED)))
    except Exception as error:  # the library's own errors, those of two HTTP libraries, a full disk
        raise CheckpointError(_why_not_fetched(identifier, revision, error)) from error


def _why_not_fetched(identifier: str, revision: str | None, error: Exception) -> str:
    """One line on what went wrong with the Hugging Face hub, and what to do."""
    from huggingface_hub import constants, errors

    pinned = identifier if revision is None else f"{identifier} at {revision}"
    if isinstance(error, errors.GatedRepoError):
        return f"{identifier} is gated: accept its terms at https://huggingface.co/{identifier}, then `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the Hugging Face hub has no {identifier}; if it is private, log in with `hf auth login`"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{identifier} has no revision {revision!r}; see its branches and tags on its page"
    if isinstance(error, errors.LocalEntryNotFoundError) and constants.HF_HUB_OFFLINE:
        return f"{pinned} is not in the cache, and HF_HUB_OFFLINE forbids downloading it; unset it, or give a directory"
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"{pinned} is not in the cache, and the Hugging Face hub cannot be reached; connect, or give a directory"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{pinned} could not be downloaded from the Hugging Face hub: {reason}"
