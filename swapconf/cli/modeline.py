"""``swapconf modeline``: the comment by which an editor finds the schema of a YAML."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import click

from swapconf.cli.common import EXIT_UNREADABLE, say
from swapconf.cli.schema import FILE_NAME
from swapconf.errors import SwapconfError
from swapconf.formats.modeline import with_modeline
from swapconf.formats.rewrite import replace_content
from swapconf.formats.yaml_document import read_text
from swapconf.phrases import phrase


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--schema", "given", metavar="PATH|URL",
              help=f"The schema (default: the nearest {FILE_NAME} in a folder above the file).")
def command(files: tuple[str, ...], given: str | None) -> None:
    """Add `# yaml-language-server: $schema=...` to YAMLs, or correct it.

    Nothing else in a file changes, and a file that has the line already is not written.

    \b
    swapconf schema --write .
    swapconf modeline configs/llama2_7b/example3_op_swap.yaml
    swapconf modeline --schema ../swapconf.schema.json train.yaml
    """
    for file in files:
        try:
            read_text(file)  # refuses what no YAML reader takes
            schema = given if given is not None and "://" in given else _path(file, given)
            before = Path(file).read_bytes()
            after = with_modeline(before, schema)
            if after != before:
                replace_content(file, after)
        except SwapconfError as error:
            say(str(error), err=True)
            raise SystemExit(EXIT_UNREADABLE) from None
        except OSError as error:
            say(phrase("{file}: cannot be changed: {reason}", file=file, reason=error), err=True)
            raise SystemExit(EXIT_UNREADABLE) from None
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
    raise click.UsageError(phrase("there is no {schema} in a folder above; `swapconf schema --write .` makes one, or "
                                  "give --schema", schema=FILE_NAME))
