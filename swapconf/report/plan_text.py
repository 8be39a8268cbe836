"""PLANNED -> TEXT: what was decided, what it is held against, and what each entry is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swapconf.config.yaml_text import recompute_sections, swap_section
from swapconf.decide.compact import CannotCompact
from swapconf.plan.budgets import entries_of
from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.deal import better_deal
from swapconf.plan.frontier import Frontier
from swapconf.plan.judge import SLOWER
from swapconf.plan.modes import Atom, Plan, num_ranges
from swapconf.plan.planned import Planned, Verdict, needed_bytes
from swapconf.report import plan_chart, plan_told
from swapconf.study.study import Study
from swapconf.upstream.launch_orders import Order
from swapconf.whatif.evaluation import Evaluation, RankMemory, Waits
from swapconf.words.columns import Column, PrintedTable, count, milliseconds, record, size, table, words
from swapconf.words.phrases import joined, phrase, show
from swapconf.words.units import show_bytes, show_range

_PREFETCH = "backward_prefetch"  # as the YAML calls it


def comment(planned: Planned, budget: str, hardware: str, slower_link: float) -> str:
    """What stands above a plan in the YAML."""
    judge, chosen = planned.judge, planned.chosen
    needs, step = show_bytes(planned.needed_bytes), f"a step of {judge.nominal(chosen.plan).us / 1000:.1f} ms"
    return plan_told.comment(budget, needs, step, hardware, chosen.found.step_us, slower_link)


def verdict_lines(planned: Planned, study: Study) -> Iterator[str]:
    """What the plan comes to, and where none fits what holds the memory and what to try."""
    judge, limits = planned.judge, planned.judge.limits
    yield from plan_told.room_line(limits)
    if planned.verdict is Verdict.NOT_NEEDED:
        yield plan_told.not_needed(planned.needed_bytes, limits)
    elif planned.verdict is Verdict.IMPOSSIBLE:
        ranks = (rank for rank, _ in judge.evaluator.ranks)
        yield from plan_told.nothing_fits(planned.needed_bytes, limits, zip(ranks, judge.evaluator.traces, strict=True))
    elif planned.verdict is Verdict.FULL:
        yield phrase(
            "full recompute is as good as anything else that fits in {budget}", budget=show_bytes(limits.usable_bytes)
        )
    else:
        yield phrase(
            "planned for {budget}: {entries}", budget=show_bytes(limits.usable_bytes), entries=in_words(planned)
        )
    if (cost := _cost_of_ranges(planned)) > _NOTICED:
        yield plan_told.regular_line(*_ranges_told(planned), cost)
    if (deal := better_deal(planned)) is not None:
        yield phrase(
            "with {layers} layers on the stages nothing has to be swapped or recomputed, and a step is estimated at "
            "{change:+.2f}% of one with the layers as they are and nothing swapped or recomputed; to see: "
            "`--set model.model_config.offset={offset}`",
            layers=", ".join(map(str, deal.counts)),
            change=100 * deal.change,
            offset="[" + ",".join(map(str, deal.offset)) + "]",
        )
    if planned.is_interrupted:
        yield plan_told.ENDED_EARLY


_NOTICED = 0.00005  # of a step: what is shown as 0.01 %


def _cost_of_ranges(planned: Planned) -> float:
    """What it costs that layers are in ranges, as a share of the step of the fastest plan that was found."""
    fastest = planned.fastest
    if fastest is None or not fastest.fits or not planned.chosen.fits:
        return 0.0
    return planned.chosen.found.step_us / fastest.found.step_us - 1


def _ranges_told(planned: Planned) -> tuple[int, int]:
    """Of the plan, and of the fastest one."""
    base, fastest = planned.judge.base, planned.fastest or planned.chosen
    return num_ranges(planned.chosen.plan, base), num_ranges(fastest.plan, base)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Strategy:
    """One that is held against the plan. ``pools``: by rank, with fragments; ``none_us``: the step without any."""

    name: str
    fits: bool
    found: Evaluation
    pools: Sequence[int]
    host_bytes: int
    waits: Waits
    none_us: float


def _strategies(num_ranks: int) -> tuple[Column[_Strategy], ...]:
    """Stalls and bubbles are those of the rank that has most, with the slower link; of one stage there are no
    bubbles."""
    bubbles: Column[_Strategy] = milliseconds(phrase("bubbles ms"), lambda item: max(item.waits.bubble_us))
    return (
        words(phrase("strategy"), lambda item: item.name),
        words(phrase("fits"), lambda item: plan_told.yes_no(item.fits)),
        size(phrase("used peak"), lambda item: max(rank.used_peak_bytes for rank in item.found.ranks)),
        size(phrase("with fragments"), lambda item: max(item.pools)),
        size(phrase("host"), lambda item: item.host_bytes),
        size(phrase("moved"), lambda item: item.found.moved_bytes),
        milliseconds(phrase("stalls ms"), lambda item: max(item.waits.stall_us)),
        *[bubbles] * (num_ranks > 1),
        milliseconds(phrase("step ms"), lambda item: item.found.step_us),
        Column(title=phrase("change"), shown=lambda item: f"{100 * (item.found.step_us / item.none_us - 1):+.2f}%"),
    )


def strategies(planned: Planned, study: Study) -> PrintedTable:
    """The plan, what people use today, and the YAML as it is."""
    judge, evaluator = planned.judge, planned.judge.evaluator
    none_us = judge.evaluation((frozenset(),) * len(judge.layers)).step_us

    def strategy(name: str, found: Evaluation, pools: Sequence[int], waits: Waits) -> _Strategy:
        fits = not judge.limits.over_bytes(pools) and not judge.host_over_bytes(found) and not found.crashes
        host_bytes = judge.host_bytes(found)
        return _Strategy(
            name=name, fits=fits, found=found, pools=pools, host_bytes=host_bytes, waits=waits, none_us=none_us
        )

    plans = [(phrase("the plan"), planned.chosen.plan), *((name, item.plan) for name, item in planned.simple.items())]
    told = [strategy(name, judge.evaluation(plan), judge.pool_bytes(plan), judge.waits(plan)) for name, plan in plans]
    keys = [("as it is", rank) for rank in evaluator.ranks]
    found = evaluator.evaluate(study.config, keys, machine=SLOWER)
    pools, waits = evaluator.with_fragments_bytes(study.config, keys), evaluator.waits(study.config, keys, SLOWER)
    told.append(strategy(phrase("the YAML as it is"), found, pools, waits))
    return table(_strategies(len(evaluator.ranks)), told)


def entries(planned: Planned) -> list[plan_told.Entry]:
    return [
        plan_told.Entry(
            path=item.atom.path,
            prefetch=_prefetch(item.atom),
            layers=item.layers,
            saved_bytes=item.saved_bytes,
            cost_us=item.cost_us,
            moved_bytes=item.moved_bytes,
        )
        for item in planned.worth
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rank:
    """One rank under the plan. ``most_bytes``: what its pool may take."""

    rank: int
    stage: int
    memory: RankMemory
    pool_bytes: int
    workspace_bytes: int
    most_bytes: int
    stall_us: float
    bubble_us: float


_RANKS: tuple[Column[_Rank], ...] = (
    count(phrase("rank"), lambda item: item.rank, "rank"),
    count(phrase("stage"), lambda item: item.stage, "stage"),
    size(phrase("used peak"), lambda item: item.memory.used_peak_bytes, "used_peak_bytes"),
    size(phrase("with fragments"), lambda item: item.pool_bytes, "with_fragments_peak_bytes"),
    size(phrase("workspace at most"), lambda item: item.workspace_bytes, "workspace_bytes"),
    size(phrase("may take"), lambda item: item.most_bytes),
    size(phrase("host"), lambda item: item.memory.host_peak_bytes, "host_peak_bytes"),
    Column(key="moved_bytes_per_step", value=lambda item: item.memory.moved_bytes),
    Column(key="recomputed_kernels_per_step", value=lambda item: item.memory.recomputed),
    Column(key="stall_us_slower_link", value=lambda item: item.stall_us),
    Column(key="bubble_us_slower_link", value=lambda item: item.bubble_us),
)


def _ranks(planned: Planned) -> Iterator[_Rank]:
    judge, chosen = planned.judge, planned.chosen
    waits = judge.waits(chosen.plan)
    for (rank, stage), memory, pool, workspace, most, stall_us, bubble_us in zip(
        judge.evaluator.ranks,
        chosen.found.ranks,
        judge.pool_bytes(chosen.plan),
        judge.limits.workspace_bytes,
        judge.limits.pool_bytes,
        waits.stall_us,
        waits.bubble_us,
        strict=True,
    ):
        yield _Rank(
            rank=rank,
            stage=stage,
            memory=memory,
            pool_bytes=pool,
            workspace_bytes=workspace,
            most_bytes=most,
            stall_us=stall_us,
            bubble_us=bubble_us,
        )


def stages(planned: Planned) -> PrintedTable:
    """Each rank under the plan."""
    return table(_RANKS, _ranks(planned))


def confirmation(found: Sequence[ConfirmedRank]) -> PrintedTable:
    """Predicted and true, by rank."""
    return table(plan_told.CONFIRMED, found)


def order_lines(planned: Planned) -> Iterator[str]:
    """By which order of launches memory was told, where more was asked than whether anything is needed."""
    judge = planned.judge
    if not judge.settled:
        return
    ways = dict.fromkeys(judge.ways(planned.chosen.plan))
    yield from dict.fromkeys(way.told for way in ways)
    if any(way.order is Order.MINDSPORE for way in ways):
        yield phrase(
            "so of the plan, and of those near it; other plans were judged by the order in the run of the trace"
        )
    else:
        yield phrase("`--confirm` shows the true run")


def link_line(planned: Planned, slower_link: float) -> str:
    """What a slower link does to the plan, and how sure its time is."""
    step = planned.judge.nominal(planned.chosen.plan)
    nominal = show_range(step.us, step.low_us, step.high_us)
    return plan_told.link_line(nominal, planned.chosen.found.step_us, slower_link)


def as_record(
    planned: Planned,
    study: Study,
    text: str,
    confirmed: Sequence[ConfirmedRank],
    slower_link: float,
    frontier: Frontier[Plan] | None,
) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers, times in microseconds. ``text``: the YAML with the plan."""
    judge, chosen = planned.judge, planned.chosen
    step = judge.nominal(chosen.plan)
    try:
        config = judge.written(chosen.plan)
    except CannotCompact:
        config = judge.config(chosen.plan)
    nothing = judge.score((frozenset(),) * len(judge.layers))
    deal = better_deal(planned)
    return {
        "verdict": planned.verdict.name.lower(),
        "budget_bytes": judge.limits.budget_bytes,
        "usable_bytes": judge.limits.usable_bytes,
        "needed_bytes": planned.needed_bytes,
        "fits": chosen.fits,
        "plans_asked": judge.asked,
        "step_us": {
            "plan": step.us,
            "plan_low": step.low_us,
            "plan_high": step.high_us,
            "plan_slower_link": chosen.found.step_us,
            "none": nothing.found.step_us,
        },
        "ranges": _ranges_told(planned)[0],
        "ranges_of_fastest": _ranges_told(planned)[1],
        "ranges_cost": _cost_of_ranges(planned),
        "share": {origin.value: part for origin, part in step.share.items()},
        "slower_link": slower_link,
        "ranks": [record(_RANKS, rank) for rank in _ranks(planned)],
        "entries": plan_told.entry_records(entries(planned), _PREFETCH),
        "simple": [
            {
                "strategy": show(name),
                "fits": scored.fits,
                "step_us_slower_link": scored.found.step_us,
                "used_peak_bytes": max(rank.used_peak_bytes for rank in scored.found.ranks),
                "needed_bytes": needed_bytes(judge, scored.plan),
            }
            for name, scored in planned.simple.items()
        ],
        "frontier": None if frontier is None else plan_chart.records(frontier, _PREFETCH),
        "confirmed": [record(plan_told.CONFIRMED, item) for item in confirmed],
        "other_layout": None
        if deal is None
        else {"layers": list(deal.counts), "offset": list(deal.offset), "step_change": deal.change},
        "sections": {**swap_section(config), **recompute_sections(config)},
        "yaml": text,
        "order_of_launches": [way.as_record() for way in judge.ways(chosen.plan)],
        "origin": show(joined("; ", [judge.evaluator.origin, *order_lines(planned)])),
    }


def _prefetch(atom: Atom) -> int | None:
    return atom.prefetch if atom.kind == "swap" else None


def in_words(planned: Planned) -> str:
    """What a plan asks for; "" for nothing."""
    chosen = planned.chosen.plan
    return plan_told.in_words(entries_of(chosen), len(chosen))
