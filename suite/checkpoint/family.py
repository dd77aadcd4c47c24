"""How an architecture of `transformers` names settings and tensors, and the way from its names to ours and back.

Shapes: `H` heads, `E` head width, `I` input channels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from suite.errors import ConfigError
from suite.model.config import Activation, ModelConfig, RopeScaling, Scaling

WHOLE = ("vocab_size", "context", "d_model", "n_layer", "n_head", "d_ff")
WHOLE_OR_NONE = ("n_kv_head", "d_head")
SWITCHES = ("tie_embeddings", "parallel_residual", "bias", "qkv_bias", "out_bias")


@dataclass(frozen=True, kw_only=True)
class Family:
    """An architecture of `transformers`.

    Attributes:
        model_type, architecture: how config.json names it.
        settings: field of `ModelConfig` -> its setting in config.json.
        choices: fields of `ModelConfig` that are the same in all models of the family.
        defaults: what `transformers` takes for settings that config.json lacks.
        activations: values of `hidden_act` -> ours.
        outside: our module outside the blocks -> theirs.
        layer: what stands before the names in a block, with {} for its number.
        block: our module in a block -> theirs.
        renamed: beginnings of names in some files -> those of the tables here.
        fused: whether one matrix holds query, key and value of each head in turn.
        norm_offset: what is added to a norm's weight before use.
        windows: whether sliding windows are for no layer, for all, or for some.
        rotary: settings that may hold the base of the frequencies and the share of a head that is rotated.
        rotary_share: the share where config.json has none; None: all of a head is always rotated.
    """

    model_type: str
    architecture: str
    settings: dict[str, str]
    choices: dict[str, Any]
    defaults: dict[str, Any]
    activations: dict[str, Activation]
    outside: Mapping[str, str]
    layer: str
    block: Mapping[str, tuple[str, ...]]
    renamed: Mapping[str, str] = field(default_factory=dict)
    fused: bool = False
    norm_offset: float = 0.0
    windows: Literal["none", "all", "some"] = "none"
    rotary: tuple[str, str] = ("rope_theta", "partial_rotary_factor")
    rotary_share: float | None = None

    def model_config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Read the content of a config.json.

        Raises:
            ConfigError: a setting is not of its type, or changes the arithmetic in a way that is not supported.
        """
        settings = {**self.defaults, **settings}
        if settings.get("quantization_config"):
            raise ConfigError("the weights are quantized; load the model they were made from")
        activation = settings["hidden_act"]
        if activation not in self.activations:
            raise ConfigError(
                f"hidden_act is {activation!r}; in {self.model_type} models, suite knows {', '.join(self.activations)}"
            )
        fields: dict[str, Any] = {name: settings.get(key) for name, key in self.settings.items()}
        for name in (*WHOLE, *WHOLE_OR_NONE):
            value = fields.get(name)
            if type(value) is not int and (value is not None or name in WHOLE):
                raise ConfigError(f"{self.settings[name]} is {value!r}, but must be a whole number")
        try:
            rates = {name: float(fields.get(name) or 0) for name in ("dropout", "attention_dropout")}
            fields |= rates | {"norm_eps": float(fields["norm_eps"])}
        except (TypeError, ValueError) as error:
            raise ConfigError(f"a setting is not a number: {error}") from error
        fields |= {name: bool(fields[name]) for name in SWITCHES if name in fields}
        if rates["attention_dropout"] == rates["dropout"]:
            fields["attention_dropout"] = None
        width = fields.get("d_head") or fields["d_model"] // max(1, fields["n_head"])
        if width * fields["n_head"] == fields["d_model"]:
            fields["d_head"] = None
        return ModelConfig(
            **{**self.choices, **fields},
            activation=self.activations[activation],
            windows=self._windows(settings),
            **self._rope(settings, width),
        )

    def _windows(self, settings: Mapping[str, Any]) -> tuple[int, ...]:
        window, layers = settings.get("sliding_window"), int(settings["num_hidden_layers"])
        if self.windows == "none" or window is None or (self.windows == "some" and not settings["use_sliding_window"]):
            return ()
        if type(window) is not int or window < 1:
            raise ConfigError(f"sliding_window is {window!r}, but must be a whole number above 0")
        if self.windows == "all":
            return (window,) * layers
        if (kinds := settings.get("layer_types")) is None:
            first = settings["max_window_layers"]
            kinds = ["sliding_attention" if layer >= first else "full_attention" for layer in range(layers)]
        if len(kinds) != layers:
            raise ConfigError(f"layer_types has {len(kinds)} entries for {layers} layers")
        if unknown := set(kinds) - {"sliding_attention", "full_attention"}:
            raise ConfigError(f"layer_types has {min(unknown)!r}; suite knows 'full_attention' and 'sliding_attention'")
        return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)

    def _rope(self, settings: Mapping[str, Any], width: int) -> dict[str, Any]:
        """Read rotary settings, as `transformers` writes them since version 5 or as it did before.

        Args:
            settings: of config.json, with defaults.
            width: of a head.
        """
        theta, share = (settings.get(name) for name in self.rotary)
        given = settings.get("rope_scaling") or settings.get("rope_parameters") or {}
        if not isinstance(given, Mapping) or any(isinstance(value, Mapping) for value in given.values()):
            raise ConfigError("rotary settings that differ from layer to layer are not supported")
        kind = given.get("rope_type") or given.get("type") or "default"
        known = ("default", *get_args(Scaling))
        if kind not in known:
            raise ConfigError(f"rotary positions of type {kind!r} are not supported; suite knows {', '.join(known)}")
        share = given.get("partial_rotary_factor", share)
        share = (self.rotary_share or 1.0) if share is None else share
        if self.rotary_share is None and share != 1:
            raise ConfigError(f"partial_rotary_factor is {share!r}; {self.model_type} models rotate whole heads")
        try:
            scaling = None
            if kind == "linear":
                scaling = RopeScaling(kind="linear", factor=float(given["factor"]))
            elif kind == "llama3":
                scaling = RopeScaling(
                    kind="llama3",
                    factor=float(given["factor"]),
                    low=float(given["low_freq_factor"]),
                    high=float(given["high_freq_factor"]),
                    original_context=given.get("original_max_position_embeddings")
                    or settings["max_position_embeddings"],
                )
            rotated = int(width * share)
            return {
                "rope_theta": float(given.get("rope_theta", theta)),
                "rotary_width": None if rotated == width else rotated,
                "rope_scaling": scaling,
            }
        except KeyError as error:
            raise ConfigError(f"rotary positions of type {kind!r} need {error}") from error
        except (TypeError, ValueError) as error:
            raise ConfigError(f"a rotary setting is not a number: {error}") from error

    def write_settings(self, config: ModelConfig) -> dict[str, Any]:
        """The content of a config.json for a model; what the family cannot express is left out, see `differences`."""
        activations = {ours: theirs for theirs, ours in reversed(self.activations.items())}
        written: dict[str, Any] = {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            "hidden_act": activations.get(config.activation, next(iter(self.activations))),
        }
        values = normal_form(config)
        for name, key in self.settings.items():
            # where one setting stands for two biases, it is set if either is there: the other becomes zeros
            written[key] = values[name] or written.get(key, False) if isinstance(values[name], bool) else values[name]
        wide = [window for window in values["windows"] if window]
        if self.windows == "all":
            written["sliding_window"] = wide[0] if wide else None
        elif self.windows == "some":
            kinds = ["sliding_attention" if window else "full_attention" for window in values["windows"]]
            written |= {"use_sliding_window": bool(wide), "sliding_window": wide[0] if wide else None}
            written |= {"layer_types": kinds, "max_window_layers": config.n_layer} if wide else {}
        share = config.rotated / config.head_width
        if int(config.head_width * share) != config.rotated:  # rounded down, where it is read
            share = (config.rotated + 0.25) / config.head_width
        theta_name, share_name = self.rotary
        written |= {theta_name: config.rope_theta, "rope_scaling": None}
        if self.rotary_share is not None:
            written[share_name] = share
        if (scaling := config.rope_scaling) is not None:
            written["rope_scaling"] = {"rope_type": scaling.kind, "factor": scaling.factor}
            if scaling.kind == "llama3":
                written["rope_scaling"] |= {"low_freq_factor": scaling.low, "high_freq_factor": scaling.high}
                written["rope_scaling"]["original_max_position_embeddings"] = scaling.original_context
        return written


