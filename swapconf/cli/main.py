"""The command ``swapconf``. Each command is one file beside this one and is imported only when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from swapconf import __version__
from swapconf.cli import language
from swapconf.cli.common import neutral

COMMANDS = ("check", "compare", "dryrun", "explain", "families", "fragmentation", "memory", "migrate", "modeline",
            "register_path", "rules", "run", "schema", "timeline", "verify", "whatif")


class LazyGroup(click.Group):
    """Imports a command's module on its first use, so that ``swapconf check`` pays for nothing else."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [name.replace("_", "-") for name in COMMANDS]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        module = name.replace("-", "_")
        if module not in COMMANDS:
            return None
        command: click.Command = import_module(f"swapconf.cli.{module}").command
        # what follows `run` is the script's
        if name != "run" and not any(parameter.name == "lang" for parameter in command.params):
            command.params.append(language.option())
        return command

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except click.ClickException as error:  # their texts quote files and names
            object.__setattr__(error, "message", neutral(error.message))  # click declares it final
            raise


def _version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"swapconf {__version__}")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, params=[language.option()])
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def main() -> None:
    """Check, explain and apply activation swap and recompute for MindSpore Transformers.

    \b
    swapconf check configs/llama2_7b/example3_op_swap.yaml
    swapconf explain configs/llama2_7b/example4_swap_with_recompute.yaml --layer 0
    swapconf dryrun configs/llama2_7b/example2_layer_swap.yaml
    swapconf whatif traces/rank_0 --config train.yaml
    swapconf compare plain.yaml swap.yaml
    swapconf verify output/msrun --config train.yaml
    swapconf migrate train.yaml --to pynative --diff
    python -m swapconf run run_mindformer.py --config FILE ...

    Exit codes: 0 clean, or notes and warnings only; 1 findings of severity error; 2 a file could not be read, or the
    command line is wrong.
    """
