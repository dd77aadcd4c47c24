"""Evaluation of a language model on text: nats, perplexity, bits per byte, compared with n-grams and xz."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.checkpoint import Model
from suite.data.hub import to_evaluate
from suite.data.text import TokenDocuments, tokenize_corpus
from suite.errors import DataError
from suite.evaluation import Figure, NGrams, Report, Table, token_losses, xz_bits_per_byte
from suite.files import cache_directory
from suite.task.kit.prepare import spread
from suite.tasks.lm.options import LMEvalOptions
from suite.text.tokenizer import Tokenizer
from suite.wording import count

DEFAULTS = LMEvalOptions()
COLUMNS = {"nats_per_token": 4, "perplexity": 2, "bits_per_byte": 4}  # digits after the point


def evaluate(
    model: Model,
    data: Sequence[str],
    options: LMEvalOptions = DEFAULTS,
    *,
    cache: Path | None = None,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """Loss of a model on text, compared with baselines on the same text.

    The documents are concatenated, each followed by `<eos>`, which counts as a token; another `<eos>` precedes the
    first, or what the model's tokenizer puts in front of a text. Bits per byte divide by the UTF-8 bytes of the
    documents, so that models with different vocabularies, and xz, can be compared.

    Args:
        model: to evaluate.
        data: files, folders, globs or data-set names; of a data set without a split in its name, its test split.
        options: windows, baselines, and which part of the text to use.
        cache: for the tokenised text (None: the user's cache).
        progress: called with the number of tokens just scored.

    Returns:
        a report; its `data` has `sources` (lines on splits that were chosen), `documents`, `tokens`, `bytes`, `length`,
        `stride`, and under `results` for each of "model", "unigram", "trigram" and "xz -9" its `nats_per_token`,
        `perplexity` and `bits_per_byte` (xz: only the last).

    Raises:
        DataError: the model has no tokenizer, or there is no text.
    """
    if model.tokenizer is None:
        raise DataError(f"{model.name} has no tokenizer, so it cannot be evaluated on text")
    cache = cache or cache_directory()
    sources, told = to_evaluate(data)
    documents = tokenize_corpus(sources, model.tokenizer, cache, column=options.column)
    documents = documents.take(spread(range(len(documents)), options.limit))
    stream = np.asarray(documents.tokens, dtype=np.int64)
    # what a text begins with; as documents are joined, only the first has it
    start = model.tokenizer.opening or (() if model.tokenizer.eos is None else (model.tokenizer.eos,))
    stream = np.concatenate((np.array(start, dtype=np.int64), stream))
    length = options.length or model.config.context
    stride = options.stride or max(1, length // 2)
    losses = token_losses(model.transformer, stream, stride=stride, length=length, progress=progress)
    train = list(options.train)
    counted = tokenize_corpus(train, model.tokenizer, cache, column=options.column) if train else None
    return _report(
        {
            "model": model.name,
            "sources": told,
            "documents": len(documents),
            "tokens": len(losses),
            "bytes": documents.bytes,
            "length": length,
            "stride": stride,
            "ngrams_counted_on": train or "the other half of the same text",
            "results": {
                "model": _figures(losses, documents.bytes),
                **_baselines(documents, counted, model.tokenizer),
            },
        }
    )


def _report(data: Mapping[str, Any]) -> Report:
    rows = [
        (
            data["model"] if name == "model" else name,
            [Figure(value=figures[key], digits=digits) if key in figures else "" for key, digits in COLUMNS.items()],
        )
        for name, figures in data["results"].items()
    ]
    note = (
        f"{count(data['documents'], 'document')}, {count(data['tokens'], 'token')}, {count(data['bytes'], 'byte')}; "
        f"windows of {count(data['length'], 'token')} every {data['stride']:,}"
    )
    table = Table(columns=["nats/token", "perplexity", "bits/byte"], rows=rows)
    return Report(data=data, tables=[table], notes=[*data["sources"], note])


def _figures(losses: NDArray[np.floating[Any]], size: int) -> dict[str, float]:
    mean = float(losses.mean(dtype=np.float64))
    return {
        "nats_per_token": mean,
        "perplexity": math.exp(mean),
        "bits_per_byte": float(losses.sum(dtype=np.float64)) / math.log(2) / size,
    }


def _baselines(
    documents: TokenDocuments, counted: TokenDocuments | None, tokenizer: Tokenizer
) -> dict[str, dict[str, float]]:
    found = {}
    for order, name in ((1, "unigram"), (3, "trigram")):
        found[name] = _figures(_ngram_losses(documents, counted, order, tokenizer.vocab_size), documents.bytes)
    text = "".join(tokenizer.decode(document) for document in documents)
    return found | {"xz -9": {"bits_per_byte": xz_bits_per_byte(text.encode())}}


def _ngram_losses(
    documents: TokenDocuments, counted: TokenDocuments | None, order: int, vocab_size: int
) -> NDArray[np.float64]:
    """-log p of every token under n-grams, counted on other text."""
    texts = list(documents)
    if len(texts) == 1:  # a single long text is split in two halves
        middle = len(texts[0]) // 2
        texts = [texts[0][:middle], texts[0][middle:]]
    if counted is not None:
        model = NGrams(list(counted), order, vocab_size)
        return np.concatenate([model.losses(text) for text in texts])
    halves = (texts[::2], texts[1::2])
    return np.concatenate(
        [NGrams(other, order, vocab_size).losses(text) for half, other in (halves, halves[::-1]) for text in half]
    )
