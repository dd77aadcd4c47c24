"""The summarize task: `<bos> title <sep> selected body <sep> lead <eos>`, loss on the lead; returns a summary.

Torch is imported inside functions, so that the command line can list this task without loading it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from suite.data.articles import Article
from suite.errors import ConfigError
from suite.task import DataTable, PackagedTask, TrainingData

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.task.kit.bulk import BulkFormat
    from suite.tasks.summarize.pipeline import Summarizer
    from suite.tasks.summarize.summary import Summary  # noqa: F401 (in quotes below)
    from suite.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class ArticlesTable(DataTable):
    """The table `data` of a recipe.

    Args:
        train, valid: sources of articles, as `suite.data.article_sets.read_articles` takes them. Without `valid`, a
            part of `train` is held out.
        held_out: share of the training articles held out, evenly spread.
        limit: training articles to use, evenly spread; 0 for all.
        valid_limit: number of validation articles to use, evenly spread; 0 for all.
    """

    valid_limit: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.valid_limit < 0:
            raise ConfigError(f"data.valid_limit is {self.valid_limit}, and must not be negative")


@dataclass(frozen=True, kw_only=True)
class VocabularyTable:
    """The table `tokenizer` of a recipe.

    Args:
        model: the model whose vocabulary is used; "" for the base model's.
    """

    model: str = ""


@dataclass(frozen=True, kw_only=True)
class SummarizeTable:
    """The table `summarize` of a recipe.

    Args:
        lead_tokens: limit of a lead; a longer one is cut at the end of a sentence.
        attention: "causal" (as the base was trained) or "prefix" (all tokens of a body see each other).
        rank_on: training articles that the selection is fitted on.
        weigh_on: training articles on which the trained model's likelihoods are weighed against the other features.
        style: the default of the trained model.
    """

    lead_tokens: int = 256
    attention: Literal["causal", "prefix"] = "causal"
    rank_on: int = 2000
    weigh_on: int = 300
    style: Literal["extract", "write"] = "extract"

    def __post_init__(self) -> None:
        if min(self.lead_tokens, self.rank_on, self.weigh_on) < 1:
            raise ConfigError("summarize.lead_tokens, rank_on and weigh_on must be at least 1")


class SummarizeTask(PackagedTask[Article, str | Article, "Summary"]):
    """The task `summarize`."""

    name = "summarize"
    summary = "summarise articles, in their own sentences or in new ones"
    data_table = ArticlesTable
    tokenizer_table = VocabularyTable
    options_table = SummarizeTable
    loss_keys = ("smoothing", "source_weight")

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Select sentences of the recipe's articles and write them as sequences."""
        data: TrainingData = self.beside("prepare").prepare(self, recipe)
        return data

    def pipeline(self, model: Model, **options: Any) -> Summarizer:
        """A callable from articles to summaries; see `suite.tasks.summarize.pipeline.Summarizer`."""
        from suite.tasks.summarize.pipeline import Summarizer

        return Summarizer(model, **options)

    def bulk_format(self, pipeline: Any) -> BulkFormat:
        """A column `summary`; JSON objects also get `summary_warnings`."""
        from suite.task.kit.bulk import BulkFormat

        return BulkFormat(
            columns=("summary", "summary_warnings"),
            values=lambda summary: (summary.text, list(summary.warnings)),
            in_tables=1,
        )
