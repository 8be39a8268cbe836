"""SAVED TENSORS -> HOST AND BACK, when the cells of a prefetch chain begin and end. [mindspore]

A chain says of a cell which one comes next: its tensors leave when it ends, their memory is given back when the next
one has ended, and they return when the backward pass of the next one begins. A cell without a next one moves nothing.
Source: hyper_parallel of 2026, core/activation_checkpoint/swap.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakSet

import mindspore
from mindspore import mint

_PLACE, _STATE = "_swap_place", "_swap_state"
_IN_BACKWARD = "pre_backward"


class _Moved:
    """One tensor: on the device, or its storage empty and a copy in pinned host memory."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self._size = tensor.untyped_storage().size()
        self._host = mint.empty_like(tensor, device="cpu", pin_memory=True)

    def leave(self) -> None:
        self._host.copy_(self._tensor, non_blocking=True)

    def give_back(self) -> None:
        self._tensor.untyped_storage().resize_(0)

    def come_back(self) -> None:
        self._tensor.untyped_storage().resize_(self._size)
        self._tensor.data.copy_(self._host, non_blocking=True)


class Saved:
    """What one run of one cell has saved, until the backward pass asks for the first of it."""

    def __init__(self) -> None:
        self.tensors: list[_Moved] = []

    def let_go(self, tensor: Any) -> Any:
        self.tensors.clear()
        return tensor


@dataclass(eq=False, slots=True)
class _Group:
    """What cells of one place in the chain have saved."""

    saved: WeakSet[Saved] = field(default_factory=WeakSet)
    has_left: bool = False

    def tensors(self) -> Iterator[_Moved]:
        for one in list(self.saved):
            yield from one.tensors


@dataclass(eq=False, slots=True)
class _Place:
    """A cell's place in the chain."""

    group: _Group
    before: _Group | None = None
    after: _Group | None = None


class SwapManager:
    """The one of this process, however often it is asked for."""

    _only: SwapManager | None = None
    _current: _Group | None
    _stream: Any

    def __new__(cls) -> SwapManager:
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only._current = cls._only._stream = None
        return cls._only

    def take(self, tensor: Any, saved: Saved) -> None:
        """A tensor that is saved in the cell that runs just now."""
        if self._current is not None:
            saved.tensors.append(_Moved(tensor))
            self._current.saved.add(saved)

    def set_forward_prefetch_layer(self, first: Any, second: Any) -> None:
        """What ``first`` saves comes back when the backward pass of ``second`` begins."""
        before, after = self._place(first), self._place(second)
        before.after = before.after or after.group
        after.before = after.before or before.group

    def _place(self, cell: Any) -> _Place:
        known: _Place | None = cell.__dict__.get(_PLACE)
        if known is None:
            known = _Place(_Group())
            object.__setattr__(cell, _PLACE, known)
            cell.register_forward_pre_hook(partial(self._begins, known))
            cell.register_forward_hook(partial(self._ends, known))
            cell.register_backward_pre_hook(partial(self._turns, known))
            cell.register_backward_hook(_is_through)
        return known

    def _begins(self, place: _Place, cell: Any, _inputs: Any) -> None:
        if not _is_in_backward(cell):
            self._current = place.group

    def _ends(self, place: _Place, cell: Any, _inputs: Any, _output: Any) -> None:
        if _is_in_backward(cell):
            return
        if place.after is not None:
            with self._copying():
                for tensor in place.group.tensors():
                    tensor.leave()
            place.group.has_left = True
        if place.before is not None and place.before.has_left:
            for tensor in place.before.tensors():
                tensor.give_back()

    def _turns(self, place: _Place, cell: Any, _gradient: Any) -> None:
        object.__setattr__(cell, _STATE, _IN_BACKWARD)
        if place.before is not None and place.before.has_left:
            with self._copying():
                for tensor in place.before.tensors():
                    tensor.come_back()
            place.before.has_left = False

    @contextmanager
    def _copying(self) -> Iterator[None]:
        """On a stream of its own, after what the computing one has been given so far."""
        self._stream = self._stream or mindspore.runtime.Stream()
        event = mindspore.runtime.Event()
        event.record(mindspore.runtime.current_stream())
        with mindspore.runtime.StreamCtx(self._stream):
            event.wait(self._stream)
            yield


def _is_in_backward(cell: Any) -> bool:
    return bool(cell.__dict__.get(_STATE) == _IN_BACKWARD)


def _is_through(cell: Any, _given: Any, _taken: Any) -> None:
    object.__setattr__(cell, _STATE, "")
