"""Steps of real pipelines against the formula of 1F1B, from traces of collect.py; a table of docs/reference/compare.md.

python scripts/evidence/pipeline_table.py FOLDER [--hardware ascend_910b2]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from swapconf.compare.folders import RankTrace
from swapconf.compare.traced import time_of
from swapconf.timing import hardware
from swapconf.timing.cost import Host, Machine
from swapconf.timing.costing import costs, workload
from swapconf.timing.joint import joint_replay
from swapconf.timing.meetings import absent, calls, meetings
from swapconf.timing.program import program
from swapconf.timing.schedule import expected_us, schedule
from swapconf.timing.timing import COMPUTE
from swapconf.trace import run_record, trace_folder

HEAD = (
    "| trace | only computing: step | formula | with all: step | formula | bubbles | busiest over mean |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def pipelines(folder: Path) -> Iterator[tuple[str, list[RankTrace]]]:
    """The cases of which all stages are there: ``llama512-pp2.none`` with ``llama512-pp2.none@4``."""
    for place in sorted(path for path in folder.glob("*") if "@" not in path.name):
        places = [place, *sorted(folder.glob(f"{place.name}@*"))]
        if len(places) > 1:
            ranks = [int(part.name.partition("@")[2] or 0) for part in places]
            found = [
                RankTrace(rank=rank, stage=index, trace=trace_folder.read(part, rank), report=run_record.report(part))
                for index, (rank, part) in enumerate(zip(ranks, places, strict=True))
            ]
            if not absent({item.rank: calls(item.trace, item.rank) for item in found}):
                yield place.name, found


def row(name: str, ranks: list[RankTrace], machine: Machine) -> str:
    whole = time_of(ranks, machine)
    assert whole.pipeline is not None
    steps = [program(item.trace) for item in ranks]
    made = {item.rank: calls(item.trace, item.rank) for item in ranks}
    known = [costs(workload(item.trace), machine.hardware) for item in ranks]
    computing = [np.where(step.kind == COMPUTE, item.duration_us, 0.0) for step, item in zip(steps, known, strict=True)]
    plan = schedule(made)
    assert plan is not None
    free = joint_replay(list(made), steps, computing, meetings(made)).step_us
    expected = expected_us(plan, steps, computing, list(made.values()))
    return (
        f"| {name} | {free / 1000:.3f} ms | {expected / 1000:.3f} ms ({free / expected - 1:+.2%}) | "
        f"{whole.joint.step_us / 1000:.3f} ms | {whole.pipeline.formula_us / 1000:.3f} ms | "
        f"{whole.joint.bubble_share:.1%} | {whole.joint.imbalance:.1%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hardware", default="ascend_910b2")
    options = parser.parse_args()
    machine = Machine(hardware=hardware.load(options.hardware), host=Host())
    print(HEAD)
    for name, ranks in pipelines(options.folder):
        print(row(name, ranks, machine), flush=True)


if __name__ == "__main__":
    main()
