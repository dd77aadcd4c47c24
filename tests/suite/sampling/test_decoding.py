"""Rows under way: what the model still sees of a long row, and which prompts it refuses."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import SuiteError
from suite.model import ModelConfig, Transformer
from suite.sampling.decoding import Decoding, reach, window_start


def decoding(prompts: list[list[int]], prefixes: list[int] | None = None, **fields: object) -> Decoding:
    base = {"vocab_size": 11, "context": 8, "d_model": 16, "n_layer": 2, "n_head": 2}
    torch.manual_seed(0)
    model = Transformer(ModelConfig.from_dict(base | fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)  # large enough that every difference shows
    return Decoding(model, prompts, prefixes, max_new_tokens=9, prefill_chunk=4)


@given(st.integers(1, 200), st.integers(1, 40))
def test_windows_are_never_empty_never_too_long_and_only_move_on(length: int, context: int) -> None:
    start, following = window_start(length, context), window_start(length + 1, context)
    seen = length - start
    assert seen == length if length <= context else context // 2 < seen <= context
    assert following == start or (seen == context and length + 1 - following == context // 2 + 1)


def test_learned_windows_keep_what_is_left_of_the_prefix() -> None:
    """Twelve tokens in a context of 8 start at 4: a prefix of 6 has two tokens left, one of 3 none."""
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2]
    for prefix, left in ((6, 2), (3, 0)):
        rows = decoding([prompt], [prefix])
        expected = rows.transformer(torch.tensor([prompt[4:]]), prefix=torch.tensor([left]))[:, -1]
        torch.testing.assert_close(rows.prefill(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "fields", [{"position": "rotary"}, {"position": "relative"}, {"position": "rotary", "windows": [3, 0]}]
)
@pytest.mark.parametrize("prefix", [0, 195])
def test_a_long_prompt_costs_what_the_model_sees_of_it(
    fields: dict[str, Any], prefix: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 letters took 16 seconds, all but the last few read for nothing. The logits are those of the whole."""
    read: list[int] = []
    hidden = Transformer.hidden

    def counted(self: Transformer, tokens: torch.Tensor, **options: Any) -> torch.Tensor:
        read.append(tokens.shape[1])
        return hidden(self, tokens, **options)

    prompt = torch.randint(11, (200,), generator=torch.Generator().manual_seed(0)).tolist()
    totals = []
    for length in (100, 200):
        rows = decoding([prompt[-length:]], [max(0, prefix - 200 + length)], **fields)
        start = torch.tensor([max(0, prefix - 200 + length)]) if prefix else None
        expected = rows.transformer(torch.tensor([prompt[-length:]]), prefix=start)[:, -1]
        read.clear()
        monkeypatch.setattr(Transformer, "hidden", counted)
        torch.testing.assert_close(rows.prefill(), expected, rtol=1e-4, atol=1e-5)
        monkeypatch.setattr(Transformer, "hidden", hidden)
        totals.append(sum(read))
    assert totals[0] == totals[1] == reach(rows.transformer.config) < 20


def test_a_prefix_is_read_in_one_pass_whatever_the_chunk() -> None:
    """A prefix cut in two would hide its second half from its first."""
    prompt = [1, 2, 3, 4, 5, 6, 7]
    rows = decoding([prompt, [4]], [6, 0])
    expected = rows.transformer(torch.tensor([prompt]), prefix=torch.tensor([6]))[0, -1]
    torch.testing.assert_close(rows.prefill()[0], expected, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_read_is_named() -> None:
    """From inside the model each of these would be an index error, or a wrong answer."""
    for prompts, prefixes, message in (
        ([[1], []], None, "prompt 1 is empty"),
        ([[1], [2, 11]], None, "prompt 1 has the token id 11, but the model's ids are 0 to 10"),
        ([[-1]], None, "prompt 0 has the token id -1"),
        ([[1, 2]], [3], "prompt 0 has 2 tokens and a prefix of 3"),
        ([[1, 2]], [1, 1], "2 prefix lengths were given for 1 prompts"),
    ):
        with pytest.raises(SuiteError, match=message):
            decoding(prompts, prefixes)
    with pytest.raises(SuiteError, match="training mode"):
        decoding([[1]], dropout=0.1)
