"""``swapconf rules``: the manual pages of the rules."""

from __future__ import annotations

from difflib import get_close_matches

import click

from swapconf.cli.complete import rule_names
from swapconf.cli.help import Command
from swapconf.config.reading_rules import REWRITING
from swapconf.dryrun import outcome
from swapconf.dryrun.effect import compare_copies, compare_recompute
from swapconf.files import table_lines
from swapconf.memory.fragmentation_findings import RULES as SIMULATED
from swapconf.study.pages import pages as checked
from swapconf.timing import hardware_names
from swapconf.verify import deviation
from swapconf.whatif import rule_pages
from swapconf.words.phrases import phrase


@click.command(cls=Command)
@click.argument("rule", required=False, shell_complete=rule_names)
def command(rule: str | None) -> None:
    """List the rules, or print the manual page of one.

    Every finding ends with the name of its rule in brackets. The page says what the rule looks for, and which fact of
    MindSpore or mindformers stands behind it. All pages at once: docs/reference/rules.md.

    \b
    swapconf rules
    swapconf rules op-unescaped-dot

    Exit codes: 0 printed; 2 there is no such rule, or the command line is wrong.
    """
    known = pages()
    if rule is None:
        for page in known.values():
            click.echo(page.splitlines()[0])
    elif rule in known:
        click.echo(known[rule])
    else:
        close = get_close_matches(rule, known, n=1)
        raise click.UsageError(phrase("no rule is named {name!r}; `{meant}` was probably meant", name=rule,
                                      meant=close[0]) if close else
                               phrase("no rule named {rule!r}; `swapconf rules` lists them", rule=rule))


def pages() -> dict[str, str]:
    """Of every rule, by name. Nothing that computes is loaded for it: the tab key asks for the names."""
    tables = {**REWRITING, **outcome.RULES, **compare_copies.RULES, **compare_recompute.RULES,
              **table_lines.RULES, **SIMULATED, **rule_pages.RULES,
              **deviation.RULES, **hardware_names.RULES}
    return {**checked(), **{name: f"{name}: {text} ({severity})" for name, (severity, text) in tables.items()}}
