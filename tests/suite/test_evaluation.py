"""Loss over windows and the n-gram baseline, against the slow and obvious way."""

import math

import numpy as np
import pytest
import torch

from suite.errors import ConfigError, DataError
from suite.evaluation import NGrams, token_losses, xz_bits_per_byte
from suite.model import ModelConfig, Transformer


def tiny(**choices: object) -> Transformer:
    torch.manual_seed(0)
    fields = {"vocab_size": 11, "context": 8, "d_model": 16, "n_layer": 2, "n_head": 2, **choices}
    model = Transformer(ModelConfig(**fields)).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)  # far from uniform, so that a wrong window shows
    return model


@pytest.mark.parametrize("count", [2, 5, 9, 10, 17, 40])
@pytest.mark.parametrize("stride", [1, 3, 8])
def test_every_token_is_scored_once_in_the_window_that_is_stated(count: int, stride: int) -> None:
    model = tiny()
    tokens = np.random.default_rng(count).integers(0, 11, count)
    found = token_losses(model, tokens, stride=stride)
    starts = [*range(0, max(0, count - 1 - 8), stride), max(0, count - 1 - 8)]
    done = 0
    for start in starts:  # one window at a time
        window = torch.from_numpy(tokens[start : start + 9])[None]
        with torch.no_grad():
            nats = -model(window[:, :-1]).log_softmax(-1)[0].gather(1, window[0, 1:, None])[:, 0]
        for place, value in enumerate(nats.tolist(), start):
            if place >= done:
                assert found[place] == pytest.approx(value, abs=1e-4)
                done = place + 1
    assert done == len(found) == count - 1


def test_windows_without_overlap_see_only_themselves() -> None:
    model = tiny()
    tokens = np.random.default_rng(1).integers(0, 11, 33)
    changed = tokens.copy()
    changed[:8] = (changed[:8] + 1) % 11
    first, second = token_losses(model, tokens, stride=8), token_losses(model, changed, stride=8)
    assert np.allclose(first[8:], second[8:]), "a window looked at the one before it"


@pytest.mark.parametrize("stride", [0, 9])
def test_a_stride_that_would_skip_tokens_is_refused(stride: int) -> None:
    if stride:
        with pytest.raises(ConfigError, match="stride"):
            token_losses(tiny(), np.arange(10), stride=stride)
    with pytest.raises(DataError, match="too few"):
        token_losses(tiny(), np.arange(1))


def test_windows_past_learned_positions_are_refused() -> None:
    with pytest.raises(ConfigError, match="context"):
        token_losses(tiny(), np.arange(10), length=9)


def slow_trigram(training: list[list[int]], history: list[int], token: int, vocabulary: int) -> float:
    """Witten and Bell, from the definition."""
    probability = 1 / vocabulary
    for n in (1, 2, 3):
        context = ([None] * (n - 1) + history)[len(history) :]
        followers = [
            document[place]
            for document in training
            for place in range(len(document))
            if ([None] * (n - 1) + document)[place : place + n - 1] == context
        ]
        if followers:
            kinds = len(set(followers))
            probability = (followers.count(token) + kinds * probability) / (len(followers) + kinds)
    return probability


def test_trigrams_are_witten_bell_and_sum_to_one() -> None:
    random = np.random.default_rng(3)
    training = [random.integers(0, 5, 30), random.integers(0, 3, 20)]
    model = NGrams(training, 3, 5)
    text = [1, 4, 0, 2, 2, 3]
    found = model.losses(np.array(text))
    lists = [document.tolist() for document in training]
    for place, token in enumerate(text):
        assert math.exp(-found[place]) == pytest.approx(slow_trigram(lists, text[:place], token, 5))
    for place in range(len(text)):
        total = sum(math.exp(-model.losses(np.array([*text[:place], token]))[-1]) for token in range(5))
        assert total == pytest.approx(1)


def test_xz_finds_repetition() -> None:
    assert xz_bits_per_byte(b"abc" * 10_000) < 0.1 < 7 < xz_bits_per_byte(np.random.default_rng(0).bytes(10_000))
