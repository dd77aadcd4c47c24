"""Word alignment of a sentence with its translation, from the model's own attention.

Choices, made by counting on Tatoeba's validation pairs how often names and a few dozen everyday words met their
translations:

- the row of the position that predicts a token, not of the one that reads it, which looks for what comes next;
- the mean of all heads of the first and the last layer; heads between them look at neighbours;
- where the model also translates the other way, the product of both ways' maps: what only one of them looks at is
  mostly habit. Source: Liang et al. 2006, "Alignment by Agreement".

Shapes: `S` source words, `T` target words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.errors import ConfigError
from suite.model import Transformer
from suite.model.attention_maps import attention_maps
from suite.task import Prompt
from suite.text.tokenizer import Tokenizer

Matrix = NDArray[np.float64]

_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:['’-]\w+)*|[^\w\s]+")  # noqa: RUF001


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment:
    """A soft alignment of a sentence with its translation.

    Attributes:
        source, target: their words, punctuation apart.
        source_starts, target_starts: where each begins, in characters of the text that the tokens spell.
        weights: (T, S) how much of each target word comes from each source word; rows sum to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_starts: tuple[int, ...]
    target_starts: tuple[int, ...]
    weights: Matrix

    @property
    def pairs(self) -> list[tuple[str, str, float]]:
        """For each target word: it, the source word it comes from most, and how much."""
        if not self.source:
            return []
        best = self.weights.argmax(axis=1)
        return [
            (word, self.source[place], float(row[place]))
            for word, place, row in zip(self.target, best, self.weights, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: words and weights, which are rounded."""
        return {"source": list(self.source), "target": list(self.target), "weights": self.weights.round(4).tolist()}

    def plot(self, axes: Any) -> None:
        """Draw the matrix on matplotlib's `axes`, the source across and the translation down."""
        axes.imshow(self.weights, cmap="Blues", vmin=0, vmax=1)
        # words are no formulas, even with dollar signs
        axes.set_xticks(range(len(self.source)), self.source, rotation=90, parse_math=False)
        axes.set_yticks(range(len(self.target)), self.target, parse_math=False)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=9)
        axes.set_xticks(np.arange(len(self.source) + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(len(self.target) + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="0.9", linewidth=0.5)
        axes.tick_params(which="minor", length=0)
        for side in axes.spines.values():
            side.set_visible(False)


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a text, and which tokens each has.

    Attributes:
        words: without the spaces between them.
        starts: where each begins in the text, in characters.
        shares: (words, tokens) 1 where a token belongs to a word.
    """

    words: tuple[str, ...]
    starts: tuple[int, ...]
    shares: Matrix


def find_words(tokenizer: Tokenizer, tokens: Sequence[int]) -> Words:
    """The words that tokens spell; a space before a word is part of its first token."""
    pieces = [tokenizer.token_bytes(token) for token in tokens]
    # bytes that are no text stay what they are, so that offsets do
    text = b"".join(pieces).decode(errors="surrogateescape")
    found = list(_WORD.finditer(text))
    starts = np.array([len(text[: match.start()].encode(errors="surrogateescape")) for match in found])
    shares = np.zeros((len(found), len(tokens)))
    position = 0
    for place, piece in enumerate(pieces):
        first = position + len(piece) - len(piece.lstrip())
        if found and piece:
            shares[max(0, int(np.searchsorted(starts, first, side="right")) - 1), place] = 1
        position += len(piece)
    return Words(
        words=tuple(match[0].encode(errors="surrogateescape").decode(errors="replace") for match in found),
        starts=tuple(match.start() for match in found),
        shares=shares,
    )


def align(
    transformer: Transformer,
    tokenizer: Tokenizer,
    there: tuple[Prompt, Sequence[int]],
    back: tuple[Prompt, Sequence[int]] | None,
) -> Alignment:
    """Align a sentence with its translation.

    Args:
        transformer: in evaluation mode, if it has dropout.
        tokenizer: its own.
        there: `<bos> <en> source <de>`, and the target's tokens.
        back: the same pair the other way round, where the model was trained for it.

    Raises:
        SuiteError: the two together are longer than learned positions reach.
    """
    source, target, weights = _one_way(transformer, tokenizer, *there)
    if back is not None:
        *_, backward = _one_way(transformer, tokenizer, *back)
        if backward.shape == weights.shape[::-1]:  # another cut into words happens where bytes are no text
            weights = weights * backward.T
    totals = weights.sum(axis=1, keepdims=True)
    return Alignment(
        source=source.words,
        target=target.words,
        source_starts=source.starts,
        target_starts=target.starts,
        weights=np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0),
    )


def _one_way(
    transformer: Transformer, tokenizer: Tokenizer, start: Prompt, tokens: Sequence[int]
) -> tuple[Words, Words, Matrix]:
    """Words of both sides, and (T, S) the attention of target words on source words; rows sum to 1."""
    source, target = find_words(tokenizer, start.tokens[2:-1]), find_words(tokenizer, tokens)
    weight = transformer.norm.weight
    assert isinstance(weight, Tensor)
    first, last = len(start.tokens) - 1, len(start.tokens) - 1 + len(tokens)
    layers = {0, transformer.config.n_layer - 1}
    maps = attention_maps(
        transformer, torch.tensor([*start.tokens, *tokens], device=weight.device), prefix=start.prefix, layers=layers
    )
    mean = torch.stack([weights.mean(dim=0) for weights in maps]).mean(dim=0)
    rows = mean[first:last, 2 : len(start.tokens) - 1].cpu().double().numpy()  # without <bos> and tags
    weights = target.shares @ rows @ source.shares.T  # (T, S)
    totals = weights.sum(axis=1, keepdims=True)
    return source, target, np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)


def plot(alignments: Sequence[Alignment], path: Path) -> None:
    """Draw a matrix for each sentence, one under the other, without a display.

    Args:
        alignments: those of a text.
        path: a picture; its suffix says which kind (.png, .svg, .pdf).

    Raises:
        ConfigError: matplotlib writes no such files.
    """
    from matplotlib.figure import Figure

    from suite.files import write_output

    kind = path.suffix.lower().removeprefix(".")
    figure = Figure()
    known = sorted(figure.canvas.get_supported_filetypes())
    if kind not in known:
        raise ConfigError(f"{path}: no picture of kind {kind!r} can be written; the kinds are {', '.join(known)}")
    shown = [one for one in alignments if one.source and one.target]
    cell, margin = 0.28, 1.6  # inches
    sizes = [cell * len(one.target) + margin for one in shown]
    width = cell * max((len(one.source) for one in shown), default=1) + margin
    figure.set_size_inches(max(3.0, width), max(1.0, sum(sizes)))
    panels: list[Any] = list(figure.subplots(len(shown), 1, squeeze=False, height_ratios=sizes)[:, 0]) if shown else []
    for panel, one in zip(panels, shown, strict=True):
        one.plot(panel)
    write_output(path, lambda temporary: figure.savefig(temporary, format=kind, bbox_inches="tight", dpi=150))
