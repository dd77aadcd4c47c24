"""`suite models`: the embedded models, and the parameters of a model."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from suite.cli.groups import Group
from suite.cli.options import complete_model, json_option
from suite.cli.show import bar, percent, size, table, write_json
from suite.errors import CheckpointError, ConfigError
from suite.task import embedded
from suite.wording import count

if TYPE_CHECKING:
    from suite.model import ModelConfig
    from suite.tally import Weight

GPT2 = {"gpt2": "124M", "gpt2-medium": "355M", "gpt2-large": "774M", "gpt2-xl": "1558M"}
PARTS = {"embeddings": "embeddings", "blocks": "blocks", "norm": "final norm", "head": "output head"}
BAR = 24  # cells


@click.group(cls=Group, invoke_without_command=True)
@json_option
@click.pass_context
def models(ctx: click.Context, as_json: bool) -> None:
    """List the embedded models, or show what a model consists of."""
    if ctx.invoked_subcommand is not None:
        ctx.default_map = {"show": {"as_json": as_json}}  # --json may stand before the command, too
        return
    found = [describe(name, directory) for name, directory in embedded().items()]
    if as_json:
        write_json(found)
    elif not found:
        click.echo("no embedded models", err=True)
    else:
        header = ["name", "task", "parameters", "on disk", "stored as", "context", "licence"]
        rows = [
            [
                model["name"],
                model["task"],
                f"{model['parameters']:,}",
                size(model["bytes"]),
                model["storage"],
                f"{model['context']:,}",
                model["licence"],
            ]
            for model in found
        ]
        click.echo("\n".join(table(rows, "llrrlrl", header)))


def describe(name: str, directory: Path) -> dict[str, Any]:
    """Metadata of a checkpoint directory, read without loading the model (and without torch)."""
    from suite.tally import read_head

    settings, shapes = read_head(directory)
    return {
        "name": name,
        "task": settings["task"],
        "parameters": sum(map(math.prod, shapes.values())),
        "bytes": sum(file.stat().st_size for file in directory.iterdir()),
        "storage": settings["storage"],
        "context": settings["model"]["context"],
        "licence": licence(directory / "README.md"),
        "directory": str(directory),
    }


def licence(card: Path) -> str:
    """The licence named in a model card's header; "" if there is none."""
    text = card.read_text(encoding="utf-8") if card.exists() else ""
    found = re.search(r"^licen[cs]e:[ \t]*(.+)$", text, re.IGNORECASE | re.MULTILINE)
    return found.group(1).strip() if found else ""


@models.command()
@click.argument("name", shell_complete=complete_model)
@click.option("--revision", metavar="REV", help="Branch, tag or commit of a Hugging Face model.  [default: main]")
@json_option
def show(name: str, revision: str | None, as_json: bool) -> None:
    """Show a model's parameters, its sizes and its key/value cache.

    NAME is an embedded model, a directory or a Hugging Face id. For gpt2, gpt2-medium, gpt2-large and gpt2-xl the
    shapes are built in, so nothing is downloaded.
    """
    from suite.checkpoint import resolve
    from suite.checkpoint.shards import weight_bytes
    from suite.model import ModelConfig
    from suite.tally import cache_bytes, tally

    directory = None
    if name in GPT2 and revision is None and not Path(name).exists():
        config = ModelConfig.gpt2(GPT2[name])
    else:
        directory = resolve(name, revision=revision)
        config = model_config(directory)
    weights = tally(config)
    cache = {dtype: cache_bytes(config, dtype) for dtype in ("float32", "float16")}
    stored = {storage: sum(weight.nbytes(storage) for weight in weights) for storage in ("float32", "float16", "int8")}
    on_disk = weight_bytes(directory) if directory else None
    if as_json:
        write_json(
            {
                "name": name,
                "config": config.to_dict(),
                "parameters": sum(weight.parameters for weight in weights),
                "weights": [
                    {"name": w.name, "shape": w.shape, "count": w.count, "parameters": w.parameters} for w in weights
                ],
                "bytes": stored,
                "bytes_on_disk": on_disk,
                "cache_bytes_per_token": cache,
            }
        )
        return
    lines = [headline(name, config), "", *weight_lines(weights), "", *part_lines(weights, config.n_layer), ""]
    rows = [["weights in " + storage, size(total), ""] for storage, total in stored.items()]
    if on_disk is not None:
        whole = directory is not None and (directory / "model.safetensors").exists()
        rows.append(["model.safetensors" if whole else "shards", size(on_disk), "on disk"])
    for dtype, a_token in cache.items():
        full = f"per token, {size(a_token * config.context)} for the whole context"
        rows.append([f"key/value cache in {dtype}", size(a_token), full])
    click.echo("\n".join(lines + table(rows, "lrl")))


def model_config(directory: Path) -> ModelConfig:
    """The shape of the model in a directory, ours or of `transformers`; its weights are not read."""
    from suite.checkpoint import foreign, read_config
    from suite.model import ModelConfig

    settings = read_config(directory)
    if settings.get("format") != "suite":
        return foreign.read_model_config(directory, settings)
    try:
        return ModelConfig.from_dict(settings["model"])
    except (ConfigError, KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / 'config.json'}: {error}") from error


def headline(name: str, config: ModelConfig) -> str:
    """One line that says what kind of model this is."""
    heads = f"{count(config.n_head, 'head')} of width {config.head_width}"
    if config.kv_heads != config.n_head:
        heads += f" ({config.kv_heads} for keys and values)"
    return (
        f"{click.style(name, bold=True)}: {count(config.n_layer, 'layer')}, width {config.d_model:,}, {heads}, "
        f"{config.position} positions, context {config.context:,}, vocabulary {config.vocab_size:,}"
    )


def weight_lines(weights: list[Weight]) -> list[str]:
    """The tally by weight, and its total."""
    total = sum(weight.parameters for weight in weights)
    rows = [
        [
            weight.name,
            " x ".join(map(str, weight.shape)),
            f"x {weight.count}" if weight.count > 1 else "",
            f"{weight.parameters:,}",
            percent(weight.parameters / total),
            bar(weight.parameters / total, BAR),
        ]
        for weight in weights
    ]
    lines = table(
        [*rows, ["total", "", "", f"{total:,}", "", ""]], "lrlrrl", ["weight", "shape", "", "parameters", "share", ""]
    )
    return [*lines[:-1], click.style(lines[-1], bold=True)]


def part_lines(weights: list[Weight], n_layer: int) -> list[str]:
    """The tally by part of the model."""
    total = sum(weight.parameters for weight in weights)
    rows = []
    for part, label in PARTS.items():
        parameters = sum(weight.parameters for weight in weights if weight.part == part)
        if part == "blocks":
            rows.append(["each block", f"{parameters // n_layer:,}", percent(parameters / n_layer / total), ""])
            label = f"all {count(n_layer, 'block')}"
        if parameters or part == "head":
            tied = "" if parameters else "shared with the embeddings"
            rows.append([label, f"{parameters:,}", percent(parameters / total), tied or bar(parameters / total, BAR)])
    return table(rows, "lrrl", ["part", "parameters", "share", ""])
