"""Time and memory of one long text, with full, local and compressed attention."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import torch

from suite.bench.options import AttentionOptions
from suite.bench.timing import peak_memory
from suite.errors import SuiteError
from suite.model import ModelConfig, Transformer

# windows and compression by layer; the last is "L-M-L-M" of Liu et al. 2018, with their block and stride
LAYERS: dict[str, dict[str, tuple[int, ...]]] = {
    "full": {},
    "local": {"windows": (256, 256, 256, 256)},
    "local, compressed": {"windows": (256, 0, 256, 0), "compress": (0, 3, 0, 3)},
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one text takes.

    Attributes:
        layers: "full", "local" or "local, compressed".
        work: "train" (a forward and a backward pass) or "prefill".
        length: of the text, in tokens.
        tokens_per_second: of one pass, the first of this length.
        peak_bytes: by how much the peak memory of the process grew.
    """

    layers: str
    work: str
    length: int
    tokens_per_second: float
    peak_bytes: int


def attention(options: AttentionOptions, *, say: Callable[[str], object] = lambda line: None) -> list[Cost]:
    """Costs of one text of each length, trained on or prefilled, with each kind of layers.

    The model has the shape of the embedded language model.

    Args:
        options: what to measure.
        say: called with a line for each case that is skipped.

    Raises:
        SuiteError: the memory was not enough for a case; the message names it.
    """
    costs = []
    for work in ("train", "prefill"):
        for layers in LAYERS:
            known: Cost | None = None
            for length in sorted(options.lengths):
                if known is not None:
                    expected = length**2 / known.length / known.tokens_per_second
                    if expected > options.limit:
                        say(f"{work}, {layers}, {length:,} tokens: skipped, it might take {expected:,.0f} s")
                        continue
                # in a process of its own, since its peak would hide the lower peaks of later cases
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    try:
                        known = pool.submit(cost, layers, work, length, options.threads).result()
                    except BrokenProcessPool as error:
                        raise SuiteError(
                            f"{work}, {layers}, {length:,} tokens: the process died, perhaps out of memory; "
                            "leave out the longest texts"
                        ) from error
                costs.append(known)
    return costs


def cost(layers: str, work: str, length: int, threads: int) -> Cost:
    """The cost of one case of `attention`, measured in this process."""
    from suite.sampling.decoding import Decoding
    from suite.training.loss import cross_entropy

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Transformer(
        ModelConfig(
            vocab_size=8192,
            context=length + 1,
            d_model=320,
            n_layer=4,
            n_head=5,
            position="rotary",
            activation="relu2",
            bias=False,
            **LAYERS[layers],  # type: ignore[arg-type]
        )
    )

    def run(length: int) -> None:
        tokens = torch.randint(8192, (1, length + 1))
        if work == "train":
            hidden = model.hidden(tokens[:, :-1]).flatten(0, 1)  # (T, D)
            cross_entropy(hidden, model.head.weight, tokens[0, 1:]).backward()  # type: ignore[no-untyped-call]
        else:
            with torch.inference_mode():
                Decoding(model, tokens[:, :-1].tolist(), None, max_new_tokens=1, prefill_chunk=512).prefill()

    run(16)  # leaves out what is loaded once, and the gradients of the weights
    before = peak_memory()
    start = time.perf_counter()
    run(length)
    speed = length / (time.perf_counter() - start)
    return Cost(layers=layers, work=work, length=length, tokens_per_second=speed, peak_bytes=peak_memory() - before)
