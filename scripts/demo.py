"""The main job, run and checked: the documented swap examples, from YAML to the lines in a worker's log.

Started by demo.sh. Every example gets a folder of its own, in which the documented command works as it stands.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TIMEOUT_SECONDS = 900
WORKERS = 2
LOG_FOLDER = "output/msrun"
LINES = "INFO - (Set|Skip) .*"  # for grep -oE
LOSS = re.compile(r"step:\[ *\d+/ *\d+\], loss:\[([-+.\w]+)/")  # MFLossMonitor's line: loss of the step / mean

_OP_SWAP = (
    "Set op_swap at layer 0: .attention, value=20",
    "Set op_swap at layer 1: .attention, value=20, .feed_forward, value=15",
    "Set op_swap at layer 2: .attention, value=20, .feed_forward, value=15",
    "Set op_swap at layer 3: .attention, value=10",
)


@dataclass(frozen=True)
class Example:
    """A documented example. ``lines``: what the documentation says a worker logs."""

    number: int
    config: str
    what: str
    options: str
    lines: tuple[str, ...]

    @property
    def trains(self) -> bool:
        return "--build_only" not in self.options


EXAMPLES = (
    Example(
        4,
        "example4_swap_with_recompute.yaml",
        "train it: operators are swapped, others recomputed",
        "",
        (
            "Set select recompute at layer 0: feed_forward",
            *_OP_SWAP[:3],
            "Set select recompute at layer 3: feed_forward",
            _OP_SWAP[3],
        ),
    ),
    Example(3, "example3_op_swap.yaml", "train two steps: operators are swapped", " --num_samples 8", _OP_SWAP),
    Example(
        2,
        "example2_layer_swap.yaml",
        "train two steps: whole layers are swapped",
        " --num_samples 8",
        ("Set layer swap at layer 0 and value is: 20", "Set layer swap at layer 3 and value is: 20"),
    ),
    Example(
        1,
        "example1_default_swap.yaml",
        "build it: flash attention is swapped, which has no CPU kernel to train with",
        " --build_only True",
        tuple(f"Set op_swap at layer {layer}: attention.flash_attention, value=10" for layer in range(4)),
    ),
)


class DemoError(Exception):
    """Something is not as documented; the text says what."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="demo.sh")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "output" / "demo", metavar="FOLDER")
    output = parser.parse_args().output.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(128 + signal.SIGHUP))
    output.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    try:
        with only_one(output):
            make_data(output)
            for example in EXAMPLES:
                show(example, output)
    except DemoError as error:
        sys.exit(f"demo.sh: {error}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    print(f"\nAll four examples are as documented ({time.monotonic() - begin:.0f} s).")


@contextmanager
def only_one(output: Path) -> Iterator[None]:
    with open(output / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demo is running in {output}; wait for it, or choose another --output") from None
        yield


def make_data(output: Path) -> None:
    print("== A tiny data set")
    words = [
        sys.executable,
        str(REPOSITORY / "scripts" / "make_data.py"),
        str(output / "data/small/train.mindrecord"),
        "--seq-length",
        "128",
        "--samples",
        "80",
        "--vocab-size",
        "512",
    ]
    code, text = run(words, output, {})
    if code:
        raise DemoError(f"the data set could not be made:\n{text}")
    print(text.strip().splitlines()[-1])


def show(example: Example, output: Path) -> None:
    """Run one example in its own folder, print what it logged, and compare that with the documentation."""
    folder = prepare(output, example)
    command = (
        f"run_mindformer.py --config configs/small/{example.config} "
        f"--run_mode train --use_parallel True{example.options}"
    )
    launch = [
        "bash",
        os.path.relpath(REPOSITORY / "scripts" / "msrun_launcher.sh", folder),
        command,
        str(WORKERS),
        str(WORKERS),
        "127.0.0.1",
        str(free_port()),
        "0",
        LOG_FOLDER,
        "True",
        "300",
    ]
    print(f"\n== Example {example.number}: {example.what}")
    print(f"$ cd {shlex.quote(str(folder))}")
    print(f"$ {' '.join(word if word != command else chr(34) + word + chr(34) for word in launch)}", flush=True)
    begin = time.monotonic()
    code, text = run(launch, folder, clean_environment())
    log = folder / LOG_FOLDER / "worker_0.log"
    if code:
        raise DemoError(f"example {example.number} failed with exit code {code}; see {log}\n{tail(text)}")
    print(f"Both workers ended well after {time.monotonic() - begin:.0f} s")
    if example.trains:
        show_loss(example, log)
    show_lines(example, log)


def prepare(output: Path, example: Example) -> Path:
    folder = output / f"example{example.number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "configs").symlink_to(REPOSITORY / "configs")
    (folder / "data").symlink_to(output / "data")
    return folder


def logged(text: str) -> list[str]:
    """The lines of a worker's log that say what is done to a layer, without mindformers' own beginning."""
    return re.findall(r"INFO - ((?:Set|Skip) .*)", text)


def show_loss(example: Example, log: Path) -> None:
    losses = [float(text) for text in LOSS.findall(log.read_text(errors="replace"))]
    print(f"loss: {' '.join(f'{loss:.3f}' for loss in losses)}")
    if len(losses) < 2 or not losses[-1] < losses[0]:
        raise DemoError(f"example {example.number}: the loss does not go down; see {log}")
    print(f"The loss goes down over {len(losses)} steps: {losses[0]:.3f} -> {losses[-1]:.3f}")


def show_lines(example: Example, log: Path) -> None:
    print(f'$ grep -oE "{LINES}" {LOG_FOLDER}/worker_0.log')
    for worker in range(WORKERS):
        file = log.with_name(f"worker_{worker}.log")
        found = subprocess.run(["grep", "-oE", LINES, str(file)], capture_output=True, text=True, check=False).stdout
        if worker == 0:
            print(found, end="")
        wanted = "".join(f"INFO - {line}\n" for line in example.lines)
        if found != wanted:
            raise DemoError(
                f"example {example.number}: {file} should hold these lines, but holds other ones\n"
                f"{wanted}found:\n{found}"
            )
    print(f"These {len(example.lines)} lines are the documented ones, in the log of every worker.")


# --- processes ----------------------------------------------------------------------------------------------------


def run(words: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and output of a command; it and all that it started are gone afterwards, whatever happens."""
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment or None,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            text, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoError(f"no end after {TIMEOUT_SECONDS} s: {shlex.join(words)}") from None
        finally:
            if process.poll() is None:
                end(process.pid)
    return process.returncode, text


def end(pid: int) -> None:
    """Kill a process and everything below it: msrun puts its workers in sessions of their own."""
    import psutil  # comes with mindspore

    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def clean_environment() -> dict[str, str]:
    """Without what would turn the example into another run: a dry run, another rank, plain mindformers."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MS_", "RANK_", "SWAPCONF_")) and name != "DEVICE_ID"
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tail(text: str, count: int = 15) -> str:
    return "\n".join(text.splitlines()[-count:])


if __name__ == "__main__":
    main()
