"""What-if on graphs of a few kernels: pieces of a pipeline, misnamed layers, fused norms, prefetches too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pytest

from swapconf.trace.columns import Ints, Kernels, LayerRows, Reads
from swapconf.trace.lifetimes import TICKS
from swapconf.trace.trace import Kernel
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.kept import cell_outputs, read_by_others
from swapconf.whatif.layer_passes import passes, rehomed
from swapconf.whatif.predict import underflows
from swapconf.whatif.recompute import StrategyProgram, recompute
from swapconf.whatif.region_parts import RegionPart
from swapconf.whatif.regions import _region
from swapconf.whatif.slots import COPY_BACK
from swapconf.whatif.swap import Unread, swap
from tests.unit.baselines import of_kernels


@dataclass(frozen=True, kw_only=True)
class Item:
    """A kernel; ``reads``: blocks, ``makes``: how many."""

    reads: Sequence[int] = ()
    makes: int = 1
    primitive: str = "Add"
    layer: int = -1
    passing: int = -1
    backward: bool = False
    stream: int = 0


def node(layer: int, passing: int, *reads: int, makes: int = 1, primitive: str = "Add") -> Item:
    return Item(reads=reads, makes=makes, primitive=primitive, layer=layer, passing=passing)


def gradient(*reads: int) -> Item:
    return Item(reads=reads, backward=True)


def baseline(*items: Item) -> Baseline:
    maker = np.repeat(np.arange(len(items)), [item.makes for item in items])
    return of_kernels(
        Kernels(
            name=tuple(map(str, range(len(items)))),
            layer=column(items, "layer"),
            cell=("",) * len(items),
            primitive=tuple(item.primitive for item in items),
            stream=column(items, "stream"),
            backward=column(items, "backward").astype(bool),
            passing=column(items, "passing"),
            before=np.arange(len(items) + 1),
        ),
        ((block, index) for index, item in enumerate(items) for block in item.reads),
        maker,
    )


def column(items: Sequence[Item], name: str) -> Ints:
    return np.array([getattr(item, name) for item in items], dtype=np.int64)


def test_of_an_interleaved_pipeline_only_the_first_piece_of_a_step_casts_its_weights_where_it_needs_them() -> None:
    """Layers 0 and 2, each for two micro-batches; of each pass the first kernel reads nothing."""
    passes = [(0, 0), (0, 2), (2, 4), (2, 6)]
    found = baseline(*(item for layer, first in passes for item in (node(layer, first), node(layer, first, first))))
    assert found.upfront.tolist() == [-1, -1, 3, -1, 5, -1, 7, -1]


@pytest.mark.parametrize(("is_extra", "batches"), [(False, 2), (True, 1)])
def test_a_gap_in_the_layers_begins_a_micro_batch_but_not_before_multi_token_prediction(
    is_extra: bool, batches: int
) -> None:
    found = baseline(
        *(item for layer, first in ((0, 0), (2, 2)) for item in (node(layer, first), node(layer, first, first)))
    )
    layers = LayerRows(("0", "1", "mtp0" if is_extra else "2"), np.array([False, False, is_extra]))
    assert len(replace(found, layers=layers).batches) == batches


def named(
    layers: Sequence[int], reads: Mapping[int, Sequence[int]], cells: Mapping[int, str] = MappingProxyType({})
) -> list[int]:
    """The layers that kernels belong to which are named after these; each makes one block, in a cell of its own where
    ``cells`` tells none."""
    uses = sorted((source, reader) for reader, sources in reads.items() for source in sources)
    block, kernel = (np.array(values, dtype=np.int64) for values in zip(*uses, strict=True))
    kernels = [
        Kernel(index=index, name=f"Default/x/{index}", stream=0, graph="", primitive="Add", output="", inputs=())
        for index in range(len(layers))
    ]
    found = rehomed(
        kernels,
        np.array(layers),
        [cells.get(index, str(index)) for index in range(len(layers))],
        np.zeros(len(layers), dtype=np.bool_),
        Reads(block=block, kernel=kernel, until=kernel, face=block, via=block),
        np.arange(len(layers)),
        {},
    )
    return [int(layer) for layer in found]


CHAIN = {reader: [reader - 1] for reader in range(1, 12)}


def test_kernels_between_those_of_one_layer_belong_to_it_whatever_they_are_named_after() -> None:
    assert named([1] * 5 + [0] + [1] * 6, CHAIN) == [1] * 12


def test_a_kernel_of_the_layer_between_two_that_are_misnamed_stays() -> None:
    assert named([1] * 5 + [0, 1, 0] + [1] * 4, CHAIN | {8: [7, 4]}) == [1] * 12


def test_a_layer_that_misnamed_kernels_part_into_small_pieces_is_no_part_of_the_one_in_front() -> None:
    """As of GLM without tensor parallelism: the first layer is in one piece, the second in two and one between them."""
    chain = {reader: [reader - 1] for reader in range(1, 23)}
    assert named([0] * 13 + [1] * 3 + [0] + [1] * 6, chain) == [0] * 13 + [1] * 10


def test_small_layers_in_front_of_a_large_one_whose_passes_are_connected_are_no_part_of_that() -> None:
    """As of DeepSeek-V3, two dense layers and one for multi-token prediction, of which something goes through two
    micro-batches: the layer runs twice, so it is no more than half of what is connected."""
    once = [0] * 3 + [1] * 3 + [2] * 8
    reads = {first + place: [first + place - 1] for first in (0, 14) for place in range(1, 14)}
    cells = {index: str(index % 14) for index in range(28)}
    assert named(once * 2, reads | {27: [26, 13]}, cells) == once * 2


def test_what_reads_no_layer_stays_a_table_of_its_own() -> None:
    assert named([0] + [1] * 11, {reader: [reader - 1] for reader in range(2, 12)} | {6: [0, 5]}) == [0] + [1] * 11


def test_a_table_that_two_layers_read_tells_of_neither() -> None:
    """0 is the table, read by 1 of the first layer and 14 of the second, which stands between misnamed kernels."""
    reads = {reader: [reader - 1] for reader in range(1, 17)} | {14: [0, 13], 16: [12, 15]}
    layers = [0] * 7 + [1] * 6 + [0, 1, 0, 1]
    assert named(layers, reads, {1: "rotary", 14: "rotary"}) == [0] * 7 + [1] * 10


def test_a_cell_that_uses_a_primitive_twice_does_not_say_how_often_its_layer_runs() -> None:
    """Two passes of three nodes, two of them of one cell: as many kinds of nodes are there twice as four times."""
    kernels = [
        Kernel(index=index, name=f"Default/x/{index}", stream=0, graph="", primitive="Cast", output="", inputs=())
        for index in range(6)
    ]
    source, reader = np.array([0, 1, 3, 4]), np.array([1, 2, 4, 5])
    found = passes(
        kernels,
        np.zeros(6, dtype=np.int64),
        ["norm", "norm", "router"] * 2,
        np.zeros(6, dtype=np.bool_),
        Reads(block=source, kernel=reader, until=reader, face=source, via=source),
        np.arange(6),
        {},
    )
    assert len(set(found[:3])) == len(set(found[3:])) == 1
    assert -1 not in found


FUSED = (node(0, 0), node(1, 1, 0, makes=3, primitive="AddRmsNorm"), node(1, 1, 1), gradient(1), gradient(2, 3))


def again(sums: Mapping[int, int]) -> StrategyProgram:
    graph = baseline(*FUSED)
    flagged = np.array([True, True, True, False, False])
    rows = graph.kernels.backward[graph.reads.kernel] & (graph.reads.block != 3)
    nothing = np.full(len(graph.reads.block), -1, dtype=np.int64)
    return recompute(graph, nothing, flagged, rows, np.full(len(FUSED), -1, dtype=np.int64), sums)


def test_the_norm_alone_runs_again_from_the_sum_that_was_kept() -> None:
    found = again({1: 7})
    assert found.origin.tolist() == [1, 2]  # not the sum
    assert found.block[found.again].tolist() == [3]  # what it reads
    assert found.site[found.again].tolist() == [7]


def test_both_run_again_where_the_add_does() -> None:
    found = again({})
    assert found.origin.tolist() == [1, 2, 3]
    assert found.block[found.again].tolist() == [0]


NORM = (node(0, 0, makes=2, primitive="RmsNorm"), node(0, 0, 0), gradient(2), gradient(1))


@pytest.mark.parametrize(("asked", "nodes", "blocks"), [([0, 1], [], [0]), ([0, 0], [], []), ([-1, 1], [], [])])
def test_of_a_norm_that_another_recomputed_cell_reads_the_output_is_kept(
    asked: list[int], nodes: list[int], blocks: list[int]
) -> None:
    graph = baseline(*NORM)
    cells = replace(graph.kernels, cell=("norm", "mlp" if asked[0] != asked[1] else "norm", "", ""))
    graph = replace(graph, kernels=cells)
    assert cell_outputs(graph, np.array([*asked, -1, -1]), ("norm", "mlp")) == (nodes, blocks)


def test_who_reads_the_output_of_a_cell_is_told_by_the_operator_that_it_is_where_its_name_is_lost() -> None:
    """A MatMul without a name, next to a cell with a longer one than its own."""
    graph = baseline(*NORM)
    graph = replace(graph, kernels=replace(graph.kernels, cell=("norm", "norm", "", "")))
    asked = np.array([0, -1, -1, -1])
    assert cell_outputs(graph, asked, ("norm",)) == ([], [])
    assert cell_outputs(graph, asked, ("norm",), ("norm", "linear", "", "")) == ([], [0])


def test_a_norm_whose_output_is_kept_runs_again_for_its_own_gradient_alone() -> None:
    graph = baseline(*NORM)
    flagged, nothing = np.array([True, True, False, False]), np.full(len(graph.reads.block), -1, dtype=np.int64)
    rows = graph.kernels.backward[graph.reads.kernel]
    found = recompute(graph, nothing, flagged, rows, np.full(4, -1, dtype=np.int64), outputs=[0])
    assert found.copies.tolist() == [0, 1]
    assert found.origin.tolist() == [1, 2]  # not the output
    assert found.block[found.again].tolist() == [0]  # which is read
    assert 2 * TICKS < found.inserted[0] < 3 * TICKS  # behind the gradient of the other cell


@pytest.mark.parametrize(("primitive", "late"), [("Receive", set()), ("AllReduce", {1})])
def test_what_reads_a_gradient_from_another_stage_waits_no_longer_than_the_rest(primitive: str, late: set[int]) -> None:
    graph = baseline(node(0, 0), Item(primitive=primitive, backward=True, stream=1), gradient(0, 1), gradient(2))
    part = RegionPart(copies=np.array([0]), first=np.array([2]), kernels=np.array([2, 3]), start=2)
    reads, blocks = (np.zeros(count, dtype=np.bool_) for count in (len(graph.reads.block), len(graph.maker)))
    assert _region(graph, part, reads, blocks)[0].late == late


@pytest.mark.parametrize(
    ("prefetch", "more", "dies"),
    [(2, False, False), (3, False, True), (4, False, True), (5, False, False), (3, True, False), (5, True, True)],
)
def test_a_prefetch_between_the_two_ways_of_counting_is_told(prefetch: int, more: bool, dies: bool) -> None:
    """Three kernels before the reader, and two copies; one kernel more where a view is not merged."""
    graph = baseline(node(0, 0), node(0, 0, 0), node(0, 0, 1), gradient(0))
    nothing = np.zeros(0, dtype=np.int64)
    flagged = np.zeros(4, dtype=np.bool_)
    reads = graph.reads
    program = recompute(
        graph,
        np.zeros(len(reads.block), dtype=np.int64),
        flagged,
        flagged[: len(reads.block)],
        np.zeros(4, dtype=np.int64),
    )
    windows = swap(
        graph,
        program,
        (program.site >= 0),
        np.full(len(program.block), prefetch),
        np.zeros(4, dtype=np.int64),
        Unread(block=nothing, face=nothing, site=nothing, prefetch=nothing),
    )
    windows = replace(windows, returned=windows.used - COPY_BACK)
    assert windows.used.tolist() == [3 * TICKS]
    assert underflows(graph, program, windows, np.array([more]), margin=0).tolist() == [dies]
    near = {prefetch - 1, prefetch, prefetch + 1} & set(range(3 + more, 5 + more))
    assert underflows(graph, program, windows, np.array([more]), margin=1).tolist() == [bool(near)]


def test_the_depth_of_a_kernel_is_the_shortest_way_to_one_that_nothing_reads() -> None:
    graph = baseline(gradient(), gradient(0), gradient(1), gradient(0), gradient(3), gradient(4), gradient(5))
    assert graph.depth.tolist() == [2, 1, 0, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ((), []),
        ((gradient(1),), [1]),
        ((Item(reads=[1], backward=True, primitive="NormGrad"),), [1]),
        ((node(0, 0, 1),), []),
    ],
)
def test_the_gradient_of_a_kernel_sees_no_output_of_a_cell(more: Sequence[Item], kept: Sequence[int]) -> None:
    """Flash attention makes two blocks (0, 1), which its own gradient reads; the second is the output of the cell."""
    graph = baseline(
        node(0, 0, makes=2, primitive="FlashAttentionScore"),
        node(0, 0, 1),
        Item(reads=[0, 1], backward=True, primitive="FlashAttentionScoreGrad"),
        *more,
    )
    turned = np.zeros(len(graph.kernels), dtype=np.bool_)
    assert read_by_others(graph, [1], turned) == kept
    turned[0] = True  # others see a Transpose, which is launched as a view
    assert read_by_others(graph, [1], turned) == []
