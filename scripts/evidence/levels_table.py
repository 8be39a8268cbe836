"""docs/reference/levels.md: the rules of workspace, and what levels 2 and 3 add to traces of collect.py.

    python scripts/evidence/collect.py FOLDER && PYTHONPATH=. python scripts/evidence/levels_table.py FOLDER

Without FOLDER only the rules are written anew.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from swapconf.dryrun.levels import simulated
from swapconf.memory.with_workspace import grow
from swapconf.memory.workspace_rules import RULES
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.trace import trace_folder

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "levels.md"
CARD = "ascend_910b2"
CASES = (
    "llama4096-l2.none",
    "llama4096-l4.none",
    "llama4096-l4.layer-n20",
    "llama512-l4.none",
    "llama512-l4.layer-n10",
    "llama512-l4.recompute",
    "llama512-pp4.none",
    "llama512-pp4.none@6",
    "qwen3-l4.none",
    "deepseek_v3-l4.none",
)


def rules() -> str:
    rows = [f"| {rule.operators} | {rule.formula} | {rule.basis.value} | {rule.source} |" for rule in RULES.values()]
    return (
        "\n".join(
            [
                "| operators | bytes | basis | source |",
                "|---|---|---|---|",
                *rows,
                "| views, `MoveTo`, collectives | none | | views and copies compute nothing; HCCL has buffers of "
                "its own |",
            ]
        )
        + "\n"
    )


def figures(folder: Path) -> str:
    machine = Machine(hardware=hardware.load(CARD))
    rows = []
    for name in CASES:
        trace = trace_folder.read(folder / name, rank=int(name.partition("@")[2] or 0))
        grown = grow(trace)
        largest = grown.workspace.largest
        kernel = next(task.primitive for task in trace.tasks if task.event == grown.workspace.event[largest])
        step = simulated(grown, machine)
        rows.append(
            f"| {name} | {_mib(trace.used_peak_bytes)} | {_mib(grown.trace.used_peak_bytes)} | "
            f"{_mib(int(grown.workspace.size_bytes[largest]))} | {kernel} | {step.step_ns / 1e6:.2f} |"
        )
    card = machine.hardware.name
    head = f"| case | used peak, level 1 (MiB) | level 2 | largest workspace | of | step on {card} (ms) |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows]) + "\n"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.1f}"


def replaced(text: str, name: str, content: str) -> str:
    """With other content between ``<!-- NAME -->`` and ``<!-- end of NAME -->``."""
    pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end of {name} -->)"
    return re.sub(pattern, lambda found: f"{found[1]}\n{content}{found[2]}", text, flags=re.DOTALL)


def with_rules() -> str:
    """The page with the rules of today."""
    return replaced(PAGE.read_text(encoding="utf-8"), "rules", rules())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    folder = parser.parse_args().folder
    text = with_rules()
    if folder is not None:
        text = replaced(text, "figures", figures(folder))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
