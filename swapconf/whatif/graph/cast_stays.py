"""CASTS that stand for equal ones of two cells -> whether that of a reader runs again.

MindSpore has made one of a layer's cast and that of its first norm, as long as they are flagged alike: where the layer
is recomputed and one of the two is left out of that, it has two (measured with MindSpore 2.9.0: Qwen3).
"""

from __future__ import annotations

from swapconf.whatif.graph.asked import Asked


def stays(asked: Asked, cast: int, reader: int) -> bool:
    """Whether what ``reader`` reads of such a cast is not that which runs again; of other kernels never."""
    own = asked.casts.get(cast)
    if own is None:
        return False
    sites, layer = asked.plan.marks.sites, int(asked.prepared.baseline.kernels.layer[cast])
    site = own.site if asked.user(cast, reader, layer) in own.users else int(sites.of_node[cast])
    return not asked.plan.marks.actions.again[site]
