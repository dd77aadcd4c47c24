"""Generation: prefill, then choose a token of each row and feed it back, until every row is finished.

Read it from `_loop`. `stream` is the same with its arguments checked; `generate` collects what `stream` yields.

Shapes: `B` rows under way, `V` vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypedDict, Unpack

import torch
from torch import Tensor

from suite.errors import ConfigError
from suite.model.transformer import Transformer
from suite.sampling.decoding import Decoding
from suite.sampling.rows import Row, choose, row_seed
from suite.sampling.rules import Grammar, Sampling
from suite.sampling.text import StopText, Streams

Finish = Literal["length", "stop"]
DEFAULT = Sampling()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One new token of one row.

    Args:
        row: index among all rows: the samples of prompt 0, then those of prompt 1, and so on.
        token: its id.
        text: what became certain with it; "" without a tokenizer. Text that may be the start of a stop string, or of
            an unfinished character, comes with a later step.
        logprob: natural logarithm of the token's probability under the model itself, the softmax over the whole
            vocabulary before any rule; None unless logprobs or top_logprobs asks for it.
        top: the likeliest tokens at this place with their log-probabilities, likewise before any rule.
        finish: set at the row's last step: "stop" at a stop token or stop string, "length" at max_new_tokens.
    """

    row: int
    token: int
    text: str = ""
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    finish: Finish | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Generated:
    """One finished continuation.

    Args:
        tokens: the new ids, without a stop token; with a stop string, up to the token that completed it.
        text: their text before the stop string; "" without a tokenizer.
        logprobs: of each token under the model itself, before any rule (nats); () unless logprobs or top_logprobs
            asks for them.
        top: per token, the likeliest tokens at its place with their log-probabilities; () unless asked for.
        finish: "stop" at a stop token or stop string, "length" at max_new_tokens.
    """

    tokens: tuple[int, ...]
    text: str
    logprobs: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...]
    finish: Finish


class Options(TypedDict, total=False):
    """Arguments that `generate` and `stream` share beside their own.

    Args:
        samples: continuations of each prompt, from one prefill (1).
        stop_tokens: ids that end a row (none).
        stop: strings that end a row, also across the borders of tokens; needs `tokenizer` (none).
        tokenizer: gives results their text (None: they have none).
        grammar: allows or forbids tokens, row by row (None: all are allowed).
        logprobs: whether to report the log-probability of each new token (False).
        top_logprobs: how many of the likeliest tokens to report at each place (0).
        prefill_chunk: tokens of a prompt that one pass reads at most; bounds memory, changes no result (512).
        compile: whether to compile the decoding step: about a minute for each new shape, for a process that lives long
            (False).
    """

    samples: int
    stop_tokens: Collection[int]
    stop: Sequence[str]
    tokenizer: Streams | None
    grammar: Grammar | None
    logprobs: bool
    top_logprobs: int
    prefill_chunk: int
    compile: bool


def generate(
    transformer: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int | Sequence[int],
    sampling: Sampling = DEFAULT,
    seed: int | Sequence[int] = 0,
    prefixes: Sequence[int] | None = None,
    **options: Unpack[Options],
) -> list[Generated]:
    """Continue each prompt; what a row says depends on its own prompt, seed and settings, not on its batch-mates.

    Past the context, a model slides, and one with learned positions restarts from its latest context // 2
    tokens (`suite.sampling.decoding.window_start`).

    Args:
        transformer: the model; in evaluation mode, if it has dropout.
        prompts: token ids, at least one each; lengths may differ.
        max_new_tokens: at which number of new tokens a row ends; one for all, or one for each prompt.
        sampling: how tokens are chosen.
        seed: of the first sample; one for all prompts, or one for each. The same prompt with the same seed gives the
            same tokens, wherever it stands.
        prefixes: per prompt, how many tokens at its start see each other both ways.
        options: see `Options`.

    Returns:
        all samples of the first prompt, then all of the second, and so on.

    Raises:
        SuiteError: a prompt that the model cannot read, or a place where rules and grammar allow no token.
        ConfigError: an argument out of its range.

    Example:
        >>> from suite.model import ModelConfig, Transformer
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> len(generate(Transformer(config), [[1, 2], [3]], max_new_tokens=5)[0].tokens)
        5
    """
    rows: list[list[Step]] = [[] for _ in range(len(prompts) * options.get("samples", 1))]
    for step in stream(
        transformer,
        prompts,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        seed=seed,
        prefixes=prefixes,
        **options,
    ):
        rows[step.row].append(step)
    return [collect(steps, options.get("stop_tokens", ())) for steps in rows]


