"""Compare summaries with baselines of the same length, and test whether the model uses the article's body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from suite.checkpoint import Model
from suite.cli.show import percent
from suite.data.article_sets import read_articles
from suite.data.articles import Article
from suite.data.hub import to_evaluate
from suite.data.tables import Notes
from suite.errors import DataError
from suite.evaluation import Figure, Interval, Report, Table, bootstrap
from suite.task.kit.prepare import spread
from suite.tasks.summarize import baselines, metrics
from suite.tasks.summarize.claims import claims
from suite.tasks.summarize.metrics import Floats
from suite.tasks.summarize.options import ComparisonOptions
from suite.tasks.summarize.pipeline import Summarizer
from suite.tasks.summarize.prepare import FEWEST, fitted, is_long
from suite.tasks.summarize.select import sentences_of
from suite.wording import count

BASELINES: dict[str, Callable[[Article, int | None], str]] = {
    "first of each paragraph": baselines.first_of_paragraphs,
    "TextRank": baselines.textrank,
    "first words": baselines.first_words,
    "lead-3": baselines.lead_3,
    "oracle": baselines.oracle,
}
SPARE = 60  # words generated beyond the budget, so that every system can be cut at the same number of words
DEFAULT = ComparisonOptions()


def evaluate(
    model: Model,
    data: Sequence[str],
    options: ComparisonOptions = DEFAULT,
    *,
    progress: Callable[[int], object] = lambda articles: None,
) -> Report:
    """Measure ROUGE of summaries against the articles' own leads, beside baselines cut to the same number of words.

    Args:
        model: a summarising model (or any language model, for the style "tldr").
        data: articles with leads, as `suite.data.article_sets.read_articles` takes them.
        options: which styles, how many words and how many articles.
        progress: called with 1 after each article.

    Returns:
        a report; its `data` has `model`, `articles`, `words`, and `notes` on articles left out; under `systems` for
        each system its `rouge` (by name: mean F1 and its 95% interval over articles), `unsupported` (share of its
        names and numbers that the article lacks), `foreign` (the same by `metrics.foreign_words`), `repeated` (share
        of its 4-grams that occur in it earlier), `novel` (share of word pairs that the article lacks) and `length`
        (mean words, and the ratio to the lead's); under `nats_per_token` the loss of the lead after its own body,
        after that of another article, and after none (None for a model not trained to summarise).

    Raises:
        DataError: no article has a lead and a body.
        ConfigError: the model was not trained for one of the styles.
    """
    notes = Notes()
    sources, told = to_evaluate(data)
    every = [one for one in read_articles(sources, notes) if is_long(one)]
    articles = spread(every, options.limit)
    if not articles:
        raise DataError(f"no article has a lead and a body of at least {FEWEST} sentences")
    summarizer = Summarizer(model)
    budgets = [options.words or len(article.lead.split()) for article in articles]
    summaries: dict[str, list[str]] = {style: [] for style in options.styles}
    for article, budget in zip(articles, budgets, strict=True):
        for style in options.styles:
            summary = summarizer(article, style=style, max_words=budget + SPARE)
            lines = "\n".join(sentence.text for sentence in summary.sentences)
            summaries[style].append(metrics.truncate(lines, budget))
        progress(1)
    for name, baseline in BASELINES.items():
        summaries[name] = [baseline(article, budget) for article, budget in zip(articles, budgets, strict=True)]
    found: dict[str, Any] = {
        "model": model.name,
        "articles": len(articles),
        "words": options.words,
        "notes": [*told, *notes.lines()],
        "systems": {name: system(texts, articles) for name, texts in summaries.items()},
        "nats_per_token": lead_nats(summarizer, articles) if summarizer.trained else None,
    }
    return Report(data=found, tables=tables(found), notes=found["notes"])


def system(summaries: Sequence[str], articles: Sequence[Article]) -> dict[str, Any]:
    """Return the figures of one system; see `evaluate`."""
    scores = metrics.rouge(summaries, [article.lead for article in articles])
    sources = [f"{article.title}\n{article.body}" for article in articles]
    pairs = list(zip(summaries, sources, strict=True))
    stated = [claim for pair in pairs for claim in claims(*pair)]
    lengths = np.array([len(summary.split()) for summary in summaries])
    leads = np.array([len(article.lead.split()) for article in articles])
    return {
        "rouge": {name: mean_and_interval(values[:, 2]) for name, values in scores.items()},
        "unsupported": sum(not claim.supported for claim in stated) / max(1, len(stated)),
        "foreign": share([metrics.foreign_words(summary.replace("\n", " "), source) for summary, source in pairs]),
        "repeated": share([metrics.repeated_ngrams(summary) for summary in summaries]),
        "novel": share([metrics.novel_ngrams(*pair, 2) for pair in pairs]),
        "length": {"words": float(lengths.mean()), "ratio": float((lengths / leads).mean())},
    }


def share(counts: Sequence[tuple[int, int]]) -> float:
    """Return the sum of the first numbers divided by the sum of the second."""
    first, second = np.array(counts).sum(axis=0)
    return float(first / max(1, second))


def mean_and_interval(values: Floats) -> dict[str, Any]:
    """Return the mean over articles and its 95% interval."""
    return {"mean": float(values.mean()), "interval": list(bootstrap(values))}


@torch.inference_mode()
def lead_nats(summarizer: Summarizer, articles: Sequence[Article]) -> dict[str, float]:
    """Return nats per token of the leads after their own bodies, after another article's body, and after none.

    The title is included each time, so that only the body makes a difference.
    """
    format, extractor = summarizer.format, summarizer.extractor
    bodies = [extractor.select(article, sentences_of(article)) for article in articles]
    nats = {"own body": 0.0, "another body": 0.0, "no body": 0.0}
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
            nats[name] -= float(extractor.likelihoods(prompt, [lead])[0]) * length
    return {name: total / tokens for name, total in nats.items()}


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Return the figures of `evaluate` as tables."""
    rows: list[tuple[str, list[Figure | str]]] = []
    for name, figures in found["systems"].items():
        rouges = [_rouge(one["mean"], *one["interval"]) for one in figures["rouge"].values()]
        shares = [percent(figures[key]) for key in ("unsupported", "foreign", "repeated", "novel")]
        rows.append((name, [*rouges, *shares, Figure(value=figures["length"]["words"], unit="count")]))
    length = count(found["words"], "word") if found["words"] else "as many words as its lead"
    columns = [*metrics.ROUGES, "unsupported", "foreign", "repeated", "novel pairs", "words"]
    title = f"{found['model']}: {count(found['articles'], 'article')}, each summarised in {length}"
    scores = Table(columns=columns, rows=rows, title=title)
    if found["nats_per_token"] is None:
        return [scores]
    nats = found["nats_per_token"]
    columns = [f"after {name}" for name in nats]
    cells = [Figure(value=value, digits=3) for value in nats.values()]
    return [scores, Table(columns=columns, rows=[("nats per token of the lead", cells)])]


def _rouge(mean: float, low: float, high: float) -> Figure:
    """ROUGE as papers write it: 34.6, not 0.346."""
    return Figure(value=100 * mean, interval=Interval(100 * low, 100 * high), digits=1)
