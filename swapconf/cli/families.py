"""``swapconf families``: the model families whose operators are known."""

from __future__ import annotations

import click

from swapconf import catalog


@click.command()
def command() -> None:
    """List the model families in the catalog, with the pattern of their flash attention."""
    for name in catalog.families():
        family = catalog.load(name)
        click.echo(f"{name:<16} {family.title}  (flash attention: {family.flash_attention})")
