"""Which primitive of the catalog a kernel is, on templates that fit on a few lines."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from swapconf.models.network import Layer, LayerTemplate, Network, Operator
from swapconf.trace.columns import Flags, Kernels
from swapconf.whatif.assigned import assign
from swapconf.whatif.cell_primitives import CellPrimitives
from swapconf.whatif.site_actions import SiteActions, copied_unread, on_device
from swapconf.whatif.sites import Sites
from tests.unit.baselines import of_kernels


def cells(*operators: tuple[str, str]) -> CellPrimitives:
    return CellPrimitives(
        LayerTemplate(
            name="dense",
            cell="Layer",
            operators=tuple(Operator(path=path, kind="primitive", type=kind, saved=True) for path, kind in operators),
        )
    )


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ([("mlp.turn", "Transpose")], "mlp.turn"),
        ([("mlp.turn", "Transpose"), ("mlp.flat", "Reshape")], "mlp.flat"),
        ([("mlp.add", "AddExt")], None),
    ],
)
def test_a_transpose_of_one_sample_is_launched_as_a_reshape(
    operators: list[tuple[str, str]], expected: str | None
) -> None:
    assert cells(*operators).path("mlp", "Reshape", frozenset()) == expected


LOST_VIEW = (
    Operator(path="norm.cast", kind="primitive", type="Cast", saved=True),
    Operator(
        path="attention.q.reshape", kind="primitive", type="Reshape", saved=False, consumers=("attention.q.matmul",)
    ),
    Operator(path="attention.q.matmul", kind="primitive", type="MatMul", saved=True),
    Operator(path="mlp.out.reshape", kind="primitive", type="Reshape", saved=True, consumers=("mlp.out.matmul",)),
    Operator(path="mlp.out.matmul", kind="primitive", type="MatMul", saved=True),
)


def test_what_a_function_casts_does_not_move_though_its_cell_has_a_cast() -> None:
    """``x.astype`` in a router, which may give its name to the Cast or not: no cell has that primitive."""
    operators = (Operator(path="router.cast", kind="primitive", type="Cast", saved=True),)
    template = LayerTemplate(name="moe", cell="Layer", operators=operators)
    network = Network(family="x", layers=(Layer(index=0, name="0", template=template),))
    kernels = Kernels(
        name=tuple(f"Default/network/layers-CellList/0-Layer/router-R/Cast-op{turn}" for turn in range(2)),
        layer=np.zeros(2, dtype=np.int64),
        cell=("router", "router"),
        primitive=("Cast", "Cast"),
        stream=np.zeros(2, dtype=np.int64),
        backward=np.zeros(2, dtype=np.bool_),
        passing=np.zeros(2, dtype=np.int64),
        before=np.arange(3),
    )
    sites = assign(replace(of_kernels(kernels, [(0, 1)]), of_function=frozenset({0})), network)
    assert (sites.of_moved >= 0).tolist() == [False, True]
    assert (sites.of_node >= 0).tolist() == [True, True]


@pytest.mark.parametrize(
    ("matmul", "expected"),
    [
        ("Default/network/layers-CellList/0-Layer/attention-A/q-Linear/MatMul-op0", "attention.q.reshape"),
        ("Default/MatMul-op0", "mlp.out.reshape"),
    ],
)
def test_a_view_without_a_cell_is_a_later_one_only_where_its_readers_have_none_either(
    matmul: str, expected: str | None
) -> None:
    """Else it is that of its readers, which parallelism has put in where no gradient reads it."""
    network = Network(
        family="x",
        layers=(Layer(index=0, name="0", template=LayerTemplate(name="dense", cell="Layer", operators=LOST_VIEW)),),
    )
    kernels = Kernels(
        name=("Default/network/layers-CellList/0-Layer/norm-N/Cast-op0", "Default/Reshape-op0", matmul),
        layer=np.zeros(3, dtype=np.int64),
        cell=("norm", "attention.q", "attention.q"),
        primitive=("Cast", "Reshape", "MatMul"),
        stream=np.zeros(3, dtype=np.int64),
        backward=np.zeros(3, dtype=np.bool_),
        passing=np.zeros(3, dtype=np.int64),
        before=np.arange(4),
    )
    sites = assign(of_kernels(kernels, [(0, 1), (1, 2)]), network)
    node = int(sites.of_node[1])
    assert (sites.names[node][1] if node >= 0 else None) == expected


@pytest.mark.parametrize(
    ("maker", "reader", "is_site"),
    [
        ("AllReduce", "MatMul", True),
        ("AlltoAllV", "MatMul", False),
        ("Cast", "MatMul", True),
        ("Cast", "IndexSelect", False),
    ],
)
def test_a_view_of_the_dispatch_of_tokens_is_no_site(maker: str, reader: str, is_site: bool) -> None:
    """Behind its communication, or in front of an operator that the catalog does not know; no name tells its cell."""
    operators = (
        Operator(path="mlp.cast", kind="primitive", type="Cast", saved=True, consumers=("mlp.reshape",)),
        Operator(path="mlp.reshape", kind="primitive", type="Reshape", saved=True, consumers=("mlp.matmul",)),
        Operator(path="mlp.matmul", kind="primitive", type="MatMul", saved=True),
    )
    network = Network(
        family="x",
        layers=(Layer(index=0, name="0", template=LayerTemplate(name="dense", cell="Layer", operators=operators)),),
    )
    kernels = Kernels(
        name=(f"Default/{maker}-op0", "Default/Reshape-op0", f"Default/{reader}-op0"),
        layer=np.zeros(3, dtype=np.int64),
        cell=("mlp", "mlp", "mlp"),
        primitive=(maker, "Reshape", reader),
        stream=np.array([int(maker.startswith("All")), 0, 0]),
        backward=np.zeros(3, dtype=np.bool_),
        passing=np.zeros(3, dtype=np.int64),
        before=np.arange(4),
    )
    sites = assign(of_kernels(kernels, [(0, 1), (1, 2)]), network)
    assert bool(sites.of_node[1] >= 0) == is_site


@pytest.mark.parametrize(("reader", "expected"), [("Split", "mlp.in.reshape"), ("Mul", None)])
def test_a_view_that_mindspore_has_merged_with_that_of_a_linear_stands_for_both(
    reader: str, expected: str | None
) -> None:
    """What was left out of the recompute in either is kept, and who reads it does not run what made it again."""
    operators = (
        Operator(path="mlp.in.matmul", kind="primitive", type="MatMul", consumers=("mlp.in.reshape",)),
        Operator(path="mlp.in.reshape", kind="primitive", type="Reshape", saved=True, consumers=("mlp.split",)),
        Operator(path="mlp.split", kind="primitive", type="Split", consumers=("mlp.reshape",)),
        Operator(path="mlp.reshape", kind="primitive", type="Reshape", saved=True, consumers=("mlp.mul",)),
        Operator(path="mlp.mul", kind="primitive", type="Mul", saved=True),
    )
    network = Network(
        family="x",
        layers=(Layer(index=0, name="0", template=LayerTemplate(name="dense", cell="Layer", operators=operators)),),
    )
    prefix = "Default/network/layers-CellList/0-Layer/mlp-M"
    kernels = Kernels(
        name=(f"{prefix}/in-Linear/MatMul-op0", f"{prefix}/Reshape-op0", f"{prefix}/{reader}-op0"),
        layer=np.zeros(3, dtype=np.int64),
        cell=("mlp.in", "mlp", "mlp"),
        primitive=("MatMul", "Reshape", reader),
        stream=np.zeros(3, dtype=np.int64),
        backward=np.zeros(3, dtype=np.bool_),
        passing=np.zeros(3, dtype=np.int64),
        before=np.arange(4),
    )
    sites = assign(of_kernels(kernels, [(0, 1), (1, 2)]), network)
    merged = int(sites.of_merged[1])
    assert (sites.names[merged][1] if merged >= 0 else None) == expected


@pytest.mark.parametrize(("last", "unread"), [("MatMul", 2), ("TransposeExtView", 0)])
def test_casts_of_casts_move_for_nothing_only_in_models_without_experts(last: str, unread: int) -> None:
    """Two micro-batches of one layer, a norm's cast and that of the rotary embedding in each; then one more kernel."""
    operators = (
        Operator(path="norm.cast", kind="primitive", type="Cast", saved=True),
        Operator(path="rotary.cast", kind="primitive", type="Cast", saved=False),
    )
    network = Network(
        family="x",
        layers=(Layer(index=0, name="0", template=LayerTemplate(name="dense", cell="Layer", operators=operators)),),
    )
    kernels = Kernels(
        name=tuple(f"a/b/{index}" for index in range(7)),
        layer=np.array([0, 0, 0, 0, 0, 0, -1]),
        cell=("norm", "norm", "rotary") * 2 + ("",),
        primitive=("Add", "Cast", "Cast") * 2 + (last,),
        stream=np.zeros(7, dtype=np.int64),
        backward=np.zeros(7, dtype=np.bool_),
        passing=np.array([0, 0, 0, 3, 3, 3, -1]),
        before=np.arange(8),
    )
    sites = assign(of_kernels(kernels, [(0, 1), (1, 2), (3, 4), (4, 5)]), network)
    assert [sites.names[site][1] for site in sites.of_unread[sites.of_unread >= 0]] == ["norm.cast"] * unread


