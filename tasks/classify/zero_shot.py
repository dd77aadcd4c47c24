"""Zero-shot classification: any labels, from a language model that was not trained to classify.

Shapes: `C` labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from suite.checkpoint import Model
from suite.errors import ConfigError, DataError
from suite.sampling.score import continuation_logprobs
from suite.task.results import alike
from suite.tasks.classify.codec import BATCH_TOKENS, cut
from suite.tasks.classify.pipeline import Progress
from suite.tasks.classify.results import check_minimum, classified, read_texts


class ZeroShot:
    """Labels texts with any language model, by how much more probable each label becomes after the text.

    A label's score is its mean log-probability per token after the text, minus that after an empty text, so that common
    labels have no advantage. Experimental: models of under 100 million parameters, such as the embedded one, are little
    better than chance. Source: Holtzman et al. 2021, "Surface Form Competition" (PMI); Zhao et al. 2021.

    Args:
        model: a language model with a tokenizer.
        labels: at least two.
        template: with `{}` where the text goes; a label follows it, after a space.

    Raises:
        ConfigError: fewer than two labels, one twice, an empty one, or a template without `{}`.
        DataError: the model has no tokenizer.
    """

    multi = False
    pairs = False

    def __init__(self, model: Model, *, labels: Sequence[str], template: str = "{}\n\nThis text is about") -> None:
        names = tuple(label.strip() for label in labels)
        if len(names) < 2 or len(set(names)) < len(names) or "" in names:
            raise ConfigError(f"labels are {', '.join(map(repr, names))}; zero-shot needs at least two, all different")
        if template.count("{}") != 1:
            raise ConfigError(f"template {template!r} must have one {{}}, where the text goes")
        if model.tokenizer is None:
            raise DataError(f"{model.name} has no tokenizer, so it cannot read texts")
        self.model, self.tokenizer, self.labels = model, model.tokenizer, names
        self.answers = [self.tokenizer.encode(" " + name) for name in names]
        before, self.after = (self.tokenizer.encode(part) for part in template.split("{}"))
        self.before = before if self.tokenizer.eos is None else [self.tokenizer.eos, *before]
        around = len(self.before) + len(self.after) + max(map(len, self.answers))
        self.room = model.config.context - around  # tokens of a text that fit
        if self.room < 1:
            raise ConfigError(
                f"template and labels take {around} tokens of the {model.config.context} that {model.name} reads"
            )
        self.prior = self._logprobs([])

    def __call__(self, texts: Any, *, min_probability: float = 0.0, progress: Progress | None = None) -> Any:
        """Label texts; arguments and results as for `Classifier`. The probabilities are not calibrated.

        A text longer than the model's context is read in pieces, whose scores are averaged, weighted by length.
        """
        check_minimum(min_probability)
        given, many = read_texts(texts, None)
        results = []
        for text in given:
            if not isinstance(text, str):
                raise DataError("zero-shot takes single texts; write a pair as one text")
            ids = self.tokenizer.encode(text)
            pieces = cut(ids, self.room) if ids else [ids]
            gains = [(self._logprobs(piece) - self.prior) * max(1, len(piece)) for piece in pieces]
            probabilities = (torch.stack(gains).sum(dim=0) / max(1, len(ids))).softmax(dim=-1)  # (C,)
            results.append(classified(text, self.labels, probabilities.tolist(), min_probability, None, len(pieces)))
            if progress:
                progress(1)
        return alike(results, many)

    def _logprobs(self, ids: Sequence[int]) -> Tensor:
        """Mean log-probability per token of each label after a text that fits the context, (C,)."""
        prompt = [*self.before, *ids, *self.after]
        batch = max(1, BATCH_TOKENS // (len(prompt) + max(map(len, self.answers))))
        found = continuation_logprobs(self.model.transformer, prompt, self.answers, batch=batch)
        return torch.stack([logprobs.mean() for logprobs in found])
