"""docs/evidence/pool.md: MindSpore's pool replayed where blocks are above 1 GiB, from the traces of collect.py.

    python scripts/evidence/collect.py FOLDER --only pp2-vocab && python scripts/evidence/pool_table.py FOLDER

``FOLDER/MODEL.SETTING[@RANK]/`` is one rank that `collect.py`, or `swapconf dryrun --keep`, left behind. Exit code 1 if
an address or a byte differs.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cases import ROOT
from evidence_page import opening

from swapconf.memory.allocators import mindspore
from swapconf.memory.replay import Replay, replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import run_record, trace_folder
from swapconf.words.units import GIB, show_bytes

PAGE = ROOT / "docs/evidence/pool.md"
_SETTING = re.compile(r"\.(?:block|limit)-[0-9.]+GB")
SHORT = ("figure", "as MindSpore's own, to the byte")
COMMENT = "Made by scripts/evidence/pool_table.py from traces of dry runs; edit that."
RULES = """\
`swapconf fragmentation`, the picture of `swapconf memory` and every predicted peak with fragments rest on a \
replay of MindSpore's memory pool. Its rules were measured with MindSpore 2.9.0 (graph mode, `jit_level` O0 and \
O1, `memory_optimize_level` O0, a simulated Ascend) and found again in its public source \
(`abstract_dynamic_mem_pool.cc`, `abstract_ascend_memory_pool_support.cc`); \
`swapconf/memory/allocators/mindspore.py` tells them one by one. What matters for large blocks:

- A piece that the pool asks the device for is its unit (`context.mempool_block_size`, 2 GB unless set), \
**doubled until the request fits**: 4.64 GiB of logits come in a piece of 8 GiB, and with a unit of 3 GB in one \
of 6 GiB.
- From the start there is one persistent piece of 1 GiB, for weights, and one common piece of a unit. Weights \
that find no room in the first go to the common ones; nothing else ever goes to the persistent piece.
- The device cuts both: the unit to what is left but 1 GiB, a piece to what is left. A dry run goes on behind \
the limit, in pieces of exactly the request. A simulated device heeds `context.max_device_memory` up to 32GB \
only; above that MindSpore may use 59.99 GiB there.

A tensor of a round size needs 32 bytes more, and 512 are the grain: one of exactly 2 GiB does not fit a piece \
of 2 GiB.

"""
COLUMNS = """\
*largest*: the largest block. *pieces*: what the pool took of the device, in this order, in GiB. *addresses*: \
blocks that the rules put at MindSpore's own address. *used peak* (`max_memory_allocated`), *with fragments*, \
*reserved*: MindSpore's own figures; in brackets what the replay differs by. *foretold*: what the trace of the \
same model without the setting, placed with it, differs from this run's peak with fragments; this is what \
`--confirm` tries. Other traces: [fragmentation.md](fragmentation.md).

`qwen2.5-7b` is the published YAML for Qwen2.5 7B (mindformers 1.8.0, fine-tuning with 8,192 tokens, vocabulary \
152,064, 2 stages of 4 ranks) with 4 layers, 2 micro-batches, `jit_level` and `memory_optimize_level` O0 and \
without recompute; `narrow` is the same with hidden size 256 and 2 layers. `llama256` is Llama of that width, a \
case of `scripts/evidence/cases.py`. `@4` is the last stage, which holds the logits.

"""
NOT_COVERED = """\
`scripts/evidence/pool_sequences.py` draws tensors of random sizes around whole GiB, allocates them on the simulated \
device under 13 settings of unit and limit, and keeps their addresses; a test places them.

