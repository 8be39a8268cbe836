"""ORDERS of layouts -> TRACES: which stages are dry-run, and which are composed from runs of other layouts.

Stages of one role differ from layout to layout in their layers, micro-batches and place, which can be composed. What is
run is chosen by what was run before in the same search, never by what happens to be in the cache, so that a second
search gives the same answer as the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from swapconf.dryrun.composing.composed import Source, composed
from swapconf.dryrun.composing.expected import expected
from swapconf.dryrun.composing.keep import Kept, keep, offers, source
from swapconf.dryrun.composing.offers import Offer, chosen
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.repeated import shown
from swapconf.dryrun.composing.stage import Stage
from swapconf.dryrun.kept_runs import Reports
from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout.layout import Layout
from swapconf.plan import runs
from swapconf.study.study import Study
from swapconf.words.findings import SwapconfError

Runner: TypeAlias = Callable[[Sequence[RankOrder]], Reports]
COMPOSED = "composed"  # the folder beside those of the ranks
_SOURCES = 6  # traces that are kept in memory


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The dry runs of a layout.

    Attributes:
        orders: One rank of each stage, without swap and recompute.
        turned: The same with swap on, where MindSpore compiles that otherwise; nothing of such a layout is composed.
        offered: By stage, what its run will leave behind, the whole stage first.
    """

    orders: tuple[RankOrder, ...]
    turned: tuple[RankOrder, ...] = ()
    offered: tuple[tuple[Offer, ...], ...] = ()

    @property
    def every(self) -> tuple[RankOrder, ...]:
        return (*self.orders, *self.turned)


