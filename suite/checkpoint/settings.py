"""config.json of a checkpoint: read, checked field by field, and written with the digests of the files beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.checkpoint.tensors import Storage, write_atomic
from suite.errors import CheckpointError, ConfigError
from suite.model.config import ModelConfig
from suite.sealed import read_sealed, sealed
from suite.tables import brief, from_table

FORMAT_VERSION = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")


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

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("base.name is empty")
        _check_digest("base.fingerprint", self.fingerprint)
        if not 0 <= self.rank <= 2**16:
            raise ConfigError(f"base.rank is {brief(self.rank)}, but must be from 0 to 65,536")
        if not 0 < self.alpha <= 1e6:
            raise ConfigError(f"base.alpha is {self.alpha}, but must be above 0 and at most 1,000,000")


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """The progress of an unfinished training run.

    Attributes:
        step: optimizer steps taken so far.
        steps: optimizer steps of the whole run.
    """

    step: int
    steps: int

    def __post_init__(self) -> None:
        if min(self.step, self.steps) < 0:
            raise ConfigError(f"unfinished has a negative number of steps: {brief((self.step, self.steps))}")

    def __str__(self) -> str:
        return f"step {self.step:,} of {self.steps:,}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The fields of config.json.

    Attributes:
        format, version: "suite", and the version of the format.
        model: the model's shape.
        task: name of the task the model was trained for.
        storage: type of the weights on disk.
        extra: the task's own settings, plain JSON.
        base: None if the checkpoint is a complete model.
        unfinished: progress of the training run; None if it is finished.
        weights_sha256: SHA-256 of model.safetensors; "" if any is accepted, as in checkpoints of earlier versions.
        tokenizer_sha256: SHA-256 of tokenizer.json, likewise.
        sha256: of all other fields; see `suite.sealed`.
    """

    format: str
    version: int
    model: ModelConfig
    task: str
    storage: Storage = "float32"
    extra: dict[str, Any] | None = field(default_factory=dict)
    base: Base | None = None
    unfinished: Unfinished | None = None
    weights_sha256: str = ""
    tokenizer_sha256: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        for name in ("weights_sha256", "tokenizer_sha256"):
            if digest := getattr(self, name):
                _check_digest(name, digest)


def parse(settings: Mapping[str, Any], path: Path) -> Settings:
    """Check the content of a config.json in our format.

    Raises:
        CheckpointError: it is of another format or of a later version, or a field is missing, unknown, of the wrong
            type or out of its range; the message names the file and the field.
    """
    if settings.get("format") != "suite":
        raise CheckpointError(f'{path} does not say "format": "suite"; suite.load also reads those of transformers')
    version = settings.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {brief(version)}, but this suite reads only up to {FORMAT_VERSION}; "
            "update suite"
        )
    try:
        return from_table(Settings, settings, str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from error


def read_config(directory: Path) -> dict[str, Any]:
    """Return the content of a directory's config.json.

    Raises:
        CheckpointError: it is missing, is not a JSON object, or was changed after it was written.
    """
    path = directory / "config.json"
    if not path.is_file():
        raise CheckpointError(f"{directory} is not a checkpoint: it has no config.json")
    return read_sealed(path)


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write config.json with its digest."""
    write_atomic(path, sealed(settings, path))


def forget_weights(path: Path) -> None:
    """Remove the digest of the weights from config.json, before new weights replace them.

    A process killed between the two files so leaves a checkpoint that can be read.
    """
    try:
        settings = read_sealed(path)
    except CheckpointError:  # there is none, or nothing that could be read afterwards
        return
    if settings.pop("weights_sha256", None) is not None:
        write_settings(path, settings)


def _check_digest(name: str, digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise ConfigError(f"{name} is {brief(digest)}, and not 64 hexadecimal digits")
