#!/usr/bin/env python3
"""Where the order of launches that what-if predicts parts from that of the true run, for those who mend what-if.

    python scripts/evidence/first_difference.py BASELINE STRATEGY.yaml RUN [--set A.B=VALUE] [--as-written]

BASELINE and RUN are folders that `swapconf dryrun --keep` left: of the run without swap and recompute, with its graph,
and of the run of STRATEGY.yaml, which is made where it is not there. Told are the primitives of which one side has
more, the last launches that both have, the first that differ, and what these read on both sides: who made it, as which
launch, and what a Depend waits for. Views are left aside, as in the tests; of what runs again and of copies the name in
the true run has another number.
What the true run waited for is told of a run that was made here, as MindSpore's last graph of that is kept; of
another one what it read, by its tensors. --as-written: keys count that mindformers drops, as in `agreement.py`.

Exit code 1 where the orders of primitives part, 2 where there is nothing to compare.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swapconf.config.overrides import of_file
from swapconf.dryrun.fold import folded
from swapconf.dryrun.rank_order import RankOrder
from swapconf.plan.runs import trace_folders
from swapconf.study.own_model import as_run
from swapconf.study.settings import NONE, Settings
from swapconf.study.study import study_for_check, study_for_run
from swapconf.trace import run_record, trace_folder
from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, STATE, TUPLE, LaunchGraph
from swapconf.trace.trace import Trace, without_number
from swapconf.upstream import dropped
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.memory import lives
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.graph.strategy_graph import strategy_graph
from swapconf.whatif.placed import placed
from swapconf.whatif.predict import schedule
from swapconf.whatif.prepare import prepare
from swapconf.whatif.question import network_asked
from swapconf.whatif.unfused import unfused

_AGAIN, _GRADIENTS = "recompute_", "Gradients/"  # how MindSpore begins the name of what runs again; of a gradient
_MODEL = "~"  # for the cells around most launches
_AROUND = 3  # launches that are told before and behind
_DEEP = 3  # nodes that are launched nowhere, one behind another


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """``name``: with its cells; "" of what what-if adds without one. ``reads``: a line each, where it is asked for."""

    primitive: str
    name: str
    reads: Callable[[], list[str]]

    @property
    def cell(self) -> str:
        """What both sides call it."""
        return without_number(self.name).removeprefix(_AGAIN)

    def __str__(self) -> str:
        return self.name or f"{self.primitive} (added by what-if)"


@dataclass(frozen=True, slots=True)
class Difference:
    """``turn``: of the first launch that is another primitive; where one order is longer, the length of the other; None
    where all primitives are one. ``cell_turn``: of the first before it that is the same primitive of another cell,
    which need not be a fault: of nodes that MindSpore merges it keeps the name of one."""

    turn: int | None
    cell_turn: int | None


def difference(predicted: Sequence[Launch], true: Sequence[Launch]) -> Difference | None:
    """Where two orders part; None where they are one."""
    pairs = list(zip(predicted, true, strict=False))
    other = (turn for turn, (mine, its) in enumerate(pairs) if mine.primitive != its.primitive)
    turn = next(other, len(pairs) if len(predicted) != len(true) else None)
    cells = (
        place for place, (mine, its) in enumerate(pairs[:turn]) if mine.name and its.name and mine.cell != its.cell
    )
    cell_turn = next(cells, None)
    return None if turn is None and cell_turn is None else Difference(turn, cell_turn)


# --- both sides -------------------------------------------------------------------------------------------------------


def predicted(asked: Asked) -> list[Launch]:
    """What what-if launches. Raises ValueError where the strategy's nodes wait for one another in a circle."""
    graph = strategy_graph(asked)
    order = [node for node in lives(graph).order if graph.nodes.primitive[node] not in VIEWS]
    return _of_graph(graph.nodes.frozen(), order)


def of_run(trace: Trace, graph: LaunchGraph | None = None) -> list[Launch]:
    """What a run launched in its first step. ``graph``: that decided it, if that is known."""
    kernels = [kernel for kernel in trace.step if not kernel.is_event and kernel.primitive not in VIEWS]
    if graph is not None:
        by_name = {name: node for node, name in enumerate(graph.name) if graph.is_kernel[node]}
        if lacking := [kernel.name for kernel in kernels if kernel.name not in by_name]:
            raise ValueError(f"the graph is of another run: it has no {lacking[0]}")
        return _of_graph(graph, [by_name[kernel.name] for kernel in kernels])
    return list(_of_tasks(trace))


