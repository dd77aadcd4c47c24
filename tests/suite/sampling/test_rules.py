"""Each rule says exactly what its name promises, ties and order included."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from suite.errors import ConfigError
from suite.sampling import rules
from suite.sampling.rules import Ngrams, Sampling, apply_rules

# multiples of a half: exact in float32, and ties are common
LOGITS = st.lists(st.integers(-12, 12), min_size=1, max_size=40).map(lambda halves: torch.tensor([halves]) / 2)


def kept(logits: Tensor) -> set[int]:
    """Ids of the first row that may still be chosen."""
    return set(logits[0].isfinite().nonzero()[:, 0].tolist())


@given(LOGITS, st.integers(1, 50))
def test_top_k_keeps_exactly_k_also_with_ties(logits: Tensor, k: int) -> None:
    """A threshold at the k-th value keeps every tie: with equal logits, the whole vocabulary."""
    cut = rules.top_k(logits, k)
    survivors = kept(cut)
    assert len(survivors) == min(k, logits.shape[1])
    dropped = set(range(logits.shape[1])) - survivors
    assert all(logits[0, low] <= logits[0, high] for low in dropped for high in survivors)
    assert all(cut[0, token] == logits[0, token] for token in survivors)


@given(LOGITS, st.floats(0.01, 0.99))
def test_top_p_keeps_the_smallest_set_that_reaches_p(logits: Tensor, p: float) -> None:
    """The token that crosses p stays; without it the rest, and no smaller set, holds p."""
    survivors = kept(rules.top_p(logits, p))
    probabilities = logits[0].double().softmax(-1)
    mass = sum(probabilities[token].item() for token in survivors)
    least = min(probabilities[token].item() for token in survivors)
    assert mass >= p - 1e-6
    assert mass - least < p + 1e-6
    assert all(probabilities[token] <= least + 1e-7 for token in set(range(logits.shape[1])) - survivors)


@pytest.mark.parametrize("p", [0.03, 0.5, 0.95])
def test_top_p_on_nuclei_wider_than_the_first_guess(p: float) -> None:
    """Rows whose nucleus is larger than what one look finds need the whole vocabulary sorted."""
    logits = torch.randn(2, 6000, generator=torch.Generator().manual_seed(0)) * torch.tensor([[0.1], [5.0]])
    for row in range(2):
        ordered = logits[row].softmax(-1).sort(descending=True).values.cumsum(-1)
        expected = int((ordered < p).sum()) + 1
        assert len(kept(rules.top_p(logits, p)[row : row + 1])) == expected
    assert max(rules.NUCLEUS_GUESSES) < 6000


@given(LOGITS, st.floats(0.01, 1.0))
def test_min_p_is_relative_to_the_likeliest(logits: Tensor, p: float) -> None:
    probabilities = logits[0].double().softmax(-1)
    ratios = (probabilities / probabilities.max()).tolist()
    survivors = kept(rules.min_p(logits, p))
    assert survivors >= {token for token, ratio in enumerate(ratios) if ratio > p * 1.0001}
    assert survivors <= {token for token, ratio in enumerate(ratios) if ratio > p * 0.9999}


@given(
    LOGITS, st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 9), st.floats(0.1, 1.0), st.sampled_from([0.0, 0.1, 0.5])
)
def test_cuts_are_independent_of_each_other(logits: Tensor, t: float, k: int, p: float, least: float) -> None:
    """Top-p over what top-k left would be 0.9 of another distribution; a token passes all cuts or none."""
    sums = (logits[0].double() / t).softmax(-1).sort(descending=True).values.cumsum(-1)
    assume(((sums - p).abs() > 1e-5).all())  # three equal tokens and p = 1/3: one or two of them, as rounding has it
    together = Sampling(temperature=t, top_k=k, top_p=p, min_p=least)
    count = len(kept(apply_rules(logits, together)))
    alone = [
        len(kept(apply_rules(logits, Sampling(temperature=t, **cut))))
        for cut in ({"top_k": k}, {"top_p": p}, {"min_p": least})
    ]
    assert count == min(alone)  # each cut keeps a head of the same order


def test_masks_and_bias_come_before_the_cuts() -> None:
    """Top-k must count allowed tokens alone, or a grammar leaves fewer than k."""
    logits = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0]])
    allowed = torch.tensor([[False, False, True, True, True]])
    assert kept(apply_rules(logits, Sampling(top_k=2), allowed=allowed)) == {2, 3}
    assert kept(apply_rules(logits, Sampling(top_k=2, logit_bias={4: 10.0, 0: -math.inf}))) == {4, 1}


def test_bias_is_added_before_temperature() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.0]])
    out = apply_rules(logits, Sampling(temperature=0.5, logit_bias={0: 3.0}))
    torch.testing.assert_close(out.softmax(-1), (torch.tensor([[4.0, 2.0, 0.0]]) / 0.5).softmax(-1))


def test_repetition_penalty_makes_seen_tokens_less_likely_whatever_their_sign() -> None:
    """Dividing a negative logit by the penalty would reward repetition."""
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0]])
    seen = torch.tensor([[True, True, False, False]])
    assert rules.penalize_repetition(logits, seen, 2.0).tolist() == [[1.0, -4.0, 2.0, -2.0]]


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 4))
def test_ngrams_name_exactly_the_tokens_that_would_repeat(tokens: list[int], size: int) -> None:
    grams = {tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)}
    context = tuple(tokens[len(tokens) - size + 1 :]) if len(tokens) >= size - 1 else None
    expected = {token for token in range(4) if context is not None and (*context, token) in grams}
    ngrams = Ngrams(size, tokens)
    assert set(ngrams.repeats()) == expected
    fork = ngrams.copy()
    fork.push(0)
    assert set(ngrams.repeats()) == expected


def test_forbidding_everything_forbids_nothing() -> None:
    """Otherwise a row where every token would repeat stops the whole batch."""
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    out = rules.forbid(logits, [0, 0, 1], [0, 1, 1])
    assert out.tolist() == [[1.0, 2.0, -math.inf], [1.0, -math.inf, 3.0], [1.0, 2.0, 3.0]]


def test_any_temperature_is_safe() -> None:
    """Dividing 100 by 1e-40 is infinite, and infinity minus infinity is not a number."""
    out = apply_rules(torch.tensor([[100.0, 99.0, -torch.inf]]), Sampling(temperature=1e-40))
    assert out.softmax(-1).tolist() == [[1.0, 0.0, 0.0]]


def test_the_default_changes_nothing() -> None:
    """The greedy step must cost one argmax: no rule that is off may touch the vocabulary."""
    logits = torch.randn(2, 9)
    assert apply_rules(logits, Sampling()) is logits
    assert apply_rules(logits, Sampling(temperature=0, top_k=5, top_p=0.5, min_p=0.1)) is logits


@pytest.mark.parametrize("rule", [lambda x: rules.top_k(x, 3), lambda x: rules.top_p(x, 0.5)], ids=["top_k", "top_p"])
def test_cuts_take_logits_of_any_type(rule: Callable[[Tensor], Tensor]) -> None:
    """Shorter numbers, and logits that training still wants gradients of, cannot go through NumPy as they are."""
    logits = torch.randn(2, 300, generator=torch.Generator().manual_seed(0))
    expected = rule(logits).isfinite()
    assert torch.equal(rule(logits.clone().requires_grad_()).isfinite(), expected)
    assert rule(logits.bfloat16()).dtype == torch.bfloat16


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([0.5, 0.3, 0.2, 0.0]).log().expand(20000, -1)
    uniforms = torch.rand(20000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    counts = rules.draw(logits, uniforms).bincount(minlength=4)
    assert counts[3] == 0
    torch.testing.assert_close(counts[:3] / 20000, torch.tensor([0.5, 0.3, 0.2]), atol=0.015, rtol=0)


@given(st.lists(st.booleans(), min_size=1, max_size=30).filter(any), st.floats(0, 1, exclude_max=True))
@settings(max_examples=200)
def test_what_is_forbidden_is_never_drawn(allowed: list[bool], uniform: float) -> None:
    """At both ends of the interval: 0 must not draw a leading impossible token, nor 0.999... a trailing one."""
    logits = rules.allow(torch.zeros(1, len(allowed)), torch.tensor([allowed]))
    assert allowed[int(rules.draw(logits, torch.tensor([uniform], dtype=torch.float64)))]


@pytest.mark.parametrize(
    "setting",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"min_p": 1.5},
        {"repetition_penalty": 0.0},
        {"no_repeat_ngram": -1},
        {"logit_bias": {-1: 1.0}},
        {"logit_bias": {3: math.nan}},
        {"logit_bias": {3: math.inf}},
    ],
    ids=str,
)
def test_impossible_settings_are_named(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Sampling(**setting)
