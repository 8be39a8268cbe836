"""STRATEGY -> RECOMPUTED CELLS that are given what runs again by itself, on which MindSpore stops.

Only with lazy inline, and in models of mcore. Where what a recomputed cell is given comes from a primitive that runs
again by itself, MindSpore 2.9.0 moves the call of the cell into the backward pass, and with it all that leads to its
inputs, the states of parameters included (``MoveKCallerToBprop`` in frontend/optimizer/irpass/recompute.cc). The
backward pass then stands in the state from which these began, and in those in which other recomputed cells are called
as they are; of two states no graph can be called (``LiftParameters`` in func_graph_cloner.cc: "Cannot have multiple U
Monad"). Also, what a swap puts behind the norm of queries or keys is moved along, and is no input of any call then
("The size_t value(18446744073709551615)").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from swapconf.decide.strategy import LayerPlan, LayerStrategy, Recompute, Strategy, Swap
from swapconf.models.network import LayerTemplate, Operator
from swapconf.upstream.facts import Versions
from swapconf.upstream.scopes import descends

FACT = "recomputed_input_crashes"
_LAYERS = ("TransformerLayer", "MultiTokenPredictionLayer")
_READ_PARAMETERS = frozenset({"Dense", "GroupedMatmul", "LayerNorm", "MatMul", "RmsNorm"})
_NORM = "Norm"
_ORDER = ("input_layernorm", "self_attention", "pre_mlp_layernorm", "mlp")
_HEAD_NORMS = ("self_attention.q_layernorm.cast", "self_attention.k_layernorm.cast")
_LATENT = "MLA"


@dataclass(frozen=True, kw_only=True)
class Call:
    """An outermost recomputed cell of a layer. ``turn``: of the layer; ``given``: primitives in front of
    it that run again by themselves."""

    entry: LayerStrategy
    turn: int
    cell: str
    given: tuple[str, ...]

    @property
    def reads_parameters(self) -> bool:
        return _reads_parameters(self.entry.layer.template, self.cell)

    @property
    def is_norm(self) -> bool:
        return self.cell != "" and _NORM in self.entry.layer.template.by_path[self.cell].type

    @property
    def _place(self) -> int:
        """In the layer."""
        first = self.cell.partition(".")[0]
        return _ORDER.index(first) if first in _ORDER else len(_ORDER)

    def is_behind(self, other: Call) -> bool:
        """Whether it is called in the state that the call of another one hands on; a norm hands on none."""
        if other.is_norm or not other.reads_parameters:
            return False
        mine, others = (self.turn, self._place), (other.turn, other._place)
        return mine > others or (mine == others and not self.is_norm and self.cell != other.cell)


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What MindSpore does not compile on a stage: cells that are ``given`` what runs again, beside ``others`` that are
    called in another state, or behind what the norm of queries or keys begins with, swapped in the layers
    ``swapping``."""

    stage: int
    given: Sequence[Call]
    others: Sequence[Call] = ()
    swapping: Sequence[LayerStrategy] = ()


def stops(strategy: Strategy, versions: Versions) -> Iterator[Stop]:
    """By stage and interleaved piece of it."""
    if not (strategy.lazy_inline and versions.fact(FACT).value):
        return
    pieces: defaultdict[tuple[int, int], list[tuple[int, LayerStrategy]]] = defaultdict(list)
    for turn, entry in enumerate(strategy.layers):
        if entry.layer.template.cell.endswith(_LAYERS):
            pieces[entry.layer.stage, entry.layer.interleave].append((turn, entry))
    for (stage, _), layers in pieces.items():
        calls = [call for turn, entry in layers for call in _of_layer(entry, turn)]
        given, others = _in_two_states(calls)
        if given:
            yield Stop(stage=stage, given=given, others=others)
        stopped = [call for call in calls if call.given]
        swapping = [(turn, entry) for turn, entry in layers if stopped and _swaps_head_norm(entry)]
        stopped = [call for call in stopped if swapping and swapping[0][0] <= call.turn]
        if stopped:
            last = stopped[-1].turn
            yield Stop(stage=stage, given=stopped, swapping=[entry for turn, entry in swapping if turn <= last])


def _in_two_states(calls: Iterable[Call]) -> tuple[Sequence[Call], Sequence[Call]]:
    """(cells that are given what runs again, others that are called in another state), both empty where there is
    one."""
    reading = [call for call in calls if call.reads_parameters]
    given = [call for call in reading if call.given]
    others = [call for call in reading if not call.given]
    if given and others:
        return given, others
    for first in given:
        if behind := [call for call in given if call.is_behind(first)]:
            return [first], behind
    return [], []


def _of_layer(entry: LayerStrategy, turn: int) -> Iterable[Call]:
    for cell, given in _outermost(entry.plan, entry.layer.template):
        yield Call(entry=entry, turn=turn, cell=cell, given=given)


@lru_cache(maxsize=1024)  # equal layers share their plan
def _outermost(plan: LayerPlan, template: LayerTemplate) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(outermost recomputed cell, primitives in front of it that run again by themselves)."""
    by_path = template.by_path
    again = {
        path: decision.action.root
        for path, decision in plan.decisions.items()
        if isinstance(decision.action, Recompute)
    }
    cells = {root for root in again.values() if root == "" or by_path[root].kind == "cell"}
    outermost = sorted(cell for cell in cells if not any(cell != one and descends(cell, {one}) for one in cells))
    alone = [
        by_path[path]
        for path, root in again.items()
        if root == path and by_path[path].executed is not False and not descends(path, set(outermost))
    ]
    return tuple((cell, tuple(one.path for one in alone if _feeds(one, cell))) for cell in outermost)


@lru_cache(maxsize=1024)
def _reads_parameters(template: LayerTemplate, cell: str) -> bool:
    inside = (one for one in template.primitives if descends(one.path, {cell}))
    return any(one.type in _READ_PARAMETERS and one.executed is not False for one in inside)


def _feeds(primitive: Operator, cell: str) -> bool:
    return cell != "" and any(descends(reader, {cell}) for reader in primitive.consumers)


def _swaps_head_norm(entry: LayerStrategy) -> bool:
    attention = entry.layer.template.by_path.get(_HEAD_NORMS[0].partition(".")[0])
    if attention is None or attention.type.startswith(_LATENT):
        return False
    decided = (entry.plan.decisions.get(path) for path in _HEAD_NORMS)
    return any(one is not None and isinstance(one.action, Swap) for one in decided)
