"""COPIES + LABELS -> PARTS: the connected parts of passes that run again, with the kernels that wait for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.laid_out import GRADIENT_VIEW


@dataclass(frozen=True, kw_only=True)
class RegionPart:
    """``copies``: nodes that run again, ascending. ``first``: of each the first reader of its region. ``kernels``: of
    the baseline, ascending, without those that do already what a copy does. ``start``: the first of them that waits
    for a gradient."""

    copies: Ints
    first: Ints
    kernels: Ints
    start: int


def parts(baseline: Baseline, again: Flags, label: Ints, wanted: Ints, readers: Ints) -> Iterator[RegionPart]:
    """Regions in the order of their first readers; those that overlap are one. ``label``: see `regions`."""
    nodes = np.flatnonzero(again)
    group = label[wanted]
    names = np.unique(group)
    first = np.full(len(names), len(label), dtype=np.int64)
    last = np.zeros(len(names), dtype=np.int64)
    place = np.searchsorted(names, group)
    due = _due(baseline, readers)
    waits = baseline.waits[due]
    only = np.bincount(place[waits], minlength=len(names))[place] > 0
    np.minimum.at(first, place[waits | ~only], due[waits | ~only])
    np.maximum.at(last, place, due)
    ahead: dict[int, set[int]] = {}
    for name, reader, late in zip(place.tolist(), readers.tolist(), due.tolist(), strict=True):
        if reader != late or reader < first[name]:
            ahead.setdefault(name, set()).add(reader)
    for name, kernels in ahead.items():
        ahead[name] = _with_readers(baseline, kernels, int(first[name]))
    done_already = np.zeros(len(label), dtype=np.bool_)
    done_already[baseline.twin[nodes][baseline.twin[nodes] >= 0]] = True
    by_name = np.argsort(label[nodes], kind="stable")
    nodes = nodes[by_name]
    starts = np.searchsorted(label[nodes], names)
    ends = np.searchsorted(label[nodes], names, side="right")
    open_first, open_last, copies, views = -1, -1, dict[int, int](), list[int]()
    for name in np.argsort(first, kind="stable").tolist():
        if copies and first[name] > open_last:
            yield _part(copies, open_first, open_last, views, done_already)
            copies, views = {}, []
        if not copies:
            open_first, open_last = int(first[name]), -1
        open_last = max(open_last, int(last[name]))
        copies |= dict.fromkeys(nodes[starts[name] : ends[name]].tolist(), int(first[name]))
        views += sorted(ahead.get(name, ()))
    if copies:
        yield _part(copies, open_first, open_last, views, done_already)


def _part(copies: dict[int, int], first: int, last: int, views: list[int], done_already: Flags) -> RegionPart:
    """``copies``: with the first reader of the region of each. ``views``: what stands before it in the baseline."""
    kernels, nodes = np.union1d(np.array(views, dtype=np.int64), np.arange(first, last + 1)), sorted(copies)
    return RegionPart(
        copies=np.array(nodes),
        first=np.array([copies[node] for node in nodes]),
        start=first,
        kernels=kernels[~done_already[kernels]],
    )


def _due(baseline: Baseline, readers: Ints) -> Ints:
    """The readers; for a view that gradients make of what is no gradient, such as that of the weights of experts, the
    first kernel that reads the view: only that one waits for a gradient, the view stands anywhere in the baseline."""
    due, reads, is_view = readers.copy(), baseline.reads, _is_gradient_view(baseline)
    for index in np.flatnonzero(is_view[readers]).tolist():
        view = int(readers[index])
        users = [
            user
            for row in baseline.rows_of(view)
            for user in baseline.readers_of(int(reads.block[row]))
            if user > view and baseline.kernels.backward[user] and not is_view[user]
        ]
        due[index] = min(users, default=view)
    return due


def _with_readers(baseline: Baseline, kernels: set[int], end: int) -> set[int]:
    """Also what reads what they make, before a kernel."""
    extended, reads = set(kernels), baseline.reads
    for kernel in range(min(extended), end):
        if baseline.kernels.backward[kernel] and any(
            int(baseline.maker[reads.block[row]]) in extended for row in baseline.rows_of(kernel)
        ):
            extended.add(kernel)
    return extended


def _is_gradient_view(baseline: Baseline) -> Flags:
    return np.asarray(baseline.kernels.primitives == GRADIENT_VIEW)
