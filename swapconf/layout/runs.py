"""LAYOUTS -> ORDERS: which ranks of which layouts are dry-run.

Each layout is the YAML under other keys, so that its runs stand in the cache by what they are of: a second search goes
on from there. Which of them are run, and which are composed from others, says `stages.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swapconf.config.overrides import of_file
from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout.layout import Layout
from swapconf.layout.stages import Asked, asked
from swapconf.layout.written import changes
from swapconf.plan import runs
from swapconf.study.study import Study, study_for_check, study_for_run
from swapconf.whatif.inlined import NOTHING_SWAPPED, SWAP_ON, is_turned_by_swap
from swapconf.words.findings import Severity


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
    """How ranks are dry-run. ``composes``: stages that runs of other layouts tell are not run. ``keep``: the folder for
    the traces of all layouts; None for the cache."""

    fold: bool = True
    composes: bool = True
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


def last_rank(candidate: Candidate, settings: RunSettings) -> RankOrder:
    """Of the last stage, whole, without swap and recompute."""
    document = runs.without_strategy(candidate.study.document.file, candidate.changes)
    place = runs.place_of_baselines(document, None)
    whole = replace(settings, fold=False)
    return _orders(study_for_run(document, os.environ), place, whole, candidate.layout)[-1]


def asked_of(candidate: Candidate, settings: RunSettings) -> Asked:
    """One rank of each stage without swap and recompute, and with swap on where that is compiled otherwise."""
    file = candidate.study.document.file
    document = runs.without_strategy(file, candidate.changes)
    plain = study_for_run(document, os.environ)
    keep = settings.keep / candidate.layout.name.replace(" ", "-") if settings.keep is not None else None
    place = runs.place_of_baselines(document, keep)
    turned: list[RankOrder] = []
    if is_turned_by_swap(plain.config, plain.versions):
        other = study_for_run(runs.without_strategy(file, candidate.changes, NOTHING_SWAPPED), os.environ)
        turned = _orders(other, place / SWAP_ON, settings, candidate.layout)
    return asked(plain, _orders(plain, place, settings, candidate.layout), turned)


def _orders(study: Study, place: Path, settings: RunSettings, layout: Layout) -> list[RankOrder]:
    orders = runs.orders(
        study.document,
        study,
        place,
        fold=settings.fold,
        timeout_seconds=settings.timeout_seconds,
        register_path=settings.register_path,
    )
    return [replace(order, title=layout.name) for order in orders]
