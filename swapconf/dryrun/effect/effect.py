"""TRACE -> EFFECT: what the executed graph of one rank really copied to the host and recomputed, by layer and operator.

MindSpore names a copy after the cells around the primitive that it flagged: ``.../layers-CellList/0-LLamaDecodeLayer/
attention-LLamaAttention/wq-Linear/MoveTo-op0`` is a tensor of ``attention.wq`` in layer 0. Which primitive of that cell
wrote it follows from the tracker's graph: the last one there that wrote this tensor before the copy. A view writes the
tensor that it reads, so it is the view that counts, as for MindSpore's own rule.

What is recomputed bears the cells of its forward kernel; that it is recomputed is told by `swapconf.trace.phases`.

Of a fused kernel each operator counts, as far as its inside is known.

A trace repeats its kernels for every training step; an effect speaks of one step, with all its micro-batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from swapconf.upstream.primitives import plain
from swapconf.upstream.scopes import Place, place_of

if TYPE_CHECKING:  # its columns need numpy, which `swapconf rules` and `--help` do without
    from swapconf.trace.trace import Task, Trace

Key = TypeVar("Key")
# a rank computes the layers that have such kernels; after others MindSpore names some of their gradients and views
_COMPUTING = frozenset({"AddRmsNorm", "BatchMatMul", "FlashAttentionScore", "LayerNorm", "MatMul", "RmsNorm"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One copy to the host.

    Without the tracker's graph neither what wrote the tensor nor a size is known ("", None).

    Attributes:
        primitive: What wrote the tensor last.
        beneath: What wrote it before, in the same cell: a view writes what it reads, and either may bear the flag.
        behind: The last place in a layer where it was written, of a view whose own place MindSpore has lost.
        size_bytes: The tensor.
        host_bytes: The pinned block that takes it.
    """

    place: Place
    primitive: str
    size_bytes: int | None
    host_bytes: int | None
    beneath: frozenset[str] = frozenset()
    behind: Place | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of a step."""

    place: Place
    primitive: str


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor of the forward pass that gradients, or what is recomputed for them, read as it is, perhaps from the
    host. ``place``, ``primitive``: what computed it. ``readers``: what in the forward pass reads it, or views it.
    ``of_weights``: it is a weight, cast or gathered from its shards.
    """

    place: Place
    primitive: str
    readers: frozenset[Launch]
    of_weights: bool = False


@dataclass(frozen=True, slots=True)
class Copies:
    """Several moves in sum (None: not known)."""

    num_tensors: int
    size_bytes: int | None
    host_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What one training step of a rank moves and recomputes. ``layers``: names of the layers that this rank computes.

    ``recomputed``: kernels, in the order in which they run; None without the tracker's graph. ``held``: tensors in
    layers that the backward pass takes from the forward pass. Views, which compute nothing, are in neither.
    ``host_peak_bytes``: the most pinned host memory in use at once. ``frees_nothing``: MindSpore planned the memory
    ahead, so that copies do not shorten the life of what they copy. ``launched``: what the step ran at all, each once;
    None where that is not known of every layer.
    """

    layers: frozenset[str]
    moves: tuple[Move, ...]
    host_peak_bytes: int
    frees_nothing: bool = False
    launched: frozenset[Launch] | None = None
    recomputed: tuple[Launch, ...] | None = None
    held: frozenset[Held] = frozenset()

    @cached_property
    def total(self) -> Copies:
        return _sum(self.moves)

    @cached_property
    def by_layer(self) -> dict[str, Copies]:
        """In the order of the layers' first copies."""
        return _sums(self.moves, lambda move: move.place.layer)

    @cached_property
    def by_operator(self) -> dict[tuple[Place, str], Copies]:
        """By place and primitive."""
        return _sums(self.moves, lambda move: (move.place, move.primitive))

    @cached_property
    def recomputed_by_layer(self) -> dict[str, int]:
        """Kernels, in the order in which the layers' backward passes begin; none of those outside of the layers."""
        return dict(Counter(launch.place.layer for launch in self.recomputed or () if launch.place.layer))

    @cached_property
    def recomputed_by_operator(self) -> dict[Launch, int]:
        """How often each kind of kernel is recomputed, over all micro-batches."""
        return dict(Counter(self.recomputed or ()))


