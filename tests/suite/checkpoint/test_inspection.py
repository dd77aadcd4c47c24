"""What a loaded model shows of itself to research code."""

import dataclasses

import pytest
import torch

from suite import load
from suite.checkpoint import Model
from suite.errors import DataError

TEXT = "A robot must obey the orders given it"


@pytest.fixture(scope="module")
def model() -> Model:
    return load("lm")


def test_text_and_tokens_are_the_same_question(model: Model) -> None:
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(TEXT)
    assert torch.equal(model.attentions(TEXT), model.attentions(torch.tensor(ids)))
    assert model.attentions(ids).shape == (4, 5, len(ids), len(ids))
    assert model.hidden_states(TEXT).shape == (5, len(ids), 320)
    found = model.trace(TEXT, keep=["hidden", "residual"])
    assert found.hidden is not None
    with torch.no_grad():
        assert torch.equal(model.transformer.norm(model.hidden_states(TEXT)[-1]), found.hidden)


@torch.no_grad()
def test_logprobs_are_those_of_the_whole_softmax(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.tokenizer is not None
    ids = torch.tensor(model.tokenizer.encode(TEXT))
    expected = model.transformer(ids[None])[0, :-1].log_softmax(dim=-1).gather(-1, ids[1:, None])[:, 0]
    assert torch.allclose(model.logprobs(TEXT), expected, atol=1e-5)
    monkeypatch.setattr("suite.checkpoint.inspection.ROWS", 3)
    assert torch.allclose(model.logprobs(TEXT), expected, atol=1e-5)
    assert len(model.logprobs([5])) == 0


def test_bertviz_gets_a_batch_of_one_for_each_layer(model: Model) -> None:
    found = model.bertviz(TEXT)
    assert [tuple(weights.shape) for weights in found["attention"]] == [(1, 5, *[len(found["tokens"])] * 2)] * 4
    assert "".join(found["tokens"]) == TEXT
    assert dataclasses.replace(model, tokenizer=None).bertviz([1, 2])["tokens"] == ["1", "2"]


def test_what_cannot_be_read_is_said(model: Model) -> None:
    with pytest.raises(DataError, match="the text is empty"):
        model.trace("")
    with pytest.raises(DataError, match="token 8192 is not in the vocabulary of 8192"):
        model.logprobs([1, 8192])
    with pytest.raises(DataError, match="lm has no tokenizer, so it reads tokens and no text"):
        dataclasses.replace(model, tokenizer=None).attentions("a")
