"""TRACE -> TRACE whose data set hands out a batch of another number of micro-batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from swapconf.memory.addresses import used_bytes
from swapconf.trace.tensor import Tensor
from swapconf.trace.trace import Task, Trace

_NEXT = "GetNext"
_ALIGNED = 512  # MindSpore's pool adds some bytes to a tensor, and rounds up to this


def with_batch(trace: Trace, few: int, many: int) -> Trace:
    """``few``: micro-batches in the batch of the run, ``many``: in the new one. Their rows come one after another."""
    if few == many:
        return trace
    blocks = trace.blocks
    sizes = blocks.size_bytes.copy()
    tasks: list[Task] = []
    batch = set()
    for task in trace.tasks:
        tensors = task.output_tensors
        if task.primitive == _NEXT:
            tensors = tuple(_with_rows(tensor, few, many) for tensor in tensors)
            batch |= {*task.outputs}
        given = tuple(
            _with_rows(tensor, few, many) if one in batch else tensor
            for one, tensor in zip(task.inputs, task.input_tensors, strict=False)
        )
        tasks.append(replace(task, output_tensors=tensors, input_tensors=given + task.input_tensors[len(given) :]))
    rows = np.searchsorted(blocks.start, np.array(sorted(batch), dtype=np.int64))
    sizes[rows] = [_size(size, few, many) for size in sizes[rows].tolist()]
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
