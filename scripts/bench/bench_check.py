#!/usr/bin/env python3
"""Time to learn that a YAML is wrong: ``swapconf check`` against starting mindformers until it raises.

    python scripts/bench/bench_check.py [--repeats 9] [--cold]

The YAML is one that mindformers ships (Qwen3-MoE, about 200 lines, read from the installed package) with a mistake of
one value appended. Whole processes, alternating A B A B. mindformers is started as run_mindformer.py starts it, on one
device and without communication, which is its best case. Needs mindspore and mindformers.

--cold empties the kernel's file cache before every process (Linux, root), as after a login or on a fresh container.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

SHIPPED = "configs/qwen3_moe/pretrain_qwen3_30b_a3b_4k.yaml"
MISTAKE = """
swap_config:
  swap: True
  layer_swap:
    - backward_prefetch: 20
      layers: 'True'
"""
START_MINDFORMERS = """
import sys
from mindformers import Trainer
from mindformers.core.context import build_context
from mindformers.tools.register import MindFormerConfig
config = MindFormerConfig(sys.argv[1])
config.context.device_target = "CPU"
config.use_parallel = False
build_context(config)
Trainer(config).train()
"""
SAME_ERROR = {
    "swapconf check": "swap_config.layer_swap[0].layers: error:",
    "starting mindformers": "Invalid layer_swap configuration: True.",
}
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"  # pip wrote that of mindformers; a checkout would be compiled in every process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, metavar="N")
    parser.add_argument("--cold", action="store_true", help="empty the file cache before every process")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "bad.yaml"
        config.write_text(_shipped_config().read_text(encoding="utf-8") + MISTAKE, encoding="utf-8")
        lines = len(config.read_text(encoding="utf-8").splitlines())
        commands = {
            "swapconf check": [sys.executable, "-m", "swapconf", "check", str(config)],
            "starting mindformers": [sys.executable, "-c", START_MINDFORMERS, str(config)],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(options.repeats + 1):
            for name, command in commands.items():
                elapsed = _run(name, command, folder, options.cold)
                if turn:  # the first turn writes the byte code of both
                    seconds[name].append(elapsed)
    print(
        f"{Path(SHIPPED).name} with a mistake, {lines} lines; {'cold' if options.cold else 'warm'} file cache; "
        f"seconds, median (least to most) of {options.repeats}"
    )
    for name, found in seconds.items():
        print(f"{name:22}{statistics.median(found):7.3f} ({min(found):.3f} to {max(found):.3f})")
    check, start = (statistics.median(found) for found in seconds.values())
    print(f"swapconf check is {start / check:.1f} times faster")


def _shipped_config() -> Path:
    files = metadata.files("mindformers") or []
    found = next((file for file in files if str(file) == SHIPPED), None)
    if found is None:
        raise SystemExit(f"the installed mindformers has no {SHIPPED}")
    return Path(str(found.locate()))


def _run(name: str, command: list[str], folder: str, cold: bool) -> float:
    if cold:
        os.sync()
        DROP_CACHES.write_text("3", encoding="ascii")
    environment = {variable: value for variable, value in os.environ.items() if variable != NO_BYTE_CODE}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - start
    if done.returncode != 1 or SAME_ERROR[name] not in done.stdout + done.stderr:
        raise SystemExit(f"{name} did not end with the expected error:\n{(done.stdout + done.stderr)[-2000:]}")
    return elapsed


if __name__ == "__main__":
    main()
