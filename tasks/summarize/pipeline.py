"""`pipeline("summarize")`: articles in, summaries out, written by the model or taken out of the article by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import numpy as np

from suite.checkpoint import Model
from suite.data.articles import Article
from suite.data.pages import places_in, read_pages
from suite.data.sentences import sentence_spans
from suite.data.tables import Notes
from suite.errors import CheckpointError, ConfigError, DataError
from suite.model.transformer import Transformer
from suite.sampling import Sampling, generate
from suite.sampling.score import continuation_logprobs
from suite.tasks.summarize.claims import unsupported
from suite.tasks.summarize.format import Format
from suite.tasks.summarize.select import (
    Floats,
    Ranker,
    Sentence,
    features,
    is_whole,
    pairs_of,
    pick,
    sentences_of,
    words_of,
)
from suite.wording import count

Style = Literal["extract", "write", "tldr"]

CANDIDATES = 32  # sentences of an article whose likelihood is looked at, and more for an extract that needs them
BATCH = 16
# Radford et al. 2019, section 3.6: top-k 2, 100 tokens, of which the first three sentences count
TLDR = Sampling(top_k=2)
TLDR_TOKENS, TLDR_SENTENCES = 100, 3
WRITE = Sampling(temperature=0.0, no_repeat_ngram=3, count_prompt=False)
WORDS = 100  # in an extract, where nobody says

Progress = Callable[[str, int, int], object]  # what is being done, how much of it is, and how much there is to do


def silent(_stage: str, _done: int, _of: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, kw_only=True)
class SummarySentence:
    """A sentence of a summary.

    Attributes:
        text: as it stands in the summary.
        start, end: characters of the article's body (of the text, if that was given) that it was taken from, or, where
            it was written, those of the sentence that shares most word pairs with it; None where none shares any.
        share: of its word pairs that are there: 1 for a sentence that was taken.
    """

    text: str
    start: int | None
    end: int | None
    share: float


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What an article says, shorter.

    Attributes:
        title: of the article.
        text: the summary.
        style: "extract", "write" or "tldr".
        sentences: of the summary, with where each comes from.
        warnings: one line each: names and numbers that the article does not have, and what was not read.
        read: sentences of the body that the model saw.
        of: sentences in the body.
    """

    title: str
    text: str
    style: Style
    sentences: tuple[SummarySentence, ...]
    warnings: tuple[str, ...]
    read: int
    of: int


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Sentences that may be taken.

    Attributes:
        sentences: in order of the text.
        rows: (N, FEATURES + 2) their features, and their log-probability a token as a lead behind what was selected
            of the body, and how much more that is than behind no body.
        read: sentences of the body that were selected.
    """

    sentences: list[Sentence]
    rows: Floats
    read: int


class Extractor:
    """Chooses sentences by where they stand, what they are about, and how likely the model finds them as a lead.

    Args:
        transformer: trained to write leads, in evaluation mode.
        format: of its sequences.
        ranker: of the selection.
        weights: of the features with the likelihoods; None where they are not fitted yet.
        prefix: whether all tokens of a prompt see each other.
    """

    def __init__(
        self, transformer: Transformer, format: Format, ranker: Ranker, weights: Ranker | None, prefix: bool
    ) -> None:
        self.transformer, self.format = transformer, format
        self.ranker, self.weights, self.prefix = ranker, weights, prefix

    def rank(self, article: Article, sentences: Sequence[Sentence], progress: Progress) -> tuple[Floats, Floats]:
        """Features (sentences, FEATURES), and the scores (sentences,) that they give."""
        count = len(sentences)
        rows = features(article.title, sentences, lambda done: progress("ranking sentences", done, count))
        return rows, self.ranker.scores(rows)

    def select(self, article: Article, sentences: Sequence[Sentence], progress: Progress = silent) -> list[Sentence]:
        """Those of an article's sentences that the model reads."""
        _, scores = self.rank(article, sentences, progress)
        return [sentences[place] for place in self.format.select(sentences, scores)]

    def candidates(
        self,
        article: Article,
        sentences: Sequence[Sentence],
        count: int = CANDIDATES,
        progress: Progress = silent,
        *,
        most: int = 0,
        words: int = 0,
    ) -> Candidates:
        """The `count` sentences that rank best before the model has looked at them, and what it finds of them.

        There are more of them if it takes more to have `most` whole sentences, or so many words, to choose.
        """
        rows, scores = self.rank(article, sentences, progress)
        order = np.argsort(-scores, kind="stable")
        # bounded, for of a long text without full stops it would be all
        first = [sentences[place] for place in order[: 4 * most + words]]
        best = np.sort(order[: max(count, enough(first, most, words))])
        chosen = [sentences[place] for place in self.format.select(sentences, scores)]
        texts = [sentences[place].text for place in best]
        likelihoods = []
        for number, prompt in enumerate((self.format.prompt(article, chosen), self.format.around(article.title, ""))):
            progress("scoring sentences", number, 2)
            likelihoods.append(self.likelihoods(prompt, texts))
        behind, alone = likelihoods
        rows = np.column_stack([rows[best], behind, behind - alone])
        return Candidates(sentences=[sentences[place] for place in best], rows=rows, read=len(chosen))

    def likelihoods(self, prompt: Sequence[int], texts: Sequence[str]) -> Floats:
        """(N,) log-probability a token of each text behind a prompt, in nats."""
        room = max(1, self.transformer.config.context - len(prompt))
        ids = [self.format.tokenizer.encode(text)[:room] for text in texts]
        prefix = len(prompt) if self.prefix else 0
        found = continuation_logprobs(self.transformer, prompt, ids, prefix=prefix, batch=BATCH)
        return np.array([float(logprobs.mean()) for logprobs in found])

    def extract(self, found: Candidates, fits: Callable[[Sentence], bool], most: int) -> list[Sentence]:
        """The best of some candidates, in order of the text; `fits` and `most` as `pick` takes them."""
        assert self.weights is not None
        scores = self.weights.scores(found.rows)
        places = [place for place, one in enumerate(found.sentences) if is_whole(one)] or list(range(len(scores)))
        sentences = [found.sentences[place] for place in places]
        return [sentences[place] for place in pick(sentences, scores[places], fits, most)]


