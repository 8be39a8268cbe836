"""LEVEL 1 -> LEVELS 2 AND 3: workspace and times, which MindSpore asks a card for, estimated where there is none.

What is estimated is kept apart from what MindSpore wrote: ``rank_N/level_2`` has the same files with workspace in them,
``rank_N/level_3`` a profile of the simulated step.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import datetime, timezone

from swapconf.dryrun.child import Ran, kept, record
from swapconf.dryrun.effect.effect import Effect
from swapconf.dryrun.outcome import ESTIMATED, RECORDED, RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.dryrun.verdict import Peaks, verdict
from swapconf.memory import holders
from swapconf.memory.beside_of_trace import communication_part, unknown_of
from swapconf.memory.cann.card import Card
from swapconf.memory.with_workspace import Grown, grow
from swapconf.profile import profiler_writer
from swapconf.profile.simulated import step_profile
from swapconf.profile.step_profile import StepProfile
from swapconf.study.beside import beside
from swapconf.study.card import card_of, words
from swapconf.study.study import Study
from swapconf.timing import costing, hardware, program, timeline
from swapconf.timing.copied_step import CopiedStep, demand, of_host
from swapconf.timing.cost import Machine
from swapconf.timing.host_demand import HostDemand
from swapconf.trace import fused_kernels, launch_graph, run_record, trace_folder, trace_writer
from swapconf.trace.trace import Trace
from swapconf.trace.workspace import Basis, Workspace
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

LEVEL_2, LEVEL_3 = "level_2", "level_3"


def raised(order: RankOrder, study: Study, ran: Ran, report: RankReport, effect: Effect) -> RankReport:
    """The report of a rank at the level that was asked for. ``report``: at the level at which MindSpore ran."""
    assert ran.trace is not None
    card = card_of(order.machine, study.config)
    try:
        grown = grow(
            ran.trace,
            run_record.pool_of(
                order.document.root.plain(), {"reserved_bytes": ran.reserved_bytes, "usable_bytes": report.usable_bytes}
            ),
            card,
        )
    except ValueError as error:
        origin = study.config.origin("context.memory_optimize_level", "context")
        found = Finding(
            origin=origin,
            rule="level-not-reached",
            severity=Severity.WARNING,
            message=phrase(
                "rank {rank}: level {level} cannot be estimated: {error}",
                rank=report.rank,
                level=order.level,
                error=error,
            ),
            hint=phrase("run it with memory_optimize_level O0; the figures are those of level 1"),
        )
        return replace(report, findings=(*report.findings, found))
    peaks = Peaks(
        used_bytes=grown.trace.used_peak_bytes,
        reserved_bytes=grown.reserved_bytes,
        with_fragments_bytes=grown.trace.with_fragments_peak_bytes,
    )
    blank, profile = at_level(order.level, ran.report, grown.workspace, ran.trace, card), None
    blank = replace(
        blank, peak=holders.peak(grown.trace), beside=beside(grown.trace, study.config, order.machine, os.environ)
    )
    if order.level > 2:
        machine = order.machine or Machine(hardware=hardware.load(hardware.GENERIC))
        profile = simulated(grown, machine)
        blank = replace(
            blank,
            step_us=profile.step_ns / 1000,
            hardware=machine.hardware.name,
            host_demand=_host_demand(profile, effect, machine, cluster_of(order.document).num_devices),
        )
    higher = verdict(blank, study, ran.log, peaks, effect)
    try:
        keep_trace(order, ran, grown, higher)
        if profile is not None and order.keep is not None:
            profiler_writer.write(profile, kept(order.keep, order, LEVEL_3), datetime.now(timezone.utc))
    except OSError as error:
        outcome = RankOutcome.NO_SPACE if error.errno == errno.ENOSPC else RankOutcome.BAD_TRACE
        told = Finding(
            origin=Origin(file=order.document.file),
            rule="framework-error",
            severity=Severity.ERROR,
            message=phrase("rank {rank}: the estimates cannot be written: {error}", rank=report.rank, error=error),
            hint=outcome.remedy(),
        )
        return replace(higher, outcome=outcome, detail=str(error), findings=(*higher.findings, told))
    return higher


def simulated(grown: Grown, machine: Machine) -> StepProfile:
    """One step, as a profiler would have seen it."""
    trace = grown.trace
    costs = costing.costs(costing.workload(trace), machine.hardware, machine.host, machine.measured)
    line = timeline.replay(program.program(trace), costs.duration_us)
    return step_profile(trace, line, costs, machine.hardware.name, grown.reserved_bytes)


def _host_demand(profile: StepProfile, effect: Effect, machine: Machine, num_devices: int) -> HostDemand | None:
    """What the copies of the step ask of a host whose cards all do the same; None where it has none."""
    moved_bytes = effect.total.size_bytes
    if not moved_bytes:
        return None
    step = CopiedStep(
        kind=profile.program.kind,
        start_us=profile.start_ns / 1000,
        end_us=profile.end_ns / 1000,
        moved_bytes=moved_bytes,
        pinned_bytes=effect.host_peak_bytes,
    )
    return demand(step, machine, of_host(machine, num_devices))


def at_level(level: int, report: RankReport, workspace: Workspace, trace: Trace, card: Card) -> RankReport:
    """The report at a level with workspace: how it is known, which is the largest, and what HCCL takes besides.
    ``trace``: as MindSpore left it; ``card``: what estimates are for."""
    report = replace(
        report,
        level=level,
        workspace=ESTIMATED,
        workspace_bytes=0,
        workspace_unknown=unknown_of(workspace),
        outside_bytes=communication_part(trace, os.environ).most_bytes,
    )
    if not len(workspace):
        return report
    largest = workspace.largest
    is_recorded = workspace.rules[workspace.rule[largest]].basis is Basis.TRACE
    names = {task.event: task.primitive for task in trace.tasks}
    return replace(
        report,
        workspace=RECORDED if is_recorded else ESTIMATED,
        workspace_bytes=int(workspace.size_bytes[largest]),
        workspace_kernel=names.get(int(workspace.event[largest]), ""),
        workspace_for="" if is_recorded else words(card),
    )


def keep_trace(order: RankOrder, ran: Ran, grown: Grown, report: RankReport, part: str = "") -> None:
    """Write the trace with workspace in it, if it is estimated and files are kept; ``part`` as in `run`. Raises
    OSError."""
    if order.keep is not None and report.workspace == ESTIMATED:
        source, folder = kept(order.keep, order, part), f"{part}/{LEVEL_2}" if part else LEVEL_2
        place = kept(order.keep, order, folder)
        trace_writer.write(grown.trace, grown.workspace, trace_folder.order_file(source), place)
        launch_graph.copy(source, place)
        fused_kernels.copy(source, place)
        record(order, ran, report, folder)
