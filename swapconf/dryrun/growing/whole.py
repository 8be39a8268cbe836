"""TRACES of two runs with fewer layers -> TRACE of the whole model, or the reason why there is none.

The run with fewer layers is grown to the size of the one with more first, and has to give it: the same launches in the
same order, but that of some neighbours which do not depend on each other, blocks of the same sizes, the same used peak
to the byte. Only then that one is grown to the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from swapconf.dryrun.growing.graph_growth import learnt
from swapconf.dryrun.growing.grown import grown
from swapconf.dryrun.growing.instances import constants
from swapconf.dryrun.growing.layers import Numbering
from swapconf.dryrun.growing.periods import launch_the_same, periods
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.settled import settled
from swapconf.dryrun.growing.steps import Steps, steps
from swapconf.memory.addresses import unnamed, with_addresses
from swapconf.memory.allocators import mindspore
from swapconf.memory.replay import replay
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.lifetimes import UNTOLD, PoolRecord
from swapconf.trace.trace import Trace
from swapconf.words.phrases import phrase


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run with fewer layers.

    Attributes:
        kept: [its layers] their numbers in the whole model.
        size: How many of them are of the row that grows, which begins with layer ``first`` of the whole model.
        pool: What it said of its own pool.
        graph: On which MindSpore decided the order of its launches, None where that was not kept.
    """

    trace: Trace
    kept: Sequence[int]
    first: int
    size: int
    pool: PoolRecord = UNTOLD
    graph: LaunchGraph | None = None

    def numbering(self, kept: Sequence[int], stride: int) -> Numbering:
        """For a model with the layers ``kept`` of the whole one."""
        place = {layer: position for position, layer in enumerate(kept)}
        return Numbering(
            whole=[place[layer] for layer in self.kept],
            first=self.kept.index(self.first),
            size=self.size,
            stride=stride,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """``graph``: None where the runs have none, or where it cannot be repeated, ``why``."""

    trace: Trace
    graph: LaunchGraph | None = None
    why: str = ""


def whole(small: Run, big: Run, kept: Sequence[int], size: int) -> Trace:
    """See `with_graph`, which this is without."""
    return with_graph(replace(small, graph=None), big, kept, size).trace


def with_graph(small: Run, big: Run, kept: Sequence[int], size: int) -> Whole:
    """The model with the layers ``kept``, ``size`` of them in the row that was folded: all, where no other row was.
    Raises CannotGrow where there is no trace."""
    stride = big.size - small.size
    if stride < 1 or (size - big.size) % stride:
        raise CannotGrow(phrase("the layers that are missing are no whole number of periods"))
    one, two = steps(settled(small.trace)), steps(settled(big.trace))
    if one.count != two.count:
        raise CannotGrow(phrase("the two runs do not have equally many steps"))
    fewer, more = periods(one.forms, two.forms)
    added = constants(two)
    added.subtract(constants(one))
    _check(grown(one, fewer, small.numbering(big.kept, stride), 1, added), two)
    copies = (size - big.size) // stride
    if not copies:
        return Whole(trace=renumbered(big, kept))
    added = Counter({length: count * copies for length, count in added.items()})
    found = Whole(trace=grown(two, more, big.numbering(kept, stride), copies, added))
    if small.graph is not None and big.graph is not None:
        try:
            rules = learnt(small.graph, big.graph, one, two, more, copies)
            graph, trace = rules.graph(found.trace, big.numbering(kept, stride))
            found = Whole(trace=trace, graph=graph)
        except (ValueError, LookupError) as reason:  # the trace stands, whatever is odd about the graphs
            found = replace(found, why=str(reason))
    return replace(found, trace=placed(found.trace, big))


def renumbered(run: Run, kept: Sequence[int]) -> Trace:
    """The trace of a run that has all layers of its rank, with their names in the model with the layers ``kept``.
    Raises CannotGrow."""
    if tuple(run.kept) == tuple(kept) or not run.kept:
        return run.trace
    return placed(grown(steps(run.trace), (), run.numbering(kept, 1), 0, {}), run)


def _check(found: Trace, truth: Steps) -> None:
    """Raises CannotGrow where the run with fewer layers, grown, is not the one with more."""
    again = steps(found)
    if not launch_the_same(again.forms, truth.forms):
        raise CannotGrow(phrase("the run with fewer layers, repeated, does not launch what the one with more does"))
    one, other = found.blocks, truth.trace.blocks
    if (
        sorted(one.size_bytes.tolist()) != sorted(other.size_bytes.tolist())
        or found.used_peak_bytes != truth.trace.used_peak_bytes
    ):
        raise CannotGrow(
            phrase(
                "the run with fewer layers, repeated, has a used peak of {grown:,} bytes, the one with "
                "more of {truth:,}",
                grown=found.used_peak_bytes,
                truth=truth.trace.used_peak_bytes,
            )
        )


def placed(trace: Trace, like: Run) -> Trace:
    """Its blocks where MindSpore's pool would put them, in pieces as large as in another run."""
    pool = replay(like.trace, unnamed(like.trace.blocks), like.pool)
    live = unnamed(trace.blocks)
    return replace(trace, blocks=with_addresses(trace.blocks, live, mindspore.place(live, pool.pool)))
