"""LAYOUT: a mesh with how a tensor lies on it, and what has to be sent where it is to lie otherwise.

By dimension of the tensor, `tensor_map` tells the dimensions of the mesh that it is cut along, counted from the last
one; -1 where it is whole. Source: hyper_parallel of 2026, core/dtensor/layout.py and redistribute_infer.py; what
mindformers 2.1.0 asks of them (pynative/optimizer/muon.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, TypeAlias

from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.placements import Placement, Shard

_WHOLE = -1
TensorMap: TypeAlias = "Sequence[int | tuple[int, ...]]"
Sent: TypeAlias = "tuple[str, tuple[int, int, list[int]]]"  # what is done: along which dimension, by how many, and whom


@dataclass
class Layout:
    """``placements``: one for each dimension of the mesh. ``ndim``: of the tensor."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    ndim: int = 0

    @property
    def alias_placements(self) -> tuple[Placement, ...]:
        return self.placements

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        return self.mesh.mesh_shape

    @property
    def rank_list(self) -> tuple[int, ...]:
        return self.mesh.rank_list

    @property
    def tensor_map(self) -> tuple[int | tuple[int, ...], ...]:
        return tuple(self._cut_along(dimension) for dimension in range(self.ndim))

    def _cut_along(self, dimension: int) -> int | tuple[int, ...]:
        last = len(self.placements) - 1
        found = tuple(last - at for at, one in enumerate(self.placements) if _cuts(one, dimension, self.ndim))
        return found if len(found) > 1 else found[0] if found else _WHOLE

    def get_global_shape(self, part: Sequence[int]) -> tuple[int, ...]:
        """Of the whole."""
        sizes = list(part)
        for at, one in enumerate(self.placements):
            if isinstance(one, Shard):
                sizes[one.dim] *= self.mesh.size(at)
        return tuple(sizes)

    def set_placements(self, placements: Sequence[Placement]) -> None:
        self.placements = tuple(placements)

    def placement_to_tensor_map(self, ndim: int) -> None:
        self.ndim = ndim

    def reset_partial(self) -> None:
        """Nothing that is whole in sum is sent here."""

    def repeat_num(self) -> int:
        """How many ranks hold the same."""
        return prod(self.mesh.size(at) for at, one in enumerate(self.placements) if one.is_replicate())

    def get_split_id(self, dim: int) -> int:
        """Which of the parts along a dimension this rank holds."""
        part = 0
        for at, one in enumerate(self.placements):
            if one.is_shard(dim):
                part = part * self.mesh.size(at) + self.mesh.get_local_rank(at)
        return part


def _cuts(placement: Placement, dimension: int, ndim: int) -> bool:
    return isinstance(placement, Shard) and placement.dim % ndim == dimension


class DevMat:
    """Ranks in a matrix, in order. ``shape``: of that."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)

    def get_devices_along_dim(self, rank: int, ranks: Sequence[int], along: int | Sequence[int]) -> list[int]:
        """Those that differ from one in these dimensions only, the first of them outermost."""
        axes = (along,) if isinstance(along, int) else tuple(along)
        strides = [prod(self._shape[axis + 1 :]) for axis in range(len(self._shape))]
        place = list(ranks).index(rank)
        here = place - sum(place // strides[axis] % self._shape[axis] * strides[axis] for axis in axes)
        return [
            ranks[here + sum(step * strides[axis] for step, axis in zip(steps, axes, strict=True))]
            for steps in product(*(range(self._shape[axis]) for axis in axes))
        ]


class RedistributionOperatorInfer:
    """What is sent where a tensor that is cut is to be whole in some dimensions, and cut in some that are whole."""

    def __init__(self, *, dev_mat: Sequence[int], in_tensor_map: TensorMap, out_tensor_map: TensorMap) -> None:
        self._mesh, self._from, self._to = tuple(dev_mat), in_tensor_map, out_tensor_map

    def infer_ops_list(self, rank: int, ranks: Sequence[int]) -> list[Sent]:
        changed = [
            (dimension, before, after)
            for dimension, (before, after) in enumerate(zip(self._from, self._to, strict=True))
            if before != after
        ]
        if any(_WHOLE not in (before, after) for _, before, after in changed):
            raise NotInStandIn("swapconf's stand-in for hyper_parallel does not cut a tensor otherwise at once")
        return [
            (kind, (dimension, prod(self._mesh[axis] for axis in axes), self._group(rank, ranks, axes)))
            for kind, dimension, axes in (*self._split(changed), *self._joined(changed))
        ]

    def _split(self, changed: Sequence[tuple[int, Any, Any]]) -> Iterator[tuple[str, int, list[int]]]:
        return (("all_split", at, self._axes(after)) for at, before, after in changed if before == _WHOLE)

    def _joined(self, changed: Sequence[tuple[int, Any, Any]]) -> Iterator[tuple[str, int, list[int]]]:
        return (("all_concat", at, self._axes(before)) for at, before, after in changed if after == _WHOLE)

    def _axes(self, cut: int | tuple[int, ...]) -> list[int]:
        return [len(self._mesh) - 1 - one for one in ((cut,) if isinstance(cut, int) else cut)]

    def _group(self, rank: int, ranks: Sequence[int], axes: list[int]) -> list[int]:
        return DevMat(self._mesh).get_devices_along_dim(rank, ranks, axes)


def slice_of_rank(
    mesh_shape: Sequence[int], tensor_map: TensorMap, place: int, shape: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """By dimension of the whole, where the part of a rank begins and ends. ``place``: of the rank in the mesh."""
    found = []
    for size, cut in zip(shape, tensor_map, strict=True):
        parts, part = 1, 0
        for one in (cut,) if isinstance(cut, int) else cut:
            if one != _WHOLE:
                axis = len(mesh_shape) - 1 - one
                parts *= mesh_shape[axis]
                part = part * mesh_shape[axis] + place // prod(mesh_shape[axis + 1 :]) % mesh_shape[axis]
        found.append((size // parts * part, size // parts * (part + 1)))
    return tuple(found)
