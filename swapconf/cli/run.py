"""``python -m swapconf run``: start a training script with swapconf in place of mindformers' LayerSetting."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

import click

from swapconf.cli.common import EXIT_ERRORS, EXIT_UNREADABLE, environment, print_findings, say
from swapconf.cli.help import PassingOn
from swapconf.config import overrides
from swapconf.config.nodes import Document
from swapconf.models import own_layers
from swapconf.study import handed_over
from swapconf.study.settings import Settings
from swapconf.study.study import study_for_run
from swapconf.train import session
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase


@click.command(
    cls=PassingOn,
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
    },
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(script: str, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT with its ARGUMENTS, as `python SCRIPT ARGUMENTS` would, under swapconf.

    The YAML that `--config` names is checked first, with the overrides on the command line: a config with errors stops
    here, on every rank, before anything is built. Then swap and recompute are applied as `swapconf explain` shows them.
    `python -m swapconf run` is the same and needs no program in the PATH.

    \b
    swapconf run scripts/run_mindformer.py --config configs/small/example4_swap_with_recompute.yaml
    msrun --worker_num=8 python -m swapconf run run_mindformer.py --config FILE --use_parallel True

    Exit codes: 1 the config has errors, and the script was not started; 2 the YAML or the script could not be read, or
    the command line is wrong; else the script's own."""
    made_from = os.environ.get(handed_over.VARIABLE)
    layers = Path(made_from).with_name(own_layers.FILE) if made_from else None  # beside what else a dry run leaves
    session.install(*_checked_config(arguments), layers)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SwapconfError as error:  # what only the training script itself could know
        _refuse(error, EXIT_ERRORS)
    except (OSError, EOFError):  # the script's own: click would end with these in silence
        traceback.print_exc()
        raise SystemExit(1) from None


def _checked_config(arguments: tuple[str, ...]) -> tuple[Document | None, Settings | None]:
    """The YAML of the run, and its settings where they are not those of its folder."""
    settings = None
    try:
        document = overrides.read(arguments)
        if document is None:
            return None, None
        if made_from := os.environ.get(handed_over.VARIABLE):
            document, settings = handed_over.read(Path(made_from), document)
        study = study_for_run(document, environment(), settings)
    except SwapconfError as error:
        _refuse(error, EXIT_UNREADABLE)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if study.is_refused:
        _refuse(SwapconfError(study.findings), EXIT_ERRORS)
    print_findings(study.findings, err=True)
    return document, settings


def _refuse(error: SwapconfError, exit_code: int) -> None:
    if error.findings:
        print_findings(error.findings, err=True)
    else:
        say(str(error), err=True)
    say(phrase("swapconf: nothing was started; correct the errors, or start the script without swapconf"), err=True)
    raise SystemExit(exit_code)
