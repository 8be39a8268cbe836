"""BASELINE OF SEVERAL STEPS -> BASELINE OF ONE, and back: what a strategy does in one step it does in each.

Training runs the same step again and again, and a trace mostly has two of it. Where these are alike to the event, the
schedule of a strategy is worked out for the first alone, in about half the time, and repeated. Rows of blocks stay as
they are counted in the whole baseline; in that of one step, those of later steps are made by no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.baseline_step import Step
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.predict import LaunchPlan
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.swap import Later, Windows
from swapconf.whatif.weight_copies import WeightCopies


@dataclass(frozen=True, kw_only=True)
class OneStep:
    """``prepared``: the first step of a baseline; ``step``: the same to be timed. ``rows``: int64 [steps, blocks], the
    block in each step that stands for one of the first; itself where no kernel of the first makes it. ``kernels``: how
    many a step has."""

    prepared: PlacedBaseline
    step: Step
    rows: Ints
    kernels: int

    def repeated(self, plan: LaunchPlan) -> LaunchPlan:
        """A schedule of the first step, in all of them; ``marks`` stay those of the first. What belongs to a step
        stands behind what belongs to those before it."""
        windows, weights = plan.windows, plan.weights
        block = self._blocks(len(plan.program.origin))
        return LaunchPlan(
            program=self._program(plan.program, block),
            windows=self._windows(windows, block),
            weights=WeightCopies(
                row=self.rows[:, weights.row].ravel(),
                born=self._positions(weights.born),
                until=self._positions(weights.until),
            ),
            marks=plan.marks,
        )

    def _program(self, program: StrategyProgram, block: Ints) -> StrategyProgram:
        steps, own = len(self.rows), len(program.copies) - program.parted
        copies, inserted = self._kernels(program.copies), self._positions(program.inserted)
        # those that are parted stay the last
        order = np.argsort(np.tile(np.arange(len(program.copies)) >= own, steps), kind="stable")
        return StrategyProgram(
            where=self._positions(program.where),
            block=block[:, program.block].ravel(),
            position=self._positions(program.position),
            until=self._positions(program.until),
            face=self._kernels(program.face),
            site=np.tile(program.site, steps),
            reader=self._kernels(program.reader),
            again=np.tile(program.again, steps),
            origin=self.rows[:, program.origin].ravel(),
            born=self._positions(program.born),
            copies=copies[order],
            inserted=inserted[order],
            parted=program.parted * steps,
        )

    def _windows(self, windows: Windows, block: Ints) -> Windows:
        steps, later = len(self.rows), windows.later
        return Windows(
            block=block[:, windows.block].ravel(),
            row=self.rows[:, windows.row].ravel(),
            face=self._kernels(windows.face),
            site=np.tile(windows.site, steps),
            prefetch=np.tile(windows.prefetch, steps),
            copied=self._positions(windows.copied),
            released=self._positions(windows.released),
            returned=self._positions(windows.returned),
            used=self._positions(windows.used),
            far=np.tile(windows.far, steps),
            until=self._positions(windows.until),
            uses=_shifted(windows.uses, steps, len(windows.row)),
            unread=np.tile(windows.unread, steps),
            underflows=np.tile(windows.underflows, steps),
            apart=np.tile(windows.apart, steps),
            later=Later(
                window=_shifted(later.window, steps, len(windows.row)),
                returned=self._positions(later.returned),
                until=self._positions(later.until),
            ),
        )

    def _blocks(self, new: int) -> Ints:
        """[steps, blocks and new blocks] as ``rows``."""
        step, first = np.arange(len(self.rows))[:, None], self.rows.shape[1]
        return np.concatenate([self.rows, first + step * new + np.arange(new)], axis=1)

    def _positions(self, column: Ints) -> Ints:
        return (np.arange(len(self.rows))[:, None] * (self.kernels * TICKS) + column).ravel()

    def _kernels(self, column: Ints) -> Ints:
        return _shifted(column, len(self.rows), self.kernels)


def _shifted(column: Ints, steps: int, by: int) -> Ints:
    """``by`` more in each step, but for -1."""
    return np.where(column < 0, column, np.arange(steps)[:, None] * by + column).ravel()


def one_step(prepared: PlacedBaseline, step: Step) -> OneStep | None:
    """None where there is one step, or where steps differ. ``step``: of the whole baseline."""
    baseline = prepared.baseline
    starts, steps = baseline.step_starts, baseline.steps
    count = int(starts[1])
    if steps < 2 or len(starts) != steps + 1 or len(baseline.kernels) != steps * count:
        return None
    blocks_of_step = [np.flatnonzero(baseline.maker // count == number) for number in range(steps)]
    rows = np.tile(np.arange(len(baseline.maker)), (steps, 1))
    if len({len(blocks) for blocks in blocks_of_step}) > 1:
        return None
    for number, blocks in enumerate(blocks_of_step):
        rows[number, blocks_of_step[0]] = blocks
    if not all(_are_alike(prepared, rows, number, count) for number in range(1, steps)):
        return None
    first = _first(prepared, count)
    alone = replace(step, baseline=first.baseline, item=step.item[:count])
    return OneStep(prepared=first, step=alone, rows=rows, kernels=count)


def _are_alike(prepared: PlacedBaseline, rows: Ints, step: int, count: int) -> bool:
    """Whether a step is the first once more: what it launches, reads and makes, when, and what is known of it."""
    baseline, first = prepared.baseline, step * count
    kernels, blocks = baseline.kernels, baseline.blocks
    old, new = slice(0, count), slice(first, first + count)
    made = np.flatnonzero((baseline.maker >= 0) & (baseline.maker < count))
    counterpart = rows[step, made]
    equal = [
        *_pairs(prepared, old, new),
        (_later(kernels.passing[old], first), kernels.passing[new]),
        (np.diff(kernels.before[old]), np.diff(kernels.before[new])),
        (baseline.maker[made] + first, baseline.maker[counterpart]),
        (blocks.size_bytes[made], blocks.size_bytes[counterpart]),
        (baseline.host_bytes[made], baseline.host_bytes[counterpart]),
    ]
    return (
        all(column[old] == column[new] for column in (kernels.name, kernels.cell, kernels.primitive))
        and all(np.array_equal(here, later) for here, later in equal)
        and len(np.unique(blocks.start[counterpart] - blocks.start[made])) <= 1
        and _are_known_alike(baseline, old, new)
        and _read_alike(prepared, rows[step], old, new)
    )


def _pairs(prepared: PlacedBaseline, old: slice, new: slice) -> list[tuple[Ints | Flags, Ints | Flags]]:
    """Columns of kernels in the two steps."""
    kernels, sites = prepared.baseline.kernels, prepared.sites
    columns: list[Ints | Flags] = [kernels.layer, kernels.stream, kernels.backward, sites.of_node, sites.of_moved]
    columns += [sites.of_unread, sites.of_place, sites.of_merged, sites.of_viewed]
    return [(column[old], column[new]) for column in columns]


def _are_known_alike(baseline: Baseline, old: slice, new: slice) -> bool:
    """What only some kernels have."""
    some = baseline.misnamed, baseline.turned, baseline.in_state or frozenset(), baseline.states, baseline.weights
    return all(
        {kernel for kernel in kernels if kernel < old.stop}
        == {kernel - new.start for kernel in kernels if new.start <= kernel < new.stop}
        for kernels in some
    )


def _read_alike(prepared: PlacedBaseline, rows: Ints, old: slice, new: slice) -> bool:
    """``rows``: [blocks] those of the new step."""
    reads, of_read = prepared.baseline.reads, prepared.sites.of_read
    inside, repeated = reads.kernel < old.stop, (reads.kernel >= new.start) & (reads.kernel < new.stop)
    columns = reads.kernel, reads.until, reads.face, reads.via
    return (
        np.array_equal(rows[reads.block[inside]], reads.block[repeated])
        and np.array_equal(of_read[inside], of_read[repeated])
        and all(np.array_equal(_later(column[inside], new.start), column[repeated]) for column in columns)
    )


def _later(column: Ints, by: int) -> Ints:
    return np.where(column < 0, column, column + by)


def _below(kernels: frozenset[int], count: int) -> frozenset[int]:
    return frozenset(kernel for kernel in kernels if kernel < count)


def _first(prepared: PlacedBaseline, count: int) -> PlacedBaseline:
    """The first step alone."""
    baseline, sites = prepared.baseline, prepared.sites
    kernels, reads = baseline.kernels, baseline.reads
    inside: Flags = reads.kernel < count
    first_step = Baseline(
        blocks=baseline.blocks,
        maker=np.where(baseline.maker < count, baseline.maker, -1),
        host_bytes=baseline.host_bytes,
        kernels=replace(
            kernels,
            name=kernels.name[:count],
            layer=kernels.layer[:count],
            cell=kernels.cell[:count],
            primitive=kernels.primitive[:count],
            stream=kernels.stream[:count],
            backward=kernels.backward[:count],
            passing=kernels.passing[:count],
            before=kernels.before[: count + 1],
        ),
        layers=baseline.layers,
        reads=replace(
            reads,
            block=reads.block[inside],
            kernel=reads.kernel[inside],
            until=reads.until[inside],
            face=reads.face[inside],
            via=reads.via[inside],
        ),
        steps=1,
        misnamed=_below(baseline.misnamed, count),
        weights={kernel: row for kernel, row in baseline.weights.items() if kernel < count},
        states={kernel: row for kernel, row in baseline.states.items() if kernel < count},
        turned=_below(baseline.turned, count),
        in_state=None if baseline.in_state is None else _below(baseline.in_state, count),
        of_function=_below(baseline.of_function, count),
        awaits_send=_below(baseline.awaits_send, count),
        joined=_below(baseline.joined, count),
        adds_up_experts=baseline.adds_up_experts,
    )
    return PlacedBaseline(
        baseline=first_step,
        sites=replace(
            sites,
            of_node=sites.of_node[:count],
            of_moved=sites.of_moved[:count],
            of_read=sites.of_read[inside],
            of_unread=sites.of_unread[:count],
            of_place=sites.of_place[:count],
            of_merged=sites.of_merged[:count],
            of_viewed=sites.of_viewed[:count],
            shared=tuple(row for row in sites.shared if row[0] < count),
            home=None if sites.home is None else sites.home[:count],
            unsaved=tuple(row for row in sites.unsaved if row[0] < count),
            named=tuple(row for row in sites.named if row[0] < count),
            scaled=tuple(row for row in sites.scaled if row[0] < count),
        ),
        network=prepared.network,
    )