def asked(study: Study, orders: Sequence[RankOrder], turned: Sequence[RankOrder]) -> Asked:
    """``study``: of the orders."""
    stages = (Stage(study=study, number=number) for number in range(len(orders)))
    return Asked(
        orders=tuple(orders),
        turned=tuple(turned),
        offered=tuple(expected(order, stage) for order, stage in zip(orders, stages, strict=True)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Traced:
    """The traces of a layout.

    Attributes:
        folders: By stage.
        origins: By stage from what it is composed, "" where it was run.
        ran: How many ranks were run for it now, or read from the cache.
    """

    folders: tuple[Path, ...]
    origins: tuple[str, ...]
    ran: int

    @property
    def composed(self) -> int:
        return sum(map(bool, self.origins))


class _Part(NamedTuple):
    """One stage of a layout."""

    layout: Layout
    number: int


@dataclass(kw_only=True)
class Stages:
    """Makes traces of stages. ``composes``: whether it composes any; else all are run. ``not_composed``: why stages
    were run that were to be composed, and how many for each reason."""

    runner: Runner
    composes: bool = True
    not_composed: Counter[str] = field(default_factory=Counter)
    _known: Reports = field(default_factory=dict)
    _kept: list[Kept] = field(default_factory=list)
    _sources: dict[Path, Source] = field(default_factory=dict)

    def to_run(self, wanted: Mapping[Layout, Asked], truly: Collection[Layout] = ()) -> int:
        """How many ranks `traces` would run."""
        return sum(1 for _ in self._orders(wanted, self._dealt(wanted, truly)))

    def traces(
        self, wanted: Mapping[Layout, Asked], truly: Collection[Layout] = ()
    ) -> tuple[dict[Layout, Traced], dict[Layout, str]]:
        """Those of all that can be run, and why others cannot. ``truly``: layouts of which nothing is composed."""
        made = self._dealt(wanted, truly)
        ran = self._run(wanted, made)
        found: dict[Layout, Traced] = {}
        broken: dict[Layout, str] = {}
        for layout, item in wanted.items():
            try:
                self._gather(item, [part.number for part in made if part.layout == layout])
            except runs.NoRun as error:
                broken[layout] = str(error)
        origins = {part: words for part in made if part.layout not in broken for words in self._composed(wanted, part)}
        left = [part for part in made if part.layout not in broken and part not in origins]
        for layout, more in self._run(wanted, [part for part in made if part not in left]).items():
            ran[layout] += more
        for layout, item in wanted.items():
            try:
                if layout not in broken:
                    words = tuple(origins.get(_Part(layout, number), "") for number in range(len(item.orders)))
                    found[layout] = Traced(folders=self._folders(item, words), origins=words, ran=ran[layout])
            except runs.NoRun as error:
                broken[layout] = str(error)
        return found, broken

    # --- which are run, and which composed ----------------------------------------------------------------------------

    def _dealt(self, wanted: Mapping[Layout, Asked], truly: Collection[Layout]) -> list[_Part]:
        """What is to be composed. Those are looked at first that show what steps with more micro-batches, in flight and
        in all, repeat; of these those that keep most in flight."""
        there: list[Offer] = list(self._kept)
        parts = [_Part(layout, number) for layout, item in wanted.items() for number in range(len(item.orders))]
        made = []
        for part in sorted(parts, key=lambda part: _turn(self._whole(wanted, part))):
            item = wanted[part.layout]
            may = self.composes and part.layout not in truly and not item.turned
            if may and not self._is_run(item.orders[part.number]) and _composes(self._whole(wanted, part), there):
                made.append(part)
            else:
                there += item.offered[part.number]
        return made

    @staticmethod
    def _whole(wanted: Mapping[Layout, Asked], part: _Part) -> Offer:
        return wanted[part.layout].offered[part.number][0]

    def _orders(self, wanted: Mapping[Layout, Asked], made: Collection[_Part]) -> Iterator[tuple[Layout, RankOrder]]:
        """What has to be run."""
        for layout, item in wanted.items():
            for number, order in enumerate(item.every):
                if _Part(layout, number) not in made and not self._is_run(order):
                    yield layout, order

    def _is_run(self, order: RankOrder) -> bool:
        return _key(order) in self._known

    def _run(self, wanted: Mapping[Layout, Asked], made: Collection[_Part]) -> dict[Layout, int]:
        """How many were run for each. ``made``: what is composed."""
        todo = list(self._orders(wanted, made))
        if todo:
            self._known.update(self.runner([order for _, order in todo]))
        return {layout: sum(1 for one, _ in todo if one == layout) for layout in wanted}

    # --- traces -------------------------------------------------------------------------------------------------------

    def _gather(self, item: Asked, made: Collection[int]) -> None:
        """What was run of a layout can be composed from. Raises NoRun."""
        ran = [order for number, order in enumerate(item.every) if number not in made]
        for one in runs.traces_of(runs.stage_runs(ran, self._known)):
            if one not in {kept.folder for kept in self._kept} and one.parent == item.orders[0].keep:
                self._kept += offers(one, item.orders[0].settings)

    def _folders(self, item: Asked, origins: Sequence[str]) -> tuple[Path, ...]:
        """Raises NoRun."""
        ran = [order for order, words in zip(item.orders, origins, strict=True) if not words]
        there = dict(zip(map(_key, ran), runs.traces_of(runs.stage_runs(ran, self._known)), strict=True))
        return tuple(there.get(_key(order), _place(order) / f"rank_{order.rank}") for order in item.orders)

    def _composed(self, wanted: Mapping[Layout, Asked], part: _Part) -> Iterator[str]:
        """From what it is composed; nothing where it has to be run after all."""
        item = wanted[part.layout]
        whole, order = item.offered[part.number][0], item.orders[part.number]
        count = self._micro_batches(item) or whole.micro_batches
        try:
            made = composed(whole.stage, [self._source(one) for one in chosen(whole.stage, self._kept, count)], count)
            keep(made, _place(order))
            yield made.words
        except (CannotCompose, SwapconfError) as reason:
            self.not_composed[str(reason)] += 1

    def _micro_batches(self, item: Asked) -> int:
        """Of the stages that were run, as all traces of a step have equally many; 0 where none was."""
        places = {order.keep / f"rank_{order.rank}" for order in item.orders if order.keep and self._is_run(order)}
        return max((kept.micro_batches for kept in self._kept if kept.folder in places), default=0)

    def _source(self, one: Kept) -> Source:
        if one.folder not in self._sources:
            if len(self._sources) >= _SOURCES:
                del self._sources[next(iter(self._sources))]
            self._sources[one.folder] = source(one.folder)
        return self._sources[one.folder]


def _composes(whole: Offer, there: Sequence[Offer]) -> bool:
    try:
        return bool(chosen(whole.stage, there, whole.micro_batches))
    except CannotCompose:
        return False


def _turn(whole: Offer) -> tuple[int, int]:
    in_flight = whole.in_flight
    return -shown(in_flight, whole.micro_batches, whole.stage.role.last_pairs), -in_flight


def _key(order: RankOrder) -> tuple[Path, int]:
    assert order.keep is not None
    return order.keep, order.rank


def _place(order: RankOrder) -> Path:
    assert order.keep is not None
    return order.keep / COMPOSED
