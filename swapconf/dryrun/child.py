"""ORDER -> RAN: one child process for one rank, from its job to its trace and its place in ``--keep DIR``."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from swapconf.config.config import Dialect
from swapconf.config.layout import EXPERTS
from swapconf.dryrun import board, came_to, last_graph, memory_log
from swapconf.dryrun.adapted import adapted, code_folders, digests
from swapconf.dryrun.by_step import STEPS, by_step
from swapconf.dryrun.environment import level_to_run, prepare
from swapconf.dryrun.failed import failed
from swapconf.dryrun.job import WRITTEN, Folder, Job
from swapconf.dryrun.judge import TAIL_BYTES, fault
from swapconf.dryrun.launch import Ending, Finished, launch
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.pynative import expert_load, stacks
from swapconf.dryrun.pynative.batches import batches
from swapconf.dryrun.pynative.columns import columns as pynative_columns
from swapconf.dryrun.rank_order import REGISTER_PATH, RankOrder, cluster_of
from swapconf.dryrun.report_record import as_record
from swapconf.dryrun.stand_in import columns
from swapconf.files import json_object
from swapconf.files.writing import refuse_links, replace_text
from swapconf.memory import holders
from swapconf.study import handed_over
from swapconf.study.study import Study
from swapconf.trace import fused_kernels, launch_graph, marks, run_record, trace_folder
from swapconf.trace.trace import Trace, WorkerLog
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase
from swapconf.words.units import show_bytes

SMALLEST_TRACE_BYTES = 64 << 10
_TRACKED = (
    marks.FILE,
    launch_graph.FILE,
    fused_kernels.FILE,
    trace_folder.BLOCKS,
    trace_folder.GRAPH,
    trace_folder.ORDER,
    trace_folder.TASKS,
)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How one child ended.

    ``report`` tells the outcome, MindSpore's own level and what holds the peak, and no other memory yet.

    Attributes:
        trace: None where it left none.
        environment: What it ran in, for the record.
    """

    report: RankReport
    environment: Mapping[str, Any] = field(default_factory=dict)
    log: WorkerLog = field(default_factory=WorkerLog)
    trace: Trace | None = None
    reserved_bytes: int | None = None


def run(order: RankOrder, study: Study, part: str = "") -> Ran:
    """Dry-run one rank. Every fault is an outcome. ``part``: the folder below the rank's, when it has several runs."""
    cluster, level = cluster_of(order.document), level_to_run(os.environ, order.level)
    blank = RankReport(
        file=order.document.file,
        rank=order.rank,
        stage=cluster.stage_of(order.rank),
        level=level,
        outcome=RankOutcome.NOT_STARTED,
    )
    settings: Any = order.document.root.plain()
    is_pynative = study.config.dialect is Dialect.PYNATIVE
    steps = order.steps if order.is_watched else STEPS
    job = Job(
        settings=adapted(settings, Path.cwd()),
        code=code_folders(order.register_path, Path.cwd()),
        columns=pynative_columns(settings) if is_pynative else columns(settings, legacy=study.config.model.legacy),
        steps=steps,
        is_watched=order.is_watched,
        pynative=is_pynative,
        batches=batches(settings, cluster, study.versions, steps) if is_pynative else None,
        as_parallel=order.as_parallel,
        launch_blocking=order.launch_blocking,
        load=order.load,
        cluster=cluster,
        rank=order.rank,
        level=level,
        plain=order.plain,
        real_data=order.real_data,
        timeout_seconds=order.timeout_seconds,
    )
    try:
        with _place(order, part) as place:
            prepared = prepare(sys.executable, os.environ, level)
            folder = Folder(place)
            place.mkdir(parents=True, exist_ok=True)
            handed_over.write(place / handed_over.FILE, order.document, order.settings)
            variables = {**prepared.variables, handed_over.VARIABLE: str(place / handed_over.FILE)}
            if order.register_path:
                variables[REGISTER_PATH] = order.register_path
            prints = last_graph.prints(
                study, level, prepared.installation.mindspore, is_kept=order.keep is not None, of_any=order.keeps_graph
            )
            told = last_graph.no_space(place, last_graph.needed_bytes(study, blank.stage, prints), prints)
            if not told:
                job = replace(job, prints_graph=prints.graph, prints_fused=prints.fused)
            finished = _launched(job, folder, variables, order, part)
            ran = _ran(blank, order, study, folder, finished)
            report = replace(ran.report, findings=(*ran.report.findings, *told))
            ran = replace(ran, report=report, environment=prepared.summary())
            if order.keep is not None:
                _gather(folder, order)
                record(order, ran, ran.report, part)
            return ran
    except OSError as error:
        outcome = RankOutcome.NO_SPACE if error.errno == errno.ENOSPC else RankOutcome.NOT_STARTED
        return Ran(report=replace(blank, outcome=outcome, detail=str(error)))
    except SwapconfError as error:
        return Ran(report=replace(blank, outcome=RankOutcome.NOT_STARTED, detail=str(error), findings=error.findings))


