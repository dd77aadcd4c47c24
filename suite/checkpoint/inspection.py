"""Looking inside a loaded model: what `Model.trace` and its companions do.

Shapes: `T` positions, `H` heads, `D` d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from suite.errors import DataError
from suite.model.trace import Trace, trace

if TYPE_CHECKING:
    from suite.checkpoint.model import Model

Given = str | Sequence[int] | Tensor
ROWS = 256  # positions whose logits are in memory at a time


def token_ids(model: Model, given: Given) -> list[int]:
    """Token ids of a text, or those given.

    Raises:
        DataError: there are none, or a text was given and the model has no tokenizer.
    """
    if not isinstance(given, str):
        ids = [int(token) for token in given]
    elif model.tokenizer is None:
        raise DataError(f"{model.name} has no tokenizer, so it reads tokens and no text")
    else:
        ids = model.tokenizer.encode(given)
    if not ids:
        raise DataError("there is nothing to look into: the text is empty")
    if wrong := [token for token in ids if not 0 <= token < model.config.vocab_size]:
        raise DataError(f"token {wrong[0]} is not in the vocabulary of {model.config.vocab_size}")
    return ids


def trace_model(model: Model, given: Given, **options: Any) -> Trace:
    """As `Model.trace`."""
    return trace(model.transformer, token_ids(model, given), **options)


def hidden_states(model: Model, given: Given, prefix: int) -> Tensor:
    """As `Model.hidden_states`."""
    found = trace_model(model, given, prefix=prefix, keep="residual").residual
    return torch.stack([found[layer] for layer in sorted(found)])


def attentions(model: Model, given: Given, prefix: int) -> Tensor:
    """As `Model.attentions`."""
    found = trace_model(model, given, prefix=prefix, keep="weights")
    return torch.stack([found.weights_by_position(layer) for layer in sorted(found.weights)])


def logprobs(model: Model, given: Given, prefix: int) -> Tensor:
    """As `Model.logprobs`."""
    ids = token_ids(model, given)
    hidden = trace(model.transformer, ids, prefix=prefix, keep="hidden").hidden
    assert hidden is not None
    targets = torch.tensor(ids[1:], device=hidden.device)
    pieces = [hidden.new_empty(0, dtype=torch.float32)]
    with torch.no_grad():
        for start in range(0, len(targets), ROWS):
            some = targets[start : start + ROWS, None]
            logits = model.transformer.logits(hidden[start : start + len(some)])  # (ROWS, V)
            pieces.append(logits.log_softmax(dim=-1).gather(-1, some)[:, 0])
    return torch.cat(pieces)


def bertviz(model: Model, given: Given, prefix: int) -> dict[str, Any]:
    """As `Model.bertviz`."""
    ids = token_ids(model, given)
    tokenizer = model.tokenizer
    names = [str(token) if tokenizer is None else tokenizer.token_text(token) for token in ids]
    return {"attention": tuple(weights[None] for weights in attentions(model, ids, prefix)), "tokens": names}
