"""Questions about a text: its tokens, the next token, and how surprising each was.

Shapes: `T` positions, `V` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from suite.checkpoint import Model
from suite.errors import ConfigError, DataError
from suite.sampling import Sampling
from suite.sampling.rules import apply_rules, draw, exact
from suite.text.tokenizer import Tokenizer
from suite.wording import count

SHOWN = 10  # bars
ALTERNATIVES = 5  # beside each token that was read
LONGEST_READ = 4096  # tokens
LONGEST_LOOK = 1024  # tokens of which all pairs are compared


def tokenizer_of(model: Model) -> Tokenizer:
    """The model's tokenizer.

    Raises:
        DataError: it has none.
    """
    if model.tokenizer is None:
        raise DataError(f"{model.name} has no tokenizer, so it reads no text; choose another model")
    return model.tokenizer


def text_of(asked: Mapping[str, Any], name: str = "text") -> str:
    """A text from the request."""
    text = asked.get(name, "")
    if not isinstance(text, str):
        raise DataError(f"{name} is {type(text).__name__}, not text")
    return text


def number(asked: Mapping[str, Any], name: str, default: float) -> float:
    """A number from the request."""
    value = asked.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{name} is {value!r}, not a number")
    return value


def whole(asked: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """A whole number from 0 to `most` from the request."""
    value = number(asked, name, default)
    if value != int(value) or not 0 <= value <= most:
        raise ConfigError(f"{name} is {value:g}, but must be a whole number from 0 to {most:,}")
    return int(value)


def ids_of(model: Model, asked: Mapping[str, Any], *, most: int) -> list[int]:
    """Token ids of the request's text, followed by those it names itself; an empty text is `<eos>`.

    Raises:
        DataError: there are more than `most`, or an id is not in the vocabulary.
    """
    tokenizer = tokenizer_of(model)
    ids = tokenizer.encode(text_of(asked)) or ([] if tokenizer.eos is None else [tokenizer.eos])
    added = asked.get("tokens", [])
    if not isinstance(added, list) or any(isinstance(one, bool) or not isinstance(one, int) for one in added):
        raise DataError("tokens must be a list of ids")
    ids = [*ids, *added]
    if wrong := [one for one in added if not 0 <= one < tokenizer.vocab_size]:
        raise DataError(f"token {wrong[0]} is not in the vocabulary of {tokenizer.vocab_size:,}")
    if not ids:
        raise DataError("there is nothing to read; write something")
    if len(ids) > most:
        raise DataError(f"the text has {count(len(ids), 'token')}, but this view reads at most {most:,}")
    return ids


def pieces(model: Model, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Tokens for the page: id and text."""
    tokenizer = tokenizer_of(model)
    special = set(tokenizer.specials.values())
    return [{"id": one, "text": label(tokenizer, one), "special": one in special} for one in ids]


def label(tokenizer: Tokenizer, id: int) -> str:
    """A token's text, also of an id that only pads the vocabulary."""
    return tokenizer.token_text(id) if id < tokenizer.vocab_size else f"<{id}>"


def device_of(model: Model) -> torch.device:
    """Where the model's weights are."""
    return next(model.transformer.parameters()).device


