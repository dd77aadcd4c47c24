"""The compiled step must be nothing but a faster way to compute what `Transformer` computes for a new token."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import ConfigError, SuiteError
from suite.model import KVCache, ModelConfig, Transformer
from suite.model.config import RopeScaling
from suite.model.lora import add_lora
from suite.model.quantize import ShortEmbedding, ShortLinear, dequantize_int8, prepare_for_inference
from suite.model.step import choice
from suite.model.step.choice import Kernels, Stepper, code_directory, compiled_elsewhere
from suite.sampling import Sampling, beam_search, generate

pytest.importorskip("numba")
SMALL: dict[str, Any] = {"vocab_size": 90, "context": 16, "d_model": 24, "n_layer": 2, "n_head": 4}
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module", autouse=True)
def bound(request: pytest.FixtureRequest) -> Any:
    """The module of the compiled step, with code that is kept from one run of the tests to the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUITE_CACHE", str(request.config.cache.mkdir("suite")))  # type: ignore[union-attr]
        choice.kernels.load(patient=True)
    from suite.model.step import bound

    return bound


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SUITE_STEP", "compiled")
    yield


def build(seed: int = 0, **fields: Any) -> Transformer:
    """Random weights, large enough that no bias or gain is idle."""
    torch.manual_seed(seed)
    transformer = Transformer(ModelConfig(**{**SMALL, **fields})).eval().requires_grad_(False)
    for parameter in transformer.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    return transformer


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    position = draw(st.sampled_from(["learned", "rotary", "relative"]))
    width = draw(st.sampled_from([24, 40, 72]))
    fields: dict[str, Any] = {
        "position": position,
        "d_model": width,
        "n_kv_head": draw(st.sampled_from([1, 2, 4])),
        "d_ff": draw(st.sampled_from([33, 64])),
        "norm": draw(st.sampled_from(["layer", "rms"])),
        "activation": draw(st.sampled_from(["gelu", "gelu_tanh", "relu2", "swiglu"])),
        "bias": draw(st.booleans()),
        "tie_embeddings": draw(st.booleans()),
        "qk_norm": draw(st.booleans()),
        "windows": draw(st.sampled_from([(), (3, 0), (5, 9)])),
        "d_head": draw(st.sampled_from([None, 12])),
        "qkv_bias": draw(st.sampled_from([None, True])),
        "parallel_residual": draw(st.booleans()),
    }
    fields["qk_norm_weight"] = fields["qk_norm"] and draw(st.booleans())
    if position == "rotary":
        fields["rotary_width"] = draw(st.sampled_from([None, 4]))
        fields["rope_scaling"] = draw(st.sampled_from([None, RopeScaling(kind="llama3", factor=8.0)]))
    if position == "relative":
        fields |= {"relative_span": draw(st.sampled_from([None, 5])), "relative_ahead": draw(st.sampled_from([0, 2]))}
    else:
        fields["restart_positions"] = draw(st.booleans())
    return fields


