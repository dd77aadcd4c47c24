"""What a checkpoint's `extra` says is parsed as strictly as a recipe: one line that names the file and the key."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from suite import load, pipeline
from suite.checkpoint import Model, save_checkpoint
from suite.errors import CheckpointError, SuiteError
from suite.model import ModelConfig, Transformer
from suite.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    return {}


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("lm", {"note": 1}, "unknown key 'extra.note'"),
    ("classify", {"attention": "prefixx"}, "extra.attention"),
    ("classify", {"temperature": 1e-9}, "extra.temperature"),
    ("classify", {"temperature": "1.3"}, "extra.temperature"),
    ("classify", {"temprature": 1.0}, "did you mean 'extra.temperature'"),
    ("classify", {"max_tokens": 10**6}, "extra.max_tokens"),
    ("classify", {"labels": "abc"}, "extra.labels"),
    ("classify", {"labels": ["a", "a"]}, "extra.labels"),
    ("classify", {"ngram_weight": -1}, "extra.ngram_weight"),
    ("translate", {"source_limit": 10**30}, "extra.source_limit"),
    ("translate", {"source_limit": 44.0}, "extra.source_limit"),
    ("translate", {"directions": [["de"]]}, "extra.directions"),
    ("translate", {"directions": [["de", "xx"]]}, "extra.directions"),
    ("translate", {"length_ratio": {"en-de": [0.1]}}, "extra.length_ratio.en-de"),
    ("translate", {"length_ratio": {"en-de": [100.0, 0.1]}}, "extra.length_ratio.en-de"),
    ("translate", {"languages": ["de", "en", ""]}, "language code"),
    ("summarize", {"source_tokens": 10**9}, "extra.source_tokens"),
    ("summarize", {"lead_tokens": True}, "extra.lead_tokens"),
    ("summarize", {"ranker": [0.1]}, "extra.ranker"),
    ("summarize", {"style": "poem"}, "extra.style"),
    ("music", {"pedal": "no"}, "extra.pedal"),
    ("music", {"events": 3}, "extra.events"),
    ("music", {"bounds": {"strokes": 3}}, "extra.bounds"),
    ("music", {"bound": None}, "did you mean 'extra.bounds'"),
]


@pytest.mark.parametrize(("task", "change", "words"), FAULTS, ids=lambda value: str(value)[:40])
def test_settings_that_cannot_be(task: str, change: dict[str, Any], words: str, models: dict[str, Model]) -> None:
    """A classifier with "attention": "prefixx" read its texts causally, and answered with exit code 0."""
    model = models.setdefault(task, models.get(task) or load(task))
    wrong = dataclasses.replace(model, extra={**model.extra, **change})
    with pytest.raises(CheckpointError, match=r"config\.json") as caught:
        pipeline(task, wrong)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [{"temperature": 0}, {}, {"beams": 2}])
def test_logits_that_are_no_numbers_name_the_checkpoint(settings: dict[str, Any], tmp_path: Path) -> None:
    config = ModelConfig(vocab_size=257, context=16, d_model=16, n_layer=1, n_head=2)
    weights = Transformer(config).state_dict()
    weights["blocks.0.mlp.up.weight"] = torch.full_like(weights["blocks.0.mlp.up.weight"], 1e38)
    save_checkpoint(tmp_path, config, weights, Tokenizer.bytes())
    with pytest.raises(SuiteError, match=f"logits of {tmp_path} are not numbers"):
        pipeline("lm", str(tmp_path))("a", max_new_tokens=3, **settings)