def next_token(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The likeliest next tokens with their true probabilities, and what the sampling settings leave of them."""
    ids = ids_of(model, asked, most=LONGEST_READ)
    sampling = Sampling(
        temperature=number(asked, "temperature", 1.0),
        top_k=whole(asked, "top_k", 0, model.config.vocab_size),
        top_p=number(asked, "top_p", 1.0),
    )
    seen = torch.tensor([ids[-model.config.context :]], device=device_of(model))
    with torch.inference_mode():
        logits = exact(model.transformer.logits(model.transformer.hidden(seen)[0, -1])).double()  # (V,)
        probabilities = logits.softmax(dim=-1)
        ruled = apply_rules(logits[None], sampling)[0]
        if sampling.greedy:
            left = torch.zeros_like(logits)
            left[ruled.argmax()] = 1.0
        else:
            left = ruled.softmax(dim=-1)
        drawn = None
        if "seed" in asked:
            generator = torch.Generator().manual_seed(whole(asked, "seed", 0, 2**53) + len(ids))
            uniform = torch.rand(1, generator=generator, dtype=torch.float64)
            drawn = int(draw(left.log()[None].cpu(), uniform)[0])
    values, tokens = probabilities.topk(min(SHOWN, len(probabilities)))
    tokenizer, kept = tokenizer_of(model), left > 0
    return {
        "prompt": pieces(model, ids),
        "context": model.config.context,
        "top": [
            {"id": one, "text": label(tokenizer, one), "p": value, "q": float(left[one]), "special": special}
            for one, value, special in zip(
                tokens.tolist(), values.tolist(), _specials(tokenizer, tokens.tolist()), strict=True
            )
        ],
        "rest": {
            "p": max(0.0, 1.0 - float(values.sum())),
            "q": max(0.0, 1.0 - float(left[tokens].sum())),
            "n": len(probabilities) - len(values),
        },
        "cut": {"n": int((~kept).sum()), "p": float(probabilities[~kept].sum())},
        "entropy": float(-(probabilities * probabilities.clamp_min(1e-300).log2()).sum()),
        "eos": tokenizer.eos,
        "drawn": None if drawn is None else {"id": drawn, "text": label(tokenizer, drawn)},
    }


def _specials(tokenizer: Tokenizer, ids: Sequence[int]) -> list[bool]:
    special = set(tokenizer.specials.values())
    return [one in special for one in ids]


def read(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """How surprising each token of a text was: bits, rank, and what the model expected instead.

    A text longer than the context is read in windows that overlap by half of it.
    """
    tokenizer = tokenizer_of(model)
    ids = tokenizer.encode(text_of(asked))
    if not ids:
        raise DataError("there is nothing to read; write something")
    if len(ids) > LONGEST_READ:
        raise DataError(f"the text has {count(len(ids), 'token')}, but this view reads at most {LONGEST_READ:,}")
    start = [] if tokenizer.eos is None else [tokenizer.eos]
    sequence = [*start, *ids]
    context = model.config.context
    found: list[dict[str, Any]] = [] if start else [_unpredicted()]
    known = 1  # tokens of the sequence that have a row, the first of them without a prediction
    while known < len(sequence):
        first = 0 if known == 1 else max(0, known - context // 2)
        window = sequence[first : first + context]
        logits = _logits(model, window, known - 1 - first)
        targets = torch.tensor(sequence[known : known + len(logits)], device=logits.device)
        found += _surprises(tokenizer, logits[: len(targets)], targets)
        known += len(targets)
    shown = [{**piece, **one} for piece, one in zip(pieces(model, ids), found, strict=True)]
    bits = sum(one["bits"] or 0.0 for one in found)
    size = sum(len(tokenizer.token_bytes(one)) for one in ids)
    return {"tokens": shown, "bits": bits, "bytes": size, "predicted": sum(one["bits"] is not None for one in found)}


def _unpredicted() -> dict[str, Any]:
    return {"bits": None, "rank": None, "entropy": None, "instead": []}


@torch.inference_mode()
def _logits(model: Model, window: Sequence[int], first: int) -> Tensor:
    """Logits (T - first, V) of what follows each token of a window from `first` on."""
    hidden = model.transformer.hidden(torch.tensor([list(window)], device=device_of(model)))[0, first:]
    return model.transformer.logits(hidden)


def _surprises(tokenizer: Tokenizer, logits: Tensor, targets: Tensor) -> list[dict[str, Any]]:
    logprobs = logits.log_softmax(dim=-1)  # (T, V)
    own = logprobs.gather(-1, targets[:, None])  # (T, 1)
    ranks = (logprobs > own).sum(dim=-1) + 1
    entropy = -(logprobs.exp() * logprobs).sum(dim=-1) / math.log(2)
    values, tokens = logprobs.topk(min(ALTERNATIVES, logprobs.shape[-1]), dim=-1)
    return [
        {
            "bits": round(-bits / math.log(2), 4),
            "rank": rank,
            "entropy": round(spread, 3),
            "instead": [
                {"text": label(tokenizer, one), "p": round(value, 6)} for one, value in zip(names, shares, strict=True)
            ],
        }
        for bits, rank, spread, names, shares in zip(
            own[:, 0].tolist(), ranks.tolist(), entropy.tolist(), tokens.tolist(), values.exp().tolist(), strict=True
        )
    ]
