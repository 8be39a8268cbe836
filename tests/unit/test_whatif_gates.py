"""What waits for the gradient that a region of the backward pass begins with, on graphs that fit on a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from swapconf.trace.columns import Flags, Kernels
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.copy_queue import queued
from swapconf.whatif.parted import stand_ins
from swapconf.whatif.recompute import recompute, taken, tied, unseen
from swapconf.whatif.regions import _arrival, positions
from swapconf.whatif.swap import Unread, freed, swap
from swapconf.whatif.ungated import Covered, ungated
from tests.unit.baselines import of_kernels
from tests.unit.test_whatif_sites import sites_of

Kernel = tuple[str, int, Sequence[int]]  # primitive, pass (-1: a gradient), the kernels that it reads


def baseline(kernels: Sequence[Kernel]) -> Baseline:
    size = len(kernels)
    passing = np.array([number for _, number, _ in kernels])
    return of_kernels(
        Kernels(
            name=tuple(f"Default/{index}" for index in range(size)),
            layer=passing,
            cell=("",) * size,
            primitive=tuple(primitive for primitive, _, _ in kernels),
            stream=np.array([int(name in ("Receive", "AllReduce")) for name, _, _ in kernels]),
            backward=passing < 0,
            passing=passing,
            before=np.arange(size + 1),
        ),
        ((source, index) for index, (_, _, read) in enumerate(kernels) for source in read),
    )


def of_gradients(found: Baseline, again: Flags) -> Flags:
    """[reads] gradients reading what runs again."""
    return np.asarray(again[found.reads.face] & found.kernels.backward[found.reads.kernel])


@pytest.mark.parametrize(("arrives", "waits"), [("Receive", False), ("AllReduce", True)])
def test_a_gradient_that_a_stage_receives_is_there_when_the_region_begins(arrives: str, waits: bool) -> None:
    """5 needs the first cast and the gradient alone: it does not wait for the chain that 6 needs; what a stage computes
    itself and sums over others comes only when nothing else is ready."""
    found = baseline(
        [
            ("Cast", 0, ()),
            ("Mul", 0, (0,)),
            ("Exp", 0, (1,)),
            ("Log", 0, (2,)),
            (arrives, -1, ()),
            ("MatMul", -1, (0, 4)),
            ("MatMul", -1, (3, 4)),
        ]
    )
    again = np.arange(7) < 4
    rows = np.flatnonzero(of_gradients(found, again))
    place, where = positions(found, again, again, found.reads.face[rows], rows, np.zeros(7, dtype=np.bool_))
    assert (where[5] > place[3]) == waits
    assert where[6] > place[3] > 4 * TICKS


@pytest.mark.parametrize("between", [0, 20])
def test_a_gradient_arrives_before_it_is_summed_over_others_whatever_is_launched_meanwhile(between: int) -> None:
    found = baseline(
        [
            ("Cast", 0, ()),
            ("Cast", -1, ()),
            ("AllReduce", -1, (1,)),
            *[("Add", -1, ())] * between,
            ("MatMul", -1, (0, 2)),
        ]
    )
    assert _arrival(found, 3 + between) == 1


@pytest.mark.parametrize(("layer", "also", "expected"), [(1, (), True), (0, (), False), (1, (0,), False)])
def test_what_begins_to_run_again_in_the_next_layer_does_not_make_its_input_move(
    layer: int, also: Sequence[int], expected: bool
) -> None:
    """0 is read by the cast that runs again, in another layer or its own, or also by a gradient."""
    found = baseline([("Add", 0, ()), ("Cast", layer, (0,)), ("RmsNorm", layer, (1,)), ("RmsNormGrad", -1, (2, *also))])
    again = np.isin(np.arange(4), (1, 2))
    sites = np.zeros(len(found.reads.block), dtype=np.int64)
    program = recompute(found, sites, again, of_gradients(found, again), np.zeros(4, dtype=np.int64))
    chosen = tied(found, program)
    assert bool(chosen.any()) == expected
    assert set(program.block[chosen].tolist()) <= {0}


def test_a_view_that_is_no_site_moves_as_what_it_shows() -> None:
    """The cast behind the view runs again, and reads what the Transpose has made."""
    found = baseline([("Transpose", 0, ()), ("Reshape", 0, (0,)), ("Cast", 0, (1,)), ("MatMul", -1, (2,))])
    reads = replace(found.reads, block=np.where(found.reads.face == 1, 0, found.reads.block))
    found = replace(found, reads=reads)
    again = np.arange(4) == 2
    program = recompute(
        found, np.full(3, -1, dtype=np.int64), again, of_gradients(found, again), np.array([7, -1, -1, -1])
    )
    assert program.site[program.again & (program.block == 0)].tolist() == [7]


@pytest.mark.parametrize(("several", "view"), [(True, False), (True, True), (False, False), (False, True)])
def test_one_of_several_outputs_does_not_move_for_what_runs_again(several: bool, view: bool) -> None:
    """0 makes one block, or another one, too; 1 reads it and runs again, and is a view that 3 looks through, or not; 2,
    a gradient, reads it directly."""
    kernels = baseline(
        [("TopkExt", 0, ()), ("Reshape" if view else "Cast", 0, (0,)), ("ScatterGrad", -1, (0,)), ("MatMul", -1, (1,))]
    )
    block, kernel = np.array([0, 0, 0 if view else 1]), np.array([1, 2, 3])
    face = np.array([0, 0, 1])
    found = replace(
        kernels,
        maker=np.array([0, 1, 2, 3, *[0] * several]),
        reads=replace(kernels.reads, block=block, kernel=kernel, until=kernel, face=face, via=face),
    )
    again = np.arange(4) == 1
    program = recompute(
        found, np.zeros(3, dtype=np.int64), again, of_gradients(found, again), np.zeros(4, dtype=np.int64)
    )
    chosen = taken(found, program)
    by_what_runs_again = program.again | (view & (program.reader == 3))
    assert chosen.tolist() == (by_what_runs_again & several & (program.face == 0)).tolist()
    assert bool(chosen.any()) == several


@pytest.mark.parametrize(
    ("piped", "whole", "expected"),
    [("Send", ("1",), True), ("Send", ("0",), False), ("Send", (), False), ("Mul", ("1",), False)],
)
def test_what_a_wholly_recomputed_layer_of_a_pipeline_reads_of_another_does_not_move(
    piped: str, whole: Sequence[str], expected: bool
) -> None:
    """0 is read by the cast that layer 1 begins with, and by its Add, which also reads what runs again in it."""
    found = baseline(
        [
            ("Add", 0, ()),
            ("Cast", 1, (0,)),
            ("Add", 1, (0, 1)),
            ("RmsNorm", 1, (2,)),
            ("RmsNormGrad", -1, (3,)),
            (piped, -1, (4,)),
        ]
    )
    again = np.isin(np.arange(6), (1, 2, 3))
    sites = np.zeros(len(found.reads.block), dtype=np.int64)
    program = recompute(found, sites, again, of_gradients(found, again), np.zeros(6, dtype=np.int64))
    assert bool(tied(found, program, whole).any()) == expected


@pytest.mark.parametrize(("outputs", "expected"), [(1, False), (2, True)])
def test_what_begins_to_run_again_in_the_same_layer_does_not_make_one_of_several_outputs_move(
    outputs: int, expected: bool
) -> None:
    """0 is read by the view and the cast, through it, that run again in its own layer."""
    found = baseline(
        [("RmsNorm", 0, ()), ("Reshape", 0, (0,)), ("Cast", 0, (1,)), ("MatMul", -1, (2,)), ("Mul", -1, (3,))]
    )
    found = replace(found, maker=np.append(found.maker, np.zeros(outputs - 1, dtype=np.int64)))
    again = np.isin(np.arange(5), (1, 2))
    sites = np.zeros(len(found.reads.block), dtype=np.int64)
    # a view makes no block: the cast reads that of the norm
    reads = replace(found.reads, block=np.where(found.reads.face == 1, 0, found.reads.block))
    found = replace(found, reads=reads)
    chosen = unseen(found, recompute(found, sites, again, of_gradients(found, again), np.zeros(5, dtype=np.int64)))
    assert bool(chosen.any()) == expected


@pytest.mark.parametrize("of_one_cell", [False, True])
def test_all_that_runs_again_of_a_cell_waits_for_the_gradient_of_its_output(of_one_cell: bool) -> None:
    """0 and 1 are not connected; 3 needs the latter and the first gradient, 5 the former and a later one."""
    found = baseline(
        [
            ("Cast", 0, ()),
            ("Exp", 0, ()),
            ("Log", -1, ()),
            ("Mul", -1, (1, 2)),
            ("Sin", -1, (3,)),
            ("MatMul", -1, (0, 4)),
        ]
    )
    again = np.arange(6) < 2
    rows = np.flatnonzero(of_gradients(found, again))
    place, _ = positions(
        found,
        again,
        again,
        found.reads.face[rows],
        rows,
        np.zeros(6, dtype=np.bool_),
        root=np.where(again & of_one_cell, 0, -1),
    )
    assert (place[0] < 4 * TICKS) == of_one_cell
    assert place[1] < 3 * TICKS


@pytest.mark.parametrize(("kind", "owner", "expected"), [("Cast", 1, [0]), ("Cast", 0, []), ("Mul", 1, [])])
def test_a_cast_runs_again_for_the_cell_whose_equal_one_a_gradient_reads(
    kind: str, owner: int, expected: list[int]
) -> None:
    """0 is the cast of the residual; the gradient of the norm reads the equal one of the norm's own cell."""
    found = baseline([(kind, 0, ()), ("RmsNorm", 0, (0,)), ("RmsNormGrad", -1, (0, 1))])
    reads = found.reads
    of_read = np.where(found.kernels.backward[reads.kernel] & (reads.face == 0), owner, -1)
    sites = replace(sites_of((), [0, 2, -1]), of_read=of_read, of_moved=np.array([0, 2, -1]))
    assert stand_ins(found, sites, of_read >= 0).tolist() == expected