@pytest.mark.parametrize(("stream", "unread"), [(0, ["norm.cast"]), (1, [])])
def test_what_a_view_shows_to_communication_alone_does_not_move_for_nothing(stream: int, unread: list[str]) -> None:
    """The Reshape of a Linear, which the model itself recomputes, and what reads it, on the main stream or not."""
    operators = (
        Operator(path="norm.cast", kind="primitive", type="Cast", saved=True, consumers=("attention.q.reshape",)),
        Operator(
            path="attention.q.reshape",
            kind="primitive",
            type="Reshape",
            saved=False,
            preset_recompute=True,
            consumers=("attention.q.matmul",),
        ),
        Operator(path="attention.q.matmul", kind="primitive", type="MatMul", saved=True),
    )
    network = Network(
        family="x",
        layers=(Layer(index=0, name="0", template=LayerTemplate(name="dense", cell="Layer", operators=operators)),),
    )
    kernels = Kernels(
        name=("a/b/0", "Default/1", "a/b/2", "a/b/3"),
        layer=np.zeros(4, dtype=np.int64),
        cell=("norm", "norm", "attention.q", "attention.q"),
        primitive=("Cast", "Reshape", "MatMul" if stream == 0 else "AllGather", "MatMul"),
        stream=np.array([0, 0, stream, 0]),
        backward=np.zeros(4, dtype=np.bool_),
        passing=np.zeros(4, dtype=np.int64),
        before=np.arange(5),
    )
    sites = assign(of_kernels(kernels, [(0, 1), (1, 2), (2, 3)]), network)
    assert [sites.names[site][1] for site in sites.of_unread[sites.of_unread >= 0]] == unread


