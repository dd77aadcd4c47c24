"""Generation against a loop without any cache, and a row's independence of everything around it."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from suite.errors import ConfigError, SuiteError
from suite.model import ModelConfig, Transformer
from suite.sampling import Generated, Sampling, generate, stream
from suite.sampling.decoding import window_start

VOCABULARY = 29
GREEDY = Sampling(temperature=0)
ROTARY = {"position": "rotary", "norm": "rms", "activation": "swiglu", "bias": False, "qk_norm": True, "n_kv_head": 2}
SETTINGS = {
    "gpt2": {},
    "rotary": ROTARY,
    "relative": {"position": "relative", "relative_span": 7, "relative_ahead": 2, "n_kv_head": 2},
    "windows": ROTARY | {"windows": [3, 0]},
    "learned-windows": {"windows": [0, 4]},
}
every_setting = pytest.mark.parametrize("fields", SETTINGS.values(), ids=SETTINGS)
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 10, 11], [12, 13, 14], [3, 1] * 15]  # the last is longer than the context


def tiny(**fields: object) -> Transformer:
    """A random model whose next token depends on all that it sees."""
    torch.manual_seed(1)
    base = {"vocab_size": VOCABULARY, "context": 12, "d_model": 16, "n_layer": 2, "n_head": 4}
    model = Transformer(ModelConfig.from_dict(base | fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


@torch.inference_mode()
def uncached(model: Transformer, prompt: list[int], count: int, prefix: int = 0) -> tuple[list[int], list[float]]:
    """Greedy tokens and their log-probabilities, the whole sequence (or window) read anew for each."""
    tokens, logprobs = list(prompt), []
    for _ in range(count):
        learned = model.config.position == "learned"
        start = window_start(len(tokens), model.config.context) if learned else 0
        left = torch.tensor([max(0, prefix - start)])
        scores = model(torch.tensor([tokens[start:]]), prefix=left)[0, -1].log_softmax(-1)
        tokens.append(int(scores.argmax()))
        logprobs.append(scores.max().item())
    return tokens[len(prompt) :], logprobs


def same(left: Generated, right: Generated) -> None:
    assert (left.tokens, left.text, left.finish) == (right.tokens, right.text, right.finish)
    assert left.logprobs == pytest.approx(right.logprobs, abs=1e-3)


@every_setting
def test_greedy_equals_the_loop_without_a_cache(fields: dict[str, object]) -> None:
    """In one ragged batch, from prompts shorter and longer than the context, until all are far past it."""
    model = tiny(**fields)
    for prompt, row in zip(
        PROMPTS, generate(model, PROMPTS, max_new_tokens=30, sampling=GREEDY, logprobs=True), strict=True
    ):
        tokens, logprobs = uncached(model, prompt, 30)
        assert list(row.tokens) == tokens
        assert row.logprobs == pytest.approx(logprobs, abs=1e-3)
        assert row.finish == "length"


@every_setting
def test_prefixes_equal_the_loop_without_a_cache(fields: dict[str, object]) -> None:
    model, prefixes = tiny(**fields), [5, 1, 0, 3, 25]
    rows = generate(model, PROMPTS, max_new_tokens=20, sampling=GREEDY, prefixes=prefixes)
    for prompt, prefix, row in zip(PROMPTS, prefixes, rows, strict=True):
        assert list(row.tokens) == uncached(model, prompt, 20, prefix)[0]


@every_setting
def test_a_row_does_not_depend_on_its_batch_mates(fields: dict[str, object]) -> None:
    """Sampling with one generator for the batch gives every row another text as soon as a row joins or leaves."""
    model = tiny(**fields)
    limits = [25, 3, 14, 30, 8]
    options = {"sampling": Sampling(top_p=0.9), "logprobs": True, "seed": 7, "stop_tokens": [0, 1]}
    together = generate(model, PROMPTS, max_new_tokens=limits, **options)
    backwards = generate(model, PROMPTS[::-1], max_new_tokens=limits[::-1], **options)[::-1]
    for prompt, limit, row, other in zip(PROMPTS, limits, together, backwards, strict=True):
        same(row, generate(model, [prompt], max_new_tokens=limit, **options)[0])
        same(row, other)


@pytest.mark.parametrize("name", ["gpt2", "windows"])
@given(chunk=st.integers(1, 40))
@settings(max_examples=10, deadline=None)
def test_any_prefill_chunk_gives_the_same(name: str, chunk: int) -> None:
    model = tiny(**SETTINGS[name])
    options = {"max_new_tokens": 6, "logprobs": True, "seed": 1}
    for row, other in zip(
        generate(model, PROMPTS, prefill_chunk=chunk, **options), generate(model, PROMPTS, **options), strict=True
    ):
        same(row, other)


@every_setting
def test_what_was_generated_may_as_well_have_been_the_prompt(fields: dict[str, object]) -> None:
    """A window that depended on where the prompt ended would give a resumed session another continuation."""
    model = tiny(**fields)
    whole = generate(model, [[5, 6]], max_new_tokens=40, sampling=GREEDY)[0].tokens
    for cut in (3, 11, 17, 29):
        rest = generate(model, [[5, 6, *whole[:cut]]], max_new_tokens=40 - cut, sampling=GREEDY)[0].tokens
        assert rest == whole[cut:]


def test_a_context_of_one_token_works() -> None:
    model = tiny(context=1)
    row = generate(model, [[5, 6]], max_new_tokens=9, sampling=GREEDY)[0]
    assert list(row.tokens) == uncached(model, [5, 6], 9)[0]


class Letters:
    """A tokenizer: id 3n gives a letter, other ids half of one, which is shown once its second half is there."""

    def __init__(self) -> None:
        self.half = ""

    def stream(self) -> "Letters":
        return Letters()

    def push(self, token: int) -> str:
        letter = "abcd"[token % 4]
        if token % 3 == 0:
            return letter
        out, self.half = self.half, "" if self.half else letter.upper()
        return out

    def flush(self) -> str:
        return "?" if self.half else ""


@pytest.mark.parametrize("stop", [(), ("ab", "ba", "Dd")], ids=["to-the-end", "stop-strings"])
def test_streamed_equals_whole(stop: Sequence[str]) -> None:
    """What was printed while it ran is the result, also when a stop string ends it."""
    model = tiny()
    options = {"max_new_tokens": 25, "samples": 3, "tokenizer": Letters(), "logprobs": True, "stop": stop}
    texts, finishes = [""] * 15, [""] * 15
    for step in stream(model, PROMPTS, **options):
        assert not finishes[step.row], "a step after the last"
        texts[step.row] += step.text
        finishes[step.row] = step.finish or ""
    rows = generate(model, PROMPTS, **options)
    assert texts == [row.text for row in rows]
    assert finishes == [row.finish for row in rows]
    assert ("stop" in finishes) == bool(stop)
    for row in rows:
        letters = Letters()
        whole = "".join(letters.push(token) for token in row.tokens) + letters.flush()
        ends = [whole.find(word) for word in stop if word in whole]
        assert row.text == (whole[: min(ends)] if ends else whole)
        assert (row.finish == "stop") == bool(ends)


def test_each_step_is_yielded_before_the_next_is_computed() -> None:
    """Streaming that buffers is not streaming; and suspended it must leave the caller's gradient mode alone."""
    model = tiny()
    passes = []
    model.register_forward_hook(lambda *_: passes.append(torch.is_inference_mode_enabled()))
    steps = stream(model, [[1, 2]], max_new_tokens=5)
    counts = []
    for _ in steps:
        counts.append(len(passes))
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    assert all(passes), "a graph for the backward pass was kept"
    assert counts == [0, 1, 2, 3, 4]  # the prefill does not go through forward, and the last token is never fed


