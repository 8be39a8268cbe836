"""PLAN -> WHOLE CARD: what the fullest card holds under a plan, and which card and CANN its workspace is for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    from swapconf.memory.whole_device import WholeDevice
    from swapconf.plan.planned import Planned
    from swapconf.study.study import Study
    from swapconf.timing.cost import Machine


def fullest(planned: Planned, study: Study, machine: Machine) -> WholeDevice:
    """The card that may hold most under the plan."""
    from swapconf.study.beside import beside

    judge = planned.judge
    plan = planned.chosen.plan
    sizes = zip(judge.pool_bytes(plan), judge.used_bytes(plan), strict=True)
    found = (
        beside(trace, study.config, machine, os.environ).whole(pool, judge.evaluator.origin, used)
        for trace, (pool, used) in zip(judge.evaluator.traces, sizes, strict=True)
    )
    return max(found, key=lambda whole: whole.most_bytes)


def line(planned: Planned, study: Study, machine: Machine) -> str:
    """In words."""
    from swapconf.memory.whole_device import device_line
    from swapconf.study.card import card_of, words

    return phrase(
        "workspace is that of {card}; under the plan {line}",
        card=words(card_of(machine, study.config)),
        line=device_line(fullest(planned, study, machine), machine.hardware.name),
    )
