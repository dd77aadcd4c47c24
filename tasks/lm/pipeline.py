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
from suite.text.tokenizer import Tokenizer

# GPT-2's published samples were drawn with top-k 40; a little below temperature 1 suits small models
DEFAULT = Sampling(temperature=0.8, top_k=40)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """One continuation.

    Attributes:
        prompt: what it continues.
        text: the continuation alone.
        tokens: its ids.
        logprobs: of each token under the model itself, before temperature and the like, in nats.
        top: per token, the likeliest tokens at its place as (id, log-probability); empty unless asked for.
        finish: "stop" at `<eos>` or a stop string, "length" at max_new_tokens.
        score: of beam search, else None.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...] = ()
    finish: str = "length"
    score: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NextTokens:
    """The likeliest next tokens.

    Attributes:
        tokens: (id, text as `Tokenizer.token_text` shows it, probability), likeliest first. The probabilities are of
            the softmax over the whole vocabulary; they are not scaled to sum to one.
        rest: probability of all other tokens together.
    """

    tokens: tuple[tuple[int, str, float], ...]
    rest: float


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
        >>> [result] = pipeline("lm", temperature=0)("The planet earth", max_new_tokens=5)
        >>> len(result.tokens), len(result.logprobs)
        (5, 5)
    """

    def __init__(self, model: Model, **settings: Any) -> None:
        if model.tokenizer is None:
            raise DataError(f"{model.name} has no tokenizer, so it cannot continue text")
        self.model = model
        self.tokenizer: Tokenizer = model.tokenizer
        self.sampling = with_settings(DEFAULT, settings)

    def __call__(
        self,
        prompts: str | Sequence[str],
        *,
        max_new_tokens: int = 40,
        samples: int = 1,
        seed: int = 0,
        stop: Sequence[str] = (),
        beams: int = 0,
        top_logprobs: int = 0,
        **settings: Any,
    ) -> list[Text]:
        """Continue each prompt.

        Args:
            prompts: one, or several; an empty one starts a new text, from `<eos>`.
            max_new_tokens: the longest continuation.
            samples: continuations of each prompt (with beams: the best so many).
            seed: the same prompt, seed and settings give the same text, whatever else is in the batch.
            stop: strings that end a continuation, and are not part of it.
            beams: above 0, search for the likeliest continuation instead of sampling.
            top_logprobs: how many of the likeliest tokens to report at each place.
            settings: fields of `suite.Sampling` for this call alone.

        Returns:
            all continuations of the first prompt, then all of the second, and so on.

        Raises:
            ConfigError: a setting is unknown, out of its range, or means nothing to beam search.
        """
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        ids = [self.encode(text) for text in texts]
        if beams:
            if stop or top_logprobs or settings:
                raise ConfigError(
                    "beam search finds the most likely text: stop, top_logprobs and sampling do not apply"
                )
            return self._search(texts, ids, max_new_tokens, samples, beams)
        found = generate(
            self.model.transformer,
            ids,
            max_new_tokens=max_new_tokens,
            sampling=self._sampling(settings),
            samples=samples,
            seed=seed,
            stop_tokens=self.stop_tokens,
            stop=stop,
            tokenizer=self.tokenizer,
            logprobs=True,
            top_logprobs=top_logprobs,
        )
        return [
            Text(
                prompt=texts[place // samples],
                text=one.text,
                tokens=one.tokens,
                logprobs=one.logprobs,
                top=one.top,
                finish=one.finish,
            )
            for place, one in enumerate(found)
        ]

    def stream(
        self,
        prompts: str | Sequence[str],
        *,
        max_new_tokens: int = 40,
        seed: int = 0,
        stop: Sequence[str] = (),
        **settings: Any,
    ) -> Iterator[Step]:
        """The same tokens as a call gives, each as soon as it is there; `Step.text` is what can be shown with it."""
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
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

    def next(self, prompt: str, k: int = 10) -> NextTokens:
        """The `k` likeliest tokens after `prompt`, with their true probabilities."""
        size = self.model.config.vocab_size
        if not 1 <= k <= size:
            raise ConfigError(f"k is {k}, but must be between 1 and the vocabulary's {size}")
        # what scrolled out of the context does not count, as in generation
        ids = torch.tensor([self.encode(prompt)[-self.model.config.context :]])
        transformer = self.model.transformer
        with torch.inference_mode():
            hidden = transformer.hidden(ids.to(next(transformer.parameters()).device))  # (1, T, D)
            probabilities = exact(transformer.logits(hidden[0, -1])).double().softmax(dim=-1)  # (V,)
        values, tokens = probabilities.topk(k)
        likeliest = tuple(
            (token, self.tokenizer.token_text(token), value)
            for token, value in zip(tokens.tolist(), values.tolist(), strict=True)
        )
        return NextTokens(tokens=likeliest, rest=max(0.0, 1.0 - float(values.sum())))

    def encode(self, prompt: str) -> list[int]:
        """The tokens a prompt stands for: its own, or `<eos>` where it has none, which is where texts start.

        A prompt is not put behind `<eos>`: it may come from the middle of a text, and GPT-2 is used so everywhere.
        """
        ids = self.tokenizer.encode(prompt)
        if ids:
            return ids
        if self.tokenizer.eos is None:
            raise DataError("this model has no <eos> to start a text from; give a prompt that is not empty")
        return [self.tokenizer.eos]

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """What ends a text."""
        return () if self.tokenizer.eos is None else (self.tokenizer.eos,)

    def _sampling(self, settings: dict[str, Any]) -> Sampling:
        """The settings of one call; ids that only pad a vocabulary to a round size are never drawn."""
        sampling = with_settings(self.sampling, settings)
        padding = range(self.tokenizer.vocab_size, self.model.config.vocab_size)
        if not padding:  # nearly always, and then the fast paths without any bias stay open
            return sampling
        return dataclasses.replace(sampling, logit_bias={**sampling.logit_bias, **dict.fromkeys(padding, -math.inf)})

    def _search(
        self, texts: list[str], ids: list[list[int]], max_new_tokens: int, n_best: int, beams: int
    ) -> list[Text]:
        found = beam_search(
            self.model.transformer,
            ids,
            beams=beams,
            n_best=n_best,
            max_new_tokens=max_new_tokens,
            stop_tokens=self.stop_tokens,
        )
        return [
            Text(
                prompt=prompt,
                text=self.tokenizer.decode(one.tokens),
                tokens=one.tokens,
                logprobs=(),
                finish=one.finish,
                score=one.score,
            )
            for prompt, hypotheses in zip(texts, found, strict=True)
            for one in hypotheses
        ]
