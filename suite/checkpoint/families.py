"""The architectures of `transformers` that a `Transformer` can be: for each, a table of its settings and tensors.

GPT-2 has a file of its own, `gpt2.py`, because its linear layers are stored transposed. A model fits a family if
reading what the family would write for it gives the same model again; see `family_of`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from suite.checkpoint.family import Family, normal_form
from suite.errors import ConfigError
from suite.model.config import Activation, ModelConfig

GATED: dict[str, Activation] = {"silu": "swiglu"}
PLAIN: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu2": "relu2",
}
# field of ModelConfig -> setting, in all families below
COMMON = {
    "vocab_size": "vocab_size",
    "context": "max_position_embeddings",
    "d_model": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "d_ff": "intermediate_size",
    "tie_embeddings": "tie_word_embeddings",
    "attention_dropout": "attention_dropout",
}
GROUPED = COMMON | {"n_kv_head": "num_key_value_heads", "d_head": "head_dim", "norm_eps": "rms_norm_eps"}
# our module -> theirs; where there are several, ours has their rows one after another
OUTSIDE = {"tokens": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
NORMS = {"attention_norm": ("input_layernorm",), "mlp_norm": ("post_attention_layernorm",)}
SEPARATE = {
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.out": ("self_attn.o_proj",),
    "mlp.down": ("mlp.down_proj",),
} | NORMS
UNGATED_UP = {"mlp.up": ("mlp.up_proj",)}
GATED_UP = {"mlp.up": ("mlp.gate_proj", "mlp.up_proj")}


LLAMA = Family(
    model_type="llama",
    architecture="LlamaForCausalLM",
    settings=GROUPED | {"bias": "mlp_bias", "qkv_bias": "attention_bias", "out_bias": "attention_bias"},
    choices={"position": "rotary", "norm": "rms"},
    activations=GATED,
    outside=OUTSIDE,
    layer="model.layers.{}.",
    block=SEPARATE | GATED_UP,
    defaults={
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "rope_theta": 10000.0,
    },
)
MISTRAL = dataclasses.replace(
    LLAMA,
    model_type="mistral",
    architecture="MistralForCausalLM",
    settings=GROUPED,
    choices=LLAMA.choices | {"bias": False},
    defaults=LLAMA.defaults
    | {"intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096},
    windows="all",
)
QWEN2 = dataclasses.replace(
    MISTRAL,
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    choices=LLAMA.choices | {"bias": False, "qkv_bias": True, "out_bias": False},
    defaults=LLAMA.defaults
    | {"vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32, "max_position_embeddings": 32768}
    | {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28},
    windows="some",
)
QWEN3 = dataclasses.replace(
    QWEN2,
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    settings=GROUPED | {"qkv_bias": "attention_bias", "out_bias": "attention_bias"},
    choices=MISTRAL.choices | {"qk_norm": True, "qk_norm_weight": True},
    defaults=QWEN2.defaults | {"head_dim": 128},
    block=SEPARATE
    | GATED_UP
    | {"attention.query_norm": ("self_attn.q_norm",), "attention.key_norm": ("self_attn.k_norm",)},
)
GPT_NEOX = Family(
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    settings=COMMON
    | {"norm_eps": "layer_norm_eps", "dropout": "hidden_dropout", "parallel_residual": "use_parallel_residual"}
    | {"qkv_bias": "attention_bias", "out_bias": "attention_bias"},
    choices={"position": "rotary", "norm": "layer", "bias": True},
    defaults={
        "vocab_size": 50432,
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "hidden_act": "gelu",
        "max_position_embeddings": 2048,
        "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "use_parallel_residual": True,
        "rotary_emb_base": 10000.0,
    },
    activations=PLAIN,
    outside={"tokens": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "head": "embed_out"},
    layer="gpt_neox.layers.{}.",
    block={
        "attention.qkv": ("attention.query_key_value",),
        "attention.out": ("attention.dense",),
        "mlp.up": ("mlp.dense_h_to_4h",),
        "mlp.down": ("mlp.dense_4h_to_h",),
    }
    | NORMS,
    renamed={"lm_head.": "embed_out."},
    fused=True,
    rotary=("rotary_emb_base", "rotary_pct"),
    rotary_share=0.25,
)
NEMOTRON = dataclasses.replace(
    LLAMA,
    model_type="nemotron",
    architecture="NemotronForCausalLM",
    settings=LLAMA.settings | {"norm_eps": "norm_eps"},
    choices={"position": "rotary", "norm": "layer", "norm_bias": True},
    defaults=LLAMA.defaults
    | {"vocab_size": 256000, "hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 48}
    | {"hidden_act": "relu2", "max_position_embeddings": 4096, "norm_eps": 1e-5},
    activations=dict(reversed(PLAIN.items())),
    block=SEPARATE | UNGATED_UP,
    norm_offset=1.0,
    rotary_share=0.5,
)
# of several that could hold a model equally well, the first is written
FAMILIES = {family.model_type: family for family in (LLAMA, MISTRAL, QWEN2, QWEN3, NEMOTRON, GPT_NEOX)}
KNOWN = ", ".join(("gpt2", *FAMILIES))


def differences(config: ModelConfig, written: ModelConfig) -> list[str]:
    """Fields in which a model differs from what a family would write for it.

    Biases that only the family has are no difference, because they can be zero; nor is dropout, which only training
    knows.
    """
    ours, theirs = normal_form(config), normal_form(written)
    return [
        name
        for name, value in ours.items()
        if value != theirs[name] and not (name.endswith("dropout") or (name.endswith("bias") and theirs[name]))
    ]


def family_of(config: ModelConfig) -> tuple[Family, dict[str, Any]]:
    """The family that a model can be written as, and the content of its config.json.

    Raises:
        ConfigError: there is none; the message names what stands in the way in the nearest.
    """
    written = {name: family.write_settings(config) for name, family in FAMILIES.items()}
    wrong, added = {}, {}
    for name, settings in written.items():
        try:
            read = FAMILIES[name].model_config(settings)
        except ConfigError:  # a shape that the family cannot have, such as a rotated part of odd width
            continue
        wrong[name] = differences(config, read)
        added[name] = sum(read.has_bias(part) > config.has_bias(part) for part in ("qkv", "out", "norm", "mlp"))
    if not wrong:
        raise ConfigError(f"no architecture of transformers that suite knows ({KNOWN}) can hold this model")
    nearest = min(wrong, key=lambda name: (len(wrong[name]), added[name]))
    if wrong[nearest]:
        field = wrong[nearest][0]
        raise ConfigError(
            f"no architecture of transformers that suite knows ({KNOWN}) can hold this model: in {nearest}, the "
            f"nearest, model.{field} cannot be {getattr(config, field)!r}"
        )
    return FAMILIES[nearest], written[nearest]
