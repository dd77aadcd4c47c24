"""`suite bench`."""

import click


@click.group()
def bench() -> None:
    """Measure speed."""
