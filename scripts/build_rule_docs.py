#!/usr/bin/env python3
"""Write docs/reference/rules.md: the manual page of every rule, from the docstrings of swapconf.decide.rules.

python scripts/build_rule_docs.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from swapconf.config.config import Dialect
from swapconf.decide.rules import dialects_of, every_rule
from swapconf.words.rules import CHECKING, DRY_RUNS, LOGS, MEMORY, READING, REWRITING, STRUCTURE, TIMES

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "rules.md"

REASONS = {
    "default, layer_swap, op_swap": "Swapped as asked; in `swapconf explain --format json` only.",
    "recompute": "Recomputed as asked; in `swapconf explain --format json` only.",
    "covered": "PyNative: the whole layer, or a module around it, is named already, so the module in it is, too.",
    "not-asked": "Nothing was asked for at this operator; in `swapconf explain --format json` only.",
}

HEAD = """\
<!-- Made by scripts/build_rule_docs.py from the docstrings of swapconf.decide.rules; edit those. -->
# Rules

Every finding ends with the name of its rule in brackets: `file:line:col  yaml.path: severity: what is wrong; what was
probably meant, what to do [rule]`. `swapconf rules NAME` prints the page of a rule.

error: the run fails, or surely does not do what was asked. warning: it may. note: worth knowing, nothing to do.

"""


def render() -> str:
    """The text of docs/reference/rules.md."""
    parts = [HEAD, "## Reading the file\n\n"]
    parts += ["### The file itself\n\n", _table(READING), "### Structure of the two sections\n\n", _table(STRUCTURE)]
    parts += ["### Rewriting a file\n\n", _table(REWRITING)]
    parts += ["### Settings, comments and folders\n\n", _table(CHECKING)]
    parts += ["### Dry runs and their traces\n\n", _table(DRY_RUNS)]
    parts += ["### Memory, from a trace\n\n", _table(MEMORY)]
    parts += ["### Logs of a run\n\n", _table(LOGS)]
    parts += ["### Time\n\n", _table(TIMES)]
    parts += ["## Meaning\n\n", *map(_page, every_rule())]
    parts += [
        "## Reasons that are not rules\n\n",
        "The JSON of `swapconf explain` names what asked for a decision in the place of a rule:\n\n",
        "| reason | meaning |\n|---|---|\n",
        *(f"| `{name}` | {text} |\n" for name, text in REASONS.items()),
    ]
    return "".join(parts)


def _table(rules: Mapping[str, tuple[object, str]]) -> str:
    rows = [f"| `{name}` | {severity} | {text} |\n" for name, (severity, text) in rules.items()]
    return "".join(["| rule | severity | reported |\n|---|---|---|\n", *rows, "\n"])


def _page(module: ModuleType) -> str:
    title, _, body = (inspect.getdoc(module) or "").partition("\n")
    name, _, sentence = title.partition(": ")
    assert name == module.RULE, f"{module.__name__}: its docstring has to start with `{module.RULE}: `"
    holds_for = ", ".join(dialect.value for dialect in Dialect if dialect in dialects_of(module))
    return f"### {name}\n\n{_markdown(_capitalised(sentence) + chr(10) + body)}\n\nHolds for: {holds_for}.\n\n"


def _capitalised(sentence: str) -> str:
    """Names (`select_recompute`, `swapconf`) stay as they are."""
    word = sentence.split()[0]
    return sentence if not word.isalpha() or word == "swapconf" else sentence[0].upper() + sentence[1:]


def _markdown(text: str) -> str:
    """The little reStructuredText that the docstrings use: ``code`` and blocks after `::`."""
    text = re.sub(r"::\n\n((?:    .*\n?|\n)+)", _fence, text.rstrip() + "\n")
    return re.sub(r"``(.+?)``", r"`\1`", text).strip()


def _fence(match: re.Match[str]) -> str:
    lines = [line[4:] for line in match[1].rstrip().splitlines()]
    return ":\n\n```yaml\n" + "\n".join(lines) + "\n```\n\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET}")
