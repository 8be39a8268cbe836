"""What swap asks of the host that its cards share, and whether they get it at once.

The link of a card is its own; the memory that all of them copy to and from is that of the host, and lies with one of
its CPUs. Where that is another one than the card's, a copy crosses the link between CPUs, which is slower and shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from swapconf.words.phrases import phrase
from swapconf.words.units import show_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class HostDemand:
    """What the cards of a host ask for that do the same at once, ``cards`` of them.

    Attributes:
        to_host_gbps, to_device_gbps: Of one card, 10^9 bytes a second from the first copy in a direction to the last.
        pinned_bytes: Of one card.
        bound_gbps: What a host gives in one direction where all memory lies with the card's own CPU.
        unbound_gbps: What may be left of that where it lies with another.
        step_us: Of a step as it is timed.
        unbound_step_us: Of one whose cards share what may be left; None where that was not asked.
    """

    cards: int
    to_host_gbps: float
    to_device_gbps: float
    pinned_bytes: int
    bound_gbps: float
    unbound_gbps: float
    step_us: float
    unbound_step_us: float | None = None

    @property
    def host_gbps(self) -> float:
        """Of all cards, in the direction that needs more."""
        return self.cards * max(self.to_host_gbps, self.to_device_gbps)

    @property
    def needs_binding(self) -> bool:
        return self.host_gbps > self.unbound_gbps


def host_line(found: HostDemand) -> str:
    """What swap asks of the host, and what to do where it may not give it."""
    line = phrase(
        "swap copies {rate:.1f} GB/s to the host and {back:.1f} GB/s back while it copies, and pins {pinned}; {cards} "
        "cards of a host {all:.1f} GB/s in one direction, {pinned_all} pinned",
        rate=found.to_host_gbps,
        back=found.to_device_gbps,
        pinned=show_bytes(found.pinned_bytes),
        cards=found.cards,
        all=found.host_gbps,
        pinned_all=show_bytes(found.cards * found.pinned_bytes),
    )
    if not found.needs_binding:
        return line
    told = phrase(
        "{line}; a host may give no more than {unbound:.1f} of its {bound:.1f} GB/s where pinned memory lies with "
        "another CPU than its card",
        line=line,
        unbound=found.unbound_gbps,
        bound=found.bound_gbps,
    )
    if found.unbound_step_us is not None:
        told = phrase(
            "{line}, and a step take {unbound:.1f} ms instead of {bound:.1f}",
            line=told,
            unbound=found.unbound_step_us / 1000,
            bound=found.step_us / 1000,
        )
    return phrase("{line}: start with `msrun --bind_numa` (MindSpore 2.9 and newer)", line=told)


def as_record(found: HostDemand) -> dict[str, Any]:
    """The JSON form."""
    return {
        "cards": found.cards,
        "to_host_gbps": found.to_host_gbps,
        "to_device_gbps": found.to_device_gbps,
        "pinned_bytes": found.pinned_bytes,
        "host_gbps": found.host_gbps,
        "bound_gbps": found.bound_gbps,
        "unbound_gbps": found.unbound_gbps,
        "needs_binding": found.needs_binding,
        "step_us": found.step_us,
        "unbound_step_us": found.unbound_step_us,
    }
