"""TRACE -> PARTS beside MindSpore's pool: operator workspace, and the buffers of the groups that communicate."""

from __future__ import annotations

from collections.abc import Mapping

from swapconf.memory.cann.card import A2, Card
from swapconf.memory.whole_device import Part, PartName, exact
from swapconf.memory.with_workspace import workspace
from swapconf.trace.trace import Trace
from swapconf.trace.work import COMMUNICATING
from swapconf.trace.workspace import KIND
from swapconf.words.phrases import phrase
from swapconf.words.units import MIB

BUFFER = "HCCL_BUFFSIZE"
_BUFFER_MIB = 200


def workspace_part(trace: Trace, card: Card = A2) -> Part:
    """A workspace is held for the moment of one kernel: it may find room within the peak of the pool, or add to it.
    Nothing where it is in the pool already, as from level 2 on, or where no graph tells the kernels."""
    if KIND in trace.blocks.kinds:
        return exact(PartName.WORKSPACE, 0, phrase("in the pool"))
    if not trace.tasks:
        return exact(PartName.WORKSPACE, 0, phrase("not known: {reason}", reason=trace.why_no_graph))
    most = int(workspace(trace, card).size_bytes.max(initial=0))
    return Part(
        name=PartName.WORKSPACE,
        least_bytes=0,
        middle_bytes=most,
        most_bytes=most,
        origin=phrase("the largest of one kernel, estimated; it may find room within the peak of the pool"),
    )


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
    """A PyNative trace names no groups; what is rehearsed of it, shards of parameters, has one, of all ranks."""
    return int(bool(trace.marks) and any(task.primitive.startswith(COMMUNICATING) for task in trace.tasks))
