"""docs/evidence/whole-device.md: what cards held in public runs, beside what swapconf says that a card holds.

    PYTHONPATH=. python scripts/evidence/whole_device.py

The measured figures stand in scripts/evidence/published/whole_device.csv with their source below. Every second run, by
name, is fitted (`fitted`), and swapconf/timing/hardware/generic.json has its figures, rounded outward; the others are
shown.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from evidence_page import opening

from swapconf.memory.whole_device import Beside, PartName, WholeDevice, exact
from swapconf.study.beside import measured_parts
from swapconf.timing import hardware
from swapconf.words.units import GIB, MIB

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "whole-device.md"
DATA = Path(__file__).with_name("published") / "whole_device.csv"
SOURCE = "github.com/qsstudyai/hbmprediction, validation/real_npu at 187968d"
_GROUP_BYTES = 2 * 200 * MIB
_QUIET_BYTES = GIB

COMMENT = "Made by scripts/evidence/whole_device.py from scripts/evidence/published/whole_device.csv; edit these."
HEAD = """\
A card holds more than MindSpore's pool. `dryrun`, `whatif` and `compare` tell it in parts, each with the least, the
middle and the most, and `--budget` of `dryrun` and `plan` counts the most where it reaches into that. No card was at
hand, so the parts are held against public runs: 25 of Qwen3 and DeepSeek-V3, small in width and 4 to 46 layers deep, on
eight Ascend cards with MindSpore 2.10 in PyNative mode
({source}).
Of each run there is what was sampled on every card before it and while it ran, and what MindSpore's profiler says of
the pool of one rank.

| part | least | middle | most | how it is known |
|---|---|---|---|---|
| MindSpore's pool | used | used | with fragments | its peak, from a dry run or a what-if: with virtual memory, the \
default, the pool of a card took 0.1 % more than was used ([pynative-cards.md](pynative-cards.md)); without \
(`MS_ALLOC_CONF=enable_vmm:False`) all three are with fragments; `context.max_device_memory` limits this and nothing \
else |
| operator workspace | 0 | largest | largest | CANN's rules ([levels.md](../reference/levels.md)); from level 2 on in \
the pool |
| buffers of HCCL | | | | 2 x `HCCL_BUFFSIZE` (200 MiB) for each group that communicates; see below |
{parts}

What these runs show:

- MindSpore's profiler writes the pool in MB of 1,000 KiB, and the repository reads them as 10^6 bytes: its pools are
  2.4 % too small, and what it calls untracked is that much too large. Read as KiB, all 25 pools are whole MiB.
- What is left beside idle card, pool and two buffers of 200 MiB for each group is 0.28 to 0.33 GiB in eight runs with
  1, 3 and 4 groups, though the repository has 0.9 to 2.5 GB there: so these are the buffers of HCCL.
- In PyNative mode the pool of one rank does not tell that of another, nor of another moment. In six of eight runs with
  dp8 the fullest card held 2.0 GiB more than that (about one tensor of logits, [4096, 129280] in 32 bits), with context
  parallelism up to 5.2 GiB, for moments, there on the measured rank itself. A static graph is compiled to one plan of
  memory, so this part counts in PyNative mode only; no public run of a static graph was found that would show it.
- One of the 25 started while its cards still held 1.5 GiB more than in all others, which is the most of *idle card*; it
  ended with an error.

*beside*: what the fullest card held beside the pool of the measured rank. *left*: of that, beside the idle card and
HCCL. *range*: least to most of pool, HCCL and the parts above. Groups are those of the layout: all ranks, and each kind
of parallelism that is not all ranks. All in GiB.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """``pool_bytes``: of the measured rank. ``idle_bytes``, ``total_bytes``: of the card with most."""

    name: str
    layout: str
    groups: int
    pool_bytes: int
    idle_bytes: int
    total_bytes: int

    @property
    def buffers_bytes(self) -> int:
        return self.groups * _GROUP_BYTES

    @property
    def left_bytes(self) -> int:
        """What neither pool nor HCCL nor the idle card explains."""
        return self.total_bytes - self.pool_bytes - self.buffers_bytes - self.idle_bytes

    def told(self) -> WholeDevice:
        """What swapconf says of it."""
        buffers = exact(PartName.COMMUNICATION, self.buffers_bytes, "")
        parts = (buffers, *measured_parts(hardware.load(hardware.GENERIC), is_pynative=True))
        return Beside(parts=parts, card_bytes=64 * GIB).whole(self.pool_bytes, "")

    @property
    def is_inside(self) -> bool:
        told = self.told()
        return told.least_bytes <= self.total_bytes <= told.most_bytes


