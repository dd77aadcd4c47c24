"""Read and write GPT-2 directories in the format of `transformers`, without importing that library.

Their blocks and ours do the same arithmetic; only the names differ, and their linear layers (`Conv1D`) store weights as
[in, out] where ours are [out, in].
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from suite.checkpoint.format import Checkpoint, expected_tensors, untied
from suite.checkpoint.settings import read_config
from suite.checkpoint.shards import read_weights
from suite.checkpoint.tensors import (
    check_layers,
    check_numbers,
    check_shapes,
    write_atomic,
    write_tensors,
)
from suite.errors import CheckpointError, ConfigError
from suite.model.config import Activation, ModelConfig
from suite.tables import brief, field_names, from_table

if TYPE_CHECKING:
    from suite.checkpoint.model import Model
    from suite.text.tokenizer import Tokenizer

# our module -> theirs; weights of linear layers are stored transposed
_OUTSIDE = {"tokens": "wte", "positions": "wpe", "norm": "ln_f", "head": "lm_head"}
_NORMS = {"attention_norm": "ln_1", "mlp_norm": "ln_2"}
_LINEAR = {
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "mlp.up": "mlp.c_fc",
    "mlp.down": "mlp.c_proj",
}
_MASKS = (".attn.bias", ".attn.masked_bias")  # the causal mask, which old versions saved with the weights

_ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu2": "relu2",
}


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What is read of GPT2Config, with the defaults of `transformers` for settings that config.json lacks."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    resid_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    tie_word_embeddings: bool = True
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    reorder_and_upcast_attn: bool = False
    add_cross_attention: bool = False


# settings that change the arithmetic, of which we support only the default
_FIXED = ("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention")


def read(directory: Path, settings: Mapping[str, Any] | None = None) -> Checkpoint:
    """Read a GPT-2 directory written by `transformers`.

    Args:
        directory: has config.json, weights in safetensors (one file or shards), and optionally a tokenizer.
        settings: the content of config.json, if it has been read already.

    Returns:
        a checkpoint of task "lm"; no tensor is memory-mapped, so the files may change while it is in use.

    Raises:
        CheckpointError: the weights are pickled, damaged, or missing, extra or misshapen (the tensor is named), or the
            configuration differs from GPT-2 in a way that is not supported.
    """
    from suite.text.tokenizer import Tokenizer

    config = read_model_config(directory, settings)
    tensors, source = read_weights(directory)
    tensors = _plain_names(tensors, config, source)
    check_layers(tensors, config.n_layer, source)
    expected = expected_tensors(config)
    check_shapes(tensors, to_transformers(expected), source)
    if fixed := [name for name, tensor in tensors.items() if not tensor.is_floating_point()]:
        raise CheckpointError(f"{source}: tensor {fixed[0]!r} holds {tensors[fixed[0]].dtype}, not floating point")
    state_dict = _from_transformers(tensors, expected)
    check_numbers(state_dict, source)
    tokenizer_files = ("tokenizer.json", "vocab.json")
    return Checkpoint(
        config=config,
        state_dict=state_dict,
        tokenizer=Tokenizer.load(directory) if any((directory / name).exists() for name in tokenizer_files) else None,
        task="lm",
        directory=directory,
    )


def read_model_config(directory: Path, settings: Mapping[str, Any] | None = None) -> ModelConfig:
    """Convert a GPT-2 directory's config.json to a `ModelConfig`.

    Their dropout rate of embeddings is not read: ours is that of residual branches.

    Raises:
        CheckpointError: it does not describe a GPT-2, a setting that must be a number is not, or a setting changes
            the arithmetic in a way that `Transformer` does not support.
    """
    path = directory / "config.json"
    settings = read_config(directory) if settings is None else settings
    if (kind := settings.get("model_type")) != "gpt2":
        raise CheckpointError(f"{path} is of model type {brief(kind)}; suite loads its own format and 'gpt2'")
    if "quantization_config" in settings:
        raise CheckpointError(f"{path}: the weights are quantized; load the model they were made from")
    names = field_names(_Settings)
    try:
        told = from_table(_Settings, {name: settings[name] for name in names if name in settings}, str(path))
        for name in _FIXED:
            if getattr(told, name) != getattr(_Settings, name):
                only = getattr(_Settings, name)
                raise ConfigError(f"{path}: {name} is {getattr(told, name)!r}; only {only!r} can be loaded")
        if told.activation_function not in _ACTIVATIONS:
            raise ConfigError(
                f"{path}: activation_function is {brief(told.activation_function)}; "
                f"supported are {', '.join(_ACTIVATIONS)}"
            )
    except ConfigError as error:
        raise CheckpointError(str(error)) from error
    try:
        return ModelConfig(
            vocab_size=told.vocab_size,
            context=told.n_positions,
            d_model=told.n_embd,
            n_layer=told.n_layer,
            n_head=told.n_head,
            d_ff=told.n_inner,
            activation=_ACTIVATIONS[told.activation_function],
            tie_embeddings=told.tie_word_embeddings,
            dropout=told.resid_pdrop,
            attention_dropout=None if told.attn_pdrop == told.resid_pdrop else told.attn_pdrop,
            norm_eps=told.layer_norm_epsilon,
        )
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _plain_names(tensors: Mapping[str, Tensor], config: ModelConfig, source: Path) -> dict[str, Tensor]:
    """Drop the prefix of GPT2LMHeadModel from names, drop masks, and keep tied weights once, as wte.weight."""
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items() if not name.endswith(_MASKS)}
    if config.tie_embeddings and "lm_head.weight" in plain:
        head = plain.pop("lm_head.weight")
        if not torch.equal(plain.setdefault("wte.weight", head), head):
            raise CheckpointError(
                f"{source}: lm_head.weight differs from wte.weight, though the configuration ties them; "
                'say "tie_word_embeddings": false in config.json if that is intended'
            )
    return plain


def _their_name(name: str) -> tuple[str, bool]:
    """Return GPT2Model's name for one of our tensors, and whether it is stored transposed there."""
    module, _, kind = name.rpartition(".")
    if module in _OUTSIDE:
        return f"{_OUTSIDE[module]}.{kind}", False
    _, layer, part = module.split(".", 2)  # blocks.3.attention.qkv
    return f"h.{layer}.{(_NORMS | _LINEAR)[part]}.{kind}", part in _LINEAR and kind == "weight"


