"""How many positions are read: like lengths together, equal prompts once, and the head at the last token alone."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from suite.model import KVCache, ModelConfig, Transformer
from suite.sampling import Sampling, generate
from suite.sampling.decoding import PADDING, SHARED, Decoding, like_lengths
from suite.sampling.score import continuation_logprobs

KINDS = {
    "learned": {},
    "rotary": {"position": "rotary", "n_kv_head": 2},
    "relative": {"position": "relative"},
    "restarts": {"position": "rotary", "restart_positions": True},
    "compressed": {"position": "rotary", "windows": [0, 8], "compress": [3, 0]},
    "slides": {"position": "rotary", "context": 12},
}


def toy(**fields: object) -> Transformer:
    base = {"vocab_size": 30, "context": 64, "d_model": 16, "n_layer": 2, "n_head": 4}
    torch.manual_seed(0)
    model = Transformer(ModelConfig.from_dict(base | fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def reading(model: Transformer, prompts: Sequence[list[int]], prefixes: list[int] | None = None) -> Decoding:
    return Decoding(model, prompts, prefixes, max_new_tokens=4, prefill_chunk=16)


class Counter:
    """Counts the positions that a model reads, and those that it scores."""

    def __init__(self, model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = self.scored = 0
        hidden, logits = model.hidden, model.logits

        def count_read(tokens: Tensor, *, cache: KVCache | None = None, **rest: object) -> Tensor:
            self.read += tokens.numel()
            return hidden(tokens, cache=cache, **rest)

        def count_scored(states: Tensor) -> Tensor:
            self.scored += states.shape[:-1].numel()
            return logits(states)

        monkeypatch.setattr(model, "hidden", count_read)
        monkeypatch.setattr(model, "logits", count_scored)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_groups_have_every_row_once_and_little_padding(lengths: list[int]) -> None:
    groups = list(like_lengths(lengths))
    assert sorted(itertools.chain(*groups)) == list(range(len(lengths)))
    for group in groups:
        real = sum(lengths[row] for row in group)
        assert max(lengths[row] for row in group) * len(group) - real <= PADDING * real
    assert len(list(like_lengths(lengths, slack=10**6))) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefixed", [False, True])
def test_prompts_read_in_groups_are_those_read_alone(kind: str, prefixed: bool) -> None:
    """Logits of the first token and of those after it, for lengths in several groups that lie apart."""
    model = toy(**KINDS[kind])
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(0, 30, (n,), generator=generator).tolist() for n in (20, 5, 19, 40, 6, 5, 20)]
    prompts[5] = prompts[1]
    prefixes = [n // 2 if prefixed else 0 for n in map(len, prompts)]
    together = reading(model, prompts, prefixes)
    found = [together.prefill(), together.step([1] * 7), together.step([2] * 7)]
    for row, (prompt, prefix) in enumerate(zip(prompts, prefixes, strict=True)):
        alone = reading(model, [prompt], [prefix])
        for logits, expected in zip(found, [alone.prefill(), alone.step([1]), alone.step([2])], strict=True):
            torch.testing.assert_close(logits[row : row + 1], expected, rtol=1e-4, atol=1e-4)


def test_little_padding_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One long prompt among short ones cost as much as if all were long."""
    model = toy()
    prompts = [[(7 * row + place) % 29 for place in range(n)] for row, n in enumerate((50, 3, 4, 3, 11, 12, 4, 49, 3))]
    counter = Counter(model, monkeypatch)
    reading(model, prompts).prefill()
    assert sum(map(len, prompts)) <= counter.read <= (1 + PADDING) * sum(map(len, prompts))
    assert counter.scored == len(prompts)


def test_samples_and_equal_prompts_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy()
    counter = Counter(model, monkeypatch)
    prompt = list(range(1, 21))
    rows = generate(model, [prompt, [4, 5], prompt], samples=3, max_new_tokens=1, sampling=Sampling(), seed=[0, 1, 2])
    assert counter.read == len(prompt) + 2 and len(rows) == 9


@pytest.mark.parametrize("kind", ["learned", "rotary", "relative"])
def test_a_common_beginning_is_read_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts that differ at their ends, such as the same instructions before several questions."""
    model = toy(**KINDS[kind])
    common = [place % 30 for place in range(SHARED + 9)]
    prompts = [[*common, 3], [*common, 4, 5, 6], common, [*common, 3, 8]]
    alone = [reading(model, [prompt]).prefill() for prompt in prompts]
    counter = Counter(model, monkeypatch)
    torch.testing.assert_close(reading(model, prompts).prefill(), torch.cat(alone), rtol=1e-4, atol=1e-4)
    assert counter.read < 2 * len(common)


def test_scoring_reads_and_scores_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long continuation among short ones had the head compute logits of its length for all of them."""
    model = toy(position="rotary")
    continuations = [[1, 2, 3], [4], list(range(1, 25)), [5, 6, 7], [8, 9, 10]]
    counter = Counter(model, monkeypatch)
    found = continuation_logprobs(model, [1, 2, 3, 4], continuations)
    assert counter.scored == 1 + sum(len(row) - 1 for row in continuations)
    assert counter.read == 4 + sum(len(row) - 1 for row in continuations)
    assert [len(scores) for scores in found] == [len(row) for row in continuations]