def agree(expected: torch.Tensor, found: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@given(fields=configs(), rows=st.integers(1, 7), threads=st.integers(1, 3), data=st.data())
def test_logits_and_cache_equal_pytorchs_for_ragged_rows_that_slide_and_move(
    bound: Any, fields: dict[str, Any], rows: int, threads: int, data: st.DataObject
) -> None:
    """Any forgotten bias, wrong slot of the ring, lost restart or swapped head would show."""
    transformer = build(**fields)
    config = transformer.config
    chunk = 7
    lengths = [data.draw(st.integers(1, chunk)) for _ in range(rows)]
    prefix = torch.tensor([data.draw(st.integers(0, length)) for length in lengths])
    steps = 8 if config.position == "learned" else 30  # the others slide
    capacity = config.context + chunk - 1
    tokens = torch.randint(config.vocab_size, (rows, chunk))
    caches = [KVCache(config, rows, capacity) for _ in range(2)]
    with torch.inference_mode():
        for cache in caches:
            transformer(tokens, cache=cache, lengths=lengths, prefix=prefix)
        step = bound.BoundStep(transformer, threads)
        for number in range(steps):
            if number == 4:
                order = [data.draw(st.integers(0, rows - 1)) for _ in range(data.draw(st.integers(1, rows + 1)))]
                for cache in caches:
                    cache.reorder(order)
            new = torch.randint(config.vocab_size, (caches[0].batch,))
            expected = transformer(new[:, None], cache=caches[0])[:, -1]
            found = step(new.tolist(), caches[1])
            agree(expected, found)
    assert caches[0].seen == caches[1].seen and caches[0].lengths.equal(caches[1].lengths)
    for ours, theirs in zip(caches[1].keys, caches[0].keys, strict=True):
        agree(theirs[:, :, :capacity], ours[:, :, :capacity])


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("d_model", [48, 2064])  # the second takes channels in pairs, and leaves columns over
def test_every_shape_of_tile(bound: Any, rows: int, d_model: int) -> None:
    transformer = build(d_model=d_model, d_ff=33, n_layer=1)
    one, other = (KVCache(transformer.config, rows, 4) for _ in range(2))
    tokens = torch.randint(90, (rows,))
    with torch.inference_mode():
        agree(transformer(tokens[:, None], cache=one)[:, -1], bound.BoundStep(transformer, 1)(tokens.tolist(), other))


@pytest.mark.parametrize("weights", ["float16", "bfloat16", "int8"])
def test_short_weights_give_what_the_widened_weights_give(bound: Any, weights: str) -> None:
    """Only weights are rounded: an activation rounded as well would be off by a hundred times as much."""
    short = prepare_for_inference(build(position="rotary", d_model=72), weights)
    wide = build(position="rotary", d_model=72)
    for (_, old), (name, new) in zip(wide.named_modules(), short.named_modules(), strict=True):
        if isinstance(new, (ShortLinear, ShortEmbedding)):
            table = new.weight.float() if new.scales is None else dequantize_int8(new.weight, new.scales)
            assert isinstance(old.weight, torch.nn.Parameter), name
            old.weight.data = table
    caches = [KVCache(wide.config, 3, 16) for _ in range(3)]
    step = bound.BoundStep(short, 2)
    with torch.inference_mode():
        for place in range(12):
            tokens = torch.tensor([place, place + 1, 80])
            expected = wide(tokens[:, None], cache=caches[0])[:, -1]
            agree(expected, step(tokens.tolist(), caches[1]))
            agree(expected, short(tokens[:, None], cache=caches[2])[:, -1])


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_broken_weight_is_seen_in_the_logits(bound: Any, value: float) -> None:
    """The sampler refuses logits that are not numbers; fast arithmetic must not make numbers of them."""
    for broken in ("qkv", "down"):
        transformer = build()
        block: Any = transformer.blocks[0]
        (block.attention.qkv if broken == "qkv" else block.mlp.down).weight[0, 0] = value
        logits = bound.BoundStep(transformer, 1)([1, 2], KVCache(transformer.config, 2, 8))
        assert logits.isnan().any(dim=1).all()


def test_helpers_that_never_come_cost_nothing_but_their_help(bound: Any) -> None:
    """A thread that the system has put aside must hold up nobody, and one that comes late must change nothing."""
    transformer = build()
    alone, helped = bound.BoundStep(transformer, 1), bound.BoundStep(transformer, 4)
    helped.team = None
    one, other = (KVCache(transformer.config, 2, 8) for _ in range(2))
    expected, found = alone([1, 2], one), helped([1, 2], other)
    before = found.clone(), other.keys[0].clone()
    for thread in (1, 2, 3):
        helped.help(thread)
    assert found.equal(before[0]) and other.keys[0].equal(before[1])
    agree(expected, found)


def test_two_decoders_at_once_share_the_helpers(bound: Any) -> None:
    """Python threads that decode different models meet at one team; they must not mix things up."""
    models = [build(seed, position="rotary") for seed in (1, 2)]

    def run(transformer: Transformer, threads: int) -> np.ndarray[Any, Any]:
        step, cache = bound.BoundStep(transformer, threads), KVCache(transformer.config, 2, 16)
        return np.stack([step([place % 90, 3], cache).numpy() for place in range(200)])

    expected = [run(model, 1) for model in models]
    found: list[Any] = [None, None]

    def store(place: int) -> None:
        found[place] = run(models[place], 2)

    threads = [threading.Thread(target=store, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)


def test_what_does_not_fit_is_an_error_and_never_a_wild_read(bound: Any) -> None:
    transformer = build()
    step, cache = bound.BoundStep(transformer, 1), KVCache(transformer.config, 1, 2)
    for token in (-1, 90):
        with pytest.raises(SuiteError, match="token ids"):
            step([token], cache)
    for _ in range(2):
        step([1], cache)
    with pytest.raises(SuiteError, match="2 slots"):
        step([1], cache)
    full = KVCache(transformer.config, 1, 16)
    full.advance([16])
    with pytest.raises(SuiteError, match="learned positions end"):
        step([1], full)


def test_what_it_does_not_know_is_left_to_pytorch(bound: Any) -> None:
    lora = build()
    add_lora(lora, 2, 2.0)
    columns = build()
    columns.head.weight.data = columns.head.weight.t().contiguous().t()
    cases = {
        "compressed": build(compress=(4, 0)),
        "dropout": build(dropout=0.1).train(),
        "LoRA": lora,
        "order": columns,
    }
    for reason, transformer in cases.items():
        assert reason in str(bound.why_not(transformer))
    assert bound.why_not(build(), torch.bfloat16) == "activations in bfloat16"
    assert bound.why_not(build()) is None


@pytest.mark.parametrize("kind", ["learned", "rotary"])
def test_generation_is_the_same_with_it_and_without(kind: str, monkeypatch: pytest.MonkeyPatch, bound: Any) -> None:
    """Rows that finish, samples of one prompt, and learned positions that start over, all change the cache."""
    transformer = build(position=kind)
    prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]]
    options: dict[str, Any] = {"max_new_tokens": [25, 12, 30], "stop_tokens": [3], "samples": 2, "sampling": GREEDY}
    rows = {}
    for name in ("torch", "compiled"):
        monkeypatch.setenv("SUITE_STEP", name)
        rows[name] = [row.tokens for row in generate(transformer, prompts, **options)]
    assert rows["compiled"] == rows["torch"]
    found = {}
    for name in ("torch", "compiled"):
        monkeypatch.setenv("SUITE_STEP", name)
        found[name] = beam_search(transformer, prompts, beams=3, max_new_tokens=12, stop_tokens=[0])
    assert [row[0].tokens for row in found["compiled"]] == [row[0].tokens for row in found["torch"]]


