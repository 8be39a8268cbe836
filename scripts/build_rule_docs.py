#!/usr/bin/env python3
"""Write docs/rules.md: the manual page of every rule, from the docstrings of swapconf.resolve.rules.

    python scripts/build_rule_docs.py
"""

import inspect
import re
from pathlib import Path

from swapconf.resolve.rules import RULES

TARGET = Path(__file__).resolve().parents[1] / "docs" / "rules.md"

# Rules that have no module: what `swapconf.formats` finds while it reads a file.
READING = {
    "file-not-found": ("error", "The file does not exist, is a folder, or may not be read."),
    "yaml-encoding": ("error", "The file is not UTF-8; the place of the first wrong byte is given."),
    "yaml-empty": ("error", "The file holds no value."),
    "yaml-syntax": ("error", "The file is not valid YAML, holds a second document, or has a key that is not text."),
    "yaml-not-mapping": ("error", "The top level is a list or a single value."),
    "yaml-too-large": ("error", "More than 4,000,000 bytes or 400,000 YAML events."),
    "yaml-too-deep": ("error", "Nested deeper than 60 levels."),
    "yaml-alias-bomb": ("error", "Aliases or merge keys that expand to more than 200,000 values, or that contain "
                                 "themselves."),
    "yaml-huge-number": ("error", "A number of more than 40 characters."),
    "yaml-tag": ("error", "A tag such as `!!python/tuple`, which mindformers' safe loader refuses."),
    "yaml-duplicate-key": ("error", "A key that stands twice in one mapping; PyYAML keeps the last value silently."),
    "yaml-trap": ("warning, note", "A plain value that YAML 1.1 reads as something else: `010` (octal), `1:30` (base "
                                   "60), `1e3` (text); a note for `yes`, `no`, `on`, `off` (booleans)."),
}
STRUCTURE = {
    "bad-type": ("error", "A value of the wrong type, such as `swap: 1`, `layers: 2`, `layers: (0, 1)` or "
                          "`backward_prefetch: True`."),
    "bad-value": ("error", "A value of the right type that cannot be used, such as `backward_prefetch: 0`."),
    "missing-key": ("error", "An entry of `layer_swap` or `op_swap` without `layers`, `backward_prefetch` or "
                             "`op_name`."),
    "unknown-key": ("error, warning", "A key that the section does not have: mindformers stops (error); one that an "
                                      "entry does not have: mindformers ignores it (warning)."),
    "recompute-form": ("error", "A form of `recompute`, `select_recompute` or their relatives that mindformers does "
                                "not take, or not together with swap: counts are flat or nested one level without "
                                "swap, layer indices are flat with it."),
    "section-given-twice": ("error", "An mcore model with settings both in `swap_config` (or `recompute_config`) and "
                                     "in `model.model_config`."),
    "section-misplaced": ("warning", "A legacy model with swap or recompute settings in `model.model_config`, where "
                                     "nothing reads them."),
}
REASONS = {
    "exclude": "Every operator of the entry is in an exclude list.",
    "needs-primitive": "The list takes single operators (primitives), and this is a cell.",
    "default, layer_swap, op_swap": "Swapped as asked; in `swapconf explain --format json` only.",
    "recompute": "Recomputed as asked; in `swapconf explain --format json` only.",
    "not-asked": "Nothing was asked for at this operator; in `swapconf explain --format json` only.",
}

HEAD = """\
<!-- Made by scripts/build_rule_docs.py from the docstrings of swapconf.resolve.rules; edit those. -->
# Rules

Every finding ends with the name of its rule in brackets: `file:line:col  yaml.path: severity: what is wrong; what was
probably meant, what to do [rule]`. `swapconf rules NAME` prints the page of a rule of the second part.

error: the run fails, or surely does not do what was asked. warning: it may. note: worth knowing, nothing to do.

"""


def render():
    """The text of docs/rules.md."""
    parts = [HEAD, "## Reading the file\n\n"]
    parts += ["### The file itself\n\n", _table(READING), "### Structure of the two sections\n\n", _table(STRUCTURE)]
    parts += ["## Meaning\n\n", *map(_page, RULES)]
    parts += ["## Reasons that are not rules\n\n",
              "`Skip ...` log lines and the JSON of `swapconf explain` name a reason in the place of a rule:\n\n",
              "| reason | meaning |\n|---|---|\n", *(f"| `{name}` | {text} |\n" for name, text in REASONS.items())]
    return "".join(parts)


def _table(rules):
    rows = [f"| `{name}` | {severity} | {text} |\n" for name, (severity, text) in rules.items()]
    return "".join(["| rule | severity | reported |\n|---|---|---|\n", *rows, "\n"])


def _page(module):
    title, _, body = inspect.getdoc(module).partition("\n")
    name, _, sentence = title.partition(": ")
    assert name == module.RULE, f"{module.__name__}: its docstring has to start with `{module.RULE}: `"
    return f"### {name}\n\n{_markdown(_capitalised(sentence) + chr(10) + body)}\n\n"


def _capitalised(sentence):
    """Names (`select_recompute`, `swapconf`) stay as they are."""
    word = sentence.split()[0]
    return sentence if not word.isalpha() or word == "swapconf" else sentence[0].upper() + sentence[1:]


def _markdown(text):
    """The little reStructuredText that the docstrings use: ``code`` and blocks after `::`."""
    text = re.sub(r"::\n\n((?:    .*\n?|\n)+)", _fence, text.rstrip() + "\n")
    return re.sub(r"``(.+?)``", r"`\1`", text).strip()


def _fence(match):
    lines = [line[4:] for line in match[1].rstrip().splitlines()]
    return ":\n\n```yaml\n" + "\n".join(lines) + "\n```\n\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET}")