In PyNative mode a piece is the next multiple of its unit instead of a doubled one: 5 GiB come in a piece of 6. All \
addresses of the YAMLs of DeepSeek-V4 that mindformers 2.1.0 ships are found again so \
([PyNative dry runs](pynative.md#the-published-yamls-of-210)).

Not covered: `memory_optimize_level` O1, where MindSpore plans most tensors ahead in a few blocks, so that such \
a trace is replayed in part only and nothing is recommended from it.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case: MindSpore's own figures beside those of the replay. ``foretold_bytes``: None where the case has no
    setting of its own."""

    name: str
    replay: Replay
    largest_bytes: int
    piece_bytes: tuple[int, ...]
    used_bytes: int
    with_fragments_bytes: int
    reserved_bytes: int
    foretold_bytes: int | None

    @property
    def is_right(self) -> bool:
        return self.replay.is_exact and self.foretold_bytes in (None, self.with_fragments_bytes) and not any(_off(self))


def rows(folder: Path) -> Iterator[Row]:
    for path in sorted(folder.glob("*/run.json")):
        yield row(path.parent)


def _baseline(place: Path) -> Path | None:
    """The run of the same model and rank with the pool as mindformers sets it; None where it is this one, or this one
    has other tensors."""
    found = _SETTING.search(place.name)
    return None if found is None else place.with_name(_SETTING.sub(".none", place.name))


def row(place: Path) -> Row:
    rank = int(run_record.report(place)["rank"])
    trace = trace_folder.read(place, rank)
    live, told = lifetimes(trace), run_record.pool(place)
    found = replay(trace, live, told)
    assert told.reserved_bytes is not None
    foretold, baseline = None, _baseline(place)
    if baseline is not None and (baseline / "run.json").exists():
        before = lifetimes(trace_folder.read(baseline, rank))
        foretold = mindspore.place(before, found.pool).mapped_bytes
    return Row(
        name=place.name,
        replay=found,
        largest_bytes=int(live.size_bytes.max()),
        piece_bytes=mindspore.piece_bytes(live, found.pool),
        foretold_bytes=foretold,
        used_bytes=json.loads((place / "result.json").read_text(encoding="utf-8"))["max_memory_allocated_bytes"],
        with_fragments_bytes=trace.with_fragments_peak_bytes,
        reserved_bytes=told.reserved_bytes,
    )


def render(found: list[Row]) -> str:
    head = ("case", "largest", "pieces", "addresses", "used peak", "with fragments", "reserved", "foretold")
    return (
        "\n".join(opening("MindSpore's pool, replayed", _result(found), SHORT, _short(found), COMMENT))
        + "\n"
        + _wrapped(RULES)
        + "## Every case\n\n"
        + _wrapped(COLUMNS)
        + "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *map(_line, found)])
        + "\n\n"
        + _wrapped(NOT_COVERED)
    )


def _result(found: list[Row]) -> str:
    same, blocks = sum(item.replay.num_same for item in found), sum(item.replay.num_blocks for item in found)
    right = sum(item.is_right for item in found)
    return (
        f"{right} of {len(found)} cases with large blocks are right to the byte, with {same:,} of {blocks:,} blocks at "
        "MindSpore's own addresses."
    )


def _short(found: list[Row]) -> list[tuple[str, str]]:
    """Rows of SHORT."""
    offs = [_off(item) for item in found]
    names = ("used peak", "with fragments", "reserved")
    foretold = [item for item in found if item.foretold_bytes is not None]
    return [
        *((name, f"{sum(not off[place] for off in offs)} of {len(offs)}") for place, name in enumerate(names)),
        (
            "with fragments, foretold from the trace without the setting",
            f"{sum(item.foretold_bytes == item.with_fragments_bytes for item in foretold)} of {len(foretold)}",
        ),
    ]


def _off(item: Row) -> tuple[int, int, int]:
    """By what the replay differs: used peak, with fragments, reserved."""
    placement = item.replay.placement
    return (
        placement.used_peak_bytes - item.used_bytes,
        placement.mapped_bytes - item.with_fragments_bytes,
        placement.reserved_bytes - item.reserved_bytes,
    )


def _line(item: Row) -> str:
    off = _off(item)
    cells = (
        f"`{item.name}`",
        show_bytes(item.largest_bytes),
        _pieces(item.piece_bytes),
        f"{item.replay.num_same:,} of {item.replay.num_blocks:,}",
        f"{item.used_bytes:,} ({off[0]})",
        f"{item.with_fragments_bytes:,} ({off[1]})",
        f"{item.reserved_bytes / GIB:.2f}G ({off[2]})",
        "" if item.foretold_bytes is None else f"{item.foretold_bytes - item.with_fragments_bytes}",
    )
    return f"| {' | '.join(cells)} |"


def _pieces(sizes: tuple[int, ...]) -> str:
    return " + ".join(f"{size / GIB:.4g}" for size in sizes)


def _wrapped(text: str) -> str:
    lines = (
        textwrap.fill(
            line,
            120,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.splitlines()
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    found = list(rows(parser.parse_args().folder))
    PAGE.write_text(render(found), encoding="utf-8")
    raise SystemExit(not all(item.is_right for item in found))


if __name__ == "__main__":
    main()
