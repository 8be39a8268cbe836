"""PARAMETER -> ITS SHARD of one rank, gathered and given back; and gradients -> the shard of their sum. [mindspore]

A gathered parameter has memory of its own, which stays a tensor and loses its bytes when it is given back. The gradient
of the whole lives until the reduced one is there, which is first asked for when the next unit is through. Source:
hyper_parallel of 2026 (MindSpore), platform/mindspore/fully_shard/param.py and state.py, without fused communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore
from mindspore import Parameter, mint
from mindspore.graph.api import _no_grad
from mindspore.mint import distributed

_MANAGED = "_hsdp_param_initialized"


def is_managed(parameter: Any) -> bool:
    """Whether a unit has this parameter already."""
    return getattr(parameter, _MANAGED, False) is True


class Sharded:
    """``owners``: (cell, name) of each place that has it. ``ranks``: that share ``group``; each has 1/ranks of it along
    its first dimension, or all of it where ``is_whole``, whose gradients alone are summed."""

    def __init__(
        self,
        parameter: Any,
        owners: Sequence[tuple[Any, str]],
        group: str,
        ranks: int,
        reduce_dtype: Any,
        *,
        is_whole: bool,
    ) -> None:
        self._owners, self._group, self._reduce_dtype = tuple(owners), group, reduce_dtype
        self._ranks = 1 if is_whole else ranks
        self.is_whole = is_whole
        self._shape = tuple(parameter.shape)
        if self._shape[0] % self._ranks:
            raise NotImplementedError(f"{parameter.name} of shape {self._shape} does not go into {ranks} equal shards")
        self._shard_shape = (self._shape[0] // self._ranks, *self._shape[1:])
        self.shard = Parameter(
            mint.empty(self._shard_shape, dtype=parameter.dtype),
            name=parameter.name,
            requires_grad=parameter.requires_grad,
        )
        setattr(self.shard, _MANAGED, True)
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
        if self.is_whole:
            _copy(self._gathered, flat)
            return
        self._gathering = distributed.all_gather_into_tensor(self._gathered, flat, group=self._group, async_op=is_async)

    def gather(self) -> None:
        """The cells have the whole parameter from here on."""
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering = None
        if self._parameter is None:  # with a tensor given, Parameter would make a copy of it
            self._parameter = Parameter([], name=self.shard.name, requires_grad=False)
        self._parameter.data = self._gathered.view(self._shape)
        self._parameter.requires_grad = self.shard.requires_grad
        self._parameter.grad = None
        self._put(self._parameter)

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

    def start_reducing(self) -> None:
        gradient = self._parameter.grad
        if self._reduce_dtype is not None and gradient.dtype != self._reduce_dtype:
            gradient = gradient.to(self._reduce_dtype)
        gradient = gradient.contiguous()
        if self.is_whole:
            self._reduced = gradient
            self._reducing = distributed.all_reduce(gradient, group=self._group, async_op=True)
            return
        flat = gradient.view(-1)
        self._reduced = mint.empty((flat.numel() // self._ranks,), dtype=flat.dtype, device=_device(flat))
        self._reducing = distributed.reduce_scatter_tensor(self._reduced, flat, group=self._group, async_op=True)

    def take_reduced(self) -> None:
        """Add it to the gradient that the optimizer sees, and let go of the whole one."""
        if self._reducing is not None:
            self._reducing.wait()
            self._reducing = None
        reduced, self._reduced = self._reduced.view(self._shard_shape), None
        if getattr(self.shard, "main_grad", None) is None:
            self.shard.main_grad = reduced
        else:
            self.shard.main_grad += reduced
        self.shard.grad = None
        self._parameter.grad = None

    def forget_gradient(self) -> None:
        self.shard.grad = None
        self.shard.main_grad = None

    def _put(self, parameter: Any) -> None:
        for cell, name in self._owners:
            cell._params[name] = parameter


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
