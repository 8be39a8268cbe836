"""ASKED -> VIEWS that several products read, and that are several under a strategy.

MindSpore makes one of equal views of several Linears where these are flagged alike: with the same prefetch or none, and
the recompute of both or of neither excluded (measured with MindSpore 2.9.0, in ChatGLM and legacy Llama; of views that
the model itself makes again in mcore); in recomputed cells also that of their communication (legacy Llama).

Mirrors CSE (frontend/optimizer/cse.cc), to which flags are attributes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swapconf.whatif.graph.asked import NO_CELL
from swapconf.whatif.graph.change import GraphChange


class _Flags(NamedTuple):
    window: int
    is_excluded: bool


@dataclass
class ViewParts(GraphChange):
    """``of_window``: by row of the windows the view that is copied, ``of_product``: by view of the baseline and kernel
    of a product the one that this reads. ``parted``: by such a view that of the baseline, ``readers``: what reads it.
    ``of_twin``: by kernel that makes a view again, but for what a strategy excludes, what is read instead.
    """

    of_window: dict[int, int] = field(default_factory=dict)
    of_product: dict[tuple[int, int], int] = field(default_factory=dict)
    parted: dict[int, int] = field(default_factory=dict)
    readers: dict[int, list[int]] = field(default_factory=dict)
    of_twin: dict[int, int] = field(default_factory=dict)

    def has_parts(self, view: int) -> bool:
        """Others read a part of its own of what the baseline has as one."""
        return view in self._whole

    @cached_property
    def _whole(self) -> frozenset[int]:
        return frozenset(self.parted.values())

    def part(self) -> None:
        self._part_made_again()
        for kernel, flags in self._flagged():
            view, named = self.run.node_of[kernel], self._named(kernel, flags)
            for flag in [flag_of_some for flag_of_some in dict.fromkeys(flags.values()) if flag_of_some != named]:
                products = [product for product, flag_of_product in flags.items() if flag_of_product == flag]
                readers = [self.run.node_of[product] for product in products]
                second = self._second(view, readers)
                self.parted[second], self.readers[second] = view, readers
                if flag.window >= 0:
                    self.of_window[flag.window] = second
                self.of_product |= {(view, product): second for product in products}

    def part_in_cells(self, again: Mapping[int, int]) -> None:
        """Views in recomputed cells that several products read, where the recompute of communication was asked for of
        those of some: ``recompute_comm_op`` is a flag of the primitive, whether anything is communicated or not. They
        are several in the forward pass and where they run again. ``again``: by node that runs again its kernel."""
        named = self._views_in_cells()
        if not named:
            return
        kernel_of = {**self.run.kernel_of, **again}
        readers: defaultdict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for reader, inputs in enumerate(self.nodes.inputs):
            for view in {given for given in inputs if kernel_of.get(given) in named}:
                if (product := self._product(kernel_of.get(reader))) is not None:
                    readers[view][self.asked.home(product)].append(reader)
        for view, read in readers.items():
            layer, own, name = named[kernel_of[view]]
            beside = self.marks.actions.beside
            is_flagged = (layer, f"{own}.{name}") in beside
            apart = [cell for cell in read if ((layer, f"{cell}.{name}") in beside) != is_flagged]
            if 0 < len(apart) < len(read):
                self._second(view, [reader for cell in apart for reader in read[cell]])

    def _views_in_cells(self) -> dict[int, tuple[str, str, str]]:
        """By kernel of the forward pass layer, cell and name, where communication is asked for in that layer."""
        sites, baseline, layers = self.marks.sites, self.baseline, {layer for layer, _ in self.marks.actions.beside}
        named = dict[int, tuple[str, str, str]]()
        if not layers:
            return named
        inside = baseline.views & ~baseline.kernels.backward & (sites.of_node >= 0)
        for view in np.flatnonzero(inside[: self.run.count]).tolist():
            layer, path = sites.names[sites.of_node[view]]
            if layer in layers and self.asked.around(view) != NO_CELL:
                own, _, name = path.rpartition(".")
                named[view] = layer, own, name
        return named

    def _product(self, kernel: int | None) -> int | None:
        """Whose view a kernel reads: its own, or that of the product whose gradient it is."""
        if kernel is None or not self.baseline.kernels.backward[kernel]:
            return kernel
        return self.run.forward_of.get(kernel)

    def _part_made_again(self) -> None:
        """Of a view that the model makes again for several products, and of which the recompute of some is excluded."""
        run, baseline = self.run, self.baseline
        cell = baseline.kernels.cell
        for first, further in baseline.further_twins.items():
            kept = {twin: self.asked.restored[twin] for twin in (first, *further) if twin in self.asked.restored}
            if not 0 < len(kept) <= len(further) or max(kept.values()) >= run.count:
                continue
            view, cells = run.node_of[next(iter(kept.values()))], {cell[twin] for twin in kept}
            readers = [user for user in run.users[view] if user in run.kernel_of and cell[run.kernel_of[user]] in cells]
            self.of_twin |= dict.fromkeys(kept, self._second(view, readers))

    def _second(self, view: int, readers: Iterable[int]) -> int:
        """One more of a view, which these read instead."""
        second = self.nodes.add(self.nodes.primitive[view], self.nodes.inputs[view], self.nodes.name[view])
        for reader in readers:
            self.nodes.read_instead(reader, {view: second})
        return second

    def _flagged(self) -> Iterator[tuple[int, dict[int, _Flags]]]:
        """Views with the flags of the products that read them, where these differ."""
        asked, program, run = self.asked, self.asked.plan.program, self.run
        baseline, excluded = asked.baseline, asked.marks.actions.excluded
        read = (program.reader >= 0) & (program.reader < run.count) & (program.face >= 0) & ~program.again
        read &= baseline.views[program.face] & baseline.kernels.backward[program.reader]
        flags_of: defaultdict[int, dict[int, _Flags]] = defaultdict(dict)
        for use in np.flatnonzero(read).tolist():
            product, view = run.forward_of.get(int(program.reader[use])), int(program.face[use])
            if product is not None and run.node_of[view] in run.graph.inputs[run.node_of[product]]:
                use_flags = _Flags(int(asked.windows.uses[use]), bool(excluded[program.site[use]]))
                flags_of[view].setdefault(product, use_flags)
        for view, flags in flags_of.items():
            is_again = any(kernel in asked.again or asked.is_inside(kernel) for kernel in (view, *flags))
            if len(set(flags.values())) > 1 and not is_again and view not in baseline.further_twins:
                yield view, flags

    def _named(self, view: int, flags: dict[int, _Flags]) -> _Flags:
        """Those of the product that the view is named after."""
        cell = self.baseline.kernels.cell
        return next(
            (flag for product, flag in flags.items() if cell[product] == cell[view]), next(iter(flags.values()))
        )
