"""Summarising: `<bos> title <sep> selected body <sep> lead <eos>`, loss on the lead, and the result is a summary.

Torch is imported inside functions, so that the command line can list this task without paying for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.errors import ConfigError, DataError
from suite.task import PackagedTask, TrainingData
from suite.wording import count

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.data.articles import Article
    from suite.tasks.summarize.pipeline import Summarizer
    from suite.tasks.summarize.select import Ranker
    from suite.training.batches import Example
    from suite.training.recipe import Recipe

FEWEST = 3  # sentences in a body that is worth summing up


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The table `data` of a recipe.

    Args:
        train, valid: sources of articles, as `suite.data.article_sets.read_articles` takes them. Without `valid`, a
            part of `train` is held out.
        held_out: share of the training articles held out.
        limit: training articles to use, spread over all of them; 0 for all.
        valid_limit: validation articles that training looks at; 0 for all.
    """

    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    held_out: float = 0.05
    limit: int = 0
    valid_limit: int = 200

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1 or min(self.limit, self.valid_limit) < 0:
            raise ConfigError("data.held_out must be between 0 and 1, data.limit and data.valid_limit not negative")


@dataclass(frozen=True, kw_only=True)
class SummarizeConfig:
    """The table `summarize` of a recipe.

    Args:
        lead_tokens: of a lead at most; a longer one is cut at the end of a sentence.
        attention: "causal" (as the base was trained) or "prefix" (all tokens of a body see each other).
        rank_on: training articles on which the selection is fitted.
        weigh_on: training articles on which the trained model's likelihoods are weighed against the other features.
        style: "extract" or "write", the one taken where nobody says.
    """

    lead_tokens: int = 256
    attention: Literal["causal", "prefix"] = "causal"
    rank_on: int = 2000
    weigh_on: int = 300
    style: Literal["extract", "write"] = "extract"

    def __post_init__(self) -> None:
        if min(self.lead_tokens, self.rank_on, self.weigh_on) < 1:
            raise ConfigError("summarize.lead_tokens, rank_on and weigh_on must be at least 1")


