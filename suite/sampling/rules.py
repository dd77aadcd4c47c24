"""Sampling rules, applied to the model's logits before a token is chosen: pure functions, logits -> logits.

A token that may not be chosen has the logit -inf. `apply_rules` applies the rules in this order:

1. a grammar's steering, if it steers, and its mask
2. logit bias
3. repetition penalty
4. no-repeat n-gram
5. temperature
6. top-k, min-p, top-p: a token must pass all cuts that are set

The cuts of step 6 are all measured on the same distribution, the whole vocabulary after steps 1 to 5, so their
order changes only the cost: top-p of 0.9 means 0.9 of that distribution whether or not top-k is set too.

Shapes: `B` rows, `V` vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.errors import ConfigError, require_numbers
from suite.sampling.largest import head, in_numpy, keep_largest, nucleus

Indices = Sequence[int] | NDArray[np.int64]
NEVER = torch.tensor(-torch.inf)  # the logit of a token that may not be chosen
NUCLEUS_GUESSES = (256, 4096)  # most nuclei are smaller, and taking the top 256 costs far less than sorting 50,000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. The default draws from the model's own distribution.

    Args:
        temperature: the logits are divided by it; 0 takes the likeliest token (greedy).
        top_k: keep exactly the k likeliest tokens; 0 keeps all.
        top_p: keep the fewest likeliest tokens that hold at least this much probability; 1 keeps all.
            Source: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".
        min_p: keep tokens at least this likely relative to the likeliest; 0 keeps all.
            Source: Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling".
        repetition_penalty: makes tokens that were seen before less likely; 1 does nothing.
            Source: Keskar et al. 2019, "CTRL".
        no_repeat_ngram: n; no n-gram of tokens occurs twice. 0 turns this off. Source: Paulus et al. 2017.
        count_prompt: whether the repetition penalty and no_repeat_ngram also count the prompt's tokens. Tasks that
            should copy from their input turn it off.
        logit_bias: token id -> number added to its logit; -inf forbids the token.

    Raises:
        ConfigError: a setting is out of range; the message names it.

    Example:
        >>> Sampling(temperature=0.8, top_p=0.95).greedy
        False
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    count_prompt: bool = True
    logit_bias: Mapping[int, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        require_numbers(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p)
        require_numbers(repetition_penalty=self.repetition_penalty, no_repeat_ngram=self.no_repeat_ngram)
        if not 0.0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}, but must be at least 0 (0: the most likely token)")
        if self.top_k < 0:
            raise ConfigError(f"top_k is {self.top_k}, but must be at least 0 (0: all tokens)")
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p is {self.top_p}, but must be above 0 and at most 1 (1: all tokens)")
        if not 0.0 <= self.min_p <= 1.0:
            raise ConfigError(f"min_p is {self.min_p}, but must be between 0 and 1 (0: all tokens)")
        if not 0.0 < self.repetition_penalty < math.inf:
            raise ConfigError(f"repetition_penalty is {self.repetition_penalty}, but must be above 0 (1: none)")
        if self.no_repeat_ngram < 0:
            raise ConfigError(f"no_repeat_ngram is {self.no_repeat_ngram}, but must be at least 0 (0: off)")
        for token, bias in self.logit_bias.items():
            if token < 0 or math.isnan(bias) or bias == math.inf:
                raise ConfigError(f"logit_bias of token {token} is {bias}: give an id and a number, or -inf to forbid")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken, without random draws."""
        return self.temperature == 0.0


def with_settings(sampling: Sampling, settings: Mapping[str, Any]) -> Sampling:
    """A copy of `sampling` with the fields in `settings` replaced.

    Raises:
        ConfigError: a field does not exist, or its value is out of range.
    """
    known = [field.name for field in dataclasses.fields(Sampling)]
    for name in settings:
        if name not in known:
            raise ConfigError(f"unknown setting {name!r}; available: {', '.join(known)}")
    return dataclasses.replace(sampling, **settings)


class Grammar(Protocol):
    """Says which tokens may come next. A task with a formal language (music events, JSON) implements it.

    A state can be any value. It is never changed in place, because the hypotheses of a beam and the samples of a
    prompt share it.
    """

    def start(self, prompt: Sequence[int], /) -> Any:
        """Return the state after a prompt."""
        ...

    def advance(self, state: Any, token: int, /) -> Any:
        """Return the state after one more token."""
        ...

    def allowed(self, state: Any, /) -> Tensor:
        """(V,) bool, True where a token may come next; at least one entry must be True. May be on any device."""
        ...


