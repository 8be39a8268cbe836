"""VARIANT: one of several configs or runs that are compared, in figures by rank, each with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from swapconf.memory.memory_view import MemoryView
from swapconf.memory.peak import Peak
from swapconf.timing.timeline_view import TimelineView
from swapconf.timing.timing import PipelineSchedule
from swapconf.words.findings import Finding
from swapconf.words.phrases import mark, phrase


class FigureUnit(Enum):
    BYTES = "bytes"
    TIME = "microseconds"
    OPERATIONS = "operations"
    COUNT = "kernels"


class Overall(Enum):
    """How the ranks make one figure."""

    HIGHEST = "highest"
    SUM = "sum"


class ComparedFigure(Enum):
    """What is compared; all but peaks are of one training step. ``exposed``: how long the main stream of a rank stands
    still for what the rank itself copies or exchanges; ``bubble``: for ranks that are not there yet."""

    USED_PEAK = ("used_peak_bytes", mark("used peak"), FigureUnit.BYTES, Overall.HIGHEST)
    WITH_FRAGMENTS = ("with_fragments_peak_bytes", mark("with fragments"), FigureUnit.BYTES, Overall.HIGHEST)
    DEVICE = ("device_most_bytes", mark("whole card at most"), FigureUnit.BYTES, Overall.HIGHEST)
    HOST = ("host_peak_bytes", mark("host memory"), FigureUnit.BYTES, Overall.HIGHEST)
    MOVED = ("moved_bytes", mark("moved to the host"), FigureUnit.BYTES, Overall.SUM)
    STEP = ("step_us", mark("step time"), FigureUnit.TIME, Overall.HIGHEST)
    EXPOSED_COPIES = ("exposed_copies_us", mark("exposed copies"), FigureUnit.TIME, Overall.HIGHEST)
    EXPOSED_COLLECTIVES = ("exposed_collectives_us", mark("exposed communication"), FigureUnit.TIME, Overall.HIGHEST)
    BUBBLE = ("bubble_us", mark("bubbles"), FigureUnit.TIME, Overall.HIGHEST)
    RECOMPUTED_KERNELS = ("recomputed_kernels", mark("kernels run again"), FigureUnit.COUNT, Overall.SUM)
    RECOMPUTED_OPERATIONS = ("recomputed_operations", mark("added operations"), FigureUnit.OPERATIONS, Overall.SUM)

    def __init__(self, key: str, title: str, unit: FigureUnit, overall: Overall) -> None:
        self.key, self.title, self.unit, self.overall = key, phrase(title), unit, overall


@dataclass(frozen=True, kw_only=True)
class RankFigures:
    """``values``: what is known of one rank. ``peak``: what holds its peak, None where that is not known."""

    rank: int
    stage: int
    values: Mapping[ComparedFigure, float]
    peak: Peak | None = None


@dataclass(frozen=True, kw_only=True)
class PipelineFigures:
    """How the stages of a pipeline share a step.

    Attributes:
        formula_us: `PipelineSchedule.step_us` of these stages, their messages taking no time.
        imbalance: By how much the busiest stage is busier than the mean.
        bubble_share: Of the step, 0 to 1, in the mean of the stages.
    """

    schedule: PipelineSchedule
    formula_us: float
    imbalance: float
    bubble_share: float


@dataclass(frozen=True, kw_only=True)
class Variant:
    """``origins``: where the figures come from, by what they speak of: ``memory``, ``time``. ``unknown``: why a figure
    is missing, in words. ``notes``: what else a reader should know. ``troubles``: of ranks that did not complete or do
    not fit. ``failure``: why there is nothing to compare. ``views``, ``timeline``: its pictures, if there are any."""

    title: str
    origins: Mapping[str, str] = field(default_factory=dict)
    ranks: tuple[RankFigures, ...] = ()
    unknown: Mapping[ComparedFigure, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    failure: str = ""
    pipeline: PipelineFigures | None = None
    views: tuple[MemoryView, ...] = ()
    timeline: TimelineView | None = None

    def overall(self, figure: ComparedFigure) -> float | None:
        """Of all ranks together; None where it is not known of one of them."""
        known = [rank.values[figure] for rank in self.ranks if figure in rank.values]
        if not known or len(known) < len(self.ranks):
            return None
        return max(known) if figure.overall is Overall.HIGHEST else sum(known)

    @property
    def highest(self) -> RankFigures | None:
        """The rank with the highest used peak, of those of which it is known what holds it."""
        known = [rank for rank in self.ranks if rank.peak is not None]
        return max(known, key=lambda rank: (rank.values.get(ComparedFigure.USED_PEAK, 0), -rank.rank), default=None)

    def of_rank(self, rank: int, figure: ComparedFigure) -> float | None:
        return next((found.values.get(figure) for found in self.ranks if found.rank == rank), None)
