"""A trace composed from a run of another layout: the same as if its stage had been run.

The runs are of Qwen3 (hidden 512, 8 heads, vocabulary 4096, sequence 1024, tensor parallel 2) under MindSpore 2.9.0:
``first`` stage 0 of 4 with 2 of 8 layers and 6 micro-batches, ``only`` 4 layers without a pipeline and 4 micro-batches.
What other layouts really take was measured with the same versions (scripts/evidence/composed.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swapconf.dryrun.composing import keep, peers
from swapconf.dryrun.composing.arranged import arranged
from swapconf.dryrun.composing.composed import Composed, Source, composed
from swapconf.dryrun.composing.passes import order, passes
from swapconf.dryrun.composing.rearranged import rearranged
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.stage import Role, Stage
from swapconf.dryrun.growing.settled import settled
from swapconf.dryrun.growing.steps import steps
from swapconf.memory.replay import replay
from swapconf.timing.meetings import calls, meetings
from swapconf.trace import run_record, trace_folder
from swapconf.trace.trace import Trace
from tests.helpers import ROOT, TRACES, packed, study_of

QWEN = ROOT / "configs" / "small" / "qwen3_default_swap.yaml"
LIKE = (
    "model.model_config.hidden_size=512",
    "model.model_config.num_attention_heads=8",
    "model.model_config.num_key_value_heads=4",
    "model.model_config.head_dim=64",
    "model.model_config.intermediate_size=1536",
    "model.model_config.vocab_size=4096",
    "model.model_config.seq_length=1024",
    "parallel_config.model_parallel=2",
    'swap_config={"swap": false}',
)
CLOSE = 0.0001  # of the used peak


@cache
def stage(number: int, of: int, layers: int, micro_batches: int, *changes: str, data: int = 1) -> Stage:
    """Stage ``number`` of so many, with so many ``layers`` of the whole model."""
    piped, accumulated = (micro_batches, 1) if of > 1 else (1, micro_batches)
    layout = (
        f"model.model_config.num_hidden_layers={layers}",
        f"parallel_config.pipeline_stage={of}",
        f"parallel_config.micro_batch_num={piped}",
        f"runner_config.gradient_accumulation_steps={accumulated}",
        f"parallel_config.data_parallel={data}",
        f"parallel.dataset_strategy=[[{data},1],[{data},1],[{data},1],[{data},1]]",
    )
    return Stage(study=study_of(QWEN, *LIKE, *layout, *changes), number=number)


@cache
def first(micro_batches: int = 6) -> Source:
    return Source(
        stage=stage(0, 4, 8, micro_batches), trace=packed(TRACES / "composing" / "first"), micro_batches=micro_batches
    )


@cache
def only() -> Source:
    return Source(stage=stage(0, 1, 4, 4), trace=packed(TRACES / "composing" / "only"), micro_batches=4)


@cache
def of_two_stages() -> Composed:
    return composed(stage(0, 2, 4, 4), [first()])


def launches(trace: Trace) -> list[tuple[str, str, int]]:
    return [(kernel.name, kernel.primitive, kernel.stream) for kernel in trace.kernels]


def test_a_run_is_composed_of_itself() -> None:
    found, run = composed(first().stage, [first()]).trace, settled(first().trace)
    assert [kernel.primitive for kernel in found.kernels] == [kernel.primitive for kernel in run.kernels]
    assert sorted(found.blocks.size_bytes.tolist()) == sorted(run.blocks.size_bytes.tolist())
    assert found.used_peak_bytes == run.used_peak_bytes
    assert found.with_fragments_peak_bytes == run.with_fragments_peak_bytes


@pytest.mark.parametrize(
    ("name", "target", "used", "with_fragments", "kernels"),
    [
        ("first", (0, 2, 4, 4), 180_169_728, 189_945_856, 4218),  # two in flight, not four
        ("first", (0, 4, 8, 10), 280_037_376, 292_685_824, 8670),  # four more micro-batches
        ("first", (0, 4, 8, 4), 277_901_312, 288_443_392, 4218),  # no forward pass while others go backward
        ("only", (0, 1, 4, 6), 276_949_504, 279_851_520, 11598),
    ],
)
def test_another_number_of_micro_batches_takes_what_its_own_run_takes(
    name: str, target: tuple[int, int, int, int], used: int, with_fragments: int, kernels: int
) -> None:
    found = composed(stage(*target), [first() if name == "first" else only()]).trace
    assert found.used_peak_bytes == pytest.approx(used, rel=CLOSE)
    assert found.with_fragments_peak_bytes == pytest.approx(with_fragments, rel=5 * CLOSE)
    assert len(found.kernels) == kernels


def test_the_passes_of_a_composed_trace_take_turns_as_under_1f1b() -> None:
    found = passes(steps(of_two_stages().trace), 4)
    assert [(one.is_backward, one.micro_batch) for one in found.rows] == order(2, 4)


def test_a_tensor_that_a_forward_pass_keeps_is_released_in_the_backward_pass_of_its_micro_batch() -> None:
    found = steps(of_two_stages().trace)
    taken = passes(found, 4)
    blocks = found.trace.blocks
    scores = [row for row, node in enumerate(blocks.node) if "FlashAttentionScore-op" in blocks.nodes[node]]
    kept = [row for row in scores if found.freed[row] >= 0 and found.birthplace[row] < found.length]
    passed = [
        (taken.rows[taken.owner[found.birthplace[row]]], taken.rows[taken.owner[found.place[found.freed[row]]]])
        for row in kept
    ]
    through = [(one, two) for one, two in passed if one != two]
    assert len(through) >= 4 * 2  # micro-batches, layers
    assert all(not one.is_backward and two.is_backward for one, two in through)
    assert all(one.micro_batch == two.micro_batch for one, two in through)


def test_each_launch_has_a_name_of_its_own_and_reads_what_was_made_before_it() -> None:
    trace = of_two_stages().trace
    assert len({*launches(trace)[: len(trace.step)]}) == len(trace.step)
    born = set(trace.blocks.start.tolist())
    assert all({*task.inputs} <= born for task in trace.tasks)
    late = [task for task in trace.tasks if task.is_kernel and any(tensor > task.event for tensor in task.inputs)]
    assert not late


def test_the_blocks_of_a_composed_trace_lie_where_the_rules_of_the_pool_put_them() -> None:
    from swapconf.memory.addresses import unnamed

    trace = of_two_stages().trace
    assert replay(trace, unnamed(trace.blocks)).is_exact


def test_each_micro_batch_is_cut_out_of_a_batch_of_as_many_rows() -> None:
    trace = composed(stage(0, 4, 8, 10), [first()]).trace
    cuts = [task for task in trace.tasks if "_MicroBatch/StridedSlice" in task.name]
    count = len(trace.kernels) // len(trace.step)
    assert len({task.name for task in cuts}) == len(cuts) // count == 10
    assert {task.input_tensors[0].shape for task in cuts} == {(10, 1024)}


def test_a_composed_stage_sends_to_the_next_stage_of_its_own_layout() -> None:
    there = stage(0, 2, 4, 4)
    assert there.rank == 0
    sends = [dict(task.attributes) for task in of_two_stages().trace.tasks if task.primitive == "Send"]
    assert {one["dst_rank"] for one in sends} == {"2"}
    assert {one["comm_rank"] for one in sends} == {"0 2"}
    assert meetings({0: calls(of_two_stages().trace, 0)}) == ()


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (stage(1, 2, 4, 4), "the run is of the first stage, and asked for is the last stage, with an odd number"),
        (stage(0, 4, 8, 6, "parallel_config.model_parallel=4"), "parallel_config.model_parallel differs"),
        (stage(0, 4, 8, 6, "parallel_config.use_seq_parallel=True"), "parallel_config.use_seq_parallel differs"),
        (stage(0, 4, 8, 6, "runner_config.batch_size=2"), "runner_config.batch_size differs"),
        (stage(0, 4, 8, 6, "parallel.enable_parallel_optimizer=True"), "parallel.enable_parallel_optimizer differs"),
        (stage(0, 4, 8, 6, data=2), "with data_parallel 1 no gradients are added up"),
        (stage(0, 4, 12, 6), "it takes a run with as many layers in the stage"),
        (stage(0, 4, 8, 6, "recompute_config.recompute=True"), "something is swapped or recomputed"),
        (stage(0, 4, 8, 6, 'swap_config={"swap": true}'), "something is swapped or recomputed"),
        (
            stage(
                0,
                2,
                8,
                8,
                'parallel.pipeline_config={"pipeline_interleave": true, "pipeline_scheduler": "1f1b"}',
                "model.model_config.pp_interleave_num=2",
            ),
            "interleaved",
        ),
    ],
)
def test_what_does_not_compose_is_refused_with_its_reason(target: Stage, why: str) -> None:
    with pytest.raises(CannotCompose, match=why):
        composed(target, [first()])


def test_a_run_with_two_in_flight_does_not_show_what_more_of_them_repeat() -> None:
    two = replace(first(4), stage=stage(0, 2, 4, 4), trace=of_two_stages().trace)
    with pytest.raises(CannotCompose, match="two micro-batches in flight"):
        composed(stage(0, 4, 8, 6), [two])


def test_a_trace_of_other_micro_batches_than_it_is_said_to_have_is_refused() -> None:
    with pytest.raises(CannotCompose):
        composed(stage(0, 2, 4, 4), [replace(first(), micro_batches=7)])


def test_neighbours_in_the_middle_of_a_pipeline_have_roles_of_their_own() -> None:
    assert [stage(number, 4, 8, 6).role for number in range(4)] == [
        Role.FIRST,
        Role.MIDDLE_ODD,
        Role.MIDDLE_EVEN,
        Role.LAST_ODD,
    ]


def test_a_composed_trace_that_is_kept_can_be_composed_again(tmp_path: Path) -> None:
    whole = composed(stage(0, 4, 8, 8), [first()])
    keep.keep(whole, tmp_path)
    again = keep.source(tmp_path / "rank_0")
    assert again.stage.role is Role.FIRST
    assert (again.micro_batches, again.in_flight) == (8, 4)
    found = composed(stage(0, 2, 4, 4), [again]).trace
    assert found.used_peak_bytes == pytest.approx(of_two_stages().trace.used_peak_bytes, rel=CLOSE)


def test_a_trace_of_fewer_micro_batches_than_its_layout_says_how_many_it_has(tmp_path: Path) -> None:
    keep.keep(composed(stage(0, 4, 8, 32), [first()], micro_batches=8), tmp_path)
    assert run_record.micro_batches(tmp_path / "rank_0") == (8, 32)
    assert keep.source(tmp_path / "rank_0").micro_batches == 8


def test_a_folder_without_a_record_of_its_run_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(CannotCompose, match="not recorded"):
        keep.source(tmp_path)


def test_a_kept_composed_trace_is_read_again_and_says_what_it_is_composed_of(tmp_path: Path) -> None:
    report = keep.keep(of_two_stages(), tmp_path)
    again = trace_folder.read(tmp_path / "rank_0", rank=0)
    assert again.used_peak_bytes == of_two_stages().trace.used_peak_bytes == report.used_peak_bytes
    assert np.array_equal(again.blocks.address, of_two_stages().trace.blocks.address)
    record = run_record.report(tmp_path / "rank_0")
    assert run_record.grown(record) == ("composed from dry runs of 2 layers with 4 of 6 micro-batches in flight")


@pytest.mark.parametrize(
    ("name", "micro_batches", "in_flight"),
    [
        ("in_order/qwen3_moe_view_of_a_router", 3, 2),
        ("in_order/deepseek_v3_recomputed_mlp", 3, 1),
        ("in_order/glm2_add_beside_a_recomputed_norm", 4, 3),
        ("in_order/llama_alone_among_replicas", 4, 1),
        ("fused_in_order/llama", 2, 1),
    ],
)
def test_a_step_of_any_family_is_put_together_from_its_own_passes_as_it_was(
    name: str, micro_batches: int, in_flight: int
) -> None:
    run = settled(packed(TRACES / name))
    found = steps(run)
    taken = passes(found, micro_batches)
    assert taken.in_flight == in_flight
    again = rearranged(arranged(found, taken, in_flight, micro_batches))
    assert again.used_peak_bytes == run.used_peak_bytes
    assert [task.input_tensors for task in again.tasks] == [task.input_tensors for task in run.tasks]
    assert np.array_equal(np.argsort(again.blocks.end, kind="stable"), np.argsort(run.blocks.end, kind="stable"))
    assert len(again.opened.trace.kernels) == len(run.opened.trace.kernels)


@pytest.mark.parametrize(
    ("old", "ranks", "is_message", "name"),
    [  # as runs of MindSpore 2.9.0 name them: stage 1 of 4 with tensor parallel 2, stage 1 of 3 with data parallel 4
        ("0" * 48, [0, 2, 4, 6], False, "00adde28d73b2d94af214821e628204f9050f3783179f39b"),
        ("0" * 48 + "Send", [0, 2, 4, 6], True, "00adde28d73b2d94af214821e628204f9050f3783179f39bSend"),
        ("0" * 48, [0, 8, 16], False, "f794d5c33b540b1284133078983056844b97af90abbe7f6a"),
        ("hccl_world_group", [0, 1], False, "hccl_world_group"),
        ("4-4012500310532112944", [8, 10], False, "ranks-8-10"),
    ],
)
def test_groups_of_several_stages_are_named_as_in_a_run_of_them(
    old: str, ranks: list[int], is_message: bool, name: str
) -> None:
    assert peers._name(old, ranks, is_message) == name
