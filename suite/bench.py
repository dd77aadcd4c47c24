"""Speed, beside `transformers` doing the same work in the same run; and what long texts cost.

Machines drift, so the systems take turns and each figure is the best of its turns; compare ratios, not tokens/s.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suite.errors import ConfigError, SuiteError
from suite.model import ModelConfig, Transformer
from suite.task import find_task, suggest

BASELINE = "transformers float32"
# which layers see how far, in `attention`; the last is "L-M-L-M" of Liu et al. 2018, with their block and stride
LAYERS: dict[str, dict[str, tuple[int, ...]]] = {
    "full": {},
    "local": {"windows": (256, 256, 256, 256)},
    "local, compressed": {"windows": (256, 0, 256, 0), "compress": (0, 3, 0, 3)},
}

# what `recipes` trains each task on: a file among data/samples ("" for random music), and settings of the recipe
SAMPLES: dict[str, tuple[str, ...]] = {
    "lm": ("articles.jsonl.gz",),
    "classify": ("banking.csv",),
    "music": ("", "data.held_out=0.5"),
    "translate": ("tatoeba-en-de.tsv.gz", "data.source=en", "data.target=de"),
    "summarize": ("articles.jsonl.gz",),
}


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One system's figure.

    Attributes:
        system: what ran, and in which type.
        batch: rows at a time.
        tokens_per_second: of each row for decoding, of all together for training.
        ratio: to the baseline at the same batch; None where the baseline was left out.
        bandwidth_share: of the measured memory bandwidth that reading each weight once a step comes to; decoding alone.
        agrees: of decoding, how many of the new tokens are the baseline's.
    """

    system: str
    batch: int
    tokens_per_second: float
    ratio: float | None = None
    bandwidth_share: float | None = None
    agrees: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecipeSpeed:
    """What a default recipe's training does here.

    Attributes:
        recipe: the file, as "lm/small.toml".
        precision: of the products in the model.
        muon: of Muon's Newton-Schulz iteration; "" where the recipe does without.
        tokens_per_second: real tokens, in the best of the steps that count.
        seconds: that this step took.
        tokens_per_cpu_second: in this step, by the processor time of all threads, which other work on the machine
            changes less.
        steps: that count.
    """

    recipe: str
    precision: str
    muon: str
    tokens_per_second: float
    seconds: float
    tokens_per_cpu_second: float
    steps: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one text takes.

    Attributes:
        layers: "full", "local" or "local, compressed".
        work: "train" (a forward and a backward pass) or "prefill".
        length: tokens of the text.
        tokens_per_second: of one pass, with nothing of its size done before.
        peak_bytes: by how much the process grew at most.
    """

    layers: str
    work: str
    length: int
    tokens_per_second: float
    peak_bytes: int


def memory_bandwidth() -> float:
    """Bytes a second that summing a large tensor reads, best of several, on the threads torch has."""
    block = torch.ones(64 * 1024 * 1024)  # 256 MiB: larger than caches, or at least than a fair share of one
    return block.nbytes / best_times({"sum": lambda: block.sum()}, 8)["sum"]


def best_times(
    systems: dict[str, Callable[[], object]],
    repeats: int,
    limit: float = float("inf"),
    say: Callable[[str, float], object] = lambda name, seconds: None,
) -> dict[str, float]:
    """Seconds of each system's best turn; they run in turn, after one turn that does not count.

    Args:
        systems: by name.
        repeats: turns of each that count.
        limit: seconds in all; a turn that would take longer is left out. Where none is left, the first one counts.
        say: takes a system and the seconds of its first turn, as soon as they are known.
    """
    began = time.perf_counter()
    first: dict[str, float] = {}
    best: dict[str, float] = {}
    for turn in range(repeats + 1):
        if turn and time.perf_counter() - began + sum(first.values()) > limit:
            break
        for name, run in systems.items():
            start = time.perf_counter()
            run()
            taken = time.perf_counter() - start
            if turn:
                best[name] = min(best.get(name, taken), taken)
            else:
                first[name] = taken
                say(name, taken)
    return first | best


def decode(
    *,
    size: str = "124M",
    prompt: int = 64,
    new: int = 128,
    batches: Sequence[int] = (1, 8),
    weights: Sequence[str] = ("float32", "float16", "int8"),
    compile: bool = False,
    baseline: bool = True,
    threads: int = 2,
    repeats: int = 3,
    say: Callable[[str], object] = lambda line: None,
) -> list[Speed]:
    """Greedy decoding of GPT-2 with random weights on the CPU; a prompt's prefill counts.

    Args:
        size: of GPT-2.
        prompt, new: tokens.
        batches: rows at a time.
        weights: types of the weights.
        compile: whether to add the float32 step compiled.
        baseline: whether to run `transformers` too.
        threads: of the products.
        repeats: turns of each system.
        say: takes the measured memory bandwidth, as a line.
    """
    from suite.model.quantize import prepare_for_inference
    from suite.sampling import Sampling, generate

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    config = ModelConfig.gpt2(size)
    model = Transformer(config).eval()
    with torch.no_grad():  # initial weights barely tell tokens apart; this makes the greedy choice a clear one
        for parameter in model.parameters():
            parameter.mul_(2)
    reference = as_transformers(model) if baseline else None
    bandwidth = memory_bandwidth()
    say(f"memory bandwidth: {bandwidth / 1e9:.1f} GB/s on {threads} threads")
    variants: dict[str, tuple[Transformer, bool]] = {}
    for kind in weights:
        variants[f"suite {kind}"] = (prepare_for_inference(_copy(model), kind), False)
        if kind == "float32" and compile:
            variants["suite float32 compiled"] = (variants["suite float32"][0], True)
    speeds = []
    for batch in batches:
        ids = np.random.default_rng(0).integers(0, config.vocab_size, (batch, prompt)).tolist()
        found: dict[str, Any] = {}

        def ours(name: str, ids: list[list[int]] = ids, found: dict[str, Any] = found) -> None:
            transformer, compiled = variants[name]
            rows = generate(transformer, ids, max_new_tokens=new, sampling=Sampling(temperature=0), compile=compiled)
            found[name] = [list(row.tokens) for row in rows]

        def theirs(ids: list[list[int]] = ids, found: dict[str, Any] = found) -> None:
            found[BASELINE] = reference(torch.tensor(ids), new).tolist() if reference else []

        systems: dict[str, Callable[[], object]] = {BASELINE: theirs} if reference else {}
        systems |= {name: lambda name=name: ours(name) for name in variants}  # type: ignore[misc]
        seconds = best_times(systems, repeats)
        for name, taken in seconds.items():
            speed = new / taken
            agrees = None
            if reference and name != BASELINE:
                pairs = zip(found[name], found[BASELINE], strict=True)
                agrees = sum(a == b for mine, his in pairs for a, b in zip(mine, his, strict=True))
            speeds.append(
                Speed(
                    system=name,
                    batch=batch,
                    tokens_per_second=speed,
                    ratio=seconds[BASELINE] / taken if reference else None,
                    bandwidth_share=_bytes_read(config, name) * speed / bandwidth,
                    agrees=agrees,
                )
            )
    return speeds


def _copy(model: Transformer) -> Transformer:
    """A model of its own memory, since preparing one for inference consumes it."""
    twin = Transformer(model.config).eval()
    twin.load_state_dict(model.state_dict())
    return twin


def _bytes_read(config: ModelConfig, system: str) -> float:
    """Bytes of the weights that a step of this system must read: all of them but the embeddings looked up."""
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in Transformer(config).parameters())
    if config.position == "learned":
        count -= config.context * config.d_model
    return count * (2 if "16" in system else 1 if "int8" in system else 4)


def as_transformers(model: Transformer) -> Callable[[Tensor, int], Tensor]:
    """The same model in `transformers`: a function from ids (B, T) and a number to so many new ids (B, new)."""
    try:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging as their_logging
    except ImportError as error:
        raise ConfigError("the baseline needs transformers: pip install 'decoder-suite[baselines]'") from error
    from suite.checkpoint import Model
    from suite.checkpoint.gpt2 import export

    logging: Any = their_logging
    logging.disable_progress_bar()  # it would stand between the lines of our table
    with tempfile.TemporaryDirectory() as folder:
        bare = Model(transformer=model, tokenizer=None, task="lm", name="benchmark", directory=Path(folder))
        export(bare, Path(folder))
        other: Any = AutoModelForCausalLM.from_pretrained(folder)
        other.eval()

    def run(ids: Tensor, new: int) -> Tensor:
        with torch.inference_mode():
            out = other.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False
            )
        return out[:, ids.shape[1] :]  # type: ignore[no-any-return]

    return run


def train(
    *,
    n_layer: int = 6,
    d_model: int = 384,
    n_head: int = 6,
    vocab_size: int = 8192,
    batch: int = 16,
    length: int = 256,
    precisions: Sequence[str] = (),
    baseline: bool = True,
    threads: int = 2,
    repeats: int = 5,
    limit: float = 150.0,
    device: str = "cpu",
    say: Callable[[str], object] = lambda line: None,
) -> list[Speed]:
    """Optimizer steps of a GPT-2-shaped model: forward, backward, clipping, AdamW.

    Args:
        n_layer, d_model, n_head, vocab_size: of the model.
        batch, length: rows of so many tokens a step.
        precisions: of the products; none for float32, and bfloat16 where the device has instructions for it.
        baseline: whether to run `transformers` in the same plain loop (float32, and bfloat16 autocast where asked).
        threads: of the products, on a CPU.
        repeats: steps of each system that count, at most.
        limit: seconds that all steps may take, at least one of each; slow ones are repeated less often.
        device: where.
        say: takes a line as each system is measured, and on what is left out or slow.
    """
    from suite.training.batches import Batch, Example, FiniteSource
    from suite.training.device import emulates_bfloat16, has_bfloat16
    from suite.training.loop import Trainer
    from suite.training.loss import language_modelling
    from suite.training.recipe import BatchConfig, Recipe, RunConfig
    from suite.training.state import RunDirectory

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    place = torch.device(device)
    if not precisions:
        precisions = ("float32", "bfloat16") if has_bfloat16(place) else ("float32",)
        if len(precisions) == 1:
            say(
                f"bfloat16 is left out: this device ({place}) has no instructions for it, or none that training would "
                "use, and emulating them takes up to a hundred times as long; --precision bfloat16 measures it"
            )
    elif "bfloat16" in precisions and emulates_bfloat16(place):
        say(f"this device ({place}) has no instructions for bfloat16; emulating them may take minutes a step")
    config = ModelConfig(vocab_size=vocab_size, context=length, d_model=d_model, n_layer=n_layer, n_head=n_head)
    rows = np.random.default_rng(0).integers(0, vocab_size, (batch, length + 1))
    examples = [Example(row) for row in rows]
    systems: dict[str, Callable[[], object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for precision in precisions:
            recipe = Recipe(
                task="lm",
                run=RunConfig(steps=repeats + 1, precision=precision),  # type: ignore[arg-type]
                batch=BatchConfig(size=batch),
            )
            trainer = Trainer(
                Transformer(config),
                FiniteSource(examples),
                recipe,
                RunDirectory(Path(folder)),
                [],
                language_modelling(),
                place,
            )
            trainer.model.train()
            systems[f"suite {precision}"] = lambda trainer=trainer: _timed_step(trainer, [Batch.collate(examples)])  # type: ignore[misc]
            if baseline:
                systems[f"transformers {precision}"] = _plain_loop(config, rows, precision, place)
        seconds = best_times(
            systems,
            repeats,
            limit,
            lambda name, taken: say(f"{name}: {batch * length / taken:,.0f} tokens/s in a first step of {taken:.1f} s"),
        )
    speeds = []
    for name, taken in seconds.items():
        ratio = seconds[f"transformers {name.split()[1]}"] / taken if baseline else None
        speeds.append(Speed(system=name, batch=batch, tokens_per_second=batch * length / taken, ratio=ratio))
    return speeds


def _timed_step(trainer: Any, batches: list[Any]) -> None:
    trainer.take_step(batches)
    if trainer.device.type == "cuda":
        torch.cuda.synchronize()


def _plain_loop(
    config: ModelConfig, rows: np.ndarray[Any, Any], precision: str, place: torch.device
) -> Callable[[], object]:
    """One step of `transformers`' model in the loop that everybody writes."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError as error:
        raise ConfigError("the baseline needs transformers: pip install 'decoder-suite[baselines]'") from error

    model: Any = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocab_size,
            n_positions=config.context,
            n_embd=config.d_model,
            n_layer=config.n_layer,
            n_head=config.n_head,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,  # GPT-2's would lie outside this vocabulary
            eos_token_id=None,
        )
    )
    model.to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.from_numpy(rows).to(place)

    def step() -> None:
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(tokens[:, :-1]).logits
            loss: Any = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if place.type == "cuda":
            torch.cuda.synchronize()

    return step


