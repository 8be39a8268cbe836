"""What a strategy needs: the memory of every rank, and the time of one step of all."""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.timing.costing import Workload
from swapconf.timing.timing import Floats, Program
from swapconf.trace.columns import Ints
from swapconf.upstream.launch_orders import Order
from swapconf.whatif.prediction import Prediction


@dataclass(frozen=True, kw_only=True, slots=True)
class RankMemory:
    """One rank under one strategy.

    Attributes:
        moved_bytes, recomputed: Of one step: copied to the host, and how many kernels run again.
        crashes: MindSpore is known to die while it compiles: of a prefetch, of what is recomputed together, or as nodes
            would wait for each other in a circle.
    """

    used_peak_bytes: int
    host_peak_bytes: int
    moved_bytes: int
    recomputed: int
    crashes: bool

    @classmethod
    def of(cls, prediction: Prediction) -> RankMemory:
        return cls(
            used_peak_bytes=prediction.used_peak_bytes,
            host_peak_bytes=prediction.host_peak_bytes,
            moved_bytes=prediction.moved_bytes,
            recomputed=prediction.recomputed,
            crashes=prediction.crashes,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """``ranks``: in the order of the evaluator. ``step_us``: all micro-batches of the step, on one machine.
    ``is_refused``: MindSpore is known not to compile it."""

    ranks: tuple[RankMemory, ...]
    step_us: float
    is_refused: bool = False

    @property
    def crashes(self) -> bool:
        return self.is_refused or any(rank.crashes for rank in self.ranks)

    @property
    def moved_bytes(self) -> int:
        return sum(rank.moved_bytes for rank in self.ranks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """By rank, how long the main stream stands still in one step: ``stall_us`` for what its own rank does, copies and
    communication, which grows with micro-batches, and ``bubble_us`` for other ranks, which under 1F1B does not."""

    stall_us: tuple[float, ...]
    bubble_us: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class RankStep:
    """The step of one rank without a strategy. ``duration_us``: float64 [n], of each kernel. ``micro_batches``: that
    the trace has, 0 where it has all."""

    program: Program
    load: Workload
    duration_us: Floats
    micro_batches: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordered:
    """Of one rank, in the order of its own launches. ``mapped_bytes``: see `with_fragments_bytes`. ``order``: that of
    the run where the graph does not tell its own."""

    memory: RankMemory
    mapped_bytes: int
    order: Order = Order.MINDSPORE


@dataclass(frozen=True, kw_only=True)
class Launched:
    """``row``: by kernel its row in the table of costs."""

    program: Program
    row: Ints
