"""A model on disk: a directory with config.json, model.safetensors, tokenizer.json and README.md.

A checkpoint may also be an addition to a base model: then it holds the head and low-rank additions alone, and names the
base and its fingerprint.

The checkpoint of a run that has not come to its end says so in config.json: "unfinished": {"step": 300, "steps": 1000}.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from suite.checkpoint.tensors import Storage, check_shapes, pack, read_tensors, unpack, write_atomic, write_tensors
from suite.errors import CheckpointError, ConfigError
from suite.model.config import ModelConfig
from suite.model.lora import add_lora, additions, merge

if TYPE_CHECKING:
    from suite.model.transformer import Transformer
    from suite.text.tokenizer import Tokenizer

FORMAT_VERSION = 1
HEAD = "output."  # prefix of the tensors of a head
TASK = "task."  # prefix of tensors that are the task's own


@dataclass(frozen=True, kw_only=True)
class Base:
    """What an addition is added to.

    Attributes:
        name: of the base model, as for `suite.load`.
        fingerprint: of its weights; see `fingerprint`.
        rank, alpha: of the low-rank additions; rank 0 where there is a head alone.
    """

    name: str
    fingerprint: str
    rank: int = 0
    alpha: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """How far a run had come that is not at its end.

    Attributes:
        step: optimizer steps taken.
        steps: of the whole run.
    """

    step: int
    steps: int

    def __str__(self) -> str:
        return f"step {self.step:,} of {self.steps:,}"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What a checkpoint directory holds.

    Attributes:
        config: the model's shape.
        state_dict: float32 weights, whatever type they are stored in.
        head: weight (C, D) and bias (C,) of the task's head, float32; empty where it has none.
        tokenizer: None where tokens are not text (music events).
        task: name of the task the model was trained for.
        extra: the task's own settings, plain JSON.
        tensors: the task's own, beside the model.
        directory: where it was read from.
        unfinished: how far its run had come; None where it is at its end.
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


def check_head(head: Mapping[str, Tensor], config: ModelConfig, path: Path) -> None:
    """Check that a head is whole and fits the model; none at all fits.

    Raises:
        CheckpointError: names the tensor that is missing, extra or misshapen.
    """
    if head:
        outputs = next(iter(head.values())).shape[0]
        expected = {"weight": (outputs, config.d_model), "bias": (outputs,)}
        wanted = {name: torch.empty(shape, device="meta") for name, shape in expected.items()}
        check_shapes(head, wanted, path)


class _Unfilled(TorchFunctionMode):
    """Leaves out normal initial values: on the meta device they are nothing, and import the compiler (3 seconds)."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        return kwargs["tensor"] if function is nn.init.normal_ else function(*args, **kwargs)


def skeleton(config: ModelConfig) -> Transformer:
    """A transformer on the meta device: every shape, no memory, waiting for weights."""
    from suite.model.transformer import Transformer

    with torch.device("meta"), _Unfilled():
        return Transformer(config)


def expected_tensors(config: ModelConfig) -> dict[str, Tensor]:
    """Names and shapes of a model's weights, on the meta device; tied weights stand once."""
    return untied(config, skeleton(config).state_dict())


def additions_of(config: ModelConfig, base: Base) -> dict[str, Tensor]:
    """Names and shapes of the low-rank additions to a model of this shape, on the meta device."""
    if not base.rank:
        return {}
    transformer = skeleton(config)
    with torch.device("meta"):
        add_lora(transformer, base.rank, base.alpha)
    return additions(transformer)


def fingerprint(config: ModelConfig, state_dict: Mapping[str, Tensor]) -> str:
    """SHA-256 of a model's weights as float32, whatever files and types they are stored in."""
    digest = hashlib.sha256()
    for name, tensor in sorted(untied(config, state_dict).items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().contiguous().numpy().tobytes())
    return digest.hexdigest()