class Summarizing(PackagedTask):
    """The task `summarize`."""

    name = "summarize"
    summary = "summarise articles, in their own sentences or in new ones"

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Select sentences of the recipe's articles and write them as sequences."""
        from suite.data.article_sets import read_articles
        from suite.data.tables import Notes
        from suite.tasks.summarize.format import Format
        from suite.tasks.summarize.select import sentences_of
        from suite.training.batches import ShuffledSource
        from suite.training.recipe import from_table

        data = from_table(DataConfig, recipe.data, "recipe", "data.")
        options = from_table(SummarizeConfig, recipe.options, "recipe", "summarize.")
        if not data.train:
            raise ConfigError("there are no training articles; give them with --data or in data.train")
        tokenizer, context = self._tokenizer(recipe)
        room = context - options.lead_tokens - Format.title_tokens - 4
        if room < 32:
            raise ConfigError(f"a context of {context} leaves {room} tokens for an article; raise model.context")
        format = Format(tokenizer=tokenizer, source_tokens=room)
        told = Notes()
        train = list(read_articles(data.train, told))
        if data.valid:
            valid = list(read_articles(data.valid, told))
        else:
            train, valid = hold_out(train, data.held_out)
            if not any(map(is_long, train)) or not any(map(is_long, valid)):  # of few articles, some too short
                train, valid = hold_out([one for one in (*train, *valid) if is_long(one)], data.held_out)
        train = spread(train, data.limit)
        if not train or not valid:
            raise DataError("there are not enough articles with a lead and a body to train and to validate on")
        ranker = fit_ranker(spread(train, options.rank_on))
        examples, short = self._examples(train, format, ranker, options)
        held, _ = self._examples(spread(valid, data.valid_limit), format, ranker, options)
        if not examples or not held:
            raise DataError(f"no article has a lead and a body of at least {FEWEST} sentences")
        notes = told.lines()
        if short:
            notes.append(f"{count(short, 'article')} with a body of fewer than {FEWEST} sentences left out")
        settings = {
            "style": options.style,
            "source_tokens": room,
            "lead_tokens": options.lead_tokens,
            "attention": options.attention,
            "ranker": list(ranker.weights),
        }
        weighed = [one for one in spread(train, options.weigh_on) if len(sentences_of(one)) >= FEWEST]
        if not weighed:
            raise DataError(
                f"none of the {options.weigh_on} articles used to weigh the likelihoods has a body of {FEWEST} "
                "sentences; raise summarize.weigh_on"
            )
        return TrainingData(
            train=ShuffledSource(examples, recipe.seed),
            valid=held,
            tokenizer=tokenizer,
            vocab_size=tokenizer.vocab_size,
            extra=settings,
            finish=finisher(weighed, format, ranker, options.attention == "prefix"),
            unfinished={"extractor": [*ranker.weights, 0.0, 0.0]},  # as selected, the two likelihoods weighing nothing
            notes=(*notes, f"{count(len(examples), 'article')} for training, {len(held):,} for validation"),
        )

    def _tokenizer(self, recipe: Recipe) -> tuple[Any, int]:
        """The base model's tokenizer, or that which the table `tokenizer` names, and the context."""
        from suite.checkpoint import vocabulary

        context = int(recipe.model.get("context", 0))
        name = str(recipe.tokenizer.get("model", "") or recipe.base)
        if not name:
            raise ConfigError("no vocabulary to use; name a base model, or set tokenizer.model")
        tokenizer, longest = vocabulary(name)
        return tokenizer, context or longest

    def _examples(
        self, articles: Sequence[Article], format: Any, ranker: Ranker, options: SummarizeConfig
    ) -> tuple[list[Example], int]:
        """The articles as sequences, and how many are too short for it."""
        import numpy as np
        from tqdm import tqdm

        from suite.tasks.summarize.select import features, sentences_of
        from suite.training.batches import Example

        found: list[Example] = []
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
            found.append(Example(tokens, prefix=prefix, target=len(prompt)))
        return found, short

    def pipeline(self, model: Model, **options: Any) -> Summarizer:
        """A callable from articles to summaries."""
        from suite.tasks.summarize.pipeline import Summarizer

        return Summarizer(model, **options)


def hold_out(articles: Sequence[Article], share: float) -> tuple[list[Article], list[Article]]:
    """Articles to learn from, and those held out, evenly spread: of two or more at least one, and never all."""
    many = share > 0.5
    every = max(2, round(1 / (1 - share if many else share)))
    # whichever part is the smaller has every so many-th article; the first is always held out, the second never is
    held = [place % every != 1 if many else place % every == 0 for place in range(len(articles))]
    return [one for one, out in zip(articles, held, strict=True) if not out], list(itertools.compress(articles, held))


def is_long(article: Article) -> bool:
    """Whether its body is worth summing up."""
    from suite.tasks.summarize.select import sentences_of

    return len(sentences_of(article)) >= FEWEST


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many items, evenly spread; 0 for all."""
    if not most or len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


def fitted(lead: str, tokenizer: Any, most: int) -> list[int]:
    """The tokens of a lead, of so many sentences as `most` tokens hold (of the first one, so much as they do)."""
    from suite.data.sentences import sentence_spans

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
    """The selection's weights, from articles with a lead."""
    import numpy as np

    from suite.tasks.summarize.select import Ranker, features, sentences_of, usefulness

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
    articles: Sequence[Article], format: Any, ranker: Ranker, prefix: bool
) -> Callable[[Any], Mapping[str, Any]]:
    """What `TrainingData.finish` takes: weighs the trained model's likelihoods against the other features."""

    def finish(transformer: Any) -> Mapping[str, Any]:
        import numpy as np

        from suite.tasks.summarize.pipeline import Extractor
        from suite.tasks.summarize.select import Ranker, sentences_of, usefulness

        extractor = Extractor(transformer, format, ranker, None, prefix)
        rows, targets = [], []
        for article in articles:
            candidates = extractor.candidates(article, sentences_of(article))
            rows.append(candidates.rows)
            targets.append(usefulness(article.lead, candidates.sentences))
        return {"extractor": list(Ranker.fit(np.concatenate(rows), np.concatenate(targets)).weights)}

    return finish
