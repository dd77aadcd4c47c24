"""The translation figures of FIGURES.md: an ablation on Multi30k, and speed beside others.

From the repository's root:

    python -m benchmarks.translate ablation multi30k --out runs/ablation
    python -m benchmarks.translate speed en-de=tatoeba-de-en/valid.tsv.gz
    python -m benchmarks.translate copied
    python -m benchmarks.translate confidence en-de=tatoeba-de-en/valid.tsv.gz en-fr=tatoeba-fr-en/valid.tsv.gz
    python -m benchmarks.translate variants en-de=tatoeba-de-en/valid.tsv.gz
"""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from suite import load
from suite.checkpoint import resolve
from suite.cli.show import notice, table
from suite.data.parallel import Corpus, Pair, read_pairs
from suite.errors import ConfigError
from suite.files import write_atomic
from suite.task.kit.prepare import spread
from suite.tasks.classify.metrics import auroc, reliability
from suite.tasks.translate.confidence import DOUBTFUL, RIGHT, fit, measure
from suite.tasks.translate.evaluate import evaluate
from suite.tasks.translate.format import Languages
from suite.tasks.translate.options import TranslateEvalOptions
from suite.tasks.translate.pipeline import Translator
from suite.tasks.translate.task import TranslateTask
from suite.tasks.translate.variants import cased, unpunctuated
from suite.training.fit import cache_directory, fit_data, kept
from suite.training.recipe import Recipe

CAUSAL = "translate.attention=causal"
# loss on the source needs causal attention: in a prefix each token sees the one that it should foretell
CHOICES = {
    "prefix, rotary positions": (),
    "causal source": (CAUSAL,),
    "causal, loss on the source 0.1": (CAUSAL, "loss.source_weight=0.1"),
    "causal, loss on the source 0.5": (CAUSAL, "loss.source_weight=0.5"),
    "prefix, relative positions": ("model.position=relative", "model.relative_span=64", "model.relative_ahead=63"),
    "prefix, learned positions": ("model.position=learned",),
    "prefix, rotary, restarted": ("model.restart_positions=true",),
}


@click.group()
def main() -> None:
    """Figures of the translation task, one command each."""


