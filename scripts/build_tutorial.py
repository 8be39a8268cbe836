#!/usr/bin/env python3
"""Runs every command of docs/tutorial.md, in order, and writes what it prints below it.

    python scripts/build_tutorial.py [--check]

--check writes nothing: exit code 1 where a command prints something else than the page shows. What differs from run to
run (seconds, base addresses) is not compared. Takes some minutes. [mindspore, mindformers]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
_SHOWN = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SECONDS = re.compile(r"^(\S+\.yaml\s.*\S) +(?:\d+|cached)$", re.MULTILINE)  # the last column of a dry run's table
_ADDRESS = re.compile(r"(base address) \d+")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    given = options.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        made = rendered(text, Path(folder))
    if not given.check:
        PAGE.write_text(made, encoding="utf-8")
    sys.exit(given.check and lasting(made) != lasting(text))


def rendered(text: str, folder: Path) -> str:
    """The page with what its commands print in an empty folder."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "SWAPCONF_LANG": "en",
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"),
    }

    def run(block: re.Match[str]) -> str:
        lines = []
        for line in block[1].splitlines():
            if line.startswith("$ "):
                done = subprocess.run(
                    ["bash", "-c", line[2:]],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    check=False,
                )
                lines += [line, *(printed.rstrip() for printed in done.stdout.rstrip().splitlines())]
        return "```console\n" + "\n".join(lines) + "\n```"

    return _SHOWN.sub(run, text)


def lasting(text: str) -> str:
    """What does not differ from run to run."""
    return _ADDRESS.sub(r"\1", _SECONDS.sub(r"\1", text))


if __name__ == "__main__":
    main()
