"""RANKS -> MESH: which ranks stand together along which dimension, as one of them sees it.

What hyper_parallel's mesh answers by operators on the device is counted here: a simulated device gives zeros. Source:
hyper_parallel of 2026, core/dtensor/device_mesh.py; mindformers 2.0.0, pynative/distributed/parallel_dims.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

_groups: dict[tuple[int, ...], str] = {}


class DeviceMesh:
    """``ranks``: of all, the last dimension first. ``rank``: the one that asks. ``parent``: the mesh of more dimensions
    that this one is taken from."""

    device_type = "npu"

    def __init__(
        self,
        ranks: tuple[int, ...],
        shape: tuple[int, ...],
        names: tuple[str, ...],
        rank: int,
        flattened: dict[str, DeviceMesh] | None = None,
        parent: DeviceMesh | None = None,
    ) -> None:
        if prod(shape) != len(ranks) or len(shape) != len(names):
            raise ValueError(f"{len(ranks)} ranks do not make a mesh of {shape}")
        self.ranks, self.mesh_shape, self.mesh_dim_names, self._rank = ranks, shape, names, rank
        self._flattened, self.parent = {} if flattened is None else flattened, parent

    @property
    def rank_list(self) -> tuple[int, ...]:
        return self.ranks

    @property
    def ndim(self) -> int:
        return len(self.mesh_shape)

    def size(self, dimension: int | str | None = None) -> int:
        return len(self.ranks) if dimension is None else self.mesh_shape[self._at(dimension)]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """Those ranks that differ from the one that asks in these dimensions only."""
        kept = [self._at(name) for name in ((names,) if isinstance(names, str) else names)]
        own = self._coordinate(self.ranks.index(self._rank))
        others = [dimension for dimension in range(self.ndim) if dimension not in kept]
        ranks = tuple(
            rank
            for index, rank in enumerate(self.ranks)
            if all(self._coordinate(index)[dimension] == own[dimension] for dimension in others)
        )
        return DeviceMesh(
            ranks,
            tuple(self.mesh_shape[dimension] for dimension in kept),
            tuple(self.mesh_dim_names[dimension] for dimension in kept),
            self._rank,
            self._flattened,
            self,
        )

    def get_local_rank(self, dimension: int | str | None = None) -> int:
        return self._coordinate(self.ranks.index(self._rank))[0 if dimension is None else self._at(dimension)]

    def get_rank_list_along_axis(self, name: str) -> list[int]:
        return list(self[name].ranks)

    def get_group(self, dimension: int | str | None = None) -> str:
        """The name of MindSpore's group, which is made when it is first asked for. [mindspore]"""
        if isinstance(dimension, str) and dimension in self._flattened:
            return self._flattened[dimension].get_group()
        if dimension is not None:
            return self[self.mesh_dim_names[self._at(dimension)]].get_group()
        return group_of(self.ranks)

    def _unflatten(
        self,
        _dimension: int,
        sizes: tuple[int, ...],
        names: tuple[str, ...],
        backend_override: Mapping[str, str] | None = None,  # a group is made only where it is used
    ) -> DeviceMesh:
        """The same ranks in several dimensions."""
        return DeviceMesh(self.ranks, tuple(sizes), tuple(names), self._rank, self._flattened)

    def _flatten(self, name: str) -> DeviceMesh:
        """The same ranks in one dimension, which the mesh that it comes from knows by this name, too."""
        self._flattened[name] = DeviceMesh(self.ranks, (len(self.ranks),), (name,), self._rank, self._flattened)
        return self._flattened[name]

    def _at(self, dimension: int | str) -> int:
        return dimension if isinstance(dimension, int) else self.mesh_dim_names.index(dimension)

    def _coordinate(self, index: int) -> tuple[int, ...]:
        found = []
        for size in reversed(self.mesh_shape):
            index, place = divmod(index, size)
            found.append(place)
        return tuple(reversed(found))


def group_of(ranks: tuple[int, ...]) -> str:
    """MindSpore's, which is made when it is first asked for. [mindspore]"""
    if ranks not in _groups:
        from mindspore.mint.distributed import new_group

        _groups[ranks] = new_group(list(ranks))
    return _groups[ranks]


def init_device_mesh(_device_type: str, shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...]) -> DeviceMesh:
    """All ranks. [mindspore]"""
    from mindspore.mint.distributed import get_rank

    return DeviceMesh(tuple(range(prod(shape))), tuple(shape), tuple(mesh_dim_names), int(get_rank()))
