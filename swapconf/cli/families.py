"""``swapconf families``: the model families whose operators are known."""

from __future__ import annotations

import click

from swapconf import catalog
from swapconf.cli.common import say
from swapconf.phrases import phrase


@click.command()
def command() -> None:
    """List the model families in the catalog, with the pattern of their flash attention."""
    for name in catalog.families():
        family = catalog.load(name)
        say(phrase("{name:<16} {title}  (flash attention: {operator})", name=name, title=family.title,
                   operator=family.flash_attention))
