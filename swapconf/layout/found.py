"""FOUND: what a search of layouts knows: those that were tried, planned in full, and why others are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from swapconf.layout.facts import Facts
from swapconf.layout.layout import Deal, Layout
from swapconf.words.phrases import mark


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A layout that was run.

    Attributes:
        ranks: How many were dry-run for it now, or read from the cache.
        shifts: Other layers by stage that may be faster, the most promising first; only where they are asked for.
        composed: How many of its traces are composed from runs of other layouts.
        floor_us: Its step without a strategy. A strategy gets below it only where another order of launches hides more
            of what is exchanged (of tiny models by 0.7 % at most); what is so near is planned, too.
        coarse_us: Its step with the best coarse plan; infinite where none fits.
        over_bytes: By how much that is over the budget, on all stages together.
    """

    layout: Layout
    facts: Facts
    ranks: int
    floor_us: float
    coarse_us: float
    composed: int = 0
    over_bytes: float = 0.0
    shifts: tuple[Deal, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Final:
    """A layout that was planned in full. ``deal``: other layers by stage that promise more, None for none."""

    layout: Layout
    cost_us: float
    deal: Deal | None = None
    is_interrupted: bool = False


class Fate(Enum):
    """Why a layout is not among those that were planned; the text goes on "...: N layouts"."""

    CHECK = mark("`check` finds an error")
    REFUSED = mark("MindSpore or mindformers refuses them, or a run failed")
    TOO_LARGE = mark("weights, gradients and optimizer state alone take more than the budget")
    COMPUTES = mark("their compute alone takes longer than the best step")
    FLOOR = mark("even without swap and recompute their step is longer than the best")
    OVER = mark("their leanest coarse plan is over the budget by more than a quarter of it")
    COARSE = mark("their best coarse plan is slower, and they were not planned in full")
    NOT_RUN = mark("not run, as the number of dry runs was reached or the search ended")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """``told``: what is known of it: bytes, microseconds, or words."""

    layout: Layout
    fate: Fate
    told: float | str = ""


@dataclass(frozen=True, kw_only=True)
class Found:
    """``finals``: planned in full, the fastest first; what does not fit is at the end. ``ran``: ranks."""

    finals: tuple[Final, ...] = ()
    lost: tuple[Lost, ...] = ()
    tried: tuple[Tried, ...] = ()
    ran: int = 0
    is_interrupted: bool = False

    def having(self, final: Final) -> Found:
        """The same with another plan of one layout."""
        others = [item for item in self.finals if item.layout != final.layout]
        return replace(self, finals=ordered([*others, final]))


def ordered(finals: Iterable[Final]) -> tuple[Final, ...]:
    """The fastest first; what does not fit is at the end."""
    return tuple(sorted(finals, key=lambda item: (item.cost_us, item.layout)))
