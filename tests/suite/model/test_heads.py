"""A head reads the last real token, and additions of low rank equal the weights they are merged into."""

import pytest
import torch

from suite.model import ModelConfig, Transformer
from suite.model.heads import Headed
from suite.model.lora import LoRALinear, add_lora, additions, merge

CONFIG = ModelConfig(vocab_size=50, context=32, d_model=16, n_layer=2, n_head=2, position="rotary")


def headed(outputs: int = 3) -> Headed:
    torch.manual_seed(0)
    model = Headed(Transformer(CONFIG), outputs).eval()
    torch.nn.init.normal_(model.output.weight)
    return model


@pytest.mark.parametrize("prefixed", [False, True])
def test_padding_changes_nothing(prefixed: bool) -> None:
    """Pooling "the last token that is not pad" by id reads another token when a text holds that id."""
    model = headed()
    texts = [[2, 7, 0, 4], [2, 9, 4], [2, *range(20, 30), 4]]
    together = torch.zeros(3, 16, dtype=torch.long)
    for row, text in enumerate(texts):
        together[row, : len(text)] = torch.tensor(text)
    lengths = torch.tensor([len(text) for text in texts])
    with torch.no_grad():
        for padding in (0, 4, 49):
            padded = torch.where(torch.arange(16) < lengths[:, None], together, padding)
            scores = model(padded, lengths, lengths if prefixed else None)
            for row, text in enumerate(texts):
                length = lengths[row : row + 1]
                alone = model(torch.tensor([text]), length, length if prefixed else None)
                torch.testing.assert_close(scores[row], alone[0], atol=1e-5, rtol=1e-5)


def test_the_head_starts_even() -> None:
    model = Headed(Transformer(CONFIG), 4)
    assert model(torch.tensor([[1, 2, 3]]), torch.tensor([3])).tolist() == [[0.0] * 4]


def test_additions_merge_into_plain_weights() -> None:
    torch.manual_seed(1)
    model = Transformer(CONFIG).eval()
    plain = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tokens = torch.randint(50, (2, 9))
    with torch.no_grad():
        before = model(tokens)
        add_lora(model, rank=3, alpha=6.0)
        torch.testing.assert_close(model(tokens), before)  # the additions start at zero
        for module in model.modules():
            if isinstance(module, LoRALinear):
                torch.nn.init.normal_(module.lora_up, std=0.1)
        changed = model(tokens)
        assert (changed - before).abs().max() > 1e-3
        merged = Transformer(CONFIG).eval()
        merged.load_state_dict(merge(plain, additions(model), scale=2.0))
        torch.testing.assert_close(merged(tokens), changed, atol=1e-5, rtol=1e-4)


def test_only_additions_learn() -> None:
    model = Transformer(CONFIG)
    add_lora(model, rank=2, alpha=2.0)
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert learning == set(additions(model)) and len(learning) == 2 * 4 * CONFIG.n_layer
