"""LAYERS -> MARKS in the tracker's order: where each layer's forward and backward pass begin and end.

The tracker names operators of PyNative, and no cells. So one tensor of 512 B, which lives as long as the run, is set to
zero at each of these moments: that allocates nothing, and the tracker writes down when. What the moments were is kept
here, in the same order. [mindspore]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mindspore
from mindspore import mint

from swapconf.files.writing import replace_text
from swapconf.trace.marks import FILE, HOST, MOMENTS, MOVED, NO_LAYER, Moment


class Marker:
    def __init__(self) -> None:
        self._tensor = mint.zeros((1,), dtype=mindspore.int8)
        self._moments: list[tuple[str, int] | tuple[str, int, str]] = []

    def mark(self, moment: Moment, layer: int = NO_LAYER, module: str = "") -> None:
        self._moments.append((moment.value, layer, module) if module else (moment.value, layer))
        self._tensor.zero_()

    def watch_model(self, model: Any) -> None:
        """The forward pass of each micro-batch."""
        model.register_forward_pre_hook(lambda *_called: self.mark(Moment.MODEL_BEGINS))
        model.register_forward_hook(lambda *_called: self.mark(Moment.MODEL_ENDS))

    def watch(self, layers: Iterable[tuple[int, Any]]) -> None:
        """(number, cell) of each layer."""
        for number, cell in layers:
            cell.register_forward_pre_hook(self._before(number))
            cell.register_forward_hook(self._after(number))

    def watch_modules(self, layers: Iterable[tuple[int, Any]]) -> None:
        """The passes of what is in (number, cell) of each layer. What a module gathers or exchanges before it runs is
        its own, and runs again with it, so it begins before all else that is hooked to it."""
        for number, layer in layers:
            for path, cell in layer.cells_and_names():
                if path:
                    cell.register_forward_pre_hook(self._module(Moment.MODULE_BEGINS, number, path), prepend=True)
                    cell.register_forward_hook(self._after_module(number, path))

    def write(self, folder: Path, moved: Sequence[tuple[int, int]], host_peak_bytes: int) -> None:
        """``moved``: (layer, bytes) of what the last step moved to the host."""
        told = {MOMENTS: self._moments, MOVED: moved, HOST: host_peak_bytes}
        replace_text(folder / FILE, json.dumps(told))

    def _module(self, moment: Moment, layer: int, path: str) -> Callable[..., None]:
        return lambda *_called: self.mark(moment, layer, path)

    def _after_module(self, layer: int, module: str) -> Callable[..., None]:
        def ends(_cell: Any, _inputs: Any, output: Any) -> None:
            self.mark(Moment.MODULE_ENDS, layer, module)
            self._when_gradient_comes(output, Moment.MODULE_TURNS, layer, module)

        return ends

    def _before(self, layer: int) -> Callable[..., None]:
        def begins(_cell: Any, inputs: Any) -> None:
            self.mark(Moment.FORWARD_BEGINS, layer)
            self._when_gradient_comes(inputs, Moment.BACKWARD_ENDS, layer)

        return begins

    def _after(self, layer: int) -> Callable[..., None]:
        def ends(_cell: Any, _inputs: Any, output: Any) -> None:
            self.mark(Moment.FORWARD_ENDS, layer)
            self._when_gradient_comes(output, Moment.BACKWARD_BEGINS, layer)

        return ends

    def _when_gradient_comes(self, values: Any, moment: Moment, layer: int, module: str = "") -> None:
        tensor = next(_differentiable(values), None)
        if tensor is not None:
            tensor.register_hook(lambda _gradient: self.mark(moment, layer, module))


def _differentiable(values: Any) -> Iterator[Any]:
    if isinstance(values, mindspore.Tensor):
        if values._requires_grad:
            yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _differentiable(value)
