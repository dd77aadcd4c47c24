"""Beam search against exhaustive search, and the rules by which it ends."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from suite.errors import ConfigError, SuiteError
from suite.model import ModelConfig, Transformer
from suite.sampling import Hypothesis, Sampling, beam_search, generate

ROTARY = {"position": "rotary", "norm": "rms", "activation": "swiglu", "n_kv_head": 2}


def tiny(vocabulary: int = 4, std: float = 0.5, seed: int = 0, **fields: object) -> Transformer:
    torch.manual_seed(seed)
    base = {"vocab_size": vocabulary, "context": 16, "d_model": 16, "n_layer": 2, "n_head": 4}
    model = Transformer(ModelConfig.from_dict(base | fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return model.eval()


@torch.inference_mode()
def exhaustive(
    model: Transformer, prompt: list[int], limit: int, length_penalty: float, prefix: int = 0
) -> list[tuple[tuple[int, ...], str, float]]:
    """Every continuation that ends in token 0 or at the limit: tokens, finish and score, best first."""
    found = []
    for length in range(1, limit + 1):
        for new in itertools.product(range(model.config.vocab_size), repeat=length):
            stopped = new[-1] == 0
            if 0 in new[:-1] or not (stopped or length == limit):
                continue
            tokens = torch.tensor([[*prompt, *new]])
            scores = model(tokens, prefix=torch.tensor([prefix])).log_softmax(-1)[0, len(prompt) - 1 :]
            total = sum(scores[place, token].item() for place, token in enumerate(new))
            found.append(
                (new[:-1] if stopped else new, "stop" if stopped else "length", total / length**length_penalty)
            )
    return sorted(found, key=lambda hypothesis: (hypothesis[1] != "stop", -hypothesis[2]))


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0, -0.5])
@pytest.mark.parametrize("fields", [{}, ROTARY], ids=["gpt2", "rotary"])
def test_enough_beams_find_what_exhaustive_search_finds(fields: dict[str, object], length_penalty: float) -> None:
    """Order, scores and the split into finished and cut off, for a ragged batch with a prefix."""
    model, prompts, prefixes = tiny(**fields), [[1, 2, 3], [3]], [2, 0]
    found = beam_search(
        model,
        prompts,
        beams=121,
        n_best=121,
        max_new_tokens=4,
        stop_tokens=[0],
        length_penalty=length_penalty,
        patience=math.inf,
        prefixes=prefixes,
    )
    for prompt, prefix, hypotheses in zip(prompts, prefixes, found, strict=True):
        expected = exhaustive(model, prompt, 4, length_penalty, prefix)
        assert [(hypothesis.tokens, hypothesis.finish) for hypothesis in hypotheses] == [one[:2] for one in expected]
        for hypothesis, (_, _, score) in zip(hypotheses, expected, strict=True):
            assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0, 2.0])
def test_ending_early_never_loses_the_best(length_penalty: float) -> None:
    """With endless patience a search for one ends only when no live hypothesis can catch up; one for twelve goes on."""
    for seed in range(12):
        model = tiny(vocabulary=7, seed=seed, std=0.3)
        options = {"beams": 12, "max_new_tokens": 10, "stop_tokens": [0, 1, 2], "length_penalty": length_penalty}
        [best] = beam_search(model, [[5, 6]], patience=math.inf, **options)[0]
        everything = beam_search(model, [[5, 6]], patience=math.inf, n_best=12, **options)[0]
        assert best.tokens == everything[0].tokens


def bigram(table: Tensor) -> Transformer:
    """A model whose next-token logits are the row of `table` (V, V) of the last token."""
    size = len(table)
    fields = {"context": 16, "n_layer": 1, "n_head": 1, "norm": "rms", "norm_eps": 0.0, "tie_embeddings": False}
    model = Transformer(ModelConfig.from_dict({"vocab_size": size, "d_model": size} | fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.tokens.weight.copy_(torch.eye(size))
        model.norm.weight.fill_(1.0)
        model.head.weight.copy_(table.T / size**0.5)  # the norm scales a one-hot vector by the root of its width
    return model


def test_a_late_certainty_is_waited_for() -> None:
    """From 1, the end has log-probability -1 and token 2 -2.5; but 2 leads to 3, 4, 5 and the end with certainty.

    After one step the likely end looks safe: a step later the other way is still worse, at -1.25 a token. In the
    end it is better, at -0.5.
    """
    table = torch.zeros(20, 20)
    rest = math.log((1 - math.exp(-1) - math.exp(-2.5)) / 18)
    table[1] = torch.tensor([-1.0, rest, -2.5, *[rest] * 17])
    for token, following in ((2, 3), (3, 4), (4, 5), (5, 0)):
        table[token, following] = 40.0
    options = {"beams": 2, "max_new_tokens": 6, "stop_tokens": [0], "patience": math.inf}
    [best] = beam_search(bigram(table), [[1]], **options)[0]
    assert best.tokens == (2, 3, 4, 5) and best.score == pytest.approx(-0.5, abs=1e-3)


@torch.inference_mode()
def by_hand(model: Transformer, prompt: list[int], beams: int, limit: int, stop: set[int]) -> list[tuple[int, ...]]:
    """The rules of the search, one hypothesis at a time and without a cache, until `beams` have finished."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for length in range(1, limit + 1):
        extended = []
        for total, new in live:
            scores = model(torch.tensor([[*prompt, *new]]))[0, -1].log_softmax(-1).tolist()
            extended += [(total + score, (*new, token)) for token, score in enumerate(scores)]
        extended.sort(reverse=True)
        finished += [(total / length, new[:-1]) for total, new in extended[:beams] if new[-1] in stop]
        live = [(total, new) for total, new in extended if new[-1] not in stop][:beams]
        if len(finished) >= beams:
            break
    cut = [] if len(finished) >= beams else [(total / limit, new) for total, new in live]
    return [new for _, new in sorted(finished, reverse=True) + sorted(cut, reverse=True)][:beams]


