"""DTENSOR: the part that one rank holds of a distributed tensor, with how it lies on the ranks. [mindspore]

Here it is that part, and every operator sees it so: mindformers 2.1.0 takes the local part wherever it computes, and
calls its collectives itself. What needs an operator of whole distributed tensors says that it is not there. Source of
what is asked of it: mindformers 2.1.0, pynative/distributed/style.py, utils.py, base_models/gpt/parallelize.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from typing import Any

import mindspore
from mindspore import Parameter, mint

from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.placements import Layout, Placement, local_shape


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
        part.layout = Layout(device_mesh, tuple(placements))
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

    def redistribute(self, *_asked: Any, **_named: Any) -> Any:
        raise NotInStandIn("swapconf's stand-in for hyper_parallel redistributes no tensors; install hyper_parallel")


def _plain(tensor: Any) -> Any:
    """Another tensor of this shape, without values; with the same memory where there is some."""
    if tensor.is_meta:
        return mint.empty(tuple(tensor.shape), dtype=tensor.dtype, device="meta")
    return tensor.view(tensor.shape)


def distribute_tensor(tensor: Any, device_mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
    """The part of this rank, of a tensor without values: models are laid out before they get memory."""
    if isinstance(tensor, DTensor):
        return tensor
    shape = local_shape(tensor.shape, device_mesh, placements)
    part = mint.empty(shape, dtype=tensor.dtype, device=str(tensor.device).partition(":")[0])
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
