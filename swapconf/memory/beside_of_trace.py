"""TRACE -> PARTS beside MindSpore's pool: operator workspace, buffers of groups that communicate, symmetric heap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from swapconf.memory.cann.card import A2, Card, size_bytes
from swapconf.memory.whole_device import Part, PartName, exact
from swapconf.memory.with_workspace import workspace
from swapconf.memory.workspace_experts import MEGA, MEGA_GRADIENT
from swapconf.trace.trace import Trace
from swapconf.trace.work import COMMUNICATING
from swapconf.trace.workspace import KIND, Workspace
from swapconf.words.phrases import phrase
from swapconf.words.units import GIB, MIB

_HEAPS = ("SYMMETRIC_MEMORY_HEAP_SIZE", "HYPER_PARALLEL_SHMEM_HEAP_SIZE")  # the latter in newer ones
BUFFER = "HCCL_BUFFSIZE"
_BUFFER_MIB = 200


def workspace_part(trace: Trace, card: Card = A2) -> Part:
    """A workspace is held for the moment of one kernel: it may find room within the peak of the pool, or add to it.
    Nothing where it is in the pool already, as from level 2 on, or where no graph tells the kernels."""
    if KIND not in trace.blocks.kinds and not trace.tasks:
        return replace(
            exact(PartName.WORKSPACE, 0, phrase("not known: {reason}", reason=trace.why_no_graph)),
            unknown=phrase("not known: {reason}", reason=trace.why_no_graph),
        )
    needed = workspace(trace, card)
    if KIND in trace.blocks.kinds:
        return replace(exact(PartName.WORKSPACE, 0, phrase("in the pool")), unknown=unknown_of(needed))
    most = int(needed.size_bytes.max(initial=0))
    return Part(
        name=PartName.WORKSPACE,
        least_bytes=0,
        middle_bytes=most,
        most_bytes=most,
        origin=phrase("the largest of one kernel, estimated; it may find room within the peak of the pool"),
        unknown=unknown_of(needed),
    )


def unknown_of(needed: Workspace) -> str:
    """Of which kernels it is not known, in words; "" for none."""
    return phrase("not known of {kernels}", kernels=", ".join(needed.unknown)) if needed.unknown else ""


def communication_part(trace: Trace, environment: Mapping[str, str]) -> Part:
    """Two buffers for each group that communicates, of ``HCCL_BUFFSIZE`` MiB (documented of CANN: 200 unless set, of
    its own and shared with nobody)."""
    setting = environment.get(BUFFER, "")
    buffer_mib = int(setting) if setting.isdigit() and setting.isascii() else _BUFFER_MIB
    groups = len({kernel.group for kernel in trace.step if kernel.group}) or _of_shards(trace)
    return exact(
        PartName.COMMUNICATION,
        2 * buffer_mib * MIB * groups,
        phrase("2 x {size} MiB for each of {groups} groups that communicate", size=buffer_mib, groups=groups),
    )


def _of_shards(trace: Trace) -> int:
    """A PyNative trace names no groups; what a dry run does of it, shards of parameters, has one, of all ranks."""
    return int(bool(trace.marks) and any(task.primitive.startswith(COMMUNICATING) for task in trace.tasks))


def symmetric_parts(trace: Trace, environment: Mapping[str, str]) -> tuple[Part, ...]:
    """ACLSHMEM's heap, through which experts in one launch write to other cards: taken whole at the start, in no pool
    of MindSpore; none where no kernel uses it. What tensors in it hold MindSpore counts: of a kernel two as its first
    input.

    Source: hyper-parallel, its guide mega_kernel_dryrun_memory_design_and_validation_report.md (cc5e192), 4.6, and
    the page shmem.md of its multicore (05c35f3): bytes, 1 GiB unless set.
    """
    held = [
        2 * size_bytes(task.input_tensors[0]) if task.input_tensors else 0
        for task in trace.tasks
        if task.primitive in MEGA | MEGA_GRADIENT
    ]
    if not held:
        return ()
    told = (environment.get(name, "") for name in _HEAPS)
    heap = next((int(text) for text in told if text.isdecimal() and text.isascii()), GIB)
    least = max(heap - max(held), 0)
    return (
        Part(
            name=PartName.SYMMETRIC,
            least_bytes=least,
            middle_bytes=least,
            most_bytes=heap,
            origin=phrase("of ACLSHMEM, in no pool; {variable} sets it", variable=_HEAPS[0]),
        ),
    )
