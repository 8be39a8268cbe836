"""Where passes begin in traces that are written by hand as those of DeepSeek-V3 are: a stage in the middle with the
parallel optimizer, which has as many layers as micro-batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from swapconf.dryrun.composing.arranged import arranged
from swapconf.dryrun.composing.passes import Passes, order, passes
from swapconf.dryrun.growing.steps import Steps, steps
from swapconf.trace import trace_folder
from swapconf.trace.trace import without_number
from tests.unit.stage_traces import CELL, Writer

MICRO_BATCHES = LAYERS = 8
BATCH = "Default/network-Net/micro_inputs-CellList/{number}-_MicroBatch"
EXCHANGED = ("ReduceScatter", "Cast", "Mul", "Assign", "AllGather")


class Stage(Writer):
    """Names are counted, as MindSpore does."""

    def add(self, name: str) -> None:
        self.counts = getattr(self, "counts", Counter[str]())
        self.kernel(f"{name}-op{self.counts[name]}")
        self.counts[name] += 1

    def forward(self) -> None:
        for layer in range(LAYERS):
            self.add(f"{CELL.format(layer=layer)}/MatMul")
            self.add(f"{CELL.format(layer=layer)}/Gelu")

    def backward(self, micro_batch: int) -> None:
        for layer in reversed(range(LAYERS)):
            self.add(f"Gradients/{CELL.format(layer=layer)}/GeluGrad")
            self.add(f"Gradients/{CELL.format(layer=layer)}/MatMul")
            if micro_batch == MICRO_BATCHES - 1:
                self.add("Gradients/Default/Grad__MirrorMicroStepOperator/AllReduce")

    def exchange(self) -> None:
        """Once a layer, behind the last pass."""
        for _ in range(LAYERS):
            for primitive in EXCHANGED:
                self.add(f"Gradients/Default/Grad__MicroStepAllGather/{primitive}")


def trace(folder: Path, in_flight: int) -> Steps:
    stage = Stage(rank=0)
    stage.add(f"{BATCH.format(number=MICRO_BATCHES - 1)}/AllGather")
    for number in range(MICRO_BATCHES):
        stage.add(f"{BATCH.format(number=number)}/StridedSlice")
    for is_backward, micro_batch in order(in_flight, MICRO_BATCHES):
        if not is_backward:
            stage.forward()
            continue
        if micro_batch == MICRO_BATCHES - 1:
            stage.add("Gradients/Default/AddN")
        stage.backward(micro_batch)
    stage.exchange()
    stage.save(folder / "rank_0", 0)
    return steps(trace_folder.read(folder / "rank_0", 0))


def found(run: Steps) -> Passes:
    return passes(run, MICRO_BATCHES)


@pytest.mark.parametrize("in_flight", [2, 4, 8])
def test_passes_are_those_of_layers_whatever_the_optimizer_exchanges_as_often(tmp_path: Path, in_flight: int) -> None:
    run = trace(tmp_path, in_flight)
    rows = found(run).rows
    assert found(run).in_flight == in_flight
    assert [(one.is_backward, one.micro_batch) for one in rows] == order(in_flight, MICRO_BATCHES)
    first = {False: f"{CELL.format(layer=0)}/MatMul", True: f"Gradients/{CELL.format(layer=LAYERS - 1)}/GeluGrad"}
    assert [without_number(run.kernels[one.start].name) for one in rows] == [first[one.is_backward] for one in rows]


@pytest.mark.parametrize(("in_flight", "wanted", "micro_batches"), [(4, 6, 8), (4, 2, 8), (4, 4, 6), (2, 2, 10)])
def test_what_is_launched_once_in_front_of_the_last_pass_stays_there(
    tmp_path: Path, in_flight: int, wanted: int, micro_batches: int
) -> None:
    run = trace(tmp_path, in_flight)
    made = arranged(run, found(run), wanted, micro_batches)
    names = [without_number(run.kernels[place].name) for place in made.source.tolist()]
    assert Counter(names)["Gradients/Default/AddN"] == 1
    at = names.index("Gradients/Default/AddN")
    assert (made.number[at], made.number[at + 1]) == (2 * micro_batches - 2, 2 * micro_batches - 1)
    exchanged = [name for name in names if "Grad__MicroStepAllGather" in name]
    assert names[-len(exchanged) :] == exchanged
    assert len(exchanged) == LAYERS * len(EXCHANGED)


@pytest.mark.parametrize("micro_batches", [6, 8, 10])
def test_what_all_micro_batches_are_cut_out_of_is_there_once_though_it_bears_the_name_of_one(
    tmp_path: Path, micro_batches: int
) -> None:
    run = trace(tmp_path, 4)
    made = arranged(run, found(run), 4, micro_batches)
    primitives = Counter(run.kernels[place].primitive for place in made.source.tolist())
    assert primitives["StridedSlice"] == micro_batches
    assert primitives["AllGather"] == 1 + LAYERS
