"""TEMPLATE -> PRIMITIVES by cell and type: which operator of the catalog a node of a trace is."""

from __future__ import annotations

from collections.abc import Container, Mapping, Set

from swapconf.models.cells import PREDICTED_LAYER
from swapconf.models.network import LayerTemplate, Operator
from swapconf.upstream.primitives import VIEWS, plain
from swapconf.whatif.laid_out import ADD_AND_NORM


def path_among(path: str, paths: Container[str]) -> str:
    """The path of an operator of decoder layers in a layer that may be one for multi-token prediction."""
    deeper = f"{PREDICTED_LAYER}.{path}"
    return deeper if path not in paths and deeper in paths else path


class CellPrimitives:
    """The primitives of a template by cell and type."""

    def __init__(self, template: LayerTemplate) -> None:
        self.by_path: Mapping[str, Operator] = template.by_path
        self._executed: dict[tuple[str, str], list[Operator]] = {}
        self._merged: dict[tuple[str, str], list[str]] = {}  # not executed, as far as the catalog knows
        for operator in template.primitives:
            key = operator.path.rpartition(".")[0], plain(operator.type)
            if operator.executed is not False:
                self._executed.setdefault(key, []).append(operator)
            else:
                self._merged.setdefault(key, []).append(operator.path)

    def path(self, cell: str, primitive: str, readers: frozenset[tuple[str, str]]) -> str | None:
        """The candidate whose readers in the catalog are most like those in the trace. A Transpose of one sample is
        launched as a Reshape."""
        kind = "RmsNorm" if primitive == ADD_AND_NORM else plain(primitive)
        turned = "Transpose" if kind in VIEWS else kind
        candidates = self._executed.get((cell, kind)) or self._executed.get((cell, turned), [])
        if len(candidates) < 2:
            return candidates[0].path if candidates else None
        return max(candidates, key=lambda operator: self._likeness(operator, readers)).path

    def reduction(self, cell: str) -> str | None:
        """The only one of a cell that no primitive reads."""
        alike = (same for (of, type_), same in self._executed.items() if of == cell and type_.startswith("Reduce"))
        unread = [operator.path for same in alike for operator in same if not operator.consumers]
        return unread[0] if len(unread) == 1 else None

    def not_saved(self, path: str) -> str:
        """What a view is that has the cell and type of an operator, and is not it: the only one alike that the catalog
        takes for merged with another view, if there is one (measured with MindSpore 2.9.0: ``reshape_concat`` in front
        of ``split_qkv`` in the attention of Qwen3)."""
        alike = self._merged.get((path.rpartition(".")[0], plain(self.by_path[path].type)), [])
        return alike[0] if len(alike) == 1 else path

    def read_by_like(self, primitive: str, readers: frozenset[tuple[str, str]]) -> str | None:
        """The primitive of this type, in whatever cell, whose readers in the catalog are most like those in the trace;
        None where none has one of them."""
        kind = plain(primitive)
        candidates = [operator for (_, type_), same in self._executed.items() if type_ == kind for operator in same]
        best = max(candidates, key=lambda operator: self._likeness(operator, readers), default=None)
        return best.path if best is not None and self._likeness(best, readers) else None

    def read_by(self, primitive: str, readers: Set[str]) -> str | None:
        """The only primitive of this type, in whatever cell, that one of ``readers`` reads in the catalog, if any."""
        kind = plain(primitive)
        paths = [
            operator.path
            for (_, type_), same in self._executed.items()
            for operator in same
            if type_ == kind and readers & set(operator.consumers)
        ]
        return paths[0] if len(paths) == 1 else None

    def saved_view(self, path: str, readers: frozenset[tuple[str, str]], *, is_lost: bool) -> str | None:
        """The same; of one whose output no gradient reads in the catalog, another one that has these readers, with
        which MindSpore has merged it, or none: parallelism has put it in. ``is_lost``: MindSpore has lost the cells of
        the view and its readers, so that the next one with such readers is meant."""
        if (
            self.by_path[path].saved is not False
            or not readers
            or (not is_lost and self._likeness(self.by_path[path], readers) == len(readers))
        ):
            return path
        views = [
            operator
            for operator in self.by_path.values()
            if operator.saved and (operator.type in VIEWS or operator.type == "Transpose")
        ]  # of one head a Transpose is a view
        view_path = next((operator.path for operator in views if self._likeness(operator, readers)), None)
        if view_path is not None or not is_lost:
            return view_path
        kinds, order = {primitive for _, primitive in readers}, list(self.by_path)
        return next(
            (
                operator.path
                for operator in views
                if order.index(operator.path) > order.index(path)
                and kinds & {plain(reader.type) for reader in self._read_by(operator)}
            ),
            None,
        )

    def view_between(self, source: str, path: str, readers: Set[str]) -> str | None:
        """The view that reads ``source`` and that what reads the view ``path`` in the trace reads in the catalog, where
        ``path`` itself reads something else there."""
        read = self._read_by(self.by_path[source])
        if any(view.path == path for view in read):
            return None
        views = (view for view in read if view.type in VIEWS)
        return next((view.path for view in views if readers & self._kinds_behind(view)), None)

    def view_of(self, source: str) -> str | None:
        """The only view that reads ``source`` in the catalog."""
        views = [view.path for view in self._read_by(self.by_path[source]) if view.type in VIEWS]
        return views[0] if len(views) == 1 else None

    def _read_by(self, operator: Operator) -> list[Operator]:
        return [self.by_path[path] for path in operator.consumers if path in self.by_path]

    def _kinds_behind(self, operator: Operator) -> set[str]:
        return {plain(reader.type) for reader in self._read_by(operator)}

    def _likeness(self, operator: Operator, readers: frozenset[tuple[str, str]]) -> int:
        expected = self._read_by(operator)
        return sum((reader.path.rpartition(".")[0], plain(reader.type)) in readers for reader in expected)

    def is_unread_cast(self, path: str) -> bool:
        """A cast that the catalog says no gradient reads; where one does, it stands for an equal one of another cell,
        such as that of the residual for that of the norm."""
        return self.by_path[path].type == "Cast" and self.by_path[path].saved is False

    def own_view(self, reader: str | None, owner: str, primitive: str) -> str | None:
        """The view that the reading cell has itself, where another cell's stands in the graph."""
        if reader is None or reader == owner:
            return None
        own = self._executed.get((reader, primitive), ())
        return own[0].path if own and own[0].saved is not False else None
