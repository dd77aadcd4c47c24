"""The default pipeline: prompt, generate, decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from suite.errors import DataError
from suite.sampling import Sampling, generate, with_settings
from suite.task.results import alike, several

if TYPE_CHECKING:
    from suite.checkpoint import Model
    from suite.task.contract import Task

GREEDY = Sampling(temperature=0.0)
BATCH = 32  # inputs at a time


class Pipeline:
    """Maps inputs to results: write the prompt, generate, decode.

    Args:
        task: gives the codec that writes prompts and reads results.
        model: a model trained for the task.
        max_new_tokens: maximum length of a result in tokens.
        settings: fields of `suite.Sampling`; by default the likeliest tokens are taken.

    Raises:
        DataError: the model has no tokenizer.
        ConfigError: a setting is unknown or out of its range.
    """

    def __init__(self, task: Task[Any, Any, Any], model: Model, *, max_new_tokens: int = 256, **settings: Any) -> None:
        if model.tokenizer is None:
            raise DataError(f"{model.name} has no tokenizer, so it cannot read text")
        self.model, self.max_new_tokens = model, max_new_tokens
        self.codec = task.codec(model.tokenizer, model.extra)
        self.sampling = with_settings(GREEDY, settings)

    def __call__(self, inputs: Any, *, seed: int = 0) -> Any:
        """Return one result for a single input, and a list of results for a list, tuple, generator or array.

        Args:
            inputs: one input or several.
            seed: seed for sampling; a result depends on its own input and the seed, not on other inputs.

        Raises:
            DataError: an input is not text.
        """
        given, many = several(inputs)
        return alike([result for batch in batches(given) for result in self._batch(batch, seed)], many)

    def _batch(self, given: Sequence[Any], seed: int) -> list[Any]:
        prompts = [self.codec.prompt(one) for one in given]
        eos = self.codec.tokenizer.eos
        found = generate(
            self.model.transformer,
            [prompt.tokens for prompt in prompts],
            prefixes=[prompt.prefix for prompt in prompts],
            max_new_tokens=self.max_new_tokens,
            sampling=self.sampling,
            seed=seed,
            stop_tokens=() if eos is None else (eos,),
        )
        return [self.codec.decode(one, row.tokens) for one, row in zip(given, found, strict=True)]


def batches(given: Sequence[Any], size: int = BATCH) -> Iterator[Sequence[Any]]:
    """Yield the inputs in batches of `size`."""
    return (given[start : start + size] for start in range(0, len(given), size))
