#!/usr/bin/env python3
"""Write docs/reference/commands.md: every command, from the help texts of swapconf.cli.

python scripts/build_command_docs.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import click

from swapconf.cli.help import OF_HELP, paragraphs
from swapconf.cli.main import SECTIONS, main
from swapconf.words import phrases

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"

HEAD = """\
<!-- Made by scripts/build_command_docs.py from the help texts in swapconf/cli; edit those. -->
# Commands

What `swapconf COMMAND --help` prints, on one page. Commands that name files of this repository work as they stand, in
its folder; `train.yaml`, `traces` and the like stand for files of your own.

"""


def render() -> str:
    """The text of docs/reference/commands.md, whatever the terminal and the locale are."""
    phrases.use(phrases.ENGLISH)
    root = click.Context(main, info_name="swapconf", **main.context_settings)
    parts = [HEAD, *(f"- {heading} {_links(names)}\n" for heading, names in SECTIONS.items()), "\n"]
    parts.append(_command(main, root, "swapconf"))
    for names in SECTIONS.values():
        for name in (name.replace("_", "-") for name in names):
            command = main.get_command(root, name)
            assert command is not None
            context = click.Context(command, info_name=name, parent=root, **command.context_settings)
            parts.append(_command(command, context, name))
    return "".join(parts).rstrip() + "\n"


def _links(modules: Iterable[str]) -> str:
    return ", ".join(f"[{name}](#{name})" for name in (module.replace("_", "-") for module in modules))


def _command(command: click.Command, context: click.Context, title: str) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"## {title}\n\n", _block([usage], "text"), *map(_paragraph, paragraphs(command.help))]
    rows = [
        record
        for option in command.params
        if isinstance(option, click.Option)
        if (record := option.get_help_record(context)) is not None
    ]
    rows.append((", ".join(context.help_option_names), OF_HELP))
    return "".join([*parts, "| option | meaning |\n|---|---|\n", *(_row(*row) for row in rows), "\n"])


def _paragraph(text: str) -> str:
    if not text.startswith("\b"):
        return re.sub(r"\bdocs/([\w/-]+\.md)", lambda named: f"[{named[0]}]({_from_here(named[1])})", text) + "\n\n"
    lines = text.split("\n")[1:]
    return _block(lines, "bash" if any(line.startswith(("swapconf ", "eval ", "msrun ")) for line in lines) else "text")


def _from_here(page: str) -> str:
    return os.path.relpath(TARGET.parents[1] / page, TARGET.parent)


def _block(lines: Iterable[str], language: str) -> str:
    return f"```{language}\n" + "\n".join(lines) + "\n```\n\n"


def _row(option: str, meaning: str) -> str:
    return f"| `{_cell(option)}` | {_cell(meaning)} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET}")