def to_transformers(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename our tensors to the names of GPT2Model; weights of linear layers are transposed (as views)."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in state_dict.items():
        theirs, transposed = _their_name(name)
        tensors[theirs] = tensor.t() if transposed else tensor
    return tensors


def _from_transformers(tensors: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """Return the tensors of our `names`, from those of GPT2Model, as contiguous float32."""
    state_dict: dict[str, Tensor] = {}
    for name in names:
        theirs, transposed = _their_name(name)
        tensor = tensors[theirs]
        # contiguous, because matrix products in the other layout round differently: a run resumed from our checkpoint
        # would diverge from the run that started from these weights
        tensor = tensor.t().contiguous() if transposed else tensor.clone()
        state_dict[name] = tensor.float()
    return state_dict


def check_expressible(config: ModelConfig) -> None:
    """Check that GPT-2's format can represent a model.

    Raises:
        ConfigError: it cannot; the message names the first field that does not fit.
    """
    fits = {
        "position": config.position == "learned",
        "norm": config.norm == "layer",
        "activation": config.activation in _ACTIVATIONS.values(),
        "bias": config.bias,
        "n_kv_head": config.kv_heads == config.n_head,
        "windows": not any(0 < window < config.context for window in config.windows),
        "qk_norm": not config.qk_norm,
        "compress": not config.compresses,
        "restart_positions": not config.restart_positions,
    }
    for name, fit in fits.items():
        if not fit:
            raise ConfigError(
                f"model.{name} is {getattr(config, name)!r}, which cannot be represented in GPT-2's format; it has "
                "learned positions, LayerNorm, plain activations, biases and full attention"
            )


def export(
    model: Model, directory: Path | str, *, storage: Literal["float32", "float16", "bfloat16"] = "float32"
) -> None:
    """Write a model as a GPT-2 directory, which `AutoModelForCausalLM` and `AutoTokenizer` load.

    Args:
        model: its configuration must be representable in GPT-2's format; not prepared for inference.
        directory: created if missing; files of the same names are replaced.
        storage: type of the weights on disk.

    Raises:
        ConfigError: the format cannot represent the model; the message names the field.
        CheckpointError: the directory cannot be written.

    Example:
        >>> from suite import load
        >>> export(load("gpt2"), "my-gpt2")  # doctest: +SKIP
    """
    directory = Path(directory)
    check_expressible(model.config)
    if model.head is not None:
        raise ConfigError(f"GPT-2's format has no place for the head of {model.name}, a model of task {model.task!r}")
    weights = untied(model.config, model.transformer.state_dict())
    check_shapes(weights, expected_tensors(model.config), model.directory)
    dtype = getattr(torch, storage)
    tensors = {
        name if name == "lm_head.weight" else f"transformer.{name}": tensor.to(dtype)
        for name, tensor in to_transformers(weights).items()
    }
    write_tensors(directory / "model.safetensors", tensors, {"format": "pt"})
    if model.tokenizer is not None:
        model.tokenizer.save(directory)
    if (card := model.directory / "README.md").exists():  # it has the licence of the training data
        write_atomic(directory / "README.md", card.read_bytes())
    ends = end_tokens(model.tokenizer)
    write_atomic(directory / "generation_config.json", to_json(ends))
    write_atomic(directory / "config.json", to_json(_their_config(model.config) | ends | {"dtype": storage}))


def _their_config(config: ModelConfig) -> dict[str, Any]:
    """Return the settings of GPT2Config that describe a model."""
    activations = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.vocab_size,
        "n_positions": config.context,
        "n_ctx": config.context,
        "n_embd": config.d_model,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "n_inner": config.d_ff,
        "activation_function": activations[config.activation],
        "layer_norm_epsilon": config.norm_eps,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_rate,
        "tie_word_embeddings": config.tie_embeddings,
    }


def end_tokens(tokenizer: Tokenizer | None) -> dict[str, int | None]:
    """Ids of the special tokens that begin, end and pad a text; None if missing, else GPT2Config assumes 50256."""
    specials = {} if tokenizer is None else tokenizer.specials
    end = specials.get("<eos>")
    return {"bos_token_id": specials.get("<bos>", end), "eos_token_id": end, "pad_token_id": specials.get("<pad>")}


def to_json(settings: Mapping[str, Any]) -> bytes:
    """Content of a settings file."""
    return (json.dumps(settings, indent=2) + "\n").encode()
