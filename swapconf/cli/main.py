"""The command ``swapconf``. Each command is one file beside this one and is imported only when it is called."""

from __future__ import annotations

import atexit
import gc
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from swapconf import __version__
from swapconf.cli import click_texts, language
from swapconf.cli.common import environment
from swapconf.cli.help import Context, help_last, summary
from swapconf.cli.manners import colour, ended, prepare_streams
from swapconf.words import docstrings
from swapconf.words.phrases import mark, phrase, show

SECTIONS = {
    mark("Read a YAML:"): ("check", "explain", "migrate", "rules", "families"),
    mark("Run it without a card:"): ("dryrun", "compare"),
    mark("Study the trace of a dry run:"): ("memory", "whatif", "fragmentation", "timeline", "calibrate"),
    mark("Choose:"): ("plan", "layout"),
    mark("Train:"): ("run", "register_path", "verify", "oom"),
    mark("Set up the editor and the shell:"): ("schema", "modeline", "completion"),
}
# what modules make stays: to look through it every 700 objects takes a tenth of the time of a `check`
_COLLECTED_AFTER = 50_000
COMMANDS = tuple(sorted(name for names in SECTIONS.values() for name in names))


class LazyGroup(click.Group):
    """Imports a command's module on its first use, so that ``swapconf check`` pays for nothing else."""

    context_class = Context

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if self.help is None and self.callback is not None:  # Python was asked to drop docstrings
            self.help = docstrings.of(self.callback)

    def main(self, *args: Any, **settings: Any) -> Any:
        gc.set_threshold(_COLLECTED_AFTER)
        atexit.register(gc.freeze)  # else Python looks for cycles in all that goes with the process anyway
        prepare_streams()
        click_texts.speak()
        return super().main(*args, **settings)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        close = get_close_matches(name, self.list_commands(context), n=1)
        if self.get_command(context, name) is None and close:
            context.fail(
                show(phrase("no command is named {name!r}; `{meant}` was probably meant", name=name, meant=close[0]))
            )
        return super().resolve_command(context, args)

    def list_commands(self, context: click.Context) -> list[str]:
        return [_spelled(name) for name in COMMANDS]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        module = name.replace("-", "_")
        if module not in COMMANDS:
            return None
        command: click.Command = import_module(f"swapconf.cli.{module}").command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in SECTIONS.items():
            with formatter.section(heading.removesuffix(":")):
                commands = ((name, self.get_command(context, name)) for name in names)
                formatter.write_dl([(_spelled(name), summary(command)) for name, command in commands if command])

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if set(args).isdisjoint(self.list_commands(context)):  # else what follows is a command's, or a script's
            args = help_last(args, self.get_help_option_names(context))
        return super().parse_args(context, args)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        with ended():
            return super().make_context(*args, color=colour(environment()), **settings)

    def invoke(self, context: click.Context) -> object:
        with ended():
            return super().invoke(context)


def _spelled(module: str) -> str:
    return module.replace("_", "-")


def _version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"swapconf {__version__}")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, params=[language.option()])
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def main() -> None:
    """Check, explain and apply activation swap and recompute for MindSpore Transformers.

    `swapconf COMMAND --help` tells what a command is for, shows examples and lists its options and exit codes.

    \b
    swapconf check configs/llama2_7b/example3_op_swap.yaml
    swapconf explain configs/llama2_7b/example4_swap_with_recompute.yaml --layer 0
    swapconf whatif tests/traces/llama_l2_none --config tests/traces/llama.yaml

    Chinese instead of English: `--lang zh`, here or after a command, or SWAPCONF_LANG=zh. Without both, the locale
    decides.

    The tab key completes commands, options, files and names: `swapconf completion --help` says how to set it up.

    Documentation: docs/index.md; every command on one page: docs/reference/commands.md.

    Exit codes: 0 done, and nothing is wrong; 1 done, and something is wrong, such as findings of severity error; 2 not
    done: a file cannot be read or written, something is not installed, or the command line is wrong. Some commands have
    more: see their help. 130 interrupted; 141 nobody reads the output.
    """
