"""BASELINE + CELLS TO RECOMPUTE -> OUTPUTS: what is kept of a cell whose recompute was asked for.

``Cell.recompute`` without ``output_recompute`` keeps the output of the cell. Of a kernel that makes more than that, as
a norm does, only the output is kept: who reads it outside reads what was kept, and the kernel runs again for the rest,
when a gradient needs it (measured with MindSpore 2.9.0: ``RmsNorm`` for its root mean square alone).
"""

from __future__ import annotations

from collections.abc import Sequence

from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.scopes import descends
from swapconf.whatif.baseline import Baseline


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
