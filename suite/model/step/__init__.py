"""One decoding step on a CPU as one compiled function, from token ids to logits over all layers.

It is only a faster way to compute what `Transformer` computes for a new token of each row: it reads the same weights
and the same KV cache, without a copy. Prompts, training and GPUs stay PyTorch's.

Read `work.py` first: phases, and how threads share them. `arithmetic.py` has the parts of a layer, `multiply.py` and
`machine.py` the products that take nearly all of the time. `layout.py` says how a model is described to them and
`bound.py` describes it; `choice.py` decides when all this is used, and where the compiled code is kept.

Nothing here imports Numba until `choice.py` asks for it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys

LIMIT = 16  # rows: for more, PyTorch's products are as fast


@functools.cache
def installed() -> bool:
    """Whether Numba is installed."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def tell(line: str) -> None:
    """Write a line to standard error, once, where SUITE_DEBUG is set."""
    if os.environ.get("SUITE_DEBUG"):
        print(f"suite: {line}", file=sys.stderr)
