"""BASELINE + NETWORK -> SITES, step by step: see `Sites`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from swapconf.models.cells import EXPERTS, ROUTER
from swapconf.models.network import Network
from swapconf.trace.columns import Flags
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.cell_primitives import CellPrimitives, path_among
from swapconf.whatif.refined import reduction_of, refined, transpose_of
from swapconf.whatif.served import (
    casts_behind_sums,
    cell_of,
    like_misnamed,
    near,
    of_strangers,
    places_of,
    reader_cells,
    shown_and_sent,
    sums_read,
)
from swapconf.whatif.sites import Sites
from swapconf.whatif.unread import unread, viewed

_OF_EXPERTS = frozenset({EXPERTS, ROUTER})
_SCALING = "Muls"


def assign(baseline: Baseline, network: Network) -> Sites:
    assigned = _Assigned(baseline, network)
    assigned.nodes()
    assigned.merged()
    assigned.sent()
    assigned.read()
    shared = assigned.shared()
    names = tuple(assigned.names)
    of_place, places = places_of(baseline, assigned.of_node, names)
    sites = zip(assigned.of_node.tolist(), baseline.kernels.cell, strict=True)
    return Sites(
        home=tuple(names[site][1].rpartition(".")[0] if site >= 0 else cell for site, cell in sites),
        names=names,
        of_node=assigned.of_node,
        of_moved=assigned.of_moved,
        of_read=assigned.of_read,
        of_unread=unread(baseline, assigned.of_node, names, network),
        of_merged=assigned.of_merged,
        of_viewed=viewed(baseline, assigned.of_node, assigned.of_merged),
        places=places,
        of_place=of_place,
        shared=shared,
        unsaved=tuple(assigned.unsaved),
        named=tuple(assigned.named),
        scaled=tuple(assigned.scaled.items()),
    )


class _Assigned:
    """What becomes `Sites`, step by step. ``names``: rows of (layer, path), in the order in which they are met."""

    def __init__(self, baseline: Baseline, network: Network) -> None:
        self._baseline, self._kernels, self._reads = baseline, baseline.kernels, baseline.reads
        self._templates = {layer.name: (layer.name, CellPrimitives(layer.template)) for layer in network.layers}
        self._attributes = network.called
        self._readers = reader_cells(baseline)
        self.names: dict[tuple[str, str], int] = {}
        self._of_site: list[str] = []  # the path of each
        self.unsaved: list[tuple[int, tuple[str, str]]] = []
        self.named: list[tuple[int, int]] = []
        self.scaled: dict[int, tuple[int, ...]] = {}
        self.of_node = np.full(len(self._kernels), -1, dtype=np.int64)
        self.of_moved = self.of_merged = self.of_node
        self.of_read = np.full(len(self._reads.block), -1, dtype=np.int64)

    def nodes(self) -> None:
        """The site of each node of a layer."""
        baseline, kernels = self._baseline, self._kernels
        served = set(baseline.edges[1][~kernels.is_lost[baseline.edges[0]]].tolist())  # by nodes that name their cells
        is_known = np.zeros(len(kernels), dtype=np.bool_)
        below: dict[int, str] = {}
        path_of: dict[int, str] = {}
        for node in np.flatnonzero(kernels.passing >= 0)[::-1].tolist():
            layer = self._layer(node)
            if layer is None:
                continue
            readers = self._readers.get(node, frozenset())
            cells = (kernels.cell[node], *near(baseline, node, readers, below))
            paths = (layer[1].path(cell, kernels.primitive[node], readers) for cell in cells)
            called = self._called(node, layer[1])
            path = called or transpose_of(baseline, node, layer[1], readers)
            if path is None and kernels.is_lost[node]:
                path = layer[1].read_by(
                    kernels.primitive[node],
                    {path_of[reader] for reader in self._after.get(node, ()) if reader in path_of},
                )
                if path is not None:
                    path_of[node], below[node] = path, path.rpartition(".")[0]
            if path is None:
                path = next((path for path in paths if path is not None), None)
            if path is None and kernels.is_fused[node]:
                path = layer[1].read_by_like(kernels.primitive[node], readers)
            is_known[node] = path is not None
            if path is not None and called is None:
                is_served = not kernels.is_lost[node] or node in served
                as_named, path = path, refined(baseline, node, path, layer[1], readers, is_served=is_served)
                if path != as_named:
                    self._other_than_named(node, layer, as_named, is_site=path is not None)
            if path is not None:
                self.of_node[node] = self._site(layer[0], path)
                path_of[node], below[node] = path, path.rpartition(".")[0]
        self.of_node[of_strangers(baseline, is_known) | like_misnamed(baseline, self._readers)] = -1
        self.of_node[self._dispatching() | casts_behind_sums(self._baseline)] = -1
        # a cell sets what moves on primitives that are its attributes
        self.of_moved = np.where(baseline.is_of_function, -1, self.of_node)

    def _called(self, node: int, layer: CellPrimitives) -> str | None:
        """The primitive that the source of a node names, as far as the graph of its run tells that, or what stands
        around it."""
        attribute = self._attributes.get(self._kernels.name[node])
        path = ".".join(filter(None, (self._kernels.cell[node], attribute))) if attribute else ""
        return (
            path
            if path in layer.by_path and layer.by_path[path].kind == "primitive"
            else reduction_of(self._baseline, node, self._after.get(node, ()), layer)
        )

    def _other_than_named(self, node: int, layer: tuple[str, CellPrimitives], path: str, *, is_site: bool) -> None:
        """``path``: what a node is called, and is not."""
        if self._kernels.is_lost[node]:
            return
        if not is_site:
            self.unsaved.append((node, (layer[0], layer[1].not_saved(path))))
        elif path.rpartition(".")[0] == self._kernels.cell[node] and layer[1].by_path[path].type in VIEWS:
            self.named.append((node, self._site(layer[0], path)))

    def _dispatching(self) -> Flags:
        """[kernels] casts of the functions that send tokens to experts: these are no operators, whatever casts the
        router and the experts have besides."""
        casts = (self._kernels.primitives == "Cast") & (self.of_node >= 0)
        for node in np.flatnonzero(casts).tolist():
            casts[node] = self._is_dispatch(node, self._of_site[self.of_node[node]])
        return np.asarray(casts)

    def _is_dispatch(self, node: int, path: str) -> bool:
        is_cast = bool(self._kernels.is_lost[node]) and self._kernels.primitive[node] == "Cast"
        return is_cast and not _OF_EXPERTS.isdisjoint(path.split("."))

    def merged(self) -> None:
        """The site in front of a view that MindSpore has merged with it: a Linear's Reshape of its output."""
        self.of_merged = np.full(len(self.of_node), -1, dtype=np.int64)
        for node in np.flatnonzero(self._baseline.views & (self.of_node >= 0)).tolist():
            layer, below = self._layer(node), int(self._baseline.below[node])
            if layer is not None and below >= 0 and self.of_node[below] >= 0:
                kinds = {primitive for _, primitive in self._readers.get(node, ())} | self._known_kinds(node)
                source, path = (self._of_site[self.of_node[kernel]] for kernel in (below, node))
                between = layer[1].view_between(source, path, kinds)
                if between is not None:
                    self.of_merged[node] = self._site(layer[0], between)
        self._handed_out()

    def _known_kinds(self, node: int) -> set[str]:
        """What reads a node by the catalog: of one head a Transpose is a view."""
        layer = self._layer(node)
        sites = (int(self.of_node[reader]) for reader in self._after.get(node, ()))
        paths = [self._of_site[site] for site in sites if site >= 0]
        return (
            {layer[1].by_path[path].type for path in paths if path in layer[1].by_path} if layer is not None else set()
        )

    @cached_property
    def _after(self) -> dict[int, list[int]]:
        """By node those that read it."""
        readers: defaultdict[int, list[int]] = defaultdict(list)
        for reader, face in zip(*(side.tolist() for side in self._baseline.edges), strict=True):
            readers[face].append(reader)
        return readers

    def _handed_out(self) -> None:
        """A view without a name behind a node is the last of the cell of that; a second one behind it, which reads like
        it, is that of the cell around. So is a view that the cell around gives its name to: that of the cell within
        is merged in it."""
        baseline, is_lost = self._baseline, self._kernels.is_lost
        behind = {int(baseline.below[node]): node for node in np.flatnonzero(baseline.views & is_lost).tolist()}
        for node in np.flatnonzero(baseline.views & (self.of_node < 0) & (self._kernels.passing >= 0)).tolist():
            layer, below = self._layer(node), int(baseline.below[node])
            if layer is None or below < 0 or self.of_node[below] < 0:
                continue
            path = layer[1].view_of(self._of_site[self.of_node[below]])
            if path is None:
                continue
            around = path.rpartition(".")[0].rpartition(".")[0]
            if not is_lost[node] and self._kernels.cell[node] != around:
                continue
            self.of_merged[node] = self._site(layer[0], path)
            last = behind.get(node, -1)
            outer = layer[1].path(around, self._kernels.primitive[node], self._readers.get(last, frozenset()))
            if last >= 0 and outer is not None and self.of_node[last] == self.of_merged[node]:
                self.of_node[last] = self.of_moved[last] = self._site(layer[0], outer)

    def sent(self) -> None:
        """Communication that is no site of its own moves what the site does that it reads; so does the slice that
        parallelism takes of what all ranks have, but for one of a piece of several, and for one of a router."""
        faces, reading, kernels = self._reads.face, self._reads.kernel, self._kernels
        sliced = (kernels.primitives[reading] == "StridedSlice") & (
            self._baseline.num_made[self._baseline.maker[self._reads.block]] == 1
        )
        sliced &= np.array([not kernels.cell[node].endswith(ROUTER) for node in reading.tolist()], dtype=np.bool_)
        sent = ((kernels.stream[reading] != 0) | sliced) & (faces >= 0) & (kernels.passing[reading] >= 0)
        for row in np.flatnonzero(sent & (self.of_node[reading] < 0)).tolist():
            self.of_moved[reading[row]] = self._owner(int(faces[row]), int(reading[row]))

    def read(self) -> None:
        """The site that owns what each gradient reads."""
        faces, reading, kernels = self._reads.face, self._reads.kernel, self._kernels
        for row in np.flatnonzero((kernels.passing[faces] >= 0) & kernels.backward[reading]).tolist():
            self.of_read[row] = self._owner(int(faces[row]), int(reading[row]))
        for row, layer_of in sums_read(self._baseline):
            layer = self._templates.get(self._baseline.layers.name(layer_of))
            path = layer[1].path("", "Add", frozenset()) if layer is not None else None
            if layer is not None and path is not None:
                self.of_read[row] = self._site(layer[0], path)

    def shared(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """(kernel, paths) of what all layers share; each layer has a site for each."""
        kernels = self._kernels
        path_of = dict(_shared(self._baseline, self._templates))
        cells = self._cells_reading(path_of)
        shared = tuple((kernel, (path, *self._like(kernel, path, cells))) for kernel, path in path_of.items())
        for kernel, paths in shared:
            for layer in np.unique(kernels.layer[kernels.passing >= 0]).tolist():
                template = self._templates.get(self._baseline.layers.name(layer))
                if template is not None:
                    for path in paths:
                        self._site(template[0], path_among(path, template[1].by_path))
            site = self._site(self._baseline.layer_of(kernel), paths[0])
            if self._is_dispatch(kernel, paths[0]):
                continue
            self.of_moved[kernel] = site
            self.of_read[(self._reads.face == kernel) & kernels.backward[self._reads.kernel]] = site
            self._scaled(kernel, paths[0])
        return shared

    def _scaled(self, kernel: int, path: str) -> None:
        """The view that a shared kernel reads in place of a product with 1, as in front of the tables of a rotary
        embedding: with fused kernels (jit_level O1) MindSpore makes that a Reshape to the same shape, without a scope,
        which bears the flags of the product and is copied to the host where a table runs again by itself (measured with
        2.9.0: Qwen3 and Qwen3-MoE; looked for in arithmetic_simplify.cc of its graph kernels, which has no such rule).
        """
        layer = self._layer(kernel)
        operators = layer[1].by_path.values() if layer is not None else ()
        scaling = [operator.path for operator in operators if operator.type == _SCALING and path in operator.consumers]
        faces = self._reads.face[self._baseline.rows_of(kernel)].tolist() if len(scaling) == 1 else ()
        for face in faces:
            if face >= 0 and self._baseline.views[face] and self._kernels.is_lost[face] and self.of_moved[face] < 0:
                others = (name for name, template in self._templates.values() if scaling[0] in template.by_path)
                self.scaled[face] = tuple(
                    self._site(name, scaling[0]) for name in (self._baseline.layer_of(kernel), *others)
                )

    def _cells_reading(self, shared: Collection[int]) -> list[str]:
        kernels, reads = self._kernels, self._reads
        reading = np.unique(reads.kernel[np.isin(reads.face, list(shared)) & (kernels.passing[reads.kernel] >= 0)])
        return sorted({kernels.cell[reader] for reader in reading.tolist()})

    @cached_property
    def _launched(self) -> frozenset[str]:
        return frozenset(self._of_site[site] for site in np.unique(self.of_node[self.of_node >= 0]).tolist())

    def _like(self, kernel: int, home: str, cells: Iterable[str]) -> Iterator[str]:
        """What MindSpore has merged with a shared kernel: the primitives of its type and name in other ``cells`` that
        read such kernels, and that have no kernel of their own, such as the tables of a second rotary embedding."""
        layer, name = self._layer(kernel), home.rpartition(".")[2]
        for cell in cells:
            path = layer[1].path(cell, self._kernels.primitive[kernel], frozenset()) if layer is not None else None
            if path == f"{cell}.{name}" and path != home and path not in self._launched:
                yield path

    def _owner(self, face: int, reader: int) -> int:
        """The site that moves what ``reader`` reads of ``face``: a view's or an unread cast's depends on who reads, and
        so does that of what communication makes of a view."""
        layer, kernels, site = self._layer(face), self._kernels, int(self.of_node[face])
        primitive = shown_and_sent(self._baseline, face) if site < 0 else kernels.primitive[face]
        if layer is not None and (primitive in VIEWS or (site >= 0 and layer[1].is_unread_cast(self._of_site[site]))):
            cells = {cell for cell, _ in self._readers.get(face, ())}
            served = cell_of(self._baseline, reader, int(kernels.passing[face]), cells)
            own = layer[1].own_view(served, kernels.cell[face], primitive)
            if own is not None:
                return self._site(layer[0], own)
        return int(self.of_moved[face])

    def _layer(self, node: int) -> tuple[str, CellPrimitives] | None:
        return self._templates.get(self._baseline.layer_of(node))

    def _site(self, layer: str, path: str) -> int:
        site = self.names.setdefault((layer, path), len(self.names))
        if site == len(self._of_site):
            self._of_site.append(path)
        return site


def _shared(baseline: Baseline, templates: Mapping[str, tuple[str, CellPrimitives]]) -> Iterator[tuple[int, str]]:
    kernels = baseline.kernels
    for kernel in np.flatnonzero((kernels.layer >= 0) & (kernels.passing < 0) & ~kernels.backward).tolist():
        layer = templates.get(baseline.layer_of(kernel))
        path = layer[1].path(kernels.cell[kernel], kernels.primitive[kernel], frozenset()) if layer else None
        if path is not None and kernels.primitive[kernel] not in VIEWS:
            yield kernel, path
