"""ORDERS -> how many children run at once: bounded by the cores of this machine and by its free memory.

A child compiles the graph of the whole job, all stages of it, so its memory grows with all layers; simulated weights
take none. Measured (resident, MindSpore 2.9.0): 0.9 GB for 4 layers of a small DeepSeek-V3; with published widths 2.5
GB for 16 layers of DeepSeek-V3 671B, 3.6 GB for 24, and 1.8 GB for 16 of Llama 3.1 70B.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from swapconf.dryrun.fold.orders import foldable
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.words.units import GIB, MIB

BASE_BYTES = GIB
LAYER_BYTES = 128 * MIB
UNKNOWN_BYTES = 3 * GIB
_SHORT, _SHORT_BYTES = 12, 4 * GIB  # a part of all, at most so much
_LAYERS_OF_A_STAGE = 9  # of a folded model, at most


def child_bytes(num_layers: int | None) -> int:
    """What one child takes of this machine's memory. ``num_layers``: of all stages; None where it is not known."""
    return UNKNOWN_BYTES if num_layers is None else BASE_BYTES + num_layers * LAYER_BYTES


def layers_run(order: RankOrder) -> int | None:
    """How many layers the largest child of an order has: of a folded model a few of each stage."""
    num_layers = order.study(order.document).config.model.num_layers
    if num_layers is None or not foldable(order):
        return num_layers
    return min(num_layers, _LAYERS_OF_A_STAGE * cluster_of(order.document).num_stages)


def jobs_at_once(orders: Iterable[RankOrder], asked: int | None = None) -> int:
    """How many children this machine takes; what is asked for counts more."""
    if asked is not None:
        return max(1, asked)
    # ranks of one document have as many layers
    distinct = {order.document: order for order in orders}
    most = max((child_bytes(layers_run(order)) for order in distinct.values()), default=UNKNOWN_BYTES)
    return max(1, min(len(os.sched_getaffinity(0)), free_bytes() // most))


def is_short() -> bool:
    """Whether so little is left that the next allocations take away what the system keeps of files that run."""
    import psutil

    memory = psutil.virtual_memory()
    return bool(memory.available < min(memory.total // _SHORT, _SHORT_BYTES))


def free_bytes() -> int:
    """What is free, and what the system gives back at once, such as files that it keeps in memory."""
    import psutil

    return int(psutil.virtual_memory().available)
