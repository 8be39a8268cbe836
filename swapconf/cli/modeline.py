"""``swapconf modeline``: the comment by which an editor finds the schema of a YAML."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import click

from swapconf.cli.common import say, writing
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.cli.schema import FILE_NAME
from swapconf.config.modeline import with_modeline
from swapconf.config.yaml_document import MAX_BYTES, read_text
from swapconf.files.opening import read_bytes
from swapconf.files.replace import replace_content
from swapconf.words.phrases import phrase


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=FILE)
@click.option(
    "--schema",
    "given",
    metavar="PATH|URL",
    type=FILE,
    help=f"The schema (default: the nearest {FILE_NAME} in a folder above the file).",
)
def command(files: tuple[str, ...], given: str | None) -> None:
    """Add `# yaml-language-server: $schema=...` to YAMLs, or correct it.

    The line tells an editor which schema to use, for completion and for mistakes (docs/how-to/editor.md). Nothing else
    in a file changes; a file that has the line already is not written.

    \b
    swapconf schema --write .
    swapconf modeline configs/llama2_7b/example3_op_swap.yaml
    swapconf modeline --schema ../swapconf.schema.json train.yaml

    Exit codes: 0 every file has the line; 2 a file could not be read or written, no schema was found, or the command
    line is wrong."""
    for file in files:
        read_text(file)  # refuses what no YAML reader takes
        schema = given if given is not None and "://" in given else _path(file, given)
        with writing(file):
            before = read_bytes(file, MAX_BYTES)
            after = with_modeline(before, schema)
            if after != before:
                replace_content(file, after)
        say(phrase("{file}: unchanged", file=file) if after == before else f"{file}: {schema}")


def _path(file: str, given: str | None) -> str:
    """The schema from the folder of the file, as a relative URL: the editor reads it so, and it must hold no blank."""
    folder = Path(os.path.abspath(file)).parent
    schema = Path(os.path.abspath(given)) if given is not None else _nearest(folder)
    return quote(os.path.relpath(schema, folder).replace(os.sep, "/"), safe="/:")


def _nearest(folder: Path) -> Path:
    for parent in (folder, *folder.parents):
        if (parent / FILE_NAME).is_file():
            return parent / FILE_NAME
    raise click.UsageError(
        phrase(
            "there is no {schema} in a folder above; `swapconf schema --write .` makes one, or give --schema",
            schema=FILE_NAME,
        )
    )
