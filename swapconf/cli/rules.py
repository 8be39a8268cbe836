"""``swapconf rules``: the manual pages of the rules."""

from __future__ import annotations

from difflib import get_close_matches

import click

from swapconf.cli.complete import rule_names
from swapconf.cli.help import Command
from swapconf.study.pages import pages as checked
from swapconf.words.phrases import phrase
from swapconf.words.rules import OTHERS, page


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
        for text in known.values():
            click.echo(text.splitlines()[0])
    elif rule in known:
        click.echo(known[rule])
    else:
        close = get_close_matches(rule, known, n=1)
        raise click.UsageError(
            phrase("no rule is named {name!r}; `{meant}` was probably meant", name=rule, meant=close[0])
            if close
            else phrase("no rule named {rule!r}; `swapconf rules` lists them", rule=rule)
        )


def pages() -> dict[str, str]:
    """Of every rule, by name. Nothing that computes is loaded for it: the tab key asks for the names."""
    return {**checked(), **{name: page(name, rule) for name, rule in OTHERS.items()}}