def untied(config: ModelConfig, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict without the second name of tied embeddings."""
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
        directory: made if need be; files of the same names are replaced.
        config: the model's shape.
        state_dict: its weights; with `base`, the additions alone.
        tokenizer: None where tokens are not text, or where it is the base's.
        task: name of the task.
        head: weight and bias of the task's head.
        base: of an addition (None: the checkpoint stands alone).
        storage: type of the weights on disk. int8 keeps a float32 scale for each output channel of each matrix.
        extra: the task's own settings, plain JSON.
        tensors: the task's own, beside the model; none of int8, which is for weights with scales.
        card: text of README.md (None: left as it is).
        unfinished: how far the run is, where it is not at its end.

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
    path = directory / "config.json"
    if unfinished is not None:
        settings["unfinished"] = dataclasses.asdict(unfinished)
        if path.exists():  # a run that goes on: killed between the two files, it must not pass for finished
            _write_settings(path, settings)
    write_tensors(directory / "model.safetensors", pack(weights, storage))
    if tokenizer is not None:
        tokenizer.save(directory)
    if card is not None:
        write_atomic(directory / "README.md", card.encode())
    _write_settings(path, settings)


def mark_unfinished(directory: Path, unfinished: Unfinished) -> None:
    """Say in a checkpoint directory how far its run is now; the weights stay.

    Raises:
        CheckpointError: there is no checkpoint, or the disk is full.
    """
    settings = read_config(directory) | {"unfinished": dataclasses.asdict(unfinished)}
    _write_settings(directory / "config.json", settings)


def _write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    write_atomic(path, (json.dumps(settings, indent=2) + "\n").encode())


def read_config(directory: Path) -> dict[str, Any]:
    """The content of a directory's config.json.

    Raises:
        CheckpointError: it is missing or is not a JSON object.
    """
    path = directory / "config.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{directory} is not a checkpoint: it has no config.json") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(settings, dict):
        raise CheckpointError(f"{path} does not contain a JSON object")
    return settings


def load_checkpoint(
    directory: Path | str, base: Checkpoint | None = None, settings: Mapping[str, Any] | None = None
) -> Checkpoint:
    """Read a checkpoint directory.

    Args:
        directory: of the checkpoint.
        base: what it is added to, where it is an addition; `suite.load` finds it.
        settings: the content of its config.json, where it has been read already.

    Raises:
        CheckpointError: a file is missing or damaged, the format is from a later version of suite, or a tensor is
            missing, extra or misshapen (it is named), or the base is not the one that it was trained on.
    """
    from suite.text.tokenizer import Tokenizer

    directory = Path(directory)
    settings = read_config(directory) if settings is None else settings
    path = directory / "config.json"
    if settings.get("format") != "suite":
        raise CheckpointError(f'{path} does not say "format": "suite"; suite.load also reads GPT-2 directories')
    version = settings.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version}, but this suite reads only up to {FORMAT_VERSION}; update suite"
        )
    try:
        config = ModelConfig.from_dict(settings["model"])
        task = str(settings["task"])
        added = Base(**settings["base"]) if "base" in settings else None
        unfinished = Unfinished(**settings["unfinished"]) if "unfinished" in settings else None
    except KeyError as error:
        raise CheckpointError(f"{path}: {error} is missing") from error
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    weights = directory / "model.safetensors"
    state_dict = unpack(read_tensors(weights), weights)
    head, tensors = (
        {name.removeprefix(prefix): state_dict.pop(name) for name in list(state_dict) if name.startswith(prefix)}
        for prefix in (HEAD, TASK)
    )
    check_head(head, config, weights)
    check_shapes(state_dict, additions_of(config, added) if added else expected_tensors(config), weights)
    tokenizer = Tokenizer.load(directory) if (directory / "tokenizer.json").exists() else None
    if added is not None:
        if base is None:
            raise CheckpointError(f"{directory} holds only changes to {added.name!r}; read it with suite.load")
        if fingerprint(base.config, base.state_dict) != added.fingerprint:
            raise CheckpointError(
                f"{directory} was trained on a different version of its base model {added.name!r} than "
                f"{base.directory}; train it again, or use the old base"
            )
        state_dict = merge(base.state_dict, state_dict, added.alpha / max(1, added.rank))
        tokenizer = tokenizer or base.tokenizer
    return Checkpoint(
        config=config,
        state_dict=state_dict,
        head=head,
        tokenizer=tokenizer,
        task=task,
        extra=dict(settings.get("extra") or {}),
        tensors=tensors,
        directory=directory,
        unfinished=unfinished,
    )
