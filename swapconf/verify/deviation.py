"""DEVIATION: what a log can say that the config does not, and the manual pages of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swapconf.words.findings import Origin
from swapconf.words.phrases import phrase, plural
from swapconf.words.units import runs

MISSING, DIFFERS, UNDECIDED, VOID = "log-line-missing", "log-line-differs", "log-line-undecided", "log-swap-void"
RECOMPUTED, NO_LOG, NO_LINE, UNREAD = "log-swap-recomputed", "log-missing", "log-without-strategy", "log-unread"
ABOVE, NO_PEAK, ENDED, UNKNOWN = "peak-above-predicted", "peak-not-logged", "log-of-no-step", "log-not-compared"
SEVERAL, DIED, STRANGE = "log-of-several-runs", "run-died", "peak-impossible"


OTHER_RUN = phrase("run the YAML that is verified here, or verify the one that was run")


@dataclass(frozen=True)
class Deviation:
    """What is wrong, without the ranks."""

    rule: str
    origin: Origin
    message: str
    hint: str


def counted(noun: str, numbers: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-7, 12``; of layers, too."""
    distinct = set(numbers)
    size, told = len(distinct), ", ".join(runs(distinct))
    return (
        plural(size, "rank {numbers}", "ranks {numbers}", numbers=told)
        if noun == "rank"
        else plural(size, "layer {numbers}", "layers {numbers}", numbers=told)
    )
