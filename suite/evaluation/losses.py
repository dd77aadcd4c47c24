"""Per-token losses of a model on a text.

Shapes: `B` windows in a batch, `T` positions of a window, `V` vocabulary, `N` tokens of the text.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from suite.errors import ConfigError, DataError
from suite.model import Transformer

PIECE_TOKENS = 4096  # maximum tokens of all windows in a forward pass


@torch.inference_mode()
def token_losses(
    transformer: Transformer,
    tokens: NDArray[np.integer],
    *,
    stride: int | None = None,
    length: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> NDArray[np.float32]:
    """Return -log p (N - 1,) of every token but the first, each given the tokens before it in its window.

    Windows of `length` inputs start every `stride` tokens, and each scores the tokens that the previous window did not
    score: so a token has at least `length - stride` tokens of context, except at the start of the text.

    Args:
        transformer: must be in evaluation mode.
        tokens: (N,), token ids.
        stride: tokens from the start of a window to the start of the next (None: half of `length`).
        length: input tokens in a window (None: the model's context).
        progress: called with the number of tokens just scored.

    Returns:
        (N - 1,), in nats.

    Raises:
        DataError: there are fewer than two tokens.
        ConfigError: the stride is not in [1, length], or learned positions end before `length`.
    """
    length = length or transformer.config.context
    stride = stride or max(1, length // 2)
    if len(tokens) < 2:
        raise DataError(f"{len(tokens)} tokens are too few to evaluate on; at least 2 are needed")
    if not 1 <= stride <= length:
        raise ConfigError(f"a stride of {stride} does not fit windows of {length} tokens; it must be in [1, {length}]")
    if transformer.config.position == "learned" and length > transformer.config.context:
        raise ConfigError(f"windows of {length} tokens are longer than the context, {transformer.config.context}")
    device = next(transformer.parameters()).device
    losses = np.empty(len(tokens) - 1, dtype=np.float32)
    last = max(0, len(tokens) - 1 - length)  # start of the last window, which ends with the text
    starts = [*range(0, last, stride), last]
    # the first window scores all of its targets; a later window those past the end of the previous window
    firsts = [0] + [before + length for before in starts[:-1]]
    at_once = max(1, PIECE_TOKENS // length)
    for begin in range(0, len(starts), at_once):
        group = starts[begin : begin + at_once]
        rows = np.stack([tokens[start : start + length + 1] for start in group]).astype(np.int64)
        batch = torch.from_numpy(rows).to(device)  # (B, T + 1)
        hidden = transformer.hidden(batch[:, :-1])  # (B, T, D)
        for row, start, first in zip(range(len(group)), group, firsts[begin : begin + at_once], strict=True):
            logits = transformer.logits(hidden[row, first - start :])  # (n, V)
            nats = F.cross_entropy(logits, batch[row, 1 + first - start :], reduction="none")
            losses[first : first + len(nats)] = nats.cpu().numpy()
            if progress is not None:
                progress(len(nats))
    return losses
