"""PLACEMENTS: how a tensor lies on the ranks of a mesh, one for each dimension of the mesh.

Source: hyper_parallel of 2026, core/dtensor/placement_types.py; what mindformers 2.1.0 asks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh


@dataclass(frozen=True)
class Placement:
    """How a tensor lies on the ranks of one dimension."""

    def is_shard(self, dim: int | None = None) -> bool:
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each."""


@dataclass(frozen=True)
class Shard(Placement):
    """In parts, along a dimension."""

    dim: int


@dataclass(frozen=True)
class Partial(Placement):
    """Whole in sum."""

    reduce_op: str = "sum"


def local_shape(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[int, ...]:
    """Of the part of one rank. Raises ValueError where a dimension does not go into equal parts."""
    sizes = list(shape)
    for at, one in enumerate(placements):
        if isinstance(one, Shard):
            sizes[one.dim], rest = divmod(sizes[one.dim], mesh.size(at))
            if rest:
                raise ValueError(f"dimension {one.dim} of {tuple(shape)} does not go into {mesh.size(at)} equal parts")
    return tuple(sizes)
