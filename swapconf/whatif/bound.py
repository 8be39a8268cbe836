"""BASELINE + STRATEGY -> a peak that the true run does not exceed.

What a prediction cannot know is the order in which MindSpore launches kernels that do not wait for each other: it
changes with every copy and every node that runs again. The bound allows for that in two ways. Each copy deviates from
where the rules put it, by more than was ever measured (out: 20 kernels late; back: 12 of 100 early). And as much is in
use on top as the two largest blocks take that a layer makes, forward or backward: kernels that run in another order
hold what they read and what they make, and on one stream there is one such kernel at a time. Where copies back reach
what the loss computes for its gradient alone, that counts as a layer: these kernels change places, too. With fused
kernels, each of several operators, in whose order the quick way does not predict, it is twice as many blocks. Besides,
MindSpore keeps scalar constants of a graph on the device, a block of 512 bytes each, and shares fewer of them in a
larger graph: one is added for each kernel that is. This is reasoned and checked against true dry runs, not proven:
docs/evidence/what-if.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swapconf.decide.strategy import Recompute, Strategy, Swap
from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.predict import predict, prediction, schedule
from swapconf.whatif.swap import Slack, Windows

SLACK = Slack(late=24, early=8, share=8)
LARGEST = 2
LARGEST_FUSED = 4  # of the operators of two launches
CONSTANT_BYTES = 512


def safe_peak_bytes(prepared: PlacedBaseline, strategy: Strategy, known_bytes: int = 0) -> int:
    """The baseline's own peak, where nothing is asked for; else the bound described above.

    ``known_bytes``: a peak that was predicted in another way; the bound is as far above that.
    """
    if not any(isinstance(action, (Swap, Recompute)) for action in strategy.actions().values()):
        return prepared.baseline.blocks.used_peak_bytes
    launched = schedule(prepared, strategy, SLACK)
    pessimistic, plain = prediction(prepared, launched), predict(prepared, strategy)
    added = (len(launched.program.copies) + 2 * len(plain.moves)) // plain.steps
    most = max(pessimistic.used_peak_bytes, plain.used_peak_bytes, known_bytes)
    reached = _reached(prepared.baseline, prepared.gradient_only, launched.windows)
    return most + order_bytes(prepared, reached) + added * CONSTANT_BYTES


def order_bytes(prepared: PlacedBaseline, more: Sequence[int] = ()) -> int:
    """What another order of kernels may hold in addition. ``more``: kernels outside of layers that change places."""
    baseline = prepared.baseline
    has_maker = baseline.maker >= 0
    inside = has_maker & (baseline.kernels.layer[np.maximum(baseline.maker, 0)] >= 0)
    inside |= np.isin(baseline.maker, more)
    is_fused = bool(baseline.joined) or bool(baseline.kernels.is_fused.any())
    return int(np.sort(baseline.blocks.size_bytes[inside])[-LARGEST_FUSED if is_fused else -LARGEST :].sum())


def _reached(baseline: Baseline, alone: Mapping[int, Ints], windows: Windows) -> list[int]:
    """Those kernels ``alone`` (see `gradient_only`) that a copy back may come before."""
    begin = baseline.returnable[windows.face]
    return [
        kernel
        for start, late in alone.items()
        if ((begin == start) & ~windows.unread & (windows.returned <= late.max() * TICKS)).any()
        for kernel in late.tolist()
    ]
