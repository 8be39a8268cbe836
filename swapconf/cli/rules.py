"""``swapconf rules``: the manual pages of the rules."""

from __future__ import annotations

import click

from swapconf.checking.pages import pages as checked
from swapconf.dryrun import comparison, outcome
from swapconf.formats import trace_lines
from swapconf.formats.reading_rules import REWRITING
from swapconf.phrases import phrase
from swapconf.simulate.findings import RULES as SIMULATED
from swapconf.verification import deviation


@click.command()
@click.argument("rule", required=False)
def command(rule: str | None) -> None:
    """List the rules, or print the manual page of one."""
    from swapconf import whatif  # loads numpy
    from swapconf.formats import hardware

    known = {**REWRITING, **outcome.RULES, **comparison.RULES, **trace_lines.RULES, **SIMULATED, **whatif.RULES,
             **deviation.RULES, **hardware.RULES}
    pages = {name: f"{name}: {text} ({severity})" for name, (severity, text) in known.items()}
    pages = {**checked(), **pages}
    if rule is None:
        for page in pages.values():
            click.echo(page.splitlines()[0])
    elif rule in pages:
        click.echo(pages[rule])
    else:
        raise click.UsageError(phrase("no rule named {rule!r}; `swapconf rules` lists them", rule=rule))
