"""What each row of a generation remembers between steps, and the choice of a token for all rows at once.

Shapes: `B` rows under way, `V` vocabulary.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from suite.errors import SuiteError
from suite.sampling.rules import Grammar, Ngrams, Sampling, SteeringGrammar, apply_rules, draw, exact
from suite.sampling.text import StopText


class Row:
    """The history of one continuation, as far as its rules, its grammar and its text need it.

    Args:
        index: among all rows of the generation.
        limit: new tokens at which it ends.
        seed: of its chance: two rows with the same seed and logits choose the same tokens.
        prompt: ids.
        vocabulary: V.
        sampling: the settings; they decide what has to be remembered.
        grammar: None, or what says which tokens may come.
        text: None, or where its text comes together.
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
        # on the CPU whatever the model's device, so that a seed means the same everywhere
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
        """Remember one more token."""
        self.count += 1
        if self.grammar is not None:
            self.state = self.grammar.advance(self.state, token)
        if self.ngrams is not None:
            self.ngrams.push(token)
        if self.seen is not None:
            self.seen[token] = True


def row_seed(seed: int, sample: int) -> int:
    """The seed of one sample's generator; it does not depend on where its prompt stands in a batch."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{sample}".encode(), digest_size=8).digest())


def choose(logits: Tensor, rows: Sequence[Row], sampling: Sampling) -> list[int]:
    """The next token of each row, from its logits (B, V).

    Raises:
        SuiteError: a row has nothing to choose from.
    """
    logits = exact(logits)
    if any(row.steering is not None for row in rows):
        steered = zip(rows, logits, strict=True)
        logits = torch.stack([row.steering.steer(row.state, own) if row.steering else own for row, own in steered])
    scores = apply_rules(
        logits,
        sampling,
        allowed=stack([row.grammar.allowed(row.state) for row in rows if row.grammar is not None], logits),
        seen=stack([row.seen for row in rows if row.seen is not None], logits),
        forbidden=[row.ngrams.repeats() for row in rows if row.ngrams is not None],
    )
    if sampling.greedy:
        best, chosen = scores.max(dim=-1)  # (B,); a third of the time of argmax
        # a few numbers are checked on the host: each small operation here costs as much as a layer's norm
        impossible = [place for place, score in enumerate(best.tolist()) if not math.isfinite(score)]
    else:
        uniforms = [torch.rand((), dtype=torch.float64, generator=row.generator) for row in rows]
        chosen = draw(scores, torch.stack(uniforms).to(logits.device))  # (B,)
        impossible = [place for place, token in enumerate(chosen.tolist()) if token == logits.shape[-1]]
    if impossible:
        row = rows[impossible[0]]
        raise SuiteError(
            f"row {row.index} has nothing to choose from after {row.count} new tokens: grammar and logit bias forbid "
            "every token, or the model's logits are not numbers"
        )
    tokens: list[int] = chosen.tolist()
    return tokens


def stack(vectors: Sequence[Tensor], like: Tensor) -> Tensor | None:
    """Vectors (V,) one above the other (B, V) on the device of `like`; None when there are none."""
    return torch.stack(list(vectors)).to(like.device) if vectors else None
