"""LAYOUTS -> TRACES: which ranks of which layouts are dry-run, and the traces that judge them.

Each layout is the YAML under other keys, so that its runs stand in the cache by what they are of: a second search goes
on from there. `traces_of` is the one place that says where the traces of a layout come from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from swapconf.config.overrides import of_file
from swapconf.dryrun.kept_runs import Reports
from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout.layout import Layout
from swapconf.layout.written import changes
from swapconf.plan import runs
from swapconf.study.study import Study, study_for_check, study_for_run
from swapconf.whatif.inlined import NOTHING_SWAPPED, SWAP_ON, is_turned_by_swap
from swapconf.words.findings import Severity

Runner: TypeAlias = Callable[[Sequence[RankOrder]], Reports]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A layout whose YAML has no errors. ``changes``: of the file, ``A.B.C=VALUE`` each, those of the command line
    among them."""

    layout: Layout
    changes: tuple[str, ...]
    study: Study


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A layout that cannot be trained. ``rule``: of `check`, "" where a dry run told it."""

    layout: Layout
    rule: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """How ranks are dry-run. ``keep``: the folder for the traces of all layouts; None for the cache."""

    fold: bool = True
    timeout_seconds: float = 3600.0
    keep: Path | None = None
    register_path: str = ""


def candidates(study: Study, given: Sequence[str], found: Iterable[Layout]) -> tuple[list[Candidate], list[Refused]]:
    """The layouts as YAMLs, and those that `check` finds errors in. ``given``: changes of the command line."""
    good, bad = [], []
    for layout in found:
        mine = (*given, *changes(study, layout))
        other = study_for_check(of_file(study.document.file, mine), os.environ)
        wrong = next((item for item in other.findings if item.severity is Severity.ERROR), None)
        if wrong is not None:
            bad.append(Refused(layout=layout, rule=wrong.rule, why=wrong.message))
        else:
            good.append(Candidate(layout=layout, changes=mine, study=other))
    return good, bad


def orders_of(candidate: Candidate, settings: RunSettings) -> list[RankOrder]:
    """One rank of each stage without swap and recompute, and with swap on where that is compiled otherwise."""
    file = candidate.study.document.file
    document = runs.without_strategy(file, candidate.changes)
    plain = study_for_run(document, os.environ)
    keep = settings.keep / candidate.layout.name.replace(" ", "-") if settings.keep is not None else None
    place = runs.place_of_baselines(document, keep)
    found = _orders(plain, place, settings)
    if is_turned_by_swap(plain.config, plain.versions):
        turned = study_for_run(runs.without_strategy(file, candidate.changes, NOTHING_SWAPPED), os.environ)
        found += _orders(turned, place / SWAP_ON, settings)
    return found


def _orders(study: Study, place: Path, settings: RunSettings) -> list[RankOrder]:
    return runs.orders(
        study.document,
        study,
        place,
        fold=settings.fold,
        timeout_seconds=settings.timeout_seconds,
        register_path=settings.register_path,
    )


def traces_of(orders: Sequence[RankOrder], known: Reports) -> tuple[Path, ...]:
    """By stage the folder of the trace of a layout, as the dry runs ``known`` left it. Raises NoRun."""
    folders = runs.traces_of(runs.stage_runs(orders, known))
    return tuple(folder for folder, order in zip(folders, orders, strict=True) if order.keep == orders[0].keep)


def run(
    asked: Mapping[Layout, Sequence[RankOrder]], runner: Runner
) -> tuple[dict[Layout, tuple[Path, ...]], list[Refused]]:
    """The traces of all that can be run, and those that MindSpore refuses or that left none."""
    known = runner([order for orders in asked.values() for order in orders])
    found, refused = {}, []
    for layout, orders in asked.items():
        try:
            found[layout] = traces_of(orders, known)
        except runs.NoRun as error:
            refused.append(Refused(layout=layout, rule="", why=str(error)))
    return found, refused
