"""Log-probabilities of given continuations under a model.

Shapes: `B` rows, `T` positions, `D` d_model, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.model import Transformer
from suite.sampling.decoding import like_lengths
from suite.sampling.row_cache import RowCache


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
    read = RowCache(config, 1, len(prompt), device, weight.dtype)
    both_ways = torch.tensor([prefix], device=device) if prefix else None
    hidden = transformer.hidden(torch.tensor([list(prompt)], device=device), prefix=both_ways, cache=read)
    first = transformer.logits(hidden[:, -1:])  # (1, 1, V)
    opening = first[0, 0].log_softmax(dim=-1).cpu()  # (V,) of the token after the prompt
    found: dict[int, Tensor] = {}
    groups = like_lengths([len(continuation) for continuation in continuations])
    for places in (group[start : start + batch] for group in groups for start in range(0, len(group), batch)):
        rows = [torch.tensor(list(continuations[place])) for place in places]
        lengths = [len(row) - 1 for row in rows]
        later = [torch.empty(0)] * len(rows)
        if any(lengths):
            tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)  # (B, T)
            cache = RowCache(config, len(rows), len(prompt) + tokens.shape[1] - 1, device, weight.dtype)
            cache.put(range(len(rows)), read, [0] * len(rows))
            hidden = transformer.hidden(tokens[:, :-1], cache=cache, lengths=lengths)  # (B, T - 1, D)
            real = [states[:length] for states, length in zip(hidden, lengths, strict=True)]
            logits = transformer.logits(torch.cat(real))  # (tokens that are not padding, V)
            targets = torch.cat([row[1:] for row in rows]).to(device)
            losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none").cpu()
            later = list(torch.split_with_sizes(losses.neg(), lengths))
        for place, row, scores in zip(places, rows, later, strict=True):
            found[place] = torch.cat((opening[row[:1]], scores))
    return [found[place] for place in range(len(continuations))]
