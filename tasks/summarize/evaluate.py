"""How good summaries are beside simple ones of the same length, and whether the model reads what it sums up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from suite.checkpoint import Model
from suite.cli.show import percent, table
from suite.data.article_sets import read_articles
from suite.data.articles import Article
from suite.data.hub import to_evaluate
from suite.data.tables import Notes
from suite.errors import ConfigError, DataError
from suite.tasks.summarize import baselines, metrics
from suite.tasks.summarize.claims import claims
from suite.tasks.summarize.metrics import Floats
from suite.tasks.summarize.pipeline import Style, Summarizer
from suite.tasks.summarize.select import sentences_of
from suite.tasks.summarize.task import FEWEST, fitted, spread
from suite.wording import count

BASELINES: dict[str, Callable[[Article, int | None], str]] = {
    "first of each paragraph": baselines.first_of_paragraphs,
    "TextRank": baselines.textrank,
    "first words": baselines.first_words,
    "lead-3": baselines.lead_3,
    "oracle": baselines.oracle,
}
DRAWS = 1000  # of the bootstrap
SEED = 0  # of it


def evaluate(
    model: Model,
    data: Sequence[str],
    *,
    styles: Sequence[Style] = ("extract", "write"),
    words: int = 100,
    limit: int = 300,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """ROUGE of summaries against the articles' own leads, beside baselines cut to the same number of words.

    Args:
        model: a summarising model (or any language model, for the style "tldr").
        data: articles with leads, as `suite.data.article_sets.read_articles` takes them.
        styles: of the model.
        words: that every system may say at most; 0 for as many as each article's own lead has.
        limit: articles, evenly spread; 0 for all.
        progress: called with 1 after each article.

    Returns:
        plain values: `model`, `articles`, `words`, `notes` on what was left out; under `systems` for each system its
        `rouge` (by name: mean F1 and its 95% interval over articles), `unsupported` (share of its names and numbers
        that the article lacks), `repeated` (share of its 4-grams that stood in it before), `novel` (share of word pairs
        that the article lacks) and `length` (mean words, and the ratio to the lead's); under `perplexity` nats a token
        of the lead behind its own body, behind that of another article, and behind none (None for an untrained model).

    Raises:
        ConfigError: a number is out of its range.
        DataError: no article has a lead and a body.
    """
    if min(words, limit) < 0 or not styles:
        raise ConfigError("words and limit must not be negative, and at least one style is needed")
    notes = Notes()
    sources, told = to_evaluate(data)
    every = [one for one in read_articles(sources, notes) if len(sentences_of(one)) >= FEWEST]
    articles = spread(every, limit)
    if not articles:
        raise DataError(f"no article has a lead and a body of at least {FEWEST} sentences")
    summarizer = Summarizer(model)
    budgets = [words or len(article.lead.split()) for article in articles]
    summaries: dict[str, list[str]] = {style: [] for style in styles}
    for article, budget in zip(articles, budgets, strict=True):
        for style in styles:
            # a little more than there is room for, because all systems are cut at the same word
            found = summarizer(article, style=style, max_words=budget + 60)
            lines = "\n".join(sentence.text for sentence in found.sentences)
            summaries[style].append(metrics.truncate(lines, budget))
        if progress is not None:
            progress(1)
    for name, baseline in BASELINES.items():
        summaries[name] = [baseline(article, budget) for article, budget in zip(articles, budgets, strict=True)]
    return {
        "model": model.name,
        "articles": len(articles),
        "words": words,
        "notes": [*told, *notes.lines()],
        "systems": {name: system(texts, articles) for name, texts in summaries.items()},
        "perplexity": perplexity(summarizer, articles) if summarizer.trained else None,
    }


def system(summaries: Sequence[str], articles: Sequence[Article]) -> dict[str, Any]:
    """The figures of one system."""
    scores = metrics.rouge(summaries, [article.lead for article in articles])
    sources = [f"{article.title}\n{article.body}" for article in articles]
    pairs = list(zip(summaries, sources, strict=True))
    stated = [claim for pair in pairs for claim in claims(*pair)]
    lengths = np.array([len(summary.split()) for summary in summaries])
    leads = np.array([len(article.lead.split()) for article in articles])
    return {
        "rouge": {name: mean_and_interval(found[:, 2]) for name, found in scores.items()},
        "unsupported": sum(not claim.supported for claim in stated) / max(1, len(stated)),
        "repeated": share([metrics.repeated_ngrams(summary) for summary in summaries]),
        "novel": share([metrics.novel_ngrams(*pair, 2) for pair in pairs]),
        "length": {"words": float(lengths.mean()), "ratio": float((lengths / leads).mean())},
    }


def share(counts: Sequence[tuple[int, int]]) -> float:
    """The first numbers' sum as a share of the second's."""
    first, second = np.array(counts).sum(axis=0)
    return float(first / max(1, second))


def mean_and_interval(values: Floats) -> dict[str, Any]:
    """The mean over articles, and what 95% of the means of resampled articles lie between."""
    random = np.random.default_rng(SEED)
    means = values[random.integers(len(values), size=(DRAWS, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"mean": float(values.mean()), "interval": [float(low), float(high)]}


@torch.inference_mode()
def perplexity(summarizer: Summarizer, articles: Sequence[Article]) -> dict[str, float]:
    """Nats a token of the leads behind their own bodies, behind the next article's body, and behind none.

    The title is there each time, so that it is the body that makes the difference.
    """
    format, extractor = summarizer.format, summarizer.extractor
    bodies = [extractor.select(article, sentences_of(article)) for article in articles]
    found = {"own body": 0.0, "another body": 0.0, "no body": 0.0}
    tokens = 0
    for place, article in enumerate(articles):
        lead = format.tokenizer.decode(fitted(article.lead, format.tokenizer, summarizer.lead_tokens - 1))
        length = len(format.tokenizer.encode(lead))
        tokens += length
        prompts = {
            "own body": format.prompt(article, bodies[place]),
            "another body": format.prompt(article, bodies[(place + 1) % len(articles)]),
            "no body": format.around(article.title, ""),
        }
        for name, prompt in prompts.items():
            found[name] -= float(extractor.likelihoods(prompt, [lead])[0]) * length
    return {name: nats / tokens for name, nats in found.items()}


def lines(found: dict[str, Any]) -> list[str]:
    """The result of `evaluate` for a terminal."""
    names = list(next(iter(found["systems"].values()))["rouge"])
    rows = []
    for name, figures in found["systems"].items():
        each = []
        for one in names:
            low, high = figures["rouge"][one]["interval"]
            each.append(f"{100 * figures['rouge'][one]['mean']:.1f} [{100 * low:.1f}, {100 * high:.1f}]")
        shares = [percent(figures[key]) for key in ("unsupported", "repeated", "novel")]
        rows.append([name, *each, *shares, f"{figures['length']['words']:.0f}"])
    heads = ["", *names, "unsupported", "repeated", "novel pairs", "words"]
    told = table(rows, "l" + "r" * (len(heads) - 1), heads)
    length = count(found["words"], "word") if found["words"] else "as many words as its lead"
    told.insert(0, f"{found['model']}: {count(found['articles'], 'article')}, each summarised in {length}")
    if found["perplexity"] is not None:
        nats = ", ".join(f"{value:.3f} after {name}" for name, value in found["perplexity"].items())
        told.append(f"nats per token of the lead: {nats}")
    return told