def observed(trace: Trace, num_layers: int) -> Effect:
    """The effect that a trace shows. ``num_layers``: decoder layers of the model, without extra prediction layers."""
    from swapconf.dryrun.effect.marked_effect import marked_effect
    from swapconf.dryrun.effect.recompute_effect import recomputed

    if trace.marks:
        return marked_effect(trace)
    trace = trace.opened.trace
    places = {scope: place_of(scope, num_layers) for scope in {kernel.scope for kernel in trace.step}}
    again, held = recomputed(trace, places) if trace.has_graph else (None, frozenset())
    return Effect(
        layers=_computed(trace, places),
        moves=tuple(_moves(trace, places)),
        host_peak_bytes=trace.host_peak_bytes,
        frees_nothing=trace.is_planned,
        launched=frozenset(Launch(places[kernel.scope], plain(kernel.primitive)) for kernel in trace.step),
        recomputed=again,
        held=held,
    )


def _computed(trace: Trace, places: Mapping[str, Place]) -> frozenset[str]:
    """The layers of this rank; all that are named, where no name of a kernel is known to compute."""
    named = frozenset(place.layer for place in places.values() if place.layer)
    return (
        frozenset(
            places[kernel.scope].layer
            for kernel in trace.step
            if kernel.primitive in _COMPUTING and not kernel.name.startswith("Gradients")
        )
        - {""}
        or named
    )


def _moves(trace: Trace, places: Mapping[str, Place]) -> Iterator[Move]:
    copies = [kernel for kernel in trace.step if kernel.copies_to_host]
    if not trace.tasks:
        return (Move(place=places[kernel.scope], primitive="", size_bytes=None, host_bytes=None) for kernel in copies)
    blocks, there = trace.blocks, trace.blocks.on_host
    host = dict(zip(blocks.start[there].tolist(), blocks.size_bytes[there].tolist(), strict=True))
    return _traced(trace.tasks, {kernel.name for kernel in copies}, host, places)


def _traced(
    tasks: Iterable[Task], waiting: set[str], host: Mapping[int, int], places: Mapping[str, Place]
) -> Iterator[Move]:
    """The block that takes a copy is born at the event of the copy."""
    writers: dict[int, list[Task]] = {}
    for task in tasks:
        if task.name in waiting:
            waiting.discard(task.name)
            place = places[task.scope]
            wrote = writers.get(task.inputs[0], []) if task.inputs else []
            named = (places[one.scope] for one in reversed(wrote) if one.scope in places)
            inside = [writer.primitive for writer in wrote if writer.scope == task.scope]
            yield Move(
                place=place,
                primitive=(inside or [writer.primitive for writer in wrote] or [""])[-1],
                beneath=frozenset(inside[:-1]),
                behind=None if place.layer else next((written for written in named if written.layer), None),
                host_bytes=host.get(task.event),
                size_bytes=task.input_tensors[0].size_bytes if task.input_tensors else None,
            )
        for tensor in task.outputs:
            writers.setdefault(tensor, []).append(task)


def _sums(moves: Iterable[Move], key: Callable[[Move], Key]) -> dict[Key, Copies]:
    groups: dict[Key, list[Move]] = {}
    for move in moves:
        groups.setdefault(key(move), []).append(move)
    return {name: _sum(group) for name, group in groups.items()}


def _sum(moves: Sequence[Move]) -> Copies:
    return Copies(len(moves), _known(move.size_bytes for move in moves), _known(move.host_bytes for move in moves))


def _known(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