def normal_form(config: ModelConfig) -> dict[str, Any]:
    """The fields of a model, each as a value that two equal models share."""
    windows = [config.window(layer) for layer in range(config.n_layer)]
    values = {name.name: getattr(config, name.name) for name in dataclasses.fields(config)}
    return values | {
        "n_kv_head": config.kv_heads,
        "d_ff": config.ff_width,
        "d_head": config.head_width,
        "rotary_width": config.rotated,
        "attention_dropout": config.attention_rate,
        "windows": tuple(0 if window >= config.context else window for window in windows),
        "compress": tuple(config.compression(layer) for layer in range(config.n_layer)),
        "bias": config.has_bias("mlp"),
        "qkv_bias": config.has_bias("qkv"),
        "out_bias": config.has_bias("out"),
        "norm_bias": config.norm == "layer" and config.has_bias("norm"),
    }


def rearranged(family: Family, name: str) -> bool:
    """Whether a family has the rows of one of our tensors in another order: those of query, key and value, by head."""
    return family.fused and name.split(".")[-2] == "qkv"


def offset(family: Family, name: str) -> float:
    """What is added to a family's tensor to make it ours."""
    return family.norm_offset if name.endswith("norm.weight") else 0.0


def their_names(family: Family, name: str) -> list[str]:
    """The names in a family of one of our tensors; several where ours has the rows of all of them."""
    module, _, kind = name.rpartition(".")
    if module in family.outside:
        return [f"{family.outside[module]}.{kind}"]
    _, layer, part = module.split(".", 2)  # blocks.3.attention.qkv
    return [f"{family.layer.format(layer)}{theirs}.{kind}" for theirs in family.block[part]]


