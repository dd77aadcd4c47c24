"""Incremental decoding of a batch: prefill once, then a step for each new token.

Callers need not care about the cache's limits. Models with rotary or relative positions slide: the cache is a ring.
Learned positions end at the context, so a full row is read again from its latest tokens: see `window_start`.

Shapes: `B` rows, `T` positions, `V` vocabulary, `D` d_model.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.model.cache import KVCache
from suite.model.config import ModelConfig
from suite.model.step.choice import Stepper
from suite.model.transformer import Transformer
from suite.sampling.row_cache import RowCache

Step = Callable[[Transformer, Tensor, KVCache], Tensor]
PADDING = 0.1  # positions of padding in a group of prompts, as a share of their tokens
FREE_POSITIONS = 2048  # positions of padding that cost a GPU less than another pass
SHARED = 16  # tokens that prompts must have in common to be read once for all of them
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


def reach(config: ModelConfig) -> int:
    """Number of latest tokens that the logits after a row depend on, in a model that slides.

    A layer sees `context` tokens or its window, and with them what they saw. No limit where the start of a row must not
    move: blocks of compressed keys begin at multiples of the stride, and positions may restart after a prefix.
    """
    if config.compresses or config.restart_positions:
        return sys.maxsize
    return 1 + sum((config.window(layer) or config.context) - 1 for layer in range(config.n_layer))


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

    @torch.no_grad()
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
        self.cache = RowCache(config, len(windows), capacity, self.device, self.dtype)
        sources, last = self._read(windows, prefixes, chunk)
        return self.transformer.logits(last)[sources]  # (B, V)

    @torch.no_grad()
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

    def reorder(self, rows: Sequence[int], shared: Sequence[int] | None = None) -> None:
        """Replace row `i` by the old row `rows[i]`; the new batch size is `len(rows)`.

        Args:
            rows: the old rows.
            shared: for each new row, the number of leading tokens that the old row `i` has in common with the old row
                `rows[i]`, prompt included; they are not copied again. None: none are known.
        """
        rows = self._fill(rows)
        if rows == list(range(len(self.tokens))):
            return
        if shared is not None and self.cache.seen != [len(tokens) for tokens in self.tokens]:
            shared = None  # a window of the tokens is in the cache, and its slots do not count from the first
        self.cache.reorder(rows, shared)
        self.tokens = [list(self.tokens[row]) for row in rows]
        self.prefixes = [self.prefixes[row] for row in rows]

    def _fill(self, items: Sequence[int]) -> list[int]:
        """Pad `items` to the batch size of a compiled step with copies of the last item; otherwise no change."""
        missing = len(self.tokens) - len(items) if self.compile else 0
        return [*items, *[items[-1]] * missing]

    def _window(self, tokens: list[int], length: int) -> list[int]:
        """The tokens that the model still sees when the sequence is `length` tokens long."""
        return tokens[self._start(length) :]

    def _start(self, length: int) -> int:
        """Index of the first token of a row that is read when the row is `length` tokens long."""
        config = self.transformer.config
        return window_start(length, config.context) if self.learned else max(0, length - reach(config))

    def _prefix(self, row: int, length: int) -> int:
        """The number of prefix tokens of a row that lie in the window of a sequence of `length` tokens."""
        return max(0, self.prefixes[row] - self._start(length))

    def _restart(self, row: int) -> None:
        """Make room in a full row by reading its latest tokens again, from position 0."""
        length = len(self.tokens[row]) + 1  # with the token that no longer fits
        window = self._window(self.tokens[row], length)
        self.cache.rewind(row, 0)
        if window:  # empty only for a context of one token
            cache = KVCache(self.transformer.config, 1, len(window), self.device, self.dtype)
            self._feed([window], [self._prefix(row, length)], cache, len(window))
            self.cache.copy_row(row, cache)

    def _read(self, rows: list[list[int]], prefixes: list[int], chunk: int) -> tuple[list[int], Tensor]:
        """Fill the empty cache with whole rows: equal rows once, those of like length together.

        Returns:
            for each row its place among the different rows, and the hidden states (different rows, D) of their last
            tokens.
        """
        places: dict[tuple[int, tuple[int, ...]], int] = {}
        sources = [
            places.setdefault((prefix, tuple(row)), len(places)) for prefix, row in zip(prefixes, rows, strict=True)
        ]
        firsts = [sources.index(place) for place in range(len(places))]  # the row in which each of them stands first
        head = self._head([rows[row] for row in firsts], [prefixes[row] for row in firsts], chunk)
        slack = 0 if self.device.type == "cpu" else FREE_POSITIONS
        last: list[Tensor] = [torch.empty(0)] * len(firsts)
        for group in like_lengths([len(rows[row]) for row in firsts], slack):
            chosen = [firsts[place] for place in group]
            part = self.cache.part(chosen, max(len(rows[row]) for row in chosen))
            if head is not None:
                part.put(range(len(chosen)), head, [0] * len(chosen))
            states = self._feed([rows[row] for row in chosen], [prefixes[row] for row in chosen], part, chunk)
            self.cache.put(chosen, part, range(len(chosen)))
            for place, state in zip(group, states, strict=True):
                last[place] = state
        again = [row for row, place in enumerate(sources) if firsts[place] != row]
        if again:
            self.cache.put(again, self.cache, [firsts[sources[row]] for row in again])
        return sources, torch.stack(last)

    def _head(self, rows: list[list[int]], prefixes: list[int], chunk: int) -> RowCache | None:
        """A cache of one row with the tokens that all rows begin with; None if they are not worth a pass."""
        longest = max(map(len, rows))
        if len(rows) == 1 or any(prefixes) or longest > self.cache.capacity or self.transformer.config.compresses:
            return None
        extremes = zip(min(rows), max(rows), strict=False)  # in the order of tokens: what both begin with, all do
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], extremes)
        common = min(sum(1 for _ in same), min(map(len, rows)) - 1)
        if common < SHARED:
            return None
        head = RowCache(self.transformer.config, 1, common, self.device, self.dtype)
        self._feed([rows[0][:common]], [0], head, chunk)
        return head

    def _feed(self, rows: list[list[int]], prefixes: list[int], cache: KVCache, chunk: int) -> Tensor:
        """Feed what is left of whole rows to a cache, in which all have the same number of tokens.

        Returns:
            (B, D) the hidden states of the rows' last tokens.
        """
        lengths, begin = [len(row) for row in rows], cache.seen[0]
        longest = max(lengths)
        tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=self.device)  # (B, T)
        prefix = torch.tensor(prefixes, device=self.device) if any(prefixes) else None
        # padding that no later token overwrites or looks at may be read like tokens, and rows that are aligned are
        # read faster; `hold` forgets it
        aligned = isinstance(cache, RowCache) and not cache.compresses and longest <= cache.capacity
        last = None  # (B, D)
        for start in range(begin, longest, chunk):
            part = tokens[:, start : start + chunk]
            real = None if aligned else [min(max(length - start, 0), part.shape[1]) for length in lengths]
            hidden = self.transformer.hidden(part, prefix=prefix, cache=cache, lengths=real)  # (B, T, D)
            prefix = None  # lies within the first pass
            ends = [length - 1 - start for length in lengths]
            if last is None and all(0 <= end < part.shape[1] for end in ends):
                last = hidden[range(len(rows)), ends]
                continue
            last = hidden[:, 0].clone() if last is None else last
            for row, end in enumerate(ends):
                if 0 <= end < part.shape[1]:
                    last[row] = hidden[row, end]
        if isinstance(cache, RowCache) and aligned:
            cache.hold(lengths)
        assert last is not None
        return last


def like_lengths(lengths: Sequence[int], slack: int = 0) -> Iterator[list[int]]:
    """Divide rows into groups in which padding to the longest is at most a tenth of the tokens, the longest first.

    Args:
        lengths: of the rows.
        slack: positions of padding that a group may have in any case.

    Returns:
        the rows of each group, rising.

    Example:
        >>> list(like_lengths([10, 50, 9, 48]))
        [[1, 3], [0, 2]]
    """
    group: list[int] = []
    real = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        padding = lengths[group[0]] * (len(group) + 1) - real - lengths[row] if group else 0
        if padding > max(slack, PADDING * (real + lengths[row])):
            yield sorted(group)
            group, real = [], 0
        group.append(row)
        real += lengths[row]
    if group:
        yield sorted(group)


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
