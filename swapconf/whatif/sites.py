"""BASELINE + NETWORK -> SITES: which primitive of which layer a node is, and which one owns what a gradient reads.

MindSpore flags primitives before it removes what is superfluous: a Linear's own Reshape of its input is a site of its
own, although three Linears that read one norm share one Reshape in the executed graph. So a gradient kernel in a cell
that has such a view of its own reads that site, not the one whose view survived (measured with MindSpore 2.9.0:
``attention\\.wq`` moves the norm's output, and the device copy stays for ``wk`` and ``wv``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.whatif.baseline import Baseline


@dataclass(frozen=True, kw_only=True)
class Sites:
    """``names``: (layer name, path of the primitive). ``of_node``: [kernels], ``of_read``: [reads] indexes into them,
    -1 where the catalog knows nothing. ``of_moved``: [kernels] the site whose swap moves the output of a node; as
    ``of_node``, and for communication the site that it sends the output of. ``of_unread``: [kernels] the site whose
    swap copies the output of a node to the host although no gradient reads it. ``of_place``: [kernels] the layer name
    and the cell of a node, as index into ``places``. ``shared``: kernels that several layers share, with the
    paths of the primitives that each is in all of them, that of the cell which it is named after first. ``home``:
    [kernels] the cell of the site of each, else that of the baseline. ``unsaved``: kernels of views that are no site,
    as nothing saves them, with the layer name and path of the primitive. ``named``: kernels of views that are the site
    in front, with the site that they are named after. ``scaled``: views in place of a product with 1 that all layers
    share, with the site whose swap moves them, and those of all layers.
    """

    names: tuple[tuple[str, str], ...]
    of_node: Ints
    of_moved: Ints
    of_read: Ints
    of_unread: Ints
    places: tuple[tuple[str, str], ...]
    of_place: Ints
    of_merged: Ints
    of_viewed: Ints
    shared: tuple[tuple[int, tuple[str, ...]], ...] = ()
    home: tuple[str, ...] | None = None
    unsaved: tuple[tuple[int, tuple[str, str]], ...] = ()
    named: tuple[tuple[int, int], ...] = ()
    scaled: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def under(self, baseline: Baseline, again: Flags, excluded: Flags) -> Sites:
        """``again``, ``excluded``: [sites], and one more for none. A view that MindSpore has merged with another one in
        front runs again as the one that it is named after, whatever is decided for that in front (measured with
        MindSpore 2.9.0: the Reshape of ``attention.wo``, legacy Llama), but where that is excluded (see
        `merged_views.as_first`). What is ``scaled`` moves only where no layer scales it again: one that does reads what
        the view shows."""
        moved = {face: sites[0] for face, sites in self.scaled if not again[list(sites)].any()}
        if moved:
            of_moved = self.of_moved.copy()
            of_moved[list(moved)] = list(moved.values())
            return replace(self, of_moved=of_moved, scaled=()).under(baseline, again, excluded)
        stays = again | excluded
        turned = [(node, site) for node, site in self.named if again[site] and not stays[self.of_node[node]]]
        return self.taken_for(baseline, turned)

    def taken_for(self, baseline: Baseline, turned: Collection[tuple[int, int]]) -> Sites:
        """``turned``: views, and the site that each runs again as."""
        if not turned:
            return self
        of_node, of_read, of_viewed = self.of_node.copy(), self.of_read.copy(), self.of_viewed.copy()
        for node, site in turned:
            of_read[(baseline.reads.face == node) & (of_read == of_node[node])] = site
            of_viewed[baseline.below[node]] = of_node[node] = site
        return replace(self, of_node=of_node, of_read=of_read, of_viewed=of_viewed)

    def homes(self, baseline: Baseline) -> Sequence[str]:
        """[kernels] the cell of each, as well as it is known."""
        return self.home or baseline.kernels.cell

    @cached_property
    def row_of(self) -> dict[tuple[str, str], int]:
        """By name its row."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def loose(self) -> dict[tuple[str, str], Ints]:
        """Nodes that are no site, by layer name and cell."""
        nodes = np.flatnonzero((self.of_node < 0) & (self.of_place >= 0))
        return {
            self.places[place]: nodes[self.of_place[nodes] == place]
            for place in np.unique(self.of_place[nodes]).tolist()
        }


def sums_of_products(baseline: Baseline) -> Flags:
    """[kernels] what adds up the product of each card, right behind it: put in for the product, whose marks it has, and
    no change of layout for who reads it (``step_parallel``: the forward communication of an operator)."""
    reader, face = baseline.edges
    behind = np.zeros(len(baseline.kernels), dtype=np.bool_)
    behind[reader[(baseline.kernels.primitives == "MatMul")[face]]] = True
    return np.asarray(behind & np.isin(baseline.kernels.primitives, ("AllReduce", "ReduceScatter")))
