"""What the compiled step knows of a model: records of sizes and of the addresses of its tensors.

Addresses, because layers are separate tensors and Numba would compile a function anew for every number of arrays it is
given. With records there is one function for all models. An address of 0 means that there is no such tensor.
"""

from __future__ import annotations

import numpy as np

FLOAT32, FLOAT16, BFLOAT16, INT8 = range(4)  # kinds of weights
GELU, GELU_TANH, RELU2, SWIGLU = range(4)  # activations
LINE = 64  # bytes of a cache line: counters of different threads' work stand on lines of their own
CHUNK = 256  # output channels that a thread computes before it asks for more work, at most

VECTOR = np.dtype([("weight", np.int64), ("bias", np.int64)])  # of a norm, float32
MATRIX = np.dtype(
    [
        ("weight", np.int64),  # (outputs, inputs), rows contiguous
        ("scales", np.int64),  # (outputs,) float32, for int8
        ("bias", np.int64),  # (outputs,) float32
        ("kind", np.int64),
        ("outputs", np.int64),
        ("inputs", np.int64),
    ]
)
LAYER = np.dtype(
    [
        ("attention_norm", VECTOR),
        ("qkv", MATRIX),  # (H + 2K) * E outputs
        ("out", MATRIX),
        ("mlp_norm", VECTOR),
        ("up", MATRIX),  # F outputs, for swiglu F gates before them
        ("down", MATRIX),
        ("query_norm", VECTOR),  # (E,), address 0 where queries and keys are normalised without weights
        ("key_norm", VECTOR),
        ("relative", np.int64),  # (R, H * E) float32, a row a distance
        ("reach", np.int64),  # positions back that a query sees, itself included
        ("keys", np.int64),  # (B, K, slots, E) float32, in the KV cache
        ("values", np.int64),
    ]
)
MODEL = np.dtype(
    [
        # sizes and choices
        *((name, np.int64) for name in ("n_layer", "d_model", "n_head", "kv_heads", "head_width", "ff_width")),
        *((name, np.int64) for name in ("rotary_width", "span", "activation", "rms", "qk_norm", "parallel", "threads")),
        ("norm_eps", np.float64),
        ("scale", np.float64),  # of queries: 1 / sqrt(E)
        ("tokens", MATRIX),
        ("positions", MATRIX),  # learned
        ("norm", VECTOR),
        ("head", MATRIX),
        # of this step
        *((name, np.int64) for name in ("rows", "capacity", "slots")),
        ("ids", np.int64),  # (B,) int64
        ("newest", np.int64),  # (B,) int64: each row's position of the new token in its cache
        ("places", np.int64),  # (B,) int64: the position as it is embedded
        ("cos", np.int64),  # (B, rotary_width) float32
        ("sin", np.int64),
        # what threads share, float32
        ("x", np.int64),  # (B, D) residual stream
        ("before", np.int64),  # (B, D) the stream before attention, for an MLP in parallel
        ("queries", np.int64),  # (B, H, E)
        ("mixed", np.int64),  # (B, H * E)
        ("wide", np.int64),  # (B, F)
        ("logits", np.int64),  # (B, V)
        # what each thread has for itself: `scratch` floats each, `normed`, `part` and `scores` one after the other
        ("own", np.int64),
        ("scratch", np.int64),
        # counters of the work that is taken and done: see `suite.model.step.work`
        ("counters", np.int64),
    ]
)
