"""What stands between the model's logits and the chosen token: pure rules, logits -> logits.

A token that may not be chosen has the logit -inf. `apply_rules` keeps this order:

1. a grammar's steering, if it steers, and its mask
2. logit bias
3. repetition penalty
4. no-repeat n-gram
5. temperature
6. top-k, min-p, top-p: a token must pass all of those that are set

The cuts of the last line are each measured on the same distribution, the whole vocabulary after steps 1 to 5, so
their order changes nothing but the cost: top-p of 0.9 means 0.9 of that distribution whether or not top-k is set too.

Shapes: `B` rows, `V` vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from suite.errors import ConfigError

NUCLEUS_GUESSES = (256, 4096)  # most nuclei are smaller, and finding so many tokens is far from sorting 50,000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. The default draws from the model's own distribution.

    Args:
        temperature: divides the logits; 0 takes the likeliest token (greedy).
        top_k: keep exactly the k likeliest tokens; 0 keeps all.
        top_p: keep the fewest likeliest tokens that hold at least this much probability; 1 keeps all.
            Source: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".
        min_p: keep tokens at least this likely relative to the likeliest; 0 keeps all.
            Source: Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling".
        repetition_penalty: makes tokens that were seen before less likely; 1 does nothing.
            Source: Keskar et al. 2019, "CTRL".
        no_repeat_ngram: no n tokens in a row occur twice; 0 allows it. Source: Paulus et al. 2017.
        count_prompt: whether those two rules also count the prompt's tokens. Tasks that should copy from their input
            turn it off.
        logit_bias: added to the logits of single token ids; -inf forbids one.

    Raises:
        ConfigError: a setting is out of its range; the message names it.

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
        """Whether the likeliest token is taken, without chance."""
        return self.temperature == 0.0


def with_settings(sampling: Sampling, settings: Mapping[str, Any]) -> Sampling:
    """`sampling` with some fields replaced.

    Raises:
        ConfigError: there is no such field.
    """
    known = [field.name for field in dataclasses.fields(Sampling)]
    for name in settings:
        if name not in known:
            raise ConfigError(f"unknown setting {name!r}; available: {', '.join(known)}")
    return dataclasses.replace(sampling, **settings)


class Grammar(Protocol):
    """Says which tokens may come next. A task with a formal language (music events, JSON) writes one.

    A state is a value of the grammar's own choosing and is never changed in place, because the hypotheses of a beam
    and the samples of one prompt share it.
    """

    def start(self, prompt: Sequence[int], /) -> Any:
        """The state after a prompt."""
        ...

    def advance(self, state: Any, token: int, /) -> Any:
        """The state after one more token."""
        ...

    def allowed(self, state: Any, /) -> Tensor:
        """(V,) bool, True where a token may come next; at least one must. May be on any device."""
        ...


@runtime_checkable
class SteeringGrammar(Grammar, Protocol):
    """A grammar that also moves probability among tokens, where a mask alone would give it to the wrong ones.

    What a mask forbids goes to all other tokens alike, as their probabilities are: a note that must end now would take
    nothing of what the model gave to "time passes". Sampling asks `steer`; beam search keeps the model's own
    probabilities.
    """

    def steer(self, state: Any, logits: Tensor, /) -> Tensor:
        """(V,) other logits for a row's own, before its mask; a function of the two alone. Must be on their device."""
        ...


class Ngrams:
    """Which tokens followed each run of `size - 1` tokens so far, brought up to date in constant time a token."""

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
        """Tokens that would complete an n-gram a second time."""
        return self.following.get(self.recent, ())

    def copy(self) -> Ngrams:
        """An independent copy, for a hypothesis that forks."""
        other = Ngrams(self.size)
        other.recent, other.following = self.recent, dict(self.following)
        return other


def allow(logits: Tensor, allowed: Tensor) -> Tensor:
    """Forbid (B, V) logits wherever `allowed` (B, V) or (V,) is False."""
    return logits.masked_fill(~allowed, -torch.inf)


def add_bias(logits: Tensor, bias: Mapping[int, float]) -> Tensor:
    """Add to the logits (B, V) of single token ids."""
    ids = torch.tensor(list(bias), dtype=torch.long, device=logits.device)
    values = torch.tensor(list(bias.values()), dtype=logits.dtype, device=logits.device)
    return logits.index_add(1, ids, values.expand(len(logits), -1))


