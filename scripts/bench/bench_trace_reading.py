#!/usr/bin/env python3
"""Time and memory to read the memory tracker's files at the size of a large run.

    python scripts/bench/bench_trace_reading.py [--blocks 5000000] [--kernels 300000] [--trace FOLDER]

memory_block.csv is made of the rows of a real trace (tests/traces, or --trace), repeated with shifted times, running
sums that add up, node names of which every 48th repeat comes again, and a stack of two Python frames in place of the
real one, until it has --blocks rows. execute_order.csv and tracker_graph.ir repeat in the same way, up to --kernels
launches. Each file is read by a process of its own, which reports seconds, CPU seconds and its largest resident set.
The reader is one thread, so its CPU seconds are what an idle machine needs, and the target is held against these.
For comparison the same memory_block.csv is read by Python's csv.DictReader, which keeps nothing and converts nothing,
and, where it is installed, by pyarrow's reader with one thread, which keeps the used columns.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGET_SECONDS, TARGET_MIB = 30, 2048
NEVER = 2**63 - 1
VARIANTS = 48
STACK = (
    "File:/usr/local/lib/python3.11/site-packages/mindspore/nn/cell.py;Line:1371;Function:__call__|"
    "File:/usr/local/lib/python3.11/traceback.py;Line:228;Function:extract_stack|"
)
MEASURE = """
import resource, sys, time
import numpy
{setup}
start, cpu = time.perf_counter(), time.process_time()
count = {read}
print(count, time.perf_counter() - start, time.process_time() - cpu,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
CSV_SETUP = """
import csv
csv.field_size_limit(1 << 30)
def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return sum(1 for row in csv.DictReader(file, quoting=csv.QUOTE_NONE))
"""
ARROW_SETUP = """
from pyarrow import csv
from swapconf.trace.memory_block import COLUMNS
"""
ARROW_READ = """csv.read_csv(sys.argv[1], read_options=csv.ReadOptions(use_threads=False),
    parse_options=csv.ParseOptions(quote_char=False),
    convert_options=csv.ConvertOptions(include_columns=list(COLUMNS))).num_rows"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=5_000_000, metavar="N")
    parser.add_argument("--kernels", type=int, default=300_000, metavar="N")
    parser.add_argument("--trace", type=Path, default=ROOT / "tests" / "traces" / "llama_l2_layerswap_n1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = _written(folder / "memory_block.csv", islice(_blocks(options.trace), options.blocks + 1))
        ours = _measured("swapconf", path, _setup("memory_block"), "len(reader.read(sys.argv[1]))")
        naive = _measured("csv.DictReader", path, CSV_SETUP, "rows(sys.argv[1])")
        _measured("pyarrow, one thread", path, ARROW_SETUP, ARROW_READ)
        if ours is None or naive is None:
            raise SystemExit(1)
        met = ours[1] <= TARGET_SECONDS and ours[2] <= TARGET_MIB
        print(
            f"swapconf takes {ours[1] / naive[1]:.2f} of the CPU time of csv.DictReader; target of "
            f"{TARGET_SECONDS} s CPU and {TARGET_MIB:,} MiB {'met' if met else 'MISSED'}"
        )
        path.unlink()
        for file, reader, make in (
            ("execute_order.csv", "execute_order", _order),
            ("tracker_graph.ir", "tracker_graph", _graph),
        ):
            path = _written(folder / file, make(options.trace, options.kernels))
            _measured("swapconf", path, _setup(reader), "len(reader.read(sys.argv[1]))")
            path.unlink()


def _setup(reader: str) -> str:
    return f"from swapconf.trace import {reader} as reader"


def _written(path: Path, lines: Iterator[str]) -> Path:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)
    return path


def _blocks(trace: Path) -> Iterator[str]:
    """The header and rows without end. What a repeat leaves behind is freed at its end."""
    header, *rows = (trace / "memory_block.csv").read_text(encoding="utf-8").splitlines()
    names = header.split(",")
    if "python_stack" not in names:
        names.insert(names.index("is_persistent"), "python_stack")
        rows = [
            ",".join(
                [*row.split(",")[: names.index("python_stack")], STACK, *row.split(",")[names.index("python_stack") :]]
            )
            for row in rows
        ]
    yield ",".join(names) + "\n"
    places = [
        names.index(name)
        for name in (
            "start_time_stamp",
            "end_time_stamp",
            "producer_task",
            "task_name",
            "node_name",
            "user_tasks",
            "last_user_task",
            "python_stack",
        )
    ]
    start, end, task, task_name, node, users, last, stack = places
    cells = [[*row.split(",")[:stack], STACK, *row.split(",")[-(len(names) - stack - 1) :]] for row in rows]
    times = [int(time) for row in cells for time in (*_users(row[users]), row[start], row[end], row[last] or "0")]
    length = max(time for time in times if time != NEVER) + 2
    repeat = 0
    while True:
        shift, variant = repeat * length, f"{repeat % VARIANTS}"
        for row in cells:
            row = row.copy()
            row[start] = str(int(row[start]) + shift)
            row[end] = str(shift + (length - 1 if int(row[end]) == NEVER else int(row[end])))
            row[task] = str(int(row[task]) + shift) if row[task] else ""
            row[users] = f"{{{'-'.join(str(int(user) + shift) for user in _users(row[users]))}}}"
            row[task_name] += variant
            row[node] += variant
            yield ",".join(row) + "\n"
        repeat += 1


def _users(text: str) -> list[str]:
    return [user for user in text.strip("{}").split("-") if user]


def _order(trace: Path, kernels: int) -> Iterator[str]:
    header, *rows = (trace / "execute_order.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    yield header
    count = 0
    while count < kernels:
        variant = str(count // len(rows) % VARIANTS)
        for row in rows:
            if row.startswith('"') and row.partition('"')[2][:1].isdigit():
                count += 1
                row = re.sub(r'^"\d+"', f'"{count}"', row).replace('","4294967295', f'{variant}","4294967295')
            yield row


def _graph(trace: Path, kernels: int) -> Iterator[str]:
    """Stacks as long as those in memory_block.csv stand below the tensors of each task."""
    lines = (trace / "tracker_graph.ir").read_text(encoding="utf-8").splitlines(keepends=True)
    length = max(int(found) for found in re.findall(r"task_info: (\d+)", "".join(lines))) + 2
    count = repeat = 0
    while count < kernels:
        shift = repeat * length
        for line in lines:
            if line.startswith("("):
                count += 1
                line = re.sub(r"(%|task_info: )(\d+)", partial(_shifted, shift), line)
                line = re.sub(r"(-op\d+)\(", rf"\g<1>{repeat % VARIANTS}(", line)
            if not line.startswith("    #"):
                yield line
            if line.startswith("    ("):
                yield f"    # {STACK}\n"
        repeat += 1


def _shifted(shift: int, found: re.Match[str]) -> str:
    return f"{found[1]}{int(found[2]) + shift}"


def _measured(what: str, path: Path, setup: str, read: str) -> tuple[float, float, float] | None:
    """(seconds, CPU seconds, MiB) of one process that reads the file."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(setup=setup, read=read), str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"{what:20} cannot: {done.stderr.strip().splitlines()[-1]}")
        return None
    count, seconds, cpu, mib = (float(value) for value in done.stdout.split())
    size = path.stat().st_size
    print(
        f"{what:20} {path.name:18} {size / 2**20:7,.0f} MiB, {count:11,.0f} rows of {size / count:4.0f} bytes: "
        f"{seconds:6.1f} s ({cpu:6.1f} s CPU), {mib:6,.0f} MiB",
        flush=True,
    )
    return seconds, cpu, mib


if __name__ == "__main__":
    main()
