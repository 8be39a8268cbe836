"""How a tensor lies on a mesh of ranks, and what is sent where it is to lie otherwise, as the stand-in counts it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn
from swapconf.dryrun.pynative.hyper_parallel_stand_in.layout import (
    DevMat,
    Layout,
    RedistributionOperatorInfer,
    slice_of_rank,
)
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.placements import Placement, Replicate, Shard, local_shape

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def mesh_of(shape: Sequence[int], rank: int = 0) -> DeviceMesh:
    names = tuple(f"axis{number}" for number in range(len(shape)))
    return DeviceMesh(tuple(range(10, 10 + prod(shape))), tuple(shape), names, 10 + rank)


@given(shape=shapes, data=st.data())
def test_ranks_along_dimensions_of_a_mesh_differ_in_these_alone(shape: list[int], data: st.DataObject) -> None:
    ranks = list(range(10, 10 + prod(shape)))
    place = dict(zip(ranks, product(*map(range, shape)), strict=True))
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    rank = data.draw(st.sampled_from(ranks))
    found = DevMat(shape).get_devices_along_dim(rank, ranks, axes)
    assert len(found) == prod(shape[axis] for axis in axes)
    assert [tuple(place[one][axis] for axis in axes) for one in found] == list(
        product(*(range(shape[axis]) for axis in axes))
    )
    others = [axis for axis in range(len(shape)) if axis not in axes]
    assert {tuple(place[one][axis] for axis in others) for one in found} == {
        tuple(place[rank][axis] for axis in others)
    }


placements = st.sampled_from([Replicate(), Shard(0), Shard(1)])


@given(shape=shapes, data=st.data())
def test_the_parts_of_all_ranks_are_the_whole_each_as_large_as_its_placements_leave(
    shape: list[int], data: st.DataObject
) -> None:
    lies: tuple[Placement, ...] = tuple(data.draw(placements) for _ in shape)
    layout = Layout(mesh_of(shape), lies, 2)
    whole = (12**3, 2 * 12**3)
    part = local_shape(whole, layout.mesh, lies)
    assert layout.get_global_shape(part) == whole
    areas = [slice_of_rank(layout.mesh_shape, layout.tensor_map, place, whole) for place in range(prod(shape))]
    assert all(tuple(end - begin for begin, end in area) == part for area in areas)
    assert sum(prod(end - begin for begin, end in area) for area in set(areas)) == prod(whole)
    assert len(areas) == len(set(areas)) * layout.repeat_num()


def test_a_tensor_that_is_to_be_whole_is_joined_once_for_each_dimension_that_is_cut() -> None:
    layout = Layout(mesh_of((2, 2, 2)), (Shard(0), Replicate(), Shard(0)), 2)
    assert layout.tensor_map == ((2, 0), -1)
    joined = RedistributionOperatorInfer(
        dev_mat=layout.mesh_shape, in_tensor_map=layout.tensor_map, out_tensor_map=(-1, -1)
    )
    assert joined.infer_ops_list(12, layout.rank_list) == [("all_concat", (0, 4, [12, 13, 16, 17]))]


def test_a_tensor_that_is_whole_is_split_and_one_that_is_cut_otherwise_at_once_is_refused() -> None:
    split = RedistributionOperatorInfer(dev_mat=(2, 4), in_tensor_map=(-1, 1), out_tensor_map=(0, -1))
    assert split.infer_ops_list(15, range(10, 18)) == [
        ("all_split", (0, 4, [14, 15, 16, 17])),
        ("all_concat", (1, 2, [11, 15])),
    ]
    with pytest.raises(NotInStandIn, match="does not cut a tensor otherwise at once"):
        RedistributionOperatorInfer(dev_mat=(2, 4), in_tensor_map=(0, -1), out_tensor_map=(1, -1)).infer_ops_list(
            10, range(10, 18)
        )


def test_what_lies_the_same_is_not_sent() -> None:
    same = RedistributionOperatorInfer(dev_mat=(2,), in_tensor_map=(0, -1), out_tensor_map=(0, -1))
    assert same.infer_ops_list(1, (0, 1)) == []
