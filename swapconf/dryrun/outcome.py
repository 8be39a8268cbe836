"""OUTCOME: what became of one rank, in words that name the cause and the next thing to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from swapconf.dryrun.by_step import StepMemory
from swapconf.dryrun.pynative.expert_load import told as load_told
from swapconf.memory import peak as peaks
from swapconf.memory.whole_device import Beside, WholeDevice
from swapconf.timing.host_demand import HostDemand
from swapconf.words.findings import Finding
from swapconf.words.phrases import joined, mark, phrase

ESTIMATED, RECORDED = "estimated", "recorded"  # how workspace is known


class RankOutcome(Enum):
    COMPLETED = mark("completed")
    COMPILED = mark("compiled")
    DOES_NOT_FIT = mark("does not fit the device memory")
    STOPPED = mark("stopped with an error")
    NOT_INSTALLED = mark("lacks a Python module")
    CRASHED = mark("crashed inside MindSpore")
    KILLED = mark("was killed, probably for lack of host memory")
    TIMED_OUT = mark("reached its time limit")
    NO_SPACE = mark("ran out of disk space")
    BAD_TRACE = mark("left a trace that cannot be read")
    NOT_STARTED = mark("could not be started")

    @property
    def good(self) -> bool:
        return self in (RankOutcome.COMPLETED, RankOutcome.COMPILED)

    def remedy(self, log: str = "", known: str = "") -> str:
        """What to do where a rank ended like this. ``log``: the path of its log, "" where it is not kept. ``known``:
        what to do where the cause is known better."""
        where = phrase("the whole log is {path}", path=log) if log else phrase("`--keep DIR` keeps the whole log")
        return phrase("{remedy}; {log}", remedy=known or _REMEDIES.get(self, phrase("correct the config")), log=where)


_REMEDIES = {
    RankOutcome.NOT_INSTALLED: phrase(
        "this is about the environment, not about the YAML: install the module, or "
        "versions of MindSpore and mindformers that belong together "
        "(docs/evidence/generations.md)"
    ),
    RankOutcome.CRASHED: phrase("try a smaller backward_prefetch"),
    RankOutcome.KILLED: phrase("free memory, or run fewer ranks at once with `--jobs`"),
    RankOutcome.TIMED_OUT: phrase(
        "give it more time with `--timeout SECONDS`, or run fewer ranks at once with `--jobs`"
    ),
    RankOutcome.NO_SPACE: phrase("free disk space, or choose another disk with `--keep DIR` or the variable TMPDIR"),
    RankOutcome.BAD_TRACE: phrase("run it again"),
}


@dataclass(frozen=True, slots=True)
class LayerMoves:
    """What one training step copies to the host from one layer; None: not known."""

    layer: str
    tensors: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class LayerRecomputes:
    """How many kernels of one layer one training step recomputes, views not counted; what the model recomputes by
    itself is among them. ``layer``: "" for kernels that MindSpore names after none, such as those of a router and of
    the exchange of tokens (2.9.0)."""

    layer: str
    kernels: int


@dataclass(frozen=True, kw_only=True)
class RankReport:
    """One rank of one config.

    Sizes are None where the run did not get that far, or its level does not tell. Peaks at level 1 are without operator
    workspace; from level 2 on it is in them, and ``workspace`` says how it is known: "estimated" or "recorded", ""
    where it is not in them.

    Attributes:
        least_used_peak_bytes: Of a PyNative run, the least that its threads can have in use at the peak; None where the
            trace does not tell. ``ahead_used_peak_bytes``: with Python some operators ahead of the device, as on most
            cards; None, too, where threads raced in the run itself.
        workspace_bytes, workspace_kernel: The largest, and who needs it. ``workspace_for``: the card and CANN that
            estimates are for. ``workspace_unknown``: of which kernels it is not known, in words; "" for none.
        outside_bytes: What HCCL takes of the device besides MindSpore's pool.
        beside: What the card holds besides the pool; None without a trace.
        step_us: Of one step on ``hardware`` (level 3). ``host_demand``: what its copies ask of the host, None without.
        limit_bytes: The device memory that the rank may use.
        recomputed: None where the trace does not tell.
        by_step: What each step held behind it; () where no more of them were asked for than usual. Of a folded run
            those of its biggest part.
        detail: The last relevant lines where it went wrong.
        folded: The numbers of equal layers that were run where the rest is extrapolated, None for the whole model;
            ``fold_note`` says how it was done, ``grown`` from what the trace of the whole model was made, "" where none
            was.
        peak: What holds the peak, None where there is no trace.
        hyper_parallel: Which one a PyNative run had, "" in graph mode. ``as_parallel``: it recomputed and swapped as on
            several cards; ``launch_blocking``: each operator ended before Python went on; ``shards``: over how many
            ranks its parameters were shared out; ``layout``: the other degrees above one, as the YAML names them;
            ``expert_load``: the name of how tokens were spread over the experts, "" of a model without; over
            ``expert_ranks``, of which this one got so many ``expert_times`` of its even share.
    """

    file: str
    rank: int
    stage: int
    level: int
    outcome: RankOutcome
    detail: str = ""
    used_peak_bytes: int | None = None
    least_used_peak_bytes: int | None = None
    ahead_used_peak_bytes: int | None = None
    with_fragments_peak_bytes: int | None = None
    reserved_bytes: int | None = None
    device_bytes: int | None = None
    usable_bytes: int | None = None
    base_address: int | None = None
    limit_bytes: int | None = None
    host_bytes: int | None = None
    moved: tuple[LayerMoves, ...] = ()
    recomputed: tuple[LayerRecomputes, ...] | None = None
    by_step: tuple[StepMemory, ...] = ()
    strategy_lines: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    folded: tuple[int, ...] | None = None
    fold_note: str = ""
    grown: str = ""
    workspace: str = ""
    workspace_bytes: int | None = None
    workspace_kernel: str = ""
    workspace_for: str = ""
    workspace_unknown: str = ""
    outside_bytes: int | None = None
    beside: Beside | None = None
    step_us: float | None = None
    hardware: str = ""
    host_demand: HostDemand | None = None
    peak: peaks.Peak | None = None
    cached: bool = False
    hyper_parallel: str = ""
    as_parallel: bool = False
    launch_blocking: bool = False
    shards: int = 1
    layout: str = ""
    expert_load: str = ""
    expert_ranks: int = 1
    expert_times: float = 1.0

    @property
    def is_shared(self) -> bool:
        """Whether it was one of several ranks of a PyNative run."""
        return self.shards > 1 or bool(self.layout)

    @property
    def is_raced(self) -> bool:
        """Whether Python did not wait for its operators, so that two runs may differ."""
        return self.is_shared and not self.launch_blocking

    @property
    def headroom_bytes(self) -> int | None:
        peak = self.with_fragments_peak_bytes
        return None if peak is None or self.limit_bytes is None else self.limit_bytes - peak

    @property
    def device(self) -> WholeDevice | None:
        """All that the card holds; None where its pool is not known."""
        peak = self.with_fragments_peak_bytes
        return (
            None if peak is None or self.beside is None else self.beside.whole(peak, origin(self), self.used_peak_bytes)
        )

    def pool_budget_bytes(self, budget_bytes: int) -> int:
        """What the pool may take of a budget: no more than the card has room for where all else takes the most."""
        return budget_bytes if self.beside is None else min(budget_bytes, self.beside.room_bytes)

    def needs_more_than(self, budget_bytes: int) -> bool:
        return (self.with_fragments_peak_bytes or 0) > self.pool_budget_bytes(budget_bytes)


@dataclass(frozen=True, slots=True)
class Fault:
    """An outcome that is not good, as far as the process and its log tell."""

    outcome: RankOutcome
    detail: str = ""
    paths: tuple[str, ...] = ()


def origin(report: RankReport) -> str:
    """Where the figures come from."""
    level = (
        phrase("dry run level 1 (operator workspace excluded)")
        if report.level == 1
        else phrase("dry run level {level}", level=report.level)
    )
    workspace = phrase("workspace estimated") if report.workspace == ESTIMATED else phrase("workspace recorded")
    times = phrase("times for {hardware}", hardware=report.hardware)
    native = phrase("PyNative with hyper_parallel {which}", which=report.hyper_parallel)
    if report.shards > 1:
        native = phrase(
            "PyNative with hyper_parallel {which}, which shares out the parameters over {ranks} ranks (FSDP)",
            which=report.hyper_parallel,
            ranks=report.shards,
        )
    return joined(
        ", ",
        [
            level,
            *[native] * bool(report.hyper_parallel),
            *[report.layout] * bool(report.layout),
            *[load_told(report.expert_load, report.expert_ranks, report.expert_times)] * bool(report.expert_load),
            *[phrase("recompute and swap as on several cards")] * (report.as_parallel and not report.is_shared),
            *[phrase("each operator ends before Python goes on, as on the fullest card")]
            * (report.launch_blocking and report.is_shared),
            *[workspace] * bool(report.workspace),
            *[report.workspace_unknown] * bool(report.workspace_unknown),
            *[times] * bool(report.hardware),
        ],
    )