def penalize_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Divide positive logits (B, V) of tokens `seen` (B, V) by `penalty`, and multiply negative ones."""
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def forbid(logits: Tensor, forbidden: Sequence[Iterable[int]]) -> Tensor:
    """Forbid each row of logits (B, V) its own token ids; a row that would have no token left stays as it was."""
    rows = [row for row, tokens in enumerate(forbidden) for _ in tokens]
    if not rows:
        return logits
    out = logits.clone()
    out[rows, [token for tokens in forbidden for token in tokens]] = -torch.inf
    return torch.where(out.isneginf().all(dim=-1, keepdim=True), logits, out)


def temper(logits: Tensor, temperature: float) -> Tensor:
    """Divide logits (B, V) by the temperature, the likeliest token's set to 0 so that nothing overflows."""
    return (logits - logits.amax(dim=-1, keepdim=True)) / temperature


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep exactly the `k` largest of (B, V); which of several equal ones at the border is left open."""
    values, ids = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.full_like(logits, -torch.inf).scatter(1, ids, values)


def min_p(logits: Tensor, p: float) -> Tensor:
    """Keep of (B, V) the tokens at least `p` times as likely as the likeliest."""
    return allow(logits, logits >= logits.amax(dim=-1, keepdim=True) + math.log(p))


def top_p(logits: Tensor, p: float, mass: Tensor | None = None) -> Tensor:
    """Keep of (B, V) the fewest likeliest tokens whose probabilities add up to at least `p`.

    Args:
        logits: (B, V).
        p: above 0.
        mass: (B, 1) log of the sum of exp(logits) over the whole vocabulary, where an earlier cut took part of it.
    """
    probabilities = (logits - (logits.logsumexp(dim=-1, keepdim=True) if mass is None else mass)).exp()
    vocabulary = logits.shape[-1]
    for guess in (*NUCLEUS_GUESSES, vocabulary):
        width = min(guess, vocabulary)
        likeliest, ids = probabilities.topk(width, dim=-1)  # (B, width), sorted
        before = likeliest.cumsum(dim=-1) - likeliest  # probability of all likelier tokens
        keep = before < p  # the token that crosses p is kept
        if width == vocabulary or not (keep & (likeliest > 0))[:, -1].any():
            break
    return allow(logits, torch.zeros_like(logits, dtype=torch.bool).scatter(1, ids, keep))


def apply_rules(
    logits: Tensor,
    sampling: Sampling,
    *,
    allowed: Tensor | None = None,
    seen: Tensor | None = None,
    forbidden: Sequence[Iterable[int]] = (),
) -> Tensor:
    """All rules that are set, in the order at the head of this file.

    Args:
        logits: (B, V) of the model.
        sampling: the settings.
        allowed: (B, V) True where a grammar lets a token through.
        seen: (B, V) True for tokens that the repetition penalty counts.
        forbidden: per row, the tokens that would repeat an n-gram.

    Returns:
        (B, V) whose softmax is the distribution to draw from; with temperature 0, whose largest is the choice.
    """
    if allowed is not None:
        logits = allow(logits, allowed)
    if sampling.logit_bias:
        logits = add_bias(logits, sampling.logit_bias)
    if seen is not None:
        logits = penalize_repetition(logits, seen, sampling.repetition_penalty)
    if forbidden:
        logits = forbid(logits, forbidden)
    if sampling.greedy:
        return logits  # the cuts below never cut the likeliest
    if sampling.temperature != 1.0:
        logits = temper(logits, sampling.temperature)
    mass = logits.logsumexp(dim=-1, keepdim=True) if sampling.top_p < 1.0 else None  # (B, 1)
    if 0 < sampling.top_k < logits.shape[-1]:
        logits = top_k(logits, sampling.top_k)
    if sampling.min_p > 0.0:
        logits = min_p(logits, sampling.min_p)
    if mass is not None:
        logits = top_p(logits, sampling.top_p, mass)
    return logits


def exact(logits: Tensor) -> Tensor:
    """The logits on a device that has float64, which sums and draws are made in: Apple's GPUs (MPS) have none."""
    return logits.cpu() if logits.device.type == "mps" else logits


def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw a token of each row by inverting its cumulative distribution.

    One number a row decides, so a row's draw does not depend on which other rows there are.

    Args:
        logits: (B, V), -inf for what may not be drawn.
        uniforms: (B,) float64 in [0, 1).

    Returns:
        (B,) token ids; V for a row in which nothing can be drawn.
    """
    cumulative = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)  # (B, V)
    targets = uniforms[:, None] * cumulative[:, -1:]  # (B, 1)
    return torch.searchsorted(cumulative, targets, right=True)[:, 0]  # the first id whose sum exceeds the target
