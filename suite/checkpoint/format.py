"""The checkpoint format: a directory with config.json, model.safetensors, tokenizer.json and README.md.

config.json has the SHA-256 of the weights' and the tokenizer's files, and last its own (`suite.sealed`); what does not
match is refused. `settings.py` lists its fields.

A checkpoint may also be an addition to a base model: then it holds only the head and low-rank additions, and names the
base and its fingerprint.

The checkpoint of an unfinished run says so in config.json: "unfinished": {"step": 300, "steps": 1000}.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from suite.checkpoint.generation import Generation
from suite.checkpoint.settings import (
    FORMAT_VERSION,
    Base,
    Settings,
    Unfinished,
    forget_weights,
    parse,
    read_config,
    write_settings,
)
from suite.checkpoint.tensors import (
    HEAD,
    TASK,
    Storage,
    check_layers,
    check_numbers,
    check_shapes,
    check_storage,
    pack,
    read_tensors,
    unpack,
    write_atomic,
    write_tensors,
)
from suite.errors import CheckpointError
from suite.model.config import ModelConfig
from suite.model.lora import add_lora, additions, merge
from suite.sealed import file_digest

if TYPE_CHECKING:
    from suite.model.transformer import Transformer
    from suite.text.tokenizer import Tokenizer


class ChangedError(CheckpointError):
    """A file of a checkpoint that is not the one whose digest config.json has."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint directory.

    Attributes:
        config: the model's shape.
        state_dict: float32 weights, whatever type they are stored in; from `transformers` in the type they have there.
        head: weight (C, D) and bias (C,) of the task's head, float32; empty if it has no head.
        tokenizer: None if tokens are not text (music events).
        task: name of the task the model was trained for.
        extra: the task's own settings, plain JSON.
        tensors: the task's own tensors, besides the model's.
        directory: where it was read from.
        unfinished: progress of its training run; None if the run is finished.
        generation: the model's own defaults for writing.
    """

    config: ModelConfig
    state_dict: dict[str, Tensor]
    head: dict[str, Tensor] = field(default_factory=dict)
    tokenizer: Tokenizer | None
    task: str
    extra: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    directory: Path
    unfinished: Unfinished | None = None
    generation: Generation = field(default_factory=Generation)


def check_head(head: Mapping[str, Tensor], config: ModelConfig, path: Path) -> None:
    """Check that a head is complete and fits the model; an empty head is accepted.

    Raises:
        CheckpointError: a tensor is missing, extra or misshapen; the message names it.
    """
    if head:
        outputs = max((tensor.shape[0] for tensor in head.values() if tensor.dim()), default=0)
        found = {HEAD + name: tensor for name, tensor in head.items()}
        expected = {"weight": (outputs, config.d_model), "bias": (outputs,)}
        wanted = {HEAD + name: torch.empty(shape, device="meta") for name, shape in expected.items()}
        check_shapes(found, wanted, path)


class _Unfilled(TorchFunctionMode):
    """Skips `nn.init.normal_`: on the meta device it fills nothing, but imports the compiler (3 seconds)."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        return kwargs["tensor"] if function is nn.init.normal_ else function(*args, **kwargs)


def skeleton(config: ModelConfig) -> Transformer:
    """Build a transformer on the meta device: it has all shapes but no memory, until weights are assigned."""
    from suite.model.transformer import Transformer

    with torch.device("meta"), _Unfilled():
        return Transformer(config)


def expected_tensors(config: ModelConfig) -> dict[str, Tensor]:
    """Names and shapes of a model's weights, as tensors on the meta device; tied weights are listed once."""
    return untied(config, skeleton(config).state_dict())


def additions_of(config: ModelConfig, base: Base) -> dict[str, Tensor]:
    """Names and shapes of the low-rank additions to a model of this shape, as tensors on the meta device."""
    if not base.rank:
        return {}
    transformer = skeleton(config)
    with torch.device("meta"):
        add_lora(transformer, base.rank, base.alpha)
    return additions(transformer)


def fingerprint(config: ModelConfig, state_dict: Mapping[str, Tensor]) -> str:
    """SHA-256 (hexadecimal) of a model's weights as float32, whatever files and types they are stored in."""
    digest = hashlib.sha256()
    for name, tensor in sorted(untied(config, state_dict).items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().contiguous().numpy().tobytes())
    return digest.hexdigest()


