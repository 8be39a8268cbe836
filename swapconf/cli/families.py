"""``swapconf families``: the model families whose operators are known."""

from __future__ import annotations

import click

from swapconf import catalog
from swapconf.cli.help import Command


@click.command(cls=Command)
def command() -> None:
    """List the model families whose operators are known, with the pattern of their flash attention.

    For these, `swapconf check` judges operator names and the editor offers them. For other models it does not, and says
    so; a training run reads the operators from the real cells, whatever the family. `families` in `.swapconf.toml`
    gives the family of a class of your own (docs/ci.md).

    \b
    swapconf families

    Exit codes: 0 listed; 2 the command line is wrong.
    """
    for name in catalog.families():
        family = catalog.load(name)
        click.echo(f"{name:<16} {family.title}  (flash attention: {family.flash_attention})")
