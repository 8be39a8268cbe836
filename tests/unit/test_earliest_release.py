"""The least that a PyNative run can have in use: each block ends behind its last operator, whatever Python holds.

The traces are of MindSpore 2.10.0: one card, and ranks that share parameters and experts, with the stand-in for
hyper_parallel.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from swapconf.cli.dryrun_table import print_reports
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.memory.earliest_release import AHEAD, ahead_used_peak_bytes, earliest_ends, least_used_peak_bytes
from swapconf.memory.marked_lifetimes import gathered_blocks
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Trace
from tests.helpers import golden

NAMES = ("pynative/qwen3_l2_none", "pynative/qwen3_l2_shards", "pynative/deepseek_v3_l2_tp2_ep2")
REPORT = RankReport(
    file="t.yaml",
    rank=0,
    stage=0,
    level=1,
    outcome=RankOutcome.COMPLETED,
    hyper_parallel="here",
    used_peak_bytes=3 << 30,
    least_used_peak_bytes=1 << 30,
)
BLOCKING = replace(REPORT, ahead_used_peak_bytes=2 << 30)


def step_of(trace: Trace, events: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.searchsorted(trace.passes.steps, events)


def last_operator(trace: Trace) -> dict[int, int]:
    return {tensor: task.event for task in trace.tasks for tensor in (*task.inputs, *task.outputs)}


@pytest.mark.parametrize("name", NAMES)
def test_no_block_ends_before_its_last_operator_or_later_than_it_did(name: str) -> None:
    trace = golden(name)
    live, last = lifetimes(trace), last_operator(trace)
    ends = earliest_ends(trace, live)
    assert (ends <= live.end).all()
    assert (ends > live.start).all()
    assert all(end > last.get(start, -1) for start, end in zip(live.start.tolist(), ends.tolist(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_the_least_is_no_more_than_what_was_in_use(name: str) -> None:
    trace = golden(name)
    assert 0 < least_used_peak_bytes(trace) < trace.used_peak_bytes


@pytest.mark.parametrize("name", NAMES)
def test_the_further_python_is_ahead_the_less_is_in_use(name: str) -> None:
    trace = golden(name)
    live = lifetimes(trace)
    ends = [earliest_ends(trace, live, ahead) for ahead in (0, 1, AHEAD, 64, None)]
    assert all((later >= earlier).all() for later, earlier in pairwise(ends))
    assert (ends[0] == live.end).all()
    assert least_used_peak_bytes(trace) <= ahead_used_peak_bytes(trace) <= trace.used_peak_bytes


@pytest.mark.parametrize("name", NAMES)
def test_what_a_step_leaves_behind_and_what_was_gathered_stays(name: str) -> None:
    trace = golden(name)
    live, gathered = lifetimes(trace), gathered_blocks(trace)
    ends = earliest_ends(trace, live)
    stays = (live.end == NEVER) | (step_of(trace, live.start) != step_of(trace, live.end))
    stays |= np.array([start in gathered for start in live.start.tolist()])
    assert (ends[stays] == live.end[stays]).all()


@pytest.mark.parametrize("name", NAMES)
def test_however_long_python_holds_what_a_step_makes_the_least_is_the_same(name: str) -> None:
    trace = golden(name)
    gathered, blocks, steps = gathered_blocks(trace), trace.blocks, trace.passes.steps
    bounds = np.append(steps, NEVER)
    in_step = (blocks.end != NEVER) & (step_of(trace, blocks.start) == step_of(trace, blocks.end)) & ~blocks.on_host
    is_used = np.isin(blocks.start, list(last_operator(trace)))
    is_held = in_step & is_used & ~np.isin(blocks.start, list(gathered)) & (step_of(trace, blocks.start) < len(steps))
    longest = np.where(is_held, bounds[np.minimum(step_of(trace, blocks.start), len(steps))], blocks.end)
    held = replace(trace, blocks=replace(blocks, end=longest))
    assert is_held.any()
    assert least_used_peak_bytes(held) == least_used_peak_bytes(trace)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (BLOCKING, "between 1.00G and 3.00G, and is 2.00G with Python some operators ahead"),
        (replace(REPORT, shards=2), "3.00G in this run, 1.00G at the least, and at the most what"),
        (replace(BLOCKING, shards=2, launch_blocking=True), "between 1.00G and 3.00G, and is 2.00G with Python"),
    ],
)
def test_a_dry_run_tells_between_what_the_peak_of_a_card_lies(
    report: RankReport, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_reports([report], None)
    assert words in capsys.readouterr().out
