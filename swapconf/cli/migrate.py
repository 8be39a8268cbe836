"""``swapconf migrate``: write the swap and recompute of a YAML in another of mindformers' dialects."""

from __future__ import annotations

from difflib import unified_diff

import click

from swapconf.cli.common import EXIT_ERRORS, environment, needs_training, print_findings, say, version_options, writing
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.cli.outputs import OutFile
from swapconf.config import base_config
from swapconf.config.config import Dialect
from swapconf.config.yaml_document import read_text
from swapconf.files.replace import rewrite_text
from swapconf.migrate.migrate import Migration, MigrationOrder, migrate
from swapconf.migrate.report import Fate
from swapconf.report.findings_text import printable
from swapconf.study.study import study_for_check
from swapconf.words.phrases import phrase

_NAMES = [dialect.value for dialect in Dialect]
_STYLES = {Fate.LOST: "red", Fate.CHANGED: "yellow", Fate.CARRIED: "green", Fate.CHECK: "cyan"}


@click.command(cls=Command)
@click.argument("file", metavar="FILE", type=FILE)
@click.option("--to", "target", type=click.Choice(_NAMES), required=True, help="The dialect to write.")
@click.option("--from", "source", type=click.Choice(_NAMES), help="The dialect to read (default: the one in the file).")
@click.option("--out", type=OutFile(), help="Write the whole YAML to this file.")
@click.option("--in-place", is_flag=True, help="Write it back to FILE.")
@click.option("--diff", is_flag=True, help="Print the changed lines; nothing else is written to the standard output.")
@click.option(
    "--prefetch",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="The prefetch to write where its unit changes: in layers for pynative, else in operators.",
)
@click.option(
    "--whole",
    is_flag=True,
    help="To pynative from graph mode: write the rest of the YAML, too, anew and without its comments.",
)
@click.option("--accept-loss", is_flag=True, help="Write even if something cannot be carried over, and exit with 0.")
@version_options
def command(
    file: str,
    target: str,
    source: str | None,
    out: str | None,
    in_place: bool,
    diff: bool,
    prefetch: int,
    whole: bool,
    accept_loss: bool,
    mindspore_version: str | None,
    mindformers_version: str | None,
) -> None:
    """Write the swap and recompute of a training YAML in another dialect of mindformers.

    To take a config to an mcore model or to mindformers 2.0, and back. Only the lines of swap and recompute change;
    comments are kept. With --whole the rest is brought to PyNative's form, too: training, optimizer, parallelism, data
    and a flat model. docs/reference/dialects.md compares the three dialects key by key:

    \b
    legacy     swap_config and recompute_config, prefetch in operators
    mcore      the keys of swap_config inside model.model_config (use_legacy: False)
    pynative   swap, recompute and recompute_comm of mindformers 2.0, prefetch in layers

    The report goes to the standard error: what cannot be carried over and what to do about it, what changes its
    meaning, what is carried over, what is to be checked. Without --out, --in-place or --diff the YAML goes to the
    standard output.

    \b
    swapconf migrate configs/llama2_7b/example4_swap_with_recompute.yaml --to pynative --diff
    swapconf migrate train.yaml --to pynative --prefetch 2 --out pynative.yaml
    swapconf migrate train.yaml --to pynative --whole --out pynative.yaml
    swapconf migrate qwen3.yaml --to mcore --in-place
    swapconf migrate pynative.yaml --to legacy --prefetch 20 --accept-loss > train.yaml

    Exit codes: 0 nothing was lost, or --accept-loss; 1 something cannot be carried over, and no file was written;
    2 the file could not be read, has errors, or cannot be rewritten, or the command line is wrong.
    """
    if out is not None and in_place:
        raise click.UsageError(phrase("--out and --in-place exclude each other"))
    if whole and Dialect(target) is not Dialect.PYNATIVE:
        raise click.UsageError(phrase("--whole is there with --to pynative only"))
    text = read_text(file)
    study = study_for_check(base_config.of_text(text, file), environment(), mindspore_version, mindformers_version)
    needs_training(study)
    print_findings(study.findings, err=True)  # a config that no run takes may well be migrated to one that does
    done = migrate(
        text,
        file,
        MigrationOrder(
            target=Dialect(target),
            source=Dialect(source) if source else None,
            prefetch=prefetch,
            whole=whole,
            versions=study.versions,
        ),
    )
    _print_report(done)
    if diff:
        lines = unified_diff(text.splitlines(True), done.text.splitlines(True), file, out or file)
        click.echo("".join(lines), nl=False)
    elif out is None and not in_place:
        click.echo(done.text.encode("utf-8"), nl=False)  # a file, whatever a terminal can show
    refused = done.lost and not accept_loss
    if refused and (out is not None or in_place):
        say(phrase("nothing is written: correct the YAML, or accept the loss with --accept-loss"), err=True)
    elif out is not None or (in_place and done.text != text):
        with writing(out or file):
            rewrite_text(out or file, done.text)
    raise SystemExit(EXIT_ERRORS if refused else 0)


def _print_report(done: Migration) -> None:
    if not done.items:
        say(
            phrase("nothing to change") if done.before == done.after else phrase("nothing asks for swap or recompute"),
            err=True,
        )
    for fate in Fate:
        lines = list(dict.fromkeys(str(item) for item in done.items if item.fate is fate))
        if lines:
            say(phrase("{heading}:", heading=phrase(fate.value)), fg=_STYLES[fate], err=True)
        for line in lines:
            click.echo(f"  {printable(line)}", err=True)
