"""TWO LAYOUTS that may be equally fast -> TEXT: which measurement would tell them apart."""

from __future__ import annotations

from swapconf.layout.ranked import Row
from swapconf.timing.costing import COPIES, EXCHANGES
from swapconf.timing.families import FAMILIES
from swapconf.timing.parts import GRADIENTS, OVERLAP, doubts_us
from swapconf.words.phrases import mark, phrase

_DECIDING = {
    COPIES: mark(
        "what would decide: how fast copies between card and host are; profile a run with swap (`--measured DIR`)"
    ),
    EXCHANGES: mark(
        "what would decide: how long collectives take; profile a run of either layout on its cards (`--measured DIR`)"
    ),
    GRADIENTS: mark(
        "what would decide: how far adding up gradients runs beside other work; profile a step of the layout with more "
        "data parallelism, and see what it waits for them (`swapconf timeline --measured DIR`)"
    ),
    OVERLAP: mark(
        "what would decide: how much of what is exchanged really runs beside computation; profile a step of the layout "
        "with more of it, and see what it waits for (`swapconf timeline --measured DIR`)"
    ),
}
_OTHER_KERNELS = mark(
    "what would decide: how long the kernels take that a profile has not seen; profile a run of either layout "
    "(`--measured DIR`)"
)


def what_decides(best: Row, other: Row) -> str:
    """The measurement that tells most of what is not known of the difference between two."""
    doubts = doubts_us(best.parts, other.parts)
    name = max(doubts, key=lambda name: doubts[name])
    if name in FAMILIES:
        return phrase(
            "what would decide: how long kernels of the family `{family}` take; profile a run of either layout, and "
            "`swapconf calibrate` it",
            family=name,
        )
    return phrase(_DECIDING.get(name, _OTHER_KERNELS))