@pytest.mark.parametrize(("owner", "expected"), [(1, [1, 0]), (0, [])])
def test_communication_runs_again_for_the_cell_whose_own_a_gradient_reads(owner: int, expected: list[int]) -> None:
    """1 gathers the Reshape of one Linear, and a gradient reads what the Reshape of another would show."""
    found = baseline([("Reshape", 0, ()), ("AllGather", 0, (0,)), ("MatMul", -1, (1,))])
    found = replace(found, kernels=replace(found.kernels, stream=np.array([0, 1, 0])))
    reads = found.reads
    of_read = np.where(found.kernels.backward[reads.kernel] & (reads.face == 1), owner, -1)
    sites = replace(sites_of((), [0, -1, -1]), of_read=of_read, of_moved=np.array([0, 0, -1]))
    assert stand_ins(found, sites, of_read >= 0).tolist() == expected


@pytest.mark.parametrize(("covers", "early"), [(0, True), (-1, False)])
def test_what_reads_only_what_a_recomputed_cell_keeps_runs_again_when_the_backward_pass_begins(
    covers: int, early: bool
) -> None:
    """2 and what follows read the norm that is kept; 4 reads the input of the cell, too. ``covers``: the cell that was
    asked for, or none: the primitives were asked for themselves."""
    found = baseline(
        [
            ("Add", 1, ()),
            ("Mul", 0, (0,)),
            ("RmsNorm", 0, (1,)),
            ("Cast", 0, (2,)),
            ("Cast", 0, (3,)),
            ("MatMul", 0, (0, 4)),
            ("Log", -1, (1,)),
            ("Exp", -1, (6,)),
            ("MatMul", -1, (3, 4, 5, 7)),
        ]
    )
    again = np.isin(np.arange(9), (3, 4, 5))
    covered = Covered(root=np.where(again, covers, -1), under=np.ones((1, 9), dtype=np.bool_))
    free = ungated(found, again, covered)
    assert np.flatnonzero(free).tolist() == ([3, 4] if early else [])
    rows = np.flatnonzero(of_gradients(found, again))
    nothing = np.zeros(len(found.maker), dtype=np.bool_)
    place, _ = positions(found, again, again, found.reads.face[rows], rows, nothing, free)
    assert ((place[[3, 4]] < place[5]) & (place[[3, 4]] < 7 * TICKS)).all() == early
    assert place[5] > 7 * TICKS