def recipes(
    *,
    tasks: Sequence[str] = (),
    steps: int = 3,
    muon: Sequence[str] = (),
    precision: str = "auto",
    threads: int = 2,
    limit: float = 30.0,
    say: Callable[[str], object] = lambda line: None,
) -> Iterator[RecipeSpeed]:
    """A few optimizer steps of each task's default recipe on the sample data, and nothing kept of them.

    Args:
        tasks: names; none for all that have a sample.
        steps: that count, after one that does not.
        muon: types of Muon's iteration, which take turns (none: the one that training takes); "bfloat16" is how it was
            before it followed the run's precision.
        precision: of the run.
        threads: of the products.
        limit: seconds of a recipe's steps; after them no turn is begun but the first that counts.
        say: takes a line before each recipe.

    Raises:
        ConfigError: there is no sample for a task.
    """
    for name in tasks:
        if name not in SAMPLES:
            raise ConfigError(f"no sample data for task {name!r}; {suggest(name, SAMPLES)}")
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        for name in tasks or SAMPLES:
            say(f"{name}: preparing its sample data, then {steps + 1} steps")
            yield from _recipe_speeds(name, Path(folder), steps, muon, precision, limit)


def _recipe_speeds(
    name: str, folder: Path, steps: int, muon: Sequence[str], precision: str, limit: float
) -> list[RecipeSpeed]:
    """The figures of one recipe, one for each type of Muon's iteration."""
    from suite.training.fit import start
    from suite.training.loop import Trainer
    from suite.training.loss import language_modelling
    from suite.training.optimizer import Muon
    from suite.training.recipe import Recipe
    from suite.training.state import RunDirectory

    task = find_task(name)
    path = task.default_recipe()
    file, *settings = SAMPLES[name]
    source = Path(str(files("suite.data"))) / "samples" / file if file else random_music(folder / "music")
    recipe = Recipe.load(path, [f"data.train=[{json.dumps(str(source))}]", f"run.precision={precision}", *settings])
    data = task.prepare(recipe, folder / "cache")
    model, _, _ = start(recipe, data)
    loss = data.loss or language_modelling(recipe.loss.smoothing, recipe.loss.source_weight)
    trainer = Trainer(model, data.train, recipe, RunDirectory(folder / name), [], loss, torch.device("cpu"), show=False)
    trainer.model.train()
    iterations = [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, Muon)]
    usual = str(iterations[0].dtype).removeprefix("torch.") if iterations else ""
    types = list(muon) if iterations and muon else [usual]
    best = dict.fromkeys(types, (0.0, 0.0, 1.0))
    counted = 0
    began = time.perf_counter()
    for turn in range(steps + 1):
        if counted and time.perf_counter() - began > limit:
            break
        batches = trainer.load_step(turn)
        for kind in types if turn else types[:1]:
            for optimizer in iterations:
                optimizer.dtype = getattr(torch, kind)
            start_of_step, cpu = time.perf_counter(), time.process_time()
            trainer.take_step(batches)
            seconds, cpu = time.perf_counter() - start_of_step, time.process_time() - cpu
            if turn:
                best[kind] = max(best[kind], (sum(batch.real for batch in batches) / seconds, seconds, cpu))
        counted = turn
    return [
        RecipeSpeed(
            recipe=f"{name}/{path.name}",
            precision="bfloat16" if trainer.bfloat16 else "float32",
            muon=kind,
            tokens_per_second=speed,
            seconds=seconds,
            tokens_per_cpu_second=speed * seconds / cpu,
            steps=counted,
        )
        for kind, (speed, seconds, cpu) in best.items()
    ]