def test_a_view_that_its_own_reader_reads_is_no_other_one_that_has_such_a_reader() -> None:
    """Both Linears end with a Reshape that an Add of the layer reads; of the second one a gradient reads it."""

    def view(cell: str, consumers: tuple[str, ...], *, saved: bool) -> Operator:
        return Operator(path=f"{cell}.reshape", kind="primitive", type="Reshape", saved=saved, consumers=consumers)

    known = CellPrimitives(
        LayerTemplate(
            name="dense",
            cell="Layer",
            operators=(
                Operator(path="add", kind="primitive", type="Add", saved=True),
                view("wo", ("add",), saved=False),
                view("w2", ("add",), saved=True),
            ),
        )
    )
    assert known.saved_view("wo.reshape", frozenset({("", "Add")}), is_lost=False) == "wo.reshape"
    assert known.saved_view("wo.reshape", frozenset({("", "Add")}), is_lost=True) == "w2.reshape"


@pytest.mark.parametrize(("maker", "moved"), [((0, 1, 2, 3), "mlp.act.mul"), ((0, 0, 1, 2), None)])
def test_the_slice_that_parallelism_takes_moves_with_what_it_takes_but_not_one_of_a_piece(
    maker: tuple[int, ...], moved: str | None
) -> None:
    operators = (
        Operator(path="mlp.act.mul", kind="primitive", type="Mul", saved=True, consumers=("mlp.out.matmul",)),
        Operator(path="mlp.out.matmul", kind="primitive", type="MatMul", saved=True),
    )
    network = Network(
        family="x",
        layers=(Layer(index=0, name="0", template=LayerTemplate(name="dense", cell="Layer", operators=operators)),),
    )
    kernels = Kernels(
        name=("a/b/0", "a/b/1", "a/b/2", "Gradients/3"),
        layer=np.array([0, 0, 0, -1]),
        cell=("mlp.act", "mlp.out", "mlp.out", ""),
        primitive=("Mul", "StridedSlice", "MatMul", "MatMul"),
        stream=np.zeros(4, dtype=np.int64),
        backward=np.array([False, False, False, True]),
        passing=np.array([0, 0, 0, -1]),
        before=np.arange(5),
    )
    taken = maker.index(1)  # the block that the slice makes
    graph = of_kernels(kernels, [(taken - 1, 1), (taken, 2), (taken, 3)], np.array(maker))
    sites = assign(graph, network)
    assert (sites.names[sites.of_moved[1]][1] if sites.of_moved[1] >= 0 else None) == moved
    assert sites.of_read[graph.reads.kernel == 3].tolist() == [sites.of_moved[1]]


