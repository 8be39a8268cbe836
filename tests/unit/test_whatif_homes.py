"""Where kernels belong whose names do not tell: on columns of a few kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from swapconf.trace.columns import Reads
from swapconf.trace.trace import Block, Task
from swapconf.whatif.homes import dispatched, states_read, take_in, weights_read
from swapconf.whatif.layer_passes import adopted, passes


def reading(*pairs: tuple[int, int]) -> Reads:
    """(maker, reader); each kernel makes the block of its number."""
    face, kernel = (np.array(column) for column in zip(*sorted(pairs), strict=True))
    return Reads(block=face, kernel=kernel, until=kernel, face=face, via=face)


def homes(layer: list[int], *pairs: tuple[int, int]) -> tuple[list[int], list[str]]:
    found, cells = np.array(layer), ["mlp", "", "mlp.router"]
    take_in(found, cells, np.zeros(3, dtype=np.bool_), reading(*pairs), np.arange(3))
    return found.tolist(), cells


def test_a_kernel_between_two_of_one_layer_belongs_to_it_and_to_the_cell_that_reads_it() -> None:
    assert homes([1, -1, 1], (0, 1), (1, 2)) == ([1, 1, 1], ["mlp", "mlp.router", "mlp.router"])


def test_a_kernel_between_two_layers_belongs_to_neither() -> None:
    assert homes([1, -1, 2], (0, 1), (1, 2))[0] == [1, -1, 2]


def test_a_kernel_that_reads_nothing_of_a_layer_stays_outside() -> None:
    """As the tables of the rotary embedding."""
    assert homes([1, -1, 1], (1, 2))[0] == [1, -1, 1]


def task(*inputs: int, primitive: str = "Cast") -> Task:
    return Task(
        event=0,
        name=f"Default/{primitive}-op0",
        inputs=inputs,
        outputs=(),
        attributes=(),
        input_tensors=(),
        output_tensors=(),
    )


def weight(start: int, kind: str = "Weight", node: str = "") -> Block:
    return Block(
        start=start,
        end=None,
        address=0,
        size_bytes=512,
        stream=0,
        pool="",
        kind=kind,
        task=0,
        task_name="",
        node=node,
        users=(),
        is_persistent=True,
        used_bytes=0,
        pool_peak_bytes=0,
    )


def test_what_is_made_of_weights_alone_is_known_by_these_weights() -> None:
    """0 casts a weight, 1 gathers that, 2 reads it and an activation that 3 made of nothing known."""
    tasks = [task(70), task(0), task(1, 3), task()]
    assert weights_read(tasks, [weight(70), weight(71)], reading((0, 1), (1, 2), (3, 2))) == {0: (70,), 1: (70,)}


def test_what_is_made_of_constants_alone_is_known_not_what_is_received() -> None:
    """0 adds a constant up, 1 casts that; 2 is told by constants what to receive, 3 reads it; 4 gets the data."""
    tasks = [task(80, primitive="CumSum"), task(0), task(80, primitive="Receive"), task(2), task()]
    assert weights_read(tasks, [weight(80, "ConstantValue")], reading((0, 1), (2, 3))) == {0: (), 1: ()}


@dataclass(frozen=True)
class Launch:
    primitive: str
    scope: str = "Default"


def test_what_is_made_of_constants_once_does_not_take_its_likes_out_of_the_micro_batches() -> None:
    """0 casts a constant, once; 2 and 4 cast what 1 and 3 sort in each of two micro-batches."""
    kernels: Any = [Launch(name) for name in ("Cast", "SortExt", "Cast", "SortExt", "Cast")]
    found = passes(
        kernels,
        np.zeros(5, dtype=np.int64),
        [""] * 5,
        np.zeros(5, dtype=np.bool_),
        reading((1, 2), (3, 4)),
        np.arange(5),
        {0: ()},
    )
    assert found[0] == -1
    assert found[1] == found[2] != found[3] == found[4]


def test_what_has_lost_its_cell_belongs_to_that_of_the_view_which_it_reads() -> None:
    """1 shows, in the cell ``mlp``, what 0, a norm, has made; 2 reads the view, and 3, in ``mlp.experts``, reads 2."""
    block, kernel, face = np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([0, 1, 2])
    reads = Reads(block=block, kernel=kernel, until=kernel, face=face, via=face)
    kernels: Any = [Launch("Cast", "a"), Launch("Reshape", "a"), Launch("IndexSelect"), Launch("Add", "a")]
    cells = ["pre_mlp_layernorm", "mlp", "", "mlp.experts"]
    found = adopted(kernels, np.array([1, 1, -1, 1]), cells, np.zeros(4, dtype=np.bool_), reads, np.array([0, 2]))
    assert (found[0].tolist(), found[1][2]) == ([1] * 4, "mlp.experts")


def test_weights_that_are_gathered_once_do_not_join_the_micro_batches() -> None:
    """0 and 1 gather two weights of one cell; 2 and 3 read them in the first micro-batch, 4 and 5 in the second."""
    kernels: Any = [Launch(name) for name in ("AllGather", "AllGather", "MatMul", "Add", "MatMul", "Add")]
    found = passes(
        kernels,
        np.zeros(6, dtype=np.int64),
        [""] * 6,
        np.zeros(6, dtype=np.bool_),
        reading((0, 2), (1, 3), (2, 3), (0, 4), (1, 5), (4, 5)),
        np.arange(6),
        {0: (70,), 1: (71,)},
    )
    assert found[:2].tolist() == [-1, -1]
    assert found[2] == found[3] != found[4] == found[5]


def test_what_the_optimizer_keeps_is_numbered_from_the_last_parameter_that_is_prepared() -> None:
    names = ("b.weight", "a.weight", "adam_m.b.weight", "adam_v.b.weight", "adam_m.a.weight", "adam_v.a.weight")
    blocks = [weight(start, node=name) for start, name in enumerate(names)]
    assert states_read([task(0, 1), task(7, 2), task(9, 4), task(3)], blocks) == {1: 1, 2: 0}
    assert states_read([task(0, 1), task(7, 2)], blocks[:2]) == {}  # an optimizer that keeps nothing


def test_what_sends_tokens_to_experts_and_back_stands_in_their_cell() -> None:
    """1 to 3 have no name: 1 is read by the experts, 3 reads by way of 2 what they make; 4, of the cell around, has."""
    cells = ["mlp.router", "mlp", "mlp", "mlp", "mlp", "mlp.experts"]
    lost = np.array([False, True, True, True, False, False])
    reads = reading((0, 1), (1, 5), (5, 2), (2, 3), (3, 4))
    found = dispatched(np.zeros(6, dtype=np.int64), cells, lost, reads, np.arange(6))
    assert found == ["mlp.router", "mlp.experts", "mlp.experts", "mlp.experts", "mlp", "mlp.experts"]