def test_finished_rows_leave_the_batch() -> None:
    """A batch that drags its finished rows along runs at the speed of its longest row for all of them."""
    model = tiny()
    sizes = []
    model.register_forward_hook(lambda _, args, __: sizes.append(len(args[0])))
    generate(model, [[1], [2], [3]], max_new_tokens=[2, 5, 3], samples=2)
    assert sizes == [6, 4, 2, 2]


def test_samples_differ_and_do_not_depend_on_their_number() -> None:
    model = tiny()
    three = generate(model, [[1, 2], [3]], max_new_tokens=12, samples=3, seed=5)
    assert len({row.tokens for row in three[:3]}) == 3
    one = generate(model, [[1, 2], [3]], max_new_tokens=12, seed=5)
    assert [three[0].tokens, three[3].tokens] == [row.tokens for row in one]


def test_seeds_decide_and_global_chance_does_not() -> None:
    model = tiny()
    before = torch.random.get_rng_state()
    [first, second, third] = generate(model, [[1, 2]] * 3, max_new_tokens=12, seed=[5, 5, 6])
    assert first == second != third
    assert first == generate(model, [[1, 2]], max_new_tokens=12, seed=5)[0]
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_stop_token_ends_a_row_and_is_not_part_of_it() -> None:
    model = tiny()
    whole = generate(model, [[1, 2]], max_new_tokens=20, logprobs=True, top_logprobs=2)[0]
    for place in (0, 7, 19):
        stop = whole.tokens[place]
        first = whole.tokens.index(stop)
        row = generate(model, [[1, 2]], max_new_tokens=20, logprobs=True, top_logprobs=2, stop_tokens=[stop])[0]
        assert (row.tokens, row.finish) == (whole.tokens[:first], "stop")
        assert len(row.logprobs) == len(row.top) == first


