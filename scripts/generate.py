#!/usr/bin/env python3
"""Writes every file that is made from the code and can be made in seconds: translations and pages.

    python scripts/generate.py [--check]

--check writes nothing: exit code 1 where a file is not what would be written, or a phrase is not translated. What takes
MindSpore, or traces, to make has a script of its own: build_families.py, build_tutorial.py and evidence/.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import build_command_docs
import build_rule_docs
import build_translations

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts" / "evidence"))

import cards  # noqa: E402
import levels_table  # noqa: E402
import published  # noqa: E402
import whole_device  # noqa: E402


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    check = options.parse_args().check
    changed = [(file, content) for file, content in files() if not file.exists() or file.read_bytes() != content]
    for file, content in changed:
        print(f"{'differs' if check else 'written'}: {file.relative_to(ROOT)}")
        if not check:
            file.write_bytes(content)
    untranslated = list(build_translations.untranslated())
    for language, text in untranslated:
        print(f"{language}: not translated: {text!r}")
    if check and (changed or untranslated):
        sys.exit("run `just generate`; translate in the .po file, and run it again")


def files() -> Iterator[tuple[Path, bytes]]:
    """Each file, and what it has to hold."""
    yield from build_translations.files()
    for page, text in (
        (build_rule_docs.TARGET, build_rule_docs.render()),
        (build_command_docs.TARGET, build_command_docs.render()),
        (levels_table.PAGE, levels_table.with_rules()),
        (published.PAGE, published.page()),
        (whole_device.PAGE, whole_device.page()),
        (cards.PAGE, cards.page(cards.priced(), cards.told())),
    ):
        yield page, text.encode()


if __name__ == "__main__":
    main()
