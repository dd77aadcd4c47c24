"""Baseline summaries that need no model.

Each function takes an article and a number of words. It returns sentences of the body, one per line and in order, cut
at exactly that number of words; fewer only if it selects no more. Without a number, each has a limit of its own.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from suite.data.articles import Article
from suite.tasks.summarize.metrics import stems, truncate
from suite.tasks.summarize.select import BodySentence, sentences_of

WORDS = 200  # default length of methods that set none; about the length of a lead
DAMPING = 0.85
TOLERANCE = 1e-6  # sum of absolute changes of the scores, which add up to 1
MOST_STEPS = 100


def lead_3(article: Article, words: int | None) -> str:
    """Return the first three sentences of the body."""
    return _summary(sentences_of(article)[:3], words)


def first_words(article: Article, words: int | None) -> str:
    """Return the first words of the body; 200 by default."""
    return _summary(sentences_of(article), words or WORDS)


def first_of_paragraphs(article: Article, words: int | None) -> str:
    """Return the first sentence of each paragraph, up to `words` words; 200 by default."""
    return _summary([one for one in sentences_of(article) if one.place == 0], words or WORDS)


def textrank(article: Article, words: int | None) -> str:
    """Return the sentences that are most similar to the others, up to `words` words; 200 by default.

    Similarity is the cosine of tf-idf vectors rather than the number of common words: the graph is then the product of
    a sparse matrix with its transpose and is never stored, however many sentences there are.

    Source: Mihalcea and Tarau 2004, "TextRank: Bringing Order into Texts"; Erkan and Radev 2004, "LexRank:
    Graph-based Lexical Centrality as Salience in Text Summarization" (the cosine).
    """
    sentences = sentences_of(article)
    order = np.argsort(-_centrality([one.text for one in sentences]), kind="stable")
    return _summary(_until((sentences[place] for place in order), words or WORDS), words or WORDS)


def oracle(article: Article, words: int | None) -> str:
    """Return the sentences that share most with the article's own lead: an upper bound for extracts.

    Sentences are added greedily, each time the one that raises ROUGE-2 (F1) most, until none does.

    Source: Nallapati et al. 2017, "SummaRuNNer: A Recurrent Neural Network based Sequence Model for Extractive
    Summarization of Documents", section 3.
    """
    wanted = _pairs(article.lead)
    sentences = sentences_of(article)
    pairs = [_pairs(one.text) for one in sentences]
    limits = np.array(list(wanted.values()), dtype=np.int64)  # (K,) of the lead's K word pairs
    counts = np.array([[each[pair] for pair in wanted] for each in pairs], dtype=np.int64)  # (N, K)
    sizes = np.array([each.total() for each in pairs], dtype=np.int64)  # (N,)
    taken: list[BodySentence] = []
    covered, size, best = np.zeros_like(limits), int(limits.sum()), 0.0
    while sentences and (words is None or sum(len(one.text.split()) for one in taken) < words):
        f1 = 2 * np.minimum(covered + counts, limits).sum(axis=1) / np.maximum(size + sizes, 1)  # (N,)
        place = int(f1.argmax())
        if f1[place] <= best:
            break
        best = float(f1[place])
        taken.append(sentences[place])
        covered, size = covered + counts[place], size + int(sizes[place])
        counts[place] = 0  # so that it adds nothing a second time
    return _summary(taken, words)


def _summary(sentences: Iterable[BodySentence], words: int | None) -> str:
    """Return the sentences in the order of the article, one per line, cut after `words` words."""
    text = "\n".join(one.text for one in sorted(sentences, key=lambda one: one.start))
    return text if words is None else truncate(text, words)


def _until(sentences: Iterable[BodySentence], words: int) -> list[BodySentence]:
    """Return the first sentences that have at least `words` words together."""
    taken: list[BodySentence] = []
    for one in sentences:
        if words <= 0:
            break
        taken.append(one)
        words -= len(one.text.split())
    return taken


def _pairs(text: str) -> Counter[tuple[str, str]]:
    return Counter(itertools.pairwise(stems(text)))


def _centrality(texts: Sequence[str]) -> NDArray[np.float64]:
    """(N,) PageRank of sentences in the graph of their similarities."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    count = len(texts)
    scores = np.full(count, 1 / max(1, count))
    try:
        rows = TfidfVectorizer(stop_words="english").fit_transform(texts)  # sentences x words, each row of length one
    except ValueError:  # no sentence has a word to count
        return scores

    def spread(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N,) product of the similarity matrix, without its diagonal, and `weights` (N,)."""
        found: NDArray[np.float64] = rows @ (rows.T @ weights) - own * weights
        return found

    own = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()  # (N,) similarity to itself: 1, or 0 without words
    likeness = np.maximum(spread(np.ones(count)), 0)
    alone = likeness < 1e-9
    for _ in range(MOST_STEPS):
        given = np.where(alone, 0, scores / np.where(alone, 1, likeness))
        # the score of sentences without neighbours is spread evenly over all, as in PageRank
        new = (1 - DAMPING + DAMPING * scores[alone].sum()) / count + DAMPING * spread(given)
        change = np.abs(new - scores).sum()
        scores = new
        if change < TOLERANCE:
            break
    return scores
