"""Traces of one of eight ranks that share the parameters (FSDP), with swapconf's stand-in for hyper_parallel.

The trace is one of MindSpore 2.10.0 and mindformers 2.0.0: configs/pynative/qwen3.yaml with two layers at hidden 64.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapconf.config.yaml_document import parse
from swapconf.dryrun.effect.effect import observed
from swapconf.memory.beside_of_trace import communication_part
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.study.study import study_document
from swapconf.trace import marks, task_table, trace_folder
from swapconf.trace.lifetimes import CATEGORIES, NEVER, TICKS, Category
from swapconf.trace.marks import Moment
from swapconf.trace.trace import Trace
from swapconf.upstream.facts import Versions
from swapconf.whatif.pynative.bound import recompute_at_worst
from swapconf.whatif.pynative.changes import Replay
from swapconf.whatif.pynative.gathers import Gathers
from swapconf.whatif.pynative.intervals import steps
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.question import NativeQuestion
from swapconf.whatif.pynative.recompute import gather_again, recompute
from swapconf.whatif.pynative.swap import move_gathered, moved_rows
from swapconf.words.findings import SwapconfError
from swapconf.words.units import MIB
from tests.helpers import TRACES, golden, unpacked

FOLDER = unpacked(TRACES / "pynative" / "qwen3_l2_shards")
PAIR = Versions(mindspore="2.10.0", mindformers="2.0.0")
FULL = "recompute: {mode: full, full_recompute_layer: ['0-1']}\n"


@cache
def trace() -> Trace:
    return trace_folder.read(FOLDER, 0)


def true_bytes(name: str) -> int:
    found = re.search(rf"{name} (\d+)", (FOLDER / "expected.txt").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


def test_the_used_peak_is_max_memory_allocated_to_the_byte() -> None:
    assert trace().used_peak_bytes == true_bytes("max_alloc")


def test_the_pool_puts_every_block_where_mindspore_put_it() -> None:
    assert replay(trace(), lifetimes(trace())).is_exact


def test_a_collective_is_put_before_the_events_that_wait_for_it() -> None:
    told = re.findall(r"task_info: (\d+)", (FOLDER / "tracker_graph.ir").read_text(encoding="utf-8"))
    assert (np.diff(np.array(told, dtype=np.int64)) < 0).any(), "MindSpore writes some behind later ones"
    assert (np.diff([task.event for task in trace().tasks]) > 0).all()


def test_only_a_pynative_trace_may_have_its_tasks_in_another_order(tmp_path: Path) -> None:
    file = tmp_path / "task.csv"
    rows = ("5,Event,WaitEvent,", "3,PyNative,DistCommAllGatherIntoTensor,", "7,PyNative,MatMulExt,")
    file.write_text("\n".join(("time_stamp,task_name,node_name,graph_name", *rows)) + "\n")
    with pytest.raises(SwapconfError, match="task 3 stands behind task 5"):
        task_table.read(file)
    table = task_table.read(file, is_sorted=False)
    assert table.event.tolist() == [3, 5, 7]
    assert table.nodes[int(table.node[0])] == "DistCommAllGatherIntoTensor"
    file.write_text(file.read_text().replace("7,Py", "3,Py"))
    with pytest.raises(SwapconfError, match="task 3 stands behind task 3"):
        task_table.read(file, is_sorted=False)


def test_what_is_gathered_is_communication_and_gone_between_the_passes_but_for_the_head() -> None:
    live = lifetimes(trace())
    gathered = live.category == CATEGORIES.index(Category.COMMUNICATION)
    assert gathered.sum() == 2 * 2 * true_bytes("parameters") - 2  # two steps, two passes; the head once a step
    assert not (live.category == CATEGORIES.index(Category.SWAP)).any()
    for mark in trace().marks:
        if mark.moment is Moment.BACKWARD_PASS_BEGINS:
            assert (gathered & (live.start <= mark.event) & (live.end > mark.event)).sum() == 1


def test_weights_and_optimizer_state_are_an_eighth() -> None:
    def lasting(found: Trace) -> int:
        live = lifetimes(found)
        kinds = [CATEGORIES.index(kind) for kind in (Category.WEIGHT, Category.OPTIMIZER)]
        return int(live.size_bytes[np.isin(live.category, kinds) & (live.end == NEVER)].sum())

    whole = lasting(golden("pynative/qwen3_l2_none"))
    assert whole / 8 <= lasting(trace()) < whole / 6, "no block is smaller than 512 B"


def test_one_group_communicates_and_none_on_one_card() -> None:
    assert communication_part(trace(), {}).most_bytes == 2 * 200 * MIB
    assert communication_part(golden("pynative/qwen3_l2_none"), {}).most_bytes == 0


def test_what_runs_again_gathers_its_parameters_again_in_a_what_if() -> None:
    text = f"{(FOLDER / 'config.yaml').read_text(encoding='utf-8')}\n{FULL}"
    study = study_document(parse(text, "train.yaml"), PAIR, {})
    found = NativeQuestion(FOLDER, study).predict(study.config)
    assert found.used_peak_bytes == true_bytes("max_alloc_full") < true_bytes("max_alloc")
    assert found.kernels == {0: 41, 1: 41}, "as on one card: collectives and waits compute nothing"


def viewed(layer: int) -> tuple[Trace, int]:
    """The trace with a view of a parameter in the forward pass of a layer, and the birth of the parameter's block."""
    whole = trace()
    step = steps(whole.marks)[-1]
    part = step.layer(layer)
    assert part is not None
    birth = next(one for one in sorted(Gathers(whole).births) if is_read(whole, one, part.start, part.end))
    view = replace(whole.tasks[0], event=part.end - 1, name="TransposeExtView", inputs=(birth,), outputs=(birth,))
    assert not Gathers(whole).viewed(part.start, part.end), "weights are cast, and the casts are saved"
    return replace(whole, tasks=(*whole.tasks, view)), birth


