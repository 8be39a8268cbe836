"""Workspace of kernels: by rule, and in the memory of a trace."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from swapconf.memory import with_workspace as module
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.memory.with_workspace import SPREAD, grow, workspace
from swapconf.memory.workspace_rules import RULES, workspace_bytes
from swapconf.trace import memory_block, trace_folder, trace_writer
from swapconf.trace.blocks import Blocks
from swapconf.trace.trace import Tensor
from swapconf.trace.workspace import KIND, Basis
from swapconf.words.units import MIB
from tests.helpers import NAMES, ROOT, TRACES, golden


@cache
def grown(name: str) -> module.Grown:
    return grow(golden(name))


def tensor(*shape: int, dtype: str = "BFloat16") -> Tensor:
    return Tensor(dtype, shape)


# --- rules ------------------------------------------------------------------------------------------------------------


def test_what_computes_nothing_needs_none() -> None:
    for primitive in ("Reshape", "AllReduce", "Send", "MoveTo", "StreamSend", "GetNext"):
        assert workspace_bytes(primitive, [tensor(4096, 512)], [tensor(4096, 512)]) == ("", 0)


def test_where_nothing_public_was_found_a_bound_stands_in() -> None:
    wide, narrow = tensor(4096, 512, dtype="Float32"), tensor(4096, 512)
    assert workspace_bytes("Softmax", [wide], [wide]) == ("reduction", 16 * MIB)
    assert workspace_bytes("Softmax", [narrow], [narrow]) == ("reduction", 16 * MIB + 4096 * 512 * 4)
    assert workspace_bytes("Softmax", [tensor(-1, 512)], [wide]) == ("reduction", 16 * MIB)
    assert workspace_bytes("Transpose", [narrow], [narrow]) == ("other", 16 * MIB)
    assert workspace_bytes("NotYetWritten", [], []) == ("other", 16 * MIB)


def test_every_rule_tells_its_source_and_an_assumption_says_that_there_is_none() -> None:
    for rule in RULES.values():
        assert rule.formula
        assert rule.source
        assert ("no public source" in rule.source) == (rule.basis is Basis.ASSUMED)
        assert rule.formula.startswith("not known") == (rule.basis is Basis.UNKNOWN)
        if rule.basis is Basis.ASSUMED:
            assert rule.formula.startswith("at most")
        else:
            assert ".cpp:" in rule.source or "aclnn_add.cpp" in rule.source


# --- in memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_without_its_workspace_the_grown_trace_is_the_old_one(name: str) -> None:
    old, new = golden(name), grown(name).trace
    kept = [replace(block, address=0, used_bytes=0, pool_peak_bytes=0) for block in new.blocks if block.kind != KIND]

    def sooner(time: int | None) -> int | None:
        return None if time is None else time // SPREAD

    back = [
        replace(
            block,
            users=tuple(user // SPREAD for user in block.users),
            start=block.start // SPREAD,
            end=sooner(block.end),
            task=sooner(block.task),
        )
        for block in kept
    ]
    assert back == [replace(block, address=0, used_bytes=0, pool_peak_bytes=0) for block in old.blocks]
    assert [task.name for task in new.tasks] == [task.name for task in old.tasks]
    assert new.kernels == old.kernels


@pytest.mark.parametrize("name", NAMES)
def test_workspace_lives_with_the_inputs_and_outputs_of_its_kernel_and_no_longer(name: str) -> None:
    trace, needed = grown(name).trace, grown(name).workspace
    blocks = {block.start: block for block in trace.blocks}
    spaces = [block for block in trace.blocks if block.kind == KIND]
    tasks = {task.event: task for task in trace.tasks}
    assert [block.task for block in spaces] == [event * SPREAD for event in needed.event.tolist()]
    for block, size in zip(spaces, needed.size_bytes.tolist(), strict=True):
        task = tasks[block.task or 0]
        assert 0 <= block.size_bytes - size - 32 < 512
        assert block.size_bytes % 512 == 0
        assert block.start < (block.end or 0) < task.event + SPREAD  # before anything else happens
        for tensor_id in (*task.outputs, *task.inputs):
            held = blocks.get(tensor_id)
            if held is not None and not held.on_host and (held.end is None or held.end > task.event):
                assert held.start < block.start
                assert held.end is None or held.end >= (block.end or 0)
    assert not {block.start for block in spaces} & {block.end for block in trace.blocks if block.kind != KIND}


@pytest.mark.parametrize("name", NAMES)
def test_the_peak_grows_by_no_more_than_the_largest_workspace(name: str) -> None:
    """Kernels run one after another, so that two workspaces are never held at once."""
    old, new = golden(name), grown(name)
    largest = -(-(int(new.workspace.size_bytes.max()) + 32) // 512) * 512
    assert old.used_peak_bytes < new.trace.used_peak_bytes <= old.used_peak_bytes + largest
    assert new.trace.with_fragments_peak_bytes >= new.trace.used_peak_bytes
    assert new.reserved_bytes >= new.trace.with_fragments_peak_bytes
    assert new.trace.host_peak_bytes == old.host_peak_bytes


@pytest.mark.parametrize("name", NAMES)
def test_the_grown_trace_stands_where_mindspore_would_put_it(name: str) -> None:
    trace = grown(name).trace
    found = replay(trace, lifetimes(trace))
    assert found.is_exact
    assert found.placement.mapped_bytes == trace.with_fragments_peak_bytes
    assert found.placement.reserved_bytes == grown(name).reserved_bytes


def test_recorded_workspace_is_taken_as_it_is() -> None:
    recorded = grown("llama_l2_none").trace
    again = grow(recorded)
    assert again.trace is recorded
    assert {rule.basis for rule in again.workspace.rules} == {Basis.TRACE}
    assert len(again.workspace) == len(grown("llama_l2_none").workspace)


def test_a_trace_without_a_graph_cannot_be_estimated() -> None:
    with pytest.raises(ValueError, match="no graph"):
        workspace(replace(golden("llama_l2_none"), tasks=()))


# --- written ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    """The reader checks the running sums, and each file against the others."""
    new = grown(name)
    trace_writer.write(new.trace, new.workspace, TRACES / name / "execute_order.csv", tmp_path)
    read = trace_folder.read(tmp_path, rank=0)
    assert list(read.blocks) == list(new.trace.blocks)
    assert read.tasks == new.trace.tasks
    assert read.kernels == new.trace.kernels
    table = (tmp_path / "workspace.csv").read_text().splitlines()
    assert len(table) == 1 + len(new.workspace)


def test_an_estimated_row_can_be_told_from_a_recorded_one(tmp_path: Path) -> None:
    new = grown("llama_l2_none")
    trace_writer.write(new.trace, new.workspace, TRACES / "llama_l2_none" / "execute_order.csv", tmp_path)
    header, *rows = ((tmp_path / "memory_block.csv").read_text()).splitlines()
    columns = header.split(",")
    told = {row.split(",")[columns.index("file_name")] for row in rows if row.split(",")[columns.index("type")] == KIND}
    assert "public: flash" in told
    assert all(item.split(": ")[0] in {"public", "assumed"} for item in told)


def test_a_changed_sum_is_found(tmp_path: Path) -> None:
    """The running sums that are written are checked, not only copied."""
    new = grown("llama_l2_none")
    rows = list(new.trace.blocks)
    place = next(index for index, row in enumerate(rows) if row.kind == KIND)
    rows[place] = replace(rows[place], size_bytes=rows[place].size_bytes + 512)
    (tmp_path / "memory_block.csv").write_text("".join(trace_writer.memory_block_lines(Blocks.of(rows), {})))
    with pytest.raises(Exception, match="rows are missing or changed"):
        memory_block.read(tmp_path / "memory_block.csv")


def test_the_manual_has_every_rule_with_its_source() -> None:
    import levels_table

    page = (ROOT / "docs" / "reference" / "levels.md").read_text(encoding="utf-8")
    assert levels_table.with_rules() == page, "run: just generate"
    assert levels_table.rules() in page
