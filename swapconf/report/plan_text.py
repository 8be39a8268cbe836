"""PLANNED -> TEXT: what was decided, what it is held against, and what each entry is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swapconf.config.yaml_text import recompute_sections, swap_section
from swapconf.decide.compact import CannotCompact
from swapconf.memory.advice import advice, peak_line
from swapconf.memory.holders import peak
from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.deal import better_deal
from swapconf.plan.judge import SLOWER, Scored
from swapconf.plan.limits import Limits
from swapconf.plan.modes import Atom
from swapconf.plan.planned import Planned, Verdict, needed_bytes
from swapconf.report.memory_tables import PrintedTable
from swapconf.study.study import Study
from swapconf.whatif.evaluation import Evaluation, Waits
from swapconf.words.phrases import joined, phrase, show
from swapconf.words.units import runs, show_bytes, show_range

_BUBBLES = 7  # column of the table of strategies


def comment(planned: Planned, budget: str, hardware: str, slower_link: float) -> str:
    """What stands above a plan in the YAML; in English, as the file may be read by anybody."""
    judge, chosen = planned.judge, planned.chosen
    return (
        f"planned by swapconf for {budget} a card: needs {show_bytes(planned.needed_bytes)}, a step of "
        f"{judge.nominal(chosen.plan).us / 1000:.1f} ms on {hardware} (estimated; {chosen.found.step_us / 1000:.1f} ms "
        f"with a host link {slower_link:.0%} slower)"
    )


def room_line(limits: Limits) -> Iterator[str]:
    """Where a card has less left than the budget."""
    if limits.usable_bytes < limits.budget_bytes:
        yield phrase(
            "beside all else that it may hold a card has {room} left, less than the budget of {budget}",
            room=show_bytes(limits.usable_bytes),
            budget=show_bytes(limits.budget_bytes),
        )


def verdict_lines(planned: Planned, study: Study) -> Iterator[str]:
    """What the plan comes to, and where none fits what holds the memory and what to try."""
    judge, budget = planned.judge, show_bytes(planned.judge.limits.usable_bytes)
    yield from room_line(judge.limits)
    if planned.verdict is Verdict.NOT_NEEDED:
        yield phrase(
            "nothing is needed: without swap and recompute each card holds at most {needed} of {budget}",
            needed=show_bytes(planned.needed_bytes),
            budget=budget,
        )
    elif planned.verdict is Verdict.IMPOSSIBLE:
        yield phrase(
            "no plan that was tried fits in {budget}; the lowest needs {needed}",
            budget=budget,
            needed=show_bytes(planned.needed_bytes),
        )
        for (rank, _), trace in zip(judge.evaluator.ranks, judge.evaluator.traces, strict=True):
            held = peak(trace)
            yield phrase("rank {rank}: {held}", rank=rank, held=advice(held) or peak_line(held))
    elif planned.verdict is Verdict.FULL:
        yield phrase("full recompute is as good as anything else that fits in {budget}", budget=budget)
    else:
        yield phrase(
            "planned for {budget}: {entries}",
            budget=budget,
            entries=joined("; ", (_in_words(planned.chosen, atom) for atom in planned.chosen.entries)),
        )
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
        yield phrase("the search was ended early; this is the best until then")


def strategies(planned: Planned, study: Study) -> PrintedTable:
    """The plan, what people use today, and the YAML as it is. Stalls and bubbles are those of the rank that has most,
    with the slower link; of one stage there are no bubbles."""
    judge, evaluator = planned.judge, planned.judge.evaluator
    nothing = judge.evaluation((frozenset(),) * len(judge.layers))
    rows = []
    for name, plan in [(phrase("the plan"), planned.chosen.plan), *((n, s.plan) for n, s in planned.simple.items())]:
        rows.append(_row(name, planned, judge.evaluation(plan), judge.pool_bytes(plan), judge.waits(plan), nothing))
    keys = [("as it is", rank) for rank in evaluator.ranks]
    found = evaluator.evaluate(study.config, keys, machine=SLOWER)
    pools, waits = evaluator.with_fragments_bytes(study.config, keys), evaluator.waits(study.config, keys, SLOWER)
    rows.append(_row(phrase("the YAML as it is"), planned, found, pools, waits, nothing))
    head = (
        phrase("strategy"),
        phrase("fits"),
        phrase("used peak"),
        phrase("with fragments"),
        phrase("host"),
        phrase("moved"),
        phrase("stalls ms"),
        phrase("bubbles ms"),
        phrase("step ms"),
        phrase("change"),
    )
    shown = [column for column in range(len(head)) if column != _BUBBLES or len(evaluator.ranks) > 1]
    return PrintedTable(
        tuple(head[column] for column in shown),
        [tuple(row[column] for column in shown) for row in rows],
        frozenset({phrase("strategy"), phrase("fits")}),
    )


def _row(
    name: str, planned: Planned, found: Evaluation, pools: Sequence[int], waits: Waits, nothing: Evaluation
) -> tuple[str, ...]:
    judge = planned.judge
    fits = not judge.limits.over_bytes(pools) and not judge.host_over_bytes(found) and not found.crashes
    return (
        name,
        phrase("yes") if fits else phrase("no"),
        show_bytes(max(rank.used_peak_bytes for rank in found.ranks)),
        show_bytes(max(pools)),
        show_bytes(judge.host_bytes(found)),
        show_bytes(found.moved_bytes),
        f"{max(waits.stall_us) / 1000:.3f}",
        f"{max(waits.bubble_us) / 1000:.3f}",
        f"{found.step_us / 1000:.3f}",
        f"{100 * (found.step_us / nothing.step_us - 1):+.2f}%",
    )


def worth(planned: Planned) -> PrintedTable:
    """What each entry is there for."""
    return PrintedTable(
        (phrase("entry"), phrase("layers"), phrase("saves"), phrase("costs ms"), phrase("moves")),
        [
            (
                _entry(item.atom),
                ",".join(runs(item.layers)),
                show_bytes(item.saved_bytes),
                f"{item.cost_us / 1000:+.3f}",
                show_bytes(item.moved_bytes),
            )
            for item in planned.worth
        ],
        frozenset({phrase("entry"), phrase("layers")}),
    )


def stages(planned: Planned) -> PrintedTable:
    """Each rank under the plan."""
    judge, chosen = planned.judge, planned.chosen
    pools = judge.pool_bytes(chosen.plan)
    return PrintedTable(
        (
            phrase("rank"),
            phrase("stage"),
            phrase("used peak"),
            phrase("with fragments"),
            phrase("workspace at most"),
            phrase("may take"),
            phrase("host"),
        ),
        [
            (
                str(rank),
                str(stage),
                show_bytes(memory.used_peak_bytes),
                show_bytes(pool),
                show_bytes(workspace),
                show_bytes(most),
                show_bytes(memory.host_peak_bytes),
            )
            for (rank, stage), memory, pool, workspace, most in zip(
                judge.evaluator.ranks,
                chosen.found.ranks,
                pools,
                judge.limits.workspace_bytes,
                judge.limits.pool_bytes,
                strict=True,
            )
        ],
        frozenset(),
    )


def confirmation(found: Sequence[ConfirmedRank]) -> PrintedTable:
    """Predicted and true, by rank."""
    return PrintedTable(
        (
            phrase("rank"),
            phrase("used peak, predicted"),
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
                show_bytes(item.used_bytes),
                f"{100 * item.error:+.3f}%",
                show_bytes(item.predicted_pool_bytes),
                show_bytes(item.pool_bytes) if item.is_placed else "-",
                phrase("yes") if item.fits else phrase("no"),
            )
            for item in found
        ],
        frozenset({phrase("fits")}),
    )


def link_line(planned: Planned, slower_link: float) -> str:
    """What a slower link does to the plan, and how sure its time is."""
    step = planned.judge.nominal(planned.chosen.plan)
    return phrase(
        "with the host link as told a step of the plan is estimated at {nominal}; with one {share:.0%} slower at "
        "{slower:.3f} ms; strategies share what is uncertain of their kernels, so that their differences are surer",
        nominal=show_range(step.us, step.low_us, step.high_us),
        slower=planned.chosen.found.step_us / 1000,
        share=slower_link,
    )


def as_record(
    planned: Planned, study: Study, text: str, confirmed: Sequence[ConfirmedRank], slower_link: float
) -> dict[str, Any]:
    """The JSON form. Bytes as whole numbers, times in microseconds. ``text``: the YAML with the plan."""
    judge, chosen = planned.judge, planned.chosen
    waits, step = judge.waits(chosen.plan), judge.nominal(chosen.plan)
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
        "share": {origin.value: part for origin, part in step.share.items()},
        "slower_link": slower_link,
        "ranks": [
            {
                "rank": rank,
                "stage": stage,
                "used_peak_bytes": memory.used_peak_bytes,
                "with_fragments_peak_bytes": pool,
                "workspace_bytes": workspace,
                "host_peak_bytes": memory.host_peak_bytes,
                "moved_bytes_per_step": memory.moved_bytes,
                "recomputed_kernels_per_step": memory.recomputed,
                "stall_us_slower_link": stall_us,
                "bubble_us_slower_link": bubble_us,
            }
            for (rank, stage), memory, pool, workspace, stall_us, bubble_us in zip(
                judge.evaluator.ranks,
                chosen.found.ranks,
                judge.pool_bytes(chosen.plan),
                judge.limits.workspace_bytes,
                waits.stall_us,
                waits.bubble_us,
                strict=True,
            )
        ],
        "entries": [
            {
                "kind": item.atom.kind,
                "operator": item.atom.path,
                "backward_prefetch": item.atom.prefetch or None,
                "layers": list(item.layers),
                "saved_bytes": item.saved_bytes,
                "cost_us": item.cost_us,
                "moved_bytes_per_step": item.moved_bytes,
            }
            for item in planned.worth
        ],
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
        "confirmed": [
            {
                "rank": item.rank,
                "used_peak_bytes": item.used_bytes,
                "with_fragments_peak_bytes": item.pool_bytes if item.is_placed else None,
                "fits": item.fits,
            }
            for item in confirmed
        ],
        "other_layout": None
        if deal is None
        else {"layers": list(deal.counts), "offset": list(deal.offset), "step_change": deal.change},
        "sections": {**swap_section(config), **recompute_sections(config)},
        "yaml": text,
        "origin": show(judge.evaluator.origin),
    }


def _entry(atom: Atom) -> str:
    what = atom.path or phrase("whole layers")
    if atom.kind == "recompute":
        return phrase("recompute {operator}", operator=what)
    return phrase("swap {operator}, prefetch {prefetch}", operator=what, prefetch=atom.prefetch)


def _in_words(chosen: Scored, atom: Atom) -> str:
    layers = [index for index, mode in enumerate(chosen.plan) if atom in mode]
    if len(layers) == len(chosen.plan):
        return phrase("{entry}, in all layers", entry=_entry(atom))
    if len(layers) == 1:
        return phrase("{entry}, in layer {layer}", entry=_entry(atom), layer=layers[0])
    return phrase("{entry}, in layers {layers}", entry=_entry(atom), layers=",".join(runs(layers)))