def test_log_probabilities_are_the_models_own() -> None:
    """Reported after temperature and top-k they would be those of another distribution."""
    model = tiny()
    shaped = Sampling(temperature=0.5, top_k=3, repetition_penalty=1.3, logit_bias={4: 2.0})
    row = generate(model, [[1, 2]], max_new_tokens=8, sampling=shaped, logprobs=True, top_logprobs=4)[0]
    scores = model(torch.tensor([[1, 2, *row.tokens]])).log_softmax(-1)[0, 1:]
    for place, (token, logprob, top) in enumerate(zip(row.tokens, row.logprobs, row.top, strict=True)):
        assert logprob == pytest.approx(scores[place, token].item(), abs=1e-4)
        expected = scores[place].topk(4)
        assert [one for one, _ in top] == expected.indices.tolist()
        assert [value for _, value in top] == pytest.approx(expected.values.tolist(), abs=1e-4)
    assert generate(model, [[1, 2]], max_new_tokens=8)[0].logprobs == ()


class Countdown:
    """Only tokens below the one before; 0 after 1, and at 0 from the top again."""

    def start(self, prompt: Sequence[int]) -> int:
        return prompt[-1]

    def advance(self, state: int, token: int) -> int:
        return token or VOCABULARY

    def allowed(self, state: int) -> Tensor:
        return torch.arange(VOCABULARY) < state


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(), Sampling(top_k=5, top_p=0.9, temperature=3.0)], ids=str)
def test_a_grammar_holds_in_every_row(sampling: Sampling) -> None:
    model = tiny()
    prompts = [[28], [3, 9], [15]]
    rows = generate(model, prompts, max_new_tokens=25, sampling=sampling, samples=2, grammar=Countdown())
    for prompt, row in zip([prompt for prompt in prompts for _ in range(2)], rows, strict=True):
        assert all((left or VOCABULARY) > right for left, right in itertools.pairwise([prompt[-1], *row.tokens]))


class Steered(Countdown):
    """All probability to the highest token that is allowed."""

    def steer(self, state: int, logits: Tensor) -> Tensor:
        return logits.index_fill(0, torch.tensor([state - 1]), 1e4)


def test_a_grammar_may_steer_each_row_by_its_own_state() -> None:
    """A mask gives what it forbids to all others alike; a steering grammar says to which, row by row."""
    model = tiny()
    prompts = [[28], [3, 9], [15]]
    for sampling in (GREEDY, Sampling()):
        rows = generate(model, prompts, max_new_tokens=4, sampling=sampling, grammar=Steered())
        assert [row.tokens for row in rows] == [(27, 26, 25, 24), (8, 7, 6, 5), (14, 13, 12, 11)]
        alone = generate(model, prompts[1:2], max_new_tokens=4, sampling=sampling, grammar=Steered())
        assert alone[0].tokens == rows[1].tokens


