"""Training preparation: articles as token sequences, and the weights fitted besides the model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.checkpoint import vocabulary
from suite.data.article_sets import read_articles
from suite.data.articles import Article
from suite.data.sentences import sentence_spans
from suite.data.tables import Notes
from suite.errors import ConfigError, DataError
from suite.task import TrainingData
from suite.task.kit.prepare import spread
from suite.tasks.summarize.extract import Extractor
from suite.tasks.summarize.format import ArticleFormat
from suite.tasks.summarize.select import Ranker, features, sentences_of, usefulness
from suite.tasks.summarize.task import ArticlesTable, SummarizeTable, SummarizeTask
from suite.text.tokenizer import Tokenizer
from suite.training.batches import Example, ShuffledSource
from suite.wording import count

if TYPE_CHECKING:
    from suite.training.recipe import Recipe

FEWEST = 3  # sentences in a body that is worth summarising
LEAST_ROOM = 32  # tokens for an article's body


def prepare(task: SummarizeTask, recipe: Recipe) -> TrainingData:
    """Return the training data of a recipe; called by `SummarizeTask.prepare`.

    Raises:
        ConfigError: a key that the task does not read, no vocabulary, or a context without room for an article.
        DataError: the data cannot be read, or has too few articles that are long enough.
    """
    tables = task.tables(recipe)
    options: SummarizeTable = tables.options
    format = format_of(recipe, tables.tokenizer.model, options)
    notes = Notes()
    train, valid = split(tables.data, notes)
    ranker = fit_ranker(spread(train, options.rank_on))
    examples, short = encoded(train, format, ranker, options)
    held, _ = encoded(spread(valid, tables.data.valid_limit), format, ranker, options)
    if not examples or not held:
        raise DataError(f"no article has a lead and a body of at least {FEWEST} sentences")
    lines = [*tables.notes, *notes.lines()]
    if short:
        lines.append(f"{count(short, 'article')} with a body of fewer than {FEWEST} sentences left out")
    weighed = [one for one in spread(train, options.weigh_on) if is_long(one)]
    if not weighed:
        raise DataError(
            f"none of the {options.weigh_on} articles used to weigh the likelihoods has a body of {FEWEST} "
            "sentences; raise summarize.weigh_on"
        )
    return TrainingData(
        train=ShuffledSource(examples, recipe.seed),
        valid=held,
        tokenizer=format.tokenizer,
        vocab_size=format.tokenizer.vocab_size,
        extra={
            "style": options.style,
            "source_tokens": format.source_tokens,
            "lead_tokens": options.lead_tokens,
            "attention": options.attention,
            "ranker": list(ranker.weights),
        },
        finish=finisher(weighed, format, ranker, options.attention == "prefix"),
        unfinished={"extractor": [*ranker.weights, 0.0, 0.0]},  # as selected, with no weight on the two likelihoods
        notes=(*lines, f"{count(len(examples), 'article')} for training, {len(held):,} for validation"),
    )


def format_of(recipe: Recipe, model: str, options: SummarizeTable) -> ArticleFormat:
    """Return the format of articles for a recipe's model.

    Args:
        recipe: its base and context count.
        model: whose vocabulary is taken; "" for the base's.
        options: the recipe's table `summarize`.

    Raises:
        ConfigError: there is no vocabulary, or the context has no room for an article.
    """
    name = model or recipe.base
    if not name:
        raise ConfigError("no vocabulary to use; name a base model, or set tokenizer.model")
    tokenizer, longest = vocabulary(name)
    context = int(recipe.model.get("context", 0)) or longest
    room = context - options.lead_tokens - ArticleFormat.title_tokens - 4
    if room < LEAST_ROOM:
        raise ConfigError(f"a context of {context} leaves {room} tokens for an article; raise model.context")
    return ArticleFormat(tokenizer=tokenizer, source_tokens=room)


def split(data: ArticlesTable, notes: Notes) -> tuple[list[Article], list[Article]]:
    """Return the articles to train on and those to validate on.

    Args:
        data: the recipe's table `data`.
        notes: say what was guessed or left out.

    Raises:
        DataError: a source cannot be read, or there are too few articles for both.
    """
    train = list(read_articles(data.train, notes))
    if data.valid:
        valid = list(read_articles(data.valid, notes))
    else:
        train, valid = hold_out(train, data.held_out)
        if not any(map(is_long, train)) or not any(map(is_long, valid)):  # of few articles, some too short
            train, valid = hold_out([one for one in (*train, *valid) if is_long(one)], data.held_out)
    train = spread(train, data.limit)
    if not train or not valid:
        raise DataError("there are not enough articles with a lead and a body to train and to validate on")
    return train, valid


def hold_out(articles: Sequence[Article], share: float) -> tuple[list[Article], list[Article]]:
    """Return articles to train on and held-out ones, evenly spread; of two or more, at least one in each."""
    many = share > 0.5
    every = max(2, round(1 / (1 - share if many else share)))
    # the smaller part has every `every`-th article; the first is always held out, the second never is
    held = [place % every != 1 if many else place % every == 0 for place in range(len(articles))]
    return [one for one, out in zip(articles, held, strict=True) if not out], list(itertools.compress(articles, held))


def is_long(article: Article) -> bool:
    """Whether an article's body is worth summarising."""
    return len(sentences_of(article)) >= FEWEST


