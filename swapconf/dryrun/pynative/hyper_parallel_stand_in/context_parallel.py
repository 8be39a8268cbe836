"""ATTENTION CELL -> the same on ranks that share a sequence: heads or keys of the others come before it. [mindspore]

Each rank has its part of the sequence. *Ulysses*: before the attention the ranks exchange parts of sequences for heads,
and back behind it. *Colossal*: each has its queries, and gathers the keys and values of all. *Hybrid*: the first in
rows of neighbouring ranks, the second between the rows. Source: hyper_parallel of 2026, core/context_parallel, whose
attention counts heads by the layout; the mask of colossal, which it makes for the part of each rank, is not made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import mindspore
from mindspore import mint
from mindspore.ops import communication
from mindspore.ops.operations.nn_ops import FlashAttentionScore

from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh


class ContextParallel:
    """``seq_dim``, ``head_dim``: of queries, keys and values, which are the arguments ``qkv_indices``.
    ``ulysses_degree``: ranks that exchange heads; 1 is colossal, all is ulysses."""

    def __init__(
        self,
        seq_dim: int = 1,
        head_dim: int = 2,
        ulysses_degree: int | None = None,
        qkv_indices: Sequence[int] = (0, 1, 2),
        **_more: Any,
    ) -> None:
        self._sequence, self._heads, self._degree, self._at = seq_dim, head_dim, ulysses_degree, tuple(qkv_indices)

    def apply(self, cell: Any, mesh: DeviceMesh) -> Any:
        size = mesh.size()
        degree = size if self._degree is None else self._degree
        if size % degree:
            raise ValueError(f"context parallelism over {size} ranks, and {degree} do not divide them")
        two = mesh._unflatten(0, (size // degree, degree), ("co", "ds"))
        rows, row = two["co"], two["ds"]
        gathers, exchanges = size > degree, degree > 1
        if exchanges:
            _count_heads(cell, degree)

        def before(_cell: Any, inputs: Any, named: Any) -> Any:
            given = list(inputs)
            for number, at in enumerate(self._at):
                if exchanges:
                    given[at] = exchange(given[at], row, self._heads, self._sequence)
                if gathers and number:
                    given[at] = gather(given[at], rows, self._sequence)
            return tuple(given), named

        def behind(_cell: Any, _inputs: Any, outputs: Any) -> Any:
            return _each(partial(exchange, mesh=row, split=self._sequence, joined=self._heads), outputs)

        cell.register_forward_pre_hook(before, with_kwargs=True)
        if exchanges:
            cell.register_forward_hook(behind)
        return cell


def exchange(tensor: Any, mesh: DeviceMesh, split: int, joined: int) -> Any:
    """All to all: what was whole along ``split`` is in parts, and what was in parts along ``joined`` is whole."""
    ranks, shape = mesh.size(), tuple(tensor.shape)
    if shape[split] % ranks:
        raise ValueError(f"{shape[split]} heads or positions do not go into {ranks} equal parts")
    sent = mint.cat(mint.chunk(tensor, ranks, dim=split), dim=0).contiguous()
    even = [prod(shape) // ranks] * ranks
    got, _ = communication.all_to_all_single(
        output=None, input=sent.reshape((-1,)), output_split_sizes=even, input_split_sizes=even, group=mesh.get_group()
    )
    return mint.cat(mint.chunk(got.reshape(tuple(sent.shape)), ranks, dim=0), dim=joined)


def gather(tensor: Any, mesh: DeviceMesh, dimension: int) -> Any:
    """The parts of all ranks along a dimension."""
    got, _ = communication.all_gather_into_tensor(None, tensor.contiguous(), group=mesh.get_group())
    return got if dimension == 0 else mint.cat(mint.chunk(got, mesh.size(), dim=0), dim=dimension)


def _count_heads(cell: Any, degree: int) -> None:
    """The attention operator of a rank that has a part of the heads. Source: mindformers 2.1.0,
    pynative/base_models/gpt/parallelize.py, _configure_local_fa, which does so for tensor parallelism."""
    operator = getattr(cell, "flash_attention", None)
    if operator is None:
        return
    cell.flash_attention = FlashAttentionScore(
        head_num=cell.head_num // degree,
        scale_value=cell.scalar_value,
        pre_tokens=cell.pre_tokens,
        next_tokens=cell.next_tokens,
        inner_precise=cell.inner_precise,
        input_layout=cell.input_layout,
        sparse_mode=cell.sparse_mode,
    )


def _each(function: Callable[[Any], Any], values: Any) -> Any:
    if isinstance(values, (tuple, list)):
        return type(values)(_each(function, value) for value in values)
    return function(values) if isinstance(values, mindspore.Tensor) else values