class Summarizer:
    """Sums articles up.

    Args:
        model: a summarising model, or for the style "tldr" any language model, the larger the better.
        style: the one taken where a call names none (None: the one that the model's card names).

    Raises:
        ConfigError: there is no such style.
        CheckpointError: the model has no tokenizer, or is of another format.

    Example:
        >>> from suite import pipeline
        >>> text = "The violin has four strings. They are tuned in fifths. It is played with a bow. Violins are old."
        >>> pipeline("summarize")(text, sentences=1).text in text
        True
    """

    def __init__(self, model: Model, style: Style | None = None) -> None:
        if model.tokenizer is None:
            raise CheckpointError(f"{model.name} has no tokenizer, so it cannot read articles")
        self.model, self.tokenizer = model, model.tokenizer
        extra = model.extra
        self.trained = "ranker" in extra
        self.style: Style = check_style(style or (extra["style"] if self.trained else "tldr"))
        if self.trained:
            self.prefix = extra["attention"] == "prefix"
            self.lead_tokens = int(extra["lead_tokens"])
            self.format = Format(tokenizer=self.tokenizer, source_tokens=int(extra["source_tokens"]))
            ranker = Ranker(weights=tuple(extra["ranker"]))
            weights = Ranker(weights=tuple(extra["extractor"]))
            self.extractor = Extractor(model.transformer, self.format, ranker, weights, self.prefix)

    @overload
    def __call__(self, article: str | Article, **options: Any) -> Summary: ...

    @overload
    def __call__(self, article: Sequence[str | Article], **options: Any) -> list[Summary]: ...

    def __call__(self, article: str | Article | Sequence[str | Article], **options: Any) -> Summary | list[Summary]:
        """Sum one article up, or each of several; options are those of `summarize`."""
        if isinstance(article, str | Article):
            return self.summarize(article, **options)
        return [self.summarize(one, **options) for one in article]

    def summarize(
        self,
        article: str | Article,
        *,
        style: Style | None = None,
        max_words: int | None = None,
        sentences: int | None = None,
        seed: int = 0,
        progress: Progress = silent,
    ) -> Summary:
        """Sum one article up.

        Args:
            article: its text, read as from a text file; or one with a title and sections, of which a lead that it has
                already is not looked at.
            style: "extract" (sentences of the article), "write", or "tldr" (any language model, without training;
                Radford et al. 2019). The last two are experimental: models of under 100 million parameters, such as
                the embedded ones, invent much of what they write.
            max_words: none more (None: 100 for an extract, and what the model makes of it for the others).
            sentences: at most so many.
            seed: of the draws of "tldr"; the other styles have none.
            progress: called now and then with what is being done, how much of it is done, and how much there is.

        Raises:
            DataError: there is no text.
            ConfigError: an argument is out of its range, or the model cannot do that style.
        """
        style = check_style(style or self.style)
        if style != "tldr" and not self.trained:
            raise ConfigError(f"{self.model.name} was not trained to summarise; only the style tldr works with it")
        if (max_words is not None and max_words < 1) or (sentences is not None and sentences < 1):
            raise ConfigError("max_words and sentences must be at least 1")
        if isinstance(article, str):
            [page] = read_pages(article, Notes(), kind="text")
            found = self.summarize(
                page, style=style, max_words=max_words, sentences=sentences, seed=seed, progress=progress
            )
            return in_text(found, article, page.body)
        every = sentences_of(article)
        if not every:
            raise DataError(f"{article.where or 'the article'} has no text to summarise")
        if style == "extract":
            return self._extract(article, every, max_words or (None if sentences else WORDS), sentences, progress)
        if style == "write":
            return self._write(article, every, max_words, sentences, progress)
        return self._tldr(article, every, max_words, sentences, seed)

    def _extract(
        self,
        article: Article,
        every: Sequence[Sentence],
        max_words: int | None,
        most: int | None,
        progress: Progress,
    ) -> Summary:
        left = max_words if max_words is not None else 10**9

        def fits(sentence: Sentence) -> bool:
            nonlocal left
            first = left == max_words
            left -= len(sentence.text.split())
            return left >= 0 or first

        need = {"most": most} if most else {"words": max_words or 0}
        candidates = self.extractor.candidates(article, every, progress=progress, **need)
        chosen = self.extractor.extract(candidates, fits, most or 0)
        taken = tuple(SummarySentence(text=one.text, start=one.start, end=one.end, share=1.0) for one in chosen)
        warnings = []
        if max_words is not None and sum(len(one.text.split()) for one in chosen) > max_words:
            warnings.append(f"the best sentence alone has more than {count(max_words, 'word')}")
        return Summary(
            title=article.title,
            text=" ".join(one.text for one in taken),
            style="extract",
            sentences=taken,
            warnings=tuple(warnings),
            read=candidates.read,
            of=len(every),
        )

    def _write(
        self,
        article: Article,
        every: Sequence[Sentence],
        max_words: int | None,
        most: int | None,
        progress: Progress,
    ) -> Summary:
        read = self.extractor.select(article, every, progress)
        progress("writing", 0, 1)
        prompt = self.format.prompt(article, read)
        [found] = generate(
            self.model.transformer,
            [prompt],
            max_new_tokens=min(self.lead_tokens, 4 * max_words if max_words else self.lead_tokens),
            sampling=WRITE,
            prefixes=[len(prompt)] if self.prefix else None,
            stop_tokens=(self.format.eos,),
            tokenizer=self.tokenizer,
        )
        return written(article, every, found.text, found.finish == "stop", "write", max_words, most, len(read))

    def _tldr(
        self, article: Article, every: Sequence[Sentence], max_words: int | None, most: int | None, seed: int
    ) -> Summary:
        hint = self.tokenizer.encode("\nTL;DR:")
        room = self.model.config.context - TLDR_TOKENS - len(hint)
        tokens: list[int] = []
        read = 0
        for sentence in every:  # the article's beginning, up to the end of a sentence
            more = self.tokenizer.encode((" " if tokens else "") + sentence.text)
            if tokens and len(tokens) + len(more) > room:
                break
            tokens += more
            read += 1
        [found] = generate(
            self.model.transformer,
            [[*tokens[: max(1, room)], *hint]],
            max_new_tokens=TLDR_TOKENS,
            sampling=TLDR,
            seed=seed,
            stop_tokens=() if self.tokenizer.eos is None else (self.tokenizer.eos,),
            tokenizer=self.tokenizer,
        )
        most = min(most or TLDR_SENTENCES, TLDR_SENTENCES)
        return written(article, every, found.text, found.finish == "stop", "tldr", max_words, most, read)


