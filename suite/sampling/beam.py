"""Beam search: the highest-scoring continuations of a batch of prompts, found with a bounded search.

Shapes: `P` unfinished prompts, `K` beams, `B` rows (P x K, prompt-major), `N` candidates, `V` vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from suite.errors import ConfigError, SuiteError
from suite.model.transformer import Transformer
from suite.sampling.decoding import Decoding
from suite.sampling.generate import Finish
from suite.sampling.rows import origin_of, stack
from suite.sampling.rules import Grammar, Ngrams, allow, exact, forbid


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A continuation returned by beam search.

    Args:
        tokens: the new ids, without the stop token.
        score: logprob / length ** length_penalty; the length counts the stop token.
        logprob: sum over all new tokens and the stop token under the model itself (nats).
        finish: "stop", or "length" if it was cut off at max_new_tokens.
    """

    tokens: tuple[int, ...]
    score: float
    logprob: float
    finish: Finish


def beam_search(
    transformer: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    beams: int,
    max_new_tokens: int | Sequence[int],
    stop_tokens: Collection[int],
    length_penalty: float = 1.0,
    n_best: int = 1,
    patience: float = 1.0,
    prefixes: Sequence[int] | None = None,
    grammar: Grammar | None = None,
    no_repeat_ngram: int = 0,
    prefill_chunk: int = 512,
) -> list[list[Hypothesis]]:
    """Return the best-scoring continuations of each prompt; prompts do not influence each other.

    Every step extends each live hypothesis by every token and ranks the results by log-probability. Those among the
    best `beams` that end in a stop token are finished; the best `beams` of the others stay live. A prompt's search ends
    when `patience * beams` hypotheses are finished, when no live hypothesis can still reach the best `n_best`
    (log-probabilities only fall), or at max_new_tokens; hypotheses cut off there rank behind all finished ones.

    Args:
        transformer: the model; in evaluation mode, if it has dropout.
        prompts: token ids, at least one for each prompt; lengths may differ.
        beams: hypotheses kept alive for each prompt. 1 is greedy decoding.
        max_new_tokens: length of the longest hypothesis, stop token included; a number for all prompts, or a list
            with a number for each.
        stop_tokens: ids that finish a hypothesis.
        length_penalty: exponent of the length that a log-probability is divided by: 0 favours short hypotheses, 1 is
            the mean per token, above 1 favours long hypotheses.
        n_best: hypotheses to return for each prompt, at most `beams`.
        patience: 1 stops at the first `beams` finished hypotheses; math.inf only when none can improve.
            Source: Kasai et al. 2022, "Beam Decoding with Controlled Patience".
        prefixes: per prompt, the number of leading tokens that attend to each other in both directions.
        grammar: allows or forbids tokens for each hypothesis; probabilities stay the model's own.
        no_repeat_ngram: n; no n-gram of new tokens occurs twice in a hypothesis. 0 turns this off.
        prefill_chunk: maximum number of tokens of a prompt read in a forward pass.

    Returns:
        a list of hypotheses for each prompt, best first; fewer than `n_best` if no more exist.

    Raises:
        SuiteError: the model cannot read a prompt, or grammar and model leave no hypothesis for it.
        ConfigError: an argument is out of range.

    Example:
        >>> from suite.model import ModelConfig, Transformer
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> found = beam_search(Transformer(config), [[1, 2]], beams=4, n_best=2, max_new_tokens=5, stop_tokens=[0])
        >>> found[0][0].score >= found[0][1].score
        True
    """
    limits = [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else list(max_new_tokens)
    if len(limits) != len(prompts):
        raise ConfigError(f"{len(prompts)} prompts came with {len(limits)} max_new_tokens")
    if min(limits, default=1) < 1 or not 1 <= n_best <= beams:
        raise ConfigError(
            f"max_new_tokens is {min(limits, default=1)}, n_best {n_best} and beams {beams}; "
            "the first two must be at least 1, and n_best at most beams"
        )
    if patience <= 0 or no_repeat_ngram < 0 or not math.isfinite(length_penalty):
        raise ConfigError(
            f"patience is {patience}, no_repeat_ngram {no_repeat_ngram} and length_penalty {length_penalty}; "
            "the first must be above 0, the second at least 0, the third a number"
        )
    if not prompts:
        return []
    decoding = Decoding(transformer, prompts, prefixes, max_new_tokens=max(limits), prefill_chunk=prefill_chunk)
    searches = [
        _Search(len(prompt), limit, beams, n_best, patience * beams, length_penalty, frozenset(stop_tokens))
        for prompt, limit in zip(prompts, limits, strict=True)
    ]
    branches = [_Branch(grammar, prompt, no_repeat_ngram) for prompt in decoding.tokens]
    _loop(decoding, searches, branches, beams * (1 + len(stop_tokens)))
    found = [search.best() for search in searches]
    if [] in found:
        raise SuiteError(
            f"no hypothesis for prompt {found.index([])} survived: its grammar forbids every token, or the logits "
            f"of {origin_of(transformer)} are not numbers"
        )
    return found


@torch.inference_mode()
def _loop(decoding: Decoding, searches: Sequence[_Search], branches: list[_Branch], candidates: int) -> None:
    logits = exact(decoding.prefill())  # (P, V)
    totals = torch.zeros(len(searches), 1, dtype=torch.float64, device=logits.device)  # (P, 1), later (P, K)
    while True:
        ranked = rank(logits, totals, branches, candidates)
        going, extended = [], []
        for number, (search, choices) in enumerate(zip(searches, ranked, strict=True)):
            live = search.advance(choices, decoding.tokens)
            if live:
                going.append(search)
                extended.extend(settled(live, number * totals.shape[1]))
        if not going:
            return
        searches = going
        branches = [branches[choice.row].extended(choice.token) for choice in extended]
        decoding.reorder([choice.row for choice in extended])
        logits = exact(decoding.step([choice.token for choice in extended]))  # (B, V)
        totals = torch.tensor([choice.total for choice in extended], dtype=torch.float64, device=logits.device)
        totals = totals.view(len(searches), -1)  # (P, K)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """A live hypothesis extended by a token: its row in the batch, the token, and the total log-probability (nats)."""

    row: int
    token: int
    total: float


class _Branch:
    """The grammar state and n-gram history of a live hypothesis."""

    def __init__(self, grammar: Grammar | None, prompt: Sequence[int], no_repeat_ngram: int) -> None:
        self.grammar = grammar
        self.state: Any = grammar.start(prompt) if grammar is not None else None
        self.ngrams = Ngrams(no_repeat_ngram) if no_repeat_ngram else None

    def extended(self, token: int) -> _Branch:
        """A new branch with `token` appended; this branch is unchanged."""
        other = _Branch.__new__(_Branch)
        other.grammar = self.grammar
        other.state = self.grammar.advance(self.state, token) if self.grammar is not None else None
        other.ngrams = self.ngrams.copy() if self.ngrams is not None else None
        if other.ngrams is not None:
            other.ngrams.push(token)
        return other


def rank(logits: Tensor, totals: Tensor, branches: Sequence[_Branch], candidates: int) -> list[list[_Choice]]:
    """The likeliest extensions of the live hypotheses: a list of at most N for each prompt, best first.

    Args:
        logits: (B, V), for the live hypotheses.
        totals: (P, K), their log-probabilities; -inf for an unused beam.
        branches: (B,), the grammar and n-gram state of each.
        candidates: N, the maximum number of extensions to return for each prompt.
    """
    prompts, beams = totals.shape
    normaliser = logits.logsumexp(dim=-1, keepdim=True)  # (B, 1) before any mask: probabilities stay the model's own
    allowed = [branch.grammar.allowed(branch.state) for branch in branches if branch.grammar is not None]
    mask = stack(allowed, logits)
    if mask is not None:
        logits = allow(logits, mask)
    repeats = [branch.ngrams.repeats() for branch in branches if branch.ngrams is not None]
    if repeats:
        logits = forbid(logits, repeats)
    values, tokens = logits.topk(min(candidates, logits.shape[-1]), dim=-1)  # (B, N): N per row is always enough
    values = (values - normaliser).double() + totals.view(-1, 1)
    best, places = values.view(prompts, -1).topk(min(candidates, beams * values.shape[-1]), dim=-1)  # (P, N)
    chosen = tokens.view(prompts, -1).gather(1, places)  # (P, N)
    rows = places // values.shape[-1] + torch.arange(prompts, device=places.device)[:, None] * beams  # (P, N)
    return [
        [_Choice(*choice) for choice in zip(*lists, strict=True) if choice[2] > -math.inf]
        for lists in zip(rows.tolist(), chosen.tolist(), best.tolist(), strict=True)
    ]


def settled(choices: Sequence[_Choice], first: int) -> list[_Choice]:
    """Reorder a prompt's choices so that as many as possible keep their row.

    Args:
        choices: the extensions that stay live.
        first: the prompt's first row. The cache of every hypothesis that changes rows has to be copied.
    """
    places: dict[int, _Choice] = {}
    for choice in choices:
        places.setdefault(choice.row - first, choice)
    staying = {id(choice) for choice in places.values()}
    moving = iter([choice for choice in choices if id(choice) not in staying])
    return [places.get(place) or next(moving) for place in range(len(choices))]


class _Search:
    """The state of one prompt's search: collects finished hypotheses and decides when to stop."""

    def __init__(
        self,
        prompt_length: int,
        limit: int,
        beams: int,
        n_best: int,
        enough: float,
        length_penalty: float,
        stop_tokens: frozenset[int],
    ) -> None:
        self.prompt_length, self.limit, self.beams, self.n_best = prompt_length, limit, beams, n_best
        self.enough, self.length_penalty, self.stop_tokens = enough, length_penalty, stop_tokens
        self.length = 0  # new tokens of the live hypotheses
        self.finished: list[Hypothesis] = []
        self.cut: list[Hypothesis] = []

    def advance(self, choices: Sequence[_Choice], tokens: Sequence[list[int]]) -> list[_Choice]:
        """Advance the search by one token.

        Args:
            choices: the likeliest extensions, best first.
            tokens: for each row of the batch, its prompt and new tokens so far.

        Returns:
            the `beams` choices that stay live; an empty list when the search is over.
        """
        self.length += 1
        live: list[_Choice] = []
        for place, choice in enumerate(choices):
            if choice.token not in self.stop_tokens:
                live.append(choice)
            elif place < self.beams:
                self.finished.append(self._hypothesis(choice, tokens[choice.row], "stop"))
        live = live[: self.beams]
        if self.length == self.limit:
            self.cut = [self._hypothesis(choice, tokens[choice.row], "length") for choice in live]
            return []
        if not live or len(self.finished) >= self.enough or not self._can_improve(live[0].total):
            return []
        dead = dataclasses.replace(live[0], total=-math.inf)  # pads to K, so the batch stays rectangular
        return live + [dead] * (self.beams - len(live))

    def best(self) -> list[Hypothesis]:
        """The `n_best` best hypotheses, finished hypotheses first."""
        ranked = [
            sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in (self.finished, self.cut)
        ]
        return (ranked[0] + ranked[1])[: self.n_best]

    def _can_improve(self, total: float) -> bool:
        """Whether the best live hypothesis, with log-probability `total`, can still reach the best `n_best`."""
        if len(self.finished) < self.n_best:
            return True
        reachable = max(self._score(total, self.length + 1), self._score(total, self.limit))
        return reachable > self.best()[-1].score

    def _score(self, logprob: float, length: int) -> float:
        return logprob / math.pow(length, self.length_penalty)

    def _hypothesis(self, choice: _Choice, tokens: list[int], finish: Finish) -> Hypothesis:
        new = tokens[self.prompt_length :] + ([choice.token] if finish == "length" else [])
        score = self._score(choice.total, self.length)
        return Hypothesis(tokens=tuple(new), score=score, logprob=choice.total, finish=finish)
