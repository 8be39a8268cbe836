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
from weakref import WeakSet, finalize

import mindspore
from mindspore import mint
from mindspore.graph.api import _no_grad

_PLACE, _STATE = "_swap_place", "_swap_state"
_IN_BACKWARD = "pre_backward"


@dataclass(slots=True)
class _Host:
    """Pinned memory in use, and the most of it at once."""

    bytes: int = 0
    most_bytes: int = 0

    def take(self, size_bytes: int) -> None:
        self.bytes += size_bytes
        self.most_bytes = max(self.most_bytes, self.bytes)

    def give(self, size_bytes: int) -> None:
        self.bytes -= size_bytes


class _Moved:
    """What one tensor keeps its values in: on the device, or empty and copied to pinned host memory."""

    def __init__(self, tensor: Any, host: _Host) -> None:
        self._storage = tensor.untyped_storage()
        self.size_bytes = int(self._storage.size())
        self._copy = mint.empty((self.size_bytes,), dtype=mindspore.int8, device="cpu", pin_memory=True)
        host.take(self.size_bytes)
        finalize(self, host.give, self.size_bytes)

    def leave(self) -> None:
        self._copy.untyped_storage().copy_(self._storage, non_blocking=True)

    def give_back(self) -> None:
        self._storage.resize_(0)

    def come_back(self) -> None:
        self._storage.resize_(self.size_bytes)
        self._storage.copy_(self._copy.untyped_storage(), non_blocking=True)


class Saved:
    """What one run of one cell has saved, until the backward pass asks for the first of it."""

    def __init__(self) -> None:
        self.tensors: list[_Moved] = []
        self.addresses: set[int] = set()

    def let_go(self, tensor: Any) -> Any:
        self.tensors.clear()
        return tensor


@dataclass(eq=False, slots=True)
class _Group:
    """What cells of one place in the chain have saved. ``left``, ``loaded``: the events behind the last copies, None
    before any. ``moved_bytes``: of each tensor that went last."""

    saved: WeakSet[Saved] = field(default_factory=WeakSet)
    left: Any = None
    loaded: Any = None
    moved_bytes: list[int] = field(default_factory=list)

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
    _host: _Host

    def __new__(cls) -> SwapManager:
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only._current = cls._only._stream = None
            cls._only._host = _Host()
        return cls._only

    def take(self, tensor: Any, saved: Saved) -> None:
        """A tensor that is saved in the cell that runs just now; with it goes what shares its storage."""
        if self._current is None:
            return
        address = tensor.untyped_storage().data_ptr()
        if address not in saved.addresses:
            saved.addresses.add(address)
            saved.tensors.append(_Moved(tensor, self._host))
            self._current.saved.add(saved)

    @property
    def host_peak_bytes(self) -> int:
        return self._host.most_bytes

    def moved(self, cell: Any) -> list[int]:
        """Bytes of each tensor that this cell moved the last time."""
        place: _Place | None = cell.__dict__.get(_PLACE)
        return [] if place is None else place.group.moved_bytes

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
            leaving = list(place.group.tensors())
            with self._copying() as stream:
                for tensor in leaving:
                    tensor.leave()
                place.group.left = _recorded(stream)
            place.group.moved_bytes = [tensor.size_bytes for tensor in leaving]
        if place.before is not None and place.before.left is not None:
            with _no_grad():
                place.before.left.wait(mindspore.runtime.current_stream())
                for tensor in place.before.tensors():
                    tensor.give_back()

    def _turns(self, place: _Place, cell: Any, _gradient: Any) -> None:
        object.__setattr__(cell, _STATE, _IN_BACKWARD)
        if place.before is not None and place.before.left is not None:
            with self._copying() as stream:
                for tensor in place.before.tensors():
                    tensor.come_back()
                place.before.loaded = _recorded(stream)
            place.before.left = None
        if place.group.loaded is not None:
            place.group.loaded.wait(mindspore.runtime.current_stream())
            place.group.loaded = None

    @contextmanager
    def _copying(self) -> Iterator[Any]:
        """On a stream of its own, after what the computing one has been given so far."""
        self._stream = self._stream or mindspore.runtime.Stream()
        event = _recorded(mindspore.runtime.current_stream())
        with _no_grad(), mindspore.runtime.StreamCtx(self._stream):
            event.wait(self._stream)
            yield self._stream


def _recorded(stream: Any) -> Any:
    event = mindspore.runtime.Event()
    event.record(stream)
    return event


def _is_in_backward(cell: Any) -> bool:
    return bool(cell.__dict__.get(_STATE) == _IN_BACKWARD)


def _is_through(cell: Any, _given: Any, _taken: Any) -> None:
    object.__setattr__(cell, _STATE, "")
