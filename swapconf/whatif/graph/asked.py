"""LAUNCH PLAN -> what a strategy asks of the graph of one step, by kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swapconf.models.cells import LAYER_CLASSES, RETURN_TUPLES
from swapconf.models.network import LayerTemplate
from swapconf.trace.columns import Ints
from swapconf.trace.trace import POINT_TO_POINT
from swapconf.upstream.scopes import descends
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.graph.attached import called
from swapconf.whatif.graph.run_graph import NO_KERNEL, RunGraph
from swapconf.whatif.parted import Own, User, casts_apart, cells_of, gathers_apart
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.predict import LaunchPlan
from swapconf.whatif.rerun import Marks
from swapconf.whatif.swap import Windows

NO_CELL = -1
ASSIGNS = "Assign"  # or AssignAdd


class Use(NamedTuple):
    """How a kernel reads a block: a copy of it that is made again, or one that came back (a row of the windows)."""

    again: bool
    window: int


class Part(NamedTuple):
    """A pass and the recomputed cell around a node (`NO_CELL`: the node was asked for by itself).

    ``component``: without lazy inline the first kernel of the component (see `Components`) for which a table runs
    again, or a cast that cells share, where that is not the one of the cast itself.
    """

    passing: int
    cell: int
    component: int = NO_CELL


NOTHING = Use(again=False, window=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """``plan``: positions in it are not used."""

    prepared: PlacedBaseline
    run: RunGraph
    plan: LaunchPlan

    @cached_property
    def baseline(self) -> Baseline:
        return self.prepared.baseline

    @cached_property
    def marks(self) -> Marks:
        return self.plan.marks

    @property
    def windows(self) -> Windows:
        return self.plan.windows

    @cached_property
    def again(self) -> frozenset[int]:
        """Kernels of the step to run again where a gradient needs them."""
        program = self.plan.program
        copies = program.copies[: len(program.copies) - program.parted]
        return frozenset(copies[copies < self.run.count].tolist())

    @property
    def restored(self) -> Mapping[int, int]:
        return self.marks.restored

    @cached_property
    def is_pipelined(self) -> bool:
        return not POINT_TO_POINT.isdisjoint(self.baseline.kernels.primitives)

    @cached_property
    def root(self) -> Ints:
        """[kernels] which recomputed cell is around each."""
        return self.marks.covered.root

    @cached_property
    def called(self) -> Ints:
        """[kernels] see `called`."""
        return called(self.prepared, self.run, self.plan)

    def is_under(self, cell: int, kernel: int) -> bool:
        """What another stage sends stands in no cell, whichever reads it."""
        return (
            cell != NO_CELL
            and self.baseline.kernels.primitive[kernel] not in POINT_TO_POINT
            and bool(self.marks.covered.under[cell, kernel])
        )

    def returns_tuple(self, part: Part) -> bool:
        """Whether the recomputed cell of a part does."""
        template = self._template(part)
        is_mcore = template is not None and template.cell.endswith(LAYER_CLASSES)
        return is_mcore and (self.type_of(part) == "" or self.type_of(part).endswith(RETURN_TUPLES))

    def type_of(self, part: Part) -> str:
        """The class of the recomputed cell of a part; none for a layer, and of what the catalog does not know."""
        template, path = self._template(part), self.marks.actions.cells[part.cell]
        return template.by_path[path].type if template is not None and path != "" else ""

    def is_whole(self, part: Part) -> bool:
        """Whether the recomputed cell of a part is a layer of mcore."""
        template = self._template(part)
        is_layer = part.cell != NO_CELL and self.marks.actions.cells[part.cell] == ""
        return is_layer and template is not None and template.cell.endswith(LAYER_CLASSES)

    @cached_property
    def is_mcore(self) -> bool:
        return any(template.cell.endswith(LAYER_CLASSES) for template in self._templates.values())

    def operators(self, part: Part) -> Collection[str]:
        """Paths of what is in the layer of a part, as far as the catalog knows it."""
        return template.by_path if (template := self._template(part)) is not None else ()

    def _template(self, part: Part) -> LayerTemplate | None:
        return self._templates.get(self.baseline.layer_of(part.passing))

    @cached_property
    def _templates(self) -> dict[str, LayerTemplate]:
        return {entry.layer.name: entry.layer.template for entry in self.marks.strategy.layers}

    def home(self, kernel: int) -> str:
        """The path of the cell that a kernel stands in."""
        return self.prepared.sites.homes(self.baseline)[kernel]

    def is_excluded(self, kernel: int) -> bool:
        """The recompute of what a kernel belongs to is."""
        return bool(self.marks.actions.excluded[self.marks.sites.of_node[kernel]])

    def is_left_out(self, kernel: int) -> bool:
        """Stands in a recomputed cell and does not run again."""
        return kernel not in self.again and self.around(kernel) != NO_CELL

    def is_asked_for(self, kernel: int) -> bool:
        """To run again by itself, whether a gradient needs that or not."""
        return not self.is_inside(kernel) and bool(self.marks.actions.again[self.marks.sites.of_node[kernel]])

    def is_inside(self, kernel: int) -> bool:
        """Stands in a recomputed cell, whether it runs again or not."""
        return self.root[kernel] != NO_CELL or self.around(kernel) != NO_CELL

    def is_recomputed(self, kernel: int) -> bool:
        """Belongs to a cell that is recomputed as a whole, whether it has a number there or not."""
        roots = self.marks.actions.roots.get(self.baseline.layer_of(kernel), ())
        return descends(self.baseline.kernels.cell[kernel], set(roots))

    def around(self, kernel: int) -> int:
        """The recomputed cell in which a kernel stands, whether it runs again or not; `NO_CELL` for none."""
        marks = self.marks.actions
        asked = marks.roots.get(self.baseline.layer_of(kernel), ())
        cells = (number for number, cell in enumerate(marks.cells) if cell in asked and self.is_under(number, kernel))
        return next(cells, NO_CELL)

    @cached_property
    def uses(self) -> dict[tuple[int, bool, int], Use]:
        """By reader, whether it runs again itself, and the row of the block in the baseline."""
        baseline, program, windows = self.baseline, self.plan.program, self.plan.windows
        count = len(baseline.maker)
        origin = np.concatenate([np.arange(count), program.origin])
        origin[baseline.twin_block[self._twins_made]] = self._twins_made
        first_own = min(self.own_blocks, default=len(origin))
        row, fresh = origin[program.block], (program.block >= count) & (program.block < first_own)
        fresh |= np.isin(program.block, baseline.twin_block[self._twins_made])
        inside = np.flatnonzero((program.reader >= 0) & (program.reader < self.run.count))
        uses: dict[tuple[int, bool, int], Use] = {}
        columns = (program.reader, program.again, row, fresh, windows.uses)
        for reader, again, block, new, window in zip(*(column[inside].tolist() for column in columns), strict=True):
            uses.setdefault((reader, again, block), Use(again=new, window=window))
        return uses

    @cached_property
    def _twins_made(self) -> Ints:
        """Rows that the model itself makes again, of kernels that are to run again."""
        baseline = self.baseline
        return np.flatnonzero((baseline.twin_block >= 0) & np.isin(baseline.maker, list(self.again)))

    def use(self, reader: int, again: bool, node: int, item: int) -> Use:
        return self.uses.get((reader, again, self.row(node, item)), NOTHING)

    def row(self, node: int, item: int) -> int:
        """The block in which a value lies; -1 for none."""
        baseline, kernel = self.baseline, self.run.kernel_of.get(node)
        while kernel is not None and not baseline.made.get(kernel) and baseline.below[kernel] >= 0:
            node, item = self.run.origin(self.run.graph.inputs[node][0])  # a view shows what it reads
            kernel = self.run.kernel_of.get(node)
        made = baseline.made.get(kernel) if kernel is not None else None
        return made[min(item, len(made) - 1)] if made else -1

    def part(self, kernel: int) -> Part:
        """That of a node, or of the node whose gradient a kernel computes."""
        node = self.run.forward_of.get(kernel, NO_KERNEL) if self.baseline.kernels.backward[kernel] else kernel
        passing = int(self.baseline.kernels.passing[node]) if node != NO_KERNEL else -1
        cell = int(self.root[node]) if node != NO_KERNEL else NO_CELL
        if cell == NO_CELL and node not in (NO_KERNEL, kernel):  # the gradient of what is left out stands in the cell
            cell = self.around(node)
        return Part(passing if passing >= 0 else self.run.passes[kernel], cell)

    def is_cell_output(self, kernel: int, part: Part) -> bool:
        """Made in another recomputed cell of the same pass, which is not around that: what a cell makes for others is
        kept."""
        own, cells = int(self.root[kernel]), self.marks.actions.cells
        same = int(self.baseline.kernels.passing[kernel]) == part.passing
        if NO_CELL in (own, part.cell) or own == part.cell or not same:
            return False
        return not descends(cells[part.cell], {cells[own]})

    @cached_property
    def shared(self) -> dict[int, tuple[str, ...]]:
        """What all layers share, with its paths."""
        return dict(self.prepared.sites.shared)

    @cached_property
    def casts(self) -> dict[int, Own]:
        """By kernel of the step casts, or communication and the view that it sends, that other cells have for
        themselves."""
        casts = casts_apart(self.baseline, self.prepared.sites, self.marks.strategy)
        gathers = gathers_apart(self.baseline, self.marks.sites, self.marks.actions.again)
        return {own.kernel: own for own in (*casts, *gathers)}

    def user(self, kernel: int, reader: int, layer: int) -> User:
        """For whom in a layer one of these, or of what all share, is read."""
        return layer, self._cell(kernel, reader)

    def _cell(self, kernel: int, reader: int) -> str:
        cells = cells_of(self.shared.get(kernel, ())) or self.casts[kernel].cells
        return cells[int(self.baseline.place_among(cells)[reader])]

    def remakes(self, kernel: int, part: Part, reader: int) -> bool:
        """A layer makes what all share again for itself; of other kernels always true."""
        if kernel not in self.shared:
            return True
        cells = self.marks.remade.get(part.passing, {}).get(kernel, {})
        return any(cells.values()) if reader in self.shared else cells.get(self._cell(kernel, reader), False)

    def shared_part(self, kernel: int, part: Part) -> Part:
        """The recomputed cell of a layer in which a shared kernel stands."""
        return Part(
            part.passing, self.shared_cell(kernel, self.baseline.layer_of(part.passing) if part.passing >= 0 else "")
        )

    def shared_cell(self, kernel: int, layer: str) -> int:
        """The same by the name of the layer; `NO_CELL` for none."""
        marks, paths = self.marks.actions, self.shared[kernel]
        for cell in sorted(marks.roots.get(layer, ())):
            if cell not in paths and cell in marks.cells and any(descends(path, {cell}) for path in paths):
                return marks.cells.index(cell)
        return NO_CELL

    @cached_property
    def owns(self) -> list[Own]:
        """Tables that some users have for themselves, of this step, in the order in which they are made."""
        return [own for own in self.marks.owns if own.kernel < self.run.count]

    def own(self, window: int) -> Own | None:
        """What is copied to the host, where it is a user's own."""
        cast = self.casts.get(int(self.windows.face[window]))
        if cast is not None and cast.site == int(self.windows.site[window]):
            return cast
        return self.own_blocks.get(int(self.windows.block[window]))

    @cached_property
    def own_blocks(self) -> Mapping[int, Own]:
        """By block of the program."""
        made = self.baseline.made
        rows = [own for own in self.marks.owns for _ in made.get(own.kernel, ())]
        first = len(self.baseline.maker) + len(self.plan.program.origin) - len(rows)
        return {first + turn: own for turn, own in enumerate(rows)}

    @cached_property
    def behind(self) -> dict[int, list[int]]:
        """By node that runs again the nodes that do, too, and read it."""
        return self._readers(lambda reader: reader in self.again)

    @cached_property
    def gradients(self) -> dict[int, list[int]]:
        """By node that runs again the kernels of the backward pass that read it."""
        return self._readers(lambda reader: reader not in self.again and bool(self.baseline.kernels.backward[reader]))

    def _readers(self, is_reader: Callable[[int], bool]) -> dict[int, list[int]]:
        reads = self.baseline.reads
        readers: defaultdict[int, list[int]] = defaultdict(list)
        inside = np.flatnonzero((reads.face >= 0) & (reads.kernel < self.run.count))
        for face, reader in zip(reads.face[inside].tolist(), reads.kernel[inside].tolist(), strict=True):
            if face in self.again and is_reader(reader):
                readers[face].append(reader)
        return readers
