"""Beam search: the highest-scoring continuations of a batch of prompts, found with a bounded search.

Start reading at `_loop`: rank all extensions, let `_Search` choose among them, move the cache's rows, take a step. The
state of all hypotheses is in arrays, so that no step loops over prompts, beams or the vocabulary.

Shapes: `P` unfinished prompts, `K` beams, `B` rows (P x K, prompt-major), `N` candidates, `V` vocabulary, `T` new
tokens of a live hypothesis so far.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.errors import ConfigError, SuiteError
from suite.model.transformer import Transformer
from suite.sampling.decoding import Decoding
from suite.sampling.generate import Finish
from suite.sampling.largest import largest
from suite.sampling.rows import origin_of
from suite.sampling.rules import Grammar, allow, exact, forbid, masks, repeats

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


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
    search = _Search(
        vocabulary=transformer.config.vocab_size,
        limits=limits,
        beams=beams,
        n_best=n_best,
        enough=patience * beams,
        length_penalty=length_penalty,
        stop_tokens=frozenset(stop_tokens),
    )
    _loop(decoding, search, grammar, no_repeat_ngram)
    found = [search.best(prompt) for prompt in range(len(prompts))]
    if [] in found:
        raise SuiteError(
            f"no hypothesis for prompt {found.index([])} survived: its grammar forbids every token, or the logits "
            f"of {origin_of(transformer)} are not numbers"
        )
    return found


@torch.inference_mode()
def _loop(decoding: Decoding, search: _Search, grammar: Grammar | None, no_repeat_ngram: int) -> None:
    states = [grammar.start(prompt) for prompt in decoding.tokens] if grammar is not None else []
    lengths = np.array([len(prompt) for prompt in decoding.tokens])  # (all prompts,)
    logits = exact(decoding.prefill())  # (P, V)
    while True:
        scores = logits.log_softmax(dim=-1)  # (B, V) before any mask: probabilities stay the model's own
        if grammar is not None:
            scores = allow(scores, masks(grammar, states, scores))
        if no_repeat_ngram:
            history = search.tokens.reshape(len(scores), -1)  # (B, T)
            scores = forbid(scores, *repeats(history, no_repeat_ngram))
        forks = search.advance(rank(scores, search.totals, search.candidates))
        if forks is None:
            return
        tokens = forks.tokens.tolist()
        if grammar is not None:
            states = [grammar.advance(states[row], token) for row, token in zip(forks.rows, tokens, strict=True)]
        shared = np.where(forks.shared < 0, 0, lengths[search.prompts].repeat(search.beams) + forks.shared)  # (B,)
        decoding.reorder(forks.rows.tolist(), shared=shared.tolist())
        logits = exact(decoding.step(tokens))  # (B, V)


class Extensions(NamedTuple):
    """The likeliest extensions of the live hypotheses by a token, best first.

    Attributes:
        totals: (P, N) log-probabilities (nats); -inf behind the last extension.
        beams: (P, N) which hypothesis of the prompt is extended.
        tokens: (P, N) by which token.
    """

    totals: Floats
    beams: Ints
    tokens: Ints


def rank(scores: Tensor, totals: Floats, candidates: int) -> Extensions:
    """The likeliest extensions of the live hypotheses.

    Args:
        scores: (B, V), log-probabilities of the next token, -inf where it is not allowed.
        totals: (P, K), log-probabilities of the hypotheses; -inf for an unused beam.
        candidates: N, the number of extensions to return for each prompt.
    """
    vocabulary = scores.shape[1]
    values, places = largest(scores, totals, candidates)  # (P, up to N)
    values[np.isnan(values)] = -np.inf
    if missing := candidates - values.shape[1]:  # at the first step, or with a very small vocabulary
        values = np.pad(values, ((0, 0), (0, missing)), constant_values=-np.inf)
        places = np.pad(places, ((0, 0), (0, missing)))
    return Extensions(values, *np.divmod(places, vocabulary))


def settled(beams: Ints) -> Ints:
    """Reorder the hypotheses of each prompt so that as many as possible keep their row.

    The cache of every hypothesis that changes rows has to be copied.

    Args:
        beams: (P, K), the beam that each hypothesis extends.

    Returns:
        (P, K), for each row the index of the hypothesis that takes it.
    """
    prompts, count = beams.shape
    numbers = np.arange(count)
    extends = beams[:, None, :] == numbers[:, None]  # (P, K rows, K hypotheses)
    places: Ints = extends.argmax(axis=2)  # (P, K): the first hypothesis that extends what the row holds
    staying = places[np.arange(prompts)[:, None], beams] == numbers  # (P, K)
    # a prompt has as many free rows as hypotheses that move, and both are read in the same order
    places[~extends.any(axis=2)] = np.nonzero(~staying)[1]
    return places


class Forks(NamedTuple):
    """How the live hypotheses continue those of the step before.

    Attributes:
        rows: (B,), the row of the hypothesis that each row now extends.
        tokens: (B,), the token by which.
        shared: (B,), the number of new tokens that a row already has in common with the hypothesis that it now extends;
            -1 if it held one of another prompt.
    """

    rows: Ints
    tokens: Ints
    shared: Ints


class _Search:
    """The state of all prompts' searches: live hypotheses, finished hypotheses, and when each search ends.

    Args:
        vocabulary: V.
        limits: for each prompt, the length of its longest hypothesis.
        enough: the number of finished hypotheses that ends a search.
        beams, n_best, length_penalty, stop_tokens: as for `beam_search`.

    Attributes:
        prompts: (P,), which prompts are unfinished, in the order of their rows.
        totals: (P, K), the log-probabilities of the live hypotheses; (P, 1) before the first step.
        tokens: (P, K, T), their new tokens.
        candidates: N, the number of extensions that a step has to look at.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        limits: Sequence[int],
        beams: int,
        n_best: int,
        enough: float,
        length_penalty: float,
        stop_tokens: frozenset[int],
    ) -> None:
        count = len(limits)
        self.limits, self.beams, self.n_best, self.enough = np.array(limits), beams, n_best, enough
        self.stops = np.isin(np.arange(vocabulary), list(stop_tokens))  # (V,)
        self.candidates = beams * (1 + len(stop_tokens))
        # what log-probabilities are divided by, for each length
        self.divisors = np.array([math.pow(max(1, length), length_penalty) for length in range(max(limits) + 2)])
        self.prompts = np.arange(count)
        self.totals = np.zeros((count, 1))
        self.tokens = np.zeros((count, 1, 0), dtype=np.int64)
        self.finished: list[list[Hypothesis]] = [[] for _ in limits]
        self.cut: list[list[Hypothesis]] = [[] for _ in limits]
        self.counts = np.zeros(count, dtype=np.int64)  # finished hypotheses of each prompt
        self.scores = np.full((count, n_best), -np.inf)  # the best of their scores, falling

    def advance(self, found: Extensions) -> Forks | None:
        """Advance all searches by one token; None when all are over, `found.totals` being (P, N), N at least K."""
        length = self.tokens.shape[2] + 1
        possible = found.totals > -np.inf
        stops = possible & self.stops[found.tokens]
        ends = stops[:, : self.beams]
        self._finish(found, ends)
        best = slice(None), slice(self.beams)
        totals, beams, tokens = found.totals[best], found.beams[best], found.tokens[best]
        live = possible[:, : self.beams] & ~ends
        if not live.all():
            live = possible & ~stops
            order = np.argsort(~live, axis=1, kind="stable")[:, : self.beams]  # (P, K) the first K that live
            each = np.arange(len(order))[:, None]
            live = live[each, order]
            order = np.where(live, order, order[:, :1])  # copies of the best, so that the batch stays rectangular
            totals, beams, tokens = found.totals[each, order], found.beams[each, order], found.tokens[each, order]
            totals[~live] = -np.inf
        last = self.limits[self.prompts] == length
        for place in np.flatnonzero(last):
            for beam in np.flatnonzero(live[place]):
                new = (*self.tokens[place, beams[place, beam]].tolist(), int(tokens[place, beam]))
                one = self._hypothesis(new, float(totals[place, beam]), "length", length)
                self.cut[self.prompts[place]].append(one)
        counts = self.counts[self.prompts]
        going = live[:, 0] & ~last & (counts < self.enough) & self._can_improve(totals[:, 0], length)
        return self._fork(going, totals, beams, tokens) if going.any() else None

    def best(self, prompt: int) -> list[Hypothesis]:
        """The `n_best` best hypotheses of a prompt, finished hypotheses first."""
        ranked = [
            sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
            for hypotheses in (self.finished[prompt], self.cut[prompt])
        ]
        return (ranked[0] + ranked[1])[: self.n_best]

    def _finish(self, found: Extensions, ends: Bools) -> None:
        """Keep the extensions that end in a stop token, (P, K) True in `ends`."""
        length = self.tokens.shape[2] + 1
        if not ends.any():
            return
        for place, candidate in zip(*np.nonzero(ends), strict=True):  # few: K in all of a search
            new = tuple(self.tokens[place, found.beams[place, candidate]].tolist())
            one = self._hypothesis(new, float(found.totals[place, candidate]), "stop", length)
            prompt = self.prompts[place]
            self.finished[prompt].append(one)
            self.counts[prompt] += 1
            self.scores[prompt] = np.sort([*self.scores[prompt], one.score])[:0:-1]

    def _can_improve(self, totals: Floats, length: int) -> Bools:
        """(P,) whether the best live hypotheses, with log-probabilities (P,), can still reach the best `n_best`."""
        if not self.counts.any():
            return np.ones(len(totals), dtype=bool)
        limits = self.limits[self.prompts]
        reachable = np.maximum(totals / self.divisors[length + 1], totals / self.divisors[limits])
        found: Bools = (self.counts[self.prompts] < self.n_best) | (reachable > self.scores[self.prompts, -1])
        return found

    def _hypothesis(self, tokens: tuple[int, ...], logprob: float, finish: Finish, length: int) -> Hypothesis:
        score = logprob / float(self.divisors[length])
        return Hypothesis(tokens=tokens, score=score, logprob=logprob, finish=finish)

    def _fork(self, going: Bools, totals: Floats, beams: Ints, tokens: Ints) -> Forks:
        """Give each live hypothesis (P, K) of the searches that go on a row, and make them the state of the search."""
        width = self.tokens.shape[1]  # rows of a prompt until now
        numbers = np.arange(np.count_nonzero(going))
        order = numbers[:, None]  # (P, 1) which prompt takes each place: the last move to where one ended
        if len(numbers) < len(going):
            order = order.copy()
            order[~going[: len(order)], 0] = np.flatnonzero(going[len(order) :]) + len(order)
        places = settled(beams[order[:, 0]])  # (P, K)
        beams, tokens, totals = beams[order, places], tokens[order, places], totals[order, places]
        rows = order * width + beams
        old = self.tokens[order, beams]  # (P, K, T) of the hypotheses that are extended
        shared = np.full(rows.shape, -1)
        if width == self.beams:
            differs = np.ones((*rows.shape, old.shape[2] + 1), dtype=bool)
            np.not_equal(self.tokens[: len(order)], old, out=differs[:, :, :-1])  # from those that stood in the rows
            shared = differs.argmax(axis=2)
            shared[order[:, 0] != numbers] = -1
        self.prompts, self.totals = self.prompts[order[:, 0]], totals
        self.tokens = np.concatenate((old, tokens[:, :, None]), axis=2)
        return Forks(rows.ravel(), tokens.ravel(), shared.ravel())