def _of_tasks(trace: Trace) -> Iterator[Launch]:
    """By the tensors that were read: of each the launch that wrote it last, a view where it only looks at it."""
    writer: dict[int, str] = {}
    turn = 0
    for task in trace.step_tasks:
        read = [writer.get(tensor, "a parameter or a constant") for tensor in task.inputs]
        is_view = task.primitive in VIEWS
        writer |= dict.fromkeys(task.outputs, _maker(task.name, None if is_view else turn))
        if not is_view:
            turn += 1
            yield Launch(primitive=task.primitive, name=task.name, reads=partial(list, read))


def _of_graph(graph: LaunchGraph, order: Sequence[int]) -> list[Launch]:
    turn = {node: place for place, node in enumerate(order)}

    def told(node: int, depth: int = 0) -> str:
        if node == NO_NODE:
            return "a parameter or a constant"
        kind, given = graph.primitive[node], graph.inputs[node]
        if node in turn or graph.is_kernel[node]:
            return _maker(graph.name[node] or kind, turn.get(node))
        if depth == _DEEP:
            return f"{kind} ..."
        inner = [told(one, depth + 1) for one in given]
        if kind == DEPEND:
            return f"{inner[0]}, waits for [{'; '.join(inner[1:])}]"
        if kind == ITEM:
            return f"item {int(graph.item[node])} of {inner[0]}"
        return f"{kind}({'; '.join(inner)})" if kind in (TUPLE, LOAD, STATE) else kind

    def reads(node: int) -> list[str]:
        return [told(given) for given in graph.inputs[node]]

    return [
        Launch(primitive=graph.primitive[node], name=graph.name[node], reads=partial(reads, node)) for node in order
    ]


def _maker(name: str, turn: int | None) -> str:
    return f"{name} (a view)" if turn is None else f"{name} (launch {turn})"


def make(baseline: Path, file: str, changes: Sequence[str], settings: Settings | None, target: Path) -> None:
    """Run the YAML of a strategy on the rank of a baseline, and keep MindSpore's last graph of that, too."""
    rank = run_record.report(_rank(baseline)).get("rank", 0)
    folded.dry_run(
        RankOrder(document=of_file(file, changes), rank=rank, keep=target, keeps_graph=True, settings=settings or NONE)
    )


def asked_of(baseline: Path, file: str, changes: Sequence[str], settings: Settings | None = None) -> Asked:
    """What the strategy of a YAML asks of a baseline. Raises ValueError where its graph was not kept or is of other
    kernels."""
    document = of_file(file, changes)
    meant = study_for_check(document, os.environ) if settings is None else study_for_run(document, os.environ, settings)
    study = as_run(meant, _rank(baseline), os.environ)
    if study.strategy is None:
        raise ValueError(f"{file}: nothing is decided for this YAML; `swapconf check` says why")
    trace = _read(baseline)
    prepared = placed(prepare(unfused(trace)), network_asked(study))
    run = RunGraph.of(prepared.baseline, trace.opened.launch_graph)
    if run is None:
        raise ValueError(f"{baseline}: no graph was kept with this trace, or not that of its kernels")
    return Asked(prepared=prepared, run=run, plan=schedule(prepared, study.strategy))


def _read(folder: Path) -> Trace:
    return trace_folder.read(_rank(folder), rank=0)


def _rank(folder: Path) -> Path:
    """The folder of a rank; of several below it the first."""
    return next(iter(trace_folders(folder)), folder)


# --- in words ---------------------------------------------------------------------------------------------------------


def told(mine: Sequence[Launch], true: Sequence[Launch]) -> Iterator[str]:
    """``mine``: as predicted. The cells around most launches are told once."""
    found = difference(mine, true)
    if found is None:
        yield f"both orders are one: {len(true)} launches, but for views"
        return
    around = _around([launch.name for launch in true])
    yield f"{_MODEL}: {around}"
    for line in _told(mine, true, found):
        yield line.replace(f"/{around}/", f"/{_MODEL}/")


