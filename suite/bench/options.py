"""What can be chosen in each benchmark: options of `suite bench`, and arguments of the functions in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from suite.cli.settings import setting


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """What `decode` measures.

    Attributes:
        size: of GPT-2.
        prompt, new: length of the prompt and of what is decoded after it, in tokens.
        batches: numbers of prompts decoded at once.
        weights: types of the weights.
        compile: whether to measure the compiled float32 step too.
        repeats: turns of each system that count.
        threads: that torch uses.
        baseline: whether to measure `transformers` too.
    """

    size: Literal["124M", "355M", "774M", "1558M"] = setting("124M", "Number of parameters of the GPT-2 model.")
    prompt: int = setting(64, "Length of the prompt in tokens.", min=1, metavar="N")
    new: int = setting(128, "Number of tokens to decode.", min=1, metavar="N")
    batches: tuple[int, ...] = setting(
        (1, 8),
        "Prompts decoded at once; may be given several times.",
        flags=("--batch",),
        min=1,
        metavar="N",
        shown="1 and 8",
    )
    weights: tuple[Literal["float32", "float16", "int8"], ...] = setting(
        ("float32", "float16", "int8"), "Type of the weights; may be given several times.", shown="all three"
    )
    compile: bool = setting(False, "Also measure the compiled step; compiling takes about a minute.")
    repeats: int = setting(3, "Number of runs; the fastest counts.", min=1, metavar="N")
    threads: int = setting(2, "CPU threads to use.", min=1, metavar="N")
    baseline: bool = setting(True, "Also measure transformers.", flags=("--baseline/--no-baseline",), shown="yes")


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What `train` measures.

    Attributes:
        batch, length: sequences in a step, and tokens in a sequence.
        n_layer, d_model, n_head, vocab_size: of the model.
        device: name of the device.
        precisions: of the products; empty for float32, and bfloat16 where the device has instructions for it.
        repeats: steps of each system that count, at most.
        limit: seconds for all steps; slow systems take fewer steps than `repeats`, but at least one.
        threads: that torch uses on a CPU.
        baseline: whether to measure `transformers` too, in the plain loop that everybody writes.
    """

    batch: int = setting(16, "Sequences in a step.", min=1, metavar="N")
    length: int = setting(256, "Tokens in a sequence.", min=1, metavar="N")
    n_layer: int = setting(6, "Number of layers.", flags=("--layers",), min=1, metavar="N")
    d_model: int = setting(384, "Width of the model, a multiple of --heads.", flags=("--width",), min=1, metavar="N")
    n_head: int = setting(6, "Number of attention heads.", flags=("--heads",), min=1, metavar="N")
    vocab_size: int = setting(8192, "Size of the vocabulary.", flags=("--vocabulary",), min=1, metavar="N")
    device: str = setting("cpu", "Device to train on: cpu, cuda, cuda:1 or mps.", metavar="NAME")
    precisions: tuple[Literal["float32", "bfloat16"], ...] = setting(
        (),
        "Precision to train in.",
        flags=("--precision",),
        shown="float32, and bfloat16 if the device has instructions for it",
    )
    repeats: int = setting(5, "Number of steps to time; the fastest counts.", min=1, metavar="N")
    limit: float = setting(
        150.0,
        "Time fewer steps than --repeats if all would take longer than this.",
        min=0,
        metavar="SECONDS",
        shown="150",
    )
    threads: int = setting(2, "CPU threads to use.", min=1, metavar="N")
    baseline: bool = setting(True, "Also measure transformers.", flags=("--baseline/--no-baseline",), shown="yes")


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """How `recipes` measures.

    Attributes:
        steps: that count, after one that does not.
        muon: types of Muon's Newton-Schulz iteration, which take turns; empty for the run's precision.
        precision: of the products in the model.
        limit: seconds for the steps of a recipe; after them no turn begins, but at least one counts.
        threads: that torch uses.
    """

    steps: int = setting(3, "Number of steps to time.", min=1, metavar="N")
    muon: tuple[Literal["float32", "bfloat16"], ...] = setting(
        (), "Type of Muon's iteration; several take turns.", shown="the run's precision"
    )
    precision: Literal["auto", "float32", "bfloat16"] = setting("auto", "Precision to train in.")
    limit: float = setting(
        30.0, "Begin no further turn of a recipe after this time.", min=0, metavar="SECONDS", shown="30"
    )
    threads: int = setting(2, "CPU threads to use.", min=1, metavar="N")


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """What `attention` measures.

    Attributes:
        lengths: of the texts, in tokens.
        limit: seconds; a case is skipped if it would take longer, judged by the square of its length and the longest
            case before it.
        threads: that torch uses.
    """

    lengths: tuple[int, ...] = setting(
        (1024, 4096, 11264, 32768),
        "Length of a text in tokens; may be given several times.",
        min=1,
        metavar="N",
        shown="1024, 4096, 11264 and 32768",
    )
    limit: float = setting(100.0, "Skip measurements that might take longer.", min=0, metavar="SECONDS", shown="100")
    threads: int = setting(2, "CPU threads to use.", min=1, metavar="N")
