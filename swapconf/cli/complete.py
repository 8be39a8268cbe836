"""What the tab key offers for names that are not known to click. Imports nothing that computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FILE = click.Path(readable=False)  # completes; whoever reads the file tells what is wrong with it


def hardware_profiles(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shipped ones, or a file."""
    from click.shell_completion import CompletionItem

    from swapconf.timing.hardware_names import names

    found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def rule_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from swapconf.cli.rules import pages

    return [CompletionItem(name) for name in pages() if name.startswith(incomplete)]
