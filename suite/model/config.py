"""The shape of a transformer, as a value that is saved beside its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from suite.errors import ConfigError
from suite.tables import brief, from_table

Position = Literal["learned", "rotary", "relative"]
Norm = Literal["layer", "rms"]
Activation = Literal["gelu", "gelu_tanh", "relu2", "swiglu"]
Scaling = Literal["linear", "llama3"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """Rotary frequencies made lower, so that a model reads further than the texts that it first learnt from.

    Args:
        kind: "linear" divides all frequencies by `factor`. Source: Chen et al. 2023, "Extending Context Window of Large
            Language Models via Positional Interpolation". "llama3" divides those that turn fewer than `low` times in
            `original_context` tokens, keeps those that turn more than `high` times, and blends between the two.
            Source: Grattafiori et al. 2024, "The Llama 3 Herd of Models".
        factor: at least 1.
        low, high, original_context: for "llama3" only.
    """

    kind: Scaling
    factor: float
    low: float = 1.0
    high: float = 4.0
    original_context: int = 8192

    def __post_init__(self) -> None:
        if self.kind not in get_args(Scaling):
            raise ConfigError(
                f"model.rope_scaling.kind is {self.kind!r}; the choices are {', '.join(get_args(Scaling))}"
            )
        if not self.factor >= 1:
            raise ConfigError(f"model.rope_scaling.factor is {self.factor}, but must be at least 1")
        if not 0 < self.low < self.high or self.original_context < 1:
            raise ConfigError(
                f"model.rope_scaling has low {self.low}, high {self.high}, original_context {self.original_context}; "
                "they must be above 0, and low less than high"
            )


# largest sizes: beyond any model, and small enough that no number of elements overflows 64 bits
LARGEST = {
    "vocab_size": 2**24,
    "context": 2**30,
    "d_model": 2**20,
    "n_layer": 2**12,
    "n_head": 2**20,
    "n_kv_head": 2**20,
    "d_ff": 2**24,
    "d_head": 2**20,
    "rotary_width": 2**20,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that decides the shapes and the arithmetic of a `Transformer`.

    The defaults are GPT-2's choices at a small size; `ModelConfig.gpt2("124M")` is GPT-2 itself.

    Args:
        vocab_size: number of token ids.
        context: tokens a position can look back on, itself included. Learned positions end there; others slide.
        d_model: width of the residual stream.
        n_layer: number of blocks.
        n_head: query heads; each is d_model / n_head wide, unless `d_head` says otherwise.
        n_kv_head: key/value heads, shared by groups of query heads (None: n_head).
            Source: Ainslie et al. 2023, "GQA".
        d_ff: width inside the MLP (None: 4 * d_model; for swiglu 8/3 of it, rounded up to a multiple of 32).
        position: "learned" (GPT-2), "rotary" (Su et al. 2021, "RoFormer") or "relative", where each head learns a
            vector for every distance between query and key. Source: Huang et al. 2018, "Music Transformer".
        norm: "layer" (LayerNorm) or "rms". Source: Zhang and Sennrich 2019.
        activation: "gelu_tanh" (GPT-2), "gelu" (exact), "relu2" (squared ReLU; So et al. 2021) or "swiglu"
            (Shazeer 2020).
        bias: whether linear layers and LayerNorm have biases.
        tie_embeddings: whether the output head is the embedding table.
        dropout: probability, on embeddings, attention weights and both residual branches.
        attention_dropout: probability for attention weights, if different (None: dropout).
        windows: per layer, how many tokens back (itself included) a position sees; 0 means the whole context. ()
            means 0 everywhere.
        compress: per layer, how many positions' keys and values become one by a learned convolution of that kernel and
            stride (`suite.model.compressed.Compression`); 0 or 1 means none. () means 0 everywhere. In such a layer a
            position `t` sees a block where its first position is within the context and its last is not after `t` (or
            both lie in the prefix), and, as they are, the positions nearest to it: itself and so many less one before
            it (in the prefix also as many after it). Keys are rotated before they become one.
            Source: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", memory-compressed attention.
        rope_theta: base of the rotary frequencies.
        norm_eps: added to the variance in every norm.
        qk_norm: RMS-normalise queries and keys per head, so that attention logits are bounded.
            Source: Henry et al. 2020, "Query-Key Normalization for Transformers".
        relative_span: distances back that relative positions tell apart, 0 among them; keys farther back share the
            vector of the farthest (None: context, so that every distance has its own).
            Source: Shaw et al. 2018, "Self-Attention with Relative Position Representations" (the clipping).
        relative_ahead: distances ahead that relative positions tell apart, for queries in a prefix; keys farther ahead
            share the vector of the farthest, and with 0 they share the query's own.
        restart_positions: whether positions count from 0 again behind a row's prefix, so that a translation's words
            stand where their sources do. Not for relative positions, which have no numbers.
            Source: Fu et al. 2023, "Decoder-Only or Encoder-Decoder? Interpreting Language Model as a Regularized
            Encoder-Decoder".
        d_head: width of a head (None: d_model / n_head).
        qkv_bias, out_bias, norm_bias: whether there are biases on queries, keys and values, on attention's output, and
            in LayerNorm, where that differs from `bias` (None: as `bias` says).
        qk_norm_weight: whether `qk_norm` also learns weights, for queries and for keys; it then adds norm_eps.
        rotary_width: how many numbers at the start of each head are rotated (None: all).
        rope_scaling: how rotary frequencies are lowered (None: they are not).
        parallel_residual: whether the MLP reads the input of its block, as attention does, instead of attention's
            result. Source: Wang and Komatsuzaki 2021, "GPT-J-6B".

    Raises:
        ConfigError: the numbers do not fit together; the message names the field.

    Example:
        >>> ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4).head_width
        8
    """

    vocab_size: int
    context: int
    d_model: int
    n_layer: int
    n_head: int
    n_kv_head: int | None = None
    d_ff: int | None = None
    position: Position = "learned"
    norm: Norm = "layer"
    activation: Activation = "gelu_tanh"
    bias: bool = True
    tie_embeddings: bool = True
    dropout: float = 0.0
    attention_dropout: float | None = None
    windows: tuple[int, ...] = ()
    compress: tuple[int, ...] = ()
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    qk_norm: bool = False
    relative_span: int | None = None
    relative_ahead: int = 0
    restart_positions: bool = False
    d_head: int | None = None
    qkv_bias: bool | None = None
    out_bias: bool | None = None
    norm_bias: bool | None = None
    qk_norm_weight: bool = False
    rotary_width: int | None = None
    rope_scaling: RopeScaling | None = None
    parallel_residual: bool = False

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_numbers()
        self._check_layers()
        self._check_positions()

    def _check_sizes(self) -> None:
        """Raise a ConfigError where a size is out of its range, or does not fit another."""
        for name, most in LARGEST.items():
            size = getattr(self, name)
            if size is not None and not 1 <= size <= most:
                bound = f"at most {most:,}" if size > most else "at least 1"
                raise ConfigError(f"model.{name} is {brief(size)}, but must be {bound}")
        if self.d_head is None and self.d_model % self.n_head:
            raise ConfigError(f"model.d_model {self.d_model} is not a multiple of model.n_head {self.n_head}")
        if self.n_head % self.kv_heads:
            raise ConfigError(f"model.n_head {self.n_head} is not a multiple of model.n_kv_head {self.kv_heads}")

    def _check_numbers(self) -> None:
        """Raise a ConfigError where a choice or a number that is no size is out of its range."""
        for name, choices in (("position", Position), ("norm", Norm), ("activation", Activation)):
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(
                    f"model.{name} is {getattr(self, name)!r}; the choices are {', '.join(get_args(choices))}"
                )
        if self.qk_norm_weight and not self.qk_norm:
            raise ConfigError("model.qk_norm_weight needs model.qk_norm")
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= (getattr(self, name) or 0.0) < 1.0:
                raise ConfigError(f"model.{name} is {getattr(self, name)}, but must be in [0, 1)")
        # a variance is about 1; the largest base in use is 10^7
        for name, least, most in (("rope_theta", 1.0, 1e12), ("norm_eps", 0.0, 0.1)):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"model.{name} is {getattr(self, name)}, but must be from {least:g} to {most:g}")

    def _check_layers(self) -> None:
        """Raise a ConfigError where the windows or the compression of layers do not fit."""
        for name, entries in (("windows", self.windows), ("compress", self.compress)):
            if entries and len(entries) != self.n_layer:
                raise ConfigError(f"model.{name} has {len(entries)} entries for {self.n_layer} layers")
            if any(entry < 0 for entry in entries):
                raise ConfigError(f"model.{name} has a negative entry: {brief(entries)}")
        for layer in range(len(self.windows) and len(self.compress)):
            if self.compression(layer) and self.window(layer):
                raise ConfigError(f"model.windows and model.compress both have an entry for layer {layer}; choose one")
        if max(self.compress, default=0) > self.context:
            raise ConfigError(f"model.compress {brief(self.compress)} is more than model.context ({self.context})")
        if max(self.windows, default=0) > LARGEST["context"]:
            raise ConfigError(f"model.windows {brief(self.windows)} has an entry above {LARGEST['context']:,}")
        if self.compresses and self.position == "relative":
            raise ConfigError(
                "model.compress cannot be combined with relative positions: a block has no single distance"
            )

    def _check_positions(self) -> None:
        """Raise a ConfigError where a setting does not fit the kind of positions."""
        self._check_rotary()
        if self.position != "relative" and (self.relative_span is not None or self.relative_ahead):
            raise ConfigError(
                "model.relative_span and model.relative_ahead need relative positions, "
                f"but model.position is {self.position!r}"
            )
        if self.relative_span is not None and not 1 <= self.relative_span <= self.context:
            raise ConfigError(
                f"model.relative_span is {brief(self.relative_span)}, but must be from 1 to model.context "
                f"({self.context})"
            )
        if not 0 <= self.relative_ahead < self.context:
            raise ConfigError(
                f"model.relative_ahead is {brief(self.relative_ahead)}, but must be at least 0 and less than "
                f"model.context ({self.context})"
            )
        if self.restart_positions and self.position == "relative":
            raise ConfigError(
                "model.restart_positions cannot be combined with relative positions, which are not numbered"
            )

    def _check_rotary(self) -> None:
        """Raise a ConfigError where a setting of rotary positions does not fit."""
        if self.position != "rotary":
            for name in ("rotary_width", "rope_scaling"):
                if getattr(self, name) is not None:
                    raise ConfigError(f"model.{name} needs rotary positions, but model.position is {self.position!r}")
        elif self.head_width % 2 and self.rotary_width is None:
            head = "model.d_head" if self.d_head else "d_model / n_head"
            raise ConfigError(f"rotary positions need an even head width, but {head} is {self.head_width}")
        elif self.rotated % 2 or not 0 < self.rotated <= self.head_width:
            raise ConfigError(
                f"model.rotary_width is {self.rotated}, but must be even and at most the head's {self.head_width}"
            )

    @property
    def kv_heads(self) -> int:
        """Key/value heads."""
        return self.n_head if self.n_kv_head is None else self.n_kv_head

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_head if self.d_head is None else self.d_head

    @property
    def rotated(self) -> int:
        """How many numbers of a head are rotated, where positions are rotary."""
        return self.head_width if self.rotary_width is None else self.rotary_width

    def has_bias(self, part: Literal["qkv", "out", "norm", "mlp"]) -> bool:
        """Whether a part of a block has biases."""
        own: bool | None = getattr(self, f"{part}_bias", None)
        return self.bias if own is None else own

    @property
    def attention_rate(self) -> float:
        """Dropout of attention weights."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout

    @property
    def ff_width(self) -> int:
        """Width inside the MLP."""
        if self.d_ff is not None:
            return self.d_ff
        if self.activation == "swiglu":  # three matrices instead of two: 8/3 keeps the parameter count
            return -(-8 * self.d_model // 3 // 32) * 32
        return 4 * self.d_model

    @property
    def span(self) -> int:
        """Distances back that relative positions tell apart; 0 where positions are not relative."""
        return (self.relative_span or self.context) if self.position == "relative" else 0

    @property
    def sliding_context(self) -> int:
        """Tokens a position can look back on, itself included, before they slide out of sight; 0 where none do."""
        return self.context if self.position != "learned" else 0

    def window(self, layer: int) -> int:
        """Tokens back that `layer` sees, itself included; 0 for all of the context."""
        return self.windows[layer] if self.windows else 0

    def compression(self, layer: int) -> int:
        """Positions whose keys and values become one in `layer`; 0 where each keeps its own."""
        return self.compress[layer] if self.compress and self.compress[layer] > 1 else 0

    @property
    def compresses(self) -> bool:
        """Whether any layer compresses its keys and values."""
        return max(self.compress, default=0) > 1

    @classmethod
    def gpt2(cls, size: str) -> ModelConfig:
        """GPT-2 in one of its published sizes.

        Args:
            size: "124M", "355M", "774M" or "1558M".

        Source: Radford et al. 2019, table 2 (the counts printed there are off; these are the released models').
        """
        shapes = {
            "124M": (768, 12, 12),
            "355M": (1024, 24, 16),
            "774M": (1280, 36, 20),
            "1558M": (1600, 48, 25),
        }
        if size not in shapes:
            raise ConfigError(f"no GPT-2 of size {size!r}; the sizes are {', '.join(shapes)}")
        d_model, n_layer, n_head = shapes[size]
        return cls(vocab_size=50257, context=1024, d_model=d_model, n_layer=n_layer, n_head=n_head)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values.

        From `d_head` on, fields that have their default are left out, so that checkpoints of models which do not need
        them stay readable by earlier versions of suite.
        """
        fields = dataclasses.asdict(self) | {"windows": list(self.windows), "compress": list(self.compress)}
        names = [field.name for field in dataclasses.fields(self)]
        for field in dataclasses.fields(self)[names.index("d_head") :]:
            if getattr(self, field.name) == field.default:
                del fields[field.name]
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], where: str = "the model's configuration") -> ModelConfig:
        """The inverse of `to_dict`.

        Args:
            fields: of JSON or TOML; each must have its own type, so that neither 8192.0 nor true is a size.
            where: where they come from, for errors.

        Raises:
            ConfigError: a field is unknown (a near one is named) or missing, or does not fit.
        """
        return from_table(cls, fields, where, "model.")
