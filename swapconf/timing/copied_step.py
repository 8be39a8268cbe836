"""COPIES OF A STEP -> HOST DEMAND: how fast the cards of a host copy, all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import Machine
from swapconf.timing.host_demand import HostDemand
from swapconf.timing.timing import TO_DEVICE, TO_HOST, Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedStep:
    """A step of one card.

    Attributes:
        kind: Uint8 [n], of each kernel, index into KINDS; ``start_us``, ``end_us``: float64 [n].
        moved_bytes: In each direction.
        pinned_bytes: Of the host, at most.
    """

    kind: NDArray[np.uint8]
    start_us: Floats
    end_us: Floats
    moved_bytes: int
    pinned_bytes: int


def demand(step: CopiedStep, machine: Machine, cards: int) -> HostDemand:
    """``cards``: of a host."""
    hardware = machine.hardware
    bound = min(cards * hardware.value("host_link_gbps"), machine.host.bandwidth_gbps)
    return HostDemand(
        cards=cards,
        to_host_gbps=_rate_gbps(step, TO_HOST),
        to_device_gbps=_rate_gbps(step, TO_DEVICE),
        pinned_bytes=step.pinned_bytes,
        bound_gbps=bound,
        unbound_gbps=bound * hardware.card["host_unbound_share"].value,
        step_us=float(step.end_us.max(initial=0.0)),
    )


def _rate_gbps(step: CopiedStep, kind: int) -> float:
    mine = np.flatnonzero(step.kind == kind)
    if not len(mine):
        return 0.0
    window_us = float(step.end_us[mine].max() - step.start_us[mine].min())
    return step.moved_bytes / window_us / 1000 if window_us > 0 else 0.0


def of_host(machine: Machine, num_devices: int) -> int:
    """How many cards of a job one host has, as far as the machine and the job tell."""
    cards = machine.host.cards if machine.host.cards > 1 else int(machine.hardware.value("cards_per_host"))
    return min(cards, num_devices)
