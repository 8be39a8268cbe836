"""TRACE + CONFIG + MACHINE -> BESIDE: what a card holds beside MindSpore's pool, as a hardware profile tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from swapconf.config.config import Config, Dialect
from swapconf.memory.beside_of_trace import communication_part, symmetric_parts, workspace_part
from swapconf.memory.whole_device import Beside, Part, PartName
from swapconf.study.card import card_of
from swapconf.timing import hardware
from swapconf.timing.cost import Hardware, Machine
from swapconf.trace.trace import Trace
from swapconf.words.units import GIB

_NO_VIRTUAL_MEMORY = re.compile(r"(?:^|,)\s*enable_vmm\s*:\s*false\b", re.IGNORECASE)


def beside(trace: Trace, config: Config | None, machine: Machine | None, environment: Mapping[str, str]) -> Beside:
    """``trace``: of one rank. ``config``: None where only the trace is known, of graph mode. ``machine``: None for the
    generic card."""
    on = machine.hardware if machine is not None else hardware.load(hardware.GENERIC)
    is_pynative = config is not None and (config.dialect is Dialect.PYNATIVE or config.runtime.graph_mode is False)
    return Beside(
        parts=(
            workspace_part(trace, card_of(machine, config)),
            communication_part(trace, environment),
            *symmetric_parts(trace, environment),
            *measured_parts(on, is_pynative=is_pynative),
        ),
        card_bytes=int(on.card["memory_gib"].value * GIB),
        joins_fragments=_NO_VIRTUAL_MEMORY.search(environment.get("MS_ALLOC_CONF", "")) is None,
    )


def pool_room_bytes(
    traces: Iterable[Trace], config: Config, machine: Machine, environment: Mapping[str, str]
) -> int | None:
    """What the cards of these ranks have at least left for pool and workspace, which a plan counts by rank; None for
    no traces."""
    held = (beside(trace, config, machine, environment).without(PartName.WORKSPACE) for trace in traces)
    return min((item.room_bytes for item in held), default=None)


def measured_parts(on: Hardware, *, is_pynative: bool) -> tuple[Part, ...]:
    """What no program tells, as others measured it."""
    names = (PartName.IDLE, PartName.RUNTIME, *[PartName.ELSEWHERE] * is_pynative)
    return tuple(_part(name, on) for name in names)


def _part(name: PartName, on: Hardware) -> Part:
    """Of three figures of the profile: the least, the middle and the most."""
    least, middle, most = (on.card[f"{name.value}_{which}gib"] for which in ("least_", "", "most_"))
    return Part(
        name=name,
        least_bytes=int(least.value * GIB),
        middle_bytes=int(middle.value * GIB),
        most_bytes=int(most.value * GIB),
        origin=most.source,
    )