def _around(names: Sequence[str]) -> str:
    """The cells of which a sign instead saves most, without the first part, which tells the pass."""
    counted = Counter(
        "/".join(parts[1:end])
        for name in names
        for parts in [name.removeprefix(_AGAIN).removeprefix(_GRADIENTS).split("/")]
        for end in range(2, len(parts))
    )
    return max(counted, key=lambda cells: counted[cells] * len(cells))


def _told(mine: Sequence[Launch], true: Sequence[Launch], found: Difference) -> Iterator[str]:
    if found.turn is None:
        yield f"the same primitives are launched in one order, {len(true)} of them, but for views"
    else:
        yield f"the orders part at launch {found.turn}, of {len(mine)} that are predicted and {len(true)} that ran"
        yield from _of_one_side(mine, true)
    if found.cell_turn is not None:
        yield f"launch {found.cell_turn} is the first that is the same primitive of another cell; merged nodes may be"
        yield f"  predicted  {mine[found.cell_turn]}"
        yield f"  true       {true[found.cell_turn]}"
    place = found.cell_turn if found.turn is None else found.turn
    assert place is not None
    yield ""
    for turn in range(max(place - _AROUND, 0), place):
        yield f"  {turn}  {true[turn]}"
    for side, order, other in (("predicted", mine, true), ("true", true, mine)):
        yield ""
        yield f"{side}:"
        for turn in range(place, min(place + _AROUND, len(order))):
            yield f"  {turn}  {order[turn]}"
        if place < len(order):
            here = order[place]
            yield "  which reads"
            yield from (f"    [{number}] {line}" for number, line in enumerate(here.reads()))
            yield f"  on the other side: {_elsewhere(here, other, place)}"
        else:
            yield "  nothing more"


def _of_one_side(mine: Sequence[Launch], true: Sequence[Launch]) -> Iterator[str]:
    """What runs again or moves on one side alone, by primitive and, where all of them are named, by cell. Where nothing
    is told, only the order differs."""
    predicted, ran = (Counter(launch.primitive for launch in side) for side in (mine, true))
    for primitive in sorted(predicted | ran):
        if predicted[primitive] != ran[primitive]:
            yield f"{primitive}: {predicted[primitive]} predicted, {ran[primitive]} ran"
            cells = [Counter(one.cell for one in side if one.primitive == primitive) for side in (mine, true)]
            known = sorted(cell for cell in cells[0] | cells[1] if cells[0][cell] != cells[1][cell])
            for cell in known if "" not in known else ():
                yield f"  {cells[0][cell]} and {cells[1][cell]}: {cell}"


def _elsewhere(launch: Launch, other: Sequence[Launch], place: int) -> str:
    turns = [
        turn
        for turn, one in enumerate(other)
        if one.primitive == launch.primitive and (one.cell == launch.cell or not (one.name and launch.name))
    ]
    later = [turn for turn in turns if turn >= place]
    if not turns:
        return f"no {launch.primitive} of this cell at all"
    nearest = later[0] if later else turns[-1]
    return f"launch {nearest}, {other[nearest]}; there are {len(turns)} like it, {len(later)} of them from here on"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("baseline", type=Path, help="folder of the run without swap and recompute, with its graph")
    parser.add_argument("strategy", help="the YAML of the strategy")
    parser.add_argument("run", type=Path, help="folder of the true run of the strategy")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=VALUE", help="as of `swapconf whatif`")
    parser.add_argument("--as-written", action="store_true", help="keys count that mindformers drops")
    options = parser.parse_args()
    settings = Settings(apply=dropped.KEYS) if options.as_written else None
    if not options.run.exists():
        make(options.baseline, options.strategy, options.set, settings, options.run)
    ran = _read(options.run).opened
    try:
        mine = predicted(asked_of(options.baseline, options.strategy, options.set, settings))
        true = of_run(ran.trace, ran.launch_graph)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(told(mine, true)))
    found = difference(mine, true)
    return int(found is not None and found.turn is not None)


if __name__ == "__main__":
    sys.exit(main())
