"""Log-probabilities of given continuations against one plain pass over each."""

import pytest
import torch

from suite.errors import SuiteError
from suite.model import ModelConfig, Transformer
from suite.sampling.score import continuation_logprobs

PROMPT = [3, 1, 4, 1, 5]
CONTINUATIONS = [[9, 2, 6], [5], [3, 5, 8, 9, 7, 9], [3, 2], [0]]


def tiny(**fields: object) -> Transformer:
    torch.manual_seed(0)
    base = {"vocab_size": 10, "context": 16, "d_model": 16, "n_layer": 2, "n_head": 4}
    model = Transformer(ModelConfig.from_dict(base | fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


@pytest.mark.parametrize("fields", [{}, {"position": "rotary", "n_kv_head": 2}, {"position": "relative"}])
@pytest.mark.parametrize("prefix", [0, len(PROMPT)])
@pytest.mark.parametrize("batch", [1, 2, 32])
def test_as_one_pass_over_each(fields: dict[str, object], prefix: int, batch: int) -> None:
    """However they are put together, in the order in which they were given."""
    model = tiny(**fields)
    found = continuation_logprobs(model, PROMPT, CONTINUATIONS, prefix=prefix, batch=batch)
    assert len(found) == len(CONTINUATIONS)
    for ids, logprobs in zip(CONTINUATIONS, found, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[*PROMPT, *ids]]), prefix=torch.tensor([prefix]))[0, len(PROMPT) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        assert torch.allclose(logprobs, expected, atol=1e-5)


def test_a_continuation_may_fill_the_context() -> None:
    """Its last token is scored but never read, so that the last position is free for the one before it."""
    full = [7] * (16 - len(PROMPT) + 1)
    assert len(continuation_logprobs(tiny(), PROMPT, [full])[0]) == len(full)
    with pytest.raises(SuiteError):
        continuation_logprobs(tiny(), PROMPT, [[*full, 7]])


@pytest.mark.parametrize(("prompt", "continuations"), [([], [[1]]), ([1], [[1], []])])
def test_nothing_has_no_likelihood(prompt: list[int], continuations: list[list[int]]) -> None:
    with pytest.raises(SuiteError, match="at least one token"):
        continuation_logprobs(tiny(), prompt, continuations)


def test_no_continuations() -> None:
    assert continuation_logprobs(tiny(), [1], []) == []
