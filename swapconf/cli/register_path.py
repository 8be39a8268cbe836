"""``swapconf register-path``: the folder for mindformers' own ``--register_path``."""

from __future__ import annotations

from importlib import resources

import click

from swapconf.cli.help import Command


@click.command(cls=Command)
def command() -> None:
    """Print the folder to give to run_mindformer.py as --register_path.

    For launchers that cannot start `swapconf run`. The YAML has to name the class that mindformers loads from there:

    \b
    trainer:
      type: CausalLanguageModelingTrainer
      auto_register: swapconf_register.Swapconf

    \b
    swapconf register-path
    run_mindformer.py --config FILE --register_path "$(swapconf register-path)"

    Exit codes: 0 printed; 2 the command line is wrong.
    """
    click.echo(str(resources.files("swapconf.train") / "register"))
