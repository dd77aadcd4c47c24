"""A linear model of words and word pairs, whose logits are added to those of a classifier's head.

On a few thousand texts, word counts are right in cases where a small transformer errs, and the other way round.

Shapes: `N` texts, `C` labels, `K` n-grams.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.errors import CheckpointError
from suite.tasks.classify.codec import Text
from suite.tasks.classify.metrics import Bools, Floats

WORD = re.compile(r"\w+|[^\w\s]")  # punctuation too: a question mark is informative
STRENGTH = 10.0  # C of the regression; the weight beside the head is fitted on other texts
TEXTS = 2  # least number of texts that an n-gram must occur in
PREFIX = "ngrams."  # prefix of the tensors' names in a checkpoint


class Gram(NamedTuple):
    """A word or a pair of adjacent words.

    Attributes:
        side: 0, or 1 in the second text of a pair.
        start, end: its span in that text, in characters.
        code: CRC-32 of its words in lower case; collisions are rare and do little harm.
    """

    side: int
    start: int
    end: int
    code: int


def grams(text: Text) -> Iterator[Gram]:
    """The n-grams of a text, or of both texts of a pair."""
    for side, part in enumerate((text,) if isinstance(text, str) else text):
        words = [(match.start(), match.end(), match.group().lower()) for match in WORD.finditer(part)]
        for start, end, word in words:
            yield Gram(side, start, end, _code(side, word))
        for (start, _, word), (_, end, following) in pairwise(words):
            yield Gram(side, start, end, _code(side, f"{word} {following}"))


def _code(side: int, words: str) -> int:
    return zlib.crc32(f"{side}{words}".encode("utf-8", "surrogatepass"))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WordModel:
    """A linear model of the tf-idf of words and pairs of words (tf as 1 + log tf, rows of length 1).

    Attributes:
        codes: (K,) uint32 codes of the n-grams, ascending.
        idf: (K,) float32 inverse document frequencies.
        weight: (C, K) float32.
        bias: (C,) float32.
    """

    codes: NDArray[np.uint32]
    idf: NDArray[np.float32]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    @classmethod
    def fit(cls, texts: Sequence[Text], truth: Bools, *, multi: bool) -> WordModel | None:
        """A model trained on N texts and their labels (N, C); None if no n-gram occurs in two texts.

        Args:
            texts: the training texts.
            truth: the labels of each text; without `multi` exactly one, and each label occurs.
            multi: whether each label has a separate yes-or-no model.
        """
        from scipy.sparse import csr_matrix

        seen = Counter(code for text in texts for code in {gram.code for gram in grams(text)})
        codes = np.array(sorted(code for code, count in seen.items() if count >= TEXTS), dtype=np.uint32)
        if not len(codes):
            return None
        counts = np.array([seen[code] for code in codes.tolist()])
        idf = (np.log((1 + len(texts)) / (1 + counts)) + 1).astype(np.float32)  # as if one more text had every n-gram
        rows = [_features(text, codes, idf) for text in texts]
        starts = np.cumsum([0, *(len(columns) for columns, _ in rows)])
        columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        inputs = csr_matrix((values, columns, starts), shape=(len(texts), len(codes)))
        weight, bias = regress(inputs, truth, STRENGTH, multi=multi)
        return cls(codes=codes, idf=idf, weight=weight.astype(np.float32), bias=bias.astype(np.float32))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], labels: int, name: str) -> WordModel | None:
        """The model in a checkpoint's tensors, as `tensors` returned them; None if there is none.

        Raises:
            CheckpointError: a tensor is missing, or its shape does not fit the number of labels.
        """
        parts = {key.removeprefix(PREFIX): tensor for key, tensor in tensors.items() if key.startswith(PREFIX)}
        if not parts:
            return None
        count = len(parts["codes"]) if "codes" in parts else 0
        shapes = {"codes": (count,), "idf": (count,), "weight": (labels, count), "bias": (labels,)}
        for key, shape in shapes.items():
            if key not in parts or tuple(parts[key].shape) != shape:
                raise CheckpointError(f"{name}: tensor {PREFIX + key!r} is missing, or has another shape than {shape}")
        if parts["codes"].dtype != torch.int32:
            raise CheckpointError(f"{name}: tensor {PREFIX + 'codes'!r} is {parts['codes'].dtype}, not torch.int32")
        arrays = {key: parts[key].float().numpy() for key in ("idf", "weight", "bias")}
        return cls(codes=parts["codes"].numpy().view(np.uint32), **arrays)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors for a checkpoint; codes are int32 with the same bits."""
        arrays = {"codes": self.codes.view(np.int32), "idf": self.idf, "weight": self.weight, "bias": self.bias}
        return {PREFIX + key: torch.from_numpy(array) for key, array in arrays.items()}

    def logits(self, texts: Sequence[Text]) -> NDArray[np.float32]:
        """Logits of N texts, (N, C)."""
        found = np.tile(self.bias, (len(texts), 1))
        for row, text in zip(found, texts, strict=True):
            columns, values = _features(text, self.codes, self.idf)
            row += self.weight[:, columns] @ values
        return found

    def shares(self, text: Text, label: int) -> list[tuple[Gram, float]]:
        """The n-grams of a text and what each adds to a label's logit, shared evenly among repeats of an n-gram."""
        columns, values = _features(text, self.codes, self.idf)
        added = dict(zip(self.codes[columns].tolist(), (self.weight[label, columns] * values).tolist(), strict=True))
        found = [gram for gram in grams(text) if gram.code in added]
        times = Counter(gram.code for gram in found)
        return [(gram, added[gram.code] / times[gram.code]) for gram in found]


