"""Beam search on arrays against the same rules in plain Python, one hypothesis at a time and without a cache."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from suite.model import KVCache, ModelConfig, Transformer
from suite.sampling import beam_search
from suite.sampling.beam import settled
from suite.sampling.row_cache import RowCache, copy_rows, move_tails
from suite.sampling.rules import Ngrams

VOCABULARY = 9


def toy(seed: int, **fields: object) -> Transformer:
    base = {"vocab_size": VOCABULARY, "context": 24, "d_model": 16, "n_layer": 2, "n_head": 2}
    model = Transformer(ModelConfig.from_dict(base | fields))
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=generator)
    return model.eval()


class Table:
    """A grammar with three states and a table of masks; `masks` is one gather."""

    table = torch.tensor(
        [[(token + state) % 3 != 0 or token == 0 for token in range(VOCABULARY)] for state in range(3)]
    )

    def start(self, prompt: Sequence[int]) -> int:
        return prompt[-1] % 3

    def advance(self, state: int, token: int) -> int:
        return (state + token) % 3

    def allowed(self, state: int) -> Tensor:
        return self.table[state]


class Gathered(Table):
    def masks(self, states: Sequence[int]) -> Tensor:
        return self.table[list(states)]

    def allowed(self, state: int) -> Tensor:
        raise AssertionError("the masks of all rows come in one piece")


@dataclasses.dataclass(frozen=True)
class Live:
    total: float
    new: tuple[int, ...]
    state: int


@torch.inference_mode()
def plain(
    model: Transformer,
    prompt: list[int],
    *,
    beams: int,
    limit: int,
    stops: set[int],
    length_penalty: float,
    n_best: int,
    patience: float,
    grammar: Table | None,
    ngram: int,
) -> list[tuple[tuple[int, ...], str, float]]:
    """The rules that `beam_search` states: tokens, finish and score of the best."""
    live = [Live(0.0, (), grammar.start(prompt) if grammar else 0)]
    finished: list[tuple[tuple[int, ...], str, float]] = []
    cut: list[tuple[tuple[int, ...], str, float]] = []
    for length in range(1, limit + 1):
        extended = []
        for one in live:
            scores = model(torch.tensor([[*prompt, *one.new]]))[0, -1].log_softmax(-1)
            if grammar:
                scores = scores.masked_fill(~grammar.table[one.state], -torch.inf)
            blocked = scores.clone()
            if ngram:
                blocked[list(Ngrams(ngram, one.new).repeats())] = -torch.inf
            scores = scores if blocked.isneginf().all() else blocked
            for token, score in enumerate(scores.tolist()):
                if score > -math.inf:
                    state = grammar.advance(one.state, token) if grammar else 0
                    extended.append(Live(one.total + score, (*one.new, token), state))
        extended.sort(key=lambda one: -one.total)
        scale = length**length_penalty
        finished += [(one.new[:-1], "stop", one.total / scale) for one in extended[:beams] if one.new[-1] in stops]
        live = [one for one in extended if one.new[-1] not in stops][:beams]
        if length == limit:
            cut = [(one.new, "length", one.total / scale) for one in live]
        best = sorted((score for _, _, score in finished), reverse=True)
        if not live or len(finished) >= patience * beams:
            break
        reachable = max(live[0].total / other**length_penalty for other in (length + 1, limit))
        if len(best) >= n_best and reachable <= best[n_best - 1]:
            break
    ranked = [sorted(each, key=lambda one: -one[2]) for each in (finished, cut)]
    return (ranked[0] + ranked[1])[:n_best]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_same_hypotheses_as_in_plain_python(data: st.DataObject) -> None:
    """Ragged prompts, limits of their own, several stop tokens, patience, penalties, grammars and n-grams."""
    beams = data.draw(st.integers(1, 5), "beams")
    options = {
        "beams": beams,
        "n_best": data.draw(st.integers(1, beams), "n_best"),
        "length_penalty": data.draw(st.sampled_from([-0.5, 0.0, 1.0, 1.5]), "length_penalty"),
        "patience": data.draw(st.sampled_from([0.4, 1.0, 2.0, math.inf]), "patience"),
    }
    stops = data.draw(st.sets(st.integers(0, 2), max_size=2), "stops")
    prompts = data.draw(
        st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=6), min_size=1, max_size=4), "prompts"
    )
    limits = data.draw(st.lists(st.integers(1, 8), min_size=len(prompts), max_size=len(prompts)), "limits")
    grammar = data.draw(st.sampled_from([None, Table(), Gathered()]), "grammar")
    ngram = data.draw(st.sampled_from([0, 0, 1, 2, 3]), "ngram")
    position = data.draw(st.sampled_from(["learned", "rotary"]), "position")
    model = toy(data.draw(st.integers(0, 9), "seed"), position=position)
    found = beam_search(
        model, prompts, max_new_tokens=limits, stop_tokens=stops, grammar=grammar, no_repeat_ngram=ngram, **options
    )
    for prompt, limit, hypotheses in zip(prompts, limits, found, strict=True):
        expected = plain(model, prompt, limit=limit, stops=stops, grammar=grammar, ngram=ngram, **options)
        assert [(one.tokens, one.finish) for one in hypotheses] == [one[:2] for one in expected]
        assert [one.score for one in hypotheses] == pytest.approx([one[2] for one in expected], abs=1e-4)


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=5))
def test_hypotheses_keep_their_rows_where_they_can(beams: list[list[int]]) -> None:
    """Every row that has an extension keeps one of them, and each hypothesis has exactly one row."""
    for row, places in zip(beams, settled(np.array(beams)).tolist(), strict=True):
        assert sorted(places) == [0, 1, 2, 3]
        assert all(row[places[beam]] == beam for beam in row)


def filled(kind: type[KVCache], rows: int, seen: int) -> KVCache:
    """A cache of a model's own, each row having read `seen` tokens of its own."""
    model = toy(0, position="rotary")
    cache = kind(model.config, rows, 12)
    tokens = torch.randint(0, VOCABULARY, (rows, seen), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        model.hidden(tokens, cache=cache)
    return cache


def same(left: KVCache, right: KVCache) -> None:
    assert left.seen == right.seen == left.lengths.tolist()
    used = max(left.seen)
    for one, other in zip((*left.keys, *left.values), (*right.keys, *right.values), strict=True):
        assert torch.equal(one[:, :, :used], other[:, :, :used])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_rows_move_as_in_the_plain_cache(rows: list[int]) -> None:
    """Also where they grow in number, shrink, or change places with each other."""
    one, other = filled(RowCache, 5, 6), filled(KVCache, 5, 6)
    one.reorder(rows)
    other.reorder(rows)
    same(one, other)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=5))