def enough(sentences: Sequence[Sentence], most: int, words: int) -> int:
    """How many of the first sentences it takes to have `most` whole ones of them, none twice, and so many words."""
    found: set[tuple[str, ...]] = set()
    size = 0
    for number, one in enumerate(sentences):
        if len(found) >= most and size >= words:
            return number
        if is_whole(one) and (own := tuple(words_of(one.text))) not in found:
            found.add(own)
            size += len(one.text.split())
    return len(sentences)


def in_text(found: Summary, text: str, body: str) -> Summary:
    """The summary of a text's body, with its sentences' places in the text."""
    places = places_in(text, body)

    def moved(one: SummarySentence) -> SummarySentence:
        if one.start is None or one.end is None:
            return one
        first, last = (len("".join(body[:place].split())) for place in (one.start, one.end))
        return replace(one, start=places[first], end=places[last - 1] + 1)

    return replace(found, sentences=tuple(map(moved, found.sentences)))


def check_style(style: str) -> Style:
    """The style of that name.

    Raises:
        ConfigError: there is none.
    """
    match style:
        case "extract" | "write" | "tldr":
            return style
    raise ConfigError(f"no style {style!r}; available: extract, write, tldr")


def written(
    article: Article,
    every: Sequence[Sentence],
    text: str,
    finished: bool,
    style: Style,
    max_words: int | None,
    most: int | None,
    read: int,
) -> Summary:
    """A summary of what the model wrote: whole sentences, where each may come from, and what of it to doubt."""
    text = text.strip()
    spans = sentence_spans(text)
    if not finished and len(spans) > 1:
        spans = spans[:-1]  # it was cut off
    kept: list[str] = []
    words = 0
    for start, end in spans[: most or None]:
        words += len(text[start:end].split())
        if kept and max_words is not None and words > max_words:
            break
        kept.append(text[start:end])
    if max_words is not None and kept:
        kept[0] = " ".join(kept[0].split()[:max_words])
    found = [SummarySentence(text=one, start=None, end=None, share=0.0) for one in kept]
    own = [pairs_of(words_of(one)) for one in kept]
    for sentence in every:
        pairs = pairs_of(words_of(sentence.text))
        for place, one in enumerate(found):
            share = len(own[place] & pairs) / max(1, len(own[place]))
            if share > one.share:
                found[place] = SummarySentence(text=one.text, start=sentence.start, end=sentence.end, share=share)
    summary = " ".join(kept)
    source = f"{article.title}\n{article.body}"
    doubts = unsupported(summary, source)
    return Summary(
        title=article.title,
        text=summary,
        style=style,
        sentences=tuple(found),
        warnings=tuple(dict.fromkeys(f"the {one.kind} {one.text!r} is not in the article" for one in doubts)),
        read=read,
        of=len(every),
    )
