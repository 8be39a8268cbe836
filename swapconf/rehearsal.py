"""A dry run of some ranks of some configs, composed: jobs, children, traces, reports."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swapconf.dryrun.comparison import compare
from swapconf.dryrun.effect import Effect, observed
from swapconf.dryrun.environment import Prepared, prepare
from swapconf.dryrun.job import Cluster, Folder, Job
from swapconf.dryrun.judge import TAIL_BYTES, fault
from swapconf.dryrun.launch import Finished, launch
from swapconf.dryrun.outcome import LayerMoves, Outcome, RankReport, as_record
from swapconf.errors import Finding, Origin, Severity, SwapconfError, in_order
from swapconf.formats import memory_log, trace_folder
from swapconf.formats.nodes import Document
from swapconf.pipeline import Study, study_document
from swapconf.resolve.knowledge import Versions
from swapconf.trace import Notice, Trace, WorkerLog
from swapconf.units import parse_bytes, show_bytes

CHILD_BYTES = 3 << 30  # what one child may take of this machine's memory


@dataclass(frozen=True, kw_only=True)
class Order:
    """One rank of one config, as asked for. ``keep``: the folder for its files, None for a temporary one."""

    document: Document
    rank: int
    level: int = 1
    plain: bool = False
    real_data: bool = False
    timeout_seconds: float = 3600.0
    keep: Path | None = None


def cluster_of(document: Document) -> Cluster:
    """How the YAML shares out its devices."""
    def count(key: str) -> int:
        section = document.root.get("parallel_config")
        node = section.get(key) if section is not None else None
        value = node.scalar if node is not None else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1

    return Cluster(data_parallel=count("data_parallel"), model_parallel=count("model_parallel"),
                   context_parallel=count("context_parallel"), num_stages=count("pipeline_stage"))


def jobs_at_once(asked: int | None = None) -> int:
    """How many children this machine takes: bounded by cores and by memory."""
    if asked is not None:
        return max(1, asked)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // CHILD_BYTES))


def rehearse(order: Order) -> RankReport:
    """Dry-run one rank. Every fault is an outcome of the report; only a wrong order raises."""
    study = study_document(order.document, Versions.in_use(), os.environ)
    cluster = cluster_of(order.document)
    blank = RankReport(file=order.document.file, rank=order.rank, stage=cluster.stage_of(order.rank),
                       level=order.level, outcome=Outcome.NOT_STARTED)
    place = order.keep / f"rank_{order.rank}" if order.keep else Path(tempfile.mkdtemp(prefix="swapconf-dryrun-"))
    try:
        prepared = prepare(sys.executable, os.environ, order.level)
        job = Job(settings=_settings(order.document), cluster=cluster, rank=order.rank, level=order.level,
                  plain=order.plain, real_data=order.real_data, timeout_seconds=order.timeout_seconds)
        folder = Folder(place)
        finished = launch(job, folder, prepared.variables)
        report = _report(blank, order, study, folder, finished)
        _gather(folder, order, prepared, report)
    except OSError as error:
        outcome = Outcome.NO_SPACE if error.errno == errno.ENOSPC else Outcome.NOT_STARTED
        return replace(blank, outcome=outcome, detail=str(error))
    except SwapconfError as error:
        return replace(blank, outcome=Outcome.NOT_STARTED, detail=str(error), findings=error.findings)
    finally:
        if order.keep is None:
            shutil.rmtree(place, ignore_errors=True)
    return report


def _settings(document: Document) -> dict[str, Any]:
    settings: Any = document.root.plain()
    # a dry run of parallel ranks is a parallel run, whatever the file's own switch says
    return {**settings, "use_parallel": True} if "use_parallel" in settings else dict(settings)


def _report(blank: RankReport, order: Order, study: Study, folder: Folder, finished: Finished) -> RankReport:
    log = memory_log.read(folder.log)
    found = fault(finished, _tail(folder.log))
    limit, cut = _limit(study, log)
    report = replace(
        blank, seconds=finished.seconds, device_bytes=log.device_bytes, usable_bytes=log.usable_bytes,
        base_address=log.base_address, limit_bytes=limit, strategy_lines=log.strategy,
        outcome=Outcome.COMPILED if order.level == 0 else Outcome.COMPLETED)
    if found is not None:
        where = study.config.origin(*found.paths) if found.paths else Origin(file=order.document.file)
        told = Finding(origin=where, rule="framework-error", severity=Severity.ERROR,
                       message=f"rank {blank.rank}: {found.outcome.value}: {found.detail}",
                       hint="correct the config; the whole log is in the folder of `--keep DIR`")
        return replace(report, outcome=found.outcome, detail=found.detail, findings=(told,))
    if order.level == 0:
        return report
    return _with_memory(report, order, study, folder, log, cut)


def _with_memory(report: RankReport, order: Order, study: Study, folder: Folder, log: WorkerLog,
                 findings: list[Finding]) -> RankReport:
    trace = _trace(folder, order.rank)
    if trace is None:
        return replace(report, used_peak_bytes=log.used_peak_bytes, findings=in_order(findings),
                       with_fragments_peak_bytes=log.with_fragments_peak_bytes,
                       detail="no trace was written; peaks are those of the log, in whole MiB")
    count = study.config.model.num_layers or 0
    effect = observed(trace, count)
    if study.strategy is not None:
        findings += compare(study.strategy, effect, study.config.origin("swap_config.swap", "swap_config"))
    peak = trace.with_fragments_peak_bytes
    limit = report.limit_bytes
    if limit is not None and peak > limit:
        findings.append(Finding(
            origin=study.config.origin("context.max_device_memory", "context"), rule="does-not-fit",
            severity=Severity.ERROR, message=f"rank {report.rank} needs {show_bytes(peak)} with fragments, "
            f"{show_bytes(peak - limit)} more than the {show_bytes(limit)} it may use (operator workspace not counted)",
            hint="swap or recompute more, or give the rank fewer layers"))
    return replace(
        report, used_peak_bytes=trace.used_peak_bytes, with_fragments_peak_bytes=peak,
        reserved_bytes=_reserved(folder), host_bytes=effect.host_peak_bytes, moved=_moves(effect),
        findings=in_order(findings),
        outcome=Outcome.DOES_NOT_FIT if limit is not None and peak > limit else Outcome.COMPLETED)


def _moves(effect: Effect) -> tuple[LayerMoves, ...]:
    return tuple(LayerMoves(layer, copies.num_tensors, copies.size_bytes)
                 for layer, copies in effect.by_layer.items())


def _trace(folder: Folder, rank: int) -> Trace | None:
    """The tracker writes into ``rank_N`` below its working folder."""
    for inner in (folder.path / f"rank_{rank}", folder.path / "rank_0", folder.path):
        if (inner / "memory_block.csv").exists():
            return trace_folder.read(inner, rank)
    return None


def _reserved(folder: Folder) -> int | None:
    try:
        known = json.loads(folder.result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return int(known["max_memory_reserved_bytes"])


def _limit(study: Study, log: WorkerLog) -> tuple[int | None, list[Finding]]:
    """What the rank may use: the YAML's limit, but no more than MindSpore can take of the device; it cuts silently."""
    asked = study.config.runtime.max_device_memory
    findings = []
    if log.notices.get(Notice.POOL_BLOCK_CUT):
        findings.append(Finding(
            origin=study.config.origin("context.max_device_memory", "context"), rule="memory-pool-cut",
            severity=Severity.NOTE, message=Notice.POOL_BLOCK_CUT.value,
            hint="nothing to do here; on a card, leave more room in max_device_memory"))
    if asked is None:
        return log.usable_bytes, findings
    try:
        limit = parse_bytes(asked)
    except ValueError:
        return log.usable_bytes, findings
    ceiling = log.usable_bytes
    if ceiling is not None and limit > ceiling:
        findings.append(Finding(
            origin=study.config.origin("context.max_device_memory"), rule="memory-limit-cut", severity=Severity.WARNING,
            message=f"MindSpore silently cuts max_device_memory {asked} to the {show_bytes(ceiling)} of the device",
            hint=f"write a limit up to {show_bytes(ceiling)}"))
        return ceiling, findings
    return limit, findings


