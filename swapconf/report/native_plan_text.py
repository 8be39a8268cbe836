"""NATIVE PLANNED -> TEXT: what was decided for a PyNative run, what it is held against, what each entry is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapconf.config.yaml_text import recompute_sections, swap_section
from swapconf.dryrun.pynative.expert_load import told_by
from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.frontier import Frontier
from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.budgets import entries_of
from swapconf.plan.pynative.menu import uniform
from swapconf.plan.pynative.modes import KEEP, NativeEntry, NativePlan
from swapconf.plan.pynative.planned import NativePlanned
from swapconf.plan.pynative.scores import NativeScore
from swapconf.plan.pynative.simple import simple
from swapconf.report import plan_chart, plan_told
from swapconf.whatif.pynative.question import RACING, NativeMismatch
from swapconf.words.columns import Column, PrintedTable, milliseconds, record, size, table, words
from swapconf.words.phrases import joined, phrase, show
from swapconf.words.units import show_bytes, show_range

ORIGIN = phrase(
    "memory by the PyNative what-if, at most, and with the fragments of MindSpore's pool; times estimated from the "
    "shapes of kernels, one after another, without what Python takes to launch them and without collectives"
)


_PREFETCH = "default_prefetch"  # as the YAML calls it


def origin(planned: NativePlanned) -> str:
    """Where the figures come from, and of which load of experts they are."""
    load = told_by(Path(planned.judge.stages[0].question.trace.folder))
    return joined(", ", [ORIGIN, *[load] * bool(load)])


def comment(planned: NativePlanned, budget: str, hardware: str, slower_link: float) -> str:
    """What stands above a plan in the YAML."""
    judge, chosen = planned.judge, planned.chosen
    needs = f"{show_bytes(judge.needed_bytes(chosen))} at most"
    step = f"kernels of {judge.nominal(chosen).step_us / 1000:.1f} ms a step"
    return plan_told.comment(budget, needs, step, hardware, judge.time(chosen).step_us, slower_link)


def verdict_lines(planned: NativePlanned) -> Iterator[str]:
    """What the plan comes to, and where none fits what holds the memory."""
    judge, chosen = planned.judge, planned.chosen
    needed_bytes = judge.needed_bytes(chosen)
    yield from plan_told.room_line(judge.limits)
    if planned.verdict is Verdict.NOT_NEEDED:
        yield plan_told.not_needed(needed_bytes, judge.limits)
    elif planned.verdict is Verdict.IMPOSSIBLE:
        yield from plan_told.nothing_fits(
            needed_bytes,
            judge.limits,
            [(stage.rank, stage.question.trace) for stage in judge.stages],
            is_out_of_reach=judge.is_out_of_reach,
        )
        yield from _but_for_fragments(planned)
    else:
        yield phrase(
            "planned for {budget}: {entries}",
            budget=show_bytes(judge.limits.usable_bytes),
            entries=plan_told.in_words(entries_of(chosen), judge.num_layers),
        )
    if planned.verdict in (Verdict.PLANNED, Verdict.FULL) and judge.base.pipeline.is_one_card:
        yield phrase(
            "this YAML is of one card, where mindformers applies neither recompute nor swap; the plan is what a card "
            "of several that run the same would do"
        )
    if judge.cards.num_devices > 1 and not judge.launches_blocked:
        yield RACING
    if planned.is_interrupted:
        yield plan_told.ENDED_EARLY


def _but_for_fragments(planned: NativePlanned) -> Iterator[str]:
    """Where what tensors hold would fit."""
    judge = planned.judge
    used = judge.limits.needed_bytes(judge.safe_bytes(planned.chosen))
    if used <= judge.limits.usable_bytes:
        yield phrase(
            "without fragments it needs {used}, which fits: virtual memory, MindSpore's default on a card, joins "
            "nearly all of them (MS_ALLOC_CONF=enable_vmm:True); a simulated device has none",
            used=show_bytes(used),
        )


def link_line(planned: NativePlanned, slower_link: float) -> str:
    """What a slower link does to the plan, and how sure its time is."""
    judge, nominal = planned.judge, planned.judge.nominal(planned.chosen)
    told = show_range(nominal.step_us, *judge.range_us(nominal.step_us))
    return plan_told.link_line(told, judge.time(planned.chosen).step_us, slower_link)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Strategy:
    """One that is held against the plan. ``none_us``: the step without any."""

    name: str
    score: NativeScore
    none_us: float


_STRATEGIES: tuple[Column[_Strategy], ...] = (
    words(phrase("strategy"), lambda item: item.name),
    words(phrase("fits"), lambda item: plan_told.yes_no(item.score.fits)),
    size(phrase("used peak"), lambda item: item.score.used_bytes),
    size(phrase("at most"), lambda item: item.score.safe_bytes),
    size(phrase("with fragments"), lambda item: item.score.mapped_bytes),
    size(phrase("host"), lambda item: item.score.host_bytes),
    size(phrase("moved"), lambda item: item.score.moved_bytes),
    milliseconds(phrase("stalls ms"), lambda item: item.score.time.stall_us),
    milliseconds(phrase("run again ms"), lambda item: item.score.time.again_us),
    milliseconds(phrase("step ms"), lambda item: item.score.time.step_us),
    Column(title=phrase("change"), shown=lambda item: f"{100 * (item.score.time.step_us / item.none_us - 1):+.2f}%"),
)


def strategies(planned: NativePlanned) -> PrintedTable:
    """The plan, what people use today, and the YAML as it is, with the slower link."""
    judge = planned.judge
    none_us = judge.time(uniform(judge, KEEP)).step_us
    scores = [(name, judge.score(judge.config(plan))) for name, plan in _told(planned)]
    with suppress(NativeMismatch):  # the what-if has no answer for everything
        scores.append((phrase("the YAML as it is"), judge.score(judge.base)))
    return table(_STRATEGIES, (_Strategy(name=name, score=score, none_us=none_us) for name, score in scores))


def _told(planned: NativePlanned) -> Iterator[tuple[str, NativePlan]]:
    yield phrase("the plan"), planned.chosen
    yield from simple(planned.judge).items()


def entries(planned: NativePlanned) -> list[plan_told.Entry]:
    return [
        plan_told.Entry(
            path=item.entry.path,
            prefetch=_prefetch(item.entry, planned.chosen),
            layers=item.entry.layers,
            saved_bytes=item.saved_bytes,
            cost_us=item.cost_us,
            moved_bytes=item.moved_bytes,
        )
        for item in planned.worth
    ]


def confirmation(planned: NativePlanned, found: Sequence[ConfirmedRank]) -> PrintedTable:
    """Predicted and true."""
    judge, chosen = planned.judge, planned.chosen
    rank, used, true, off, _, *others = plan_told.CONFIRMED
    place = {stage.rank: number for number, stage in enumerate(judge.stages)}
    safe, fragments = judge.safe_bytes(chosen), judge.mapped_bytes(chosen)
    at_most: Column[ConfirmedRank] = size(phrase("at most"), lambda item: safe[place.get(item.rank, 0)])
    mapped: Column[ConfirmedRank] = size(
        phrase("with fragments, predicted"), lambda item: fragments[place.get(item.rank, 0)]
    )
    return table((rank, used, at_most, true, off, mapped, *others), found)


def as_record(
    planned: NativePlanned,
    text: str,
    confirmed: Sequence[ConfirmedRank],
    slower_link: float,
    frontier: Frontier[NativePlan] | None,
) -> dict[str, Any]:
    """The JSON form, with the keys of graph mode as far as they are known. Bytes as whole numbers, times in
    microseconds. ``text``: the YAML with the plan."""
    judge, chosen = planned.judge, planned.chosen
    config = judge.config(chosen)
    score, nominal = judge.score(config), judge.nominal(chosen)
    low, high = judge.range_us(nominal.step_us)
    return {
        "verdict": planned.verdict.name.lower(),
        "budget_bytes": judge.limits.budget_bytes,
        "usable_bytes": judge.limits.usable_bytes,
        "needed_bytes": judge.needed_bytes(chosen),
        "fits": score.fits,
        "plans_asked": judge.asked,
        "step_us": {
            "plan": nominal.step_us,
            "plan_low": low,
            "plan_high": high,
            "plan_slower_link": score.time.step_us,
            "none": judge.time(uniform(judge, KEEP)).step_us,
        },
        "share": {origin.value: part for origin, part in judge.stages[0].times.shares().items()},
        "slower_link": slower_link,
        "ranks": [
            {
                "rank": one.rank,
                "stage": number,
                "used_peak_bytes": one.prediction.used_peak_bytes,
                "safe_used_peak_bytes": one.safe_bytes,
                "with_fragments_peak_bytes": one.mapped_bytes,
                "host_peak_bytes": one.prediction.host_peak_bytes,
                "moved_bytes_per_step": sum(one.prediction.moved_bytes.values()),
                "recomputed_kernels_per_step": sum(one.prediction.kernels.values()),
                "stall_us_slower_link": one.time.stall_us,
            }
            for number, one in enumerate(score.stages)
        ],
        "entries": plan_told.entry_records(entries(planned), _PREFETCH),
        "simple": [
            {
                "strategy": show(name),
                "fits": judge.fits(plan),
                "step_us_slower_link": judge.time(plan).step_us,
                "used_peak_bytes": judge.used_bytes(plan),
                "needed_bytes": judge.needed_bytes(plan),
            }
            for name, plan in simple(judge).items()
        ],
        "frontier": None if frontier is None else plan_chart.records(frontier, _PREFETCH),
        "confirmed": [record(plan_told.CONFIRMED, item) for item in confirmed],
        "sections": {**swap_section(config), **recompute_sections(config)},
        "yaml": text,
        "origin": show(origin(planned)),
    }


def _prefetch(entry: NativeEntry, plan: NativePlan) -> int | None:
    return plan.prefetch if entry.is_swap else None
