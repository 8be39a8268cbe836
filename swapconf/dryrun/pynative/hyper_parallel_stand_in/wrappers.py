"""CELL -> CELL that recomputes or swaps what its forward pass saves, by MindSpore's own means. [mindspore]

Recompute is MindSpore's (``use_reentrant=False``). A swapped cell hands what autograd saves in it to the swap manager,
which moves it when the cells of a prefetch chain say so; a cell outside of any chain moves nothing. Source:
hyper_parallel of 2026, core/activation_checkpoint and platform/mindspore/activation_checkpoint.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import mindspore
from mindspore import nn

from swapconf.dryrun.pynative.hyper_parallel_stand_in.moving import Saved, SwapManager
from swapconf.dryrun.pynative.layer_cells import WRAPPED


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's output, or of a saved tensor."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_SWAP = 4


class _Function(nn.Cell):  # type: ignore[misc]  # without types
    """A cell around a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def construct(self, *values: Any, **settings: Any) -> Any:
        return self._function(*values, **settings)


class ActivationWrapper(nn.Cell):  # type: ignore[misc]  # without types
    """A cell around another; what it does not have itself is the other's, and names of parameters do not tell of it."""

    def __init__(self, inner: Any) -> None:
        super().__init__(auto_prefix=False)
        setattr(self, WRAPPED, inner if isinstance(inner, nn.Cell) else _Function(inner))

    def __getattr__(self, name: str) -> Any:
        for kind in ("_params", "_buffers", "_cells", "_params_list"):
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        inner = (self.__dict__.get("_cells") or {}).get(WRAPPED)
        if inner is None:
            raise AttributeError(name)
        return getattr(inner, name)

    def cells_and_names(self, cells: Any = None, name_prefix: str = "") -> Any:
        for name, cell in super().cells_and_names(cells, name_prefix):
            yield _without(name), cell

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Any:
        for name, parameter in super().parameters_and_names(name_prefix, expand):
            yield _without(name), parameter

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """The inner cell's parameters have their names already."""


def _without(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != WRAPPED)


class CheckpointWrapper(ActivationWrapper):
    """``settings``: those of `mindspore.recompute`."""

    def __init__(self, inner: Any, settings: dict[str, Any]) -> None:
        super().__init__(inner)
        self._settings = settings

    def construct(self, *values: Any, **named: Any) -> Any:
        inner = getattr(self, WRAPPED)
        return mindspore.recompute(inner, *values, use_reentrant=False, **self._settings, **named)


class SwapWrapper(ActivationWrapper):
    """``policy``: of a saved tensor; None moves all."""

    def __init__(self, inner: Any, policy: Callable[[Any], CheckpointPolicy] | None) -> None:
        super().__init__(inner)
        self._policy = policy

    def construct(self, *values: Any, **named: Any) -> Any:
        saved = Saved()

        def pack(tensor: Any) -> Any:
            if _may_move(tensor) and (self._policy is None or self._policy(tensor) is not CheckpointPolicy.MUST_SAVE):
                SwapManager().take(tensor, saved)
            return tensor

        with mindspore.saved_tensors_hooks(pack, lambda tensor: saved.let_go(tensor)):
            return getattr(self, WRAPPED)(*values, **named)


def _may_move(tensor: Any) -> bool:
    is_tensor = isinstance(tensor, mindspore.Tensor)
    return is_tensor and tensor.param_info is None and tensor.untyped_storage().size() > 0


def checkpoint_wrapper(cell: Any, policy_fn: Any = None, context_fn: Any = None, **settings: Any) -> CheckpointWrapper:
    if policy_fn is not None:
        from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn

        raise NotInStandIn(
            "swapconf's stand-in for hyper_parallel recomputes whole cells only; `exclude_op` needs hyper_parallel"
        )
    if context_fn is not None:
        settings["context_fn"] = context_fn
    return CheckpointWrapper(cell, settings)


def swap_wrapper(cell: Any, policy_fn: Any = None, **_settings: Any) -> SwapWrapper:
    return SwapWrapper(cell, policy_fn)
