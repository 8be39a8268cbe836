"""What ``swapconf check --fix`` and ``--diff`` do: show what would change, ask, write."""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Iterable

import click

from swapconf.checking.find import is_training, may_be_training
from swapconf.checking.fixes import repaired
from swapconf.checking.request import CheckRequest
from swapconf.cli.common import say, writing
from swapconf.config import base_config
from swapconf.config.yaml_document import read_text
from swapconf.files.opening import read_bytes
from swapconf.files.replace import replace_content
from swapconf.report.findings_text import printable
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase, plural, show

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def repair(orders: Iterable[CheckRequest], *, write: bool, ask: bool, err: bool) -> None:
    """Show the difference for every file that can be repaired; then write, if asked to and, with ``ask``, confirmed.

    ``err``: show it on stderr, because the findings on stdout are for a machine.
    """
    changes = {order.file: change for order in orders if (change := _change(order)) is not None}
    for file, (before, after) in changes.items():
        print_difference(file, before, after, err=err)
    if not changes or not write:
        return
    question = phrase("Change {files}?", files=plural(len(changes), "{count} file", "{count} files"))
    if ask and not click.confirm(show(question), err=True, default=False):
        say(phrase("nothing was changed"), err=True)
        return
    for file, (_, after) in changes.items():
        write_text(file, after)


def _change(order: CheckRequest) -> tuple[str, str] | None:
    """The text of a file before and after, where it can be repaired."""
    try:
        text = read_text(order.file)
        if not order.named and not (may_be_training(text) and is_training(base_config.of_text(text, order.file))):
            return None
        after, _ = repaired(order, text)
    except SwapconfError:
        return None  # the check that follows tells why
    return (text, after) if after != text else None


def print_difference(file: str, before: str, after: str, *, err: bool = False) -> None:
    """As a unified diff, coloured on a terminal; nothing of it commands the terminal."""
    name = file.lstrip("/")
    lines = (before.splitlines(), after.splitlines())
    for line in difflib.unified_diff(*lines, f"a/{name}", f"b/{name}", lineterm=""):
        click.secho(printable(line), fg=_STYLES.get(line[:1]), err=err)


def write_text(file: str, text: str) -> None:
    """Replaces what a file holds, whole or not at all; a mark of the byte order stays."""
    with writing(file):
        mark = codecs.BOM_UTF8 if read_bytes(file, len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8) else b""
        replace_content(file, mark + text.encode("utf-8"))
