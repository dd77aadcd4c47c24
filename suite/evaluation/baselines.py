"""Baselines for a language model: interpolated n-grams and the xz compressor.

Shapes: `N` tokens of a text.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from suite.errors import ConfigError


class NGrams:
    """Interpolated n-gram model over token ids, the baseline that only counts.

    Each order is interpolated with the order below by Witten and Bell's weights; below the unigrams every id is equally
    likely.

    Args:
        documents: training sequences of token ids; n-grams do not cross their borders.
        order: 1 for unigrams, 3 for trigrams.
        vocab_size: number of ids.

    Source: Witten and Bell 1991; interpolated as in Chen and Goodman 1999.
    """

    def __init__(self, documents: Sequence[NDArray[np.integer]], order: int, vocab_size: int) -> None:
        if order * np.log2(vocab_size + 1) >= 63:
            raise ConfigError(f"{order}-grams over {vocab_size} ids do not fit in 63 bits")
        self.order, self.vocab_size = order, vocab_size
        self.counts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # by order: sorted n-grams, counts
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
        """(N,) integers that encode each token with the n - 1 tokens before it; the start is padded with 0."""
        ids = document.astype(np.int64) + 1
        padded = np.concatenate((np.zeros(n - 1, dtype=np.int64), ids))
        keys = np.zeros(len(ids), dtype=np.int64)
        for place in range(n):
            keys = keys * (self.vocab_size + 1) + padded[place : place + len(ids)]
        return keys

    def losses(self, document: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return (N,) -log p of each token, in nats."""
        probability = np.full(len(document), 1.0 / self.vocab_size)
        for n, (grams, counts), (contexts, totals, kinds) in zip(
            range(1, self.order + 1), self.counts, self.contexts, strict=True
        ):
            keys = self._keys(document, n)
            seen = _look_up(grams, counts, keys)
            context = keys // (self.vocab_size + 1)
            total, kind = _look_up(contexts, totals, context), _look_up(contexts, kinds, context)
            weight = np.maximum(total + kind, 1)  # an unseen context keeps the probability of the order below
            probability = np.where(total > 0, (seen + kind * probability) / weight, probability)
        nats: NDArray[np.float64] = -np.log(probability)
        return nats


def _look_up(keys: NDArray[np.int64], values: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The value of each `wanted` key, 0 for missing keys; `keys` is sorted and `values` is parallel to it."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


def xz_bits_per_byte(text: bytes) -> float:
    """Compressed size of `text` under `xz -9`, in bits per byte: a compressor without any prior knowledge."""
    return 8 * len(lzma.compress(text, preset=9)) / len(text)