LOST_LINEAR = (
    Operator(path="add", kind="primitive", type="Add", saved=True, consumers=("cast",)),
    Operator(path="cast", kind="primitive", type="Cast", saved=False, consumers=("add",)),
    Operator(path="mlp.mul", kind="primitive", type="Mul", saved=True, consumers=("mlp.out.cast",)),
    Operator(path="mlp.out.cast", kind="primitive", type="Cast", saved=True, consumers=("mlp.out.matmul",)),
    Operator(path="mlp.out.matmul", kind="primitive", type="MatMul", saved=True, consumers=("mlp.out.reshape",)),
    Operator(path="mlp.out.reshape", kind="primitive", type="Reshape", saved=True, consumers=("add",)),
)


@pytest.mark.parametrize(("scope", "expected"), [("Default", "mlp.out.cast"), ("Default/network", "cast")])
def test_a_linear_without_names_is_found_by_who_reads_it(scope: str, expected: str) -> None:
    """MindSpore merged its cells away; the Cast in front of it was taken for that of the layer."""
    network = Network(
        family="x",
        layers=(Layer(index=0, name="0", template=LayerTemplate(name="dense", cell="Layer", operators=LOST_LINEAR)),),
    )
    lost = tuple(f"{scope}/{index}" for index in range(1, 4))
    kernels = Kernels(
        name=("Default/a/mul", *lost, "Default/a/add"),
        layer=np.zeros(5, dtype=np.int64),
        cell=("mlp", "", "", "", ""),
        primitive=("Mul", "Cast", "MatMul", "Reshape", "Add"),
        stream=np.zeros(5, dtype=np.int64),
        backward=np.zeros(5, dtype=np.bool_),
        passing=np.zeros(5, dtype=np.int64),
        before=np.arange(6),
    )
    sites = assign(of_kernels(kernels, [(0, 1), (1, 2), (2, 3), (3, 4)]), network)
    assert sites.names[sites.of_node[1]][1] == expected


def forward(cells: Sequence[str], primitives: Sequence[str], layers: Sequence[int] = ()) -> Kernels:
    """Kernels of the forward pass of one micro-batch; of layer 0 where nothing else is told."""
    count = len(cells)
    return Kernels(
        name=tuple(f"a/b/{index}" for index in range(count)),
        layer=np.array(layers or [0] * count),
        cell=tuple(cells),
        primitive=tuple(primitives),
        stream=np.zeros(count, dtype=np.int64),
        backward=np.zeros(count, dtype=np.bool_),
        passing=2 * np.array(layers or [0] * count),
        before=np.arange(count + 1),
    )


def sites_of(names: tuple[tuple[str, str], ...], of_node: Sequence[int], of_unread: Sequence[int] = ()) -> Sites:
    none = np.full(len(of_node), -1, dtype=np.int64)
    return Sites(
        names=names,
        of_node=np.array(of_node),
        of_moved=none,
        of_read=none,
        of_unread=np.array(of_unread) if of_unread else none,
        places=(),
        of_place=none,
        of_merged=none,
        of_viewed=none,
    )


def actions_of(count: int, **told: Any) -> SiteActions:
    """Nothing asked of so many sites, but for what is told."""
    nothing, none = np.zeros(count + 1, dtype=np.bool_), np.full(count + 1, -1)
    known = dict.fromkeys(("again", "by_model", "comm", "excluded", "handed_on", "reshapes", "alone"), nothing)
    return SiteActions(
        **{
            **known,
            "prefetch": none,
            "cell": none,
            "cells": (),
            "roots": {},
            "left_out": frozenset(),
            "beside": frozenset(),
            **told,
        }
    )


