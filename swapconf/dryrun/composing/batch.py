"""TRACE -> TRACE whose data set hands out a batch of another number of micro-batches, or for other data parallelism.

With ``full_batch: True``, as by default, each rank is handed the rows of all ranks that share its data, and a
micro-batch that is cut out of the batch has those of all of them, too; else a rank is handed its own rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from swapconf.config.cluster import Cluster
from swapconf.dryrun.composing.arranged import cut_of
from swapconf.memory.addresses import used_bytes
from swapconf.trace.tensor import Tensor
from swapconf.trace.trace import Task, Trace

_NEXT, _CUT = "GetNext", "StridedSlice"
_ALIGNED = 512  # MindSpore's pool adds some bytes to a tensor, and rounds up to this


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What a rank is handed in a step. ``replicas``: whose rows a micro-batch has."""

    micro_batches: int
    replicas: int = 1

    @classmethod
    def of(cls, micro_batches: int, settings: Mapping[str, object], cluster: Cluster) -> Batch:
        """``settings``: of the YAML, by dotted key."""
        is_whole = settings.get("parallel.full_batch") is not False
        return cls(micro_batches=micro_batches, replicas=cluster.data_parallel if is_whole else 1)

    @property
    def rows(self) -> int:
        return self.micro_batches * self.replicas


def with_batch(trace: Trace, here: Batch, there: Batch) -> Trace:
    """``here``: of the run. Micro-batches come one after another."""
    if here == there:
        return trace
    blocks = trace.blocks
    sizes = blocks.size_bytes.copy()
    tasks: list[Task] = []
    scaled: dict[int, tuple[int, int]] = {}  # tensors, and as how many rows they have so many
    for task in trace.tasks:
        shares = None
        if task.primitive == _NEXT:
            shares = here.rows, there.rows
        elif task.primitive == _CUT and cut_of(task.name) >= 0 and scaled.keys() & {*task.inputs}:
            shares = here.replicas, there.replicas
        if shares is not None:
            scaled |= dict.fromkeys(task.outputs, shares)
        given = tuple(
            _with_rows(tensor, *scaled[one]) if one in scaled else tensor
            for one, tensor in zip(task.inputs, task.input_tensors, strict=False)
        )
        made = tuple(_with_rows(tensor, *shares) if shares is not None else tensor for tensor in task.output_tensors)
        tasks.append(replace(task, output_tensors=made, input_tensors=given + task.input_tensors[len(given) :]))
    tensors = sorted(scaled)
    rows = np.searchsorted(blocks.start, np.array(tensors, dtype=np.int64))
    sizes[rows] = [_size(size, *scaled[one]) for one, size in zip(tensors, sizes[rows].tolist(), strict=True)]
    used = blocks.used_bytes.copy()
    for chosen in (blocks.on_host, ~blocks.on_host):
        used[chosen] = used_bytes(blocks.start[chosen], blocks.end[chosen], sizes[chosen])
    return replace(trace, tasks=tuple(tasks), blocks=replace(blocks, size_bytes=sizes, used_bytes=used))


def _with_rows(tensor: Tensor, few: int, many: int) -> Tensor:
    if not tensor.shape or tensor.shape[0] % few:
        return tensor
    return replace(tensor, shape=(tensor.shape[0] // few * many, *tensor.shape[1:]))


def _size(size: int, few: int, many: int) -> int:
    """Of a block; what the pool adds to a tensor does not grow with it."""
    return (size - _ALIGNED) // few * many // _ALIGNED * _ALIGNED + _ALIGNED
