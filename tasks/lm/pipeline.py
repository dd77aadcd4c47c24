"""`pipeline("lm")`: prompts in, continuations out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from suite.checkpoint import Model
from suite.errors import ConfigError, DataError
from suite.sampling import Sampling, Step, beam_search, generate, stream, with_settings
from suite.sampling.rules import exact
from suite.task.kit.pipeline import batches
from suite.task.results import Result, alike, several
from suite.task.tables import NoOptions, read_extra
from suite.text.tokenizer import Tokenizer

# GPT-2's published samples were drawn with top-k 40; a little below temperature 1 suits small models
DEFAULT = Sampling(temperature=0.8, top_k=40)
ROWS = 64  # continuations at a time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text(Result):
    """One continuation.

    Attributes:
        prompt: the text that it continues.
        text: the continuation without the prompt.
        tokens: ids of its tokens.
        logprobs: log-probability of each token under the model in nats, before temperature and sampling rules.
        top: for each position, the most likely tokens as (id, log-probability); empty unless requested.
        finish: "stop" at `<eos>` or a stop string, "length" at max_new_tokens.
        score: score from beam search, else None.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...] = ()
    finish: str = "length"
    score: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NextToken:
    """A token that may come next.

    Attributes:
        id: its id in the vocabulary.
        text: as `Tokenizer.token_text` shows it.
        probability: of the softmax over the whole vocabulary.
    """

    id: int
    text: str
    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class NextTokens(Result):
    """The most likely next tokens; it prints as the most likely.

    Attributes:
        prompt: the text before them.
        prompt_tokens: length of the prompt in tokens.
        next: the tokens, most likely first. Their probabilities are not scaled to sum to 1.
        rest: total probability of all other tokens.
        others: number of other tokens.
    """

    prompt: str
    prompt_tokens: int
    next: tuple[NextToken, ...]
    rest: float
    others: int

    @property
    def text(self) -> str:  # type: ignore[override]
        """The most likely token."""
        return self.next[0].text


