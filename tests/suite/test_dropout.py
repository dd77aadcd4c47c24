"""Dropout drops as often as it says, keeps the sum, and repeats with its seed."""

import pytest
import torch

from suite.model import ModelConfig, Transformer, transformer
from suite.model.dropout import dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_of_zeros_and_the_mean_are_those_asked_for(p: float, dtype: torch.dtype) -> None:
    """Numbers cut out of others must be as even as those drawn singly, each quarter of them too."""
    torch.manual_seed(1)
    dropped = dropout(torch.ones(4001, 101, dtype=dtype), p).float()
    deviation = (p * (1 - p) / dropped.numel()) ** 0.5
    assert abs((dropped == 0).float().mean() - p) < 5 * deviation
    for quarter in range(4):
        share = (dropped.flatten()[quarter::4] == 0).float().mean()
        assert abs(share - p) < 10 * deviation
    left = dropped[dropped != 0]
    assert left.unique().numel() == 1
    assert left[0] == pytest.approx(1 / (1 - p), rel=0.02)


def test_gradients_pass_where_values_passed() -> None:
    """A mask drawn again for the gradient would train what the loss never saw."""
    x = torch.randn(7, 13, requires_grad=True)
    dropped = dropout(x, 0.4)
    dropped.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, dropped)


def test_a_seed_repeats_it_and_the_next_call_differs() -> None:
    """Resumed runs must end in the same bits, and no two layers share a mask."""
    x = torch.ones(64, 64)
    torch.manual_seed(3)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5), first) and not torch.equal(first, second)


def test_no_chance_is_no_copy() -> None:
    """Models without dropout must not pay for it."""
    x = torch.ones(3)
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_drops_in_training_alone(dtype: torch.dtype) -> None:
    """Embeddings, attention and both branches; evaluation is exact."""
    config = ModelConfig(vocab_size=50, context=16, d_model=16, n_layer=1, n_head=2, dropout=0.5)
    model = Transformer(config).to(dtype)
    tokens = torch.arange(10)[None]
    model.train()
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


@pytest.mark.parametrize(
    ("dropout", "attention_dropout", "drops"), [(0.5, None, True), (0.5, 0.0, False), (0.0, 0.5, True)]
)
def test_attention_weights_have_a_rate_of_their_own(
    dropout: float, attention_dropout: float | None, drops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dropout elsewhere, training is random where attention weights are dropped, and there alone."""
    monkeypatch.setattr(transformer, "dropout", lambda x, p: x)
    config = ModelConfig(
        vocab_size=50, context=16, d_model=16, n_layer=1, n_head=2, dropout=dropout, attention_dropout=attention_dropout
    )
    model = Transformer(config).train()
    tokens = torch.arange(10)[None]
    assert torch.equal(model(tokens), model(tokens)) != drops
