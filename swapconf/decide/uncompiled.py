"""TEMPLATE -> CELLS that MindSpore does not compile where they are recomputed by themselves.

``query.reshape(...)`` before the norms of queries and keys is a call of a graph, and RealInputNode of MindSpore 2.9.0
(``frontend/parallel/graph_util/node_info.cc``, line 610) takes whatever a recomputed cell reads for a primitive.
"""

from __future__ import annotations

from swapconf.models.network import LayerTemplate
from swapconf.upstream.facts import Versions

FACT = "recomputed_query_norm_crashes"
_ATTENTION = "self_attention"
_CELLS = frozenset({f"{_ATTENTION}.q_layernorm", f"{_ATTENTION}.k_layernorm"})


def uncompiled(template: LayerTemplate, versions: Versions) -> frozenset[str]:
    """Paths of cells."""
    attention = template.by_path.get(_ATTENTION)
    # with latent attention such norms follow another cell; DeepSeek-V3 compiles
    if attention is None or attention.type.startswith("MLA") or not versions.fact(FACT).value:
        return frozenset()
    return frozenset(path for path in _CELLS & template.by_path.keys() if template.by_path[path].kind == "cell")
