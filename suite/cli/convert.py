"""`suite convert`: a model in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from suite.cli.options import complete_model
from suite.cli.show import size

if TYPE_CHECKING:
    from suite.checkpoint import Storage


@click.command()
@click.argument("name", shell_complete=complete_model)
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--to",
    type=click.Choice(["transformers", "suite"]),
    default="transformers",
    show_default=True,
    help="Format to write: one that AutoModelForCausalLM loads (GPT-2, Llama, Nemotron and others), or suite's own.",
)
@click.option(
    "--storage",
    type=click.Choice(["float32", "float16", "bfloat16", "int8"]),
    default="float32",
    show_default=True,
    help="Type of the weights on disk; int8 only with --to suite.",
)
@click.option("--revision", metavar="REV", help="Branch, tag or commit of a Hugging Face model.  [default: main]")
def convert(name: str, out: Path, to: Literal["transformers", "suite"], storage: Storage, revision: str | None) -> None:
    """Write a model in another format.

    NAME is an embedded model, a directory or a Hugging Face id; OUT is the directory to create.
    """
    from suite import checkpoint

    checkpoint.convert(name, out, to=to, storage=storage, revision=revision)
    click.echo(f"{out}: {size(sum(file.stat().st_size for file in out.iterdir()))}, {storage}, {to} format")