class Writer:
    """Continues texts.

    Args:
        model: with a tokenizer.
        settings: fields of `suite.Sampling`; those not given are temperature 0.8 and top_k 40.

    Raises:
        DataError: the model has no tokenizer.
        ConfigError: a setting is unknown or out of its range.

    Example:
        >>> from suite import pipeline
        >>> result = pipeline("lm", temperature=0)("The planet earth", max_new_tokens=5)
        >>> len(result.tokens), len(result.logprobs)
        (5, 5)
    """

    def __init__(self, model: Model, **settings: Any) -> None:
        if model.tokenizer is None:
            raise DataError(f"{model.name} has no tokenizer, so it cannot continue text")
        if model.task == "lm":  # the settings of another task are its own
            read_extra(NoOptions, model.extra, model.config_file)
        self.model = model
        self.tokenizer: Tokenizer = model.tokenizer
        self.sampling = with_settings(DEFAULT, {**model.generation.settings, **settings})

    def __call__(
        self,
        prompts: Any,
        *,
        max_new_tokens: int = 40,
        samples: int = 1,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        beams: int = 0,
        top_logprobs: int = 0,
        **settings: Any,
    ) -> Any:
        """Continue each prompt.

        Args:
            prompts: a prompt, or a list, tuple, generator or array of prompts; an empty prompt starts a new text.
            max_new_tokens: the longest continuation.
            samples: continuations of each prompt (with beams: the best ones).
            seed: the same prompt, seed and settings give the same text, whatever else is in the batch.
            stop: strings that end a continuation, and are not part of it.
            beams: above 0, search for the most likely continuation instead of sampling.
            top_logprobs: how many of the most likely tokens to report at each place.
            settings: fields of `suite.Sampling` for this call alone.

        Returns:
            a `Text` for a single prompt, a list for several; with more than one sample, a list of `Text` per prompt.

        Raises:
            DataError: a prompt is not text.
            ConfigError: a setting is unknown, out of its range, or means nothing to beam search.
        """
        texts, many = several(prompts, what="prompt")
        if beams and (stop or top_logprobs or settings):
            raise ConfigError("beam search finds the most likely text: stop, top_logprobs and sampling do not apply")
        sampling = self._sampling(settings)
        found: list[list[Text]] = []
        for batch in batches(texts, max(1, ROWS // max(1, samples, beams))):
            if beams:
                found += self._search(batch, max_new_tokens, samples, beams)
            else:
                found += self._sample(batch, max_new_tokens, samples, seed, stop, top_logprobs, sampling)
        return alike(found if samples > 1 else [one for [one] in found], many)

    def stream(
        self,
        prompts: Any,
        *,
        max_new_tokens: int = 40,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        **settings: Any,
    ) -> Iterator[Step]:
        """Yield the tokens of a call as they are sampled; `Step.text` is the text that can be shown so far."""
        texts, _ = several(prompts, what="prompt")
        return stream(
            self.model.transformer,
            [self.encode(text) for text in texts],
            max_new_tokens=max_new_tokens,
            sampling=self._sampling(settings),
            seed=seed,
            stop_tokens=self.stop_tokens,
            stop=stop,
            tokenizer=self.tokenizer,
        )

    def next(self, prompts: Any, k: int = 10) -> Any:
        """The `k` most likely tokens after a prompt, with their true probabilities.

        Returns:
            `NextTokens` for one prompt, and a list of them for several.

        Raises:
            DataError: a prompt is not text.
            ConfigError: `k` is larger than the vocabulary.
        """
        size = self.model.config.vocab_size
        if not 1 <= k <= size:
            raise ConfigError(f"k is {k}, but must be between 1 and the vocabulary's {size}")
        texts, many = several(prompts, what="prompt")
        return alike([self._next(text, k) for text in texts], many)

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a prompt; an empty prompt becomes `<eos>`, which starts a text.

        Other prompts get no `<eos>` in front: they may come from the middle of a text, as is usual with GPT-2. What a
        model's tokenizer puts in front of every text, such as Llama's `<s>`, comes first.
        """
        ids = [*self.tokenizer.opening, *self.tokenizer.encode(prompt)]
        if ids:
            return ids
        if self.tokenizer.eos is None:
            raise DataError("this model has no <eos> to start a text from; give a prompt that is not empty")
        return [self.tokenizer.eos]

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """Ids of the tokens that end a text."""
        ends = [] if self.tokenizer.eos is None else [self.tokenizer.eos]
        return tuple(dict.fromkeys([*ends, *self.model.generation.stop]))

    def _sampling(self, settings: dict[str, Any]) -> Sampling:
        """The settings of one call; ids that only pad the vocabulary to a round size are never sampled."""
        sampling = with_settings(self.sampling, settings)
        padding = range(self.tokenizer.vocab_size, self.model.config.vocab_size)
        if not padding:  # the usual case: without a bias, sampling can take its fast paths
            return sampling
        return dataclasses.replace(sampling, logit_bias={**sampling.logit_bias, **dict.fromkeys(padding, -math.inf)})

    def _sample(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        samples: int,
        seed: int,
        stop: str | Sequence[str],
        top_logprobs: int,
        sampling: Sampling,
    ) -> list[list[Text]]:
        """The samples of each prompt."""
        found = generate(
            self.model.transformer,
            [self.encode(prompt) for prompt in prompts],
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            samples=samples,
            seed=seed,
            stop_tokens=self.stop_tokens,
            stop=stop,
            tokenizer=self.tokenizer,
            logprobs=True,
            top_logprobs=top_logprobs,
        )
        return [
            [
                Text(
                    prompt=prompt,
                    text=one.text,
                    tokens=one.tokens,
                    logprobs=one.logprobs,
                    top=one.top,
                    finish=one.finish,
                )
                for one in found[place * samples : (place + 1) * samples]
            ]
            for place, prompt in enumerate(prompts)
        ]

    def _search(self, prompts: Sequence[str], max_new_tokens: int, n_best: int, beams: int) -> list[list[Text]]:
        """The best continuations of each prompt that beam search finds."""
        found = beam_search(
            self.model.transformer,
            [self.encode(prompt) for prompt in prompts],
            beams=beams,
            n_best=n_best,
            max_new_tokens=max_new_tokens,
            stop_tokens=self.stop_tokens,
        )
        return [
            [
                Text(
                    prompt=prompt,
                    text=self.tokenizer.decode(one.tokens, continues=bool(prompt)),
                    tokens=one.tokens,
                    logprobs=(),
                    finish=one.finish,
                    score=one.score,
                )
                for one in hypotheses
            ]
            for prompt, hypotheses in zip(prompts, found, strict=True)
        ]

    def _next(self, prompt: str, k: int) -> NextTokens:
        given = self.encode(prompt)
        # only the last `context` tokens count, as in generation
        ids = torch.tensor([given[-self.model.config.context :]])
        transformer = self.model.transformer
        with torch.inference_mode():
            hidden = transformer.hidden(ids.to(next(transformer.parameters()).device))  # (1, T, D)
            probabilities = exact(transformer.logits(hidden[0, -1])).double().softmax(dim=-1)  # (V,)
        values, tokens = probabilities.topk(k)
        return NextTokens(
            prompt=prompt,
            prompt_tokens=len(given),
            next=tuple(
                NextToken(id=token, text=self.tokenizer.token_text(token), probability=value)
                for token, value in zip(tokens.tolist(), values.tolist(), strict=True)
            ),
            rest=max(0.0, 1.0 - float(values.sum())),
            others=len(probabilities) - k,
        )
