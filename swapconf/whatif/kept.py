"""BASELINE + CELLS TO RECOMPUTE -> what of them is kept: their outputs, and what does not run again.

``Cell.recompute`` without ``output_recompute`` keeps the output of the cell. Of a kernel that makes more than that, as
a norm does, only the output is kept: who reads it outside reads what was kept, and the kernel runs again for the rest,
when a gradient needs it (measured with MindSpore 2.9.0: ``RmsNorm`` for its root mean square alone).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swapconf.decide.strategy import Strategy
from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.primitives import CAST, PRODUCT
from swapconf.upstream.scopes import descends
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.communicated import spread
from swapconf.whatif.laid_out import DISPATCH, SPLITS
from swapconf.whatif.sites import Sites

_SORT = "SortExt"  # of tokens, before they are sent and behind
_TRANSPOSE = "Transpose"


def cell_outputs(
    baseline: Baseline,
    asked: Ints,
    cells: Sequence[str],
    home: Sequence[str] | None = None,
    standing: Flags | None = None,
) -> tuple[list[int], list[int]]:
    """(nodes that are kept, blocks that are kept of nodes that make several). ``asked``: [kernels] index into ``cells``
    of the cell whose recompute covers a node, -1 for none. ``home``: [kernels] the cell of each, where more is known
    than the baseline tells. Not of a fused Add and norm: its Add is another cell's; nor a view of what a cell is given
    that stands for those of others (``standing``: [kernels]), which have one for themselves then."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    home = kernels.cell if home is None else home
    across = (asked[face] >= 0) & (asked[face] != asked[reader])
    across &= ~baseline.norms[face]
    if standing is not None:
        across &= ~(standing & (asked[baseline.below] != asked))[face]
    behind: dict[int, list[int]] = {}  # of views without a cell of their own, who reads them counts
    lost = kernels.is_lost & baseline.views
    for user, view in zip(reader[lost[face]].tolist(), face[lost[face]].tolist(), strict=True):
        behind.setdefault(view, []).append(user)
    nodes, blocks = set[int](), set[int]()
    columns = (column[across].tolist() for column in (reader, face, baseline.edge_blocks))
    for user, kernel, block in zip(*columns, strict=True):
        root = {cells[asked[kernel]]}
        if not all(descends(home[last], root) for last in behind.get(user, [user])):
            if baseline.num_made[kernel] < 2:
                nodes.add(kernel)
            else:
                blocks.add(block)
    return sorted(nodes), sorted(blocks)


def read_by_others(baseline: Baseline, outputs: Sequence[int], turned: Flags) -> list[int]:
    """Of these blocks those that a gradient reads which is not that of what made them: that one sees no output of the
    cell but the kernel itself, which runs again (measured with MindSpore 2.9.0: flash attention). ``turned``: [kernels]
    what others see is a Transpose of what each makes, which of a single head is launched as a view."""
    primitive, backward = baseline.kernels.primitive, baseline.kernels.backward
    return [
        block
        for block in outputs
        if not turned[baseline.maker[block]]
        and any(
            primitive[reader] != f"{primitive[baseline.maker[block]]}Grad"
            for reader in baseline.readers_of(block)
            if backward[reader]
        )
    ]


def turned(sites: Sites, strategy: Strategy) -> Flags:
    """[kernels] nothing but Transposes read what each makes, by the catalog."""
    operators, only_transposed = strategy.operators, []
    for layer, path in sites.names:
        by_path = operators.get(layer, {})
        readers = by_path[path].consumers if path in by_path else ()
        only_transposed.append({by_path[reader].type for reader in readers if reader in by_path} == {_TRANSPOSE})
    return np.array([*only_transposed, False], dtype=np.bool_)[sites.of_node]


# --- what does not run again ------------------------------------------------------------------------------------------


def left_without_lazy_inline(baseline: Baseline, outputs: Sequence[int]) -> Flags:
    """[kernels] do not run again without lazy inline, whatever cell around them is recomputed: see
    `decide.lazy_inline`. ``outputs``: blocks of recomputed cells, one of several of a kernel each."""
    stays = baseline.of_weights | (baseline.kernels.primitives == DISPATCH) | baseline.lost_splits
    stays |= baseline.of_other_cells | _sorts_to_send(baseline)
    stays[baseline.maker[list(outputs)]] = True
    return np.asarray(stays)


def _sorts_to_send(baseline: Baseline) -> Flags:
    """[kernels] sorts of the tokens of experts before they are sent. mindformers calls them with a keyword, and
    MindSpore then makes nodes that tell no cell, as of splits (see ``lost_splits``). Those of what came are called
    without, and run again (measured with 2.9.0: Qwen3-MoE and DeepSeek-V3)."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    sorts = (kernels.primitives == _SORT) & kernels.is_lost & (kernels.passing >= 0)
    sent = kernels.primitives == DISPATCH
    return np.asarray(sorts & ~spread(reader, face, sent, np.ones_like(sent))) if sorts.any() else sorts


def casts_for_products(baseline: Baseline) -> list[int]:
    """What MindSpore 2.7 casts by itself, since a product takes factors of one type only: kernels of the forward pass
    that cast what a split makes, and that only products read there. In layers that are recomputed, too, the backward
    pass reads what the forward pass has cast, so what these casts read does not run again either (measured with
    MindSpore 2.7.1 and 2.7.2: what ChatGLM splits in its rotary embedding). From 2.9.0 on there is no such cast: what
    is split is multiplied as it is."""
    kernels, reads = baseline.kernels, baseline.reads
    primitive, is_forward = kernels.primitives, ~kernels.backward[reads.kernel] & (reads.face >= 0)
    of_split = is_forward & np.isin(primitive[reads.face], list(SPLITS)) & (primitive[reads.kernel] == CAST)
    for_others = is_forward & (primitive[reads.kernel] != PRODUCT)
    casts: list[int] = np.setdiff1d(reads.kernel[of_split], reads.face[for_others]).tolist()
    return casts