@main.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/ablation"), show_default=True)
@click.option("--seeds", default=3, show_default=True, help="Number of seeds; they are 1, 2, ...")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(CHOICES)),
    help="Design choice to train; may be given several times.  [default: all]",
)
@click.option("--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a setting of the recipe.")
def ablation(data: Path, out: Path, seeds: int, only: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Train `ablation.toml` with each choice and seed; print loss on val and greedy BLEU on test_2016.

    DATA is a folder with train.en.gz, train.de.gz, val.* and test_2016_flickr.*. Runs in --out are not made twice.
    """
    runs: dict[str, list[dict[str, Any]]] = {choice: [] for choice in only or CHOICES}
    for seed in range(1, seeds + 1):  # seed by seed, so that a run cut short compares all choices
        for choice, found in runs.items():
            found.append(run(choice, seed, data, out, settings))
    rows = []
    for choice, found in runs.items():
        nats, bleu = ([one[key] for one in found] for key in ("nats", "bleu"))
        each = " ".join(f"{score:.1f}" for score in bleu)
        rows.append([choice, f"{np.mean(nats):.3f}", f"{np.mean(bleu):.1f}", each])
    click.echo("\n".join(table(rows, "lrrl", ["choice", "nats/token", "BLEU lowercased", "by seed"])))


def run(choice: str, seed: int, data: Path, out: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Train and evaluate; what was made before is read."""
    label = f"{choice.replace(', ', '-').replace(' ', '-')}-seed{seed}"
    train, valid, test = (
        f"en-de={data / name}.en.gz,{data / name}.de.gz" for name in ("train", "val", "test_2016_flickr")
    )
    lines = [f"data.train=[{json.dumps(train)}]", f"data.valid=[{json.dumps(valid)}]", f"seed={seed}"]
    recipe = Recipe.load(
        TranslateTask().default_recipe().with_name("ablation.toml"), [*lines, *CHOICES[choice], *settings]
    )
    return kept(out / f"{label}.json", recipe, partial(make, recipe, choice, test, out / label))


def make(recipe: Recipe, choice: str, test: str, out: Path) -> dict[str, Any]:
    """Train and evaluate once."""
    fitted = fit_data(recipe, TranslateTask().prepare(recipe, cache_directory()), out, say=notice)
    scores = evaluate(load(fitted.checkpoint), [test], TranslateEvalOptions(source="en", target="de", beams=1))
    return {
        "choice": choice,
        "seed": recipe.seed,
        "steps": fitted.result.step,
        "parameters": fitted.parameters,
        "nats": fitted.result.best_loss,
        "bleu": scores["results"]["model"]["BLEU lowercased"]["score"],
    }


@main.command()
@click.argument("data")
@click.option("--source", default="en", show_default=True, help="Language to translate from.")
@click.option("--target", default="de", show_default=True, help="Language to translate into.")
@click.option(
    "--limit", default=300, show_default=True, help="Number of sentences to translate, from the start of DATA."
)
@click.option("--beams", default=5, show_default=True, help="Number of beams.")
@click.option("--threads", default=2, show_default=True, help="CPU threads to use.")
@click.option("--repeats", default=2, show_default=True, help="Number of runs; the fastest counts.")
def speed(data: str, source: str, target: str, limit: int, beams: int, threads: int, repeats: int) -> None:
    """Print sentences a second of the embedded translator beside encoder-decoders of its size in other software.

    Those have random weights: they read as many tokens as ours does, and all sentences of a batch get as many tokens as
    ours have on average, or as the longest of ours has, so that as many steps are taken.
    """
    torch.set_num_threads(threads)
    texts = [pair.source for pair in itertools.islice(read_pairs(Corpus.parse(data, source, target)), limit)]
    model = load("translate")
    tokenizer = model.tokenizer
    assert tokenizer is not None
    translators = {
        f"suite {name}": Translator(load("translate", quantize=name), source=source, target=target, beams=beams)
        for name in ("float32", "int8")
    }
    found = translators["suite float32"](texts)
    read = [tokenizer.encode(text) for text in texts]
    written = [len(tokenizer.encode(one.text)) + 1 for one in found]
    others = encoder_decoders(model.config.vocab_size, beams, threads)
    rows = []
    for batch in (1, 32):
        parts = [slice(start, start + batch) for start in range(0, len(texts), batch)]

        def ours(name: str, parts: list[slice] = parts) -> None:
            for part in parts:
                translators[name](texts[part])

        def theirs(name: str, length: Callable[[list[int]], float], parts: list[slice] = parts) -> None:
            for part in parts:
                others[name](read[part], round(length(written[part])))

        def row(name: str, work: Callable[[], object], batch: int = batch) -> list[str]:
            return [name, str(batch), f"{len(texts) / min(timed(work) for _ in range(repeats)):.1f}"]

        rows += [row(name, partial(ours, name)) for name in translators]
        rows += [row(f"{name}, as many tokens", partial(theirs, name, statistics.mean)) for name in others]
        if batch > 1:
            rows += [row(f"{name}, as many steps", partial(theirs, name, max)) for name in others]
    click.echo("\n".join(table(rows, "lrr", ["system", "batch", "sentences/s"])))


@main.command()
@click.option("--model", default="translate", show_default=True, help="Model to evaluate: a name or a directory.")
@click.option("--beams", default=5, show_default=True, help="Number of beams.")
@click.option("--show", is_flag=True, help="Print each sentence that lost something.")
def copied(model: str, beams: int, show: bool) -> None:
    """Print the share of 200 made sentences whose name, number, date or address survives translation."""
    from benchmarks.copied_items import items

    translator = Translator(load(model), beams=beams)
    survived: dict[str, list[bool]] = {}
    for way, group in itertools.groupby(sorted(items(), key=lambda one: one.source + one.target), _way):
        some = list(group)
        found = translator([one.text for one in some], source=way[0], target=way[1])
        for one, result in zip(some, found, strict=True):
            kept = one.survives(result.text)
            for key in (one.kind, "-".join(way), "all"):
                survived.setdefault(key, []).append(kept)
            if show and not kept:
                click.echo(f"{one.kind}\t{one.text}\t{result.text}")
    order = ["name", "number", "date", "address"]
    keys = sorted(survived, key=lambda key: (key not in order, order.index(key) if key in order else 0, key == "all"))
    rows = [[key, str(len(survived[key])), f"{np.mean(survived[key]):.0%}"] for key in keys]
    click.echo("\n".join(table(rows, "lrr", ["what", "sentences", "survive"])))


def _way(item: Any) -> tuple[str, str]:
    return item.source, item.target


@main.command()
@click.argument("data")
@click.option("--model", default="translate", show_default=True, help="Model to evaluate: a name or a directory.")
@click.option("--source", default="en", show_default=True, help="Language to translate from.")
@click.option("--target", default="de", show_default=True, help="Language to translate into.")
@click.option("--limit", default=None, type=int, help="Number of pairs, from the start of DATA.  [default: all]")
@click.option("--beams", default=5, show_default=True, help="Number of beams.")
def variants(data: str, model: str, source: str, target: str, limit: int | None, beams: int) -> None:
    """Print BLEU on the pairs as they are, without final punctuation, in lower case, and in both."""
    corpus = Corpus.parse(data, source, target)
    pairs = list(itertools.islice(read_pairs(corpus), limit))
    if source == corpus.target:
        pairs = [Pair(pair.target, pair.source, pair.place) for pair in pairs]
    bare = [unpunctuated(pair) for pair in pairs]
    kinds = {
        "as they are": pairs,
        "no final punctuation": bare,
        "lower case": [pair._replace(source=cased(pair.source, str.lower)) for pair in pairs],
        "both": [pair._replace(source=cased(pair.source, str.lower)) for pair in bare],
    }
    options = TranslateEvalOptions(source=source, target=target, beams=beams)
    loaded = load(model)
    rows = []
    for kind, some in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pairs.tsv"
            file.write_text("".join(f"{one.source}\t{one.target}\n" for one in some), encoding="utf-8")
            found = evaluate(loaded, [f"{source}-{target}={file}"], options)["results"]["model"]
        rows.append([kind, *(f"{found[name]['score']:.1f}" for name in ("BLEU", "BLEU lowercased", "chrF2"))])
    click.echo("\n".join(table(rows, "lrrr", ["pairs", "BLEU", "BLEU lowercased", "chrF2"])))


@main.command()
@click.argument("data", nargs=-1, required=True)
@click.option("--model", default="translate", show_default=True, help="Model to calibrate: a name or a directory.")
@click.option("--pairs", default=600, show_default=True, help="Number of sentences to translate, of all of DATA.")
@click.option("--write", is_flag=True, help="Write the fit to all of them into the model's config.json.")
def confidence(data: tuple[str, ...], model: str, pairs: int, write: bool) -> None:
    """Fit the confidence of translations on one half of the sentences; print how it does on the other, and back."""
    loaded = load(model)
    known, tokenizer = Languages.from_extra(loaded.extra, model), loaded.tokenizer
    assert tokenizer is not None
    held = [
        (text, other, *way)
        for corpus in map(Corpus.parse, data)
        for pair in read_pairs(corpus)
        for way, text, other in (
            ((corpus.source, corpus.target), pair.source, pair.target),
            ((corpus.target, corpus.source), pair.target, pair.source),
        )
    ]
    chosen = spread(held, pairs)
    features, scores = measure(loaded.transformer, tokenizer, known, chosen)
    right = scores >= RIGHT
    shown = np.zeros(len(chosen))
    even = np.arange(len(chosen)) // 4 % 2 == 0  # each half has all directions
    for half in (even, ~even):
        shown[~half] = fit(features[half], right[half]).probability(features[~half])
    low = shown < DOUBTFUL
    rows = [
        ["right", f"{right.mean():.1%}"],
        ["calibration error", f"{reliability(shown, right).error:.3f}"],
        ["AUROC", f"{auroc(shown, right):.3f}"],
        ["AUROC of the mean log-probability", f"{auroc(features[:, 0], right):.3f}"],
        ["marked as probably wrong", f"{low.mean():.1%}"],
        ["of them wrong", f"{(~right)[low].mean():.1%}" if low.any() else "-"],
    ]
    click.echo("\n".join(table(rows, "lr", ["confidence", ""])))
    if write:
        file = resolve(model) / "config.json"
        config = json.loads(file.read_text(encoding="utf-8"))
        config["extra"]["confidence"] = fit(features, right).to_extra()
        write_atomic(file, (json.dumps(config, indent=2) + "\n").encode())


def timed(work: Callable[[], object]) -> float:
    """Seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def encoder_decoders(vocabulary: int, beams: int, threads: int) -> dict[str, Callable[[list[list[int]], int], object]]:
    """Two layers each, 256 wide, 5.2 M parameters as the embedded translator: in `transformers`, and in CTranslate2.

    Returns:
        by name, a function from sources (ids) and a number to translations of so many tokens.

    Raises:
        ConfigError: one of them is not installed.
    """
    try:
        import ctranslate2
        from ctranslate2.converters import TransformersConverter
        from transformers import MarianConfig, MarianMTModel
        from transformers.utils import logging
    except ImportError as error:
        raise ConfigError("the comparison needs other libraries: pip install transformers ctranslate2") from error
    their_logging: Any = logging
    their_logging.set_verbosity_error()
    their_logging.disable_progress_bar()
    pad, end = vocabulary, 0
    config = MarianConfig(
        vocab_size=vocabulary + 1,
        d_model=256,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=768,
        decoder_ffn_dim=768,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=pad,
        eos_token_id=end,
        decoder_start_token_id=pad,
        forced_eos_token_id=None,
    )
    marian: Any = MarianMTModel(config)
    marian.eval()
    names = [f"t{number}" for number in range(vocabulary)]

    class Vocabulary:
        eos_token, unk_token, bos_token = names[end], names[1], names[2]

        def get_vocab(self) -> dict[str, int]:
            return {name: number for number, name in enumerate([*names, "<pad>"])}

    class Converter(TransformersConverter):  # type: ignore[misc]
        def load_tokenizer(self, *_: Any, **__: Any) -> Vocabulary:
            return Vocabulary()

    systems: dict[str, Callable[[list[list[int]], int], object]] = {}

    @torch.inference_mode()
    def transformers(sources: list[list[int]], count: int) -> object:
        rows = [torch.tensor([*source, end]) for source in sources]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        return marian.generate(
            ids,
            attention_mask=(ids != pad).long(),
            num_beams=beams,
            min_new_tokens=count,
            max_new_tokens=count,
            do_sample=False,
        )

    systems["transformers float32"] = transformers
    with tempfile.TemporaryDirectory() as folder:
        marian.save_pretrained(f"{folder}/marian")
        Converter(f"{folder}/marian").convert(f"{folder}/ct2")
        for kind in ("float32", "int8"):
            other = ctranslate2.Translator(f"{folder}/ct2", compute_type=kind, intra_threads=threads, inter_threads=1)

            def ctranslate(sources: list[list[int]], count: int, other: Any = other) -> object:
                words = [[names[token] for token in source] for source in sources]
                return other.translate_batch(
                    words, beam_size=beams, min_decoding_length=count, max_decoding_length=count
                )

            systems[f"CTranslate2 {kind}"] = ctranslate
    return systems


if __name__ == "__main__":
    main()
