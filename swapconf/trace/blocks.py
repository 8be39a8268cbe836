"""BLOCKS: every allocation of one rank as columns; a row of it is a `Block`.

A trace can hold millions of allocations, so each property is one numpy array and each text is kept once. Whoever reads
single rows sees a sequence of `Block`; whoever sums takes the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swapconf.trace.lifetimes import CONSTANT_VALUE, NEVER, usage

HOST_POOL = "Other"
NO_TASK = -1
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One allocation, a row of memory_block.csv.

    Attributes:
        start: Event of its birth, the id of its tensor.
        end: Event of its release (None: never).
        kind: ``Weight``, ``ConstantValue``, ``Kernel``, ...
        task: The event of the launch that made it.
        used_bytes: What MindSpore had in use, on the device or on the host, after this allocation.
        pool_peak_bytes: The most that its pool had taken by then, fragments included.
    """

    start: int
    end: int | None
    address: int
    size_bytes: int
    stream: int
    pool: str
    kind: str
    task: int | None
    task_name: str
    node: str
    users: tuple[int, ...]
    is_persistent: bool
    used_bytes: int
    pool_peak_bytes: int

    @property
    def on_host(self) -> bool:
        """Pinned host memory, which swap copies into; not part of any device sum."""
        return self.pool == HOST_POOL


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks(Sequence[Block]):
    """The same as columns of equal length n, in the order of the file.

    What they mean is told at `Block`.

    Attributes:
        start, end, address, size_bytes, stream, task, used_bytes, pool_peak_bytes: Int64 [n]; ``end`` is NEVER for a
            block that is never released, ``task`` is NO_TASK where no launch is known.
        pool, kind, task_name, node: Int32 [n], index into the tuple of names in the plural.
        users: Int64, the tasks that use block i stand at ``user_offsets[i]:user_offsets[i + 1]``; int64 [n + 1].
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    address: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    pools: tuple[str, ...]
    kind: NDArray[np.int32]
    kinds: tuple[str, ...]
    task: NDArray[np.int64]
    task_name: NDArray[np.int32]
    task_names: tuple[str, ...]
    node: NDArray[np.int32]
    nodes: tuple[str, ...]
    users: NDArray[np.int64]
    user_offsets: NDArray[np.int64]
    is_persistent: NDArray[np.bool_]
    used_bytes: NDArray[np.int64]
    pool_peak_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Block]) -> Blocks:
        """The columns of rows."""
        rows = list(rows)
        pool, pools = coded(row.pool for row in rows)
        kind, kinds = coded(row.kind for row in rows)
        task_name, task_names = coded(row.task_name for row in rows)
        node, nodes = coded(row.node for row in rows)
        return cls(
            start=_int64([row.start for row in rows]),
            end=_int64([NEVER if row.end is None else row.end for row in rows]),
            address=_int64([row.address for row in rows]),
            size_bytes=_int64([row.size_bytes for row in rows]),
            stream=_int64([row.stream for row in rows]),
            pool=pool,
            pools=pools,
            kind=kind,
            kinds=kinds,
            task=_int64([NO_TASK if row.task is None else row.task for row in rows]),
            task_name=task_name,
            task_names=task_names,
            node=node,
            nodes=nodes,
            users=_int64([user for row in rows for user in row.users]),
            user_offsets=offsets(_int64([len(row.users) for row in rows])),
            is_persistent=np.array([row.is_persistent for row in rows], dtype=np.bool_),
            used_bytes=_int64([row.used_bytes for row in rows]),
            pool_peak_bytes=_int64([row.pool_peak_bytes for row in rows]),
        )

    def __len__(self) -> int:
        return len(self.start)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Block, ...]: ...

    def __getitem__(self, index: int | slice) -> Block | tuple[Block, ...]:
        """A row, or the rows of a slice as a tuple."""
        places = range(len(self))[index]
        if isinstance(places, int):
            return next(self._rows(places, places + 1))
        return tuple(self[place] for place in places)

    def __iter__(self) -> Iterator[Block]:
        for first in range(0, len(self), _ROWS_AT_ONCE):
            yield from self._rows(first, min(first + _ROWS_AT_ONCE, len(self)))

    def _rows(self, first: int, stop: int) -> Iterator[Block]:
        borders = self.user_offsets[first : stop + 1].tolist()
        users = self.users[borders[0] : borders[-1]].tolist()
        columns = (
            getattr(self, column.name)[first:stop].tolist() for column in fields(Block) if column.name != "users"
        )
        for (
            start,
            end,
            address,
            size_bytes,
            stream,
            pool,
            kind,
            task,
            task_name,
            node,
            is_persistent,
            used_bytes,
            pool_peak_bytes,
        ), (from_, to) in zip(zip(*columns, strict=True), pairwise(borders), strict=True):
            yield Block(
                start=start,
                end=None if end == NEVER else end,
                address=address,
                size_bytes=size_bytes,
                stream=stream,
                pool=self.pools[pool],
                kind=self.kinds[kind],
                task=None if task == NO_TASK else task,
                task_name=self.task_names[task_name],
                node=self.nodes[node],
                users=tuple(users[from_ - borders[0] : to - borders[0]]),
                is_persistent=is_persistent,
                used_bytes=used_bytes,
                pool_peak_bytes=pool_peak_bytes,
            )

    @cached_property
    def on_host(self) -> NDArray[np.bool_]:
        """bool [n]: pinned host memory, which swap copies into; not part of any device sum."""
        return np.equal(self.pool, self.pools.index(HOST_POOL) if HOST_POOL in self.pools else -1)

    def beside(self, size_bytes: int) -> Blocks:
        """The same beside a constant of so many bytes that is there before all else and to the end."""
        if not size_bytes or not len(self):
            return self
        first = {
            "start": int(self.start.min()) - 1,
            "end": NEVER,
            "size_bytes": size_bytes,
            "task": NO_TASK,
            "pool": int(self.pool[~self.on_host][0]),
            "kind": len(self.kinds),
            "task_name": len(self.task_names),
            "node": len(self.nodes),
            "is_persistent": True,
            "used_bytes": size_bytes,
            "pool_peak_bytes": size_bytes,
        }
        columns = {
            name: np.concatenate([np.array([first.get(name, 0)], dtype=column.dtype), column])
            for name in _COLUMNS
            for column in (getattr(self, name),)
        }
        return replace(
            self,
            **columns,
            kinds=(*self.kinds, CONSTANT_VALUE),
            task_names=(*self.task_names, ""),
            nodes=(*self.nodes, ""),
            user_offsets=np.concatenate([self.user_offsets[:1], self.user_offsets]),
        )

    def starts(self, *kinds: str) -> set[int]:
        """Of the blocks of these kinds."""
        codes = [code for code, kind in enumerate(self.kinds) if kind in kinds]
        return set(self.start[np.isin(self.kind, codes)].tolist())

    def readers(self) -> Iterator[tuple[int, ...]]:
        """`Block.users` row by row."""
        users = self.users.tolist()
        return (tuple(users[from_:to]) for from_, to in pairwise(self.user_offsets.tolist()))

    def peak_bytes(self, *, on_host: bool) -> int:
        """The largest sum of the sizes of blocks that live at once, on the host or on the device."""
        chosen = self.on_host == on_host
        return usage(self.start[chosen], self.end[chosen], self.size_bytes[chosen]).peak_bytes


_COLUMNS = tuple(column.name for column in fields(Block) if column.name != "users")


def coded(texts: Iterable[str]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Each text as an index into the distinct texts, in order of their first appearance."""
    codes: dict[str, int] = {}
    column = np.array([codes.setdefault(text, len(codes)) for text in texts], dtype=np.int32)
    return column, tuple(codes)


def offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the values of each row begin, and where those of the last one end: int64 [n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def ranges(start: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``start[i], start[i] + 1, ...``: ``counts[i]`` numbers for each i, one after another."""
    before = np.cumsum(counts) - counts
    places: NDArray[np.int64] = np.arange(int(counts.sum())) + np.repeat(start - before, counts)
    return places


def _int64(values: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)