def test_the_change_over_in_the_middle_of_a_text_changes_no_token(monkeypatch: pytest.MonkeyPatch, bound: Any) -> None:
    transformer = build(position="rotary")
    monkeypatch.setenv("SUITE_STEP", "torch")
    expected = generate(transformer, [[1, 2]], max_new_tokens=30, sampling=GREEDY)
    monkeypatch.setenv("SUITE_STEP", "auto")
    asked = []

    class Late(Kernels):
        def ready(self, *, wait: bool) -> bool:
            asked.append(wait)
            return len(asked) > 10

    monkeypatch.setattr(choice, "kernels", Late())
    assert generate(transformer, [[1, 2]], max_new_tokens=30, sampling=GREEDY) == expected
    assert len(asked) == 11


def test_without_numba_all_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SUITE_DEBUG", "1")
    monkeypatch.setenv("SUITE_STEP", "auto")
    monkeypatch.setattr(choice, "installed", lambda: False)
    choice.tell.cache_clear()
    for _ in range(2):
        assert len(generate(build(), [[1]], max_new_tokens=3)[0].tokens) == 3
    assert capsys.readouterr().err == "suite: decoding with PyTorch: Numba is not installed\n"


def test_a_mode_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUITE_STEP", "fast")
    with pytest.raises(ConfigError, match="'fast'; the choices are auto, torch, compiled"):
        Stepper(build())


def test_a_directory_that_cannot_be_written_leaves_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    monkeypatch.setenv("SUITE_CACHE", str(blocked))
    monkeypatch.setenv("SUITE_DEBUG", "1")
    choice.tell.cache_clear()
    assert code_directory() is None
    kernels = Kernels()
    kernels.load()
    assert kernels.failed and not kernels.ready(wait=False)
    assert "no place to keep compiled code" in capsys.readouterr().err


def test_only_one_process_compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Eight workers that start together must not compile eight times; a dead one must not block others."""
    runs = []

    def run(command: list[str], **options: Any) -> None:
        runs.append(command)
        assert (tmp_path / choice.COMPILING).exists() and options["start_new_session"]
        (tmp_path / choice.COMPLETE).touch()

    monkeypatch.setattr(subprocess, "run", run)
    assert compiled_elsewhere(tmp_path) and compiled_elsewhere(tmp_path) and len(runs) == 1
    (tmp_path / choice.COMPLETE).unlink()
    busy = tmp_path / choice.COMPILING
    busy.touch()
    os.utime(busy, (0, 0))
    assert compiled_elsewhere(tmp_path) and len(runs) == 2 and not busy.exists()


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_process_that_decoded_ends_well(threads: str, bound: Any, request: pytest.FixtureRequest) -> None:
    """Python ended the helpers while they stood in compiled code, which aborted every command at its very end."""
    command = [sys.executable, "-m", "suite", "run", "lm", "The", "-n", "5", "--seed", "1", "-q"]
    kept = str(request.config.cache.mkdir("suite"))  # type: ignore[union-attr]
    environment = os.environ | {"SUITE_STEP": "compiled", "SUITE_THREADS": threads, "SUITE_CACHE": kept}
    found = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert found.stdout.startswith("The") and (found.returncode, found.stderr) == (0, "")


def test_importing_suite_does_not_import_numba() -> None:
    """Numba takes a quarter of a second to import, which a short command must not pay."""
    code = "import sys, suite, suite.sampling, suite.model.quantize; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_weights_stay_where_they_are(bound: Any) -> None:
    """A second copy of the weights would not fit where the first one just did."""
    transformer = build()
    step = bound.BoundStep(transformer, 1)
    assert step.model[0]["head"]["weight"] == transformer.head.weight.data_ptr()
    twin = copy.deepcopy(transformer)
    twin.blocks[0].mlp.down.weight.zero_()  # type: ignore[union-attr,operator]
    transformer.blocks[0].mlp.down.weight.zero_()  # type: ignore[union-attr,operator]
    agree(
        twin(torch.tensor([[1]]))[:, -1],
        step([1], KVCache(transformer.config, 1, 4)),
    )