def stream(
    transformer: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int | Sequence[int],
    sampling: Sampling = DEFAULT,
    seed: int | Sequence[int] = 0,
    prefixes: Sequence[int] | None = None,
    **options: Unpack[Options],
) -> Iterator[Step]:
    """The steps of `generate`, each as soon as it is taken: one of every row that is not finished, then the next.

    Arguments are those of `generate`, and are checked here and now; the model runs as the iterator is read.

    Example:
        >>> from suite.model import ModelConfig, Transformer
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> [step.row for step in stream(Transformer(config), [[1, 2], [3]], max_new_tokens=2)]
        [0, 1, 0, 1]
    """
    if unknown := sorted(options.keys() - Options.__annotations__.keys()):
        raise TypeError(f"generate and stream take no argument {unknown[0]!r}")
    samples, top_logprobs = options.get("samples", 1), options.get("top_logprobs", 0)
    stop, tokenizer = options.get("stop", ()), options.get("tokenizer")
    count, vocabulary = len(prompts), transformer.config.vocab_size
    limits = [max_new_tokens] * count if isinstance(max_new_tokens, int) else list(max_new_tokens)
    seeds = [seed] * count if isinstance(seed, int) else list(seed)
    stop = [stop] if isinstance(stop, str) else list(stop)
    if len(limits) != count or len(seeds) != count:
        raise ConfigError(f"{count} prompts came with {len(limits)} max_new_tokens and {len(seeds)} seeds")
    if min(limits, default=1) < 1 or samples < 1:
        raise ConfigError(f"max_new_tokens is {min(limits, default=1)} and samples {samples}; both must be at least 1")
    if stop and (tokenizer is None or "" in stop):
        raise ConfigError(f"stop strings need a tokenizer and must not be empty; they are {stop!r}")
    if not 0 <= top_logprobs <= vocabulary or max(sampling.logit_bias, default=0) >= vocabulary:
        raise ConfigError(f"top_logprobs and the ids of logit_bias must lie within the vocabulary of {vocabulary}")
    if not prompts:
        return iter(())
    decoding = Decoding(
        transformer,
        prompts,
        prefixes,
        max_new_tokens=max(limits),
        prefill_chunk=options.get("prefill_chunk", 512),
        compile=options.get("compile", False),
    )
    rows = [
        Row(
            index=number * samples + sample,
            limit=limits[number],
            seed=row_seed(seeds[number], sample),
            prompt=decoding.tokens[number],
            vocabulary=vocabulary,
            sampling=sampling,
            grammar=options.get("grammar"),
            text=StopText(tokenizer.stream(), stop) if tokenizer is not None else None,
        )
        for number in range(count)
        for sample in range(samples)
    ]
    stop_tokens = frozenset(options.get("stop_tokens", ()))
    return _loop(decoding, rows, samples, sampling, stop_tokens, options.get("logprobs", False), top_logprobs)


@torch.inference_mode()
def _loop(
    decoding: Decoding,
    rows: list[Row],
    samples: int,
    sampling: Sampling,
    stop_tokens: frozenset[int],
    logprobs: bool,
    top_logprobs: int,
) -> Iterator[Step]:
    logits = decoding.prefill()  # (prompts, V)
    if samples > 1:
        decoding.reorder([row.index // samples for row in rows])
        logits = logits.repeat_interleave(samples, dim=0)  # (B, V)
    while True:
        tokens = choose(logits, rows, sampling)
        scores = report(logits, tokens, logprobs, top_logprobs)
        going = []
        for place, (row, token, (logprob, top)) in enumerate(zip(rows, tokens, scores, strict=True)):
            text, finish = take(row, token, stop_tokens)
            yield Step(row=row.index, token=token, text=text, logprob=logprob, top=top, finish=finish)
            if finish is None:
                going.append(place)
        if not going:
            return
        if len(going) < len(rows):  # the rest runs faster without the finished rows
            decoding.reorder(going)
            rows, tokens = [rows[place] for place in going], [tokens[place] for place in going]
        logits = decoding.step(tokens)  # (B, V)


def take(row: Row, token: int, stop_tokens: frozenset[int]) -> tuple[str, Finish | None]:
    """Append a token to a row; returns the text that became certain, and how the row ended if it did."""
    row.push(token)
    if token in stop_tokens:
        return row.text.flush() if row.text is not None else "", "stop"
    text = row.text.push(token) if row.text is not None else ""
    if row.count == row.limit and row.text is not None and not row.text.stopped:
        text += row.text.flush()
    if row.text is not None and row.text.stopped:
        return text, "stop"
    return text, "length" if row.count == row.limit else None


def report(
    logits: Tensor, tokens: list[int], logprobs: bool, top_logprobs: int
) -> list[tuple[float | None, tuple[tuple[int, float], ...]]]:
    """Per row: the log-probability of its token and the likeliest tokens with theirs, as far as asked for."""
    if not logprobs and not top_logprobs:
        return [(None, ())] * len(tokens)
    scores = logits.log_softmax(dim=-1)  # (B, V)
    chosen: list[float] = scores.gather(1, torch.tensor(tokens, device=scores.device)[:, None])[:, 0].tolist()
    values, ids = scores.topk(top_logprobs, dim=-1)  # (B, top_logprobs)
    tops = [tuple(zip(*pair, strict=True)) for pair in zip(ids.tolist(), values.tolist(), strict=True)]
    return list(zip(chosen, tops, strict=True))


def collect(steps: Sequence[Step], stop_tokens: Collection[int]) -> Generated:
    """The continuation that all steps of one row make."""
    last = steps[-1]
    assert last.finish is not None
    kept = steps[:-1] if last.token in stop_tokens else steps
    return Generated(
        tokens=tuple(step.token for step in kept),
        text="".join(step.text for step in steps),
        logprobs=tuple(step.logprob for step in kept if step.logprob is not None),
        top=tuple(step.top for step in kept if step.top),
        finish=last.finish,
    )
