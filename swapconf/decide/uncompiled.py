"""TEMPLATE -> CELLS that MindSpore does not compile where they are recomputed by themselves.

``key.reshape(...)`` before the norm of keys, and that of queries where each has its own key, changes nothing and is
left out, so that the norm reads a call of a graph, and RealInputNode of MindSpore 2.9.0
(``frontend/parallel/graph_util/node_info.cc``, line 610) takes whatever a recomputed cell reads for a primitive. Only
with lazy inline: without it, the cells are no graphs of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from swapconf.models.network import LayerTemplate
from swapconf.upstream.facts import Versions

FACT = "recomputed_query_norm_crashes"
_ATTENTION = "self_attention"
_QUERIES, _KEYS = f"{_ATTENTION}.q_layernorm", f"{_ATTENTION}.k_layernorm"
_NUM_KEYS = ("num_key_value_heads", "num_query_groups")
_UNKNOWN: Mapping[str, object] = {}


def uncompiled(template: LayerTemplate, versions: Versions, model: Mapping[str, object] = _UNKNOWN) -> frozenset[str]:
    """Paths of cells. ``model``: the settings of the model, where they are known."""
    attention = template.by_path.get(_ATTENTION)
    # with latent attention such norms follow another cell; DeepSeek-V3 compiles
    if attention is None or attention.type.startswith("MLA") or not versions.fact(FACT).value:
        return frozenset()
    cells = {_KEYS} if _is_grouped(model) else {_KEYS, _QUERIES}
    return frozenset(path for path in cells & template.by_path.keys() if template.by_path[path].kind == "cell")


def _is_grouped(model: Mapping[str, object]) -> bool:
    """Several queries share a key, so that queries have a Reshape in front of their norm (measured: 4 heads on 2 keys
    compile, on 4 they do not)."""
    heads = model.get("num_attention_heads")
    keys = next((model[name] for name in _NUM_KEYS if model.get(name) is not None), heads)
    return isinstance(heads, int) and isinstance(keys, int) and keys < heads
