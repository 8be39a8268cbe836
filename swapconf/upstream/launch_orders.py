"""ORDERS OF LAUNCHES by release: whose graph a dry run keeps, and how near the truth predictions were.

MindSpore decides on its last graph in which order kernels are launched. Where that graph is kept, its rules order the
graph of any strategy; else the order of the run without a strategy stands for that. What was measured is told for each
release and ``jit_level``; of others nothing is known, and a prediction says so.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from swapconf.upstream.primitives import FUSED_LEVEL
from swapconf.upstream.versions import release
from swapconf.words.phrases import phrase

UNFUSED_LEVEL = "O0"  # of jit_level, where each kernel is one primitive
_GRAPH_KEPT = ("2.9.0",)  # MindSpore whose printed graphs were read (trace/launch_graph_text.py)


_SURE, _UNSURE = 0.01, 0.25


class Order(Enum):
    """In which order kernels are taken to be launched under a strategy. The values are those of JSON."""

    MINDSPORE = "mindspore"  # by MindSpore's rules, on its graph
    RUN = "run"  # that of the run without a strategy


class Measured(NamedTuple):
    """``said``: how near predictions were to true runs, or where that is told."""

    order: Order
    mindspore: str
    level: str
    said: str


MEASURED = (
    Measured(Order.MINDSPORE, "2.9.0", UNFUSED_LEVEL, "docs/evidence/agreement.md"),
    Measured(
        Order.RUN,
        "2.9.0",
        UNFUSED_LEVEL,
        phrase("of the peaks of 269 runs half are within 0.2 %, nine of ten within 3.2 %, the worst is 14.1 % off"),
    ),
    Measured(Order.MINDSPORE, "2.9.0", FUSED_LEVEL, "docs/evidence/what-if-fused.md"),
    Measured(Order.RUN, "2.9.0", FUSED_LEVEL, "docs/evidence/what-if-fused.md"),
    Measured(
        Order.RUN,
        "2.7.2",
        UNFUSED_LEVEL,
        phrase("one seed of random strategies: peaks within 0.84 %, inside of layers one 13.8 % off"),
    ),
)


def keeps_graph(mindspore: str) -> bool:
    """Whether a dry run with this release keeps its last graph."""
    return _same_minor(mindspore, _GRAPH_KEPT)


def measured(order: Order, mindspore: str, level: str) -> Measured | None:
    """What is known of predictions for a release and a level; None where nothing was measured."""
    known = (item for item in MEASURED if item.order is order and item.level == level)
    return next((item for item in known if _same_minor(mindspore, (item.mindspore,))), None)


def doubt(order: Order, mindspore: str, level: str) -> float:
    """How much more a strategy may save than is predicted, as a share of that: little where MindSpore's own order was
    found to be exact, which with fused kernels it is not yet. A choice, on the safe side of what was measured."""
    is_exact = order is Order.MINDSPORE and level == UNFUSED_LEVEL
    return _SURE if is_exact and measured(order, mindspore, level) is not None else _UNSURE


def _same_minor(version: str, others: tuple[str, ...]) -> bool:
    return (release(version) or ())[:2] in {(release(other) or ())[:2] for other in others}
