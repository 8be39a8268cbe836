"""tests/unit/pool_sequences.json: addresses that MindSpore's pool gives to random sequences of tensors.

    eval "$(swapconf dryrun --env)"
    python scripts/evidence/pool_sequences.py

Each setting of the pool gets a process of its own, seconds long, which allocates and frees on the simulated device.
Graph mode is entered first, because MindSpore rounds otherwise in PyNative mode (there a piece is a multiple of its
unit). All sizes and addresses are in grains of 512 bytes; an address counts from the base of the device.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[2] / "tests" / "unit" / "pool_sequences.json"
GIB, GRAIN, TAIL = 1 << 30, 512, 32
COUNT = 60
# unit and limit of the pool in GB, and what the sequence is drawn with
SETTINGS = (
    (2, 58, 100),
    (1, 58, 102),
    (3, 58, 103),
    (1.5, 58, 104),
    (8, 58, 105),
    (32, 58, 106),
    (64, 58, 107),
    (2, 16, 109),
    (2, 17.5, 110),
    (8, 20, 111),
    (3, 10, 112),
    (16, 16, 113),
    (0.5, 58, 115),
)
_BASE = re.compile(r"MindSpore memory base address: (0x[0-9a-f]+)")
_WHOLE = (64 * GIB * 15 // 16) - (10 << 20)  # what MindSpore takes of a simulated device


def sequence(seed: int) -> list[tuple[int, int]]:
    """(number, bytes) for an allocation, (number, 0) for a release; sizes are around multiples of the units."""
    chance, number = random.Random(seed), 0
    live: list[int] = []
    found: list[tuple[int, int]] = []
    for _ in range(COUNT):
        if live and chance.random() < 0.47:
            found.append((live.pop(chance.randrange(len(live))), 0))
        else:
            whole = chance.choice([1, 1, 1, 2, 2, 3, 4, 5, 6, 8, 0.25, 0.5, 1.5, 2.5])
            size = int(whole * GIB) + chance.choice(
                [-1024, -513, -512, -33, -32, -31, 0, 1, 512, GIB // 3, GIB // 7, 4096]
            )
            found.append((number, size))
            live.append(number)
            number += 1
    return found


def child(unit: str, limit: str, seed: str) -> None:
    """Print the absolute address of each tensor."""
    import mindspore
    from mindspore import mint

    class Once(mindspore.nn.Cell):  # type: ignore[misc]
        def construct(self, given: Any) -> Any:
            return given + 1

    mindspore.set_context(mode=mindspore.GRAPH_MODE, jit_config={"jit_level": "O0"})
    mindspore.set_device("Ascend")
    mindspore.runtime.set_memory(increase_size=f"{unit}GB", max_size=f"{limit}GB")
    Once()(mindspore.Tensor([1.0]))
    mindspore.runtime.synchronize()
    live: dict[int, Any] = {}
    addresses = []
    for number, size in sequence(int(seed)):
        if size:
            live[number] = mint.empty((size,), dtype=mindspore.uint8, device="Ascend")
            mindspore.runtime.synchronize()
            addresses.append(live[number].data_ptr())
        else:
            del live[number]
    print(f"ADDRESSES {json.dumps(addresses)}", flush=True)


def measured(unit: float, limit: float, seed: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, f"{unit:g}", f"{limit:g}", str(seed)], capture_output=True, text=True, check=True
    )
    base = _BASE.search(done.stdout + done.stderr)
    told = re.search(r"ADDRESSES (.*)", done.stdout)
    assert base is not None
    assert told is not None
    events = [[number, -(-(size + TAIL) // GRAIN) if size else 0] for number, size in sequence(seed)]
    limit_bytes = int(limit * GIB) if limit <= 32 else _WHOLE
    return {
        "growth_bytes": int(unit * GIB),
        "limit_bytes": limit_bytes,
        "events": events,
        "addresses": [(address - int(base[1], 16)) // GRAIN for address in json.loads(told[1])],
    }


def main() -> None:
    found = [measured(unit, limit, seed) for unit, limit, seed in SETTINGS]
    TARGET.write_text(
        "[\n" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in found) + "\n]\n", encoding="utf-8"
    )


if __name__ == "__main__":
    child(*sys.argv[1:]) if len(sys.argv) > 1 else main()
