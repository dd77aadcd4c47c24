"""Metrics of summaries: ROUGE against a reference, and shares of novel and repeated n-grams.

Shapes: `N` summaries, each with its reference and its source.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from suite.data.sentences import sentence_spans, unwrap

Floats = NDArray[np.float64]

# ---- length

_PIECE = re.compile(r"\S+")


def truncate(text: str, words: int) -> str:
    """Return the text up to the end of word number `words` (split at whitespace), even in mid-sentence.

    It is not cut at the end of a sentence: ROUGE rises with length, so only summaries of exactly the same length can be
    compared.

    Example:
        >>> truncate("It rained.\\nNobody came.", 3)
        'It rained.\\nNobody'
    """
    ends = itertools.chain([0], (match.end() for match in _PIECE.finditer(text)))
    return text[: next(itertools.islice(ends, words, None), len(text))]


# ---- likeness to a reference

ROUGES = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL", "ROUGE-Lsum": "rougeLsum"}


def rouge(summaries: Sequence[str], references: Sequence[str]) -> dict[str, Floats]:
    """Compute ROUGE of each summary as the package rouge-score does: words stemmed, "ROUGE-Lsum" sentence by sentence.

    The two longest common subsequences are found in Python, so a thousand pairs of 200 words take about 20 seconds.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries".

    Args:
        summaries, references: N each.

    Returns:
        for each name in `ROUGES`: (N, 3) precision, recall and F1, from 0 to 1.

    Example:
        >>> rouge(["A violin has strings."], ["The violin has four strings."])["ROUGE-1"].round(2).tolist()
        [[0.75, 0.6, 0.67]]
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(ROUGES.values()), tokenizer=SimpleNamespace(tokenize=stems))
    found = [
        scorer.score(_lines(reference), _lines(summary))
        for summary, reference in zip(summaries, references, strict=True)
    ]
    return {
        name: np.array([scores[key] for scores in found], dtype=np.float64).reshape(-1, 3)
        for name, key in ROUGES.items()
    }


def stems(text: str) -> list[str]:
    """Return words as ROUGE compares them: lower-case a to z and digits, stemmed from four characters on."""
    from rouge_score.tokenize import tokenize

    found: list[str] = tokenize(text, _stemmer())
    return found


@lru_cache(maxsize=1)
def _stemmer() -> SimpleNamespace:
    """Return Porter's stemmer with a cache, without which stemming takes a third of ROUGE's time."""
    from nltk.stem.porter import PorterStemmer

    return SimpleNamespace(stem=lru_cache(maxsize=100_000)(PorterStemmer().stem))


def _lines(text: str) -> str:
    """Return the text with one sentence per line: the package takes line ends for sentence ends, and nothing else."""
    return "\n".join(unwrap(text[start:end]) for start, end in sentence_spans(text))


# ---- copying and repeating

_WORD = re.compile(r"\w+")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def novel_ngrams(summary: str, source: str, n: int) -> tuple[int, int]:
    """Return how many of the summary's n-grams are not in the source, and how many n-grams it has.

    Source: See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", section 6.2.
    """
    known = set(_ngrams(_words(source), n))
    found = _ngrams(_words(summary), n)
    return sum(ngram not in known for ngram in found), len(found)


def repeated_ngrams(summary: str, n: int = 4) -> tuple[int, int]:
    """Return how many of the summary's n-grams occur earlier in it, and how many n-grams it has.

    Example:
        >>> repeated_ngrams("in the end in the end", n=2)
        (2, 5)
    """
    found = _ngrams(_words(summary), n)
    return len(found) - len(set(found)), len(found)


_FOREIGN = re.compile(r"(?<=[a-z,;] )[A-Z]\w+|\d+(?:[.,]\d+)*")
_ANY = re.compile(r"\d+(?:[.,]\d+)*|\w+")


def foreign_words(summary: str, source: str) -> tuple[int, int]:
    """Return how many capitalised words within sentences, and digits, the source lacks, and how many there are.

    A cruder count than `suite.tasks.summarize.claims`, and independent both of it and of the rule for decoding: another
    form of a word counts as foreign.

    Example:
        >>> foreign_words("In 1824 he met Goethe in Italy.", "Goethe, 1824: he is Italian.")
        (1, 3)
    """
    known = set(_ANY.findall(source))
    found = _FOREIGN.findall(summary)
    return sum(word not in known for word in found), len(found)
