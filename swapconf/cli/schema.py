"""``swapconf schema``: the JSON Schemas, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from swapconf.checking.editor import NAMES, editor_schema
from swapconf.cli.common import say, writing
from swapconf.cli.help import Command
from swapconf.files.writing import write_named
from swapconf.words.phrases import phrase

FILE_NAME = "swapconf.schema.json"  # the one that a modeline points to, unless told otherwise


@click.command(cls=Command)
@click.argument("name", type=click.Choice(NAMES), default="training", metavar=f"[{'|'.join(NAMES)}]")
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path),
    metavar="FOLDER|FILE.json",
    help=f"Write it here; in a folder, as {FILE_NAME} with the sections beside it.",
)
def command(name: str, target: Path | None) -> None:
    """Print a JSON Schema of the training YAML, or install it where an editor finds it.

    training describes the swap and recompute sections of a whole training YAML, with the operators of the model that
    the YAML names; swap_config and recompute_config describe one section. Editors: docs/how-to/editor.md. See also
    `swapconf modeline`.

    \b
    swapconf schema
    swapconf schema --write .
    swapconf schema swap_config --write schemas/swap.json

    Exit codes: 0 printed or written; 2 a file could not be written, or the command line is wrong.
    """
    if target is None:
        click.echo(_text(name))
        return
    files = (
        {target: name}
        if target.suffix == ".json"
        else {target / (FILE_NAME if each == "training" else f"{each}.schema.json"): each for each in NAMES}
    )
    for file, each in files.items():
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_named(file, _text(each) + "\n")
        say(phrase("wrote {file}", file=file))


def _text(name: str) -> str:
    return json.dumps(editor_schema(name), indent=2, ensure_ascii=False)
