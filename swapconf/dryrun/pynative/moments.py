"""TRAINER -> MARKS: what of mindformers' PyNative trainer is watched. Nothing of it does anything else than before.

[mindspore, mindformers] Source: mindformers 2.0.0 and 2.1.0, pynative/trainer/trainer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import mindspore

from swapconf.dryrun.pynative.hyper_parallel_stand_in import STAND_IN
from swapconf.dryrun.pynative.layer_cells import is_plain, layers_of, outermost_layers_of
from swapconf.dryrun.pynative.marks import Marker
from swapconf.trace.marks import Moment


def watch_building(trainer_class: Any, marker: Marker) -> None:
    """Optimizer, whose state may be made at once; and what is recomputed, whose cells are wrapped while it is built."""
    from mindformers.pynative.distributed import activation_checkpoint

    _between(
        trainer_class, "_create_optimizer_and_scheduler", marker, Moment.OPTIMIZER_IS_BUILT, Moment.OPTIMIZER_STANDS
    )
    original = activation_checkpoint.recompute_marker

    @contextmanager
    def recompute_marker(*told: Any) -> Iterator[None]:
        marker.mark(Moment.RECOMPUTE_BEGINS)
        try:
            with original(*told):
                yield
        finally:
            marker.mark(Moment.RECOMPUTE_ENDS)

    activation_checkpoint.recompute_marker = recompute_marker


def watch_training(trainer: Any, marker: Marker) -> None:
    """The layers, the backward pass and the optimizer of a trainer that stands."""
    from mindspore._c_expression import TensorPy

    for model in trainer.model:
        marker.watch_model(model)
        marker.watch(layers_of(model))
        if is_plain(model):  # what may be asked of its trace is also which module made what
            marker.watch_modules(layers_of(model))
    _between(TensorPy, "backward", marker, Moment.BACKWARD_PASS_BEGINS, Moment.BACKWARD_PASS_ENDS)
    _between(trainer, "_optimizer_update", marker, Moment.OPTIMIZER_BEGINS, None)


def _between(owner: Any, name: str, marker: Marker, before: Moment, after: Moment | None) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def watched(*values: Any, **named: Any) -> Any:
        marker.mark(before)
        found = original(*values, **named)
        if after is not None:
            marker.mark(after)
        return found

    setattr(owner, name, watched)


def progress(marker: Marker, is_done: Callable[[int], None]) -> Any:
    """A callback that marks the steps, and says how many are done."""
    from mindformers.pynative.callback import TrainerCallback

    class Progress(TrainerCallback):  # type: ignore[misc]  # without types
        def on_step_begin(self, _args: Any, _state: Any, **_known: Any) -> None:
            marker.mark(Moment.STEP_BEGINS)

        def on_step_end(self, _args: Any, state: Any, **_known: Any) -> None:
            marker.mark(Moment.STEP_ENDS)
            mindspore.runtime.synchronize()
            is_done(int(state.global_step))

    return Progress()


def moved_to_host(trainer: Any, hyper_parallel: str) -> tuple[list[tuple[int, int]], int]:
    """(layer, bytes) of each tensor that the last step moved, and the most bytes on the host at once. Only the stand-in
    counts them; with hyper_parallel itself nothing is told."""
    if hyper_parallel != STAND_IN:
        return [], 0
    from swapconf.dryrun.pynative.hyper_parallel_stand_in.moving import SwapManager

    layers = [(number, cell) for model in trainer.model for number, cell in outermost_layers_of(model)]
    manager = SwapManager()
    return [(number, size) for number, cell in layers for size in manager.moved(cell)], manager.host_peak_bytes
