"""``swapconf families``: the model families whose operators are known."""

from __future__ import annotations

import click

from swapconf.cli.common import say
from swapconf.cli.help import Command
from swapconf.models import catalog
from swapconf.words.phrases import phrase


@click.command(cls=Command)
def command() -> None:
    """List the model families whose operators are known, and the versions that they were read from.

    Each with the pattern of its flash attention, and with the pairs mindformers+MindSpore whose cells were read. For
    another mindformers, the nearest earlier one answers.

    For these, `swapconf check` checks operator names, and the editor completes them. For other models it says that it
    cannot. A training run reads the operators of any model from its real cells. To give a class of your own one of
    these families, name it under `families` in `.swapconf.toml` (docs/how-to/ci.md).

    \b
    swapconf families

    Exit codes: 0 listed; 2 the command line is wrong.
    """
    for name in catalog.families():
        family, releases = catalog.load(name), catalog.releases(name)
        made_with = [catalog.load(name, release).made_with for release in releases]
        say(
            phrase(
                "{name:<16} {title}  (flash attention: {operator}; from {pairs})",
                name=name,
                title=family.title,
                operator=family.flash_attention,
                pairs=", ".join(f"{one['mindformers']}+{one['mindspore']}" for one in made_with),
            )
        )