def encoded(
    articles: Sequence[Article], format: ArticleFormat, ranker: Ranker, options: SummarizeTable
) -> tuple[list[Example], int]:
    """Return the articles as examples, and the number of articles left out because their body is too short."""
    from tqdm import tqdm

    examples: list[Example] = []
    short = 0
    for article in tqdm(articles, desc="selecting", unit=" articles", disable=None, leave=False):
        sentences = sentences_of(article)
        if len(sentences) < FEWEST:
            short += 1
            continue
        chosen = format.select(sentences, ranker.scores(features(article.title, sentences)))
        prompt = format.prompt(article, [sentences[place] for place in chosen])
        lead = fitted(article.lead, format.tokenizer, options.lead_tokens - 1)
        tokens = np.array([*prompt, *lead, format.eos], dtype=np.int32)
        prefix = len(prompt) if options.attention == "prefix" else 0
        examples.append(Example(tokens, prefix=prefix, target=len(prompt)))
    return examples, short


def fitted(lead: str, tokenizer: Tokenizer, most: int) -> list[int]:
    """Return the tokens of a lead's first sentences, at most `most`; a first sentence longer than that is cut."""
    tokens: list[int] = tokenizer.encode(lead)
    if len(tokens) <= most:
        return tokens
    kept = tokens[:most]
    for _, end in sentence_spans(lead):
        some = tokenizer.encode(lead[:end])
        if len(some) > most:
            break
        kept = some
    return kept


def fit_ranker(articles: Sequence[Article]) -> Ranker:
    """Fit the weights of the selection to articles with a lead.

    Raises:
        DataError: no article is long enough.
    """
    rows, targets = [], []
    for article in articles:
        sentences = sentences_of(article)
        if len(sentences) >= FEWEST:
            rows.append(features(article.title, sentences))
            targets.append(usefulness(article.lead, sentences))
    if not rows:
        raise DataError(f"no article has a lead and a body of at least {FEWEST} sentences")
    return Ranker.fit(np.concatenate(rows), np.concatenate(targets))


def finisher(
    articles: Sequence[Article], format: ArticleFormat, ranker: Ranker, prefix: bool
) -> Callable[[Any], Mapping[str, Any]]:
    """Return a function for `TrainingData.finish` that fits weights of the model's likelihoods and the features."""

    def finish(transformer: Any) -> Mapping[str, Any]:
        extractor = Extractor(transformer, format, ranker, None, prefix)
        rows, targets = [], []
        for article in articles:
            candidates = extractor.candidates(article, sentences_of(article))
            rows.append(candidates.rows)
            targets.append(usefulness(article.lead, candidates.sentences))
        return {"extractor": list(Ranker.fit(np.concatenate(rows), np.concatenate(targets)).weights)}

    return finish
