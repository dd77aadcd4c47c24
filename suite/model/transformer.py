"""The decoder-only transformer, from tokens to logits.

Read it from the bottom: `Transformer` embeds tokens, runs blocks, and scores the vocabulary; a `Block` is attention
and an MLP, each added to the residual stream after a norm.

Shapes: `B` batch, `T` positions, `S` keys, `H` heads, `K` key/value heads, `E` head width, `D` d_model, `F` MLP width,
`V` vocabulary, `R` rows of relative positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from suite.model.attention import View, rotary_table, rotate
from suite.model.cache import KVCache
from suite.model.config import ModelConfig
from suite.model.dropout import drop


def make_norm(config: ModelConfig) -> nn.Module:
    """LayerNorm or RMSNorm over D."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_eps)
    return nn.LayerNorm(config.d_model, eps=config.norm_eps, bias=config.bias)


class Compression(nn.Module):
    """Makes one key or value out of each `stride` neighbouring ones: a convolution of that kernel and stride.

    All heads share it. It is the mean plus what a matrix, zero at first, adds to it.

    Source: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3.
    """

    def __init__(self, stride: int, width: int) -> None:
        super().__init__()
        self.stride = stride
        self.linear = nn.Linear(stride * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, K, C * stride, E) -> (B, K, C, E)."""
        batch, heads, length, width = x.shape
        x = x.reshape(batch, heads, length // self.stride, self.stride, width)
        out: Tensor = x.mean(dim=3) + self.linear(x.flatten(3))
        return out


class Attention(nn.Module):
    """Multi-head self-attention with grouped key/value heads.

    Source: Vaswani et al. 2017; grouped heads: Ainslie et al. 2023; relative positions: Huang et al. 2018; compressed
    keys and values: Liu et al. 2018.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.n_head, self.kv_heads, self.width = config.n_head, config.kv_heads, config.head_width
        self.window = config.window(layer)
        self.dropout = config.attention_rate
        self.qk_norm = config.qk_norm
        self.qkv = nn.Linear(config.d_model, (self.n_head + 2 * self.kv_heads) * self.width, bias=config.bias)
        self.out = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.compress: nn.ModuleList | None = None
        if stride := config.compression(layer):  # of keys and of values
            self.compress = nn.ModuleList(Compression(stride, self.width) for _ in range(2))
        self.relative: nn.Parameter | None = None
        if config.position == "relative":  # a row a distance: from the farthest back, past 0, to the farthest ahead
            self.relative = nn.Parameter(torch.empty(config.span + config.relative_ahead, config.d_model))  # (R, D)

    def forward(self, x: Tensor, view: View, rotary: tuple[Tensor, Tensor] | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, -1, self.width).transpose(1, 2)  # (B, H + 2K, T, E)
        # queries and keys go through norm and rotation in one piece: half the small operations of a decoding step
        scored, values = heads.split_with_sizes((self.n_head + self.kv_heads, self.kv_heads), dim=1)
        if self.qk_norm:
            scored = F.rms_norm(scored, (self.width,))
        if rotary is not None:
            scored = rotate(scored, *rotary)
        queries, keys = scored.split_with_sizes((self.n_head, self.kv_heads), dim=1)  # (B, H, T, E), (B, K, T, E)
        dropout = self.dropout if self.training else 0.0
        if self.compress is None:
            keys, values = view.keys_and_values(self.layer, keys, values)  # (B, K, S, E)
            mixed = view.attend(queries, keys, values, self.window, dropout, self.relative)  # (B, H, T, E)
        else:
            keys, values = view.compressed_keys_and_values(self.layer, keys, values, self.compress)  # (B, K, S, E)
            mixed = view.attend_compressed(queries, keys, values, self.layer, dropout)  # (B, H, T, E)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, -1))  # (B, T, D)
        return out


