"""Read and write model directories of `transformers`, without importing that library.

`families.py` and `gpt2.py` have the names of each architecture; here are the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from suite.checkpoint import gpt2
from suite.checkpoint.families import FAMILIES, KNOWN, family_of
from suite.checkpoint.family import Family, from_family, to_family
from suite.checkpoint.format import Checkpoint, expected_tensors, untied
from suite.checkpoint.generation import read_generation
from suite.checkpoint.settings import read_config
from suite.checkpoint.shards import read_weights
from suite.checkpoint.tensors import check_shapes, write_atomic, write_tensors
from suite.errors import CheckpointError, ConfigError
from suite.model.config import ModelConfig

if TYPE_CHECKING:
    from suite.checkpoint.model import Model

# what old versions saved with the weights: masks, and frequencies that follow from config.json
_BUFFERS = (".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")


def read(directory: Path, settings: Mapping[str, Any] | None = None) -> Checkpoint:
    """Read a model directory of `transformers`.

    Args:
        directory: has config.json, weights in safetensors (one file or shards), and optionally a tokenizer.
        settings: the content of config.json, if it has been read already.

    Returns:
        a checkpoint of task "lm". Weights have the type that they are stored in; those that are not put together from
        several tensors are still memory-mapped from the file.

    Raises:
        CheckpointError: suite does not know the architecture or one of its settings; or the weights are pickled,
            damaged, or missing, extra or misshapen (the tensor is named).
    """
    settings = read_config(directory) if settings is None else settings
    family = find_family(directory, settings)
    checkpoint = gpt2.read(directory, settings) if family is None else _read_family(family, directory, settings)
    generation = read_generation(directory, settings, checkpoint.config.vocab_size)
    if (tokenizer := checkpoint.tokenizer) is not None and tokenizer.eos is None and generation.stop:
        tokenizer.specials["<eos>"] = generation.stop[0]
    return replace(checkpoint, generation=generation)


def _read_family(family: Family, directory: Path, settings: Mapping[str, Any]) -> Checkpoint:
    from suite.text.tokenizer import Tokenizer

    config = read_model_config(directory, settings)
    tensors, source = read_weights(directory)
    tensors = _plain_names(family, tensors, config, source)
    expected = expected_tensors(config)
    check_shapes(tensors, to_family(family, config, expected), source)
    if fixed := [name for name, tensor in tensors.items() if not tensor.is_floating_point()]:
        raise CheckpointError(f"{source}: tensor {fixed[0]!r} holds {tensors[fixed[0]].dtype}, not floating point")
    return Checkpoint(
        config=config,
        state_dict=from_family(family, config, tensors, expected),
        tokenizer=Tokenizer.load(directory) if Tokenizer.found(directory) else None,
        task="lm",
        directory=directory,
    )


def find_family(directory: Path, settings: Mapping[str, Any]) -> Family | None:
    """The architecture that config.json names; None for GPT-2.

    Raises:
        CheckpointError: suite does not know it; the message lists those that it knows.
    """
    kind = settings.get("model_type")
    if kind == "gpt2":
        return None
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(
            f"{directory / 'config.json'} is of model type {kind!r}; suite loads its own format and {KNOWN}"
        )
    return FAMILIES[kind]


def read_model_config(directory: Path, settings: Mapping[str, Any]) -> ModelConfig:
    """The shape of the model in a directory of `transformers`, from the content of its config.json.

    Raises:
        CheckpointError: the architecture or a setting is not supported.
    """
    family = find_family(directory, settings)
    if family is None:
        return gpt2.read_model_config(directory, settings)
    try:
        return family.model_config(settings)
    except ConfigError as error:
        raise CheckpointError(f"{directory / 'config.json'}: {error}") from error


def _plain_names(family: Family, tensors: Mapping[str, Tensor], config: ModelConfig, source: Path) -> dict[str, Tensor]:
    """Use one name where a family has several, drop buffers, and keep tied weights once, as the embedding table."""
    plain = {}
    for name, tensor in tensors.items():
        if not name.endswith(_BUFFERS):
            start = next((start for start in family.renamed if name.startswith(start)), "")
            plain[family.renamed.get(start, "") + name.removeprefix(start)] = tensor
    head, table = f"{family.outside['head']}.weight", f"{family.outside['tokens']}.weight"
    if config.tie_embeddings and head in plain:
        copy = plain.pop(head)
        if not torch.equal(plain.setdefault(table, copy), copy):
            raise CheckpointError(
                f"{source}: {head} differs from {table}, though the configuration ties them; "
                'say "tie_word_embeddings": false in config.json if that is intended'
            )
    return plain


def export(
    model: Model, directory: Path | str, *, storage: Literal["float32", "float16", "bfloat16"] = "float32"
) -> None:
    """Write a model as a directory that `AutoModelForCausalLM` and `AutoTokenizer` load.

    It is written as GPT-2 if that architecture can hold it, else as the first of `families.FAMILIES` that can.

    Args:
        model: not prepared for inference, and without a head.
        directory: created if missing; files of the same names are replaced.
        storage: type of the weights on disk.

    Raises:
        ConfigError: no architecture can hold the model; the message names the field that stands in the way.
        CheckpointError: the directory cannot be written.
    """
    directory = Path(directory)
    if model.head is not None:
        raise ConfigError(
            f"a language model of transformers has no place for the head of a model of task {model.task!r}"
        )
    try:
        gpt2.check_expressible(model.config)
    except ConfigError:
        family, settings = family_of(model.config)
    else:
        gpt2.export(model, directory, storage=storage)
        return
    written = family.model_config(settings)
    weights = untied(model.config, model.transformer.state_dict())
    check_shapes(weights, expected_tensors(model.config), model.directory)
    # biases that only the family has
    weights = {
        name: weights[name] if name in weights else torch.zeros(tensor.shape)
        for name, tensor in expected_tensors(written).items()
    }
    dtype = getattr(torch, storage)
    tensors = {name: tensor.to(dtype) for name, tensor in to_family(family, written, weights).items()}
    write_tensors(directory / "model.safetensors", tensors, {"format": "pt"})
    if model.tokenizer is not None:
        model.tokenizer.save(directory)
    if (card := model.directory / "README.md").exists():  # it has the licence of the training data
        write_atomic(directory / "README.md", card.read_bytes())
    ends: dict[str, Any] = gpt2.end_tokens(model.tokenizer)
    if len(model.generation.stop) > 1:
        ends["eos_token_id"] = list(model.generation.stop)
    own = model.directory / "generation_config.json"  # what the model came with says more than its tokenizer
    defaults = own.read_bytes() if model.generation.settings and own.exists() else gpt2.to_json(ends)
    write_atomic(directory / "generation_config.json", defaults)
    write_atomic(directory / "config.json", gpt2.to_json(settings | ends | {"dtype": storage}))
