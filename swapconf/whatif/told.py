"""STRATEGY + SITES -> what the catalog tells of them: who reads parameters, and whom only Transposes read."""

from __future__ import annotations

import numpy as np

from swapconf.decide.strategy import Strategy
from swapconf.models.cells import INPUT_NORM
from swapconf.trace.columns import Flags
from swapconf.upstream.scopes import descends
from swapconf.whatif.site_actions import SiteActions
from swapconf.whatif.sites import Sites

_TRANSPOSE = "Transpose"
_READ_PARAMETERS = ("Dense", "GroupedMatmul", "MatMul", "RmsNorm")


def celled_layers(actions: SiteActions, strategy: Strategy) -> dict[str, bool]:
    """The layers with a recomputed cell that reads parameters, and whether any but the norm that begins them is one."""
    operators = {entry.layer.name: entry.layer.template.primitives for entry in strategy.layers}
    celled: dict[str, bool] = {}
    for layer, roots in actions.roots.items():
        for root in roots & set(actions.cells):
            if any(
                operator.type in _READ_PARAMETERS and descends(operator.path, {root}) for operator in operators[layer]
            ):
                celled[layer] = celled.get(layer, False) or root != INPUT_NORM
    return celled


def turned(sites: Sites, strategy: Strategy) -> Flags:
    """[kernels] nothing but Transposes read what each makes."""
    operators = strategy.operators
    only_transposed = []
    for layer, path in sites.names:
        by_path = operators.get(layer, {})
        readers = (
            [by_path[reader].type for reader in by_path[path].consumers if reader in by_path] if path in by_path else []
        )
        only_transposed.append(bool(readers) and set(readers) == {_TRANSPOSE})
    return np.array([*only_transposed, False], dtype=np.bool_)[sites.of_node]
