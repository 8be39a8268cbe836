"""CELL -> UNIT whose parameters are in shards, and whole while it runs. [mindspore]

Gathered before the forward pass and before the backward pass, with the units that are named to come next; given back
after both, after the forward pass only where `reshard_after_forward` says so. A cell that runs again inside of the
backward pass keeps what it has gathered until its own is through. Source: hyper_parallel of 2026 (MindSpore),
core/fully_shard/hsdp_scheduler.py, platform/mindspore/fully_shard/scheduler.py and state.py.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mindspore
from mindspore._c_expression import _DisableMsDispatchMode
from mindspore.common._grad_function import _Function
from mindspore.graph.api import _pynative_executor
from mindspore.utils._pytree import tree_flatten, tree_unflatten

from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.sharded import Sharded, groups_of, is_managed, owners_of

_UNIT = "_fully_shard_unit"


@dataclass(frozen=True, kw_only=True)
class MixedPrecisionPolicy:
    """Of these only what mindformers asks for is done: parameters as they are, and gradients summed in
    ``reduce_dtype`` and kept so beside the parameter."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True
    apply_grad_on_fp32_main_grad: bool = False


class OffloadPolicy:
    """Nothing is kept on the host."""


class CPUOffloadPolicy(OffloadPolicy):
    """Shards on the host."""


class HSDPModule:
    """What a cell has besides, once it is a unit."""

    def set_modules_to_forward_prefetch(self, cells: Sequence[Any]) -> None:
        _unit(self).next_forward = [_unit(cell) for cell in cells]

    def set_modules_to_backward_prefetch(self, cells: Sequence[Any]) -> None:
        _unit(self).next_backward = [_unit(cell) for cell in cells]

    def set_reduce_op_type(self, _kind: str) -> None:
        """A sum and an average take the same memory."""

    def set_requires_all_reduce(self, is_required: bool) -> None:
        """Of mindformers 2.1.0: whether copies of shards, and what is whole, are summed over the ranks that have the
        same. That is put off to the last micro-batch; until then each rank adds up its own."""
        _run.sums_copies = is_required

    def zero_grad(self) -> None:
        for unit in _units(self):
            for parameter in unit.parameters:
                parameter.forget_gradient()


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh,
    reshard_after_forward: bool = True,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: Sequence[Any] = (),
    replicate_params: Sequence[Any] = (),
    comm_fusion: bool = False,
) -> Any:
    """Make a unit of a cell: of those of its parameters that no unit inside of it has."""
    policy = mp_policy or MixedPrecisionPolicy()
    _refuse("a mesh of {} dimensions", mesh.ndim, mesh.ndim > 2)
    _refuse("shards on the host{}", "", isinstance(offload_policy, CPUOffloadPolicy))
    _refuse("collectives of several parameters at once{}", "", comm_fusion)
    casts = (policy.param_dtype, policy.output_dtype) != (None, None) or not policy.apply_grad_on_fp32_main_grad
    _refuse("a policy as {}", policy, casts)
    module.__class__ = _with_unit(module.__class__)
    left_out, replicated = frozenset(ignored_params), frozenset(replicate_params)
    owners = owners_of([inner for _, inner in module.cells_and_names()])
    groups = groups_of(mesh)
    parameters = [
        Sharded(
            one,
            owners[one],
            groups,
            policy.reduce_dtype,
            is_whole=one in replicated,
            dimension=_dimension(one, shard_placement_fn),
        )
        for one in owners
        if not is_managed(one) and one not in left_out
    ]
    object.__setattr__(module, _UNIT, _Unit(module, parameters, reshard_after_forward))
    return module


def _dimension(parameter: Any, placement_of: Callable[[Any], Any] | None) -> int:
    """Along which it is put into shards."""
    placement = placement_of(parameter) if placement_of is not None else None
    return 0 if placement is None else int(placement.dim) % len(parameter.shape)


def _refuse(words: str, value: object, is_so: bool) -> None:
    if is_so:
        raise NotInStandIn(f"swapconf's stand-in for hyper_parallel does not do {words.format(value)} of fully_shard")


_classes: dict[type, type] = {}


def _with_unit(kind: type) -> type:
    if kind not in _classes:
        _classes[kind] = type(f"HSDP{kind.__name__}", (HSDPModule, kind), {})
    return _classes[kind]


def _unit(cell: Any) -> _Unit:
    unit: _Unit = cell.__dict__[_UNIT]
    return unit


def _units(cell: Any) -> Iterator[_Unit]:
    return (_unit(inner) for _, inner in cell.cells_and_names() if isinstance(inner, HSDPModule))


class _State(enum.Enum):
    BEFORE_FORWARD = enum.auto()
    FORWARD = enum.auto()
    BEFORE_BACKWARD = enum.auto()
    BACKWARD = enum.auto()


@dataclass(slots=True)
class _Run:
    """What all units share. ``scattering``, ``summing``: of the unit that was through last. ``sums_copies``: what is
    reduced is summed over the ranks that have the same shard or the same whole."""

    is_in_backward: bool = False
    sums_copies: bool = True
    scattering: list[Sharded] = field(default_factory=list)
    summing: list[Sharded] = field(default_factory=list)

    def take_scattered(self) -> None:
        while self.scattering:
            self.scattering.pop(0).take_reduced(with_copies=self.sums_copies)

    def take_summed(self) -> None:
        while self.summing:
            self.summing.pop(0).take_reduced()


