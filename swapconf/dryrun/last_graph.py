"""WHAT MINDSPORE PRINTS -> LAUNCH GRAPH: the graph on which a child decides the order of its kernels, beside its trace.

It is printed on demand, together with much else, into a folder that also draws the executed order to itself. From there
the order goes back to where it is without, the graph becomes launch_graph.json.gz, and the rest is removed. A trace is
whole without it, so what goes wrong with the graph is no fault of the run, and is not told; only that a disk is too
full for it is, which a user can mend.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from swapconf.config.config import Dialect
from swapconf.dryrun.fold.micro_batches import micro_batches
from swapconf.dryrun.job import Folder
from swapconf.study.study import Study
from swapconf.trace import launch_graph, launch_graph_text
from swapconf.upstream.versions import release
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase
from swapconf.words.units import GIB, MIB, show_bytes

# what else MindSpore is asked for by variables that begin like these, would change what it prints
VARIABLES = ("MS_DEV_DUMP_IR", "MS_DEV_SAVE_GRAPHS")
_MEASURED = (2, 9)
# Six times the text of the graph is printed (of 329 runs at most 5.95 times; it has at most 1 GiB), and of that text at
# most 3.3 MiB were for each call of a layer, what is outside of layers included; no run needed half of the bound.
_PRINTED, _CALL_BYTES, _REST_BYTES, _MOST_BYTES = 6, 4 * MIB, 16 * MIB, GIB
_SPARE_BYTES = GIB // 2  # for the trace itself


def is_worth(study: Study, level: int, mindspore: str) -> bool:
    """Whether a run that leaves a trace is to leave its graph, too: one that others are predicted from, so without
    swap and recompute."""
    return (
        level > 0
        and study.config.dialect is not Dialect.PYNATIVE
        and (release(mindspore) or ())[:2] == _MEASURED
        and _is_baseline(study)
    )


def needed_bytes(study: Study, stage: int) -> int:
    """An upper bound of what is printed for a rank of ``stage``, with room for its trace."""
    layers = study.network.layers if study.network is not None else None
    text = _MOST_BYTES
    if layers is not None:
        calls = sum(layer.stage == stage for layer in layers)
        calls *= micro_batches(study.document, study.config.pipeline).count
        text = min(_REST_BYTES + calls * _CALL_BYTES, text)
    return _PRINTED * text + _SPARE_BYTES


def no_space(place: Path, needed: int) -> tuple[Finding, ...]:
    """A warning where less than ``needed`` bytes are free in ``place``, a folder, to print a graph there."""
    free = shutil.disk_usage(place).free
    if free >= needed:
        return ()
    found = Finding(
        origin=Origin(file=str(place)),
        rule="graph-not-kept",
        severity=Severity.WARNING,
        message=phrase(
            "{free} are free here, and MindSpore prints up to {needed} before its graph can be kept: this trace is "
            "without it, so `whatif` and `plan` do not know MindSpore's own order of the kernels from it",
            free=show_bytes(free),
            needed=show_bytes(needed),
        ),
        hint=phrase("make space, or name a folder on another disk with --keep, and run it again"),
    )
    return (found,)


def _is_baseline(study: Study) -> bool:
    """Whether nothing that the YAML asks for takes effect; what the model recomputes by itself is no matter."""
    layers = study.strategy.layers if study.strategy is not None else ()
    return all(outcome.void is not None for entry in layers for outcome in entry.plan.outcomes)


def variables(folder: Folder) -> dict[str, str]:
    """With these MindSpore prints the graph."""
    return {
        "MS_DEV_SAVE_GRAPHS": "1",
        "MS_DEV_SAVE_GRAPHS_PATH": str(folder.graphs),
        "MS_DEV_DUMP_IR_PASSES": "graph_build",
    }


def collect(folder: Folder, rank: int) -> None:
    """Put the order and the graph of a child that has ended beside what else it left. Raises OSError where the order
    cannot be put there."""
    printed = folder.graphs
    places = [place for name in (f"rank_{rank}", "rank_0", "") if (place := printed / name / "execute_order").is_dir()]
    if places:
        home = (folder.tracked(rank) or folder.path) / "execute_order"
        home.mkdir(exist_ok=True)
        for file in places[0].iterdir():
            file.replace(home / file.name)
    texts = list(printed.glob("**/graph_build_0_*.ir"))
    if len(texts) == 1:
        with suppress(SwapconfError, OSError, ValueError, MemoryError):
            launch_graph.write(launch_graph_text.read_ir(texts[0]), folder.path / launch_graph.FILE)


def discard(folder: Folder) -> None:
    """Remove what is left of what was printed."""
    shutil.rmtree(folder.graphs, ignore_errors=True)
