"""A few hundred inputs for each target, and everything that fuzzing found before. scripts/fuzz.py runs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import batch, campaign, mutations, targets

INPUTS = 200
FEWER = {"large_yaml": 20}
SEEDS = {"large_yaml": 6}  # a megabyte of each
FOUND = sorted(mutations.REGRESSIONS.glob("*/*"))


@pytest.mark.parametrize("target", targets.TARGETS)
def test_nothing_fails(target: str, tmp_path: Path) -> None:
    if target == "elf":
        pytest.importorskip("elftools")
    inputs = FEWER.get(target, INPUTS)
    figures = campaign.run(target, inputs, 2026, tmp_path)
    assert figures.failed == {}
    assert figures.inputs == inputs
    assert figures.peak_mb < batch.MEGABYTES


@pytest.mark.parametrize("file", FOUND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_stays_fixed(file: Path) -> None:
    if file.parent.name == "elf":
        pytest.importorskip("elftools")
    assert campaign.replay(file.parent.name, file) == ""


def test_inputs_follow_from_the_seed_and_differ() -> None:
    first = [mutations.input_of("yaml", 1, number) for number in range(50)]
    assert first == [mutations.input_of("yaml", 1, number) for number in range(50)]
    assert len(set(first)) > 40
    assert first != [mutations.input_of("yaml", 2, number) for number in range(50)]


def test_shares_add_up_and_leave_no_target_out() -> None:
    shares = campaign.shares(100_000)
    assert sum(shares.values()) == 100_000
    assert shares.keys() == targets.TARGETS.keys()
    assert min(shares.values()) > 1000


@pytest.mark.parametrize("target", targets.TARGETS)
def test_every_target_takes_its_seeds_without_a_fault(target: str) -> None:
    if target == "elf":
        pytest.importorskip("elftools")
    assert mutations.seeds(target)
    for seed in mutations.seeds(target)[: SEEDS.get(target)]:
        targets.TARGETS[target](seed)


FAULTS = {
    "raises": ("raise KeyError('x')", "KeyError"),
    "runs on": ("while True: pass", "ended with -27"),
    "is slow": ("import time\n    end = time.process_time() + 0.4\n    while time.process_time() < end: pass", "slow"),
    "takes memory": ("bytearray(600 << 20)", "MemoryError"),
    "dies": ("import os; os._exit(9)", "ended with 9"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_target_that_misbehaves_is_caught(fault: str, tmp_path: Path) -> None:
    body, told = FAULTS[fault]
    script, file = tmp_path / "misbehaves.py", tmp_path / "input"
    script.write_text(
        "from tests.fuzz import batch, targets\nbatch.SECONDS, batch.HANG_SECONDS = 0.2, 1.0\n"
        f"def bad(data):\n    if data != b'x': return\n    {body}\n"
        "targets.TARGETS['yaml'] = bad\nbatch.serve()\n",
        encoding="utf-8",
    )
    file.write_bytes(b"x")
    parent = campaign.Parent(script)
    try:
        done, words = parent.child("yaml", file)
        assert told in (words if done is None else done["failed"][0][1])
        file.write_bytes(b"y")
        done, _ = parent.child("yaml", file)  # what becomes of one child is nothing to the next
        assert done is not None
        assert done["failed"] == []
    finally:
        parent.close()
