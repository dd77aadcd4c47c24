"""Extracts: choosing the sentences of an article that make up its summary.

Shapes: `S` sentences of the body, `N` candidates among them, `F` features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from suite.data.articles import Article
from suite.model.transformer import Transformer
from suite.sampling.score import continuation_logprobs
from suite.tasks.summarize.format import ArticleFormat
from suite.tasks.summarize.outcomes import emphasis
from suite.tasks.summarize.select import BodySentence, Floats, Ranker, features, is_whole, pick, words_of
from suite.tasks.summarize.standing import Standing

CANDIDATES = 32  # sentences whose likelihood is computed; more if the extract needs more
BATCH = 16

Progress = Callable[[str, int, int], object]  # called with the current step's name, the amount done, and its total


def silent(_step: str, _done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Sentences to choose an extract from.

    Attributes:
        sentences: N candidates, in order of the text.
        places: of each in the body.
        rows: (N, F + 2) their features; their log-probability per token as a lead after the selected body, in nats;
            and its difference from that after no body.
        read: number of body sentences in the prompt.
    """

    sentences: list[BodySentence]
    places: list[int]
    rows: Floats
    read: int


class Extractor:
    """Chooses sentences by position, content, and how likely the model finds them as a lead.

    Args:
        transformer: trained to write leads, in evaluation mode.
        format: of its sequences.
        ranker: weights of the features for selecting the sentences that the model reads.
        weights: weights of the features and likelihoods for the extract; None until they are fitted.
        prefix: whether all tokens of a prompt see each other.
    """

    def __init__(
        self, transformer: Transformer, format: ArticleFormat, ranker: Ranker, weights: Ranker | None, prefix: bool
    ) -> None:
        self.transformer, self.format = transformer, format
        self.ranker, self.weights, self.prefix = ranker, weights, prefix

    def rank(self, article: Article, sentences: Sequence[BodySentence], progress: Progress) -> tuple[Floats, Floats]:
        """Return the (S, F) features of sentences and their (S,) scores."""
        total = len(sentences)
        rows = features(article.title, sentences, lambda done: progress("ranking sentences", done, total))
        return rows, self.ranker.scores(rows)

    def select(
        self, article: Article, sentences: Sequence[BodySentence], progress: Progress = silent
    ) -> list[BodySentence]:
        """Return the sentences of an article that the model reads."""
        _, scores = self.rank(article, sentences, progress)
        return [sentences[place] for place in self.format.select(sentences, scores)]

    def candidates(
        self,
        article: Article,
        sentences: Sequence[BodySentence],
        number: int = CANDIDATES,
        progress: Progress = silent,
        *,
        most: int = 0,
        words: int = 0,
    ) -> Candidates:
        """Return the sentences with the best scores of the ranker, with the model's likelihoods of them.

        Args:
            article: the article.
            sentences: all sentences of its body.
            number: number of candidates; more if `most` or `words` require it.
            progress: called with the current step.
            most: minimum number of whole sentences among the candidates.
            words: minimum number of words in whole sentences.
        """
        rows, scores = self.rank(article, sentences, progress)
        spread = float(scores.std()) or 1.0
        order = np.argsort(-(scores + spread * emphasis(sentences)), kind="stable")
        # bounded: a long text without full stops would need all its sentences
        first = [sentences[place] for place in order[: 4 * most + words]]
        best = np.sort(order[: max(number, enough(first, most, words))])
        chosen = [sentences[place] for place in self.format.select(sentences, scores)]
        texts = [sentences[place].text for place in best]
        likelihoods = []
        for step, prompt in enumerate((self.format.prompt(article, chosen), self.format.around(article.title, ""))):
            progress("scoring sentences", step, 2)
            likelihoods.append(self.likelihoods(prompt, texts))
        behind, alone = likelihoods
        rows = np.column_stack([rows[best], behind, behind - alone])
        return Candidates(
            sentences=[sentences[place] for place in best], places=best.tolist(), rows=rows, read=len(chosen)
        )

    def likelihoods(self, prompt: Sequence[int], texts: Sequence[str]) -> Floats:
        """(N,) mean log-probability per token of each text after a prompt, in nats."""
        room = max(1, self.transformer.config.context - len(prompt))
        ids = [self.format.tokenizer.encode(text)[:room] for text in texts]
        prefix = len(prompt) if self.prefix else 0
        found = continuation_logprobs(self.transformer, prompt, ids, prefix=prefix, batch=BATCH)
        return np.array([float(logprobs.mean()) for logprobs in found])

    def extract(
        self,
        standing: Standing,
        given: Candidates,
        fits: Callable[[Sequence[BodySentence]], bool],
        most: int,
    ) -> list[int]:
        """Return the places in the body of the best candidates and of what they need, in order of the text.

        Args:
            standing: what the sentences of the body need.
            given: the candidates.
            fits, most: as in `pick`.
        """
        assert self.weights is not None
        sentences = standing.sentences
        own = self.weights.scores(given.rows)
        whole = [number for number, one in enumerate(given.sentences) if is_whole(one)] or list(range(len(own)))
        places = [given.places[number] for number in whole]
        scores = np.full(len(sentences), -np.inf)
        scores[places] = own[whole] + (float(own[whole].std()) or 1.0) * emphasis(sentences)[places]
        # a text of which no sentence that fits can stand alone is shown as it is
        return pick(sentences, scores, fits, most, standing.before) or pick(sentences, scores, fits, most)


def enough(sentences: Sequence[BodySentence], most: int, words: int) -> int:
    """Return how many of the first sentences contain `most` distinct whole ones with `words` words in total."""
    known: set[tuple[str, ...]] = set()
    size = 0
    for number, one in enumerate(sentences):
        if len(known) >= most and size >= words:
            return number
        if is_whole(one) and (own := tuple(words_of(one.text))) not in known:
            known.add(own)
            size += len(one.text.split())
    return len(sentences)