@pytest.mark.parametrize(
    ("roots", "copied"),
    [({}, [True, True]), ({"0"}, [True, True]), ({"1"}, [True, False]), ({"0", "1"}, [False, False])],
)
def test_casts_move_for_nothing_only_up_to_the_last_mlp_whose_reshape_runs_again_by_itself(
    roots: Set[str], copied: list[bool]
) -> None:
    """Two layers of a norm's cast and an MLP that begins with a Linear; ``roots``: where that is recomputed."""
    names = tuple((str(layer), path) for layer in range(2) for path in ("norm.cast", "mlp.linear_fc1.reshape"))
    kernels = forward(("norm", "mlp.linear_fc1") * 2, ("Cast", "Reshape") * 2, [0, 0, 1, 1])
    sites = sites_of(names, range(4), [0, -1, 2, -1])
    actions = actions_of(
        4,
        again=np.array([False, True, False, True, False]),
        cell=np.array([0 if layer in roots and path.startswith("mlp") else -1 for layer, path in names] + [-1]),
        cells=("mlp",),
        roots={layer: frozenset({"mlp" if layer in roots else "mlp.linear_fc1.reshape"}) for layer in ("0", "1")},
    )
    read = np.array([2 * int(layer) for layer in roots], dtype=np.int64)
    found = copied_unread(of_kernels(kernels, [(0, 1), (1, 2), (2, 3)]), sites, actions, read, none_of(4))
    assert (found[[0, 2]] >= 0).tolist() == copied


def test_what_an_excluded_norm_reads_stays_and_so_does_the_sum_that_a_cell_without_operators_hands_on() -> None:
    names = tuple(("0", path) for path in ("norm.cast", "norm.norm", "other.cast", "other.norm", "add", "add"))
    cells = ("norm", "norm", "other", "other", "", "", "pre_mlp_layernorm")
    kernels = forward(cells, ("Cast", "RmsNorm", "Cast", "RmsNorm", "AddExt", "AddExt", "RmsNorm"))
    sites = sites_of(names, [0, 1, 2, 3, 4, 5, -1])

    def staying(*, excluded: Set[int] = frozenset(), handed_on: Set[int] = frozenset()) -> list[int]:
        told = {"excluded": excluded, "handed_on": handed_on}
        actions = actions_of(6, **{name: np.isin(np.arange(7), list(rows)) for name, rows in told.items()})
        baseline = of_kernels(kernels, [(0, 1), (2, 3), (4, 5), (4, 6)])
        return list(np.flatnonzero(on_device(baseline, sites, actions)))

    assert staying() == []
    assert staying(excluded={1}) == [0]
    assert staying(excluded={0}) == [], "what a cast reads is decided, not found here"
    assert staying(handed_on={4, 5}) == [4], "the second sum goes to the next layer"


def none_of(count: int) -> Flags:
    return np.zeros(count, dtype=np.bool_)


@pytest.mark.parametrize(("read", "kept"), [([], [0]), ([0], [])])
def test_what_is_given_to_what_runs_again_for_nothing_is_copied_for_nothing(read: list[int], kept: list[int]) -> None:
    """A product in front of a bias; ``read``: what is needed again, and so copied for that."""
    kernels = forward(("linear",) * 3, ("MatMul", "Add", "Transpose"))
    sites = sites_of(tuple(("0", f"linear.{name}") for name in ("matmul", "bias_add", "transpose")), range(3))
    again = np.array([False, True, False, False])
    actions = actions_of(3, again=again, roots={"0": frozenset({"linear.bias_add"})})
    baseline, needed = of_kernels(kernels, [(0, 1), (1, 2)]), np.array(read, dtype=np.int64)
    found = copied_unread(baseline, sites, actions, needed, none_of(3))
    assert list(np.flatnonzero(found >= 0)) == kept


@pytest.mark.parametrize(("alone", "kept"), [(True, [0]), (False, [])])
def test_what_an_add_reads_that_runs_again_by_itself_for_a_type_is_copied_for_nothing(
    alone: bool, kept: list[int]
) -> None:
    names = tuple(("0", f"rotary.{name}") for name in ("mul", "add", "cast"))
    kernels = forward(("rotary",) * 3, ("Mul", "AddExt", "Cast"))
    sites = sites_of(names, range(3))
    actions = actions_of(
        3,
        again=np.array([not alone, True, not alone, False]),
        roots={"0": frozenset({"rotary.add" if alone else "rotary"})},
    )
    baseline, nothing = of_kernels(kernels, [(0, 1), (1, 2)]), np.array([], dtype=np.int64)
    found = copied_unread(baseline, sites, actions, nothing, none_of(3))
    assert list(np.flatnonzero(found >= 0)) == kept