_run = _Run()


class _Unit:
    def __init__(self, cell: Any, parameters: Sequence[Sharded], gives_back_after_forward: bool) -> None:
        self.parameters = parameters
        self.next_forward: list[_Unit] = []
        self.next_backward: list[_Unit] = []
        self._gives_back_after_forward = gives_back_after_forward
        self._state: _State | None = None
        self._is_sharded = self._is_copied_back = True  # of those in shards, and of those that are whole
        cell.register_forward_pre_hook(_apart(self._before_forward), with_kwargs=True)
        cell.register_forward_hook(_apart(self._after_forward))

    def _before_forward(self, _cell: Any, inputs: Any, named: Any) -> Any:
        if self._state is not _State.BEFORE_BACKWARD:
            self._state = _State.BEFORE_FORWARD
            self._gather()
            if not _run.is_in_backward:
                for unit in self.next_forward:
                    unit._prefetch()
        return self._noticing_its_gradient(inputs, named)

    def _after_forward(self, _cell: Any, _inputs: Any, outputs: Any) -> Any:
        if self._state is _State.BEFORE_BACKWARD:
            return None
        for output in tree_flatten(outputs)[0]:
            if isinstance(output, mindspore.Tensor) and output._requires_grad:
                output.register_hook(self._before_backward)
        if not _run.is_in_backward:
            self._state = _State.FORWARD
            if self._gives_back_after_forward:
                self._give_back(with_whole=False)
        return outputs

    def _before_backward(self, gradient: Any) -> Any:
        _pynative_executor.queue_backward_final_callback(self._when_all_is_through)
        if self._state is not _State.BEFORE_BACKWARD:
            _run.is_in_backward = True
            self._state = _State.BEFORE_BACKWARD
            if self._is_sharded or self._is_copied_back:  # given back by itself, or with another micro-batch
                self._gather()
            for unit in self.next_backward:
                unit._prefetch(with_whole=False)
        return gradient

    def after_backward(self) -> None:
        """Reduce its gradients, and take those of the unit that was through before it."""
        if self._state is _State.BACKWARD:
            return
        self._state = _State.BACKWARD
        _run.take_summed()
        _run.take_scattered()
        ready = [parameter for parameter in self.parameters if parameter.has_gradient]
        for parameter in sorted(ready, key=lambda one: one.is_whole):
            parameter.start_reducing(with_copies=_run.sums_copies)
            if parameter.is_whole and not _run.sums_copies:
                parameter.take_reduced()
            else:
                (_run.summing if parameter.is_whole else _run.scattering).append(parameter)
        self._give_back()

    def _when_all_is_through(self) -> None:
        self.after_backward()
        _run.is_in_backward = False
        _run.take_scattered()
        _run.take_summed()

    def _prefetch(self, *, with_whole: bool = True) -> None:
        self._start(with_whole=with_whole, is_async=True)

    def _gather(self) -> None:
        self._start(with_whole=True, is_async=False)
        for parameter in self._those(with_whole=True):
            parameter.gather()
        self._is_sharded = self._is_copied_back = False

    def _start(self, *, with_whole: bool, is_async: bool) -> None:
        for parameter in self._those(with_whole=with_whole):
            parameter.start_gathering(is_async=is_async)

    def _those(self, *, with_whole: bool) -> list[Sharded]:
        """Which are to be gathered: copies of whole ones first."""
        copied = [one for one in self.parameters if one.is_whole] if with_whole and self._is_copied_back else []
        return copied + ([one for one in self.parameters if not one.is_whole] if self._is_sharded else [])

    def _give_back(self, *, with_whole: bool = True) -> None:
        if not self._is_sharded:
            for parameter in self.parameters:
                if not parameter.is_whole:
                    parameter.give_back()
            self._is_sharded = True
        if with_whole and not self._is_copied_back:
            for parameter in self.parameters:
                if parameter.is_whole:
                    parameter.give_back()
            self._is_copied_back = True

    def _noticing_its_gradient(self, inputs: Any, named: Any) -> Any:
        """The same inputs, whose gradients say that the backward pass of this unit is through."""
        values, shape = tree_flatten((inputs, named))
        at = [i for i, value in enumerate(values) if isinstance(value, mindspore.Tensor) and value._requires_grad]
        if not at or not _pynative_executor.enable_grad():
            return inputs, named
        for i, value in zip(at, _Through.apply(self, *(values[i] for i in at)), strict=True):
            values[i] = value
        return tree_unflatten(shape, values)


class _Through(_Function):  # type: ignore[misc]  # without types
    @staticmethod
    def forward(context: Any, unit: _Unit, *inputs: Any) -> Any:
        context.unit = unit
        return inputs

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        context.unit.after_backward()
        return (None, *gradients)


def _apart(hook: Callable[..., Any]) -> Callable[..., Any]:
    """What a unit does is not what a policy of recompute around it is asked for."""

    def apart(*values: Any) -> Any:
        with _DisableMsDispatchMode():
            return hook(*values)

    return apart
