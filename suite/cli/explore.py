"""`suite explore`: a local page that shows what a model does with a text."""

from __future__ import annotations

import webbrowser
from importlib.util import find_spec

import click

from suite.cli.options import complete_model
from suite.cli.show import notice
from suite.errors import ConfigError

NEEDED = ("starlette", "uvicorn")


@click.command()
@click.option(
    "--model",
    default="lm",
    show_default=True,
    metavar="MODEL",
    shell_complete=complete_model,
    help="Model to show first: an embedded model, a directory or a Hugging Face id.",
)
@click.option(
    "--port", default=8642, show_default=True, type=click.IntRange(0, 65535), help="Port on this machine; 0 for any."
)
@click.option("--no-browser", is_flag=True, help="Print the address and do not open a browser.")
def explore(model: str, port: int, no_browser: bool) -> None:
    """Look inside a model, on a page in your browser.

    The page is served to this machine alone, works offline, and shows what the model computes: the next token,
    surprise, attention, one token's path, alignment, labels, music, and where the parameters are. Ctrl-C ends it.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        them = "it" if len(missing) == 1 else "them"
        needed = " and ".join(missing)
        raise ConfigError(f"the page needs {needed}; install {them}: pip install 'decoder-suite[explore]'")
    from suite.explore.app import serve

    def ready(address: str) -> None:
        click.echo(address)
        notice("Ctrl-C ends it")
        if not no_browser:
            webbrowser.open(address)

    serve(model, port, ready)
