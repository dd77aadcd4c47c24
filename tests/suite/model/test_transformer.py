"""The forward pass without a cache: who sees whom, what is shared, and GPT-2's own numbers."""

from typing import Any

import pytest
import torch

from suite.errors import SuiteError
from suite.model import ModelConfig, Transformer
from suite.model.rotary import rotary_table, rotate

ROTARY = {"position": "rotary", "norm": "rms", "activation": "swiglu", "bias": False, "qk_norm": True}
RELATIVE = {"position": "relative", "relative_ahead": 2}


def tiny(**changes: object) -> Transformer:
    """A random model with weights large enough that every difference shows."""
    fields = {"vocab_size": 23, "context": 12, "d_model": 16, "n_layer": 1, "n_head": 4} | changes
    torch.manual_seed(0)
    model = Transformer(ModelConfig.from_dict(fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def influence(model: Transformer, length: int, prefix: int | None = None) -> list[list[int]]:
    """For each position, which tokens change its logits."""
    before = None if prefix is None else torch.tensor([prefix])
    tokens = torch.arange(length)[None] % 7
    base = model(tokens, prefix=before)
    seen: list[list[int]] = [[] for _ in range(length)]
    for source in range(length):
        changed = tokens.clone()
        changed[0, source] += 9
        difference = (model(changed, prefix=before) - base).abs().amax(-1)[0]
        for position in range(length):
            if difference[position] > 0:
                seen[position].append(source)
    return seen


@pytest.mark.parametrize(
    "fields", [{}, ROTARY, ROTARY | {"n_kv_head": 2}, RELATIVE], ids=["gpt2", "rotary", "grouped", "relative"]
)
@torch.inference_mode()
def test_each_position_sees_exactly_what_is_before_it(fields: dict[str, object]) -> None:
    """A model that sees the future trains to a perfect loss and generates nonsense."""
    assert influence(tiny(**fields), 6) == [list(range(position + 1)) for position in range(6)]


@pytest.mark.parametrize("fields", [{}, ROTARY, RELATIVE], ids=["gpt2", "rotary", "relative"])
@torch.inference_mode()
def test_prefix_positions_see_each_other_both_ways(fields: dict[str, object]) -> None:
    """A prefix one too long shows the first target token to its own prediction."""
    expected = [[0, 1, 2]] * 3 + [list(range(position + 1)) for position in range(3, 6)]
    assert influence(tiny(**fields), 6, prefix=3) == expected


@torch.inference_mode()
def test_a_window_counts_the_position_itself() -> None:
    """Off by one here and cached decoding sees another window than training did."""
    expected = [list(range(max(0, position - 2), position + 1)) for position in range(8)]
    assert influence(tiny(windows=[3]), 8) == expected
    assert influence(tiny(windows=[3], **ROTARY), 8) == expected


@torch.inference_mode()
def test_a_window_holds_in_the_prefix_too() -> None:
    assert influence(tiny(windows=[3], **ROTARY), 6, prefix=4)[1] == [0, 1, 2, 3]
    assert influence(tiny(windows=[2], **ROTARY), 6, prefix=4)[1] == [0, 1, 2]


@torch.inference_mode()
def test_windows_apply_to_their_own_layers() -> None:
    """With windows 2 and 0 the second layer still sees everything."""
    assert influence(tiny(n_layer=2, windows=[2, 0]), 6)[5] == list(range(6))
    assert influence(tiny(n_layer=2, windows=[2, 2]), 6)[5] == [3, 4, 5]


@pytest.mark.parametrize("fields", [ROTARY, RELATIVE, RELATIVE | {"relative_span": 2}])
@torch.inference_mode()
def test_sequences_longer_than_the_context_slide(fields: dict[str, object]) -> None:
    expected = [list(range(max(0, position - 3), position + 1)) for position in range(9)]
    assert influence(tiny(context=4, **fields), 9) == expected


def test_learned_positions_end_at_the_context() -> None:
    """An embedding index out of range would be a traceback without a reason."""
    with pytest.raises(SuiteError, match="13 tokens are more than the model's context of 12"):
        tiny()(torch.zeros(1, 13, dtype=torch.long))


@pytest.mark.parametrize("fields", [{}, ROTARY, RELATIVE], ids=["gpt2", "rotary", "relative"])
@torch.inference_mode()
def test_padding_on_the_right_changes_nothing(fields: dict[str, object]) -> None:
    """Training pads without a mask; a row's loss must not depend on its batch-mates."""
    model = tiny(**fields)
    tokens = torch.randint(23, (3, 9))
    prefix = torch.tensor([0, 2, 4])
    for row, length in enumerate((9, 5, 4)):
        alone = model(tokens[row : row + 1, :length], prefix=prefix[row : row + 1])
        torch.testing.assert_close(model(tokens, prefix=prefix)[row, :length], alone[0], rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_grouped_heads_are_heads_that_share_keys_and_values() -> None:
    """Queries must go with their own group: heads 0 and 1 with the first key/value head, not 0 and 2."""
    grouped, full = tiny(n_kv_head=2, **ROTARY), tiny(**ROTARY)
    weights = grouped.state_dict()
    queries, keys, values = weights["blocks.0.attention.qkv.weight"].split((16, 8, 8))
    repeated = [part.view(2, 4, 16).repeat_interleave(2, dim=0).reshape(16, 16) for part in (keys, values)]
    weights["blocks.0.attention.qkv.weight"] = torch.cat([queries, *repeated])
    full.load_state_dict(weights)
    tokens = torch.randint(23, (2, 7))
    torch.testing.assert_close(grouped(tokens), full(tokens), rtol=1e-5, atol=1e-5)


def test_rotation_makes_scores_depend_on_distance_alone() -> None:
    query, key = torch.randn(2, 8, dtype=torch.float64)

    def score(left: int, right: int) -> float:
        cos, sin = rotary_table(torch.tensor([left, right]), 8, 100.0)
        turned = rotate(torch.stack([query, key]), cos, sin)
        return float(turned[0] @ turned[1])

    assert score(3, 1) == pytest.approx(score(40, 38), abs=1e-5)
    assert score(3, 1) != pytest.approx(score(3, 2), abs=1e-3)


@pytest.mark.parametrize(
    ("size", "parameters"),
    [("124M", 124_439_808), ("355M", 354_823_168), ("774M", 774_030_080), ("1558M", 1_557_611_200)],
)
def test_gpt2_has_its_published_number_of_parameters(size: str, parameters: int) -> None:
    with torch.device("meta"):
        model = Transformer(ModelConfig.gpt2(size))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_initialisation_is_gpt2s() -> None:
    """Residual projections shrink with depth; without it deep models start with exploding activations."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=500, context=64, d_model=128, n_layer=8, n_head=4))
    for name, parameter in model.named_parameters():
        residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
        if parameter.dim() == 2:
            assert parameter.std().item() == pytest.approx(0.02 / 4 if residual else 0.02, rel=0.05), name
        else:
            assert parameter.unique().tolist() == [0.0 if name.endswith("bias") else 1.0], name


def test_tied_embeddings_are_one_tensor() -> None:
    tied, untied = tiny(), tiny(tie_embeddings=False)
    assert tied.head.weight is tied.tokens.weight
    assert untied.head.weight is not untied.tokens.weight


@torch.inference_mode()
def test_dropout_acts_in_training_alone() -> None:
    model = tiny(dropout=0.5)
    tokens = torch.randint(23, (1, 5))
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("choices", [{}, {"n_kv_head": 1}, {"windows": (4, 0)}])
def test_short_training_attention_is_attention(choices: dict[str, Any], prefixed: bool) -> None:
    """In bfloat16 a CPU trains short sequences on a path of its own; it gives what float32 gives, but for rounding."""
    torch.manual_seed(0)
    model = Transformer(
        ModelConfig(vocab_size=50, context=32, d_model=32, n_layer=2, n_head=4, position="rotary", **choices)
    )
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.2)  # so that attention is far from even
    tokens = torch.randint(50, (3, 20))
    prefix = torch.tensor([0, 7, 20]) if prefixed else None
    probe = torch.randn(3, 20, 32)  # the sum alone of what a norm puts out has no gradient
    gradients = []
    outputs = []
    for short in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=short):
            outputs.append(model.hidden(tokens, prefix=prefix).float())
        (outputs[-1] * probe).sum().backward()
        found = model.get_parameter("blocks.0.attention.qkv.weight").grad
        assert found is not None
        gradients.append(found.flatten().clone())
    torch.testing.assert_close(outputs[1], outputs[0], atol=0.15, rtol=0.05)
    assert torch.nn.functional.cosine_similarity(*gradients, dim=0) > 0.98
