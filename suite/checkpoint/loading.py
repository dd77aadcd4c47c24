"""Load a model by name, in steps: name, directory, settings, tensors, model.

`hub` finds the directory; its config.json, read once, decides which reader reads the weights; `model` assembles them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from suite.checkpoint import foreign
from suite.checkpoint.format import ChangedError, Checkpoint, load_checkpoint, save_checkpoint
from suite.checkpoint.hub import local, resolve
from suite.checkpoint.model import Model, assemble, find_device
from suite.checkpoint.settings import parse, read_config
from suite.checkpoint.tensors import Storage
from suite.errors import CheckpointError, ConfigError, SuiteError, UnfinishedWarning

if TYPE_CHECKING:
    from suite.text.tokenizer import Tokenizer


def load(
    name: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    quantize: str | None = None,
    revision: str | None = None,
) -> Model:
    """Load a model by name.

    Args:
        name: an embedded checkpoint ("lm"), a directory (ours, or a model of `transformers` of an architecture in
            `families`), "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", or another Hugging Face id whose files are in
            either format.
        device: device of the weights.
        dtype: type of the weights (None: float32).
        quantize: prepare for inference only, with "float32", "float16" or "int8" weights (None: unchanged, ready to
            train or to save); see `suite.model.quantize.prepare_for_inference`.
        revision: branch, tag or commit of a Hugging Face id.

    Raises:
        CheckpointError: there is no such model, or it cannot be read; the message says what to do.
        ConfigError: the device is not available, or the options contradict each other.

    Warns:
        UnfinishedWarning: the model's training run is not finished.

    Example:
        >>> from suite import load
        >>> model = load("lm")
        >>> ids = torch.tensor([model.tokenizer.encode("The planet earth")])
        >>> model.transformer(ids).shape == (*ids.shape, model.config.vocab_size)
        True
    """
    if quantize is not None and dtype is not None:
        raise ConfigError("quantize decides the type of the weights; give it or dtype, not both")
    place = find_device(device)
    checkpoint = read(resolve(name, revision=revision))
    if checkpoint.unfinished is not None:
        warnings.warn(
            f"{name} is unfinished: {checkpoint.unfinished}; give its training command again to resume it",
            UnfinishedWarning,
            stacklevel=2,
        )
    return assemble(checkpoint, str(name), place, dtype or torch.float32, quantize)


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
        name: the model's name, as for `load`.
        directory: created if missing; must not contain a model.
        to: "transformers" (as the architecture there that can hold the model) or "suite".
        storage: type of the weights on disk; int8 for "suite" only.
        revision: branch, tag or commit of a Hugging Face id.

    Raises:
        CheckpointError: the model cannot be read, or the directory cannot be written.
        ConfigError: the format cannot represent this model, or the directory already contains a model.
    """
    source, directory = resolve(name, revision=revision), Path(directory)
    if directory.resolve() == source.resolve():
        raise ConfigError(f"{directory} is the model's own directory; choose another one to write to")
    if local(str(directory)) is not None:
        raise ConfigError(f"{directory} already contains a model; choose a new directory, or remove it")
    write(load(source), directory, to=to, storage=storage)


def write(
    model: Model,
    directory: Path | str,
    *,
    to: Literal["transformers", "suite"] = "suite",
    storage: Storage = "float32",
) -> None:
    """Write a loaded model; the arguments are those of `convert`, and files of the same names are replaced.

    Raises:
        CheckpointError: the directory cannot be written, or the model was quantized when it was loaded.
        ConfigError: the format cannot represent this model.
    """
    if to == "transformers":
        if storage == "int8":
            raise ConfigError("int8 is a storage type of suite's own format; transformers gets float32 or float16")
        foreign.export(model, directory, storage=storage)
    else:
        card = model.directory / "README.md"
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
            card=card.read_text(encoding="utf-8", errors="replace") if card.exists() else None,
            unfinished=model.unfinished,
        )


def read(directory: Path, *, verify: bool = True) -> Checkpoint:
    """Read a directory in our format or that of `transformers`, as config.json says; additions are merged.

    Args:
        directory: of the model.
        verify: whether to compare the weights with the digest in config.json.

    Raises:
        CheckpointError: it is in neither format, or damaged, or its tokenizer has more ids than the model.
    """
    settings = read_config(directory)
    while True:
        try:
            return _read(directory, settings, verify, ())
        except ChangedError:
            again = read_config(directory)
            if again == settings:
                raise
            settings = again  # a training run wrote its next weights after config.json was read


def _read(directory: Path, settings: Mapping[str, Any], verify: bool, above: tuple[Path, ...]) -> Checkpoint:
    """As `read`; `above` are the directories of the additions whose base this is."""
    if settings.get("format") != "suite":
        checkpoint = foreign.read(directory, settings)
    else:
        base, path = parse(settings, directory / "config.json").base, directory / "config.json"
        if base is None:
            checkpoint = load_checkpoint(directory, settings=settings, verify=verify)
        else:
            above = (*above, directory.resolve())
            try:
                below = resolve(base.name)
            except SuiteError as error:
                raise CheckpointError(f"{path}: base.name: {error}") from error
            if below.resolve() in above:
                raise CheckpointError(f"{path}: base.name {base.name!r} leads back to the checkpoint itself")
            # the fingerprint tells whether these are the base's weights: they need not be hashed twice
            found = _read(below, read_config(below), False, above)
            checkpoint = load_checkpoint(directory, found, settings, verify=verify)
    if checkpoint.tokenizer is not None and checkpoint.tokenizer.vocab_size > checkpoint.config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {checkpoint.tokenizer.vocab_size} ids, but the model has "
            f"{checkpoint.config.vocab_size}; they do not belong together"
        )
    return checkpoint


def vocabulary(name: str) -> tuple[Tokenizer, int]:
    """Return the tokenizer and the context (tokens) of the model that training data are prepared for.

    Raises:
        CheckpointError: there is no such model.
        ConfigError: the model has no tokenizer.
    """
    checkpoint = read(resolve(name), verify=False)
    if checkpoint.tokenizer is None:
        raise ConfigError(f"{name} has no tokenizer, so it cannot read texts")
    return checkpoint.tokenizer, checkpoint.config.context
