"""The checkpoint format: a directory with config.json, model.safetensors, tokenizer.json and README.md.

A checkpoint may also be an addition to a base model: then it holds only the head and low-rank additions, and names the
base and its fingerprint.

The checkpoint of an unfinished run says so in config.json: "unfinished": {"step": 300, "steps": 1000}.
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

from suite.checkpoint.generation import Generation
from suite.checkpoint.tensors import Storage, check_shapes, pack, read_tensors, unpack, write_atomic, write_tensors
from suite.errors import CheckpointError, ConfigError
from suite.model.config import ModelConfig
from suite.model.lora import add_lora, additions, merge

if TYPE_CHECKING:
    from suite.model.transformer import Transformer
    from suite.text.tokenizer import Tokenizer

FORMAT_VERSION = 1
HEAD = "output."  # prefix of the head's tensors
TASK = "task."  # prefix of the task's own tensors


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base model of an addition, and the rank and scale of the addition.

    Attributes:
        name: name of the base model, as for `suite.load`.
        fingerprint: SHA-256 of its weights; see `fingerprint`.
        rank, alpha: rank and scale of the low-rank additions; rank 0 if there is only a head.
    """

    name: str
    fingerprint: str
    rank: int = 0
    alpha: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """The progress of an unfinished training run.

    Attributes:
        step: optimizer steps taken so far.
        steps: optimizer steps of the whole run.
    """

    step: int
    steps: int

    def __str__(self) -> str:
        return f"step {self.step:,} of {self.steps:,}"


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
        outputs = next(iter(head.values())).shape[0]
        expected = {"weight": (outputs, config.d_model), "bias": (outputs,)}
        wanted = {name: torch.empty(shape, device="meta") for name, shape in expected.items()}
        check_shapes(head, wanted, path)


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
    path = directory / "config.json"
    if unfinished is not None:
        settings["unfinished"] = dataclasses.asdict(unfinished)
        if path.exists():  # a resumed run: if killed between the two writes, it must not look finished
            _write_settings(path, settings)
    write_tensors(directory / "model.safetensors", pack(weights, storage))
    if tokenizer is not None:
        tokenizer.save(directory)
    if card is not None:
        write_atomic(directory / "README.md", card.encode())
    _write_settings(path, settings)


def mark_unfinished(directory: Path, unfinished: Unfinished) -> None:
    """Record a run's progress in its checkpoint's config.json; the weights are unchanged.

    Raises:
        CheckpointError: there is no checkpoint, or the disk is full.
    """
    settings = read_config(directory) | {"unfinished": dataclasses.asdict(unfinished)}
    _write_settings(directory / "config.json", settings)


def _write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    write_atomic(path, (json.dumps(settings, indent=2) + "\n").encode())


def read_config(directory: Path) -> dict[str, Any]:
    """Return the content of a directory's config.json.

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
        directory: the checkpoint's directory.
        base: the base model, if the checkpoint is an addition; `suite.load` finds it.
        settings: the content of its config.json, if it has been read already.

    Raises:
        CheckpointError: a file is missing or damaged, the format is from a later version of suite, a tensor is
            missing, extra or misshapen (it is named), or `base` is not the model that it was trained on.
    """
    from suite.text.tokenizer import Tokenizer

    directory = Path(directory)
    settings = read_config(directory) if settings is None else settings
    path = directory / "config.json"
    if settings.get("format") != "suite":
        raise CheckpointError(f'{path} does not say "format": "suite"; suite.load also reads those of transformers')
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
