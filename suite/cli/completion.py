"""`suite completion`: the script that teaches a shell to complete `suite` commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the tab-completion script for a shell.

    \b
    bash: suite completion bash > ~/.local/share/bash-completion/completions/suite
    zsh:  echo 'eval "$(suite completion zsh)"' >> ~/.zshrc
    fish: suite completion fish > ~/.config/fish/completions/suite.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "suite", "_SUITE_COMPLETE").source())
