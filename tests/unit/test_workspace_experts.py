"""Workspace of kernels that are several in one: by rule where one is public, told by name where none is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swapconf.dryrun.levels import at_level
from swapconf.dryrun.outcome import RankOutcome, RankReport, origin
from swapconf.memory.beside_of_trace import symmetric_parts, workspace_part
from swapconf.memory.cann.card import A2
from swapconf.memory.whole_device import Beside, Part, as_record, beside_of_record, device_line
from swapconf.memory.with_workspace import grow, workspace
from swapconf.memory.workspace_rules import is_fused, workspace_bytes
from swapconf.trace.blocks import Blocks
from swapconf.trace.trace import Tensor, Trace
from swapconf.trace.workspace import KIND
from swapconf.words.units import GIB, MIB
from tests.helpers import golden

NARROW = Tensor("BFloat16", (4096, 5120))
CHOICES = Tensor("Int32", (1024, 8))


def asked(primitive: str, inputs: list[Tensor], outputs: list[Tensor]) -> tuple[str, int]:
    return workspace_bytes(primitive, inputs, outputs)


def with_kernel(primitive: str, inputs: tuple[Tensor, ...] = (NARROW,)) -> Trace:
    """A trace of which one product is such a kernel."""
    trace = golden("llama_l2_none")
    place = next(index for index, task in enumerate(trace.tasks) if task.primitive == "MatMul")
    name = trace.tasks[place].name.replace("MatMul-op", f"{primitive}-op")
    changed = replace(trace.tasks[place], name=name, input_tensors=inputs)
    return replace(trace, tasks=(*trace.tasks[:place], changed, *trace.tasks[place + 1 :]))


# --- by rule ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("primitive", "told", "allotted"),
    [
        ("MegaMoe", 95_420_928, 95_421_440),
        ("HyperMegaMoe", 95_420_928, 95_421_440),
        ("MoeFwd", 95_420_928, 95_421_440),
        ("MegaMoeGrad", 99_615_232, 99_615_744),
        ("HyperMegaMoeGrad", 99_615_232, 99_615_744),
        ("MoeBwd", 99_615_232, 99_615_744),
    ],
)
def test_experts_in_one_launch_take_what_was_measured_of_them_whatever_their_shapes(
    primitive: str, told: int, allotted: int
) -> None:
    _, size = asked(primitive, [NARROW], [NARROW])
    assert size == told == asked(primitive, [Tensor("BFloat16", (7, 16))], [])[1]
    assert size + 512 == allotted


def test_the_operator_of_cann_that_is_called_the_same_is_not_taken_for_it() -> None:
    context = Tensor("Int32", (1024,))
    assert asked("MegaMoe", [context, NARROW, CHOICES], [NARROW]) == ("fused", 16 * MIB)


def test_dispatch_and_combine_take_little_beside_the_buffers_of_hccl() -> None:
    assert asked("MoeDistributeDispatch", [NARROW, CHOICES], [NARROW]) == ("dispatch", 17 * MIB)
    assert asked("MoeDistributeCombine", [NARROW, CHOICES], [NARROW]) == ("combine", 16 * MIB + 4096)


def test_the_first_routing_waits_in_other_steps_than_the_second() -> None:
    inputs = [NARROW, CHOICES]
    assert asked("MoeInitRouting", inputs, [])[1] == 16 * MIB + 28 * 8192 + 64 * 48
    assert asked("MoeInitRoutingV2", inputs, [])[1] == 16 * MIB + 32 * 8192 + 8 * 48


def test_a_product_that_gathers_first_holds_the_rows_of_all_cards() -> None:
    rows, weight = Tensor("BFloat16", (1024, 4096)), Tensor("BFloat16", (4096, 1000))
    _, size = asked(
        "AllGatherMatmul", [rows, weight], [Tensor("BFloat16", (8192, 1000)), Tensor("BFloat16", (8192, 4096))]
    )
    assert size == 16 * MIB + 8 * 1024 * 4096 * 2 + 4096 * 1024 * 2 + 1024 * 4


def test_a_product_that_scatters_its_sums_holds_the_whole_of_them() -> None:
    rows, weight = Tensor("BFloat16", (8192, 512)), Tensor("BFloat16", (512, 4096))
    _, size = asked("MatmulReduceScatter", [rows, weight], [Tensor("BFloat16", (1024, 4096))])
    assert size == 16 * MIB + 8192 * 4096 * 2 + 512 * 4096 * 2 + 4096 * 4


# --- not known --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "primitive",
    [
        *("Custom", "CustomOp", "DispatchFFNCombine", "FusedInferAttentionScore", "MatmulAllReduceAddRmsNorm"),
        *("AlltoAllvGroupedMatMul", "GroupedMatMulAlltoAllv", "NsaCompress", "MlaProlog", "MoeReRouting", "FFN"),
    ],
)
def test_several_kernels_in_one_that_no_rule_knows_are_not_known(primitive: str) -> None:
    assert is_fused(primitive)
    assert asked(primitive, [NARROW], [NARROW]) == ("fused", 16 * MIB)


@pytest.mark.parametrize("primitive", ["Transpose", "Concat", "AllReduce", "AllGather", "StridedSlice", "MatMul"])
def test_one_kernel_is_not_taken_for_several(primitive: str) -> None:
    assert not is_fused(primitive)


@pytest.mark.parametrize("primitive", ["DistCommAllReduce", "InnerCommAllGather"])
def test_collectives_of_pynative_mode_have_buffers_of_hccl_as_all_others(primitive: str) -> None:
    assert asked(primitive, [NARROW], [NARROW]) == ("", 0)


def test_what_is_not_known_is_told_by_name_and_not_counted_as_nothing() -> None:
    needed = workspace(with_kernel("DispatchFFNCombine"))
    assert needed.unknown == ("DispatchFFNCombine",)
    assert workspace(golden("llama_l2_none")).unknown == ()
    part = workspace_part(with_kernel("DispatchFFNCombine"))
    assert part.most_bytes > 0
    assert "(not known of DispatchFFNCombine)" in part.words


def test_the_origin_of_a_report_names_it() -> None:
    trace = with_kernel("DispatchFFNCombine")
    report = RankReport(file="train.yaml", rank=0, stage=0, level=1, outcome=RankOutcome.COMPLETED)
    raised = at_level(2, report, workspace(trace), trace, A2)
    assert origin(raised) == "dry run level 2, workspace estimated, not known of DispatchFFNCombine"
    assert "not known" not in origin(at_level(2, report, workspace(golden("llama_l2_none")), trace, A2))


def test_a_kernel_for_which_mindspore_recorded_none_is_not_known() -> None:
    """In a dry run, CANN says 0 for a kernel that others built."""
    recorded = grow(with_kernel("HyperMegaMoe")).trace
    lost = next(task.event for task in recorded.tasks if task.primitive == "HyperMegaMoe")
    rows = [row for row in recorded.blocks if not (row.kind == KIND and row.task == lost)]
    silent = replace(recorded, blocks=Blocks.of(rows))
    assert workspace(recorded).unknown == ()
    assert workspace(silent).unknown == ("HyperMegaMoe",)
    assert workspace_part(silent).words == "operator workspace 0B (not known of HyperMegaMoe)"


def test_without_a_graph_it_is_not_known_and_the_line_of_the_card_says_so() -> None:
    part = workspace_part(replace(golden("llama_l2_none"), tasks=()))
    assert part.most_bytes == 0
    whole = Beside(parts=(part,), card_bytes=64 * GIB).whole(GIB, "told")
    assert "operator workspace 0B (not known: " in device_line(whole, "generic")
    assert as_record(whole)["parts"][1]["unknown"].startswith("not known: ")


def test_a_cache_of_an_older_release_has_no_such_field_and_is_read() -> None:
    row = {"name": "workspace", "least_bytes": 0, "middle_bytes": 1, "most_bytes": 2, "origin": "told"}
    read = beside_of_record({"parts": [row], "card_bytes": GIB, "joins_fragments": True})
    assert read.parts[0].unknown == ""


# --- the symmetric heap -----------------------------------------------------------------------------------------------


def heap(trace: Trace, **environment: str) -> Part:
    (part,) = symmetric_parts(trace, environment)
    return part


def test_the_symmetric_heap_counts_where_a_kernel_uses_it_and_what_tensors_hold_of_it_counts_once() -> None:
    trace = with_kernel("HyperMegaMoe")
    part = heap(trace)
    assert (part.least_bytes, part.most_bytes) == (GIB - 2 * 4096 * 5120 * 2, GIB)
    assert heap(trace, SYMMETRIC_MEMORY_HEAP_SIZE=str(2 * GIB)).most_bytes == 2 * GIB
    assert heap(trace, HYPER_PARALLEL_SHMEM_HEAP_SIZE=str(3 * GIB)).most_bytes == 3 * GIB
    assert heap(trace, SYMMETRIC_MEMORY_HEAP_SIZE="much").most_bytes == GIB
    assert symmetric_parts(golden("llama_l2_none"), {}) == ()