def test_a_dead_end_is_an_error_and_not_a_random_token() -> None:
    model = tiny()
    for sampling in (GREEDY, Sampling(), Sampling(top_p=0.5, top_k=3)):
        with pytest.raises(SuiteError, match="row 1 has nothing to choose from after 0 new tokens"):
            generate(model, [[5], [0]], max_new_tokens=3, sampling=sampling, grammar=Countdown())
    with torch.no_grad():
        model.norm.weight.fill_(torch.nan)
    for sampling in (GREEDY, Sampling(), Sampling(top_p=0.5)):
        with pytest.raises(SuiteError, match="not numbers"):
            generate(model, [[5]], max_new_tokens=3, sampling=sampling)


@pytest.mark.parametrize("count_prompt", [True, False])
def test_history_rules_see_the_right_history(count_prompt: bool) -> None:
    """Rows leave and samples fan out; each keeps a history of its own."""
    model = tiny()
    prompts = [[5, 6, 5, 6, 5, 6, 7], [1, 2, 1], [9]]
    shaped = Sampling(temperature=0, no_repeat_ngram=2, repetition_penalty=1.5, count_prompt=count_prompt)
    rows = generate(model, prompts, max_new_tokens=[20, 4, 12], sampling=shaped)
    for prompt, row in zip(prompts, rows, strict=True):
        tokens, first = list(prompt), 0 if count_prompt else len(prompt)
        for token in row.tokens:
            start = window_start(len(tokens), model.config.context)
            scores = model(torch.tensor([tokens[start:]]))[0, -1].detach().clone()
            history = tokens[first:]
            for old in set(history):
                scores[old] = scores[old] / 1.5 if scores[old] > 0 else scores[old] * 1.5
            for left, right in itertools.pairwise(history):
                if left == history[-1]:
                    scores[right] = -torch.inf
            assert token == int(scores.argmax())
            tokens.append(token)


def test_bad_arguments_are_named() -> None:
    """Each is refused when the function is called, not when the stream is first read."""
    model = tiny()
    assert generate(model, [], max_new_tokens=3) == []
    for changes, message in (
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"max_new_tokens": [1, 2]}, "1 prompts came with 2 max_new_tokens"),
        ({"seed": [1, 2]}, "2 seeds"),
        ({"samples": 0}, "samples 0"),
        ({"stop": ["x"]}, "need a tokenizer"),
        ({"stop": "", "tokenizer": Letters()}, "must not be empty"),
        ({"top_logprobs": 30}, "vocabulary of 29"),
        ({"sampling": Sampling(logit_bias={29: 1.0})}, "vocabulary of 29"),
    ):
        with pytest.raises(ConfigError, match=message):
            stream(model, [[1]], **({"max_new_tokens": 3} | changes))
    with pytest.raises(SuiteError, match="prompt 0 is empty"):
        stream(model, [[]], max_new_tokens=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields", [{}, ROTARY | {"windows": [3, 0]}, SETTINGS["relative"]], ids=["gpt2", "rotary", "relative"]
)
def test_compiled_equals_eager(fields: dict[str, object]) -> None:
    """Across restarts, sliding and rows that leave: whatever Python number was frozen in shows here."""
    model = tiny(**fields)
    options = {"max_new_tokens": [25, 3, 14, 30, 8], "sampling": GREEDY, "logprobs": True}
    for row, other in zip(
        generate(model, PROMPTS, compile=True, **options), generate(model, PROMPTS, **options), strict=True
    ):
        same(row, other)


def test_an_argument_that_nothing_reads_is_refused() -> None:
    model = Transformer(ModelConfig(vocab_size=8, context=8, d_model=8, n_layer=1, n_head=1))
    with pytest.raises(TypeError, match="no argument 'top_logprob'"):
        generate(model, [[1]], max_new_tokens=1, top_logprob=3)  # type: ignore[call-arg]
