"""``swapconf check``: find what is wrong in training YAMLs, without any framework."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import click

from swapconf import __version__
from swapconf.checking import run
from swapconf.checking.request import Checked
from swapconf.cli.common import (
    EXIT_ERRORS,
    EXIT_UNREADABLE,
    environment,
    print_findings,
    say,
    set_option,
    version_options,
    writing,
)
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.cli.outputs import OUT_FILE
from swapconf.cli.progress import shown
from swapconf.files.writing import write_named
from swapconf.report import findings_text as report
from swapconf.words.findings import Finding, Severity, has_errors
from swapconf.words.phrases import phrase

_OBJECTS_BETWEEN_COLLECTIONS = 50_000  # most of what is imported and read lives to the end
_WORTH_A_BAR = 100  # files; fewer are checked in the blink of an eye
FORMATS = ("text", "json", "github", "gitlab", "junit", "sarif")


@click.command(cls=Command)
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER...", type=FILE)
@click.option("--strict", is_flag=True, help="Warnings fail the check too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="json: a list of {file, line, column, path, rule, severity, message, hint}. github: annotations. "
    "gitlab: a Code Quality report.",
)
@click.option("--output", type=OUT_FILE, help="Write here instead of to the terminal.")
@click.option("--fix", is_flag=True, help="Make the repairs that are safe. Shows them, and asks before it writes.")
@click.option("--diff", is_flag=True, help="Only show what --fix would change.")
@click.option("--yes", is_flag=True, help="With --fix: write without asking.")
@click.option("--only-training", is_flag=True, help="Skip files that are no training YAMLs, even if you name them.")
@click.option("--jobs", type=click.IntRange(1), help="Processes for many files (default: one per usable core).")
@set_option
@version_options
def command(
    paths: tuple[str, ...],
    strict: bool,
    form: str,
    output: Path | None,
    fix: bool,
    diff: bool,
    yes: bool,
    only_training: bool,
    jobs: int | None,
    changes: tuple[str, ...],
    mindspore_version: str | None,
    mindformers_version: str | None,
) -> None:
    """Find what is wrong in the swap and recompute sections of training YAMLs.

    Run it after every change of a YAML; it needs neither MindSpore nor mindformers. All findings are printed at once,
    as `file:line:col yaml.path: severity: what is wrong; what to do [rule]`. The manual page of a
    rule: `swapconf rules RULE`.

    What a YAML includes (base_config) is read with it, and what stands below actor_config and ref_config of a YAML of
    RL training with the model that each names: docs/how-to/write-a-yaml.md.

    In a folder, every training YAML that git does not ignore is checked. Settings stand in `.swapconf.toml` or in
    [tool.swapconf] of pyproject.toml; `# swapconf: ignore[rule] reason` on a line, or on the line above, silences a
    rule there. See docs/how-to/ci.md.

    \b
    swapconf check docs/mistakes.yaml
    swapconf check configs --strict
    swapconf check configs --diff
    swapconf check configs --format sarif --output swapconf.sarif
    swapconf check --fix train.yaml
    swapconf check --mindspore-version 2.7.2 --mindformers-version 1.6.0 train.yaml

    Exit codes: 0 clean, or notes and warnings only; 1 findings of severity error (with --strict, of warning), such as
    an included file that cannot be read; 2 a file could not be read or written, or the command line is wrong.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    if changes and (fix or diff):
        raise click.UsageError(phrase("--fix and --diff repair what the file says: they take no --set"))
    orders, of_orders = run.orders(
        paths, environment(), mindspore_version, mindformers_version, named=not only_training, changes=changes
    )
    if fix or diff:
        from swapconf.cli import fixing

        fixing.repair(orders, write=fix and not diff, ask=not yes, err=form != "text")
    try:
        checked = run.whole(shown(run.check_all(orders, jobs), len(orders), phrase("check"), _WORTH_A_BAR))
    except ValueError as error:  # an override that a file has no place for
        raise click.UsageError(str(error)) from None
    told = [*of_orders, *run.empty_folders(paths, checked), *(finding for one in checked for finding in one.findings)]
    findings = list(dict.fromkeys(told))  # two files may include a third
    _report(findings, checked, form, output, strict)
    failed = has_errors(findings) or (strict and any(finding.severity is Severity.WARNING for finding in findings))
    unreadable = any(one.unreadable for one in checked)
    raise SystemExit(EXIT_UNREADABLE if unreadable else EXIT_ERRORS if failed else 0)


def _report(
    findings: Sequence[Finding], checked: Sequence[Checked], form: str, output: Path | None, strict: bool
) -> None:
    """In the form asked for, to the file or the terminal; in text, a summary to stderr."""
    if form == "text" and output is None:
        print_findings(findings)
    else:
        text = _text(findings, checked, form, strict)
        if output is None:
            click.echo(text)
        else:
            with writing(output):
                write_named(output, text + "\n")
    if form == "text" or output is not None:
        say(report.summary(findings, len(checked)), err=True)


def _text(found: Sequence[Finding], checked: Sequence[Checked], form: str, strict: bool) -> str:
    if form == "github":
        from swapconf.report import github

        return "\n".join(github.as_commands(found))
    if form == "gitlab":
        from swapconf.report import gitlab

        return gitlab.as_code_quality(found)
    if form == "junit":
        from swapconf.report import junit

        return junit.as_junit(found, [one.file for one in checked], strict=strict)
    if form == "sarif":
        from swapconf.report import sarif
        from swapconf.study.pages import pages

        return sarif.as_sarif(found, pages(), __version__, readable=not any(one.unreadable for one in checked))
    if form == "json":
        return report.as_json(found)
    return "\n".join(line for line, _ in report.as_lines(found))