def untied(config: ModelConfig, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict without head.weight if it is tied to the embeddings."""
    return {name: tensor for name, tensor in state_dict.items() if name != "head.weight" or not config.tie_embeddings}


def save_checkpoint(
    directory: Path | str,
    config: ModelConfig,
    state_dict: Mapping[str, Tensor],
    tokenizer: Tokenizer | None,
    *,
    task: str = "lm",
    head: Mapping[str, Tensor] | None = None,
    base: Base | None = None,
    storage: Storage = "float32",
    extra: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Tensor] | None = None,
    card: str | None = None,
    unfinished: Unfinished | None = None,
) -> None:
    """Write a checkpoint directory.

    Args:
        directory: created if missing; files of the same names are replaced.
        config: the model's shape.
        state_dict: the model's weights; with `base`, only the additions.
        tokenizer: None if tokens are not text, or if it is the base's.
        task: name of the task.
        head: weight and bias of the task's head.
        base: base model of an addition (None: the checkpoint is a complete model).
        storage: type of the weights on disk. int8 keeps a float32 scale for each output channel of each matrix.
        extra: the task's own settings, plain JSON.
        tensors: the task's own tensors, besides the model's; not of type int8, which is for weights with scales.
        card: text of README.md (None: left unchanged).
        unfinished: progress of the run, if it is not finished.

    Raises:
        CheckpointError: a tensor does not fit the configuration, or the disk is full.
    """
    directory = Path(directory)
    weights = untied(config, state_dict)
    check_shapes(weights, additions_of(config, base) if base else expected_tensors(config), directory)
    weights |= {HEAD + name: tensor for name, tensor in (head or {}).items()}
    weights |= {TASK + name: tensor for name, tensor in (tensors or {}).items()}
    settings: dict[str, Any] = {
        "format": "suite",
        "version": FORMAT_VERSION,
        "task": task,
        "storage": storage,
        "model": config.to_dict(),
        "extra": dict(extra or {}),
    }
    if base is not None:
        settings["base"] = dataclasses.asdict(base)
    path, weights_file, tokenizer_file = _files(directory)
    if unfinished is None:
        forget_weights(path)
    else:
        settings["unfinished"] = dataclasses.asdict(unfinished)
        if path.exists():  # a resumed run: if killed between the two writes, it must not look finished
            write_settings(path, settings)
    write_tensors(weights_file, pack(weights, storage))
    if tokenizer is not None:
        tokenizer.save(directory)
    if card is not None:
        write_atomic(directory / "README.md", card.encode())
    settings["weights_sha256"] = file_digest(weights_file)
    if tokenizer_file.exists():
        settings["tokenizer_sha256"] = file_digest(tokenizer_file)
    write_settings(path, settings)


def _files(directory: Path) -> tuple[Path, Path, Path]:
    return directory / "config.json", directory / "model.safetensors", directory / "tokenizer.json"


def mark_unfinished(directory: Path, unfinished: Unfinished) -> None:
    """Record a run's progress in its checkpoint's config.json; the weights are unchanged.

    Raises:
        CheckpointError: there is no checkpoint, or the disk is full.
    """
    settings = read_config(directory) | {"unfinished": dataclasses.asdict(unfinished)}
    write_settings(directory / "config.json", settings)


def load_checkpoint(
    directory: Path | str,
    base: Checkpoint | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    verify: bool = True,
) -> Checkpoint:
    """Read a checkpoint directory.

    Args:
        directory: the checkpoint's directory.
        base: the base model, if the checkpoint is an addition; `suite.load` finds it.
        settings: the content of its config.json, if it has been read already.
        verify: whether to compare the weights with their digest.

    Raises:
        CheckpointError: a file is missing or damaged or not the one that was written, the format is from a later
            version of suite, a tensor is missing, extra, misshapen, of another type or not all numbers (it is named),
            or `base` is not the model that it was trained on.
    """
    from suite.text.tokenizer import Tokenizer

    directory = Path(directory)
    path, weights_file, tokenizer_file = _files(directory)
    told = parse(read_config(directory) if settings is None else settings, path)
    state_dict, head, tensors = _read_weights(told, weights_file, told.weights_sha256 if verify else "")
    tokenizer = Tokenizer.load(directory) if tokenizer_file.exists() else None
    if told.tokenizer_sha256:
        _check_digest(tokenizer_file, told.tokenizer_sha256, "tokenizer_sha256")
    if told.base is not None:
        state_dict = _merged(directory, told.base, base, told.model, state_dict)
        tokenizer = tokenizer or (base.tokenizer if base is not None else None)
    return Checkpoint(
        config=told.model,
        state_dict=state_dict,
        head=head,
        tokenizer=tokenizer,
        task=told.task,
        extra=dict(told.extra or {}),
        tensors=tensors,
        directory=directory,
        unfinished=told.unfinished,
    )


def _read_weights(
    told: Settings, path: Path, digest: str
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Return the tensors of the model, of its head and of the task, as float32; whole numbers as they are.

    What is wrong with a tensor is said first: it says more than that the file has another digest.
    """
    packed = read_tensors(path)
    check_layers(packed, told.model.n_layer, path)
    check_storage(packed, told.storage, path)
    state_dict = unpack(packed, path)
    head, tensors = (
        {name.removeprefix(prefix): state_dict.pop(name) for name in list(state_dict) if name.startswith(prefix)}
        for prefix in (HEAD, TASK)
    )
    check_head(head, told.model, path)
    expected = additions_of(told.model, told.base) if told.base else expected_tensors(told.model)
    check_shapes(state_dict, expected, path)
    if digest:
        _check_digest(path, digest, "weights_sha256")
    check_numbers(packed, path)
    return state_dict, head, tensors


def _check_digest(path: Path, digest: str, name: str) -> None:
    """Raise a ChangedError if a file has another digest than config.json says under `name`."""
    try:
        found = file_digest(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if found != digest:
        raise ChangedError(
            f'{path} is not the file that was written: its SHA-256 is not the "{name}" of config.json; copy it again, '
            f'or remove the lines "{name}" and "sha256" from config.json to accept it'
        )


def _merged(
    directory: Path, added: Base, base: Checkpoint | None, config: ModelConfig, state_dict: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return a base model's weights with the low-rank additions of the checkpoint in `directory`."""
    if base is None:
        raise CheckpointError(f"{directory} holds only changes to {added.name!r}; read it with suite.load")
    if fingerprint(base.config, base.state_dict) != added.fingerprint:
        raise CheckpointError(
            f"{directory} was trained on a different version of its base model {added.name!r} than "
            f"{base.directory}; train it again, or use the old base"
        )
    check_layers(base.state_dict, config.n_layer, base.directory)
    check_shapes(base.state_dict, expected_tensors(config), base.directory)
    return merge(base.state_dict, state_dict, added.alpha / max(1, added.rank))
