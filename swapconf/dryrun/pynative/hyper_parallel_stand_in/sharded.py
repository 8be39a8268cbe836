"""PARAMETER -> ITS SHARD of one rank, gathered and given back; and gradients -> the shard of their sum. [mindspore]

A gathered parameter has memory of its own, which stays a tensor and loses its bytes when it is given back. Along
another dimension than the first what was gathered is put in order in a copy, which is kept until the next one. The
gradient of the whole lives until the reduced one is there, which is first asked for when the next unit is through. Of a
distributed parameter all this is done to the part that this rank has. Source: hyper_parallel of 2026 (MindSpore),
platform/mindspore/fully_shard/param.py, pack_utils.py and state.py, without fused communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mindspore
from mindspore import Parameter, mint
from mindspore.graph.api import _no_grad
from mindspore.mint import distributed

from swapconf.dryrun.pynative.hyper_parallel_stand_in.dtensor import DTensor
from swapconf.dryrun.pynative.hyper_parallel_stand_in.layout import Layout
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.placements import Placement, Replicate, Shard
from swapconf.dryrun.pynative.whole_shapes import WHOLE_SHAPE

_MANAGED = "_hsdp_param_initialized"


def is_managed(parameter: Any) -> bool:
    """Whether a unit has this parameter already."""
    return getattr(parameter, _MANAGED, False) is True


@dataclass(frozen=True, slots=True)
class Groups:
    """Of a ``mesh``. ``ranks``: that share the shards, in ``shards``. ``copies``: those that have the same shard, ""
    where each has another. ``all``: both together, who have the same of what is whole."""

    mesh: DeviceMesh
    shards: str
    ranks: int
    copies: str
    all: str


def groups_of(mesh: DeviceMesh) -> Groups:
    """Of the last dimension of a mesh; the one before it is of copies."""
    if mesh.ndim == 1:
        return Groups(mesh, mesh.get_group(), mesh.size(), "", mesh.get_group())
    return Groups(mesh, mesh.get_group(1), mesh.size(1), mesh.get_group(0), mesh.get_group())


class Sharded:
    """``owners``: (cell, name) of each place that has it. Each of the ranks has 1/ranks of it along a ``dimension``, or
    all of it where ``is_whole``, whose gradients alone are summed."""

    def __init__(
        self,
        parameter: Any,
        owners: Sequence[tuple[Any, str]],
        groups: Groups,
        reduce_dtype: Any,
        *,
        is_whole: bool,
        dimension: int = 0,
    ) -> None:
        self._owners, self._groups, self._reduce_dtype = tuple(owners), groups, reduce_dtype
        self._ranks = 1 if is_whole else groups.ranks
        self.is_whole = is_whole
        self._layout = parameter.layout if isinstance(parameter, DTensor) else None
        self._lies = _layout_of(groups.mesh, self._layout, Replicate() if is_whole else Shard(dimension))
        self._shape, self._dimension = tuple(parameter.shape), dimension
        if self._shape[dimension] % self._ranks:
            raise NotImplementedError(
                f"{parameter.name} of shape {self._shape} does not go into {groups.ranks} equal shards"
            )
        self._shard_shape = _part(self._shape, dimension, self._ranks)
        self.shard = Parameter(
            mint.empty(self._shard_shape, dtype=parameter.dtype),
            name=parameter.name,
            requires_grad=parameter.requires_grad,
        )
        setattr(self.shard, _MANAGED, True)
        setattr(self.shard, WHOLE_SHAPE, self._lies.get_global_shape(self._shard_shape))
        self._gathered: Any = None
        self._parameter: Any = None
        self._gathering: Any = None
        self._reduced: Any = None
        self._reducing: Any = None
        self._put(self.shard)

    def start_gathering(self, *, is_async: bool) -> None:
        """Nothing, if it is under way already."""
        if self._gathering is not None:
            return
        with _no_grad():
            flat = self.shard.view(-1)
        if self._gathered is None:
            self._gathered = mint.empty((flat.numel() * self._ranks,), dtype=flat.dtype, device=_device(flat))
        storage = self._gathered.untyped_storage()
        if storage.size() == 0:
            storage.resize_(self._gathered.numel() * self._gathered.itemsize)
        if self._ranks == 1:
            _copy(self._gathered, flat)
            return
        self._gathering = distributed.all_gather_into_tensor(
            self._gathered, flat, group=self._groups.shards, async_op=is_async
        )

    def gather(self) -> None:
        """The cells have the whole parameter from here on."""
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering = None
        if self._parameter is None:  # with a tensor given, Parameter would make a copy of it
            self._parameter = Parameter([], name=self.shard.name, requires_grad=False)
            if self._layout is not None:
                DTensor.from_local(self._parameter, self._layout.mesh, self._layout.placements)
        self._parameter.data = self._in_order()
        self._parameter.requires_grad = self.shard.requires_grad
        self._parameter.grad = None
        self._put(self._parameter)

    def _in_order(self) -> Any:
        if self._dimension == 0 or self._ranks == 1:
            return self._gathered.view(self._shape)
        with _no_grad():
            parts = self._gathered.view((self._ranks * self._shard_shape[0], *self._shard_shape[1:]))
            return mint.cat(mint.chunk(parts, self._ranks, dim=0), dim=self._dimension)

    def give_back(self) -> None:
        """The cells have the shard from here on."""
        if self.is_whole:  # the forward pass may have changed it
            _copy(self.shard, self._parameter)
        self._put(self.shard)
        storage = self._gathered.untyped_storage()
        if storage.size():
            storage.resize_(0)

    @property
    def has_gradient(self) -> bool:
        parameter = self._parameter
        return parameter is not None and bool(self.shard.requires_grad) and parameter.grad is not None

    def start_reducing(self, *, with_copies: bool = True) -> None:
        """``with_copies``: what is whole is summed over the ranks that have it."""
        gradient = self._parameter.grad
        if self._reduce_dtype is not None and gradient.dtype != self._reduce_dtype:
            gradient = gradient.to(self._reduce_dtype)
        gradient = gradient.contiguous()
        if self.is_whole:
            self._reduced = gradient
            if with_copies:
                self._reducing = distributed.all_reduce(gradient, group=self._groups.all, async_op=True)
            return
        if self._ranks == 1:
            self._reduced = gradient
            return
        if self._dimension:
            gradient = mint.cat(mint.chunk(gradient, self._ranks, dim=self._dimension), dim=0)
        flat = gradient.view(-1)
        self._reduced = mint.empty((flat.numel() // self._ranks,), dtype=flat.dtype, device=_device(flat))
        self._reducing = distributed.reduce_scatter_tensor(
            self._reduced, flat, group=self._groups.shards, async_op=True
        )

    def take_reduced(self, *, with_copies: bool = True) -> None:
        """Add it to the gradient that the optimizer sees, and let go of the whole one. ``with_copies``: those of ranks
        that have the same shard are summed with it, in its memory."""
        if self._reducing is not None:
            self._reducing.wait()
            self._reducing = None
        if self._groups.copies and with_copies and not self.is_whole:
            distributed.all_reduce(self._reduced, group=self._groups.copies)
        reduced, self._reduced = self._reduced.view(self._shard_shape), None
        total = getattr(self.shard, "main_grad", None)
        if total is None:
            total = reduced
        else:
            total += reduced
        self.shard.main_grad = DTensor.from_local(total, self._lies.mesh, self._lies.placements)
        self.shard.grad = None
        self._parameter.grad = None

    def forget_gradient(self) -> None:
        self.shard.grad = None
        self.shard.main_grad = None

    def _put(self, parameter: Any) -> None:
        for cell, name in self._owners:
            cell._params[name] = parameter


def _layout_of(mesh: DeviceMesh, own: Layout | None, placement: Placement) -> Layout:
    """How a shard lies: along the last dimension of the mesh of shards, and as its parameter does on another one."""
    placements = (*[Replicate()] * (mesh.ndim - 1), placement)
    if own is None or mesh.parent is None:
        return Layout(mesh, placements)
    names = (*mesh.mesh_dim_names, *own.mesh.mesh_dim_names)
    return Layout(mesh.parent[names], (*placements, *own.placements))


def _part(shape: tuple[int, ...], dimension: int, ranks: int) -> tuple[int, ...]:
    return tuple(size // (ranks if at == dimension else 1) for at, size in enumerate(shape))


def _device(tensor: Any) -> str:
    return str(tensor.device).partition(":")[0]


def _copy(there: Any, here: Any) -> None:
    """Without a new version of ``there``, for which saved tensors are asked."""
    with _no_grad():
        there.data.copy_(here.view(there.shape))


def owners_of(cells: Sequence[Any]) -> dict[Any, list[tuple[Any, str]]]:
    """By parameter, each (cell, name) that has it."""
    found: dict[Any, list[tuple[Any, str]]] = {}
    for cell in dict.fromkeys(cells):
        for name, parameter in cell._params.items():
            if isinstance(parameter, mindspore.Tensor):
                found.setdefault(parameter, []).append((cell, name))
    return found
