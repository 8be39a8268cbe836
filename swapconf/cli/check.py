"""``swapconf check``: find what is wrong in training YAMLs, without any framework."""

from __future__ import annotations

import click

from swapconf import pipeline
from swapconf.cli.common import (
    EXIT_ERRORS,
    EXIT_UNREADABLE,
    environment,
    print_findings,
    say,
    version_options,
    versions,
)
from swapconf.errors import Finding, Severity, SwapconfError, has_errors
from swapconf.report import findings as report


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--strict", is_flag=True, help="Warnings fail the check too.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="json: a list of {file, line, column, path, rule, severity, message, hint}.")
@version_options
def command(files: tuple[str, ...], strict: bool, form: str, mindspore_version: str | None,
            mindformers_version: str | None) -> None:
    """Check the swap and recompute sections of training YAMLs.

    Every finding is printed at once as `file:line:col  yaml.path: what is wrong; what to do [rule]`. The manual page of
    a rule: `swapconf rules RULE`.

    \b
    swapconf check train.yaml
    swapconf check --strict --format json a.yaml b.yaml
    swapconf check --mindspore-version 2.7.2 --mindformers-version 1.6.0 train.yaml

    Exit codes: 0 clean, or notes and warnings only; 1 findings of severity error (with --strict, of warning);
    2 a file could not be read.
    """
    found: list[Finding] = []
    unreadable = False
    chosen = versions(mindspore_version, mindformers_version)
    for file in files:
        try:
            found.extend(pipeline.study_file(file, chosen, environment()).findings)
        except SwapconfError as error:
            found.extend(error.findings)
            unreadable = True
    if form == "json":
        click.echo(report.as_json(found))
    else:
        print_findings(found)
        say(report.summary(found, len(files)), err=True)
    failed = has_errors(found) or (strict and any(finding.severity is Severity.WARNING for finding in found))
    raise SystemExit(EXIT_UNREADABLE if unreadable else EXIT_ERRORS if failed else 0)
