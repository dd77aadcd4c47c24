"""Tokens a second in greedy decoding, beside `transformers` with the same weights."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suite.bench.options import DecodeOptions
from suite.bench.timing import Speed, best_times, memory_bandwidth
from suite.errors import ConfigError
from suite.model import ModelConfig, Transformer

BASELINE = "transformers float32"
Decoder = Callable[[list[list[int]]], list[list[int]]]  # prompts -> the new tokens after each


def decode(options: DecodeOptions, *, say: Callable[[str], object] = lambda line: None) -> list[Speed]:
    """Speeds of greedy decoding on the CPU, prefill included, by GPT-2 with random weights: one a system and batch.

    Args:
        options: what to measure.
        say: called with a line that states the measured memory bandwidth.
    """
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    config = ModelConfig.gpt2(options.size)
    model = Transformer(config).eval()
    with torch.no_grad():  # initial weights barely tell tokens apart; this makes the greedy choice a clear one
        for parameter in model.parameters():
            parameter.mul_(2)
    decoders = _baseline(model, options.new) if options.baseline else {}
    bandwidth = memory_bandwidth()
    say(f"memory bandwidth: {bandwidth / 1e9:.1f} GB/s on {options.threads} threads")
    decoders |= _decoders(model, options)
    speeds = []
    for batch in options.batches:
        ids = np.random.default_rng(0).integers(0, config.vocab_size, (batch, options.prompt)).tolist()
        seconds, tokens = _time(decoders, ids, options.repeats)
        for name, taken in seconds.items():
            speed = options.new / taken
            speeds.append(
                Speed(
                    system=name,
                    batch=batch,
                    tokens_per_second=speed,
                    ratio=seconds[BASELINE] / taken if BASELINE in seconds else None,
                    bandwidth_share=_bytes_read(config, name) * speed / bandwidth,
                    agrees=_equal(tokens[name], tokens[BASELINE]) if BASELINE in seconds and name != BASELINE else None,
                )
            )
    return speeds


def _decoders(model: Transformer, options: DecodeOptions) -> dict[str, Decoder]:
    """Our decoders of a model: one for each type of weights, and the compiled one if asked for."""
    from suite.model.quantize import prepare_for_inference
    from suite.sampling import Sampling, generate

    def decoder(transformer: Transformer, compile: bool) -> Decoder:
        def run(ids: list[list[int]]) -> list[list[int]]:
            greedy = Sampling(temperature=0)
            rows = generate(transformer, ids, max_new_tokens=options.new, sampling=greedy, compile=compile)
            return [list(row.tokens) for row in rows]

        return run

    decoders = {}
    for kind in options.weights:
        transformer = prepare_for_inference(_copy(model), kind)
        decoders[f"suite {kind}"] = decoder(transformer, False)
        if kind == "float32" and options.compile:
            decoders["suite float32 compiled"] = decoder(transformer, True)
    return decoders


def _baseline(model: Transformer, new: int) -> dict[str, Decoder]:
    """The decoder of `transformers` for the same model."""
    reference = as_transformers(model)
    return {BASELINE: lambda ids: reference(torch.tensor(ids), new).tolist()}


def _time(
    decoders: dict[str, Decoder], ids: list[list[int]], repeats: int
) -> tuple[dict[str, float], dict[str, list[list[int]]]]:
    """Seconds that each decoder takes at best, and the tokens that it decodes."""
    tokens: dict[str, list[list[int]]] = {}

    def turn(name: str) -> Callable[[], object]:
        return lambda: tokens.update({name: decoders[name](ids)})

    return best_times({name: turn(name) for name in decoders}, repeats), tokens


def _equal(rows: list[list[int]], others: list[list[int]]) -> int:
    """How many tokens are equal at the same place."""
    pairs = zip(rows, others, strict=True)
    return sum(a == b for row, other in pairs for a, b in zip(row, other, strict=True))


def _copy(model: Transformer) -> Transformer:
    """The model in memory of its own, since preparing one for inference consumes it."""
    twin = Transformer(model.config).eval()
    twin.load_state_dict(model.state_dict())
    return twin


def _bytes_read(config: ModelConfig, system: str) -> float:
    """Bytes of weights that a decoding step of this system must read: all but the position embeddings."""
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in Transformer(config).parameters())
    if config.position == "learned":
        count -= config.context * config.d_model
    return count * (2 if "16" in system else 1 if "int8" in system else 4)


def as_transformers(model: Transformer) -> Callable[[Tensor, int], Tensor]:
    """The same model in `transformers`: a function from ids (B, T) and a number of tokens to that many ids (B, new)."""
    try:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging as their_logging
    except ImportError as error:
        raise ConfigError("the baseline needs transformers: pip install 'decoder-suite[baselines]'") from error
    from suite.checkpoint import Model
    from suite.checkpoint.gpt2 import export

    logging: Any = their_logging
    logging.disable_progress_bar()  # it would stand between the lines of our table
    with tempfile.TemporaryDirectory() as folder:
        bare = Model(transformer=model, tokenizer=None, task="lm", name="benchmark", directory=Path(folder))
        export(bare, Path(folder))
        other: Any = AutoModelForCausalLM.from_pretrained(folder)
        other.eval()

    def run(ids: Tensor, new: int) -> Tensor:
        with torch.inference_mode():
            out = other.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False
            )
        return out[:, ids.shape[1] :]  # type: ignore[no-any-return]

    return run
