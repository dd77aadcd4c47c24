"""A labelled text as one sequence: `<bos> text <cls>`, or `<bos> text <sep> second text <cls>` for a pair.

Shapes: `B` rows, `T` positions. Source: Radford et al. 2018, figure 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from suite.data.labelled import Labelled
from suite.errors import ConfigError, DataError
from suite.tables import brief
from suite.task.tables import read_extra
from suite.text.tokenizer import Tokenizer
from suite.training.batches import Example

Text = str | tuple[str, str]  # a text, or a pair of texts
BATCH_TOKENS = 4096  # tokens in a batch at inference, padding included


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifySettings:
    """A classifier's `extra` in its checkpoint: the fields of `ClassifyCodec`, and whether it was trained on pairs.

    Args:
        pairs: None in checkpoints of earlier versions, and where there were both pairs and single texts.
    """

    labels: tuple[str, ...]
    multi: bool = False
    attention: Literal["prefix", "causal"] = "prefix"
    max_tokens: int = 512
    ngram_weight: float = 0.0
    temperature: float = 1.0
    pairs: bool | None = None

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) < len(self.labels):
            raise ConfigError(f"extra.labels must be distinct, and at least one: {brief(self.labels)}")
        for name, least, most in (("max_tokens", 8, 2**30), ("ngram_weight", 0, 1000), ("temperature", 1e-3, 1e3)):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(
                    f"extra.{name} is {brief(getattr(self, name))}, but must be from {least:,g} to {most:,g}"
                )


@dataclasses.dataclass(frozen=True)
class ClassifyCodec:
    """How texts become sequences for one classifier; kept in its checkpoint.

    Args:
        tokenizer: if it lacks `<bos>`, `<sep>` or `<cls>`, as GPT-2's does, `<eos>` replaces them. They need not
            differ, because the head finds the last token by the sequence's length.
        labels: the classes, in the order of the head's outputs.
        multi: whether a text may have several labels.
        attention: "prefix" or "causal".
        max_tokens: the longest sequence, in tokens.
        ngram_weight: factor of the linear model's logits, which are added to the head's.
        temperature: divisor of that sum.
    """

    tokenizer: Tokenizer
    labels: tuple[str, ...]
    multi: bool = False
    attention: str = "prefix"
    max_tokens: int = 512
    ngram_weight: float = 0.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.max_tokens < 8:
            raise DataError(f"max_tokens is {self.max_tokens}; a classifier needs at least 8")

    @classmethod
    def from_extra(cls, tokenizer: Tokenizer, extra: Mapping[str, Any], where: str) -> ClassifyCodec:
        """The codec that `to_dict` wrote into a checkpoint.

        Args:
            tokenizer: of the checkpoint.
            extra: of the checkpoint.
            where: its config.json, for errors.

        Raises:
            CheckpointError: the checkpoint has none, or it is not valid.
        """
        found = dataclasses.asdict(read_extra(ClassifySettings, extra, where))
        del found["pairs"]
        return cls(tokenizer, **found)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, for a checkpoint's `extra`."""
        plain = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "tokenizer"
        }
        return {**plain, "labels": list(self.labels)}

    def special(self, name: str) -> int:
        """Id of a special token, or of `<eos>` if the tokenizer lacks it."""
        found = self.tokenizer.specials.get(name, self.tokenizer.eos)
        if found is None:
            raise DataError(f"the tokenizer has neither {name} nor <eos>")
        return found

    def pieces(self, text: Text) -> list[list[int]]:
        """The text as token sequences: a single sequence, or several if the text is longer than `max_tokens`.

        For a pair, the longer side is cut into pieces, and each piece is joined with the start of the other side.
        """
        first, second = (text, None) if isinstance(text, str) else text
        ids = self.tokenizer.encode(first)
        other = None if second is None else self.tokenizer.encode(second)
        room = self.max_tokens - 2 - (other is not None)
        if len(ids) + len(other or ()) <= room:
            return [self._join(ids, other)]
        if other is None:
            return [self._join(piece, None) for piece in cut(ids, room)]
        short = min(len(ids), len(other), room // 2)
        if len(ids) >= len(other):
            return [self._join(piece, other[:short]) for piece in cut(ids, room - short)]
        return [self._join(ids[:short], piece) for piece in cut(other, room - short)]

    def _join(self, ids: list[int], other: list[int] | None) -> list[int]:
        middle = [] if other is None else [self.special("<sep>"), *other]
        return [self.special("<bos>"), *ids, *middle, self.special("<cls>")]

    def prefix(self, tokens: Sequence[int]) -> int:
        """Number of tokens at the start of a sequence that attend in both directions."""
        return len(tokens) if self.attention == "prefix" else 0

    def target(self, record: Labelled) -> int | tuple[float, ...]:
        """Training target of a record: its class, or a 0 or 1 for each label."""
        places = [self.labels.index(label) for label in record.labels]
        return tuple(float(place in places) for place in range(len(self.labels))) if self.multi else places[0]

    def examples(self, records: Sequence[Labelled]) -> tuple[list[Example], int]:
        """Training examples, and how many records were too long; of those only the first piece is used."""
        found, longer = [], 0
        for record in records:
            pieces = self.pieces(text_of(record))
            tokens = pieces[0]
            found.append(Example(np.array(tokens, np.int32), prefix=self.prefix(tokens), label=self.target(record)))
            longer += len(pieces) > 1
        return found, longer


def text_of(record: Labelled) -> Text:
    """A record's text, or its pair of texts."""
    return record.text if record.pair is None else (record.text, record.pair)


def cut(ids: list[int], size: int) -> list[list[int]]:
    """Cut ids into pieces of nearly equal length, at most `size` each."""
    count = -(-len(ids) // size)
    borders = [round(place * len(ids) / count) for place in range(count + 1)]
    return [ids[start:end] for start, end in pairwise(borders)]


def by_length(sequences: Sequence[Sized]) -> Iterator[list[int]]:
    """Batches of indices of sequences of similar length, longest first, so that peak memory is reached at the start."""
    rows: list[int] = []
    for place in sorted(range(len(sequences)), key=lambda place: -len(sequences[place])):
        if rows and (len(rows) + 1) * len(sequences[rows[0]]) > BATCH_TOKENS:
            yield rows
            rows = []
        rows.append(place)
    if rows:
        yield rows


def pad(sequences: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Sequences as a tensor (B, T), padded on the right, and their lengths (B,)."""
    rows = [torch.as_tensor(tokens, dtype=torch.long) for tokens in sequences]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return tokens.to(device), torch.tensor([len(row) for row in rows], device=device)
