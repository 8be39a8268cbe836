"""JUDGE -> COARSE PLAN: a good strategy of a layout from a few questions: one mode for all layers of each stage.

A stage that has room keeps what another one has to give up. As few layers as it takes are recomputed or swapped where
that is faster. The full search (`plan`) finds what is better; it is asked of the layouts that are best by this.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.plan import simple
from swapconf.plan.halving import fewest_slow
from swapconf.plan.judge import Judge, Scored
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, Plan, uniform

_PREFETCHES = (1, 10, 100)
_CELLS = ("attention", "self_attention", "feed_forward", "mlp")  # of Llama and of mcore


def coarse(judge: Judge) -> Scored:
    """The best of a few plans, or what is least over."""
    keep = judge.score(uniform(KEEP, judge.network))
    if keep.fits:
        return keep
    modes = list(_modes(judge))
    scored = {mode: judge.score(uniform(mode, judge.network)) for mode in modes}
    best = min(scored.values(), key=lambda item: item.rank)
    for plan in _mixed(judge, sorted(modes, key=lambda mode: scored[mode].cost_us)):
        if judge.allows(plan):
            best = min(best, judge.score(plan, better_than=best), key=lambda item: item.rank)
    return best


def _modes(judge: Judge) -> Iterator[Mode]:
    yield from (KEEP, RECOMPUTED)
    yield from (frozenset({Atom("swap", "", prefetch)}) for prefetch in _PREFETCHES)
    if (flash := simple.flash(judge)) is not None:
        yield frozenset({flash})
    paths = {path for template in judge.network.templates for path in _CELLS if path in template.by_path}
    for path in sorted(paths):
        yield frozenset({Atom("recompute", path)})


def _mixed(judge: Judge, fastest_first: list[Mode]) -> Iterator[Plan]:
    """By stage the fastest mode that fits there; and as few layers as it takes of what holds least."""
    chosen: list[Mode | None] = [None] * len(judge.stages)
    for mode in fastest_first:
        fits = judge.stage_fits(uniform(mode, judge.network))
        chosen = [known if known is not None or not fit else mode for known, fit in zip(chosen, fits, strict=True)]
    plan = list(uniform(RECOMPUTED, judge.network))
    for layers, own in zip(judge.stages, chosen, strict=True):
        for index in layers:
            plan[index] = own if own is not None else RECOMPUTED
    yield judge.fitted(plan)
    keep = uniform(KEEP, judge.network)
    for mode in fastest_first:
        if mode != KEEP and (mixed := fewest_slow(judge, keep, uniform(mode, judge.network))) is not None:
            yield mixed
