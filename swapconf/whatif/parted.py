"""PROGRAM -> PROGRAM: what all layers share in the baseline is made once for each kind of layer.

MindSpore merges equal kernels, such as the tables of the rotary embedding, only where they are flagged alike: layers
that swap them with one prefetch, those that exclude them from recompute, and the others have tables of their own, which
the first of these layers makes. In the forward pass, being recomputed makes no difference (measured with MindSpore
2.9.0: ``Muls``, ``Cos`` and ``Sin`` of TeleChat3 and Qwen3).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.decide.strategy import Strategy, Swap
from swapconf.trace.columns import Flags, Ints
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.shared import served


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    """A shared kernel that some layers have for themselves.

    Attributes:
        layers: Their numbers.
        site: Whose action is done to what it makes, -1 for none.
    """

    kernel: int
    layers: frozenset[int]
    site: int


def flags(strategy: Strategy) -> dict[tuple[str, str], Hashable]:
    """By site, what its primitive is flagged with: the prefetch of its swap, or that its recompute is excluded."""
    swapped = {site: action.prefetch for site, action in strategy.actions().items() if isinstance(action, Swap)}
    return swapped | {
        (entry.layer.name, outcome.request.operator): outcome.request.kind
        for entry in strategy.layers
        for outcome in entry.plan.outcomes
        if outcome.request.kind == "select_recompute_exclude"
    }


def kinds(baseline: Baseline, flags: Mapping[int, Mapping[int, Hashable]]) -> list[tuple[int, frozenset[int]]]:
    """(kernel, layers): for each shared kernel the layers that are flagged alike, without those of the layer that the
    baseline names it after. ``flags``: by kernel and number of a layer; what it reads counts, too."""
    whole: dict[int, dict[int, Hashable]] = {}
    found = []
    for kernel in sorted(flags):
        faces = (int(baseline.reads.face[row]) for row in baseline.rows_of(kernel))
        read = [whole[face] for face in faces if face in whole]
        whole[kernel] = {layer: (flag, *(other.get(layer) for other in read)) for layer, flag in flags[kernel].items()}
        alike: dict[Hashable, set[int]] = {}
        for layer, flag in whole[kernel].items():
            alike.setdefault(flag, set()).add(layer)
        home = int(baseline.kernels.layer[kernel])
        found += [(kernel, frozenset(layers)) for layers in alike.values() if home not in layers]
    return found


def parted(baseline: Baseline, program: StrategyProgram, owns: Sequence[Own]) -> StrategyProgram:
    """``owns``: kernels ascending. What is made for one kind of layer is read by these alone."""
    kernels, passes = baseline.kernels, served(baseline)
    layer = np.where(passes >= 0, kernels.layer[passes], -1)[program.reader]
    layer[program.reader < 0] = -1
    block, site = program.block.copy(), program.site.copy()
    rows, origin, born, copies = list[tuple[int, int]](), list[int](), list[int](), list[int]()
    inserted = list[int]()
    new: dict[tuple[int, frozenset[int]], int] = {}
    for turn, own in enumerate(owns):
        at = int(program.where[own.kernel]) + 2 * (turn + 1)
        mine = np.isin(layer, list(own.layers))
        for made in baseline.made.get(own.kernel, ()):
            new[made, own.layers] = len(baseline.maker) + len(program.origin) + len(origin)
            uses = mine & (program.block == made)
            block[uses] = new[made, own.layers]
            site[uses & (site >= 0)] = own.site
            origin.append(made)
            born.append(at)
        copies.append(own.kernel)
        inserted.append(at)
        rows += [
            (new.get((int(read), own.layers), int(read)), at)
            for read in baseline.reads.block[baseline.rows_of(own.kernel)].tolist()
        ]
    added = np.array(rows, dtype=np.int64).reshape(-1, 2)
    nothing = np.full(len(added), -1, dtype=np.int64)
    return replace(
        program,
        block=np.concatenate([block, added[:, 0]]),
        position=np.concatenate([program.position, added[:, 1]]),
        until=np.concatenate([program.until, added[:, 1]]),
        face=np.concatenate([program.face, nothing]),
        site=np.concatenate([site, nothing]),
        reader=np.concatenate([program.reader, nothing]),
        again=np.concatenate([program.again, np.zeros(len(added), dtype=np.bool_)]),
        origin=_longer(program.origin, origin),
        born=_longer(program.born, born),
        copies=_longer(program.copies, copies),
        inserted=_longer(program.inserted, inserted),
        parted=len(copies),
    )


def stand_ins(baseline: Baseline, of_node: Ints, of_read: Ints, again: Flags) -> Ints:
    """Casts of which an equal one of another cell runs again for a gradient: the two are one in the forward pass only.
    ``of_node``, ``of_read``: as in Sites; ``again``: [reads] the owner runs again."""
    face = baseline.reads.face
    found = face[again & (face >= 0) & (of_read >= 0) & (of_read != of_node[face]) & (of_node[face] >= 0)]
    return np.asarray(found[baseline.kernels.primitives[found] == "Cast"])


def _longer(column: Ints, more: Sequence[int]) -> Ints:
    return np.concatenate([column, np.array(more, dtype=np.int64)])
