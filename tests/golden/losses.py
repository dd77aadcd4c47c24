"""Losses of the first steps of every recipe, and of a few variants that no recipe has, at toy size."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import session
import toys

STEPS = 20
TASKS = toys.ROOT / "tasks"
# whose toy run a recipe starts from, by the base that it names: the embedded models take too long to train
BASES = {
    "lm": "lm/small",
    "translate": "translate/small",
    "runs/translate/checkpoint": "translate/small",
    "music": "music/recipe",
}
SCHEDULE = [  # as short as the run, so that each recipe's rates go all the way up and down
    *("schedule.warmup=2", f"run.steps={STEPS}", "run.epochs=0", "run.least_steps=1", "run.log_every=1"),
    *("run.valid_every=10", f"run.save_every={STEPS}", 'run.precision="float32"', 'run.storage="float32"'),
]
MODEL = ["model.d_model=32", "model.n_layer=2", "model.n_head=2", "model.context=64", "model.d_ff=96"]
DATA = {
    "lm": ["--data", "notes.txt"],
    "translate": ["--data", "en-de=en-de.tsv", "--valid", "en-de=few-de.tsv"],
    "classify": ["--data", "banking.csv"],
    "music": ["--data", "pieces.zip"],
    "summarize": ["--data", "articles.jsonl"],
}
SETTINGS = {
    "lm": ["batch.size=4", "batch.micro_tokens=128", "data.valid_tokens=1000"],
    "translate": ["batch.tokens=256", "batch.micro_tokens=128"],
    "classify": ["batch.tokens=256", "batch.micro_tokens=128"],
    "music": ["batch.size=4", "batch.micro_tokens=128", "data.held_out=0.3", "data.valid_tokens=1000"],
    "summarize": [
        *("batch.tokens=512", "batch.micro_tokens=256", "model.context=160"),
        *("summarize.lead_tokens=48", "summarize.weigh_on=2", "data.held_out=0.1"),
    ],
}
VOCABULARY = ["tokenizer.vocab_size=400"]
SPECIAL = {  # what a recipe needs beside its task's
    "translate/recipe": ["--data", "en-fr=en-fr.tsv", "--valid", "en-fr=few-fr.tsv"],
    "classify/recipe": ["--data", "topics.jsonl", "--set", "classify.max_tokens=60"],
}
ONLY = {"classify/recipe"}  # whose data is not its task's

LM, FINE, TRANSLATE, CLASSIFY, MUSIC = "lm/small", "lm/finetune", "translate/small", "classify/small", "music/recipe"
VARIANTS: dict[str, tuple[str, list[str]]] = {
    "learned positions, biases, exact GELU": (
        LM,
        ["model.position=learned", 'model.activation="gelu"', "model.bias=true", "model.tie_embeddings=false"],
    ),
    "relative positions": (LM, ["model.position=relative", "model.activation=gelu_tanh"]),
    "relative positions, clipped": (LM, ["model.position=relative", "model.relative_span=16"]),
    "grouped heads, RMSNorm, SwiGLU": (
        LM,
        ["model.n_head=4", "model.n_kv_head=2", "model.norm=rms", "model.activation=swiglu", "model.qk_norm=true"],
    ),
    "windows": (LM, ["model.windows=[16,0]"]),
    "compressed": (LM, ["model.compress=[0,3]", "model.attention_dropout=0.2"]),
    "AdamW, cosine": (LM, ["optimizer.kind=adamw", "schedule.kind=cosine", "loss.smoothing=0.1"]),
    "mean of the last weights": (LM, ["averaging.kind=last", "averaging.every=5", "averaging.count=2"]),
    "bytes": (LM, ["tokenizer.kind=bytes"]),
    "low-rank additions": (FINE, ["tune.kind=lora", "tune.rank=4"]),
    "positions that restart": (TRANSLATE, ["model.restart_positions=true"]),
    "relative positions, prefix": (TRANSLATE, ["model.position=relative", "model.relative_ahead=8"]),
    "windows, prefix": (TRANSLATE, ["model.windows=[6,0]"]),
    "compressed, prefix": (TRANSLATE, ["model.compress=[3,0]"]),
    "causal, source weighed": (TRANSLATE, ["translate.attention=causal", "loss.source_weight=0.2"]),
    "causal, next tokens too": (
        CLASSIFY,
        ["classify.attention=causal", "classify.lm_weight=0.5", "classify.ngrams=false"],
    ),
    "head alone": (CLASSIFY, ["tune.kind=head", "data.limit=120"]),
    "pedal events": (MUSIC, ["music.pedal=events", "music.transpose=5"]),
}


def compute() -> Iterator[tuple[str, Any]]:
    """Names of recipes and variants with their figures; runs in the present directory, among the toys."""
    recipes = {f"{path.relative_to(TASKS).parts[0]}/{path.stem}": path for path in TASKS.rglob("*.toml")}
    names = sorted(recipes, key=lambda name: (name not in BASES.values(), name))  # bases first
    found = {name: figures(name, recipes[name], Path("runs") / name, []) for name in names}
    yield from sorted(found.items())
    for number, (variant, (name, overrides)) in enumerate(VARIANTS.items()):
        yield f"{name}: {variant}", figures(name, recipes[name], Path("runs") / f"variant-{number}", overrides)


def figures(name: str, path: Path, out: Path, overrides: list[str]) -> dict[str, Any]:
    """Train at toy size and say what the loss was."""
    recipe = tomllib.loads(path.read_text(encoding="utf-8"))
    task, base = recipe["task"], recipe.get("base")
    settings = SCHEDULE + SETTINGS[task] + ([] if base else MODEL + VOCABULARY * (task in ("lm", "translate")))
    words = ["train", str(path), "--device", "cpu", "--out", str(out)]
    words += [] if name in ONLY else DATA[task]
    words += SPECIAL.get(name, [])
    words += ["--source", "en", "--target", "de"] if task == "translate" else []
    words += ["--base", f"runs/{BASES[base]}/checkpoint"] if base else []
    ran = session.run([*words, *(word for line in [*settings, *overrides] for word in ("--set", line))])
    if ran.code:
        raise SystemExit(f"the toy run of {name} with {overrides or 'nothing changed'} failed:\n{ran.err}")
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [row for row in rows if "loss" in row]
    return {
        "losses": [round(row["loss"], 6) for row in steps],
        "valid": [round(row["valid_loss"], 6) for row in rows if "valid_loss" in row],
        "tokens": steps[-1]["tokens"],
    }
