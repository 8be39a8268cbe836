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
    found: dict[str, bool] = {}
    for layer, roots in actions.roots.items():
        for root in roots & set(actions.cells):
            if any(one.type in _READ_PARAMETERS and descends(one.path, {root}) for one in operators[layer]):
                found[layer] = found.get(layer, False) or root != INPUT_NORM
    return found


def turned(sites: Sites, strategy: Strategy) -> Flags:
    """[kernels] nothing but Transposes read what each makes."""
    operators = strategy.operators
    found = []
    for layer, path in sites.names:
        known = operators.get(layer, {})
        readers = [known[one].type for one in known[path].consumers if one in known] if path in known else []
        found.append(bool(readers) and set(readers) == {_TRANSPOSE})
    return np.array([*found, False], dtype=np.bool_)[sites.of_node]
