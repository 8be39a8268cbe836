"""swapconf: check, explain, apply, dry-run and predict activation swap and recompute for MindSpore Transformers.

What may be used from Python is here: `check`, `explain`, `dry_run`, `what_if`, `best_plan` and `install`, and the types
that they return. Each does what the command of that name does; none prints, and importing swapconf loads nothing.

>>> study = swapconf.check("train.yaml")
>>> [str(finding) for finding in study.findings]
>>> report = swapconf.dry_run("train.yaml", rank=0, keep="traces")
>>> swapconf.what_if("traces/rank_0", "train.yaml").prediction.used_peak_bytes
>>> swapconf.best_plan("train.yaml", ["traces/rank_0"], budget="54GB", card="ascend_910b2").chosen.plan
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each function loads what it needs
    from swapconf.config.nodes import Document
    from swapconf.dryrun.outcome import RankReport
    from swapconf.plan.planned import Planned
    from swapconf.report.explanation import Row
    from swapconf.study.study import Study
    from swapconf.timing.cost import Machine
    from swapconf.whatif.question import Answer

__version__ = "0.1.0"
__all__ = ["__version__", "best_plan", "check", "dry_run", "explain", "install", "what_if"]

File = str | PathLike[str]


def check(file: File, *, mindspore: str | None = None, mindformers: str | None = None) -> Study:
    """What a training YAML means: its config, its strategy (one decision for each site) and all findings.

    Args:
        file: The YAML.
        mindspore: Version of the run; by default that of the settings beside the YAML, else the installed one.
        mindformers: Likewise.

    Raises:
        SwapconfError: The file cannot be read, or is no YAML.
    """
    from swapconf.study.study import study_for_check

    return study_for_check(_document(file), _environment(), mindspore, mindformers)


def explain(file: File, *, layer: int | None = None) -> list[Row]:
    """The table of `swapconf explain`: what was asked for and what takes effect, equal layers in one row.

    Raises:
        SwapconfError: The file cannot be read, or is no YAML.
        ValueError: The YAML does not give the number of layers, or is a PyNative one; the text says so.
    """
    from swapconf.report.explanation import rows

    study = check(file)
    if study.strategy is None:
        raise ValueError(study.why_no_strategy)
    return rows(study.strategy, layer)


def dry_run(
    file: File,
    *,
    rank: int = 0,
    level: int = 1,
    fold: bool = True,
    keep: File | None = None,
    timeout_seconds: float = 3600.0,
) -> RankReport:
    """Run mindformers' own Trainer for one rank, with MindSpore simulating the device, in a child process.

    Args:
        file: The YAML.
        rank: Which device of the cluster that the YAML describes.
        level: 0 compiles; 1 adds memory, 2 operator workspace, 3 times (2 and 3 estimated where there is no CANN).
        fold: Run fewer of many equal layers and micro-batches and extrapolate, where that holds.
        keep: Folder for the trace, in ``rank_N`` of it; None for none.
        timeout_seconds: For the whole of it.

    Returns:
        What became of the rank. Every fault of the run is an outcome of the report.

    Raises:
        SwapconfError: The file cannot be read, or is no YAML.
        ValueError: The YAML has errors, and nothing was started; or there is no such rank.
    """
    from pathlib import Path

    from swapconf.dryrun.fold import folded
    from swapconf.dryrun.rank_order import RankOrder, cluster_of, ranks_of
    from swapconf.study.settings import settings_of
    from swapconf.study.study import study_for_run

    document = _document(file)
    _accepted(study_for_run(document, _environment()))
    ranks_of(str(rank), cluster_of(document))
    return folded.dry_run(
        RankOrder(
            document=document,
            rank=rank,
            level=level,
            fold=fold,
            timeout_seconds=timeout_seconds,
            keep=None if keep is None else Path(keep),
            settings=settings_of(document.file)[0],
        )
    )


def what_if(trace: File, file: File, *, policy: str = "mindspore", machine: Machine | None = None) -> Answer:
    """What the strategy of a YAML would do to a run without swap and recompute, from the trace of that run.

    Args:
        trace: ``DIR/rank_N`` of ``swapconf dryrun --keep DIR``, made without swap and recompute.
        file: The YAML with the strategy.
        policy: The allocator of the prediction, as `swapconf fragmentation` names them.
        machine: The card and host on which steps are timed; None for no times.

    Raises:
        SwapconfError: A file cannot be read.
        ValueError: The YAML has errors, or the trace is no baseline for it; the text says why.
    """
    from pathlib import Path

    from swapconf.whatif.question import Question

    study = _accepted(check(file))
    return Question(Path(trace), study, policy, machine).answer()


def best_plan(
    file: File,
    traces: Sequence[File],
    *,
    budget: str,
    card: str = "generic",
    slower_link: float = 0.3,
    max_entries: int = 6,
    effort: float = 1.0,
) -> Planned:
    """The fastest strategy that fits, from traces without swap and recompute, as `swapconf plan --from` finds it.

    Args:
        file: The YAML; what it says of swap and recompute does not count.
        traces: ``DIR/rank_N``, one of each pipeline stage, as for `what_if`.
        budget: What MindSpore's pool may take of a card, such as ``54GB``, up to what all beside it leaves at most.
        card: The hardware profile that steps are timed on.
        slower_link: Plans are judged with a host link slower by this share.
        max_entries: Entries of the YAML, at most.
        effort: Scales how many plans are tried.

    Returns:
        ``chosen`` says by layer what to do; ``judge.config(chosen.plan)`` is the config that says it.

    Raises:
        SwapconfError: A file cannot be read.
        ValueError: The YAML has errors, or the traces are no baselines for it; the text says why.
    """
    import os
    from dataclasses import replace
    from pathlib import Path

    from swapconf.plan.judge import judge_of
    from swapconf.plan.limits import Budget
    from swapconf.plan.planned import plan
    from swapconf.study.beside import pool_room_bytes
    from swapconf.timing import hardware
    from swapconf.timing.cost import Machine
    from swapconf.words.units import parse_bytes

    study = _accepted(check(file))
    machine, asked = Machine(hardware=hardware.load(card)), Budget(card_bytes=parse_bytes(budget))
    folders = [Path(folder) for folder in traces]
    judge = judge_of(study, folders, machine, asked, slower_link=slower_link, max_entries=max_entries)
    room = pool_room_bytes(judge.evaluator.traces, study.config, machine, os.environ)
    return plan(judge.under(replace(judge.limits, room_bytes=room)), effort)


def install() -> None:
    """Take the place of mindformers' LayerSetting in this process, from now on; call it before a model is built.

    The same as ``python -m swapconf run``, for scripts that would rather import it.
    """
    from swapconf.train import session

    session.install(session.source_of_process())


def _accepted(study: Study) -> Study:
    if study.is_refused:
        raise ValueError("\n".join(str(finding) for finding in study.findings))
    if study.why_no_training:
        raise ValueError(study.why_no_training)
    return study


def _document(file: File) -> Document:
    from os import fspath

    from swapconf.config.overrides import of_file

    return of_file(fspath(file), ())


def _environment() -> dict[str, str]:
    from os import environ

    return dict(environ)
