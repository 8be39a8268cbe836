"""FRAGMENTATION -> FINDINGS: when the gap is worth acting upon, what to set, and who else needs the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase
from swapconf.words.units import GIB, MIB, show_bytes

if TYPE_CHECKING:
    from swapconf.memory.fragmentation import Fragmentation

GAP_LIMIT_BYTES = GIB  # MindSpeed's documentation recommends its method from here on
COMMUNICATOR_BYTES = 2 * 200 * MIB  # HCCL_BUFFSIZE, 200 MiB by default, to send and to receive


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """``device_bytes``: all memory of the device; ``limit_bytes``: what MindSpore may take of it (None: not known).
    ``num_communicators``: groups of ranks that talk to each other."""

    device_bytes: int | None = None
    limit_bytes: int | None = None
    num_communicators: int = 0


def findings(fragmentation: Fragmentation, policy: str, device: Device, file: str) -> Iterator[Finding]:
    """What is worth saying of one trace. ``policy``: the allocator in use; ``file``: where the trace lies. Nothing of
    MindSpore's own pool where its rules do not explain the trace."""
    if policy == "mindspore" and not fragmentation.mapped_by_block_size:
        return
    placement = fragmentation.placements[policy]
    origin = Origin(file=file)
    if placement.gap_bytes > GAP_LIMIT_BYTES:
        yield Finding(
            origin=origin,
            rule="fragmentation-gap",
            severity=Severity.WARNING,
            hint=_hint(fragmentation, policy),
            message=phrase(
                "the pool ({policy}) needs {mapped} where {used} are in use, a gap of {gap}",
                policy=policy,
                mapped=show_bytes(placement.mapped_bytes),
                used=show_bytes(placement.used_peak_bytes),
                gap=show_bytes(placement.gap_bytes),
            ),
        )
    # a pool by lifetime prefers new memory to reuse, up to its limit
    taken = placement.reserved_bytes if policy == "mindspore" else device.limit_bytes
    needed = device.num_communicators * COMMUNICATOR_BYTES
    if device.device_bytes is not None and taken is not None and device.device_bytes - taken < needed:
        yield Finding(
            origin=origin,
            rule="collectives-starved",
            severity=Severity.WARNING,
            message=phrase(
                "the pool ({policy}) may take {taken} of {whole}, but the buffers of {communicators} "
                "communicators need {needed}",
                policy=policy,
                taken=show_bytes(taken),
                whole=show_bytes(device.device_bytes),
                communicators=device.num_communicators,
                needed=show_bytes(needed),
            ),
            hint=phrase(
                "lower context.max_device_memory to {size}GB or less, or lower HCCL_BUFFSIZE",
                size=(device.device_bytes - needed) // GIB,
            ),
        )


def _hint(fragmentation: Fragmentation, policy: str) -> str:
    if policy != "mindspore":
        return phrase("swap or recompute less of what is short-lived, or compare the other policies of this report")
    size, least = fragmentation.best_block_gib, fragmentation.best_mapped_bytes
    saved = 0 if least is None else fragmentation.placements[policy].mapped_bytes - least
    always = phrase(
        "keep virtual memory on (MS_ALLOC_CONF=enable_vmm:True, the default), which joins free granules on "
        "a card; under AscendSpeed (PyTorch), set MEMORY_FRAGMENTATION=1"
    )
    if saved <= 0:
        return always
    return phrase(
        "set context.mempool_block_size to {size}GB (increase_size of mindspore.runtime.set_memory), which "
        "needs {saved} less in a replay and is tried with --confirm; {always}",
        size=size,
        saved=show_bytes(saved),
        always=always,
    )