def is_read(whole: Trace, birth: int, start: int, end: int) -> bool:
    return any(birth in task.inputs and start < task.event < end for task in whole.tasks)


def test_a_view_of_a_gathered_parameter_moves_and_is_there_when_the_swap_brings_it_back() -> None:
    whole, birth = viewed(0)
    found = steps(whole.marks)
    step = found[-1]
    layout = Layout(whole, found)
    part, target = step.layer(0), step.layer(1)
    assert part is not None
    assert target is not None
    later = layout.gathers.once_more(birth, step.backward, step.end)
    assert later is not None
    row, again = layout.row(birth), layout.row(later)
    for returns in (step.backward, step.end):
        changes = layout.unchanged()
        move_gathered(layout, changes, step, part, part.end * TICKS, returns * TICKS)
        assert [(move.row, move.returns) for move in changes.moves] == [(row, returns * TICKS)]
        before = [(one.row, one.start, one.end) for one in changes.again]
        assert before == ([(again, returns * TICKS, later * TICKS)] if returns < later else [])
        assert (changes.end == layout.unchanged().end).all(), "its unit gives it back in any case"


def test_a_unit_in_what_runs_again_is_gathered_when_that_runs() -> None:
    whole = trace()
    found = steps(whole.marks)
    step, layout = found[-1], Layout(whole, found)
    part = step.layer(1)
    assert part is not None
    birth = next(one for one in sorted(layout.gathers.births) if is_read(whole, one, part.start, part.end))
    later = layout.gathers.once_more(birth, step.backward, step.end)
    assert later is not None
    for turn, is_earlier in ((later - 5, True), (later + 5, False)):
        changes = layout.unchanged()
        gather_again(layout, changes, step, part, Replay(part.start, turn))
        assert any(one.row == layout.row(later) and one.end == later * TICKS for one in changes.again) == is_earlier


def test_what_was_moved_is_known_when_the_folder_is_gone(tmp_path: Path) -> None:
    copy = tmp_path / "rank_0"
    shutil.copytree(FOLDER, copy)
    told = json.loads((copy / marks.FILE).read_text(encoding="utf-8"))
    (copy / marks.FILE).write_text(json.dumps({**told, marks.MOVED: [[1, 512]], marks.HOST: 1024}))
    kept = trace_folder.read(copy, 0)
    shutil.rmtree(copy)
    effect = observed(kept, 2)
    assert (effect.by_layer["1"].num_tensors, effect.host_peak_bytes) == (1, 1024)


@pytest.mark.parametrize("ask", [recompute, recompute_at_worst])
def test_a_parameter_that_its_unit_holds_for_the_backward_pass_stays_whatever_becomes_of_its_layer(ask: Any) -> None:
    """As those of a unit in a layer that is not given back behind the forward pass; the trace has none, so one of the
    unit around the layer is made one."""
    layout, step = Layout(trace()), steps(trace().marks)[0]
    part = step.layer(0)
    assert part is not None
    assert part.turn is not None
    row = max(row for row in layout.born(step.start, part.start) if int(layout.start[row]) in layout.gathers.births)
    layout.end[row] = part.turn + 1
    part = replace(part, start=int(layout.start[row]) - 1)
    assert row in layout.born(part.start, part.end)
    changes = layout.unchanged()
    before = changes.end.copy()
    ask(layout, changes, step, part)
    assert changes.again
    assert changes.end[row] == before[row]
    assert row not in {one.row for one in changes.again}
    assert row not in set(moved_rows(layout, step, part))