def runs() -> list[Run]:
    """By name."""
    with DATA.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    found = [
        Run(
            name=row["case"],
            layout=row["layout"],
            groups=int(row["groups"]),
            pool_bytes=int(row["pool_kib"]) * 1024,
            idle_bytes=int(row["total_bytes"]) - int(row["dynamic_bytes"]),
            total_bytes=int(row["total_bytes"]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda run: run.name)


def halves() -> tuple[list[Run], list[Run]]:
    """(fitted, shown)"""
    found = runs()
    return found[::2], found[1::2]


def fitted(of: Sequence[Run]) -> dict[str, tuple[float, float, float]]:
    """(least, middle, most) in GiB of each part that no program tells."""
    idle = [run.idle_bytes / GIB for run in of]
    left = [run.left_bytes / GIB for run in of]
    quiet = [run.left_bytes / GIB for run in of if run.left_bytes < _QUIET_BYTES]
    middle = median(quiet)
    return {
        "idle": (min(idle), median(idle), max(idle)),
        "runtime": (min(quiet), middle, max(quiet)),
        "elsewhere": (0.0, median(left) - middle, max(left) - max(quiet)),
    }


def inside_of(fit: dict[str, tuple[float, float, float]], of: Sequence[Run]) -> int:
    """How many runs lie in the range of a fit, without rounding."""
    least = sum(low for low, _, _ in fit.values())
    most = sum(high for _, _, high in fit.values())
    beside = [(run.total_bytes - run.pool_bytes - run.buffers_bytes) / GIB for run in of]
    return sum(least <= size <= most for size in beside)


def page() -> str:
    fit, shown = halves()
    words = {
        PartName.IDLE: "idle card",
        PartName.RUNTIME: "runtime of CANN and the driver",
        PartName.ELSEWHERE: "pool of other ranks and moments (PyNative)",
    }
    parts = "\n".join(
        f"| {words[part.name]} | {part.least_bytes / GIB:.2f} GiB | {part.middle_bytes / GIB:.2f} GiB | "
        f"{part.most_bytes / GIB:.2f} GiB | fitted below |"
        for part in measured_parts(hardware.load(hardware.GENERIC), is_pynative=True)
    )
    found = fit + shown
    other = fitted(shown)
    result = (
        f"{_inside(found)} of {len(found)} public runs on cards hold what swapconf says, from the least to the most, "
        f"and {_near(found)} of them lie within 10 % of its middle."
    )
    rows = [
        ("fitted, every second by name", f"{_inside(fit)} of {len(fit)}"),
        ("not fitted", f"{_inside(shown)} of {len(shown)}"),
        ("the other way round: fitted", f"{inside_of(other, shown)} of {len(shown)}"),
        ("the other way round: not fitted", f"{inside_of(other, fit)} of {len(fit)}"),
    ]
    text = [
        *opening("The whole device", result, ("runs", "in the range"), rows, COMMENT),
        HEAD.format(source=SOURCE, parts=parts),
        "Fitted the other way round fewer lie in the range, because the three runs that hold most are in this half.\n",
        "## Fitted\n",
        _table(fit),
        "## Shown\n",
        _table(shown),
    ]
    return "\n".join(text)


def _inside(of: Sequence[Run]) -> int:
    return sum(run.is_inside for run in of)


def _near(of: Sequence[Run]) -> int:
    return sum(abs(run.told().middle_bytes / run.total_bytes - 1) <= 0.1 for run in of)


def _table(of: Sequence[Run]) -> str:
    head = (
        "| run | layout | groups | pool | beside | left | card held | range | middle | inside |\n" + "|---" * 10 + "|"
    )
    rows = [
        f"| {run.name} | {run.layout} | {run.groups} | {_gib(run.pool_bytes)} | "
        f"{_gib(run.total_bytes - run.pool_bytes)} | {_gib(run.left_bytes)} | {_gib(run.total_bytes)} | "
        f"{_gib(run.told().least_bytes)} to {_gib(run.told().most_bytes)} | {_gib(run.told().middle_bytes)} | "
        f"{'yes' if run.is_inside else 'no'} |"
        for run in of
    ]
    return "\n".join([head, *rows]) + "\n"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f}"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
