"""The decoder-only transformer, from tokens to logits.

Read it from the bottom: `Transformer` embeds tokens, runs blocks, and scores the vocabulary; a `Block` is attention
and an MLP, each added to the residual stream after a norm. `plan.py` says which keys a query sees, once a pass, and
`attention.py` does the arithmetic.

Shapes: `B` batch, `T` positions, `S` keys, `H` heads, `K` key/value heads, `E` head width, `D` d_model, `F` MLP width,
`V` vocabulary, `R` rows of relative positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from suite.model import compressed
from suite.model.attention import dense, local
from suite.model.cache import KVCache
from suite.model.compressed import Compression
from suite.model.config import ModelConfig
from suite.model.dropout import dropout
from suite.model.plan import Dense, Gathered, Local, Pattern, Plan, Skewed, make_plan
from suite.model.relative import relative
from suite.model.rotary import rotary_table, rotate


def make_norm(config: ModelConfig) -> nn.Module:
    """LayerNorm or RMSNorm over D."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_eps)
    return nn.LayerNorm(config.d_model, eps=config.norm_eps, bias=config.has_bias("norm"))


class Attention(nn.Module):
    """Multi-head self-attention with grouped key/value heads: project, store, attend.

    Source: Vaswani et al. 2017; grouped heads: Ainslie et al. 2023, "GQA"; relative positions: Huang et al. 2018;
    local attention, compressed keys and values: Liu et al. 2018.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.n_head, self.kv_heads, self.width = config.n_head, config.kv_heads, config.head_width
        self.dropout = config.attention_rate
        self.qk_norm, self.qk_norm_weight = config.qk_norm, config.qk_norm_weight
        width = self.n_head * self.width
        self.qkv = nn.Linear(config.d_model, width + 2 * self.kv_heads * self.width, bias=config.has_bias("qkv"))
        self.out = nn.Linear(width, config.d_model, bias=config.has_bias("out"))
        if config.qk_norm_weight:
            self.query_norm = nn.RMSNorm(self.width, eps=config.norm_eps)
            self.key_norm = nn.RMSNorm(self.width, eps=config.norm_eps)
        self.compress: nn.ModuleList | None = None
        if stride := config.compression(layer):  # of keys and of values
            self.compress = nn.ModuleList(Compression(stride, self.width) for _ in range(2))
        self.relative: nn.Parameter | None = None
        if config.position == "relative":  # a row a distance: from the farthest back, past 0, to the farthest ahead
            self.relative = nn.Parameter(torch.empty(config.span + config.relative_ahead, width))  # (R, H * E)

    def forward(self, x: Tensor, plan: Plan, cache: KVCache | None, rotary: tuple[Tensor, Tensor] | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        queries, keys, values = self.project(x, rotary)  # (B, H, T, E), (B, K, T, E) twice
        keys, values = self.store(keys, values, plan, cache)  # (B, K, S, E)
        mixed = self.attend(queries, keys, values, plan.patterns[self.layer])  # (B, H, T, E)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))  # (B, T, D)
        return out

    def project(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, E), keys and values (B, K, T, E) of (B, T, D)."""
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, -1, self.width).transpose(1, 2)  # (B, H + 2K, T, E)
        # queries and keys go through norm and rotation in one piece: half the small operations of a decoding step
        scored, values = heads.split_with_sizes((self.n_head + self.kv_heads, self.kv_heads), dim=1)
        if self.qk_norm_weight:
            queries, keys = scored.split_with_sizes((self.n_head, self.kv_heads), dim=1)
            scored = torch.cat((self.query_norm(queries), self.key_norm(keys)), dim=1)
        elif self.qk_norm:
            scored = F.rms_norm(scored, (self.width,))
        if rotary is not None:
            scored = rotate(scored, *rotary)
        queries, keys = scored.split_with_sizes((self.n_head, self.kv_heads), dim=1)
        return queries, keys, values

    def store(self, keys: Tensor, values: Tensor, plan: Plan, cache: KVCache | None) -> tuple[Tensor, Tensor]:
        """Store new keys and values (B, K, T, E); returns all that can be attended to, (B, K, S, E)."""
        if self.compress is not None:
            stored = (None, None) if cache is None else (cache.keys[self.layer], cache.values[self.layer])
            pattern = plan.patterns[self.layer]
            assert isinstance(pattern, compressed.PATTERNS)
            parts = zip(stored, (keys, values), self.compress, strict=True)
            keys, values = (compressed.append(old, new, compress, pattern) for old, new, compress in parts)
            return keys, values
        return (keys, values) if cache is None else cache.append(self.layer, keys, values, plan.places)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, pattern: Pattern) -> Tensor:
        """Attention of queries (B, H, T, E) over keys and values (B, K, S, E); returns (B, H, T, E)."""
        dropout_p = self.dropout if self.training else 0.0
        if isinstance(pattern, Dense):
            return dense(queries, keys, values, pattern, dropout_p)
        if isinstance(pattern, Local):
            return local(queries, keys, values, pattern, dropout_p)
        if isinstance(pattern, (Skewed, Gathered)):
            assert self.relative is not None
            return relative(queries, keys, values, pattern, self.relative, dropout_p)
        return compressed.attend(queries, keys, values, pattern, dropout_p)


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
    """Pre-norm residual block. Source: Radford et al. 2019; both parts on the same input: Wang and Komatsuzaki 2021."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = make_norm(config)
        self.attention = Attention(config, layer)
        self.mlp_norm = make_norm(config)
        self.mlp = MLP(config)
        self.dropout = config.dropout
        self.parallel = config.parallel_residual

    def forward(self, x: Tensor, plan: Plan, cache: KVCache | None, rotary: tuple[Tensor, Tensor] | None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        attended = self.drop(self.attention(self.attention_norm(x), plan, cache, rotary))
        if self.parallel:
            return x + attended + self.drop(self.mlp(self.mlp_norm(x)))
        x = x + attended
        return x + self.drop(self.mlp(self.mlp_norm(x)))

    def drop(self, x: Tensor) -> Tensor:
        """Dropout in training. No module, because calling one takes a decoding step longer than adding two rows."""
        return dropout(x, self.dropout) if self.training else x


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

        Compression of keys and values starts as their mean: its matrices are zero too.

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
        """The residual stream after the last norm, (B, T, D).

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
        x = self.tokens(tokens)  # (B, T, D)
        plan = make_plan(
            self.config, batch, length, device=x.device, dtype=x.dtype, cache=cache, prefix=prefix, lengths=lengths
        )
        if cache is not None and prefix is not None and self.config.restart_positions:
            cache.restarts = prefix.clone()
        rotary = None
        if self.config.position == "learned":
            # padding may stand past the last position; it is never looked at
            x = x + self.positions(plan.positions.clamp(max=self.config.context - 1))
        elif self.config.position == "rotary":
            config = self.config
            cos, sin = rotary_table(plan.positions, config.rotated, config.rope_theta, config.rope_scaling)
            rotary = (cos, sin) if cos.dim() == 2 else (cos[:, None], sin[:, None])  # (T, E) or (B, 1, T, E)
        if self.training:
            x = dropout(x, self.config.dropout)
        for block in self.blocks:
            x = block(x, plan, cache, rotary)
        if cache is not None and not cache.static:  # the caller advances a static cache
            cache.advance(plan.added)
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
