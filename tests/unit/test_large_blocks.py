"""MindSpore's pool where blocks are larger than a piece: addresses that MindSpore 2.9.0 gave on a simulated Ascend."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapconf.memory.allocators import mindspore
from swapconf.memory.allocators.mindspore import Pool
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import run_record
from swapconf.trace.blocks import Blocks
from swapconf.trace.lifetimes import NEVER, Lifetimes, PoolRecord
from swapconf.trace.trace import Trace
from swapconf.words.units import GIB
from tests.helpers import NAMES, golden
from tests.unit.test_policies import blocks

# the last stage of a small Llama with a vocabulary of 152,064 and 8,192 tokens, its first 400 allocations: under the
# limit of a dry run, and of 16 GB, which is too little; [start, end, size, address, is persistent], in grains of 512
RUNS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "pool_blocks.json").read_text(encoding="utf-8"))
GRAIN = 512
# random sequences under several units and limits, see scripts/evidence/pool_sequences.py
SEQUENCES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "pool_sequences.json").read_text(encoding="utf-8")
)


def trace(run: dict[str, Any]) -> Trace:
    template = next(block for block in golden(NAMES[0]).blocks if block.kind == "Kernel" and not block.is_persistent)
    rows = Blocks.of(
        replace(
            template,
            start=start,
            end=end,
            size_bytes=size * GRAIN,
            address=address * GRAIN,
            is_persistent=bool(persistent),
        )
        for start, end, size, address, persistent in run["blocks"]
    )
    return replace(golden(NAMES[0]), blocks=rows, tasks=())


def live(run: dict[str, Any]) -> Lifetimes:
    return lifetimes(trace(run))


@pytest.mark.parametrize("run", RUNS, ids=["ample", "limited"])
def test_every_address_is_that_of_mindspore(run: dict[str, Any]) -> None:
    """Pieces lie one below the other, from the limit downwards, and behind it."""
    pool = Pool(limit_bytes=run["limit_bytes"])
    placement = mindspore.place(live(run), pool)
    bottom = run["limit_bytes"] - np.cumsum(mindspore.piece_bytes(live(run), pool))
    found = bottom[placement.segment] + placement.offset
    assert found.tolist() == [address * GRAIN for _, _, _, address, _ in run["blocks"]]
    assert max(size for _, _, size, _, _ in run["blocks"]) * GRAIN > 4 * GIB


def drawn(sequence: dict[str, Any]) -> Lifetimes:
    """Each event has a time of its own."""
    made = [(time, number, size) for time, (number, size) in enumerate(sequence["events"]) if size]
    gone = {number: time for time, (number, size) in enumerate(sequence["events"]) if not size}
    return blocks(*((time, gone.get(number, NEVER), size * GRAIN) for time, number, size in made))


@pytest.mark.parametrize(
    "sequence",
    SEQUENCES,
    ids=[f"{item['growth_bytes'] / GIB:g} of {item['limit_bytes'] / GIB:.3g}" for item in SEQUENCES],
)
def test_random_sequences_under_other_units_and_limits(sequence: dict[str, Any]) -> None:
    pool = Pool(growth_bytes=sequence["growth_bytes"], limit_bytes=sequence["limit_bytes"])
    live = drawn(sequence)
    placement = mindspore.place(live, pool)
    bottom = sequence["limit_bytes"] - np.cumsum(mindspore.piece_bytes(live, pool))
    assert (bottom[placement.segment] + placement.offset).tolist() == [
        address * GRAIN for address in sequence["addresses"]
    ]


def test_the_sequences_pass_limits_and_units() -> None:
    assert any(min(item["addresses"]) < 0 for item in SEQUENCES)
    assert all(max(size for _, size in item["events"]) * GRAIN > 4 * GIB for item in SEQUENCES)


def test_a_limit_decides_where_blocks_stand() -> None:
    ample, limited = RUNS
    assert replay(trace(limited), live(limited), PoolRecord(limit_bytes=limited["limit_bytes"])).is_exact
    assert mindspore.piece_bytes(live(ample), Pool()) != mindspore.piece_bytes(
        live(ample), Pool(limit_bytes=limited["limit_bytes"])
    )


def test_what_the_yaml_says_of_the_pool_is_tried_first() -> None:
    """1.5 GB is no size that a replay would guess."""
    told = run_record.pool_of(
        {"context": {"max_device_memory": "58GB", "mempool_block_size": "1.5GB"}},
        {"usable_bytes": 60 * GIB, "limit_bytes": 58 * GIB, "reserved_bytes": 7},
    )
    assert told == PoolRecord(growth_bytes=3 * GIB // 2, limit_bytes=60 * GIB, reserved_bytes=7)
    blocks = live(RUNS[0])
    pool = Pool(growth_bytes=3 * GIB // 2, limit_bytes=60 * GIB)
    placement = mindspore.place(blocks, pool)
    bottom = 60 * GIB - np.cumsum(mindspore.piece_bytes(blocks, pool))
    moved = Blocks.of(
        replace(block, address=int(bottom[segment]) + int(offset))
        for block, segment, offset in zip(trace(RUNS[0]).blocks, placement.segment, placement.offset, strict=True)
    )
    ran = replace(trace(RUNS[0]), blocks=moved)
    assert replay(ran, blocks, replace(told, reserved_bytes=None)).pool == pool
    assert not replay(ran, blocks).is_exact


@pytest.mark.parametrize(
    "context",
    [
        None,
        {},
        {"mempool_block_size": "3GB"},
        {"max_device_memory": "58GB"},
        {"max_device_memory": "58GB", "mempool_block_size": "much"},
        {"max_device_memory": "58GB", "mempool_block_size": 3},
    ],
)
def test_a_yaml_that_does_not_set_the_pool(context: Any) -> None:
    """mindformers passes the size only along with a limit."""
    assert run_record.pool_of({"context": context}, {}) == PoolRecord()
    assert run_record.pool_of(None, {}) == PoolRecord()


def test_the_blocks_of_the_runs_are_whole() -> None:
    assert all(len(run["blocks"]) == 400 for run in RUNS)
    assert all((live(run).end == NEVER).any() and (live(run).end < NEVER).any() for run in RUNS)
