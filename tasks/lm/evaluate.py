"""How well a language model predicts text: nats, perplexity, bits per byte, beside counting and compressing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.checkpoint import Model
from suite.data.hub import to_evaluate
from suite.data.text import TokenDocuments, tokenize_corpus
from suite.errors import DataError
from suite.evaluation import NGrams, token_losses, xz_bits_per_byte
from suite.training.fit import cache_directory


def evaluate(
    model: Model,
    data: Sequence[str],
    *,
    train: Sequence[str] = (),
    stride: int | None = None,
    length: int | None = None,
    column: str = "text",
    cache: Path | None = None,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Loss of a model on text, beside baselines on the same text.

    The documents stand one after another, each ended by `<eos>`, which counts as a token; the first is preceded by
    one. Bits per byte divide by the UTF-8 bytes of the documents, so models with different vocabularies, and xz,
    compare.

    Args:
        model: to evaluate.
        data: files, folders, globs or data-set names; of a data set without a split in its name, its test split.
        train: text that the n-grams are counted on (none: each half of the documents by the counts of the other).
        stride: tokens from one window's start to the next (None: half of `length`); a token sees at least
            `length - stride` tokens before it.
        length: tokens in a window (None: the model's context).
        column: of records with several.
        cache: for the tokenised text (None: the user's cache).
        progress: called with the number of tokens just scored.

    Returns:
        plain values: `sources` (lines on splits that were chosen), `documents`, `tokens`, `bytes`, `length`, `stride`,
        and under `results` for each of "model", "unigram", "trigram" and "xz -9" its `nats_per_token`, `perplexity`
        and `bits_per_byte` (xz: the last alone).

    Raises:
        DataError: the model has no tokenizer, or there is no text.
    """
    if model.tokenizer is None:
        raise DataError(f"{model.name} has no tokenizer, so it cannot be evaluated on text")
    cache = cache or cache_directory()
    sources, told = to_evaluate(data)
    documents = tokenize_corpus(sources, model.tokenizer, cache, column=column)
    stream = np.asarray(documents.tokens, dtype=np.int64)
    if model.tokenizer.eos is not None:
        stream = np.concatenate(([model.tokenizer.eos], stream))
    length = length or model.config.context
    stride = stride or max(1, length // 2)
    losses = token_losses(model.transformer, stream, stride=stride, length=length, progress=progress)
    results: dict[str, dict[str, float]] = {"model": _figures(losses, documents.bytes)}
    counted = tokenize_corpus(list(train), model.tokenizer, cache, column=column) if train else None
    for order, name in ((1, "unigram"), (3, "trigram")):
        counts = _ngram_losses(documents, counted, order, model.tokenizer.vocab_size)
        results[name] = _figures(counts, documents.bytes)
    text = "".join(model.tokenizer.decode(documents[place]) for place in range(len(documents)))
    results["xz -9"] = {"bits_per_byte": xz_bits_per_byte(text.encode())}
    return {
        "model": model.name,
        "sources": told,
        "documents": len(documents),
        "tokens": len(losses),
        "bytes": documents.bytes,
        "length": length,
        "stride": stride,
        "ngrams_counted_on": list(train) or "the other half of the same text",
        "results": results,
    }


def _figures(losses: NDArray[np.floating[Any]], size: int) -> dict[str, float]:
    mean = float(losses.mean(dtype=np.float64))
    return {
        "nats_per_token": mean,
        "perplexity": math.exp(mean),
        "bits_per_byte": float(losses.sum(dtype=np.float64)) / math.log(2) / size,
    }


def _ngram_losses(
    documents: TokenDocuments, counted: TokenDocuments | None, order: int, vocab_size: int
) -> NDArray[np.float64]:
    """-log p of every token by n-grams counted elsewhere."""
    texts = [documents[place] for place in range(len(documents))]
    if len(texts) == 1:  # one long text: its two halves
        middle = len(texts[0]) // 2
        texts = [texts[0][:middle], texts[0][middle:]]
    if counted is not None:
        model = NGrams([counted[place] for place in range(len(counted))], order, vocab_size)
        return np.concatenate([model.losses(text) for text in texts])
    halves = (texts[::2], texts[1::2])
    return np.concatenate(
        [NGrams(other, order, vocab_size).losses(text) for half, other in (halves, halves[::-1]) for text in half]
    )