def _launched(job: Job, folder: Folder, variables: Mapping[str, str], order: RankOrder, part: str) -> Finished:
    """Where memory is short it is started again once those that were started before it have ended."""
    try:
        while True:
            with board.entered(order, part, folder) as seat:
                finished = launch(job, folder, variables, gives_way=seat.gives_way)
            if finished.ending is not Ending.GAVE_WAY:
                break
            seat.wait()
        last_graph.collect(folder, job)
        return finished
    finally:
        last_graph.discard(folder)


def record(order: RankOrder, ran: Ran, report: RankReport, part: str = "", **facts: object) -> None:
    """``run.json`` beside the files that are kept, if they are: what was run, with what, and what came of it; in
    English, as commands read it that may be asked for another language. ``facts``: what else is known."""
    if order.keep is None:
        return
    settings: Any = order.document.root.plain()
    content = {
        "swapconf": version("swapconf"),
        "environment": ran.environment,
        "command": f"swapconf dryrun {order.document.file} --ranks {order.rank} --level {order.level}",
        "settings": settings,
        "register_path": order.register_path,
        "inputs": digests(adapted(settings, Path.cwd()), order.register_path),
        "level": report.level,
        "plain": order.plain,
        "as_parallel": order.as_parallel,
        "launch_blocking": order.launch_blocking,
        "expert_load": expert_load.as_record(order.load),
        "real_data": order.real_data,
        **facts,
        "report": as_record(report, worded=str),
    }
    text = json.dumps(content, indent=2, default=str)
    replace_text(kept(order.keep, order, part) / run_record.FILE, text)


def kept(keep: Path, order: RankOrder, part: str = "") -> Path:
    """Where the files of a rank are kept, or those of a part of them."""
    return keep / f"rank_{order.rank}" / part


@contextmanager
def _place(order: RankOrder, part: str) -> Iterator[Path]:
    if order.keep is not None:
        place = kept(order.keep, order, part)
        refuse_links(kept(order.keep, order), (part,) if part else ())
        refuse_links(place, (*WRITTEN, handed_over.FILE, run_record.FILE, f"rank_{order.rank}", "rank_0", *_TRACKED))
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="swapconf-dryrun-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _shared_out(order: RankOrder, experts: int | None) -> dict[str, Any]:
    document = order.document
    cluster = cluster_of(document)
    ranks = cluster.expert_parallel
    dense = document.entry_at("parallelism.dense_fsdp_shard_size")
    size = dense.value.scalar if dense is not None else None
    degrees = (
        ("dense_fsdp_shard_size", size if isinstance(size, int) and size < cluster.data_parallel else 1),
        ("tensor_parallel", cluster.model_parallel),
        ("context_parallel", cluster.context_parallel),
        ("pipeline_parallel", cluster.num_stages),
        ("expert_parallel", cluster.expert_parallel),
    )
    return {
        "shards": cluster.data_parallel * cluster.context_parallel,
        "layout": ", ".join(f"{name} {degree}" for name, degree in degrees if degree > 1),
        "expert_ranks": ranks,
        "expert_load": order.load.name if experts else "",
        "expert_times": order.load.times(experts, ranks, order.rank % ranks) if experts else 1.0,
    }