class MLP(nn.Module):
    """Two linear layers around an activation; for swiglu the first has a second half that gates."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.activation
        factor = 2 if config.activation == "swiglu" else 1
        self.up = nn.Linear(config.d_model, factor * config.ff_width, bias=config.bias)
        self.down = nn.Linear(config.ff_width, config.d_model, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x = self.up(x)  # (B, T, F), twice as wide for swiglu
        if self.activation == "swiglu":
            gate, x = x.chunk(2, dim=-1)
            x = F.silu(gate) * x
        elif self.activation == "relu2":
            x = F.relu(x).square()
        else:
            x = F.gelu(x, approximate="tanh" if self.activation == "gelu_tanh" else "none")
        out: Tensor = self.down(x)
        return out


class Block(nn.Module):
    """Pre-norm residual block. Source: Radford et al. 2019."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = make_norm(config)
        self.attention = Attention(config, layer)
        self.mlp_norm = make_norm(config)
        self.mlp = MLP(config)
        self.dropout = config.dropout

    def forward(self, x: Tensor, view: View, rotary: tuple[Tensor, Tensor] | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x = x + self.drop(self.attention(self.attention_norm(x), view, rotary))
        return x + self.drop(self.mlp(self.mlp_norm(x)))

    def drop(self, x: Tensor) -> Tensor:
        """Dropout in training. No module, because calling one takes a decoding step longer than adding two rows."""
        return drop(x, self.dropout) if self.training else x


class Transformer(nn.Module):
    """Tokens in, next-token logits out.

    Args:
        config: shapes and choices; GPT-2 is one setting of them.

    Example:
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> Transformer(config)(torch.zeros(1, 5, dtype=torch.long)).shape
        torch.Size([1, 5, 256])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        if config.position == "learned":
            self.positions = nn.Embedding(config.context, config.d_model)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layer))
        self.norm = make_norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.head.weight = self.tokens.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.02) for matrices, zero for biases; projections into the residual stream by 1/sqrt(2 n_layer).

        What compresses keys and values begins as their mean: its matrices are zero too.

        Source: Radford et al. 2018 (the deviation) and 2019, section 2.3 (the scale).
        """
        for name, parameter in self.named_parameters():
            if ".compress." in name:
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
                deviation = 0.02 / math.sqrt(2 * self.config.n_layer) if residual else 0.02
                nn.init.normal_(parameter, std=deviation)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def hidden(
        self,
        tokens: Tensor,
        *,
        prefix: Tensor | None = None,
        cache: KVCache | None = None,
        lengths: Sequence[int] | None = None,
    ) -> Tensor:
        """The residual stream after the last norm.

        Args:
            tokens: (B, T) ids; rows shorter than T are padded on the right with any id.
            prefix: (B,) tokens at the start of each row that see each other both ways; None for causal attention
                everywhere. With a cache, the prefix must lie within the first pass.
                Source: Liu et al. 2018; Raffel et al. 2020, "prefix LM".
            cache: holds what each row has seen; the T tokens are appended to it. None: the rows start here.
            lengths: with a cache, how many of the T tokens of each row are real (None: all). Without a cache right
                padding needs no lengths, because no real token looks at it.

        Returns:
            (B, T, D); positions of padding hold nothing of use.

        Raises:
            SuiteError: learned positions end before the last token, or the cache is too small.
        """
        batch, length = tokens.shape
        real = None if lengths is None or cache is None else list(lengths)
        view = View(self.config, batch, length, tokens.device, cache, prefix, real)
        x = self.tokens(tokens)  # (B, T, D)
        rotary = None
        if self.config.position == "learned":
            # padding may stand past the last position; it is never looked at
            x = x + self.positions(view.counted.clamp(max=self.config.context - 1))
        elif self.config.position == "rotary":
            counted = view.counted  # (T,) or (B, T)
            cos, sin = rotary_table(counted, self.config.head_width, self.config.rope_theta)
            rotary = (cos, sin) if counted.dim() == 1 else (cos[:, None], sin[:, None])  # (T, E) or (B, 1, T, E)
        if self.training:
            x = drop(x, self.config.dropout)
        for block in self.blocks:
            x = block(x, view, rotary)
        view.advance()
        out: Tensor = self.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the vocabulary: (..., D) -> (..., V), float32."""
        scores: Tensor = self.head(hidden)
        return scores.float()

    def forward(
        self,
        tokens: Tensor,
        *,
        prefix: Tensor | None = None,
        cache: KVCache | None = None,
        lengths: Sequence[int] | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each position; arguments as for `hidden`."""
        return self.logits(self.hidden(tokens, prefix=prefix, cache=cache, lengths=lengths))
