"""``swapconf compare``: configs or runs side by side, in memory, time and added work."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli.child_options import (
    DASK,
    JOBS,
    TIMEOUT,
    ChildOptions,
    fold_option,
    keep_option,
    no_cache_option,
    ranks_option,
)
from swapconf.cli.children import Children
from swapconf.cli.common import (
    EXIT_ERRORS,
    EXIT_UNREADABLE,
    as_one,
    format_option,
    print_findings,
    register_option,
    say,
    set_option,
)
from swapconf.cli.help import Command
from swapconf.cli.machine import MachineOptions, machine_options
from swapconf.cli.outputs import html_option
from swapconf.report.findings_text import printable
from swapconf.words.findings import SwapconfError, has_errors
from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    from swapconf.compare.dry_runs import Candidate
    from swapconf.compare.variant import Variant
    from swapconf.study.study import Study
    from swapconf.timing.cost import Machine
    from swapconf.words.findings import Finding


@dataclass(frozen=True, kw_only=True)
class _Read:
    """One of the things to compare, in the order of the command line: a YAML that is read, or what is known already."""

    study: Study | None = None
    variant: Variant | None = None
    code: int = 0


@click.command(cls=Command)
@click.argument("inputs", nargs=-1, required=True, metavar="YAML|DIR...", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "baseline",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Predict the YAMLs by what-if from the traces in DIR, of a run without swap and recompute.",
)
@set_option
@register_option
@ranks_option("Which ranks of a YAML to run; stages: one for each pipeline stage.")
@JOBS
@DASK
@keep_option(
    "Keep the traces in DIR/YAML/rank_N. Traces of the same run that are there already are used.", file_okay=False
)
@fold_option("As in `swapconf dryrun`. A folded run has times only if its trace could be grown.")
@TIMEOUT
@no_cache_option("Run again even if --keep DIR holds the same run.")
@machine_options("generic")
@format_option()
@html_option("the timelines and the memory of all")
@as_one("options", ChildOptions)
def command(
    inputs: tuple[Path, ...],
    baseline: Path | None,
    changes: tuple[str, ...],
    options: ChildOptions,
    machine: MachineOptions,
    form: str,
    html: Path | None,
) -> None:
    """Compare training YAMLs, or runs that `swapconf dryrun --keep DIR` left behind, side by side.

    Use it to choose between configs: peak memory, host memory, step time, exposed stalls, bubbles of the pipeline and
    added operations, overall and by rank. A YAML is really dry-run, one rank of each stage; --from predicts it instead,
    in milliseconds. The ranks of a run are replayed on one clock, so that the stages of a pipeline wait for each other.
    See docs/reference/compare.md.

    \b
    swapconf compare tests/traces/llama_l2_none tests/traces/llama_l2_layerswap_n1
    swapconf compare plain.yaml swap.yaml recompute.yaml --keep traces --hardware ascend_910b2
    swapconf compare traces/plain traces/swap --html compare.html
    swapconf compare a.yaml b.yaml --from traces/plain

    Exit codes: 0 done; 1 a config has errors, or a rank did not complete or does not fit; 2 a file could not be read or
    written, something that a dry run or the page needs is not installed, or the command line is wrong.
    """
    on = machine.load()
    if len({str(path) for path in inputs}) < len(inputs):
        raise click.UsageError(phrase("one of them is named twice"))
    if options.dask is not None and options.keep is None:
        raise click.UsageError(phrase("--dask needs --keep DIR, on a disk that all machines of the cluster see"))
    given = ([baseline] if baseline is not None else []) + list(inputs)
    read = [_read(path, changes, on) for path in given]
    told = [finding for item in read if item.study is not None for finding in item.study.findings]
    print_findings(told, err=True)
    compared = _predicted(read, given[0], on) if baseline is not None else _dry_runs(read, options, on)
    if form == "json":
        from swapconf.report.side_by_side import as_record

        click.echo(json.dumps([as_record(variant, compared[0]) for variant in compared], indent=2))
    else:
        _print(compared, told)
    if html is not None:
        _write(compared, html)
    raise SystemExit(max(_code(variant, item) for variant, item in zip(compared, read, strict=True)))


def _read(path: Path, changes: Sequence[str], on: Machine) -> _Read:
    from swapconf.compare import dry_runs, folders, traced
    from swapconf.config import overrides
    from swapconf.memory.allocators import default_policy
    from swapconf.study.study import study_for_run

    try:
        if path.is_dir():
            return _Read(variant=traced.of_traces(str(path), folders.read(path), on, default_policy(os.environ)))
        study = study_for_run(overrides.of_file(str(path), changes), os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except SwapconfError as error:
        return _Read(variant=dry_runs.failed(str(path), error.findings, phrase("cannot be read")), code=EXIT_UNREADABLE)
    if study.is_refused:
        return _Read(
            variant=dry_runs.failed(str(path), study.findings, phrase("has errors, so it was not run")),
            code=EXIT_ERRORS,
        )
    if study.why_no_training:
        return _Read(variant=dry_runs.failed(str(path), (), study.why_no_training), code=EXIT_ERRORS)
    return _Read(study=study)


def _predicted(read: Sequence[_Read], baseline: Path, on: Machine) -> list[Variant]:
    """What each YAML would make of the baseline, which is the first."""
    from swapconf.compare import dry_runs, folders, predicted
    from swapconf.memory.allocators import default_policy
    from swapconf.whatif.question import Mismatch

    first = read[0].variant
    if first is None or first.failure:
        print_findings(first.findings if first is not None else (), err=True)
        raise SystemExit(EXIT_UNREADABLE)
    ranks, policy = folders.read(baseline), default_policy(os.environ)
    compared = [predicted.baseline(first)]
    for item in read[1:]:
        if item.study is None:
            assert item.variant is not None
            compared.append(item.variant)
            continue
        file = item.study.document.file
        try:
            compared.append(predicted.of_baseline(file, ranks, item.study, on, policy))
        except Mismatch as error:
            compared.append(dry_runs.failed(file, (), str(error)))
    return compared


def _dry_runs(read: Sequence[_Read], options: ChildOptions, on: Machine) -> list[Variant]:
    from swapconf.memory.allocators import default_policy

    studies = {index: item.study for index, item in enumerate(read) if item.study is not None}
    if not studies:
        return [item.variant for item in read if item.variant is not None]
    with _kept(options.keep) as keep:
        candidates = _candidates(studies, keep, options)
        found = dict(zip(studies, _run(candidates, options, on, default_policy(os.environ)), strict=True))
    both = [found.get(index, item.variant) for index, item in enumerate(read)]
    return [variant for variant in both if variant is not None]


@contextmanager
def _kept(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="swapconf-compare-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _candidates(studies: dict[int, Study], keep: Path, options: ChildOptions) -> list[Candidate]:
    from swapconf.compare.dry_runs import Candidate
    from swapconf.dryrun.rank_order import RankOrder, cluster_of, ranks_of

    stems = [Path(study.document.file).stem for study in studies.values()]
    candidates = []
    for (index, study), stem in zip(studies.items(), stems, strict=True):
        document = study.document
        place = keep / (stem if stems.count(stem) == 1 else f"{stem}_{index + 1}")
        try:
            ranks = ranks_of(options.ranks, cluster_of(document))
        except ValueError as error:
            raise click.UsageError(phrase("{file}: {reason}", file=document.file, reason=error)) from None
        candidates.append(
            Candidate(
                title=document.file,
                keep=place,
                findings=study.findings,
                orders=tuple(
                    RankOrder(
                        document=document,
                        rank=rank,
                        fold=options.fold,
                        timeout_seconds=options.timeout,
                        register_path=options.register_path or "",
                        keep=place,
                        settings=study.settings,
                    )
                    for rank in ranks
                ),
            )
        )
    return candidates


def _run(candidates: Sequence[Candidate], options: ChildOptions, on: Machine, policy: str) -> Sequence[Variant]:
    import sys

    from swapconf.compare.dry_runs import dry_run
    from swapconf.dryrun import capacity, fan_out
    from swapconf.dryrun.environment import prepare

    if fan_out.missing(options.dask):
        raise click.ClickException(fan_out.missing(options.dask))
    prepare(sys.executable, os.environ, 1)  # once, before the children, so that the shim is built once
    orders = [order for candidate in candidates for order in candidate.orders]
    with Children(len(orders), phrase("dry run")) as progress:
        watched = [
            replace(candidate, orders=tuple(replace(order, board=progress.board) for order in candidate.orders))
            for candidate in candidates
        ]
        return dry_run(
            watched,
            capacity.jobs_at_once(orders, options.jobs),
            on,
            policy=policy,
            dask=options.dask,
            reuse=options.keep is not None and not options.no_cache,
            progress=progress.step,
        )


def _code(variant: Variant, item: _Read) -> int:
    if item.code:
        return item.code
    return EXIT_ERRORS if variant.failure or variant.troubles or has_errors(variant.findings) else 0


def _print(compared: Sequence[Variant], told: Sequence[Finding]) -> None:
    """``told``: findings that were printed before."""
    from swapconf.cli.tables import print_rows
    from swapconf.report.side_by_side import notes_of, overall_table, rank_table, ranks_of

    good = [variant for variant in compared if not variant.failure]
    if good:
        head, rows, in_words = overall_table(good)
        print_rows([printable(name) for name in head], rows, in_words)
        places = ranks_of(good)
        for rank, name in places if len(places) > 1 else ():
            head, rows, _ = rank_table(good, rank)
            click.echo()
            print_rows([name, *map(printable, head[1:])], rows, {name})
        click.echo()
    for variant in compared:
        for line in notes_of(variant):
            say(printable(line))
    for variant in compared:
        print_findings([finding for finding in variant.findings if finding not in told], err=True)


def _write(compared: Sequence[Variant], file: Path) -> None:
    from swapconf.cli.memory import write_page

    write_page(
        [view for variant in compared for view in variant.views],
        file,
        [variant.timeline for variant in compared if variant.timeline is not None],
        compared,
    )
