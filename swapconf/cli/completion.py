"""``swapconf completion``: what a shell needs to complete the command line."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from swapconf.cli.help import Command

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS), metavar="|".join(SHELLS))
def command(shell: str) -> None:
    """Print the script that makes the tab key complete `swapconf` in a shell.

    It completes commands, options, their choices, files, the names of rules and of hardware profiles.

    bash, version 4.4 or later: once,

    \b
    mkdir -p ~/.local/share/bash-completion/completions
    swapconf completion bash > ~/.local/share/bash-completion/completions/swapconf

    or, without the package bash-completion, this line in ~/.bashrc:

    \b
    eval "$(swapconf completion bash)"

    zsh: this line in ~/.zshrc, below the line with `compinit`:

    \b
    eval "$(swapconf completion zsh)"

    fish: once,

    \b
    swapconf completion fish > ~/.config/fish/completions/swapconf.fish

    Then start a new shell.

    Exit codes: 0 printed; 2 the command line is wrong.
    """
    click.echo(_source(shell))


def _source(shell: str) -> str:
    kind = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    assert kind is not None  # click has the three
    return kind(root, {}, "swapconf", "_SWAPCONF_COMPLETE").source()
