"""Log-probabilities of given continuations under a model.

Shapes: `B` rows, `T` positions, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.model import KVCache, Transformer


@torch.inference_mode()
def continuation_logprobs(
    transformer: Transformer,
    prompt: Sequence[int],
    continuations: Sequence[Sequence[int]],
    *,
    prefix: int = 0,
    batch: int = 32,
) -> list[Tensor]:
    """Log-probabilities of the tokens of each continuation of a prompt; the prompt is read once.

    Args:
        transformer: must be in evaluation mode if it has dropout.
        prompt: token ids, at least one.
        continuations: token ids, at least one for each. With learned positions, prompt and continuation must fit into
            the context.
        prefix: number of leading tokens of the prompt that attend to each other in both directions.
        batch: number of continuations per forward pass; each needs a copy of the prompt's KV cache.

    Returns:
        for each continuation of `n` tokens, (n,) log-probabilities in nats, on the CPU.

    Raises:
        SuiteError: the prompt or a continuation is empty, or a continuation goes past the last learned position.
    """
    if not len(prompt) or not all(map(len, continuations)):
        raise SuiteError("a prompt and each of its continuations need at least one token to be scored")
    config, weight = transformer.config, transformer.norm.weight
    assert isinstance(weight, Tensor)
    device = weight.device
    read = KVCache(config, 1, len(prompt), device, weight.dtype)
    both_ways = torch.tensor([prefix], device=device) if prefix else None
    hidden = transformer.hidden(torch.tensor([list(prompt)], device=device), prefix=both_ways, cache=read)
    first = transformer.logits(hidden[:, -1:])  # (1, 1, V)
    found: dict[int, Tensor] = {}
    order = sorted(range(len(continuations)), key=lambda place: len(continuations[place]))
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        rows = [torch.tensor(list(continuations[place])) for place in places]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)  # (B, T)
        logits = first.expand(len(rows), 1, -1)  # (B, 1, V)
        if tokens.shape[1] > 1:
            cache = KVCache(config, len(rows), len(prompt) + tokens.shape[1] - 1, device, weight.dtype)
            for row in range(len(rows)):
                cache.copy_row(row, read)
            later = transformer(tokens[:, :-1], cache=cache, lengths=[len(row) - 1 for row in rows])
            logits = torch.cat([logits, later], dim=1)  # (B, T, V)
        losses = torch.nn.functional.cross_entropy(logits.mT, tokens, reduction="none").cpu()  # (B, T)
        found.update({place: -losses[row, : len(rows[row])] for row, place in enumerate(places)})
    return [found[place] for place in range(len(continuations))]