def test_what_rows_share_is_not_copied(moves: list[tuple[int, int]]) -> None:
    """Slots in front of the first that differs keep what they hold, and all behind it are copied."""
    rows, shared = [row for row, _ in moves], [count for _, count in moves]
    before, cache = filled(RowCache, 5, 6), filled(RowCache, 5, 6)
    assert isinstance(cache, RowCache)
    for place, (source, count) in enumerate(moves):  # make true what `shared` says
        for old, new in zip((*before.keys, *before.values), (*cache.keys, *cache.values), strict=True):
            new[place, :, :count] = old[source, :, :count] if place not in rows else new[place, :, :count]
    state = [tensor.clone() for tensor in (*cache.keys, *cache.values)]
    cache.reorder(rows, shared=shared)
    for old, new in zip(state, (*cache.keys, *cache.values), strict=True):
        for place, (source, count) in enumerate(moves):
            assert torch.equal(new[place, :, count:6], old[source, :, count:6])
            if place != source and place not in rows:
                assert torch.equal(new[place, :, :6], old[source, :, :6])


def test_rows_move_on_other_devices_as_on_a_cpu() -> None:
    """Rows that change places, with tails of different lengths."""
    layers = torch.randn(4, 5, 2, 9, 3, generator=torch.Generator().manual_seed(0))
    places, sources, firsts = [0, 1, 3], [1, 0, 4], [2, 2, 7]
    one, other = layers.clone(), layers.clone()
    copy_rows(one, places, sources, firsts, 8)
    move_tails(other, [([0, 1], [1, 0], 2), ([3], [4], 7)], 8)
    assert torch.equal(one, other) and not torch.equal(one, layers)


def test_forks_copy_only_what_they_do_not_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search on long prompts copied the prompt's slots anew in each step, for every hypothesis that moved."""
    firsts: list[int] = []
    reorder = RowCache.reorder

    def noted(self: RowCache, rows: Sequence[int], shared: Sequence[int] | None = None) -> None:
        if shared is not None and len(rows) <= self.batch:
            firsts.extend(shared[place] for place, row in enumerate(rows) if place != row)
        reorder(self, rows, shared)

    monkeypatch.setattr(RowCache, "reorder", noted)
    prompt = list(itertools.islice(itertools.cycle(range(1, 9)), 14))
    beam_search(toy(3), [prompt], beams=4, max_new_tokens=9, stop_tokens=[])
    assert firsts and min(firsts) >= len(prompt)
