"""ORDERS OF LAUNCHES by release: whose graph a dry run keeps, and how near the truth predictions were.

MindSpore decides on its last graph in which order kernels are launched. Where that graph is kept, its rules order the
graph of any strategy; else the order of the run without a strategy stands for that. What was measured is told for each
release and ``jit_level``; of others nothing is known, and a prediction says so.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from swapconf.upstream.primitives import FUSED_LEVEL
from swapconf.upstream.versions import reached, release, same
from swapconf.words.phrases import phrase

UNFUSED_LEVEL = "O0"  # of jit_level, where each kernel is one primitive
# The first and the last MindSpore whose printed graphs were read: trace/launch_graph_text.py and fused_kernels_text.py
# read those of 2.7.2, 2.9.0 and 2.10.0, in one form, at O0 and O1.
GRAPH_KEPT = "2.7.1", "2.10.0"
_SURE, _UNSURE = 0.01, 0.25


class Order(Enum):
    """In which order kernels are taken to be launched under a strategy. The values are those of JSON."""

    MINDSPORE = "mindspore"  # by MindSpore's rules, on its graph
    RUN = "run"  # that of the run without a strategy


class Measured(NamedTuple):
    """``said``: how near predictions were to true runs, or where that is told. ``is_exact``: of many
    random strategies none was more than 1 % off."""

    order: Order
    mindspore: str
    level: str
    said: str
    is_exact: bool = False


MEASURED = (
    Measured(Order.MINDSPORE, "2.9.0", UNFUSED_LEVEL, "docs/evidence/agreement.md", is_exact=True),
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
    *(
        Measured(Order.MINDSPORE, mindspore, level, "docs/evidence/what-if-releases.md")
        for mindspore, level in (
            ("2.7.1", UNFUSED_LEVEL),
            ("2.7.2", UNFUSED_LEVEL),
            ("2.7.2", FUSED_LEVEL),
            ("2.10.0", UNFUSED_LEVEL),
            ("2.10.0", FUSED_LEVEL),
        )
    ),
)


def keeps_graph(mindspore: str) -> bool:
    """Whether a dry run with this release keeps its last graph, which is so between those that were read, too."""
    first, last = GRAPH_KEPT
    return release(mindspore) is not None and reached(mindspore, first) and _minor(mindspore) <= _minor(last)


def measured(order: Order, mindspore: str, level: str) -> Measured | None:
    """What is known of predictions for a release and a level; of one that only fixes faults of another (2.9.1) what is
    known of that. None where nothing was measured."""
    known = [item for item in MEASURED if item.order is order and item.level == level]
    near = [item for item in known if _minor(item.mindspore) == _minor(mindspore)]
    return next((item for item in near if same(item.mindspore, mindspore)), near[-1] if near else None)


def doubt(order: Order, mindspore: str, level: str) -> float:
    """How much more a strategy may save than is predicted, as a share of that: little where predictions were found to
    be exact. A choice, on the safe side of what was measured."""
    known = measured(order, mindspore, level)
    return _SURE if known is not None and known.is_exact else _UNSURE


def _minor(version: str) -> tuple[int, ...]:
    """Two numbers; none of what is no version."""
    return ((release(version) or ()) + (0, 0))[:2] if release(version) else ()
