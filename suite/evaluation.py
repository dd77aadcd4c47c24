"""How well a model predicts tokens, and the baselines that give the figure a meaning.

Shapes: `B` windows at a time, `T` positions of a window, `V` vocabulary, `N` tokens of the text.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from suite.errors import ConfigError, DataError
from suite.model import Transformer

PIECE_TOKENS = 4096  # tokens of all windows in one forward pass


@torch.inference_mode()
def token_losses(
    transformer: Transformer,
    tokens: NDArray[np.integer],
    *,
    stride: int | None = None,
    length: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> NDArray[np.float32]:
    """-log p of every token but the first, each given the tokens before it in its window.

    Windows of `length` inputs start every `stride` tokens, and each predicts the tokens that the one before it did
    not: so a token sees at least `length - stride` tokens of context (but for those at the start).

    Args:
        transformer: in eval mode.
        tokens: (N,) ids.
        stride: tokens from one window's start to the next (None: half of `length`).
        length: inputs in a window (None: the model's context).
        progress: called with the number of tokens just scored.

    Returns:
        (N - 1,) nats.

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
    last = max(0, len(tokens) - 1 - length)  # where the last window starts: it ends with the text
    starts = [*range(0, last, stride), last]
    # the first window scores all of its targets; a later one those past the end of the window before
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


class NGrams:
    """Interpolated n-gram probabilities over token ids, the baseline of what counting can do.

    Each order backs off to the one below with the weight that Witten and Bell give it; below the unigrams every id is
    equally likely.

    Args:
        documents: training sequences; n-grams do not cross their borders.
        order: 1 for unigrams, 3 for trigrams.
        vocab_size: number of ids.

    Source: Witten and Bell 1991; interpolated as in Chen and Goodman 1999.
    """

    def __init__(self, documents: Sequence[NDArray[np.integer]], order: int, vocab_size: int) -> None:
        if order * np.log2(vocab_size + 1) >= 63:
            raise ConfigError(f"{order}-grams over {vocab_size} ids do not fit in 63 bits")
        self.order, self.vocab_size = order, vocab_size
        self.counts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # per order: sorted grams, how often
        self.contexts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        for n in range(1, order + 1):
            keys = np.concatenate([self._keys(document, n) for document in documents])
            grams, counts = np.unique(keys, return_counts=True)
            contexts, starts = np.unique(grams // (vocab_size + 1), return_index=True)  # grams are sorted by context
            totals = np.add.reduceat(counts, starts) if len(grams) else counts
            kinds = np.diff(np.append(starts, len(grams)))
            self.counts.append((grams, counts))
            self.contexts.append((contexts, totals, kinds))

    def _keys(self, document: NDArray[np.integer], n: int) -> NDArray[np.int64]:
        """(N,) each token with the n - 1 before it as one number; 0 stands before the start."""
        ids = document.astype(np.int64) + 1
        padded = np.concatenate((np.zeros(n - 1, dtype=np.int64), ids))
        keys = np.zeros(len(ids), dtype=np.int64)
        for place in range(n):
            keys = keys * (self.vocab_size + 1) + padded[place : place + len(ids)]
        return keys

    def losses(self, document: NDArray[np.integer]) -> NDArray[np.float64]:
        """(N,) -log p of each token, in nats."""
        probability = np.full(len(document), 1.0 / self.vocab_size)
        for n, (grams, counts), (contexts, totals, kinds) in zip(
            range(1, self.order + 1), self.counts, self.contexts, strict=True
        ):
            keys = self._keys(document, n)
            seen = _look_up(grams, counts, keys)
            context = keys // (self.vocab_size + 1)
            total, kind = _look_up(contexts, totals, context), _look_up(contexts, kinds, context)
            weight = np.maximum(total + kind, 1)  # a context never seen leaves the order below as it is
            probability = np.where(total > 0, (seen + kind * probability) / weight, probability)
        nats: NDArray[np.float64] = -np.log(probability)
        return nats


def _look_up(keys: NDArray[np.int64], values: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """`values` of the `wanted` among sorted `keys`, 0 for those not there."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


def xz_bits_per_byte(text: bytes) -> float:
    """What `xz -9` needs, in bits for each byte of text: a compressor that knows nothing beforehand."""
    return 8 * len(lzma.compress(text, preset=9)) / len(text)
