"""DOCUMENT -> DRY RUNS of all stages, with traces: the baseline that a plan is made from, and the plan confirmed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapconf.config.config import Dialect
from swapconf.config.dialects import RECOMPUTES, is_pynative_section
from swapconf.config.nodes import Document, Node
from swapconf.config.overrides import of_file
from swapconf.dryrun.kept_runs import Reports, without_trace
from swapconf.dryrun.outcome import RankOutcome
from swapconf.dryrun.pynative.expert_load import EVEN, ExpertLoad, as_record
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.files import cache_folder
from swapconf.study.study import Study
from swapconf.trace import trace_folder
from swapconf.words.phrases import joined, phrase

LEVEL = 1  # of its dry runs
_CRASHES = frozenset({RankOutcome.STOPPED.value, RankOutcome.CRASHED.value})
# section -> keys that switch something on, where the YAML has them
_SWITCHES = {
    "swap_config": ("swap",),
    "recompute_config": RECOMPUTES,
    "model.model_config": ("swap", "cpu_offloading", *RECOMPUTES),
}
# section of PyNative -> what it says where nothing is asked for
_NATIVE_OFF = {"swap": "{enable: False}", "recompute": "{mode: None}", "recompute_comm": "{enable: False}"}


class NoRun(ValueError):
    """A stage could not be dry-run, or left no trace of the whole model; the text says which, why and what to do.
    ``crashed``: the ranks on which MindSpore itself failed, which another strategy may mend."""

    def __init__(self, text: str, crashed: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.crashed = tuple(crashed)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageRun:
    """What a dry run found of the rank of one stage. ``folder``: with its trace, if it left one. ``is_placed``: its
    fragments are those of a trace of the whole model, run or grown. ``note``: how it was folded."""

    rank: int
    stage: int
    folder: Path
    used_peak_bytes: int
    with_fragments_peak_bytes: int
    host_bytes: int
    is_placed: bool = True
    note: str = ""


def without_strategy(file: str, changes: Sequence[str], more: Sequence[str] = ()) -> Document:
    """The same YAML without swap and recompute. ``more``: changes of that."""
    asked = of_file(file, changes)
    root = asked.root.entries
    off = [
        f"{section}={off}"
        for section, off in _NATIVE_OFF.items()
        if section in root and is_pynative_section(root[section])
    ]
    for section, keys in _SWITCHES.items():
        node: Node | None = asked.root
        for name in section.split("."):
            node = node.get(name) if node is not None else None
        off += [f"{section}.{key}=False" for key in keys if node is not None and key in node.entries]
    return of_file(file, (*changes, *off, *more))


def place_of_baselines(document: Document, keep: Path | None, load: ExpertLoad = EVEN) -> Path:
    """Where its traces are kept: what the user names, else in the cache, by content."""
    if keep is not None:
        return keep.resolve()
    plain = json.dumps(document.root.plain(), default=str, sort_keys=True)
    told = plain if load == EVEN else plain + json.dumps(as_record(load))
    name = f"{Path(document.file).stem}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    return cache_folder.private("plan", os.environ) / name


def orders(
    document: Document,
    study: Study,
    keep: Path,
    *,
    fold: bool,
    timeout_seconds: float,
    ranks: Sequence[int] = (),
    register_path: str = "",
    load: ExpertLoad = EVEN,
) -> list[RankOrder]:
    """``ranks``, or one rank of each stage. One card of PyNative recomputes and swaps as several do, and of several the
    fullest counts, whose launches block: else threads race, and no two runs are the same."""
    cluster = cluster_of(document)
    is_pynative = study.config.dialect is Dialect.PYNATIVE
    return [
        RankOrder(
            document=document,
            rank=rank,
            level=LEVEL,
            fold=fold,
            timeout_seconds=timeout_seconds,
            keep=keep,
            settings=study.settings,
            register_path=register_path,
            as_parallel=is_pynative and cluster.num_devices == 1,
            launch_blocking=is_pynative and cluster.num_devices > 1,
            load=load,
        )
        for rank in ranks or cluster.first_ranks()
    ]


def stage_runs(asked: Sequence[RankOrder], known: Reports) -> list[StageRun]:
    """All stages. ``known``: what became of orders, by folder and rank. Raises NoRun where one did not complete."""
    failed, crashed, found = [], [], []
    for order in asked:
        assert order.keep is not None
        report = known[order.keep, order.rank]
        used, mapped = report["used_peak_bytes"], report["with_fragments_peak_bytes"]
        if used is None or mapped is None:
            failed.append(without_trace(report))
            if report["outcome"] in _CRASHES:
                crashed.append(order.rank)
            continue
        folder, note = order.keep / f"rank_{order.rank}", report.get("fold_note") or ""
        found.append(
            StageRun(
                rank=order.rank,
                stage=report["stage"],
                folder=folder,
                used_peak_bytes=used,
                with_fragments_peak_bytes=mapped,
                host_bytes=report["host_bytes"] or 0,
                is_placed=not note or (folder / trace_folder.BLOCKS).exists(),
                note=note,
            )
        )
    if failed:
        raise NoRun(joined("; ", dict.fromkeys(failed)), crashed)
    return found


def traces_of(found: Iterable[StageRun]) -> list[Path]:
    """The folders of their traces. Raises NoRun where a folded run left none."""
    found = list(found)
    lacking = [item for item in found if not (item.folder / trace_folder.BLOCKS).exists()]
    if lacking:
        raise NoRun(
            phrase(
                "the folded run in {folder} left no trace of the whole model ({note}); run it whole: --no-fold",
                folder=lacking[0].folder,
                note=lacking[0].note,
            )
        )
    return [item.folder for item in found]


def trace_folders(folder: Path) -> list[Path]:
    """The folder of one rank, or all ``rank_N`` below it that have a trace, by rank."""
    if (folder / trace_folder.BLOCKS).exists():
        return [folder]
    below = [path.parent for path in folder.glob(f"rank_*/{trace_folder.BLOCKS}")]
    return sorted(below, key=lambda path: (len(path.name), path.name))
