#!/usr/bin/env python3
"""``swapconf verify`` on the logs of a large job, as a process of its own: seconds, and peak memory of all processes.

    python scripts/bench/bench_verify.py [--logs 1000] [--megabytes 10] [--jobs N]

Four different logs are written and linked under the names of all workers, so that they fill 40 MB of disk; they are
read from the file cache, and a real disk adds its own time. One log in four misses a line, which must be found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CONFIG = """\
swap_config: {swap: True, default_prefetch: 10}
runner_config: {gradient_accumulation_steps: 2}
parallel_config: {data_parallel: %d}
model:
  model_config: {type: LlamaConfig, num_layers: 32, use_flash_attention: True}
  arch: {type: LlamaForCausalLM}
"""
KINDS = 4
PREFIX = "2026-11-20 18:16:{:02d},{:03d} - mindformers/output/log[mindformers/core/callback/callback.py:533] - INFO - "
STEP = "{{ Epoch:[  1/  1], step:[{:5d}/10000], loss: {:.3f}, per_step_time: {:d}ms, lr: 3.0e-05, overflow cond: False"
WARNING = (
    "[WARNING] ME(26827,7f1f43fbcb80,python):2026-11-20-18:16:59.974.300 [mindspore/ccsrc/runtime/"
    "hardware_abstract/collective/collective_manager.cc:943] Create dummy communication group {:x}"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _write(folder, options.logs, int(options.megabytes * 1e6))
        config = folder / "train.yaml"
        config.write_text(CONFIG % options.logs, encoding="utf-8")
        words = [sys.executable, "-m", "swapconf", "verify", str(folder), "--config", str(config), "--format", "json"]
        words += ["--jobs", str(options.jobs)] if options.jobs else []
        start, cpu = time.perf_counter(), os.times()
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=dict(os.environ, XDG_CACHE_HOME=temporary)) as child:
            watch = _Watch(child.pid)
            assert child.stdout is not None
            record = json.loads(child.stdout.read())
        seconds, used = time.perf_counter() - start, os.times()
        peak_bytes = watch.stop()
    (finding,) = record["findings"]
    assert finding["rule"] == "log-line-missing"
    assert len(record["ranks"]) == options.logs
    total = sum(rank["log_bytes"] for rank in record["ranks"])
    cpu_seconds = used.children_user + used.children_system - cpu.children_user - cpu.children_system
    print(
        f"{options.logs:,} logs, {total / 1e9:.2f} GB: {seconds:.1f} s (target 30 s), {cpu_seconds:.1f} s of CPU, "
        f"{total / seconds / 1e6:,.0f} MB/s; peak memory of all processes {peak_bytes / 1e6:.0f} MB (target 300 MB)"
    )


def _write(folder: Path, logs: int, size_bytes: int) -> None:
    for kind in range(KINDS):
        chance, lines, size = random.Random(kind), [], 0
        for layer in range(32 if kind else 31):
            lines.append(f"{PREFIX.format(0, layer)}Set op_swap at layer {layer}:  attention.flash_attention, value=10")
        while size < size_bytes:
            step = len(lines)
            lines.append(
                WARNING.format(chance.getrandbits(128))
                if step % 5 == 0
                else PREFIX.format(step % 60, step % 1000) + STEP.format(step, chance.random(), step % 997)
            )
            size += len(lines[-1]) + 1
        lines += [
            "Used peak memory usage (without fragments): 12167M",
            "Actual peak memory usage (with fragments): 13248M",
            "",
        ]
        (folder / f"kind{kind}").write_text("\n".join(lines), encoding="utf-8")
    for rank in range(logs):
        os.link(folder / f"kind{rank % KINDS}", folder / f"worker_{rank}.log")


class _Watch:
    """The resident memory of a process and all below it; pages that they share count in each, so it is no less than
    what they take."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak_bytes, self._ended = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self._peak_bytes = max(self._peak_bytes, self._resident(self._pid))

    def _resident(self, pid: int) -> int:
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE") + sum(self._resident(int(child)) for child in children)

    def stop(self) -> int:
        self._ended.set()
        self._thread.join()
        return self._peak_bytes


if __name__ == "__main__":
    main()
