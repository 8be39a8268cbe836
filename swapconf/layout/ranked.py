"""FOUND + WORLD -> RANKING: the layouts that were planned side by side, the YAML as it is among them.

Two layouts are called equal where their difference may be nothing, by what is uncertain of it (`timing.parts`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from swapconf.decide.layout import size
from swapconf.layout.found import Fate, Found, Lost
from swapconf.layout.judged import Judged
from swapconf.layout.layout import Layout, plain
from swapconf.plan.judge import SLOWER, Judge
from swapconf.plan.modes import Plan
from swapconf.plan.planned import Planned, needed_bytes
from swapconf.study.study import Study
from swapconf.timing.parts import StepParts, difference_us
from swapconf.whatif.evaluation import Evaluation

_SEQUENCE = ("seq_length", "max_position_embeddings")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One layout with one strategy.

    Attributes:
        planned: None for the YAML as it is.
        tightest_stage, left_bytes: The stage whose pool has least left, and how much; below zero where it does not fit.
        needed_bytes: The least budget of a card that it fits in.
        tokens_per_second: Of each card; None where the YAML does not tell the length of sequences.
        composed: From what traces of it are composed that were not run, each once.
        more_us: By how much its step is longer than the best, with the range of that; None for the best itself, and
            where nothing fits.
    """

    layout: Layout
    planned: Planned | None
    fits: bool
    parts: StepParts
    tightest_stage: int
    left_bytes: int
    needed_bytes: int
    host_bytes: int
    tokens_per_second: float | None
    composed: tuple[str, ...] = ()
    more_us: tuple[float, float, float] | None = None

    @property
    def is_as_it_is(self) -> bool:
        return self.planned is None

    @property
    def plan(self) -> Plan:
        """Of what was planned."""
        assert self.planned is not None
        return self.planned.chosen.plan

    @property
    def is_equal(self) -> bool:
        """Whether its difference to the best may be nothing."""
        return self.more_us is not None and self.more_us[1] <= 0 <= self.more_us[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class LostGroup:
    """Layouts that were left out for one reason. ``nearest``: the one of them that misses least, None where that is no
    number; ``words``: what is told of them, else, each once, with how many."""

    fate: Fate
    layouts: tuple[Layout, ...]
    nearest: Lost | None = None
    words: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """``rows``: planned, the fastest that fits first. ``as_it_is``: the YAML itself; None where it is not for these
    cards or was not run. ``usable_bytes``: of a card."""

    rows: tuple[Row, ...]
    lost: tuple[LostGroup, ...]
    found: Found
    cards: int
    usable_bytes: int
    as_it_is: Row | None = None

    @property
    def best(self) -> Row | None:
        """None where nothing fits."""
        return self.rows[0] if self.rows and self.rows[0].fits else None

    @property
    def equal(self) -> tuple[Row, ...]:
        """The others that may be as fast as the best."""
        return tuple(row for row in self.rows[1:] if row.fits and row.is_equal) if self.best is not None else ()


def ranked(found: Found, world: Judged, study: Study, own: Layout | None, usable_bytes: int) -> Ranking:
    """``study``: of the YAML; ``own``: its layout where it is for these cards."""
    rows = [_row(final.layout, world, study) for final in found.finals]
    best = rows[0] if rows and rows[0].fits else None
    as_it_is = _as_it_is(own, world, study) if own is not None and own in world.planned else None
    cards = found.tried[0].layout.cards if found.tried else 0
    return Ranking(
        rows=tuple(_against(row, best) for row in rows),
        lost=tuple(_groups(found)),
        found=found,
        cards=cards,
        usable_bytes=usable_bytes,
        as_it_is=_against(as_it_is, best) if as_it_is is not None else None,
    )


def _against(row: Row, best: Row | None) -> Row:
    return row if best is None or row is best else replace(row, more_us=difference_us(best.parts, row.parts))


def _row(layout: Layout, world: Judged, study: Study) -> Row:
    planned = world.planned[layout]
    judge, plan = planned.judge, planned.chosen.plan
    found, pools = judge.evaluation(plan), judge.pool_bytes(plan)
    row = _made(layout, judge, planned, judge.parts(plan), found, pools, needed_bytes(judge, plan), study)
    return replace(row, composed=tuple(dict.fromkeys(filter(None, world.origins(layout)))))


def _as_it_is(own: Layout, world: Judged, study: Study) -> Row:
    """With the strategy of the YAML."""
    judge = world.planned[own].judge
    keys = [("as it is", rank) for rank in judge.evaluator.ranks]
    found = judge.evaluator.evaluate(study.config, keys, machine=SLOWER)
    pools = judge.evaluator.with_fragments_bytes(study.config, keys)
    parts = judge.evaluator.parts(study.config, keys, SLOWER)
    return _made(own, judge, None, parts, found, pools, judge.limits.needed_bytes(pools), study)


def _made(
    layout: Layout,
    judge: Judge,
    planned: Planned | None,
    parts: StepParts,
    found: Evaluation,
    pools: tuple[int, ...],
    needed: int,
    study: Study,
) -> Row:
    left = [most - pool for most, pool in zip(judge.limits.pool_bytes, pools, strict=True)]
    tightest = min(range(len(left)), key=left.__getitem__)
    fits = min(left) >= 0 and not judge.host_over_bytes(found) and not found.crashes
    return Row(
        layout=layout,
        planned=planned,
        fits=fits,
        parts=parts,
        tightest_stage=judge.evaluator.ranks[tightest][1],
        left_bytes=left[tightest],
        needed_bytes=needed,
        host_bytes=judge.host_bytes(found),
        tokens_per_second=_tokens_per_second(layout, study, parts.step_us),
    )


def _tokens_per_second(layout: Layout, study: Study, step_us: float) -> float | None:
    length = size(study.config, *_SEQUENCE)
    halves = plain(study.document, "micro_batch_interleave_num")
    times = halves if isinstance(halves, int) and halves > 0 else 1
    if length is None or not step_us:
        return None
    return layout.sequences * times * length.value / layout.cards / step_us * 1e6


def _groups(found: Found) -> Iterator[LostGroup]:
    """In the order in which layouts are left out."""
    for fate in Fate:
        mine = [item for item in found.lost if item.fate is fate]
        if not mine:
            continue
        words: defaultdict[str, int] = defaultdict(int)
        for item in mine:
            if isinstance(item.told, str) and item.told:
                words[item.told] += 1
        numbers = [item for item in mine if isinstance(item.told, float) and item.told < inf]
        yield LostGroup(
            fate=fate,
            layouts=tuple(item.layout for item in mine),
            nearest=min(numbers, key=lambda item: (item.told, item.layout), default=None),
            words=dict(words) or None,
        )
