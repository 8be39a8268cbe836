"""PLANNED -> DEAL: layers dealt to the stages so that nothing has to be swapped or recomputed, where that is faster.

An estimate from averages over the layers of each stage; a dry run of the other layout tells what is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from swapconf.plan.judge import NOISE, SLOWER
from swapconf.plan.modes import KEEP, uniform
from swapconf.plan.planned import Planned, Verdict
from swapconf.whatif.layer_share import LayerShare


@dataclass(frozen=True, kw_only=True, slots=True)
class Deal:
    """``counts``: layers by stage; ``offset``: as the YAML says it. ``change``: of the step without swap and recompute
    and with the layers as they are, as a share."""

    counts: tuple[int, ...]
    offset: tuple[int, ...]
    change: float


def better_deal(planned: Planned) -> Deal | None:
    """None where layers are as well where they are, and for interleaved stages."""
    judge = planned.judge
    num_stages, num_layers = len(judge.stages), len(judge.layers)
    if planned.verdict is Verdict.NOT_NEEDED or num_stages == 1 or any(layer.interleave for layer in judge.layers):
        return None
    keep = uniform(KEEP, judge.network)
    here = [len(layers) for layers in judge.stages]
    shares = judge.evaluator.layer_shares(SLOWER)
    spare = [most - pool for most, pool in zip(judge.limits.pool_bytes, judge.pool_bytes(keep), strict=True)]
    counts = fairest(num_layers, here, shares, spare)
    if counts is None or counts == here:
        return None
    change = _slowest_us(counts, here, shares) / _slowest_us(here, here, shares) - 1
    nothing_us = judge.evaluation(keep).step_us
    is_faster = nothing_us * (1 + change) < planned.chosen.found.step_us * (1 - NOISE)
    if planned.chosen.fits and not is_faster:
        return None
    even = num_layers // num_stages
    return Deal(counts=tuple(counts), offset=tuple(count - even for count in counts), change=change)


def fairest(
    num_layers: int, here: Sequence[int], shares: Sequence[LayerShare], spare_bytes: Sequence[float]
) -> list[int] | None:
    """Layers by stage so that the slowest stage is as fast as it can be and each has room for its own; None where there
    is no room for all. The next layer always goes where it makes the least difference to the slowest stage, which is
    best, as each layer makes its stage slower.

    Args:
        here: Layers by stage as they are, each stage with one at least.
        spare_bytes: By stage, what is left as it is; negative where too much is held.
    """
    if any(share.layer_bytes <= 0 for share in shares):
        return None
    most = [
        count + floor(room / share.layer_bytes) for count, share, room in zip(here, shares, spare_bytes, strict=True)
    ]
    if min(most) < 1 or sum(most) < num_layers:
        return None
    counts = [1] * len(here)
    for _ in range(num_layers - len(here)):
        open_ = [stage for stage, count in enumerate(counts) if count < most[stage]]
        # of equals the stage that has fewer than now, so that no layer moves for nothing
        chosen = min(
            open_,
            key=lambda stage: (_busy_us(counts[stage] + 1, here[stage], shares[stage]), counts[stage] - here[stage]),
        )
        counts[chosen] += 1
    return counts


def _slowest_us(counts: Sequence[int], here: Sequence[int], shares: Sequence[LayerShare]) -> float:
    return max(_busy_us(count, now, share) for count, now, share in zip(counts, here, shares, strict=True))


def _busy_us(count: int, now: int, share: LayerShare) -> float:
    return share.busy_us + (count - now) * share.layer_us
