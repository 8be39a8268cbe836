"""From runs with fewer layers to the whole model, with a made-up MindSpore whose memory is known in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from swapconf.dryrun.child import Ran
from swapconf.dryrun.fold import folded as module
from swapconf.dryrun.fold.folded import dry_run
from swapconf.dryrun.fold.grown_trace import Attempt
from swapconf.dryrun.fold.micro_batches import micro_batches
from swapconf.dryrun.fold.orders import foldable, plans
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.study.study import Study
from swapconf.trace.blocks import Blocks
from swapconf.trace.trace import Block, Kernel, Task, Tensor, Trace, WorkerLog
from swapconf.words.findings import Finding, Origin, Severity
from tests.unit.test_folding import document, swap

MIB, GIB = 1 << 20, 1 << 30
NETWORK = "Default/network-Train/backbone-Llama/layers-CellList"


@dataclass(frozen=True)
class Shape:
    """Bytes in use: at the loss, ``head`` and ``activation`` for each layer; in the optimizer, ``state`` for each;
    everywhere a ``slice`` of the input for each micro-batch."""

    head: int = 100 * MIB
    activation: int = 20 * MIB
    state: int = 5 * MIB
    optimizer: int = 10 * MIB
    bend: int = 0
    fragments: int = 3 * MIB
    slice: int = 0

    def loss_bytes(self, layers: int) -> int:
        return self.head + layers * (self.activation + self.state) + self.bend * layers**2

    def optimizer_bytes(self, layers: int) -> int:
        return self.optimizer + layers * 2 * self.state

    def peak_bytes(self, layers: int) -> int:
        return max(self.loss_bytes(layers), self.optimizer_bytes(layers))


def block(start: int, name: str, used: int, peak: int, on_host: bool = False) -> Block:
    return Block(
        start=start,
        end=start + 1,
        address=0,
        size_bytes=used,
        stream=0,
        pool="Other" if on_host else "Pool",
        kind="Kernel",
        task=start,
        task_name=f"{start}_{name}",
        node=name,
        users=(),
        is_persistent=False,
        used_bytes=used,
        pool_peak_bytes=peak,
    )


def trace(shape: Shape, layers: int, micro_batches: int = 1, swapped: Sequence[bool] = ()) -> Trace:
    """``swapped``: which of the layers, by default all."""
    places = [
        (
            f"{NETWORK}/{index}-LLamaDecodeLayer/attention-LLamaAttention/MatMul-op{index}",
            shape.head // 2 + (index + 1) * (shape.activation + shape.state),
        )
        for index in range(layers)
    ]
    places += [("Default/network-Train/loss-CrossEntropy/Softmax-op0", shape.loss_bytes(layers))]
    places += [("Default/optimizer-AdamW/Adam-op0", shape.optimizer_bytes(layers))]
    slices = micro_batches * shape.slice
    peak = shape.peak_bytes(layers) + shape.fragments + slices
    blocks = [block(2 * step + 1, name, used + slices, peak) for step, (name, used) in enumerate(places)]
    blocks.append(block(2 * len(places) + 1, "MoveTo-op0", layers * MIB, 0, on_host=True))
    kernels = [
        Kernel(
            index=index,
            stream=3,
            graph="g",
            primitive=primitive,
            output=f"%{index}",
            inputs=("ValueNode<StringImm> CPU",) if primitive == "MoveTo" else (),
            name=f"{NETWORK}/{index}-LLamaDecodeLayer/attention-LLamaAttention/{primitive}-op{step * layers + index}",
        )
        for step in range(micro_batches)
        for index in range(layers)
        for primitive in ("MatMul", *(["MoveTo"] if not swapped or swapped[index] else []))
    ]
    return Trace(folder="", rank=0, blocks=Blocks.of(blocks), kernels=tuple(kernels), tasks=())


@pytest.fixture
def mindspore(monkeypatch: pytest.MonkeyPatch) -> Callable[[Shape], list[Any]]:
    """Puts a made-up MindSpore into the child's place; returns the list of the layers it was run with, and of the
    micro-batches where they matter."""
    ran: list[Any] = []

    def install(shape: Shape) -> list[Any]:
        def run(order: RankOrder, study: Study, part: str = "") -> Ran:
            assert study.strategy is not None
            own = [entry.plan.outcomes for entry in study.strategy.layers if entry.layer.stage == 0]
            swapped = [any(outcome.void is None for outcome in outcomes) for outcomes in own]
            layers = len(swapped)
            counted = micro_batches(order.document, study.config.pipeline).count if shape.slice else 1
            ran.append(layers if not shape.slice else (layers, counted))
            report = RankReport(
                file=order.document.file, rank=order.rank, stage=0, level=order.level, outcome=RankOutcome.COMPLETED
            )
            return Ran(
                report=report, log=WorkerLog(), trace=trace(shape, layers, counted, swapped), reserved_bytes=2 << 30
            )

        monkeypatch.setattr(module, "run", run)
        return ran

    return install


def order(settings: dict[str, Any] | None = None, layers: int = 32) -> RankOrder:
    return RankOrder(
        document=document(settings or swap(layer_swap=[{"backward_prefetch": 1, "layers": True}]), layers),
        rank=0,
        fold=True,
    )


def test_two_runs_are_enough_where_memory_is_on_a_line(mindspore: Callable[[Shape], list[Any]]) -> None:
    shape = Shape()
    ran = mindspore(shape)
    report = dry_run(order({"swap_config.swap": False}))
    assert sorted(ran) == [4, 6]
    assert report.used_peak_bytes == shape.peak_bytes(32)
    assert report.with_fragments_peak_bytes == shape.peak_bytes(32) + shape.fragments
    assert report.folded == (4, 6)
    assert report.fold_note == "extrapolated from 4 and 6 of 32 equal layers (fragments are estimated)"


def test_fragments_that_are_only_estimated_refuse_nothing(mindspore: Callable[[Shape], list[Any]]) -> None:
    """Those of a whole run do, and so does the used peak of a folded one."""
    shape = Shape(fragments=200 * MIB)
    room = (shape.peak_bytes(32) + 100 * MIB) // MIB
    for megabytes, fold, outcome in (
        (room, True, RankOutcome.COMPLETED),
        (room, False, RankOutcome.DOES_NOT_FIT),
        (room - 200, True, RankOutcome.DOES_NOT_FIT),
    ):
        mindspore(shape)
        report = dry_run(
            replace(order({"swap_config.swap": False, "context.max_device_memory": f"{megabytes}MB"}), fold=fold)
        )
        assert report.outcome is outcome
        (told,) = (finding for finding in report.findings if finding.rule == "does-not-fit")
        assert told.severity is (Severity.WARNING if outcome is RankOutcome.COMPLETED else Severity.ERROR)


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        (
            "Gradients/Default/network-Train/backbone-Llama/loss-CrossEntropy/ReduceScatter-op0",
            "Gradients/Default/network-Train/backbone-Llama/model-Model/ReduceScatter-op1",
        ),
        ("Default/GraphKernel_Exp_ReduceSum_split-op0", "Default/GraphKernel_Mul_Reciprocal_split-op0"),
    ],
)
def test_what_grows_faster_is_not_hidden_behind_another_part_of_the_model(
    mindspore: Callable[[Shape], list[Any]], monkeypatch: pytest.MonkeyPatch, slow: str, fast: str
) -> None:
    """With few layers the loss is higher, with all of them the gradients of the embedding."""
    mindspore(Shape())
    run = module.run  # type: ignore[attr-defined]

    def with_two_more(order: RankOrder, study: Study, part: str = "") -> Ran:
        done: Ran = run(order, study, part)
        assert done.trace is not None
        layers = study.config.model.num_layers or 0
        blocks = [*done.trace.blocks]
        more = ((slow, 2 * GIB + layers * MIB), (fast, GIB + layers * 100 * MIB))
        start = blocks[-1].start
        for name, used in more:
            start += 2
            blocks.append(block(start, name, used, used))
        return replace(done, trace=replace(done.trace, blocks=Blocks.of(blocks)))

    monkeypatch.setattr(module, "run", with_two_more)
    report = dry_run(order({"swap_config.swap": False}))
    assert report.folded is not None
    assert report.used_peak_bytes == GIB + 32 * 100 * MIB


def test_kernels_that_are_fused_otherwise_with_more_layers_are_no_reason_for_a_further_run(
    mindspore: Callable[[Shape], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that adds up something of all layers, say; a cell that only one of the runs has is a reason."""
    for name, seen in (
        ("Default/GraphKernel_Add{}_split-op0", [4, 6]),
        ("Default/network-Train/{}-Cell/Add-op0", [4, 6, 8]),
    ):
        ran = mindspore(Shape())
        ran.clear()
        run = module.run  # type: ignore[attr-defined]

        def with_one_more(
            order: RankOrder, study: Study, part: str = "", name: str = name, run: Callable[..., Ran] = run
        ) -> Ran:
            done, layers = run(order, study, part), study.config.model.num_layers or 0
            assert done.trace is not None
            blocks = [*done.trace.blocks]
            blocks.append(block(blocks[-1].start + 2, name.format("_Add" * layers), MIB, MIB))
            return replace(done, trace=replace(done.trace, blocks=Blocks.of(blocks)))

        monkeypatch.setattr(module, "run", with_one_more)
        dry_run(order({"swap_config.swap": False}))
        assert ran == seen


