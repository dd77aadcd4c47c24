"""What a model of `transformers` asks for when it writes: the tokens that end a text, and defaults for sampling."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.errors import CheckpointError

# setting of generation_config.json -> field of suite.Sampling
_SETTINGS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
}


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A model's own defaults for writing; what a user asks for goes before them.

    Attributes:
        stop: ids of tokens that end a text, besides the tokenizer's `<eos>`.
        settings: fields of `suite.Sampling`.
    """

    stop: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_generation(directory: Path, settings: Mapping[str, Any], vocab_size: int) -> Generation:
    """Read generation_config.json, and the end tokens of config.json where it names none.

    Args:
        directory: of the model.
        settings: the content of config.json.
        vocab_size: of the model; an id that it does not have ends nothing.

    Raises:
        CheckpointError: the file is damaged, or a value in it is not a number.
    """
    path = directory / "generation_config.json"
    try:
        found = json.loads(path.read_bytes()) if path.exists() else {}
        ends = found.get("eos_token_id", settings.get("eos_token_id"))
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read as a JSON object: {error}") from error
    ids = ends if isinstance(ends, list) else [] if ends is None else [ends]
    chosen = {ours: found[theirs] for theirs, ours in _SETTINGS.items() if found.get(theirs) is not None}
    if found.get("do_sample") is False:
        chosen["temperature"] = 0.0
    for name, value in [*chosen.items(), *(("eos_token_id", id) for id in ids)]:
        if isinstance(value, bool) or not isinstance(value, int if name.endswith("id") else (int, float)):
            raise CheckpointError(f"{path}: {name} is {value!r}, but must be a number")
    return Generation(stop=tuple(id for id in ids if 0 <= id < vocab_size), settings=chosen)