def _ran(blank: RankReport, order: RankOrder, study: Study, folder: Folder, finished: Finished) -> Ran:
    log = memory_log.read(folder.log)
    free = shutil.disk_usage(folder.path).free
    failure = fault(finished, _tail(folder.log), free)
    report = replace(
        blank,
        seconds=finished.seconds,
        device_bytes=log.device_bytes,
        usable_bytes=log.usable_bytes,
        base_address=log.base_address,
        strategy_lines=log.strategy,
        hyper_parallel=came_to.hyper_parallel(folder),
        as_parallel=order.as_parallel and study.config.dialect is Dialect.PYNATIVE,
        launch_blocking=order.launch_blocking,
        **(_shared_out(order, study.config.model.count(*EXPERTS)) if study.config.dialect is Dialect.PYNATIVE else {}),
        outcome=RankOutcome.COMPILED if order.level == 0 else RankOutcome.COMPLETED,
    )
    if failure is not None:
        ended = phrase("{outcome} {where}", outcome=phrase(failure.outcome.value), where=came_to.came_to(folder))
        peak = came_to.peak_bytes(folder)
        if peak is not None:
            ended = phrase("{outcome} (until then {peak} were in use at most)", outcome=ended, peak=show_bytes(peak))
        finding = failed(study, failure, blank.rank, ended, str(folder.log) if order.keep is not None else "")
        return Ran(
            report=replace(
                report, outcome=failure.outcome, detail=failure.detail, findings=(finding,), used_peak_bytes=peak
            ),
            log=log,
        )
    if order.level == 0 or order.is_watched:
        return Ran(report=replace(report, by_step=by_step(folder.result)), log=log)
    try:
        if study.config.dialect is Dialect.PYNATIVE:
            stacks.leave_out(folder.path)
        trace = _trace(folder, order.rank)
    except SwapconfError as error:
        outcome = RankOutcome.NO_SPACE if free < SMALLEST_TRACE_BYTES else RankOutcome.BAD_TRACE
        return Ran(report=replace(report, outcome=outcome, detail=str(error), findings=error.findings), log=log)
    return Ran(
        report=replace(report, peak=holders.peak(trace) if trace is not None else None),
        log=log,
        trace=trace,
        reserved_bytes=reserved_bytes(folder.result),
    )


def _trace(folder: Folder, rank: int) -> Trace | None:
    """The child wrote its marks into its working folder."""
    inner = folder.tracked(rank)
    if inner is None:
        return None
    if inner != folder.path and (folder.path / marks.FILE).exists():
        shutil.move(str(folder.path / marks.FILE), str(inner / marks.FILE))
    trace = trace_folder.read(inner, rank)
    return replace(trace, known_inside=trace.fused_kernels)  # before its file is moved, or removed


def reserved_bytes(result: Path) -> int | None:
    """What MindSpore itself says it reserved at most, as the child wrote it down; None where it did not get there."""
    known = json_object.read(result).get("max_memory_reserved_bytes")
    return known if isinstance(known, int) else None


def _tail(log: Path) -> str:
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(stream.tell() - TAIL_BYTES, 0))
        return stream.read().decode("utf-8", "replace")


def _gather(folder: Folder, order: RankOrder) -> None:
    """Put the tracker's files beside the log."""
    for inner in (folder.path / f"rank_{order.rank}", folder.path / "rank_0"):
        if inner.is_dir():
            kinds = ("*.csv", "*.ir", marks.FILE, fused_kernels.FILE)
            kept_files = [path for kind in kinds for path in inner.glob(kind)]
            for file in [*kept_files, *inner.glob("execute_order/execute_order.csv")]:
                shutil.move(str(file), str(folder.path / file.name))
            shutil.rmtree(inner, ignore_errors=True)
            break
