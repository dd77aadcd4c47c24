"""The state of each row between steps of a generation, and the choice of the next token for all rows at once.

Shapes: `B` unfinished rows, `V` vocabulary.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.sampling.largest import in_numpy
from suite.sampling.rules import Grammar, Ngrams, Sampling, SteeringGrammar, apply_rules, draw, exact, masks
from suite.sampling.text import StopText


class Row:
    """The state of a continuation that its sampling rules, its grammar and its text need.

    Args:
        index: index among all rows of the generation.
        limit: maximum number of new tokens.
        seed: seed of its random draws; two rows with the same seed and logits choose the same tokens.
        prompt: token ids.
        vocabulary: V, the vocabulary size.
        sampling: the settings; they decide which state is kept.
        grammar: says which tokens may come next (None: all); the same for all rows of a generation.
        text: decodes the text of the new tokens (None: no text).
    """

    def __init__(
        self,
        *,
        index: int,
        limit: int,
        seed: int,
        prompt: Sequence[int],
        vocabulary: int,
        sampling: Sampling,
        grammar: Grammar | None,
        text: StopText | None,
    ) -> None:
        self.index, self.limit, self.grammar, self.text = index, limit, grammar, text
        self.count = 0  # new tokens
        # on the CPU whatever the model's device, so that a seed gives the same numbers everywhere
        self.generator = None if sampling.greedy else torch.Generator().manual_seed(seed)
        self.steering = grammar if isinstance(grammar, SteeringGrammar) else None
        self.state = grammar.start(prompt) if grammar is not None else None
        counted = prompt if sampling.count_prompt else ()
        self.ngrams = Ngrams(sampling.no_repeat_ngram, counted) if sampling.no_repeat_ngram else None
        self.seen: Tensor | None = None  # (V,)
        if sampling.repetition_penalty != 1.0:
            self.seen = torch.zeros(vocabulary, dtype=torch.bool)
            self.seen[list(counted)] = True

    def push(self, token: int) -> None:
        """Append a token and update the state."""
        self.count += 1
        if self.grammar is not None:
            self.state = self.grammar.advance(self.state, token)
        if self.ngrams is not None:
            self.ngrams.push(token)
        if self.seen is not None:
            self.seen[token] = True


def row_seed(seed: int, sample: int) -> int:
    """The seed of a sample's generator, independent of the position of its prompt in the batch."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{sample}".encode(), digest_size=8).digest())


def choose(logits: Tensor, rows: Sequence[Row], sampling: Sampling, model: str = "the model") -> list[int]:
    """Choose the next token of each row (B,) from the logits (B, V).

    Raises:
        SuiteError: no token is allowed in a row, or its logits are not numbers; the message names the model.
    """
    logits, grammar, steering = exact(logits), rows[0].grammar, rows[0].steering
    if steering is not None:
        logits = torch.stack([steering.steer(row.state, own) for row, own in zip(rows, logits, strict=True)])
    scores = apply_rules(
        logits,
        sampling,
        allowed=masks(grammar, [row.state for row in rows], logits) if grammar is not None else None,
        seen=stack([row.seen for row in rows if row.seen is not None], logits),
        forbidden=[row.ngrams.repeats() for row in rows if row.ngrams is not None],
    )
    if sampling.greedy:
        best, chosen = likeliest(scores)
        impossible = [place for place, score in enumerate(best) if not math.isfinite(score)]
    else:
        uniforms = [torch.rand((), dtype=torch.float64, generator=row.generator) for row in rows]
        chosen = draw(scores, torch.stack(uniforms).to(logits.device)).tolist()  # (B,)
        impossible = [place for place, token in enumerate(chosen) if token == logits.shape[-1]]
    if impossible:
        row = rows[impossible[0]]
        raise SuiteError(
            f"row {row.index} has nothing to choose from after {row.count} new tokens: grammar and logit bias forbid "
            f"every token, or the logits of {model} are not numbers"
        )
    return chosen


def likeliest(scores: Tensor) -> tuple[list[float], list[int]]:
    """The largest entry of each row of (B, V), and its place; of equal ones the first."""
    if not in_numpy(scores):
        best, places = scores.max(dim=-1)
        return best.tolist(), places.tolist()
    entries = scores.detach().numpy()
    found = entries.argmax(axis=-1)  # a tenth of the time of PyTorch's, which is that of a layer
    return entries[np.arange(len(found)), found].tolist(), found.tolist()


def origin_of(transformer: object) -> str:
    """The directory that a transformer was loaded from, or "the model"."""
    return str(getattr(transformer, "origin", "the model"))


def stack(vectors: Sequence[Tensor], like: Tensor) -> Tensor | None:
    """Stack vectors (V,) into (B, V) on the device of `like`; None if there are no vectors."""
    return torch.stack(list(vectors)).to(like.device) if vectors else None
