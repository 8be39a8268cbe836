"""DTENSOR: the part that one rank holds of a distributed tensor, with how it lies on the ranks. [mindspore]

Here it is that part, and every operator sees it so: mindformers 2.1.0 takes the local part wherever it computes, and
calls its collectives itself. Its optimizer Muon asks for the whole, too, or for a part that lies otherwise. What needs
an operator of whole distributed tensors says that it is not there. Source of what is asked of it: mindformers 2.1.0,
pynative/distributed/style.py, utils.py, base_models/gpt/parallelize.py, optimizer/muon.py; of what is sent:
hyper_parallel of 2026 (MindSpore), core/dtensor/tensor_redistribution.py and platform/mindspore/platform.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from typing import Any

import mindspore
from mindspore import Parameter, mint, ops
from mindspore.graph.api import _no_grad
from mindspore.mint import distributed
from mindspore.ops import communication

from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn
from swapconf.dryrun.pynative.hyper_parallel_stand_in.layout import Layout, RedistributionOperatorInfer, slice_of_rank
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh, group_of
from swapconf.dryrun.pynative.hyper_parallel_stand_in.placements import Placement, Replicate, local_shape


class DTensor(mindspore.Tensor):  # type: ignore[misc]  # without types
    """``layout``: of the whole."""

    layout: Layout

    def __new__(cls, part: Any) -> Any:
        """A parameter that is made of a distributed tensor is one; MindSpore asks so (common/parameter.py)."""
        made = Parameter.__new__(Parameter, _plain(part))
        made.__class__ = cls
        made.layout = part.layout
        return made

    @staticmethod
    def from_local(part: Any, device_mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
        """The same tensor, which knows from here on how it lies."""
        parameter = isinstance(part, Parameter)
        part.__class__ = Parameter._get_combined_class(DTensor) if parameter else DTensor
        part.layout = Layout(device_mesh, tuple(placements), len(part.shape))
        return part

    def to_local(self) -> Any:
        return self

    @property
    def device_mesh(self) -> DeviceMesh:
        return self.layout.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        return self.layout.placements

    @property
    def local_shape(self) -> tuple[int, ...]:
        return tuple(self.shape)

    def full_tensor(self) -> Any:
        """The whole, which all ranks of its mesh have then."""
        return self.redistribute(self.device_mesh, [Replicate()] * self.device_mesh.ndim)

    def redistribute(self, device_mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
        """The part that this rank has where the tensor lies otherwise on the same ranks."""
        here, there = self.layout, Layout(device_mesh, tuple(placements), self.layout.ndim)
        is_sum = any(one.is_partial() for one in (*here.placements, *there.placements))
        if is_sum or here.rank_list != there.rank_list or here.mesh_shape != there.mesh_shape:
            raise NotInStandIn("swapconf's stand-in for hyper_parallel sums up no parts, and moves none to other ranks")
        part, rank = self, int(distributed.get_rank())
        sent = RedistributionOperatorInfer(
            dev_mat=here.mesh_shape, in_tensor_map=here.tensor_map, out_tensor_map=there.tensor_map
        )
        for kind, (dimension, parts, ranks) in sent.infer_ops_list(rank, here.rank_list):
            if kind == "all_split":
                part = _split(part, dimension, parts)[ranks.index(rank)]
            else:
                part = _joined(part, dimension, ranks)
        return DTensor.from_local(part, device_mesh, placements)


def _joined(part: Any, dimension: int, ranks: list[int]) -> Any:
    """What the ranks have, along a dimension: gathered along the first one, and put in order in a copy."""
    whole, _ = communication.all_gather_into_tensor(None, part, group=group_of(tuple(ranks)))
    return mint.cat(_split(whole, 0, len(ranks)), dim=dimension) if dimension else whole


def _split(tensor: Any, dimension: int, parts: int) -> Any:
    return ops.Split(axis=dimension, output_num=parts)(tensor)


def _plain(tensor: Any) -> Any:
    """Another tensor of this shape, without values; with the same memory where there is some."""
    if tensor.is_meta:
        return mint.empty(tuple(tensor.shape), dtype=tensor.dtype, device="meta")
    return tensor.view(tensor.shape)


def distribute_tensor(tensor: Any, device_mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
    """The part of this rank; a copy of it, or without values where the tensor has none, as models are laid out before
    they get memory."""
    if isinstance(tensor, DTensor):
        return tensor
    shape = local_shape(tensor.shape, device_mesh, placements)
    if tensor.is_meta:
        part = mint.empty(shape, dtype=tensor.dtype, device="meta")
    else:
        layout = Layout(device_mesh, tuple(placements), len(shape))
        place = device_mesh.ranks.index(int(distributed.get_rank()))
        area = slice_of_rank(layout.mesh_shape, layout.tensor_map, place, tensor.shape)
        with _no_grad():
            part = tensor[tuple(slice(begin, end) for begin, end in area)].clone()
    return DTensor.from_local(part, device_mesh, placements)


@dataclass(frozen=True)
class ShardingPlan:
    """``plan``: the placements of each parameter, by its name in the cell."""

    plan: Mapping[str, Sequence[Placement]] = field(default_factory=dict)


def shard_module(cell: Any, device_mesh: DeviceMesh, sharding_plan: ShardingPlan) -> Any:
    """The cell with the parts of its parameters that this rank holds."""
    for path, owner in cell.cells_and_names():
        for name, parameter in owner._params.items():
            placements = sharding_plan.plan.get(f"{path}.{name}" if path else name)
            if parameter is not None and placements is not None and not isinstance(parameter, DTensor):
                owner._params[name] = Parameter(
                    distribute_tensor(parameter, device_mesh, placements),
                    name=parameter.name,
                    requires_grad=parameter.requires_grad,
                )
    return cell


class SkipDTensorDispatch(ContextDecorator):
    """Operators see the parts in any case."""

    def __enter__(self) -> SkipDTensorDispatch:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing was changed."""