@runtime_checkable
class BatchedGrammar(Grammar, Protocol):
    """A grammar that makes the masks of all rows in one piece, where each alone would cost a step more than the model.

    One with few states keeps a table of masks: with states 0 to S - 1 and `table` (S, V), `masks` is `table[states]`.
    """

    def masks(self, states: Sequence[Any], /) -> Tensor:
        """Return (B, V) bool, row by row what `allowed` returns for each state."""
        ...


@runtime_checkable
class SteeringGrammar(Grammar, Protocol):
    """A grammar that also moves probability between tokens, where a mask alone would give it to the wrong tokens.

    A mask spreads the probability of forbidden tokens over all others in proportion: a note that must end now would
    not receive the probability that the model gave to "time passes". Sampling calls `steer`; beam search keeps the
    model's own probabilities.
    """

    def steer(self, state: Any, logits: Tensor, /) -> Tensor:
        """Replace a row's logits (V,) before its mask; must depend on the arguments alone and stay on their device."""
        ...


class Ngrams:
    """The tokens that followed each (size - 1)-gram so far, updated in constant time per token."""

    def __init__(self, size: int, tokens: Iterable[int] = ()) -> None:
        self.size = size
        self.recent: tuple[int, ...] = ()
        self.following: dict[tuple[int, ...], tuple[int, ...]] = {}
        for token in tokens:
            self.push(token)

    def push(self, token: int) -> None:
        """Append one token to the sequence."""
        if len(self.recent) == self.size - 1:
            self.following[self.recent] = (*self.following.get(self.recent, ()), token)
        self.recent = (*self.recent, token)[1 - self.size :] if self.size > 1 else ()

    def repeats(self) -> tuple[int, ...]:
        """The tokens that would repeat an n-gram if they came next."""
        return self.following.get(self.recent, ())

    def copy(self) -> Ngrams:
        """Return an independent copy, for a sequence that forks."""
        other = Ngrams(self.size)
        other.recent, other.following = self.recent, dict(self.following)
        return other


