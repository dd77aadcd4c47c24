"""`pipeline("summarize")`: articles in, summaries out, taken from the article or written by the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from suite.checkpoint import Model
from suite.data.articles import Article
from suite.data.pages import read_pages
from suite.data.tables import Notes
from suite.errors import CheckpointError, ConfigError, DataError
from suite.sampling import Generated, Sampling, generate
from suite.sampling.text_grammar import TextGrammar, TokenTrie
from suite.task.results import alike, listed
from suite.task.tables import read_extra
from suite.tasks.summarize.copying import TYPOGRAPHY, Reading, SourceWords
from suite.tasks.summarize.extract import Extractor, Progress, silent
from suite.tasks.summarize.format import ArticleFormat, SummarizeSettings
from suite.tasks.summarize.options import Style, SummaryOptions, check_style
from suite.tasks.summarize.select import BodySentence, Ranker, sentences_of
from suite.tasks.summarize.standing import Standing
from suite.tasks.summarize.summary import Summary, extracted, in_text, written
from suite.wording import count

# Radford et al. 2019, section 3.6: top-k 2, 100 tokens, of which three sentences count; repetition is ours
TLDR = Sampling(top_k=2, no_repeat_ngram=4, count_prompt=False)
TLDR_TOKENS, TLDR_SENTENCES = 100, 3
WRITE = Sampling(temperature=0.0, no_repeat_ngram=3, count_prompt=False)
WORDS = 100  # in an extract without a limit


class Summarizer:
    """Summarises articles.

    Args:
        model: a summarising model, or for the style "tldr" any language model, the larger the better.
        style: the default of calls (None: the style that the model's card names).

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
        self.trained = "ranker" in model.extra
        told = read_extra(SummarizeSettings, model.extra, model.config_file) if self.trained else None
        self.style: Style = style or (told.style if told else "tldr")
        check_style(self.style)
        if told:
            if told.source_tokens + told.lead_tokens > model.config.context:
                raise CheckpointError(
                    f"{model.config_file}: extra.source_tokens {told.source_tokens} and extra.lead_tokens "
                    f"{told.lead_tokens} do not fit model.context {model.config.context}"
                )
            self.prefix = told.attention == "prefix"
            self.lead_tokens = told.lead_tokens
            self.format = ArticleFormat(tokenizer=self.tokenizer, source_tokens=told.source_tokens)
            ranker, weights = Ranker(weights=told.ranker), Ranker(weights=told.extractor)
            self.extractor = Extractor(model.transformer, self.format, ranker, weights, self.prefix)

    def __call__(
        self,
        inputs: Any,
        *,
        style: Style | None = None,
        max_words: int | None = None,
        sentences: int | None = None,
        seed: int = 0,
        progress: Progress = silent,
    ) -> Any:
        """Return a `Summary` for a single input, or a list of them for a list, tuple, generator or array of inputs.

        Args:
            inputs: one or several, each a text, read as from a text file, or an `Article` with a title and sections,
                whose own lead is not read.
            style: "extract" (sentences of the article), "write", or "tldr" (any language model, without training;
                Radford et al. 2019). The last two are experimental: models of under 100 million parameters, such as
                the embedded ones, invent much of what they write.
            max_words: limit of a summary (None: 100 for an extract, and none for the other styles).
            sentences: limit of a summary.
            seed: of sampling; the style "tldr" alone samples.
            progress: called from time to time with the current step, the amount done, and its total.

        Raises:
            DataError: an input is neither a text nor an `Article`, or has no text in it.
            ConfigError: an argument is out of its range, or the model was not trained for the style.
        """
        given, many = articles_of(inputs)
        options = SummaryOptions(style=style or self.style, max_words=max_words, sentences=sentences, seed=seed)
        if options.style != "tldr" and not self.trained:
            raise ConfigError(f"{self.model.name} was not trained to summarise; only the style tldr works with it")
        results = []
        for place, one in enumerate(given):
            results.append(self._summary(one, f"text {place}" if many else "the text", options, progress))
        return alike(results, many)

    def _summary(self, given: str | Article, name: str, options: SummaryOptions, progress: Progress) -> Summary:
        """Return the summary of one input; errors call a plain text `name`."""
        if isinstance(given, str):
            page = page_of(given, name)
            return in_text(self._summary(page, name, options, progress), given, page.body)
        body = sentences_of(given)
        if not body:
            raise DataError(f"{given.where or 'the article'} has no text to summarise")
        if options.style == "extract":
            return self._extract(given, body, options, progress)
        if options.style == "write":
            return self._write(given, body, options, progress)
        return self._tldr(given, body, options)

    def _extract(
        self, article: Article, body: Sequence[BodySentence], options: SummaryOptions, progress: Progress
    ) -> Summary:
        """Return a summary made of the article's own sentences."""
        most = options.sentences or 0
        limit = options.max_words or (None if most else WORDS)
        left = limit if limit is not None else 10**9

        def fits(new: Sequence[BodySentence]) -> bool:
            nonlocal left
            words = sum(len(sentence.text.split()) for sentence in new)
            if words > left and not (left == limit and len(new) == 1):
                return False
            left -= words
            return True

        need = {"most": most} if most else {"words": limit or 0}
        candidates = self.extractor.candidates(article, body, progress=progress, **need)
        standing = Standing(article.title, body)
        chosen = self.extractor.extract(standing, candidates, fits, most)
        taken = tuple(extracted(body, chosen, standing.texts(chosen)))
        warnings = []
        if limit is not None and sum(len(body[place].text.split()) for place in chosen) > limit:
            warnings.append(f"the best sentence alone has more than {count(limit, 'word')}")
        return Summary(
            title=article.title,
            text=" ".join(one.text for one in taken),
            style="extract",
            sentences=taken,
            warnings=tuple(warnings),
            read=candidates.read,
            of=len(body),
        )

    def _write(
        self, article: Article, body: Sequence[BodySentence], options: SummaryOptions, progress: Progress
    ) -> Summary:
        """Return a summary that the model writes after reading the selected sentences."""
        selected = self.extractor.select(article, body, progress)
        progress("writing", 0, 1)
        prompt = self.format.prompt(article, selected)
        longest = min(self.lead_tokens, 4 * options.max_words if options.max_words else self.lead_tokens)
        [row] = generate(
            self.model.transformer,
            [prompt],
            max_new_tokens=longest,
            sampling=WRITE,
            prefixes=[len(prompt)] if self.prefix else None,
            stop_tokens=(self.format.eos,),
            tokenizer=self.tokenizer,
            grammar=self._copying(article),
        )
        return _of_row(row, article, body, "write", options, len(selected))

    def _copying(self, article: Article) -> TextGrammar[Reading]:
        """Return the grammar that keeps names and numbers to those of an article and its title."""
        return TextGrammar(
            self._trie,
            SourceWords(article.title, article.body),
            alphabet={*article.title, *article.body, *TYPOGRAPHY},
            ends=(self.format.eos,),
        )

    @cached_property
    def _trie(self) -> TokenTrie:
        """The vocabulary by bytes."""
        return TokenTrie([self.tokenizer.token_bytes(id) for id in range(self.model.config.vocab_size)])

    def _tldr(self, article: Article, body: Sequence[BodySentence], options: SummaryOptions) -> Summary:
        """Return the summary that a language model writes after the article's beginning and "TL;DR:"."""
        hint = self.tokenizer.encode("\nTL;DR:")
        room = self.model.config.context - TLDR_TOKENS - len(hint)
        tokens: list[int] = []
        read = 0
        for sentence in body:  # up to the end of a sentence
            more = self.tokenizer.encode((" " if tokens else "") + sentence.text)
            if tokens and len(tokens) + len(more) > room:
                break
            tokens += more
            read += 1
        [row] = generate(
            self.model.transformer,
            [[*tokens[: max(1, room)], *hint]],
            max_new_tokens=TLDR_TOKENS,
            sampling=TLDR,
            seed=options.seed,
            stop_tokens=() if self.tokenizer.eos is None else (self.tokenizer.eos,),
            tokenizer=self.tokenizer,
        )
        return _of_row(row, article, body, "tldr", options, read)


def articles_of(inputs: Any) -> tuple[list[str | Article], bool]:
    """Return the inputs as a list, and whether several were given.

    Raises:
        DataError: an input is neither a text nor an `Article`.
    """
    if isinstance(inputs, Article):
        return [inputs], False
    given, many = listed(inputs)
    for place, one in enumerate(given):
        if not isinstance(one, str | Article):
            raise DataError(f"text {place} is {type(one).__name__}, not a string or an Article")
    return [str(one) if isinstance(one, str) else one for one in given], many


def page_of(text: str, name: str) -> Article:
    """Return a text as an article, read as from a text file.

    Args:
        text: plain.
        name: of the text, for errors.

    Raises:
        DataError: there is no text in it.
    """
    [page] = read_pages(text, Notes(), kind="text", name=name)
    return page


def has_sentences(text: str) -> bool:
    """Whether there is anything to summarise in a text."""
    try:
        return bool(sentences_of(page_of(text, "the text")))
    except DataError:
        return False


def _of_row(
    row: Generated, article: Article, body: Sequence[BodySentence], style: Style, options: SummaryOptions, read: int
) -> Summary:
    """Return the summary made of a generated row."""
    most = options.sentences
    return written(
        article,
        body,
        row.text,
        finished=row.finish == "stop",
        style=style,
        max_words=options.max_words,
        sentences=min(most or TLDR_SENTENCES, TLDR_SENTENCES) if style == "tldr" else most,
        read=read,
    )