def _features(
    text: Text, known: NDArray[np.uint32], idf: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Columns of the known n-grams (K,) that occur in a text, and their tf-idf."""
    codes = np.fromiter((gram.code for gram in grams(text)), np.uint32)
    codes, counts = np.unique(codes, return_counts=True)
    columns = np.searchsorted(known, codes).clip(max=len(known) - 1)
    found = known[columns] == codes
    columns = columns[found]
    values = (1 + np.log(counts[found])) * idf[columns]
    values /= np.linalg.norm(values) or 1.0
    return columns, values.astype(np.float32)


def regress(inputs: Any, truth: Bools, strength: float, *, multi: bool) -> tuple[Floats, Floats]:
    """Logistic regression over all labels, or with `multi` a separate regression for each label.

    Args:
        inputs: (N, K), sparse.
        truth: (N, C); without `multi` each row has one label.
        strength: C; the larger, the less regularisation.
        multi: whether labels do not exclude each other.

    Returns:
        weights (C, K) and biases (C,) of logits. A label that all rows have, or no row has, gets only a bias; without
        `multi`, the bias of a label that no row has is -inf.
    """
    from sklearn.linear_model import LogisticRegression

    def fit(answers: Any) -> tuple[Floats, Floats]:  # newton-cg reaches the optimum of L-BFGS in a fifth of its time
        model = LogisticRegression(C=strength, solver="newton-cg", max_iter=1000).fit(inputs, answers)
        return model.coef_, model.intercept_

    weights, biases = np.zeros((truth.shape[1], inputs.shape[1])), np.full(truth.shape[1], -np.inf)
    if not multi:
        rows, constants = fit(truth.argmax(axis=1))
        if len(rows) == 1:  # of two labels, scikit-learn gives the logit of the second against the first
            rows, constants = np.concatenate([-rows, rows]) / 2, np.concatenate([-constants, constants]) / 2
        weights[truth.any(axis=0)], biases[truth.any(axis=0)] = rows, constants
        return weights, biases
    for place, answers in enumerate(truth.T):
        count = answers.sum()
        if 0 < count < len(answers):
            weights[place : place + 1], biases[place : place + 1] = fit(answers)
        else:
            biases[place] = np.log((count + 0.5) / (len(answers) - count + 0.5))
    return weights, biases