def repeats(history: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens that would repeat an n-gram if they came next, as `Ngrams` says them for one row.

    Args:
        history: (B, T), the tokens of each row so far.
        size: n.

    Returns:
        row numbers, and for each of them a token; some may come twice.
    """
    context = size - 1
    if history.shape[1] <= context:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    before = np.lib.stride_tricks.sliding_window_view(history[:, :-1], context, axis=1) if context else None
    same = np.ones_like(history, dtype=bool)
    if before is not None:
        same = (before == history[:, None, -context:]).all(axis=2)  # (B, T - context)
    rows, places = np.nonzero(same)
    return rows, history[rows, places + context]


def masks(grammar: Grammar, states: Sequence[Any], like: Tensor) -> Tensor:
    """The grammar's masks (B, V) for the states of all rows, on the device of `like`."""
    batched = getattr(grammar, "masks", None)  # `isinstance` with a protocol takes longer than a mask
    rows: Tensor = torch.stack([grammar.allowed(state) for state in states]) if batched is None else batched(states)
    return rows.to(like.device)


def allow(logits: Tensor, allowed: Tensor) -> Tensor:
    """Set logits (B, V) to -inf wherever `allowed` (B, V) or (V,) is False."""
    return torch.where(allowed, logits, NEVER)


def add_bias(logits: Tensor, bias: Mapping[int, float]) -> Tensor:
    """Add `bias`, token id -> number, to the logits (B, V)."""
    ids = torch.tensor(list(bias), dtype=torch.long, device=logits.device)
    values = torch.tensor(list(bias.values()), dtype=logits.dtype, device=logits.device)
    return logits.index_add(1, ids, values.expand(len(logits), -1))


def penalize_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Divide positive logits (B, V) of tokens `seen` (B, V) by `penalty`, and multiply negative ones."""
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def forbid(logits: Tensor, rows: Indices, tokens: Indices) -> Tensor:
    """Set pairs of row and token id to -inf in the logits (B, V); a row left without any token is unchanged."""
    if not len(rows):
        return logits
    out = logits.clone()
    out[torch.as_tensor(rows), torch.as_tensor(tokens)] = -torch.inf
    return torch.where(out.amax(dim=-1, keepdim=True) == -torch.inf, logits, out)


def temper(logits: Tensor, temperature: float) -> Tensor:
    """Shift each row of logits (B, V) to a maximum of 0, so that nothing overflows, and divide by the temperature."""
    return (logits - logits.amax(dim=-1, keepdim=True)) / temperature


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep exactly the `k` largest logits of each row of (B, V); ties at the border are broken arbitrarily."""
    kept = min(k, logits.shape[-1])
    return allow(logits, keep_largest(logits, head(logits, kept)[:, -1:], kept))


def min_p(logits: Tensor, p: float) -> Tensor:
    """Keep the tokens in each row of (B, V) that are at least `p` times as likely as the likeliest."""
    return allow(logits, logits >= logits.amax(dim=-1, keepdim=True) + math.log(p))


def top_p(logits: Tensor, p: float, mass: Tensor | None = None) -> Tensor:
    """Keep the fewest likeliest tokens in each row of (B, V) whose probabilities add up to at least `p`.

    Args:
        logits: (B, V).
        p: above 0.
        mass: (B, 1) log of the sum of exp(logits) over the whole vocabulary, needed if an earlier cut removed tokens
            (None: no cut did).
    """
    probabilities = logits.softmax(dim=-1) if mass is None else (logits - mass).exp()
    if in_numpy(probabilities):  # half the time: a step's small operations cost more than their arithmetic
        return allow(logits, torch.from_numpy(nucleus(probabilities.detach().numpy(), p, NUCLEUS_GUESSES)))
    vocabulary = logits.shape[-1]
    for guess in (*NUCLEUS_GUESSES, vocabulary):
        width = min(guess, vocabulary)
        likeliest = head(probabilities, width)  # (B, width)
        before = likeliest.cumsum(dim=-1) - likeliest  # probability of all likelier tokens
        keep = before < p  # the token that crosses p is kept
        if width == vocabulary or not (keep & (likeliest > 0))[:, -1].any():
            break
    kept = keep.sum(dim=-1, keepdim=True).clamp(min=1)  # (B, 1); 0 if no entry is a number
    return allow(logits, keep_largest(probabilities, likeliest.gather(1, kept - 1), kept))


def apply_rules(
    logits: Tensor,
    sampling: Sampling,
    *,
    allowed: Tensor | None = None,
    seen: Tensor | None = None,
    forbidden: Sequence[Collection[int]] = (),
) -> Tensor:
    """Apply all rules that are set to logits (B, V), in the order at the head of this file.

    Args:
        logits: (B, V), from the model.
        sampling: the settings.
        allowed: (B, V), True where a grammar allows a token.
        seen: (B, V), True for tokens that the repetition penalty counts.
        forbidden: for each row, the tokens that would repeat an n-gram.

    Returns:
        (B, V) logits whose softmax is the distribution to draw from; with temperature 0, the largest is the choice.
    """
    if allowed is not None:
        logits = allow(logits, allowed)
    if sampling.logit_bias:
        logits = add_bias(logits, sampling.logit_bias)
    if seen is not None:
        logits = penalize_repetition(logits, seen, sampling.repetition_penalty)
    if forbidden:
        rows = [row for row, tokens in enumerate(forbidden) for _ in tokens]
        logits = forbid(logits, rows, [token for tokens in forbidden for token in tokens])
    if sampling.greedy:
        return logits  # the cuts below never remove the likeliest token
    if sampling.temperature != 1.0:
        logits = temper(logits, sampling.temperature)
    cuts = 0 < sampling.top_k < logits.shape[-1]
    mass = None  # (B, 1)
    if sampling.top_p < 1.0 and (cuts or sampling.min_p > 0.0):
        mass = logits.logsumexp(dim=-1, keepdim=True)
    if cuts:
        logits = top_k(logits, sampling.top_k)
    if sampling.min_p > 0.0:
        logits = min_p(logits, sampling.min_p)
    if sampling.top_p < 1.0:
        logits = top_p(logits, sampling.top_p, mass)
    return logits


def exact(logits: Tensor) -> Tensor:
    """Move logits to a device with float64, which sums and draws need: from Apple's GPUs (MPS) to the CPU."""
    return logits.cpu() if logits.device.type == "mps" else logits


def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a token for each row by inverting its cumulative distribution.

    Each row uses one uniform number of its own, so its draw does not depend on the other rows.

    Args:
        logits: (B, V), -inf for tokens that may not be drawn.
        uniforms: (B,) float64 in [0, 1).

    Returns:
        (B,) token ids; V for a row in which no token can be drawn.
    """
    cumulative = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)  # (B, V)
    targets = uniforms[:, None] * cumulative[:, -1:]  # (B, 1)
    return torch.searchsorted(cumulative, targets, right=True)[:, 0]  # the first id whose sum exceeds the target
