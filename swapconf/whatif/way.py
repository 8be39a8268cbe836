"""PREDICTION + TRACE -> WAY: in which order of launches it was made, and what is known of such predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapconf.study.study import Study
from swapconf.trace import run_record
from swapconf.trace.trace import Trace
from swapconf.upstream.launch_orders import UNFUSED_LEVEL, Order, keeps_graph, measured
from swapconf.upstream.primitives import FUSED_LEVEL
from swapconf.whatif.evaluation import Ordered
from swapconf.words.phrases import joined, phrase, show


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What of a trace decides the way.

    Attributes:
        mindspore: That left the trace, as it is recorded; else that of the YAML.
        level: ``jit_level`` of the run: with fused kernels or without.
        has_graph: Its launch graph was kept, and, with fused kernels, what is inside.
        is_grown: Of a larger model than any run had.
        making: The command that makes the trace.
    """

    mindspore: str
    level: str
    has_graph: bool
    is_grown: bool
    making: str

    @classmethod
    def of(cls, trace: Trace, study: Study, making: str) -> Source:
        folder = Path(trace.folder)
        environment = run_record.read(folder).get("environment")
        recorded = environment.get("mindspore") if isinstance(environment, dict) else None
        return cls(
            mindspore=recorded if isinstance(recorded, str) else study.versions.mindspore,
            level=FUSED_LEVEL if trace.is_fused else UNFUSED_LEVEL,
            has_graph=trace.opened.launch_graph is not None if trace.is_fused else bool(trace.launch_graph_file),
            is_grown=bool(run_record.grown(run_record.report(folder))),
            making=making,
        )


@dataclass(frozen=True, slots=True)
class Way:
    """How one prediction was made."""

    order: Order
    source: Source

    @property
    def told(self) -> str:
        """One line."""
        if self.order is Order.MINDSPORE:
            how = phrase("memory in MindSpore's own order of launches, by its rules and the graph of this trace")
        else:
            how = phrase("memory in the order of launches of the run without a strategy, as {why}", why=self._why)
        return joined("; ", [how, self._measured, *self._better])

    @property
    def _measured(self) -> str:
        source = self.source
        entry = measured(self.order, source.mindspore, source.level)
        if entry is None:
            return phrase(
                "for MindSpore {version}, jit_level {level}, nothing was measured; a dry run confirms what you choose",
                version=source.mindspore,
                level=source.level,
            )
        return phrase(
            "measured with MindSpore {version}, jit_level {level}: {said}",
            version=entry.mindspore,
            level=entry.level,
            said=entry.said,
        )

    @property
    def _why(self) -> str:
        source = self.source
        if source.is_grown and not source.has_graph:
            return phrase("no run has the graph of the whole model")
        if source.level == FUSED_LEVEL and not source.has_graph:
            return phrase("kernels are fused")
        if not source.has_graph:
            return phrase("the trace has no graph of MindSpore's")
        return phrase("the graph of the trace does not tell that of the strategy")

    @property
    def _better(self) -> Sequence[str]:
        """What gives a surer answer."""
        source = self.source
        if self.order is Order.MINDSPORE or source.level == FUSED_LEVEL or source.has_graph:
            return ()
        if source.is_grown:
            return [phrase("`swapconf dryrun --no-fold` runs it whole and keeps the graph")]
        if not keeps_graph(source.mindspore):
            return ()
        return [phrase("a trace of this version of swapconf has it: {command}", command=source.making)]

    def as_record(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "order": self.order.value,
            "mindspore": self.source.mindspore,
            "jit_level": self.source.level,
            "is_measured": measured(self.order, self.source.mindspore, self.source.level) is not None,
            "told": show(self.told),
        }


def way_of(ordered: Ordered | None, source: Source) -> Way:
    """``ordered``: what was asked for in MindSpore's own order, None where that was not asked, or is not known."""
    return Way(Order.RUN if ordered is None else ordered.order, source)
