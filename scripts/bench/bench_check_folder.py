#!/usr/bin/env python3
"""Time and memory of ``swapconf check FOLDER`` on many YAMLs of real size.

    python scripts/bench/bench_check_folder.py [--files 1000] [--repeats 3]

The YAMLs are variants of those in configs/, filled up to 200 to 300 lines with sections that training YAMLs have; every
one has other layers, prefetches and operators, so that no answer can be reused. Whole processes; memory is that of the
command and its processes together, at its highest, sampled every 20 ms from /proc (Linux). To see whether it grows with
the number of files, a tenth of them is checked, too.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = (200, 300)
OPERATORS = (
    "attention",
    r"attention\.flash_attention",
    "feed_forward",
    r"feed_forward\.w1",
    "attention.wq",
    "Attention",
    r"mlp\.linear_fc1",
    "self_attention",
)
INTERVAL_SECONDS = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000, metavar="N")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    options = parser.parse_args()
    print(f"{'files':>6} {'lines':>8} {'seconds, median (least to most)':>32} {'highest memory':>15}")
    for count in (options.files // 10, options.files):
        with tempfile.TemporaryDirectory() as folder:
            lines = write_files(Path(folder), count)
            runs = [measure(Path(folder)) for _ in range(options.repeats)]
        seconds, peaks = zip(*runs, strict=True)
        spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
        print(f"{count:>6} {lines:>8} {spread:>32} {max(peaks) / 2**20:>11.0f} MiB")


def write_files(folder: Path, count: int) -> int:
    """Write so many YAMLs; their lines, together."""
    bases = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "configs").rglob("*.yaml"))]
    total = 0
    for number in range(count):
        text = variant(bases[number % len(bases)], random.Random(number))
        (folder / f"train_{number:04}.yaml").write_text(text, encoding="utf-8")
        total += len(text.splitlines())
    return total


def variant(base: str, chance: random.Random) -> str:
    """A config with a swap of its own and as many further sections as its length asks for."""
    lines = base.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("swap_config:"))
    end = next(index for index in range(start + 1, len(lines)) if lines[index][:1] not in ("", " ", "#"))
    swap = ["swap_config:", "  swap: True", "  op_swap:"]
    for operator in chance.sample(OPERATORS, 3):
        swap += [
            f"    - op_name: '{operator}'",
            f"      backward_prefetch: {chance.randint(1, 50)}",
            f"      layers: {sorted(chance.sample(range(5), 3))}",
        ]
    lines[start:end] = swap
    while len(lines) < chance.randint(*LINES):
        number = len(lines)
        lines += [
            f"eval_dataset_{number}:  # not read by swapconf",
            "  data_loader:",
            "    type: MindDataset",
            f"    dataset_dir: './data/{number}'",
            "    shuffle: False",
            "  input_columns: ['input_ids', 'labels']",
            f"  seed: {chance.randint(0, 9999)}",
            "  prefetch_size: 1",
            "",
        ]
    return "\n".join(lines) + "\n"


def measure(folder: Path) -> tuple[float, int]:
    """Seconds and highest memory in bytes of one check."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "swapconf", "check", str(folder)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(resident_bytes(number) for number in family(process.pid)))
            time.sleep(INTERVAL_SECONDS)
        told = process.stderr.read() if process.stderr else ""
    if process.returncode not in (0, 1) or " in " not in told:
        raise SystemExit(f"the check did not end well:\n{told[-2000:]}")
    return time.perf_counter() - start, peak


def family(process: int) -> list[int]:
    """A process and all that it started."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [process, *(number for child in children for number in family(int(child)))]


def resident_bytes(process: int) -> int:
    """Proportional share of what a process holds; pages that processes share are counted once."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
