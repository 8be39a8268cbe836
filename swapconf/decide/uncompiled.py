"""TEMPLATE -> CELLS that MindSpore does not compile where they are recomputed by themselves.

``key.reshape(...)`` before the norm of keys, and that of queries where each has its own key, changes nothing and is
left out, so that the norm reads a call of a graph, and RealInputNode of MindSpore 2.9.0
(``frontend/parallel/graph_util/node_info.cc``, line 610) takes whatever a recomputed cell reads for a primitive. A
Reshape in front of flash attention of ChatGLM gets no layout (``ops_info/reshape_info.cc``, line 393) where flash
attention is such a cell. Only with lazy inline: without it, the cells are no graphs of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from swapconf.models.network import LayerTemplate
from swapconf.upstream.facts import Versions

FACT, FLASH_FACT = "recomputed_query_norm_crashes", "recomputed_flash_attention_crashes"
_ATTENTION = "self_attention"
_FLASH, _GLM = f"{_ATTENTION}.flash_attention", "ChatGLM2SelfAttention"
_QUERIES, _KEYS = f"{_ATTENTION}.q_layernorm", f"{_ATTENTION}.k_layernorm"
_NUM_KEYS = ("num_key_value_heads", "num_query_groups")
_UNKNOWN: Mapping[str, object] = {}


def uncompiled(
    template: LayerTemplate, versions: Versions, model: Mapping[str, object] = _UNKNOWN
) -> Mapping[str, str]:
    """By path of a cell the fact that tells so. ``model``: the settings of the model, where they are known."""
    attention = template.by_path.get(_ATTENTION)
    if attention is None:
        return {}
    known: dict[str, str] = {}
    if attention.type == _GLM:
        known[_FLASH] = FLASH_FACT
    elif not attention.type.startswith("MLA"):  # latent: such norms follow another cell; DeepSeek-V3 compiles
        known = {_KEYS: FACT} if _is_grouped(model) else {_KEYS: FACT, _QUERIES: FACT}
    by_path = template.by_path
    cells = (path for path in known if path in by_path and by_path[path].kind == "cell")
    return {path: known[path] for path in cells if versions.fact(known[path]).value}


def _is_grouped(model: Mapping[str, object]) -> bool:
    """Several queries share a key, so that queries have a Reshape in front of their norm (measured: 4 heads on 2 keys
    compile, on 4 they do not)."""
    heads = model.get("num_attention_heads")
    keys = next((model[name] for name in _NUM_KEYS if model.get(name) is not None), heads)
    return isinstance(heads, int) and isinstance(keys, int) and keys < heads
