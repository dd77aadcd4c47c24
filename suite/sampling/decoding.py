"""Incremental decoding of a batch: prefill once, then a step for each new token.

Callers need not care about the cache's limits. Models with rotary or relative positions slide: the cache is a ring.
Learned positions end at the context, so a full row is read again from its latest tokens: see `window_start`.

Shapes: `B` rows, `T` positions, `V` vocabulary, `D` d_model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.model.cache import KVCache
from suite.model.step.choice import Stepper
from suite.model.transformer import Transformer

Step = Callable[[Transformer, Tensor, KVCache], Tensor]
COMPILED_SLOTS = 256  # a compiled step's cache capacity is a multiple of this, so that few sizes are compiled


def window_start(length: int, context: int) -> int:
    """Index of the first token that a model with learned positions still sees in a sequence of `length` tokens.

    A sequence within the context is seen whole. The first token past it restarts the row: the `context // 2` tokens
    before it are read again, from position 0, which leaves the other half for new tokens. The start depends on the
    length alone, not on which tokens came from the prompt and which were generated.

    Example:
        >>> [window_start(length, context=8) for length in (8, 9, 12, 13)]
        [0, 4, 4, 8]
    """
    stride = context - context // 2
    return -(-max(0, length - context) // stride) * stride


def decoding_step(transformer: Transformer, tokens: Tensor, cache: KVCache) -> Tensor:
    """Feed one new token per row (B, 1); returns the logits (B, V) of the next token."""
    logits: Tensor = transformer(tokens, cache=cache)  # (B, 1, V)
    return logits[:, -1]


@functools.cache
def compiled_step() -> Step:
    """`decoding_step`, compiled once for each combination of batch size and cache capacity."""
    return torch.compile(decoding_step, dynamic=False)


class Decoding:
    """A batch of token sequences being continued, with its KV cache.

    Args:
        transformer: must be in evaluation mode if it has dropout.
        prompts: (B,) sequences of token ids, none of them empty.
        prefixes: per prompt, the number of leading tokens that attend to each other in both directions (None: 0).
        max_new_tokens: maximum number of tokens that `step` will append to a row.
        prefill_chunk: maximum number of tokens of each prompt read in a forward pass; a longer prefix is still read
            in one pass, and a model that will slide reads at most an eighth of its context.
        compile: whether `step` runs compiled; compiling takes about a minute at the first step of each new shape.
            Finished rows are then replaced by copies of others, because a new batch size would be a new shape.

    Attributes:
        tokens: for each row, the prompt and the appended tokens.

    Raises:
        SuiteError: the model cannot read a prompt, which the message names.
    """

    def __init__(
        self,
        transformer: Transformer,
        prompts: Sequence[Sequence[int]],
        prefixes: Sequence[int] | None,
        *,
        max_new_tokens: int,
        prefill_chunk: int,
        compile: bool = False,
    ) -> None:
        self.tokens = [list(map(int, prompt)) for prompt in prompts]
        check_prompts(self.tokens, prefixes, transformer.config.vocab_size)
        if transformer.training and transformer.config.dropout:
            raise SuiteError("the transformer is in training mode, and dropout would disturb it: call eval() first")
        if prefill_chunk < 1:
            raise SuiteError(f"prefill_chunk is {prefill_chunk}, but must be at least 1")
        self.transformer, self.compile = transformer, compile
        self.max_new_tokens, self.prefill_chunk = max_new_tokens, prefill_chunk
        self.prefixes = list(prefixes) if prefixes is not None else [0] * len(prompts)
        weight = transformer.norm.weight
        assert isinstance(weight, Tensor)
        self.device, self.dtype = weight.device, weight.dtype
        self.stepper = Stepper(transformer)

    @property
    def learned(self) -> bool:
        """Whether the model has learned positions, which end at the context."""
        return self.transformer.config.position == "learned"

    def prefill(self) -> Tensor:
        """Read the prompts; returns the logits (B, V) of the first new token of each."""
        windows = [self._window(tokens, len(tokens)) for tokens in self.tokens]
        prefixes = [self._prefix(row, len(tokens)) for row, tokens in enumerate(self.tokens)]
        longest = max(map(len, windows))
        config, total = self.transformer.config, longest + self.max_new_tokens
        slides = not self.learned and total > config.context
        # the ring holds a chunk more than the context, and every step attends to all of it
        chunk = min(self.prefill_chunk, max(1, config.context // 8)) if slides else self.prefill_chunk
        chunk = min(longest, max(chunk, *prefixes))
        capacity = min(total, config.context + chunk - 1 if slides else config.context)
        if self.compile:
            capacity = -(-capacity // COMPILED_SLOTS) * COMPILED_SLOTS
        self.cache = KVCache(config, len(windows), capacity, self.device, self.dtype)
        return self._read(windows, prefixes, self.cache, chunk)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Append a token to each row; returns the logits (B, V) of the next token."""
        context = self.transformer.config.context
        if self.learned and max(self.cache.seen) == context:
            for row, seen in enumerate(self.cache.seen):
                if seen == context:
                    self._restart(row)
        fed = self._fill(tokens)
        for history, token in zip(self.tokens, fed, strict=True):
            history.append(token)
        if not self.compile and (logits := self.stepper(fed, self.cache)) is not None:
            return logits  # (B, V)
        new = torch.tensor([[token] for token in fed], device=self.device)  # (B, 1)
        if not self.compile:
            return decoding_step(self.transformer, new, self.cache)  # (B, V)
        self.cache.static = True
        logits = compiled_step()(self.transformer, new, self.cache)  # (B, V)
        self.cache.static = False
        self.cache.advance([1] * len(fed))
        return logits[: len(tokens)]

    def reorder(self, rows: Sequence[int]) -> None:
        """Replace row `i` by the old row `rows[i]`; the new batch size is `len(rows)`."""
        rows = self._fill(rows)
        if rows == list(range(len(self.tokens))):
            return
        self.cache.reorder(rows)
        self.tokens = [list(self.tokens[row]) for row in rows]
        self.prefixes = [self.prefixes[row] for row in rows]

    def _fill(self, items: Sequence[int]) -> list[int]:
        """Pad `items` to the batch size of a compiled step with copies of the last item; otherwise no change."""
        missing = len(self.tokens) - len(items) if self.compile else 0
        return [*items, *[items[-1]] * missing]

    def _window(self, tokens: list[int], length: int) -> list[int]:
        """The tokens that the model still sees when the sequence is `length` tokens long."""
        return tokens[window_start(length, self.transformer.config.context) :] if self.learned else tokens

    def _prefix(self, row: int, length: int) -> int:
        """The number of prefix tokens of a row that lie in the window of a sequence of `length` tokens."""
        if not self.learned:
            return self.prefixes[row]
        return max(0, self.prefixes[row] - window_start(length, self.transformer.config.context))

    def _restart(self, row: int) -> None:
        """Make room in a full row by reading its latest tokens again, from position 0."""
        length = len(self.tokens[row]) + 1  # with the token that no longer fits
        window = self._window(self.tokens[row], length)
        self.cache.rewind(row, 0)
        if window:  # empty only for a context of one token
            cache = KVCache(self.transformer.config, 1, len(window), self.device, self.dtype)
            self._read([window], [self._prefix(row, length)], cache, len(window))
            self.cache.copy_row(row, cache)

    def _read(self, rows: list[list[int]], prefixes: list[int], cache: KVCache, chunk: int) -> Tensor:
        """Feed whole rows to an empty cache, `chunk` tokens of each per pass; returns the next logits (B, V)."""
        lengths = [len(row) for row in rows]
        tokens = torch.zeros(len(rows), max(lengths), dtype=torch.long)
        for row, ids in zip(tokens, rows, strict=True):
            row[: len(ids)] = torch.tensor(ids)
        tokens = tokens.to(self.device)  # (B, T)
        prefix = torch.tensor(prefixes, device=self.device) if any(prefixes) else None
        last: list[Tensor | None] = [None] * len(rows)  # (D,) for each row: hidden state of its last token
        for start in range(0, tokens.shape[1], chunk):
            part = tokens[:, start : start + chunk]
            real = [min(max(length - start, 0), part.shape[1]) for length in lengths]
            hidden = self.transformer.hidden(part, prefix=prefix, cache=cache, lengths=real)  # (B, T, D)
            prefix = None  # lies within the first pass
            for row, length in enumerate(lengths):
                if start < length <= start + chunk:
                    last[row] = hidden[row, length - 1 - start]
        return self.transformer.logits(torch.stack([state for state in last if state is not None]))  # (B, V)


def check_prompts(prompts: Sequence[Sequence[int]], prefixes: Sequence[int] | None, vocab_size: int) -> None:
    """Raise a SuiteError that names the first prompt that the model cannot read."""
    if prefixes is not None and len(prefixes) != len(prompts):
        raise SuiteError(f"{len(prefixes)} prefix lengths were given for {len(prompts)} prompts")
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise SuiteError(f"prompt {number} is empty; a model needs at least one token to start from")
        for token in (min(prompt), max(prompt)):
            if not 0 <= token < vocab_size:
                raise SuiteError(
                    f"prompt {number} has the token id {token}, but the model's ids are 0 to {vocab_size - 1}"
                )
        if prefixes is not None and not 0 <= prefixes[number] <= len(prompt):
            raise SuiteError(f"prompt {number} has {len(prompt)} tokens and a prefix of {prefixes[number]}")
