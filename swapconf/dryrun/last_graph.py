"""WHAT MINDSPORE PRINTS -> LAUNCH GRAPH: the graph on which a child decides the order of its kernels, beside its trace.

It is printed on demand, together with much else, into a folder that also draws the executed order to itself. From there
the order goes back to where it is without, the graph becomes launch_graph.json.gz, what is inside fused kernels
fused_kernels.json.gz, and the rest is removed. A trace is whole without them, so what goes wrong with these is no fault
of the run, and is not told; only that a disk is too full for them is, which a user can mend.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swapconf.config.config import Dialect
from swapconf.dryrun import layer_facts
from swapconf.dryrun.fold.micro_batches import micro_batches
from swapconf.dryrun.job import Folder, Job
from swapconf.models import own_layers
from swapconf.study.study import Study
from swapconf.trace import called_text, fused_kernels, fused_kernels_text, launch_graph, launch_graph_text, trace_folder
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.opened_graph import opened_graph
from swapconf.trace.trace import Trace
from swapconf.upstream.launch_orders import keeps_graph
from swapconf.upstream.primitives import FUSED_LEVEL
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase
from swapconf.words.units import GIB, MIB, show_bytes

# what else MindSpore is asked for by variables that begin like these, would change what it prints
VARIABLES = ("MS_DEV_DUMP_IR", "MS_DEV_SAVE_GRAPHS")
# the pass that chooses what is fused, and the last one that prints fused kernels as graphs of operators
# (the first is the sixth of its stage in 2.7.2, the fifth from 2.9.0 on)
_FIRST_FUSED, _LAST_FUSED = "graph_kernel_cluster", "stage7_postprocess_7_add_attr"
# Six times the text of the graph is printed (of 329 runs at most 5.95 times; it has at most 1 GiB), and of that text at
# most 3.3 MiB were for each call of a layer, what is outside of layers included; no run needed half of the bound.
_PRINTED, _CALL_BYTES, _REST_BYTES, _MOST_BYTES = 6, 4 * MIB, 16 * MIB, GIB
_PRINTED_FUSED = 3  # as much again for what is inside fused kernels (of 8 runs at most 2.01 times)
_SPARE_BYTES = GIB // 2  # for the trace itself


@dataclass(frozen=True, slots=True)
class Prints:
    """What of that which MindSpore prints is kept of a run: the ``graph``, what is inside ``fused`` kernels."""

    graph: bool
    fused: bool


def prints(study: Study, level: int, mindspore: str, *, is_kept: bool, of_any: bool = False) -> Prints:
    """The graph where a trace ``is_kept`` that others are predicted from, so one without swap and recompute, or
    ``of_any`` run; what is inside fused kernels of each run that has such."""
    is_known = level > 0 and study.config.dialect is not Dialect.PYNATIVE and keeps_graph(mindspore)
    return Prints(
        graph=is_known and is_kept and (of_any or is_baseline(study)),
        fused=is_known and study.config.runtime.jit_level == FUSED_LEVEL,
    )


def needed_bytes(study: Study, stage: int, printed: Prints) -> int:
    """An upper bound of what is printed for a rank of ``stage``, with room for its trace."""
    if not (printed.graph or printed.fused):
        return 0
    layers = study.network.layers if study.network is not None else None
    text = _MOST_BYTES
    if layers is not None:
        calls = sum(layer.stage == stage for layer in layers)
        calls *= micro_batches(study.document, study.config.pipeline).count
        text = min(_REST_BYTES + calls * _CALL_BYTES, text)
    return (_PRINTED + _PRINTED_FUSED * printed.fused) * text + _SPARE_BYTES


def no_space(place: Path, needed: int, printed: Prints) -> tuple[Finding, ...]:
    """A warning where less than ``needed`` bytes are free in ``place``, a folder, to print a graph there."""
    free = shutil.disk_usage(place).free if needed else 0
    if free >= needed:
        return ()
    found = Finding(
        origin=Origin(file=str(place)),
        rule="graph-not-kept",
        severity=Severity.WARNING,
        message=phrase(
            "{free} are free here, and MindSpore prints up to {needed} before what is inside fused kernels is known: "
            "each of them counts as one operator of no layer",
            free=show_bytes(free),
            needed=show_bytes(needed),
        )
        if not printed.graph
        else phrase(
            "{free} are free here, and MindSpore prints up to {needed} before its graph can be kept: this trace is "
            "without it, so `whatif` and `plan` do not know MindSpore's own order of the kernels from it",
            free=show_bytes(free),
            needed=show_bytes(needed),
        ),
        hint=phrase("make space, or name a folder on another disk with --keep, and run it again"),
    )
    return (found,)


def is_baseline(study: Study) -> bool:
    """Whether nothing that the YAML asks for takes effect; what the model recomputes by itself is no matter."""
    layers = study.strategy.layers if study.strategy is not None else ()
    return all(outcome.void is not None for entry in layers for outcome in entry.plan.outcomes)


def variables(folder: Folder, *, with_fused: bool = False) -> dict[str, str]:
    """With these MindSpore prints the graph, and the operators inside fused kernels."""
    return {
        "MS_DEV_SAVE_GRAPHS": "2" if with_fused else "1",  # passes on fused kernels are printed from level 2 on
        "MS_DEV_SAVE_GRAPHS_PATH": str(folder.graphs),
        "MS_DEV_DUMP_IR_PASSES": f"graph_build,{_FIRST_FUSED},{_LAST_FUSED}" if with_fused else "graph_build",
    }


def collect(folder: Folder, job: Job) -> None:
    """Put the order of a child that has ended beside what else it left, the graph and what is inside fused kernels,
    too. Raises OSError where the order cannot be put there."""
    printed, rank = folder.graphs, job.rank
    home = folder.tracked(rank) or folder.path
    places = [place for name in (f"rank_{rank}", "rank_0", "") if (place := printed / name / "execute_order").is_dir()]
    if places:
        (home / "execute_order").mkdir(exist_ok=True)
        for file in places[0].iterdir():
            file.replace(home / "execute_order" / file.name)
    texts = list(printed.glob("**/graph_build_0_*.ir"))
    if len(texts) != 1:
        return
    faults = SwapconfError, OSError, ValueError, LookupError, MemoryError
    passes = [sorted(printed.glob(f"**/*_{name}_*.ir")) for name in (_LAST_FUSED, _FIRST_FUSED)]
    if job.prints_fused:
        with suppress(*faults):
            fused_kernels.write(fused_kernels_text.read(texts[0], *passes), home / fused_kernels.FILE)
    if job.prints_graph:
        with suppress(*faults):
            graph = launch_graph_text.read_ir(texts[0])
            launch_graph.write(graph, folder.path / launch_graph.FILE)
            if (layers := own_layers.read(folder.path)) is not None:
                calls = called_text.called(texts[0])
                if job.prints_fused:
                    graph, calls = _opened(graph, calls, trace_folder.read(home, rank), passes[1])
                own_layers.write(layer_facts.with_graph(layers, graph, calls), folder.path / own_layers.FILE)


def _opened(
    graph: LaunchGraph, calls: dict[str, str], trace: Trace, clustered: Iterable[Path]
) -> tuple[LaunchGraph, dict[str, str]]:
    """The graph with a node for each operator of a fused kernel, and what each is a call of. ``clustered``: printed
    behind the pass that chooses what is fused, where operators have the names that are kept of them."""
    inside = {name: trace.fused_kernels[name] for name in trace.opened.names}
    found = opened_graph(graph, inside, trace.opened.names)
    told = {name: call for path in clustered for name, call in called_text.called(path).items()}
    of_operators = {
        name: told[operator.name]
        for kernel, names in trace.opened.names.items()
        for name, operator in zip(names, inside[kernel].operators, strict=True)
        if operator.name in told
    }
    return (graph, calls) if found is None else (found, {**calls, **of_operators})


def discard(folder: Folder) -> None:
    """Remove what is left of what was printed."""
    shutil.rmtree(folder.graphs, ignore_errors=True)