def random_music(folder: Path) -> Path:
    """A new folder of twenty MIDI files of random notes, since there is no music among the samples."""
    from suite.data.performance import Performance

    folder.mkdir()
    for piece in range(20):
        rng = np.random.default_rng(piece)
        start = np.cumsum(rng.exponential(0.1, 1000))
        end = start + rng.uniform(0.1, 1.0, 1000)
        Performance(rng.integers(30, 90, 1000), rng.integers(20, 110, 1000), start, end).save(folder / f"{piece}.mid")
    return folder


def attention(
    *,
    lengths: Sequence[int] = (1024, 4096, 11264, 32768),
    limit: float = 100.0,
    threads: int = 2,
    say: Callable[[str], object] = lambda line: None,
) -> list[Cost]:
    """One text of each length through a model of the embedded language model's shape, with each kind of layers.

    Args:
        lengths: tokens of the texts.
        limit: seconds; a case is left out if it would take more, judged by the square of its length and the longest
            case before it.
        threads: of the products.
        say: takes a line for each case that is left out.

    Raises:
        SuiteError: the memory was not enough for a case; the message names it.
    """
    costs = []
    for work in ("train", "prefill"):
        for layers in LAYERS:
            known: Cost | None = None
            for length in sorted(lengths):
                if known is not None:
                    expected = length**2 / known.length / known.tokens_per_second
                    if expected > limit:
                        say(f"{work}, {layers}, {length:,} tokens: skipped, it might take {expected:,.0f} s")
                        continue
                # in a process of its own, since memory that was once taken hides what is taken later
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    try:
                        known = pool.submit(cost, layers, work, length, threads).result()
                    except BrokenProcessPool as error:
                        raise SuiteError(
                            f"{work}, {layers}, {length:,} tokens: the process died, perhaps out of memory; "
                            "leave out the longest texts"
                        ) from error
                costs.append(known)
    return costs


def cost(layers: str, work: str, length: int, threads: int) -> Cost:
    """Measure one case of `attention` in this process."""
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
            hidden = model.hidden(tokens[:, :-1]).flatten(0, 1)
            cross_entropy(hidden, model.head.weight, tokens[0, 1:]).backward()  # type: ignore[no-untyped-call]
        else:
            with torch.inference_mode():
                Decoding(model, tokens[:, :-1].tolist(), None, max_new_tokens=1, prefill_chunk=512).prefill()

    run(16)  # what is loaded once is not counted, nor are the gradients of the weights
    before = peak_memory()
    start = time.perf_counter()
    run(length)
    speed = length / (time.perf_counter() - start)
    return Cost(layers=layers, work=work, length=length, tokens_per_second=speed, peak_bytes=peak_memory() - before)


def peak_memory() -> int:
    """The most bytes that this process has held in memory so far."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux; elsewhere, and here too, `getrusage` may tell of the process that started this one
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
