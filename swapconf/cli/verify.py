"""``swapconf verify``: after a run, the logs of all ranks against the YAML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli.child_options import ranks_option
from swapconf.cli.common import (
    EXIT_ERRORS,
    EXIT_UNREADABLE,
    format_option,
    print_findings,
    say,
    set_option,
    version_options,
)
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.files.log_pool import MOST_JOBS
from swapconf.words.columns import Column, count, size, table, words
from swapconf.words.phrases import phrase, show
from swapconf.words.units import parse_bytes, runs, show_bytes

if TYPE_CHECKING:
    from swapconf.config.cluster import Cluster
    from swapconf.study.study import Study
    from swapconf.verify.predicted_peaks import PredictedPeaks
    from swapconf.verify.verify import RankVerdict, Verification
    from swapconf.verify.worker_logs import Said


@click.command(cls=Command)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="LOGDIR")
@click.option("--config", "file", required=True, metavar="FILE", type=FILE, help="The training YAML that was run.")
@set_option
@ranks_option("Which ranks must have a log; stages: the first one of each pipeline stage.", default="all")
@click.option(
    "--predicted",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.json",
    help="Compare peaks with this output of `swapconf dryrun --format json` (default: earlier dry runs).",
)
@click.option(
    "--slack", default="0", show_default=True, metavar="2GB", help="How much higher than predicted a peak may be."
)
@click.option("--jobs", type=click.IntRange(1), help="Logs to read at once (default: by cores, at most 3).")
@format_option()
@version_options
def command(
    folder: Path,
    file: str,
    changes: tuple[str, ...],
    ranks: str,
    predicted: Path | None,
    slack: str,
    jobs: int | None,
    form: str,
    mindspore_version: str | None,
    mindformers_version: str | None,
) -> None:
    """Compare what the worker logs below LOGDIR say with what the YAML decides for each rank.

    After a run: did every rank do what the YAML says, did it stay below the predicted peak, and end as it should? It
    reads the logs of msrun (worker_RANK.log) and of mindformers (rank_RANK/info.log) with their rotated parts, of runs
    with swapconf or without it, in graph mode or in PyNative mode. Of a run that died it tells what ended it and on
    which rank first, beside what was decided; `swapconf oom` tells more.

    \b
    swapconf verify output/msrun --config train.yaml
    swapconf dryrun train.yaml --format json > predicted.json
    swapconf verify output/msrun --config train.yaml --predicted predicted.json --slack 2GB

    Exit codes: 0 every rank agrees; 1 the log of a rank lacks a line, differs, or has a swap without effect, a peak is
    higher than predicted, or a rank died; 2 a file or folder could not be read, the YAML decides nothing to compare
    with, or the command line is wrong.
    """
    from swapconf.config import overrides
    from swapconf.config.config import Dialect
    from swapconf.dryrun.rank_order import cluster_of, ranks_of
    from swapconf.postmortem import run_log
    from swapconf.report.rank_ends import rank_ends
    from swapconf.study.study import study_for_check
    from swapconf.verify import decided, predicted_peaks
    from swapconf.verify.verify import verify

    try:
        slack_bytes = parse_bytes(slack)
        document = overrides.of_file(file, changes)
        cluster = cluster_of(document)
        study = study_for_check(document, os.environ, mindspore_version, mindformers_version)
        wanted = ranks_of(ranks, cluster)
        peaks = predicted_peaks.read(predicted, file) if predicted else _cached_peaks(study, cluster)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None
    print_findings(study.findings, err=True)
    if study.config.dialect is Dialect.PYNATIVE:
        wanted_lines = decided.of_modules(study)
    elif study.strategy is not None:
        wanted_lines = decided.of_strategy(study, study.strategy)
    else:
        raise click.UsageError(phrase("{reason}, so there is nothing to compare with", reason=study.why_no_strategy))
    at_once = jobs or min(len(os.sched_getaffinity(0)), MOST_JOBS)
    try:
        ends = list(rank_ends(run_log.read(folder, at_once, only_end=True), folder))
        verification = verify(folder, wanted_lines, cluster, wanted, peaks, slack_bytes, at_once, ends)
    except OSError as error:
        raise click.UsageError(f"{folder}: {error.strerror or error}") from None
    if all(verdict.said is None for verdict in verification.ranks):
        say(
            phrase("{folder}: there is no log of a rank here (worker_RANK.log, rank_RANK/info.log)", folder=folder),
            err=True,
        )
        raise SystemExit(EXIT_UNREADABLE)
    if form == "json":
        click.echo(json.dumps(as_record(verification), indent=2))
    else:
        _print(verification)
    raise SystemExit(0 if verification.agrees and not study.is_refused else EXIT_ERRORS)


def _cached_peaks(study: Study, cluster: Cluster) -> Mapping[int, PredictedPeaks]:
    """Of earlier dry runs of the same YAML with the default options, of one rank for each stage."""
    from swapconf.dryrun import report_cache
    from swapconf.dryrun.rank_order import RankOrder
    from swapconf.dryrun.report_record import as_record as record_of
    from swapconf.verify.predicted_peaks import PredictedPeaks

    reports = (
        report_cache.find(RankOrder(document=study.document, rank=rank, fold=True, settings=study.settings))
        for rank in cluster.first_ranks()
    )
    return {
        report.rank: PredictedPeaks(
            used_bytes=report.used_peak_bytes,
            origin=str(record_of(report)["origin"]),
            with_fragments_bytes=report.with_fragments_peak_bytes,
        )
        for report in reports
        if report is not None
    }


def as_record(verification: Verification) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers."""
    return {
        "agrees": verification.agrees,
        "as_decided": verification.is_as_decided,
        "ranks": [
            {
                "rank": verdict.rank,
                "stage": verdict.stage,
                "rules": list(verdict.rules),
                "as_decided": verdict.is_as_decided,
                "ended": show(verdict.end) or None,
                "log_bytes": verdict.said.size_bytes if verdict.said else None,
                "log_entries": len(verdict.said.entries) if verdict.said else None,
                "used_peak_bytes": verdict.said.used_peak_bytes if verdict.said else None,
                "with_fragments_peak_bytes": verdict.said.with_fragments_peak_bytes if verdict.said else None,
                "predicted_used_peak_bytes": verdict.predicted.used_bytes if verdict.predicted else None,
                "predicted_with_fragments_peak_bytes": verdict.predicted.with_fragments_bytes
                if verdict.predicted
                else None,
                "predicted_by": show(verdict.predicted.origin) if verdict.predicted else None,
            }
            for verdict in verification.ranks
        ],
        "findings": [finding.as_record() for finding in verification.findings],
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Alike:
    """Ranks of one stage that break the same rules, and for which the same was predicted."""

    ranks: tuple[RankVerdict, ...]

    @property
    def first(self) -> RankVerdict:
        return self.ranks[0]

    @property
    def said(self) -> list[Said]:
        return [rank.said for rank in self.ranks if rank.said]

    @property
    def log_bytes(self) -> int | None:
        return sum(one.size_bytes for one in self.said) if self.said else None

    @property
    def used_bytes(self) -> int | None:
        """As predicted."""
        return self.first.predicted.used_bytes if self.first.predicted else None

    @property
    def with_fragments_bytes(self) -> int | None:
        """As predicted."""
        return self.first.predicted.with_fragments_bytes if self.first.predicted else None


VERDICTS: tuple[Column[_Alike], ...] = (
    words(phrase("ranks"), lambda group: ", ".join(runs(rank.rank for rank in group.ranks))),
    count(phrase("stage"), lambda group: group.first.stage),
    size(phrase("log"), lambda group: group.log_bytes),
    Column(title=phrase("used peak"), shown=lambda group: _span([one.used_peak_bytes for one in group.said])),
    size(phrase("predicted"), lambda group: group.used_bytes),
    Column(
        title=phrase("with fragments"), shown=lambda group: _span([one.with_fragments_peak_bytes for one in group.said])
    ),
    size(phrase("predicted"), lambda group: group.with_fragments_bytes),
    words(phrase("verdict"), lambda group: _verdict(group.first)),
)


def _print(found: Verification) -> None:
    from swapconf.cli.tables import print_rows

    groups: dict[tuple[object, ...], list[RankVerdict]] = {}
    for verdict in found.ranks:
        groups.setdefault((verdict.stage, verdict.rules, verdict.predicted), []).append(verdict)
    alike = [_Alike(ranks=tuple(group)) for group in groups.values()]
    print_rows(*table(VERDICTS, alike), styles=("bold red" if group.first.rules else "" for group in alike))
    print_findings(found.findings)


def _verdict(found: RankVerdict) -> str:
    rules = ", ".join(found.rules)
    if not rules:
        return phrase("agrees")
    return phrase("agrees, but {rules}", rules=rules) if found.is_as_decided else rules


def _span(peaks_bytes: Sequence[int | None]) -> str:
    """Of several ranks, the lowest and the highest."""
    known = [peak for peak in peaks_bytes if peak is not None]
    lowest, highest = show_bytes(min(known, default=None)), show_bytes(max(known, default=None))
    return lowest if lowest == highest else phrase("{lowest} to {highest}", lowest=lowest, highest=highest)