@pytest.mark.parametrize("beams", [1, 2, 3, 5])
def test_few_beams_follow_the_stated_rules(beams: int) -> None:
    """A finished hypothesis must not take the place of a live one, or the search dries up."""
    for seed in range(4):
        model = tiny(vocabulary=11, seed=seed, std=0.3)
        found = beam_search(model, [[5, 6]], beams=beams, n_best=beams, max_new_tokens=7, stop_tokens=[0, 1, 2])[0]
        assert [hypothesis.tokens for hypothesis in found] == by_hand(model, [5, 6], beams, 7, {0, 1, 2})


def same(left: Sequence[Hypothesis], right: Sequence[Hypothesis]) -> None:
    assert [one.tokens for one in left] == [one.tokens for one in right]
    for one, other in zip(left, right, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize(
    "fields",
    [{}, ROTARY, ROTARY | {"context": 8}, {"position": "relative"}],
    ids=["gpt2", "rotary", "slides", "relative"],
)
def test_prompts_do_not_influence_each_other(fields: dict[str, object]) -> None:
    """Searches end at different steps; what leaves the batch must take its own rows along and no others."""
    model = tiny(vocabulary=11, **fields)
    prompts = [[1, 2, 3, 4, 5], [6], [7, 8, 9], [10, 3]]
    limits = [9, 14, 4, 12]
    options = {"beams": 3, "n_best": 3, "stop_tokens": [0, 1]}
    together = beam_search(model, prompts, max_new_tokens=limits, **options)
    for prompt, limit, hypotheses in zip(prompts, limits, together, strict=True):
        same(hypotheses, beam_search(model, [prompt], max_new_tokens=limit, **options)[0])


@pytest.mark.parametrize("fields", [{}, ROTARY, {"context": 6}], ids=["gpt2", "rotary", "past-the-context"])
def test_one_beam_is_greedy(fields: dict[str, object]) -> None:
    model = tiny(vocabulary=11, **fields)
    prompts = [[1, 2, 3], [4], [5, 6]]
    greedy = generate(model, prompts, max_new_tokens=12, sampling=Sampling(temperature=0), stop_tokens=[0])
    found = beam_search(model, prompts, beams=1, max_new_tokens=12, stop_tokens=[0])
    assert [(best.tokens, best.finish) for [best] in found] == [(one.tokens, one.finish) for one in greedy]


def test_scores_are_those_of_the_model() -> None:
    """A beam that is scored after it moved to another row's cache would have another probability."""
    model = tiny(vocabulary=11, std=0.3)
    for hypothesis in beam_search(model, [[1, 2, 3]], beams=5, n_best=5, max_new_tokens=8, stop_tokens=[0])[0]:
        new = [*hypothesis.tokens, *([0] if hypothesis.finish == "stop" else [])]
        scores = model(torch.tensor([[1, 2, 3, *new]])).log_softmax(-1)[0, 2:]
        total = sum(scores[place, token].item() for place, token in enumerate(new))
        assert hypothesis.logprob == pytest.approx(total, abs=1e-4)
        assert hypothesis.score == pytest.approx(total / len(new), abs=1e-4)


def test_more_patience_never_finds_worse() -> None:
    """Patience counts finished hypotheses, not steps; looking longer only adds to them."""
    options = {"beams": 3, "max_new_tokens": 12, "stop_tokens": [0, 1], "length_penalty": 1.5}
    gains = []
    for seed in range(6):
        model = tiny(vocabulary=11, seed=seed, std=0.3)
        scores = [beam_search(model, [[5, 6]], patience=p, **options)[0][0].score for p in (0.3, 1.0, math.inf)]
        assert scores == sorted(scores)
        gains.append(scores[2] - scores[0])
    assert max(gains) > 0.01


class Alternate:
    """Only even tokens after odd ones and the other way round; 0 ends."""

    def start(self, prompt: Sequence[int]) -> int:
        return prompt[-1] % 2

    def advance(self, state: int, token: int) -> int:
        return token % 2

    def allowed(self, state: int) -> Tensor:
        return torch.arange(11) % 2 != state


def test_a_grammar_holds_for_every_hypothesis_and_leaves_probabilities_alone() -> None:
    model = tiny(vocabulary=11, std=0.3)
    found = beam_search(
        model, [[1], [2]], beams=6, n_best=6, max_new_tokens=6, stop_tokens=[0], grammar=Alternate(), length_penalty=0
    )
    for prompt, hypotheses in zip(([1], [2]), found, strict=True):
        assert len(hypotheses) == 6
        for hypothesis in hypotheses:
            new = [*hypothesis.tokens, *([0] if hypothesis.finish == "stop" else [])]
            assert all(left % 2 != right % 2 for left, right in itertools.pairwise([*prompt, *new]))
            scores = model(torch.tensor([[*prompt, *new]])).log_softmax(-1)[0]
            total = sum(scores[place, token].item() for place, token in enumerate(new))
            assert hypothesis.score == pytest.approx(total, abs=1e-4)


def test_no_ngram_twice() -> None:
    """A hypothesis that forks must not share its n-grams with its sibling."""
    model = tiny(vocabulary=11, std=0.3)
    options = {"beams": 4, "n_best": 4, "max_new_tokens": 14, "stop_tokens": []}
    plain = beam_search(model, [[1, 1, 1]], **options)[0]
    blocked = beam_search(model, [[1, 1, 1]], no_repeat_ngram=2, **options)[0]

    def repeats(hypothesis: Hypothesis) -> bool:
        pairs = list(itertools.pairwise(hypothesis.tokens))
        return len(set(pairs)) < len(pairs)

    assert any(map(repeats, plain)) and not any(map(repeats, blocked))


def test_bad_arguments_are_named() -> None:
    model = tiny()
    options = {"beams": 2, "max_new_tokens": 3, "stop_tokens": [0]}
    assert beam_search(model, [], **options) == []
    for changes in ({"n_best": 3}, {"beams": 0}, {"max_new_tokens": 0}, {"patience": 0}, {"max_new_tokens": [1, 2]}):
        with pytest.raises(ConfigError, match=next(iter(changes))):
            beam_search(model, [[1]], **(options | changes))
    with pytest.raises(SuiteError, match="prompt 1 is empty"):
        beam_search(model, [[1], []], **options)
    with torch.no_grad():
        model.norm.weight.fill_(math.nan)
    with pytest.raises(SuiteError, match="no hypothesis for prompt 0"):
        beam_search(model, [[1]], **options)