def test_the_reshape_at_the_end_of_a_linear_waits_with_the_rest() -> None:
    """1 shows what the cell keeps, and bears no cell's name."""
    found = baseline([("MatMul", 0, (3,)), ("Reshape", 0, (0,)), ("Exp", 0, (1,)), ("Add", 1, ()), ("Mul", -1, (2,))])
    again = np.isin(np.arange(5), (1, 2))
    assert not ungated(found, again, Covered(root=np.where(again, 0, -1), under=np.ones((1, 5), dtype=np.bool_))).any()


@pytest.mark.parametrize("moves", [False, True])
def test_what_moves_is_copied_before_a_kernel_that_reads_it_whatever_else_that_waits_for(moves: bool) -> None:
    """3 reads 1 and 2, which was ready before and has no other reader, so that its reader would follow at once."""
    found = baseline(
        [("Log", 0, ()), ("SiLU", 0, (0,)), ("Exp", 0, (0,)), ("Mul", 0, (1, 2)), ("Sin", 0, (3,)), ("Cos", 0, ())]
    )
    assert queued(found, 1, {(1, 1)} if moves else set()) == (3 if moves else 5)


def test_what_micro_batches_share_comes_back_once_for_each() -> None:
    """0 is a table of both passes; 2 and 4 are their gradients."""
    found = baseline(
        [
            ("Cos", -1, ()),
            ("Mul", 1, (0,)),
            ("MulGrad", -1, (0, 1)),
            ("Mul", 3, (0,)),
            ("MulGrad", -1, (0, 3)),
            ("Add", -1, (4,)),
        ]
    )
    found = replace(found, kernels=replace(found.kernels, backward=np.isin(np.arange(6), (2, 4, 5))))
    nothing, none = np.zeros(6, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    uses = np.zeros(len(found.reads.block), dtype=np.int64)
    program = recompute(found, uses, nothing, uses > 0, np.zeros(6, dtype=np.int64))
    moving = (program.block == 0) & found.kernels.backward[program.reader]
    windows = swap(
        found,
        program,
        moving,
        np.ones(len(moving), dtype=np.int64),
        np.zeros(6, dtype=np.int64),
        Unread(block=none, face=none, site=none, prefetch=none),
    )
    assert windows.until.tolist() == [2 * TICKS]
    assert windows.later.window.tolist() == [0]
    assert windows.later.until.tolist() == [4 * TICKS]
    assert 2 * TICKS < windows.later.returned[0] < 4 * TICKS


def test_what_micro_batches_share_comes_back_when_the_backward_pass_begins_at_the_earliest() -> None:
    """0 is a table of both passes; 3 and 7 are their first gradients. The prefetch reaches back before the start."""
    found = baseline(
        [
            ("Cos", -1, ()),
            ("Mul", 1, (0,)),
            ("Exp", 1, (1,)),
            ("ExpGrad", -1, (1,)),
            ("MulGrad", -1, (0, 3)),
            ("Mul", 5, (0,)),
            ("Exp", 5, (5,)),
            ("ExpGrad", -1, (5,)),
            ("MulGrad", -1, (0, 7)),
            ("Add", -1, (8,)),
        ]
    )
    found = replace(found, kernels=replace(found.kernels, backward=np.isin(np.arange(10), (3, 4, 7, 8, 9))))
    nothing, none = np.zeros(10, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    uses = np.zeros(len(found.reads.block), dtype=np.int64)
    program = recompute(found, uses, nothing, uses > 0, np.zeros(10, dtype=np.int64))
    moving = (program.block == 0) & found.kernels.backward[program.reader]
    windows = swap(
        found,
        program,
        moving,
        np.full(len(moving), 100, dtype=np.int64),
        np.zeros(10, dtype=np.int64),
        Unread(block=none, face=none, site=none, prefetch=none),
    )
    assert windows.returned[0] // TICKS == 2
    assert windows.later.returned[0] // TICKS == 6


@pytest.mark.parametrize(("returned", "released"), [(5, 3), (1, 2)])
def test_copies_back_that_are_launched_earlier_count_for_when_device_memory_is_released(
    returned: int, released: int
) -> None:
    """Three kernels behind the copy of 0, which a gradient reads; copies count."""
    found = baseline([("Add", 0, ()), *[("Exp", 0, ())] * 5, ("MulGrad", -1, (0,))])
    none, uses = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    program = recompute(found, uses, np.zeros(7, dtype=np.bool_), uses > 0, np.zeros(7, dtype=np.int64))
    windows = swap(
        found,
        program,
        program.block == 0,
        uses + 1,
        np.zeros(7, dtype=np.int64),
        Unread(block=none, face=none, site=none, prefetch=none),
    )
    moved = replace(windows, returned=np.array([returned * TICKS + TICKS // 2]))
    assert freed(found, program, moved).released.tolist() == [released * TICKS]
