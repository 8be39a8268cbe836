"""Where kernels belong whose names do not tell: on columns of a few kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swapconf.simulate.columns import Reads
from swapconf.simulate.homes import take_in, weights_read
from swapconf.simulate.passes import passes
from swapconf.trace import Block, Task


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


def task(*inputs: int) -> Task:
    return Task(event=0, name="Default/Cast-op0", inputs=inputs, outputs=(), attributes=(), input_tensors=(),
                output_tensors=())


def weight(start: int) -> Block:
    return Block(start=start, end=None, address=0, size_bytes=512, stream=0, pool="", kind="Weight", task=0,
                 task_name="", node="", users=(), is_persistent=True, used_bytes=0, pool_peak_bytes=0)


def test_what_is_made_of_weights_alone_is_known_by_these_weights() -> None:
    """0 casts a weight, 1 gathers that, 2 reads it and an activation that 3 made of nothing known."""
    tasks = [task(70), task(0), task(1, 3), task()]
    assert weights_read(tasks, [weight(70), weight(71)], reading((0, 1), (1, 2), (3, 2))) == {0: (70,), 1: (70,)}


@dataclass(frozen=True)
class Launch:
    primitive: str
    scope: str = "Default"


def test_weights_that_are_gathered_once_do_not_join_the_micro_batches() -> None:
    """0 and 1 gather two weights of one cell; 2 and 3 read them in the first micro-batch, 4 and 5 in the second."""
    kernels = [Launch(name) for name in ("AllGather", "AllGather", "MatMul", "Add", "MatMul", "Add")]
    found = passes(kernels, np.zeros(6, dtype=np.int64), [""] * 6, np.zeros(6, dtype=np.bool_),  # type: ignore[arg-type]
                   reading((0, 2), (1, 3), (2, 3), (0, 4), (1, 5), (4, 5)), np.arange(6), {0: (70,), 1: (71,)})
    assert found[:2].tolist() == [-1, -1]
    assert found[2] == found[3] != found[4] == found[5]
