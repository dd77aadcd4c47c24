"""The piecewise cross-entropy must be torch's, in value and gradient."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from suite.model import ModelConfig, Transformer
from suite.training import Batch, Example, cross_entropy, language_modelling, loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_torch(monkeypatch: pytest.MonkeyPatch, smoothing: float, weighted: bool) -> None:
    """The gradient is written by hand; pieces of 3 rows leave a last piece of 1, slices of 2 a last one of 1."""
    monkeypatch.setattr(loss, "PIECE", 3 * 11)
    monkeypatch.setattr(loss, "SLICE", 2 * 11)
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(10, 8, generator=rng, dtype=torch.float64).requires_grad_()
    head = torch.randn(11, 8, generator=rng, dtype=torch.float64).requires_grad_()
    targets = torch.randint(11, (10,), generator=rng)
    weights = torch.rand(10, generator=rng, dtype=torch.float64) if weighted else None
    each = F.cross_entropy(hidden @ head.T, targets, reduction="none", label_smoothing=smoothing)
    expected = (each * (1 if weights is None else weights)).sum()
    expected_gradients = torch.autograd.grad(3 * expected, (hidden, head))
    found = cross_entropy(hidden, head, targets, weights=weights, smoothing=smoothing)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)
    for gradient, wanted in zip(torch.autograd.grad(3 * found, (hidden, head)), expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_no_positions() -> None:
    """A batch whose examples were all cut before their target has loss 0, not NaN."""
    hidden, head = torch.zeros(0, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True)
    found = cross_entropy(hidden, head, torch.zeros(0, dtype=torch.long))
    found.backward()
    assert found.item() == 0 and head.grad is not None and not head.grad.any()


EXAMPLES = [Example(np.arange(5)), Example(np.arange(9), prefix=3, target=4)]


def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(vocab_size=9, context=16, d_model=8, n_layer=1, n_head=2))


def test_language_modelling_is_the_same_for_a_row_alone_and_padded() -> None:
    """Padding must touch neither the loss nor the count."""
    net, lm = model(), language_modelling()
    total, count, _ = lm(net, Batch.collate(EXAMPLES))
    alone = [lm(net, Batch.collate([example])) for example in EXAMPLES]
    torch.testing.assert_close(total, alone[0][0] + alone[1][0])
    assert count == alone[0][1] + alone[1][1] == 4 + 5


def test_source_weight_and_smoothing_are_of_training_alone() -> None:
    """A validation loss with smoothing in it cannot be compared between recipes."""
    net = model()
    batch = Batch.collate(EXAMPLES[1:])
    plain, weighted = language_modelling(), language_modelling(source_weight=0.5, smoothing=0.1)
    net.eval()
    assert torch.equal(plain(net, batch)[0], weighted(net, batch)[0])
    net.train()
    assert not torch.equal(plain(net, batch)[0], weighted(net, batch)[0])
    source = Batch.collate([Example(EXAMPLES[1].tokens[:4], prefix=3)])
    expected = plain(net, batch)[0] + 0.5 * plain(net, source)[0]
    torch.testing.assert_close(language_modelling(source_weight=0.5)(net, batch)[0], expected)
    assert language_modelling(source_weight=0.5)(net, batch)[1] == batch.count


def test_validation_computes_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters ask for gradients under no_grad, too: that would be two products more, for nothing."""
    hidden, head = torch.randn(5, 8), torch.randn(11, 8, requires_grad=True)
    monkeypatch.setattr(torch, "mm", None)
    with torch.no_grad():
        assert cross_entropy(hidden, head, torch.zeros(5, dtype=torch.long)) > 0
