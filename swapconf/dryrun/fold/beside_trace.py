"""RUN OF A FOLD -> beside the trace of the whole model: MindSpore's graph of it, and the layers that it has read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from swapconf.dryrun.fold.folding import Fold, Size
from swapconf.dryrun.growing.layers import layer_in, with_layer
from swapconf.models import own_layers
from swapconf.models.own_layers import OwnLayers
from swapconf.trace import launch_graph
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.trace import Trace
from swapconf.words.findings import SwapconfError


def whole_names(layers: Sequence[int], run: Trace, trace: Trace) -> Callable[[str], str]:
    """Names of a run that has all layers of its rank as the whole model has them. ``layers``: by position their global
    index."""
    known = {one.name: other.name for one, other in zip(run.step, trace.step, strict=True)}

    def natural(name: str) -> str:
        layer = layer_in(name)
        return with_layer(name, layers[layer]) if 0 <= layer < len(layers) else name

    return lambda name: known[name] if name in known else natural(name)


def graph_of(part: Path) -> LaunchGraph | None:
    """Of a run of a fold; None where it was not kept, or is damaged: what-ifs do without it."""
    with suppress(SwapconfError):
        return launch_graph.read(part / launch_graph.FILE) if (part / launch_graph.FILE).exists() else None
    return None


def keep_graph(part: Path, folder: Path, named: Callable[[str], str]) -> None:
    """The graph of a run that has all layers of its rank. Raises OSError."""
    if (graph := graph_of(part)) is not None:
        write_graph(replace(graph, name=tuple(map(named, graph.name))), folder)


def write_graph(graph: LaunchGraph, folder: Path) -> None:
    """Raises OSError."""
    with suppress(ValueError):  # too large to be kept
        launch_graph.write(graph, folder / launch_graph.FILE)


def keep_layers(part: Path, folder: Path, plan: Fold, size: Size, named: Callable[[str], str] | None) -> None:
    """Of a model that the catalog does not know, the layers that a run of ``size`` has read, those of a row alike.
    ``named``: see `whole_names`; None for a trace of several runs. Raises OSError."""
    own = own_layers.read(part)
    if own is None:
        return
    read = {index: own.templates[place] for place, index in enumerate(plan.kept(size)) if place in own.templates}
    layers = dict(read)
    for row in plan.rows:
        like = [read[index] for index in row.indices if index in read][:1]
        layers |= {index: template for template in like for index in row.indices if index not in read}
    called = {named(name): attribute for name, attribute in own.called.items()} if named is not None else {}
    own_layers.write(OwnLayers(templates=layers or own.templates, called=called), folder / own_layers.FILE)
