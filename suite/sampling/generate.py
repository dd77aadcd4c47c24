"""Generation: prefill, then choose a token for each row and feed it back, until every row is finished.

Start reading at `_loop`. `stream` checks the arguments and runs it; `generate` collects the steps of `stream`.

Shapes: `B` unfinished rows, `V` vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypedDict, Unpack

import torch
from torch import Tensor

from suite.errors import ConfigError, require_numbers
from suite.model.transformer import Transformer
from suite.sampling.decoding import Decoding
from suite.sampling.rows import Row, choose, origin_of, row_seed
from suite.sampling.rules import Grammar, Sampling
from suite.sampling.text import StopText, Streams

Finish = Literal["length", "stop"]
DEFAULT = Sampling()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One new token of one row, as `stream` yields it.

    Args:
        row: index among all rows: the samples of prompt 0, then those of prompt 1, and so on.
        token: its id.
        text: new text that this token makes final; "" without a tokenizer. Text that may be the start of a stop
            string, or of an unfinished character, comes with a later step.
        logprob: natural logarithm of the token's probability under the model itself, the softmax over the whole
            vocabulary before any rule; None unless logprobs or top_logprobs asks for it.
        top: (id, log-probability) of the likeliest tokens at this position, also before any rule.
        finish: None before the row's last step, which has "stop" at a stop token or stop string, "length" at
            max_new_tokens.
    """

    row: int
    token: int
    text: str = ""
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    finish: Finish | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Generated:
    """A finished continuation.

    Args:
        tokens: the new ids, without the stop token; with a stop string, up to the token that completed it.
        text: their text before the stop string; "" without a tokenizer.
        logprobs: log-probability (nats) of each token under the model itself, before any rule; () unless logprobs
            or top_logprobs asks for them.
        top: for each position, (id, log-probability) of the likeliest tokens; () unless top_logprobs asks for them.
        finish: "stop" at a stop token or stop string, "length" at max_new_tokens.
    """

    tokens: tuple[int, ...]
    text: str
    logprobs: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...]
    finish: Finish


class Options(TypedDict, total=False):
    """Further keyword arguments of both `generate` and `stream`; the default is in parentheses.

    Args:
        samples: number of continuations of each prompt, all from one prefill (1).
        stop_tokens: ids that end a row (none).
        stop: strings that end a row, even where they span several tokens; needs `tokenizer` (none).
        tokenizer: decodes the text of the results (None: the text is "").
        grammar: allows or forbids tokens for each row (None: all are allowed).
        logprobs: whether to report the log-probability of each new token (False).
        top_logprobs: number of likeliest tokens to report at each position (0).
        prefill_chunk: maximum number of tokens of a prompt read in a forward pass; bounds memory and changes no
            result (512).
        compile: whether to compile the decoding step, which takes about a minute for each new shape and pays off in a
            long-running process (False).
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
    """Continue each prompt; a row depends on its own prompt, seed and settings, not on the other rows of the batch.

    Past the context, a model's window slides; a model with learned positions restarts from its latest context // 2
    tokens (`suite.sampling.decoding.window_start`).

    Args:
        transformer: the model; must be in evaluation mode if it has dropout.
        prompts: token ids, at least one for each prompt; lengths may differ.
        max_new_tokens: maximum number of new tokens; a number for all prompts, or a list with a number for each.
        sampling: how tokens are chosen.
        seed: seed of the first sample; a number for all prompts, or a list with a number for each. The same prompt
            with the same seed gives the same tokens, whatever its position in the batch.
        prefixes: per prompt, the number of leading tokens that attend to each other in both directions.
        options: see `Options`.

    Returns:
        all samples of the first prompt, then all of the second, and so on.

    Raises:
        SuiteError: the model cannot read a prompt, or rules and grammar allow no token at a position.
        ConfigError: an argument is out of range.

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
    """Yield the steps of `generate` as they are taken: a step of each unfinished row, then the next step of each.

    The arguments are those of `generate` and are checked by this call; the model runs as the iterator is read.

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
    for limit in limits:
        require_numbers(max_new_tokens=limit)
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
        tokens = choose(logits, rows, sampling, origin_of(decoding.transformer))
        scores = report(logits, tokens, logprobs, top_logprobs)
        going = []
        for place, (row, token, (logprob, top)) in enumerate(zip(rows, tokens, scores, strict=True)):
            text, finish = take(row, token, stop_tokens)
            yield Step(row=row.index, token=token, text=text, logprob=logprob, top=top, finish=finish)
            if finish is None:
                going.append(place)
        if not going:
            return
        if len(going) < len(rows):  # the other rows run faster without the finished rows
            decoding.reorder(going)
            rows, tokens = [rows[place] for place in going], [tokens[place] for place in going]
        logits = decoding.step(tokens)  # (B, V)


def take(row: Row, token: int, stop_tokens: frozenset[int]) -> tuple[str, Finish | None]:
    """Append a token to a row; returns the text that is now final, and why the row finished (None: it did not)."""
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
    """For each row, the log-probability of its token, and (id, log-probability) of the likeliest tokens.

    They are None and () unless logprobs or top_logprobs asks for them.
    """
    if not logprobs and not top_logprobs:
        return [(None, ())] * len(tokens)
    scores = logits.log_softmax(dim=-1)  # (B, V)
    chosen: list[float] = scores.gather(1, torch.tensor(tokens, device=scores.device)[:, None])[:, 0].tolist()
    values, ids = scores.topk(top_logprobs, dim=-1)  # (B, top_logprobs)
    tops = [tuple(zip(*pair, strict=True)) for pair in zip(ids.tolist(), values.tolist(), strict=True)]
    return list(zip(chosen, tops, strict=True))


def collect(steps: Sequence[Step], stop_tokens: Collection[int]) -> Generated:
    """Combine all steps of a row into a `Generated`."""
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
