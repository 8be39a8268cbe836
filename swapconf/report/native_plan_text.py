"""NATIVE PLANNED -> TEXT: what was decided for a PyNative run, what it is held against, what each entry is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from swapconf.config.yaml_text import recompute_sections, swap_section
from swapconf.memory.advice import advice, peak_line
from swapconf.memory.holders import peak
from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.judge import NativeJudge, NativeScore
from swapconf.plan.pynative.menu import uniform
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativeEntry, NativePlan
from swapconf.plan.pynative.planned import NativePlanned, fewest
from swapconf.report.memory_tables import PrintedTable
from swapconf.report.plan_text import room_line
from swapconf.whatif.pynative.question import RACING, NativeMismatch
from swapconf.words.phrases import joined, phrase, show
from swapconf.words.units import runs, show_bytes, show_range

ORIGIN = phrase(
    "memory by the PyNative what-if, at most, and with the fragments of MindSpore's pool; times estimated from the "
    "shapes of kernels, one after another, without what Python takes to launch them and without collectives"
)


def comment(planned: NativePlanned, budget: str, hardware: str, slower_link: float) -> str:
    """What stands above a plan in the YAML; in English, as the file may be read by anybody."""
    judge, chosen = planned.judge, planned.chosen
    return (
        f"planned by swapconf for {budget} a card: needs {show_bytes(judge.needed_bytes(chosen))} at most, kernels of "
        f"{judge.nominal(chosen).step_us / 1000:.1f} ms a step on {hardware} (estimated; "
        f"{judge.time(chosen).step_us / 1000:.1f} ms with a host link {slower_link:.0%} slower)"
    )


def verdict_lines(planned: NativePlanned) -> Iterator[str]:
    """What the plan comes to, and where none fits what holds the memory."""
    judge, chosen, budget = planned.judge, planned.chosen, show_bytes(planned.judge.limits.usable_bytes)
    yield from room_line(judge.limits)
    needed = show_bytes(judge.needed_bytes(chosen))
    if planned.verdict is Verdict.NOT_NEEDED:
        yield phrase(
            "nothing is needed: without swap and recompute each card holds at most {needed} of {budget}",
            needed=needed,
            budget=budget,
        )
    elif planned.verdict is Verdict.IMPOSSIBLE:
        yield phrase("no plan that was tried fits in {budget}; the lowest needs {needed}", budget=budget, needed=needed)
        held = peak(judge.question.trace)
        yield phrase("rank {rank}: {held}", rank=0, held=advice(held) or peak_line(held))
    else:
        yield phrase("planned for {budget}: {entries}", budget=budget, entries=_in_words(chosen))
    if planned.verdict in (Verdict.PLANNED, Verdict.FULL) and judge.base.pipeline.is_one_card:
        yield phrase(
            "this YAML is of one card, where mindformers applies neither recompute nor swap; the plan is what a card "
            "of several that run the same would do"
        )
    if judge.cards.num_devices > 1 and not judge.question.launches_blocked:
        yield RACING
    if planned.is_interrupted:
        yield phrase("the search was ended early; this is the best until then")


def link_line(planned: NativePlanned, slower_link: float) -> str:
    """What a slower link does to the plan, and how sure its time is."""
    judge, nominal = planned.judge, planned.judge.nominal(planned.chosen)
    return phrase(
        "with the host link as told a step of the plan is estimated at {nominal}; with one {share:.0%} slower at "
        "{slower:.3f} ms; strategies share what is uncertain of their kernels, so that their differences are surer",
        nominal=show_range(nominal.step_us, *judge.times.range_us(nominal.step_us)),
        slower=judge.time(planned.chosen).step_us / 1000,
        share=slower_link,
    )


def strategies(planned: NativePlanned) -> PrintedTable:
    """The plan, what people use today, and the YAML as it is, with the slower link."""
    judge = planned.judge
    rows = [_row(judge, name, judge.score(judge.config(plan))) for name, plan in simple(planned)]
    with suppress(NativeMismatch):  # the what-if has no answer for everything
        rows.append(_row(judge, phrase("the YAML as it is"), judge.score(judge.base)))
    return PrintedTable(
        (
            phrase("strategy"),
            phrase("fits"),
            phrase("used peak"),
            phrase("at most"),
            phrase("with fragments"),
            phrase("host"),
            phrase("moved"),
            phrase("stalls ms"),
            phrase("run again ms"),
            phrase("step ms"),
            phrase("change"),
        ),
        rows,
        frozenset({phrase("strategy"), phrase("fits")}),
    )


def simple(planned: NativePlanned) -> Iterator[tuple[str, NativePlan]]:
    judge = planned.judge
    yield phrase("the plan"), planned.chosen
    yield phrase("no swap, no recompute"), uniform(judge, KEEP)
    yield phrase("full recompute"), uniform(judge, FULL)
    yield phrase("the first layers recomputed"), fewest(judge, FULL)
    if judge.allows(uniform(judge, SWAP)):
        yield phrase("the first layers swapped"), fewest(judge, SWAP)


def _row(judge: NativeJudge, name: str, score: NativeScore) -> tuple[str, ...]:
    found, time = score.prediction, score.time
    nothing_us = judge.time(uniform(judge, KEEP)).step_us
    return (
        name,
        phrase("yes") if score.fits else phrase("no"),
        show_bytes(found.used_peak_bytes),
        show_bytes(score.safe_bytes),
        show_bytes(score.mapped_bytes),
        show_bytes(score.host_bytes),
        show_bytes(sum(found.moved_bytes.values())),
        f"{time.stall_us / 1000:.3f}",
        f"{time.again_us / 1000:.3f}",
        f"{time.step_us / 1000:.3f}",
        f"{100 * (time.step_us / nothing_us - 1):+.2f}%",
    )


def worth(planned: NativePlanned) -> PrintedTable:
    """What each entry is there for."""
    return PrintedTable(
        (phrase("entry"), phrase("layers"), phrase("saves"), phrase("costs ms"), phrase("moves")),
        [
            (
                _entry(item.entry, planned.chosen),
                ",".join(runs(item.entry.layers)),
                show_bytes(item.saved_bytes),
                f"{item.cost_us / 1000:+.3f}",
                show_bytes(item.moved_bytes),
            )
            for item in planned.worth
        ],
        frozenset({phrase("entry"), phrase("layers")}),
    )


def confirmation(planned: NativePlanned, found: Sequence[ConfirmedRank]) -> PrintedTable:
    """Predicted and true."""
    judge, chosen = planned.judge, planned.chosen
    return PrintedTable(
        (
            phrase("rank"),
            phrase("used peak, predicted"),
            phrase("at most"),
            phrase("true"),
            phrase("off by"),
            phrase("with fragments, predicted"),
            phrase("true"),
            phrase("fits"),
        ),
        [
            (
                str(item.rank),
                show_bytes(item.predicted_used_bytes),
                show_bytes(judge.safe_bytes(chosen)),
                show_bytes(item.used_bytes),
                f"{100 * item.error:+.3f}%",
                show_bytes(judge.mapped_bytes(chosen)),
                show_bytes(item.pool_bytes),
                phrase("yes") if item.fits else phrase("no"),
            )
            for item in found
        ],
        frozenset({phrase("fits")}),
    )


def as_record(
    planned: NativePlanned, text: str, confirmed: Sequence[ConfirmedRank], slower_link: float
) -> dict[str, Any]:
    """The JSON form, with the keys of graph mode as far as they are known. Bytes as whole numbers, times in
    microseconds. ``text``: the YAML with the plan."""
    judge, chosen = planned.judge, planned.chosen
    config = judge.config(chosen)
    score, nominal = judge.score(config), judge.nominal(chosen)
    low, high = judge.times.range_us(nominal.step_us)
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
        "share": {origin.value: part for origin, part in judge.times.shares().items()},
        "slower_link": slower_link,
        "ranks": [
            {
                "rank": 0,
                "stage": 0,
                "used_peak_bytes": score.prediction.used_peak_bytes,
                "safe_used_peak_bytes": score.safe_bytes,
                "with_fragments_peak_bytes": score.mapped_bytes,
                "host_peak_bytes": score.prediction.host_peak_bytes,
                "moved_bytes_per_step": sum(score.prediction.moved_bytes.values()),
                "recomputed_kernels_per_step": sum(score.prediction.kernels.values()),
                "stall_us_slower_link": score.time.stall_us,
            }
        ],
        "entries": [
            {
                "kind": "swap" if item.entry.is_swap else "recompute",
                "operator": item.entry.path,
                "default_prefetch": chosen.prefetch if item.entry.is_swap else None,
                "layers": list(item.entry.layers),
                "saved_bytes": item.saved_bytes,
                "cost_us": item.cost_us,
                "moved_bytes_per_step": item.moved_bytes,
            }
            for item in planned.worth
        ],
        "simple": [
            {
                "strategy": show(name),
                "fits": judge.fits(plan),
                "step_us_slower_link": judge.time(plan).step_us,
                "used_peak_bytes": judge.prediction(plan).used_peak_bytes,
            }
            for name, plan in list(simple(planned))[1:]
        ],
        "confirmed": [
            {
                "rank": item.rank,
                "used_peak_bytes": item.used_bytes,
                "with_fragments_peak_bytes": item.pool_bytes,
                "fits": item.fits,
            }
            for item in confirmed
        ],
        "sections": {**swap_section(config), **recompute_sections(config)},
        "yaml": text,
        "origin": show(ORIGIN),
    }


def _entry(entry: NativeEntry, plan: NativePlan) -> str:
    what = entry.path or phrase("whole layers")
    if not entry.is_swap:
        return phrase("recompute {operator}", operator=what)
    return phrase("swap {operator}, prefetch {prefetch}", operator=what, prefetch=plan.prefetch)


def _in_words(plan: NativePlan) -> str:
    return joined("; ", (_of_layers(_entry(entry, plan), entry.layers, len(plan.modes)) for entry in plan.entries))


def _of_layers(entry: str, layers: tuple[int, ...], count: int) -> str:
    if len(layers) == count:
        return phrase("{entry}, in all layers", entry=entry)
    if len(layers) == 1:
        return phrase("{entry}, in layer {layer}", entry=entry, layer=layers[0])
    return phrase("{entry}, in layers {layers}", entry=entry, layers=",".join(runs(layers)))