def to_family(family: Family, config: ModelConfig, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename our tensors, which may be on the meta device, to a family's, and lay them out as it does."""
    heads = [config.n_head * config.head_width, *[config.kv_heads * config.head_width] * 2]
    tensors: dict[str, Tensor] = {}
    for name, tensor in state_dict.items():
        names = their_names(family, name)
        if amount := offset(family, name):
            tensor = tensor.float() - amount
        if rearranged(family, name):
            tensor = tensor.reshape(3, config.n_head, -1, *tensor.shape[1:]).transpose(0, 1).flatten(0, 2)
        if len(names) > 1:
            parts = torch.split(tensor, heads if len(names) == 3 else tensor.shape[0] // 2)
            tensors |= dict(zip(names, parts, strict=True))
        else:
            tensors[names[0]] = tensor
    return tensors


def from_family(
    family: Family, config: ModelConfig, tensors: Mapping[str, Tensor], names: Iterable[str]
) -> dict[str, Tensor]:
    """Return the tensors of our `names` from a family's, in the type that they are stored in (moved norms: float32)."""
    state_dict: dict[str, Tensor] = {}
    for name in names:
        theirs = [tensors[one] for one in their_names(family, name)]
        tensor = torch.cat(theirs) if len(theirs) > 1 else theirs[0]
        if rearranged(family, name):
            tensor = tensor.reshape(config.n_head, 3, -1, *tensor.shape[1:]).transpose(0, 1).flatten(0, 2)
        if amount := offset(family, name):
            tensor = tensor.float() + amount
        state_dict[name] = tensor
    return state_dict
