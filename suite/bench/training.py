"""Tokens a second in training steps of a GPT-2-shaped model, beside `transformers` in a plain loop."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suite.bench.options import TrainOptions
from suite.bench.timing import Speed, best_times
from suite.errors import ConfigError
from suite.model import ModelConfig, Transformer
from suite.training.batches import Batch, Example, FiniteSource
from suite.training.device import emulates_bfloat16, has_bfloat16
from suite.training.loop import Trainer
from suite.training.loss import language_modelling
from suite.training.recipe import BatchConfig, Recipe, RunConfig
from suite.training.state import RunDirectory

Step = Callable[[], object]


def train(options: TrainOptions, *, say: Callable[[str], object] = lambda line: None) -> list[Speed]:
    """Speeds of optimizer steps (forward, backward, clipping, AdamW) on random tokens: one a system and precision.

    Args:
        options: what to measure.
        say: called with a line as each system is first timed, and on what is left out or slow.
    """
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    place = torch.device(options.device)
    batch, length = options.batch, options.length
    config = ModelConfig(
        vocab_size=options.vocab_size,
        context=length,
        d_model=options.d_model,
        n_layer=options.n_layer,
        n_head=options.n_head,
    )
    rows = np.random.default_rng(0).integers(0, options.vocab_size, (batch, length + 1))
    systems: dict[str, Step] = {}
    with tempfile.TemporaryDirectory() as folder:
        for precision in _precisions(options, place, say):
            recipe = Recipe(
                task="lm",
                run=RunConfig(steps=options.repeats + 1, precision=precision),  # type: ignore[arg-type]
                batch=BatchConfig(size=batch),
            )
            systems[f"suite {precision}"] = _our_step(Transformer(config), recipe, rows, place, Path(folder))
            if options.baseline:
                systems[f"transformers {precision}"] = _plain_step(config, rows, precision, place)
        seconds = best_times(
            systems,
            options.repeats,
            options.limit,
            lambda name, taken: say(f"{name}: {batch * length / taken:,.0f} tokens/s in a first step of {taken:.1f} s"),
        )
    speeds = []
    for name, taken in seconds.items():
        ratio = seconds[f"transformers {name.split()[1]}"] / taken if options.baseline else None
        speeds.append(Speed(system=name, batch=batch, tokens_per_second=batch * length / taken, ratio=ratio))
    return speeds


def _precisions(options: TrainOptions, place: torch.device, say: Callable[[str], object]) -> tuple[str, ...]:
    """The precisions to measure; says so where bfloat16 is left out, or will be slow."""
    if not options.precisions:
        if has_bfloat16(place):
            return ("float32", "bfloat16")
        say(
            f"bfloat16 is left out: this device ({place}) has no instructions for it, or none that training would "
            "use, and emulating them takes up to a hundred times as long; --precision bfloat16 measures it"
        )
        return ("float32",)
    if "bfloat16" in options.precisions and emulates_bfloat16(place):
        say(f"this device ({place}) has no instructions for bfloat16; emulating them may take minutes a step")
    return options.precisions


def _our_step(
    model: Transformer, recipe: Recipe, rows: np.ndarray[Any, Any], place: torch.device, folder: Path
) -> Step:
    """A function that takes one step of our training loop on `rows` (B, T + 1)."""
    examples = [Example(row) for row in rows]
    trainer = Trainer(model, FiniteSource(examples), recipe, RunDirectory(folder), [], language_modelling(), place)
    trainer.stepper.model.train()

    def step() -> None:
        trainer.take_step([Batch.collate(examples)])
        if place.type == "cuda":
            torch.cuda.synchronize()

    return step


def _plain_step(config: ModelConfig, rows: np.ndarray[Any, Any], precision: str, place: torch.device) -> Step:
    """A function that takes one step of `transformers` on `rows` (B, T + 1), in the loop that everybody writes."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError as error:
        raise ConfigError("the baseline needs transformers: pip install 'decoder-suite[baselines]'") from error

    model: Any = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocab_size,
            n_positions=config.context,
            n_embd=config.d_model,
            n_layer=config.n_layer,
            n_head=config.n_head,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,  # GPT-2's would lie outside this vocabulary
            eos_token_id=None,
        )
    )
    model.to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.from_numpy(rows).to(place)

    def step() -> None:
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(tokens[:, :-1]).logits  # (B, T, V)
            loss: Any = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if place.type == "cuda":
            torch.cuda.synchronize()

    return step