def test_a_peak_that_only_the_grown_trace_shows_counts(
    mindspore: Callable[[Shape], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a moment that is nowhere the highest of its place in a small run."""
    shape = Shape(slice=6656)
    mindspore(shape)
    few = 3
    seen = trace(replace(shape, head=shape.head + 64 * MIB), 32, few)

    def attempt(*_: object) -> Attempt:
        return Attempt(trace=seen, used=(None, None))  # type: ignore[arg-type]

    monkeypatch.setattr(module, "attempt", attempt)
    report = dry_run(order({"swap_config.swap": False, **ACCUMULATED}))
    assert report.used_peak_bytes == shape.peak_bytes(32) + 64 * MIB + 64 * shape.slice
    assert report.peak is not None
    assert report.peak.at.used_bytes == report.used_peak_bytes


def test_moves_and_host_memory_are_those_of_all_layers(mindspore: Callable[[Shape], list[Any]]) -> None:
    mindspore(Shape())
    report = dry_run(order())
    assert [move.layer for move in report.moved] == [str(index) for index in range(32)]
    assert {move.tensors for move in report.moved} == {1}
    assert report.host_bytes == 32 * MIB
    assert len(report.strategy_lines) == 32


def test_a_peak_that_wanders_with_the_layers_is_found_and_confirmed(mindspore: Callable[[Shape], list[Any]]) -> None:
    shape = Shape(activation=-4 * MIB, state=40 * MIB, head=800 * MIB, optimizer=0)
    assert shape.peak_bytes(6) == shape.loss_bytes(6)
    assert shape.peak_bytes(32) == shape.optimizer_bytes(32)
    ran = mindspore(shape)
    report = dry_run(order({"swap_config.swap": False}))
    assert report.used_peak_bytes == shape.optimizer_bytes(32)
    assert ran == [4, 6, 8]
    assert "confirmed with 8 layers because the peak moves" in report.fold_note


def test_the_whole_model_is_run_where_a_third_run_is_off_the_line(mindspore: Callable[[Shape], list[Any]]) -> None:
    shape = Shape(bend=MIB, activation=-4 * MIB, state=40 * MIB, head=800 * MIB)
    ran = mindspore(shape)
    report = dry_run(order({"swap_config.swap": False}))
    assert ran == [4, 6, 8, 12, 32]  # every two layers, then every four
    assert report.used_peak_bytes == shape.peak_bytes(32)
    assert report.folded is None
    assert report.fold_note.startswith("the whole model was run: ")


def test_what_a_far_prefetch_bends_is_not_tried_with_other_numbers_of_layers(
    mindspore: Callable[[Shape], list[Any]],
) -> None:
    shape = Shape(bend=MIB)
    ran = mindspore(shape)
    report = dry_run(order(swap(layer_swap=[{"backward_prefetch": 300, "layers": True}])))
    assert ran == [4, 6, 8, 32]
    assert report.used_peak_bytes == shape.peak_bytes(32)


PIPELINED = {
    "parallel_config.pipeline_stage": 2,
    "parallel_config.data_parallel": 1,
    "parallel_config.model_parallel": 4,
    "parallel_config.micro_batch_num": 64,
}


@pytest.mark.parametrize("layers", [[2, 4, 6, 8, 10], True])
def test_where_layers_are_on_no_line_one_run_has_all_of_them(
    mindspore: Callable[[Shape], list[Any]], layers: Any
) -> None:
    """As they are treated in turns, or a prefetch reaches over them; micro-batches are told by a few layers."""
    shape = Shape(slice=6656, bend=MIB)
    ran = mindspore(shape)
    asked = swap(layer_swap=[{"backward_prefetch": 300, "layers": layers}])
    report = dry_run(order({**asked, **PIPELINED}, layers=24))
    (few, least), full, more = ran
    assert full == (12, least)
    assert more == (few, least + 1)
    assert few < 4
    assert report.used_peak_bytes == shape.peak_bytes(12) + 64 * shape.slice
    assert report.with_fragments_peak_bytes == report.used_peak_bytes + shape.fragments
    moved = layers if isinstance(layers, list) else range(12)
    assert [(move.layer, move.tensors) for move in report.moved] == [(str(index), 64) for index in moved]
    assert report.fold_note.startswith(
        "from a run with all 12 layers and 3 of 64 micro-batches; what each more adds is "
    )


@pytest.mark.parametrize(
    ("asked", "has_all_of_them_run"),
    [
        ({"swap_config.swap": False, "context.jit_config.jit_level": "O1"}, True),
        ({"swap_config.swap": False, "context.jit_config.jit_level": "O0"}, False),
        ({**swap(layer_swap=[{"backward_prefetch": 1, "layers": True}]), "context.jit_config.jit_level": "O1"}, False),
    ],
)
def test_a_short_stage_has_a_graph_with_fused_kernels_from_its_own_run(
    tmp_path: Path, asked: dict[str, Any], has_all_of_them_run: bool
) -> None:
    """Which is only kept of a run without swap and recompute."""
    kept = replace(order({**asked, **PIPELINED}, layers=24), keep=tmp_path)
    first = plans(kept, kept.study(kept.document))[0]
    assert (first.full_run is not None) == has_all_of_them_run
    not_kept = replace(kept, keep=None)
    assert plans(not_kept, not_kept.study(not_kept.document))[0].full_run is None


@dataclass(frozen=True)
class Alternating(Shape):
    """Every other pair of layers, the optimizer needs something more."""

    def optimizer_bytes(self, layers: int) -> int:
        return self.optimizer + layers * 2 * self.state + 10 * MIB * (layers % 4 == 2)


def test_a_further_run_judges_the_place_where_the_whole_model_has_its_peak(
    mindspore: Callable[[Shape], list[Any]],
) -> None:
    """Not only the place where that run has it; and layers that alternate are folded by two periods."""
    shape = Alternating(activation=-4 * MIB, state=40 * MIB, head=1400 * MIB, optimizer=0)
    assert shape.peak_bytes(8) == shape.loss_bytes(8)
    assert shape.peak_bytes(32) == shape.optimizer_bytes(32)
    ran = mindspore(shape)
    report = dry_run(order({"swap_config.swap": False}))
    assert report.used_peak_bytes == shape.peak_bytes(32)
    assert ran == [4, 6, 8, 12]
    assert report.folded == (4, 8, 12)


ACCUMULATED = {"runner_config.gradient_accumulation_steps": 64}


def test_layers_and_micro_batches_are_folded_together(mindspore: Callable[[Shape], list[Any]]) -> None:
    shape = Shape(slice=6656)
    ran = mindspore(shape)
    report = dry_run(order({**swap(layer_swap=[{"backward_prefetch": 1, "layers": True}]), **ACCUMULATED}))
    (small, few), *others = ran
    assert few < 64 > 32 > small
    assert [(small, few + 1), few, few + 2] == [
        next(one for one in others if one[0] == small),
        *sorted(counted for layers, counted in others if layers > small),
    ]  # the third one confirms both
    assert report.used_peak_bytes == shape.peak_bytes(32) + 64 * shape.slice
    assert {move.tensors for move in report.moved} == {64}
    assert len(report.moved) == 32
    assert report.host_bytes == 32 * MIB
    assert f"{few} and {few + 1} of 64 micro-batches" in report.fold_note


def test_without_swapconf_micro_batches_are_folded_and_layers_are_not(mindspore: Callable[[Shape], list[Any]]) -> None:
    shape = Shape(slice=6656)
    ran = mindspore(shape)
    report = dry_run(replace(order({"swap_config.swap": False, **ACCUMULATED}), plain=True))
    assert ran == [(32, 3), (32, 4), (32, 5)]  # the third one confirms
    assert report.used_peak_bytes == shape.peak_bytes(32) + 64 * shape.slice


def test_where_the_layers_do_not_hold_the_micro_batches_may(mindspore: Callable[[Shape], list[Any]]) -> None:
    """The cheapest fold is refuted, and the next one is tried before the whole."""
    shape = Shape(slice=6656, bend=MIB)
    ran = mindspore(shape)
    report = dry_run(order({**swap(layer_swap=[{"backward_prefetch": 300, "layers": True}]), **ACCUMULATED}))
    assert report.used_peak_bytes == shape.peak_bytes(32) + 64 * shape.slice
    assert ran[-1][0] == 32
    assert ran[-1][1] < 64
    assert len(ran) == len(set(ran))


def test_a_model_that_deals_its_layers_in_its_own_way_is_run_whole(
    mindspore: Callable[[Shape], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = mindspore(Shape())
    run = module.run  # type: ignore[attr-defined]

    def one_layer_less(order: RankOrder, study: Study, part: str = "") -> Ran:
        done = run(order, study, part)
        fewer = trace(Shape(), (study.config.model.num_layers or 0) - 1)
        kernels = tuple(replace(kernel, primitive="MatMul") for kernel in fewer.kernels)
        return replace(done, trace=replace(fewer, kernels=kernels)) if part else done

    monkeypatch.setattr(module, "run", one_layer_less)
    report = dry_run(order({"swap_config.swap": False}))
    assert (ran, report.folded) == ([4, 32], None)
    assert "with 4 layers the stage ran 3 layers where 4 were expected" in report.fold_note


@pytest.mark.parametrize(("reserved", "expected"), [(lambda peak: -(-peak // GIB) + 1, 24), (lambda _: 54, 54)])
def test_what_the_pool_reserves_follows_the_peak_unless_it_was_taken_in_advance(
    mindspore: Callable[[Shape], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    reserved: Callable[[int], int],
    expected: int,
) -> None:
    mindspore(Shape(activation=700 * MIB))
    run = module.run  # type: ignore[attr-defined]

    def with_pool(order: RankOrder, study: Study, part: str = "") -> Ran:
        done = run(order, study, part)
        assert done.trace is not None
        return replace(done, reserved_bytes=reserved(done.trace.with_fragments_peak_bytes) * GIB)

    monkeypatch.setattr(module, "run", with_pool)
    assert dry_run(order({"swap_config.swap": False})).reserved_bytes == expected * GIB


def test_what_can_be_folded_is_known_before_it_is_run() -> None:
    assert foldable(order())
    assert foldable(replace(order(ACCUMULATED), plain=True))
    assert not foldable(replace(order(), plain=True))
    assert not foldable(order({}, layers=5))


def test_a_part_that_fails_is_told_and_the_whole_model_is_not_run(
    mindspore: Callable[[Shape], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = mindspore(Shape())
    run = module.run  # type: ignore[attr-defined]

    def late(order: RankOrder, study: Study, part: str = "") -> Ran:
        done = run(order, study, part)
        told = Finding(
            origin=Origin(file="f"),
            rule="framework-error",
            severity=Severity.ERROR,
            message="rank 0: reached its time limit in step 1",
            hint=f"the log is rank_0/{part}/worker.log",
        )
        ended = replace(done.report, outcome=RankOutcome.TIMED_OUT, used_peak_bytes=77, findings=(told,))
        return replace(done, trace=None, report=ended) if part == "layers_6" else done

    monkeypatch.setattr(module, "run", late)
    report = dry_run(order())
    assert sorted(ran) == [4, 6]
    assert (report.outcome, report.used_peak_bytes, report.folded) == (RankOutcome.TIMED_OUT, None, None)
    assert report.fold_note == "a run with 6 layers reached its time limit, so the whole model was not run"
    (finding,) = report.findings
    assert "in step 1 (a run with 6 layers, from which the whole model was to be extrapolated)" in finding.message
    assert "rank_0/layers_6/worker.log" in finding.hint


@pytest.mark.parametrize("change", [{"plain": True}, {"fold": False}, {"level": 0}])
def test_what_is_never_folded(mindspore: Callable[[Shape], list[Any]], change: dict[str, Any]) -> None:
    ran = mindspore(Shape())
    dry_run(replace(order(), **change))
    assert ran == [32]


def with_graph(made: Trace) -> Trace:
    """The same with the launch that made each device block, so that workspace can be estimated."""
    small = Tensor("Float32", (8, 8))
    return replace(
        made,
        tasks=tuple(
            Task(
                event=block.start,
                name=block.node,
                inputs=(),
                outputs=(block.start,),
                attributes=(),
                input_tensors=(small, small),
                output_tensors=(small,),
            )
            for block in made.blocks
            if not block.on_host
        ),
    )


def test_level_2_is_folded_with_the_workspace_in_it(
    mindspore: Callable[[Shape], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = Shape()
    ran = mindspore(shape)
    run = module.run  # type: ignore[attr-defined]

    def run_with_graph(order: RankOrder, study: Study, part: str = "") -> Ran:
        done = run(order, study, part)
        assert done.trace is not None
        return replace(done, trace=with_graph(done.trace), report=replace(done.report, level=1))

    monkeypatch.setattr(module, "run", run_with_graph)
    report = dry_run(replace(order({"swap_config.swap": False}), level=2))
    assert sorted(ran) == [4, 6]
    workspace = 16 * MIB + 512  # of the Softmax at the loss, where the peak is; in whole blocks
    assert report.used_peak_bytes == shape.peak_bytes(32) + workspace
    assert (report.level, report.workspace, report.folded) == (2, "estimated", (4, 6))
    assert report.workspace_kernel == "MatMul"  # the largest of all, though not at the peak
    level_3 = dry_run(replace(order({"swap_config.swap": False}), level=3))
    assert level_3.folded is None
    assert ran[2:] == [32]


def test_without_a_graph_level_2_is_not_folded(mindspore: Callable[[Shape], list[Any]]) -> None:
    ran = mindspore(Shape())
    report = dry_run(replace(order({"swap_config.swap": False}), level=2))
    assert ran == [4, 32]
    assert "no graph" in report.fold_note
    assert "level-not-reached" in {finding.rule for finding in report.findings}