def _tail(log: Path) -> str:
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(stream.tell() - TAIL_BYTES, 0))
        return stream.read().decode("utf-8", "replace")


def _gather(folder: Folder, order: Order, prepared: Prepared, report: RankReport) -> None:
    """Put the tracker's files beside the log, with a record of the run."""
    if order.keep is None:
        return
    for inner in (folder.path / f"rank_{order.rank}", folder.path / "rank_0"):
        if inner.is_dir():
            for file in [*inner.glob("*.csv"), *inner.glob("*.ir"), *inner.glob("execute_order/execute_order.csv")]:
                shutil.move(str(file), str(folder.path / file.name))
            shutil.rmtree(inner, ignore_errors=True)
            break
    record = {"swapconf": version("swapconf"), "environment": prepared.summary(), "level": order.level,
              "plain": order.plain, "real_data": order.real_data, "report": as_record(report)}
    (folder.path / "run.json").write_text(json.dumps(record, indent=2), encoding="utf-8")


def rehearse_all(orders: Sequence[Order], jobs: int, dask: str | None = None) -> Iterator[RankReport]:
    """Every order, several at once, each report as it comes. ``dask``: the address of a cluster to use instead.

    Raises ImportError where joblib, or Dask for an address, is not installed.
    """
    import joblib

    backend: dict[str, Any] = {"n_jobs": min(jobs, len(orders)) or 1}
    if dask is not None:
        import distributed

        client: Any = distributed.Client
        with client(dask), joblib.parallel_config(backend="dask", n_jobs=-1):
            yield from joblib.Parallel(return_as="list")(joblib.delayed(rehearse)(order) for order in orders)
        return
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1, **backend):
        yield from joblib.Parallel(return_as="generator_unordered")(
            joblib.delayed(rehearse)(order) for order in orders)


def fan_out_missing() -> str:
    """What is not installed of the fan-out, in words; empty when all is there."""
    return "" if find_spec("joblib") else "joblib is missing: pip install swapconf[dryrun]"


def ranks_of(words: str, cluster: Cluster) -> tuple[int, ...]:
    """``stages``, ``all`` or a list such as ``0,7``. Raises ValueError, which says what is taken."""
    if words == "stages":
        return cluster.first_ranks()
    if words == "all":
        return tuple(range(cluster.num_devices))
    try:
        ranks = tuple(sorted({int(word) for word in words.split(",")}))
    except ValueError:
        raise ValueError(f"'{words}' is neither `stages`, `all` nor a list of ranks such as 0,7") from None
    wrong = [rank for rank in ranks if not 0 <= rank < cluster.num_devices]
    if wrong:
        raise ValueError(f"there is no rank {wrong[0]}: the config describes {cluster.num_devices} devices, 0 to "
                         f"{cluster.num_devices - 1}")
    return ranks


def environment_lines(variables: Mapping[str, str]) -> list[str]:
    """Shell lines that set the variables."""
    import shlex

    return [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
