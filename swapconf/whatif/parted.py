"""PROGRAM -> PROGRAM: what all layers share in the baseline is made once for each kind of its users.

MindSpore merges equal kernels, such as the tables of rotary embeddings, only where they are flagged alike: what is
swapped with one prefetch, what is excluded from recompute, what is to run again by itself, and the rest have tables of
their own, which the first of these users makes. Users are the cells of each layer; in multi-head latent attention that
is one for the queries and one for the keys. In the forward pass, that a cell around is recomputed makes no difference,
unless it is without ``mp_comm_recompute`` (measured with MindSpore 2.9.0: ``Muls``, ``Cos`` and ``Sin`` of TeleChat3
and Qwen3).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from swapconf.decide.strategy import Recompute, Strategy, Swap
from swapconf.trace.columns import Flags, Ints
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import Additions, BlockUse, StrategyProgram
from swapconf.whatif.sites import Sites

User: TypeAlias = tuple[int, str]  # number of a layer, path of a cell


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    """A shared kernel that some users have for themselves. ``cells``: of all users, that which it is named after first.
    ``site``: whose action is done to what it makes, -1 for none."""

    kernel: int
    users: frozenset[User]
    cells: tuple[str, ...]
    site: int


def cells_of(paths: Sequence[str]) -> tuple[str, ...]:
    """The cells of the primitives that a shared kernel is."""
    return tuple(path.rpartition(".")[0] for path in paths)


def flags(strategy: Strategy) -> dict[tuple[str, str], Hashable]:
    """By site, what its primitive is flagged with: the prefetch of its swap, or its own recompute, or that this is
    excluded; and that the recompute of its communication was asked for, whatever it is. A cell that is recomputed
    without ``mp_comm_recompute`` flags all that is in it (`Cell.recompute`)."""
    flag_of: dict[tuple[str, str], Hashable] = {}
    flags_cells = not strategy.recompute_options.get("mp_comm_recompute", True)
    for site, action in strategy.actions().items():
        if isinstance(action, Swap):
            flag_of[site] = action.prefetch
        elif isinstance(action, Recompute) and action.root == site[1]:
            flag_of[site] = "again"
        elif isinstance(action, Recompute) and flags_cells:
            flag_of[site] = "no communication"
    flag_of |= {(entry.layer.name, path): "excluded" for entry in strategy.layers for path in entry.plan.excluded}
    beside = (
        (entry.layer.name, path) for entry in strategy.layers for path, on in entry.plan.comm_recompute.items() if on
    )
    return flag_of | {site: (flag_of.get(site), "communication") for site in beside}


def kinds(baseline: Baseline, flags: Mapping[int, Mapping[User, Hashable]]) -> list[tuple[int, frozenset[User]]]:
    """(kernel, users): for each shared kernel the users that are flagged alike, without those that are flagged as the
    one that the baseline names it after. ``flags``: by kernel and user; what it reads counts, too."""
    whole: dict[int, dict[User, Hashable]] = {}
    own_kinds = []
    for kernel in sorted(flags):
        faces = (int(baseline.reads.face[row]) for row in baseline.rows_of(kernel))
        read = [whole[face] for face in faces if face in whole]
        whole[kernel] = {user: (flag, *(below.get(user) for below in read)) for user, flag in flags[kernel].items()}
        alike: dict[Hashable, set[User]] = {}
        for user, flag in whole[kernel].items():
            alike.setdefault(flag, set()).add(user)
        home = int(baseline.kernels.layer[kernel]), baseline.kernels.cell[kernel]
        own_kinds += [(kernel, frozenset(users)) for users in alike.values() if home not in users]
    return own_kinds


def parted(baseline: Baseline, program: StrategyProgram, owns: Sequence[Own]) -> StrategyProgram:
    """``owns``: kernels ascending. What is made for one kind of users is read by these alone."""
    kernels, passes = baseline.kernels, baseline.served
    layer = np.where(passes >= 0, kernels.layer[passes], -1)[program.reader]
    layer[program.reader < 0] = -1
    block, site = program.block.copy(), program.site.copy()
    more, new = Additions(), dict[tuple[int, frozenset[User]], int]()
    of_users: dict[tuple[tuple[str, ...], frozenset[User]], Flags] = {}
    for turn, own in enumerate(owns):
        at = int(program.where[own.kernel]) + 2 * (turn + 1)
        if (own.cells, own.users) not in of_users:
            of_users[own.cells, own.users] = _read_by(baseline, program, layer, own)
        made, first = baseline.made.get(own.kernel, []), len(baseline.maker) + len(program.origin) + len(more.blocks)
        for copy, row in enumerate(made, first):
            new[row, own.users] = copy
            uses = of_users[own.cells, own.users] & (program.block == row)
            block[uses] = copy
            site[uses & (site >= 0)] = own.site
        more.launch(own.kernel, made, at)
        read = baseline.reads.block[baseline.rows_of(own.kernel)].tolist()
        more.uses += [BlockUse(new.get((row, own.users), row), at) for row in read]
    return replace(program.with_more(block, site, more, again=False), parted=len(owns))


def _read_by(baseline: Baseline, program: StrategyProgram, layer: Ints, own: Own) -> Flags:
    """[rows] whether some users read there. ``layer``: [rows] of who reads."""
    place = baseline.place_among(own.cells)[program.reader]
    is_read = np.zeros(len(layer), dtype=np.bool_)
    for turn, cell in enumerate(own.cells):
        layers = [number for number, user_cell in own.users if user_cell == cell]
        is_read |= np.isin(layer, layers) & (place == turn)
    return is_read


def stand_ins(baseline: Baseline, sites: Sites, again: Flags) -> Ints:
    """Casts of which an equal one of another cell runs again for a gradient: the two are one in the forward pass only.
    So are communication and the view that it sends. ``again``: [reads] the owner runs again."""
    face, kernels = baseline.reads.face, baseline.kernels
    elsewhere = again & (face >= 0) & (sites.of_read >= 0) & (sites.of_read != sites.of_moved[face])
    faces = face[elsewhere]
    sent = faces[(sites.of_node[faces] < 0) & (kernels.stream[faces] != 0)]
    read = face[np.isin(baseline.reads.kernel, sent) & (face >= 0)]
    casts = faces[(sites.of_node[faces] >= 0) & (kernels.primitives[faces] == "Cast")]
    return np.concatenate([casts, sent, read[baseline.views[read]]])


def own_views(baseline: Baseline, sites: Sites, again: Flags, flagged: Flags) -> tuple[Flags, Flags]:
    """[reads] those through a view that several cells have in the baseline: where that of the reader runs again and the
    one that stands for all does not, and the other way round. MindSpore has two then (measured: a Linear that is
    recomputed beside a swapped one). ``again``: [sites] runs again; ``flagged``: [kernels]."""
    reads, of_read = baseline.reads, sites.of_read
    apart, run_again = others(baseline, sites), (reads.face >= 0) & flagged[reads.face]
    through, staying = apart & again[of_read] & ~run_again, apart & ~again[of_read] & run_again
    staying &= sites.of_node[reads.face] >= 0
    return _with_forward(baseline, sites, through), _with_forward(baseline, sites, staying)


def _with_forward(baseline: Baseline, sites: Sites, through: Flags) -> Flags:
    """[reads] those, and those by the forward pass of the same cells."""
    reads, homes = baseline.reads, sites.homes(baseline)
    cells = {
        (face, sites.names[site][1].rpartition(".")[0])
        for face, site in zip(reads.face[through].tolist(), sites.of_read[through].tolist(), strict=True)
    }
    shared = (reads.face >= 0) & baseline.views[reads.face] & ~baseline.kernels.backward[reads.kernel]
    extended = through.copy()
    for row in np.flatnonzero(shared).tolist() if cells else ():
        extended[row] = (int(reads.face[row]), homes[int(reads.kernel[row])]) in cells
    return extended


def standing_views(baseline: Baseline, sites: Sites) -> Flags:
    """[kernels] views that stand for equal ones of other cells, whose gradients read them."""
    reads, standing = baseline.reads, np.zeros(len(baseline.kernels), dtype=np.bool_)
    standing[reads.face[others(baseline, sites)]] = True
    return standing


def others(baseline: Baseline, sites: Sites) -> Flags:
    """[reads] those by a gradient through a view that is named after another cell than what owns the read."""
    face, of_read = baseline.reads.face, sites.of_read
    shown = (face >= 0) & baseline.views[face] & (baseline.below[face] >= 0)
    return np.asarray(shown & (of_read >= 0) & (of_read != sites.of_node[face]))


def casts_apart(baseline: Baseline, sites: Sites, strategy: Strategy) -> list[Own]:
    """Those of `shared_casts` that are flagged otherwise for the second cell, which has one for itself."""
    flagged = flags(strategy)
    return [
        own
        for own in shared_casts(baseline, sites, strategy)
        if flagged.get(sites.names[own.site]) != flagged.get(sites.names[sites.of_node[own.kernel]])
    ]


def shared_casts(baseline: Baseline, sites: Sites, strategy: Strategy) -> list[Own]:
    """Casts of the first step that two cells of a layer share in the baseline, as a residual in 32 bits and a norm: the
    kernels of the second cell read a cast of their own by the catalog."""
    kernels = baseline.kernels
    templates = strategy.operators
    row_of_site = {site: row for row, site in enumerate(sites.names)}
    reader, face = baseline.edges
    shared = (face < int(baseline.step_starts[1])) & (kernels.primitives == "Cast")[face] & ~kernels.backward[reader]
    shared &= (sites.of_node[face] >= 0) & (sites.of_node[reader] >= 0)
    owns: dict[tuple[int, str], Own] = {}
    for kernel, user in sorted(zip(face[shared].tolist(), reader[shared].tolist(), strict=True)):
        layer, path = sites.names[sites.of_node[kernel]]
        home, _, name = path.rpartition(".")
        cell, read_by = kernels.cell[user], sites.names[sites.of_node[user]][1]
        site = layer, f"{cell}.{name}"
        if cell == home or site not in row_of_site:
            continue
        if read_by in templates[layer][site[1]].consumers and read_by not in templates[layer][path].consumers:
            users = frozenset({(int(kernels.layer[kernel]), cell)})
            owns[kernel, cell] = Own(kernel=kernel, users=users, cells=(home, cell), site=row_of_site[site])
    return list(owns.values())


def gathers_apart(baseline: Baseline, sites: Sites, again: Flags) -> list[Own]:
    """What communication of the first step makes of equal views of several Linears: those whose own view runs again
    where that of the one it is named after does not, or the other way round, have one for themselves (see
    `communicated.gathered_once`). ``again``: [sites], and one more for none."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    gathers = (face < int(baseline.step_starts[1])) & ~kernels.backward[reader] & (kernels.passing[face] >= 0)
    gathers &= (kernels.stream[face] != 0) & (sites.of_node[face] < 0) & (sites.of_moved[face] >= 0)
    readers: dict[int, list[int]] = {}
    for kernel, user in sorted(zip(face[gathers].tolist(), reader[gathers].tolist(), strict=True)):
        readers.setdefault(kernel, []).append(user)
    owns = []
    for kernel, nodes in readers.items():
        layer, path = sites.names[sites.of_moved[kernel]]
        home, _, name = path.rpartition(".")
        rows = {kernels.cell[node]: sites.row_of.get((layer, f"{kernels.cell[node]}.{name}"), -1) for node in nodes}
        is_again = bool(again[sites.of_moved[kernel]])
        cells = [cell for cell, row in rows.items() if cell != home and row >= 0 and bool(again[row]) != is_again]
        if cells:
            users = frozenset((int(kernels.layer[kernel]), cell) for cell in cells)
            view = int(baseline.reads.face[baseline.rows_of(kernel)][0])
            owns += [
                Own(kernel=own_kernel, users=users, cells=(home, *cells), site=rows[cells[0]])
                for own_kernel in (view, kernel)
            ]
    return owns
