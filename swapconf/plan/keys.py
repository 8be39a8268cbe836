"""JUDGE -> PLANNED: the best plan, also with keys of the YAML set otherwise that cost nothing to set.

`mp_comm_recompute: False` keeps in memory what communication makes in all that is recomputed, and
`recompute_slice_activation` gathers slices again. Where such a key counts and what can be had without it is better, the
YAML is to go without it, before anything is swapped for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from swapconf.config.config import Config
from swapconf.plan.judge import NOISE, Judge
from swapconf.plan.planned import Planned, Verdict, plan


def best_of_keys(judge: Judge, effort: float = 1.0, progress: Callable[[int], None] = lambda asked: None) -> Planned:
    """The best plan; with the keys as the YAML has them where that is no worse."""
    found = plan(judge, effort, progress)
    for base in bases(judge.base):
        if found.verdict is Verdict.NOT_NEEDED or found.is_interrupted:
            break
        other = plan(judge.of(base), effort, progress, also=[found.chosen.plan])
        if _is_better(other, found):
            found = other
    return found


def bases(base: Config) -> Iterator[Config]:
    """The same with one more of the keys that count at its default each time."""
    recompute = base.recompute
    if not recompute.mp_comm_recompute and not base.drops_communication:
        recompute = replace(recompute, mp_comm_recompute=True)
        yield replace(base, recompute=recompute)
    if recompute.recompute_slice_activation and not base.drops_slices:
        yield replace(base, recompute=replace(recompute, recompute_slice_activation=False))


def _is_better(one: Planned, other: Planned) -> bool:
    if one.chosen.fits != other.chosen.fits:
        return one.chosen.fits
    if not one.chosen.fits:
        return one.needed_bytes < other.needed_bytes
    return one.chosen.cost_us < other.chosen.cost_us * (1 - NOISE)
