"""STRATEGY against EFFECT -> FINDINGS: was everything moved that is decided, and nothing else?

MindSpore moves what a flagged primitive saves for the backward pass, so not every decided site has a copy of its own:
equal views become one, a view may stand for the primitive that it reads, a transpose may become a reshape. What can be
told for sure is coarser, and that is told here: an entry of the YAML that moves nothing in a layer; a cell with a
decided site whose output is read by backward, and no copy; a copy that no decided site of its cell can have caused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from swapconf.decide.strategy import LayerPlan, LayerStrategy, Strategy, Swap
from swapconf.dryrun.effect import layer_words
from swapconf.dryrun.effect.effect import Effect, Launch, Move
from swapconf.models.network import COMMUNICATION, Operator
from swapconf.upstream.primitives import VIEWS, plain
from swapconf.upstream.scopes import Place
from swapconf.words.findings import Finding, Origin, Severity, in_order
from swapconf.words.phrases import phrase, plural

MISSING, UNASKED = "decision-without-effect", "effect-without-decision"


_VIEWS = frozenset({"Reshape", "Transpose", "ExpandDims", "Squeeze", "Flatten"})
_NOT_SAVED = phrase("the backward pass does not read what they write; swap the cell around them, or take them out")
_NO_VIEW = phrase("MindSpore has merged these views with others in this layout; swap the cell around them")
_OUTSIDE = phrase(
    "in this layout MindSpore casts these weights outside of their cells, as before the parallel optimizer gathers "
    "them, and copies nothing there; take them out"
)
_NO_CELL = "Default"  # the scope of what MindSpore puts in
_NO_COPY = phrase(
    "the executed graph has no copy to the host at all, as when lazy inline is off: raise pipeline_stage "
    "or gradient_accumulation_steps above 1, or use `swapconf run` "
    "(see `swapconf rules lazy-inline-off`)"
)
_NOT_READ = phrase("in this layout the backward pass does not read what this communication writes; take them out")
_NOT_FOUND = phrase("`swapconf explain` shows what is decided where; take them out, or swap the cell around them")
# what depends on the layout, so that a decision leaves it open; `check` warns of the first
LEFT_OPEN = frozenset({_NOT_SAVED, _NO_VIEW, _OUTSIDE, _NOT_READ})
_PLANNED = phrase(
    "tensors are copied to the host, but their device memory is not freed: MindSpore planned it before "
    "the run (memory_optimize_level O1)"
)
_LEVEL = phrase("set context.memory_optimize_level to O0")
_OTHER_RUN = phrase(
    "the run used another YAML or other versions than `swapconf explain`, or the model sets a swap by itself"
)


def compare(strategy: Strategy, effect: Effect, section: Origin) -> tuple[Finding, ...]:
    """Where strategy and effect differ, on the layers that this rank computes; equal layers are told together.

    ``section``: the place in the YAML to point at where no entry is the cause. Where the catalog does not know the
    model there are no sites to compare; where it only approximates it, primitives are not told apart.
    """
    moves: dict[str, list[Move]] = defaultdict(list)
    lost: dict[str, list[Place]] = defaultdict(list)
    for move in effect.moves:
        moves[move.place.layer].append(move)
        if move.behind is not None:
            lost[move.behind.layer].append(move.behind)
    missing: dict[tuple[Origin, str, str], list[str]] = defaultdict(list)
    unasked: dict[str, list[str]] = defaultdict(list)
    here = [entry for entry in strategy.layers if entry.layer.name in effect.layers and entry.layer.template.operators]
    for entry in here:
        view = _LayerView(
            entry,
            moves[entry.layer.name],
            lost[entry.layer.name],
            _Launched.of(effect, entry.layer.name),
            exact=not strategy.network.approximated,
        )
        for origin, operators, hint in view.missing():
            missing[origin, operators, hint if effect.moves else _no_copy(hint)].append(entry.layer.name)
        if strange := view.unasked():
            unasked[strange].append(entry.layer.name)
    if (count := len(moves[""])) and here and not any(_swapped(entry.plan) for entry in here):
        unasked[plural(count, "{count} tensor", "{count} tensors")].append("")
    return in_order(
        [
            *(_missing(origin, operators, names, hint) for (origin, operators, hint), names in missing.items()),
            *(_unasked(section, operators, names) for operators, names in unasked.items()),
            *([_finding(MISSING, section, _PLANNED, _LEVEL)] if effect.frees_nothing and effect.moves else []),
        ]
    )


@dataclass(frozen=True, slots=True)
class _Launched:
    """Cell and primitive of the kernels of one layer, and of all others; ``here`` None where that is not known.

    MindSpore merges equal kernels, such as the views of an input that three operators read, or the tables of a rotary
    embedding that all layers compute alike, and names what is left after one of them; so it is moved there, too.
    """

    here: frozenset[tuple[str, str]] | None
    elsewhere: frozenset[tuple[str, str]] = frozenset()
    casts_outside: bool = False

    @classmethod
    def of(cls, effect: Effect, layer: str) -> _Launched:
        if effect.launched is None:
            return cls(None)
        here, elsewhere = set[tuple[str, str]](), set[tuple[str, str]]()
        outside = Launch(Place("", _NO_CELL), "Cast") in effect.launched
        for launch in effect.launched:
            if launch.place.layer:
                (here if launch.place.layer == layer else elsewhere).add((launch.place.cell, launch.primitive))
        return cls(frozenset(here), frozenset(elsewhere), outside)

    def here_or_unknown(self, operator: Operator) -> bool:
        return self.here is None or (_cell(operator), plain(operator.type)) in self.here

    def lost_its_cell(self, operator: Operator) -> bool:
        """Whether it may be the cast of a weight that the parallel optimizer shards (MindSpore 2.9.0: a new node, which
        has neither the cell nor the flag of the cast that stood behind the AllGather). That the cell launches a Cast
        tells nothing: it may be that of a bias, which no gradient reads."""
        return operator.type == "Cast" and self.casts_outside

    def only_elsewhere(self, operator: Operator) -> bool:
        return not self.here_or_unknown(operator) and (_cell(operator), plain(operator.type)) in self.elsewhere


class _LayerView:
    """One layer: what is decided in it, what it launches, and what is copied from it."""

    def __init__(
        self, entry: LayerStrategy, moves: Iterable[Move], lost: Iterable[Place], launched: _Launched, exact: bool
    ) -> None:
        self._launched = launched
        self._plan, self._template, self._exact = entry.plan, entry.layer.template, exact
        self._swapped = _swapped(entry.plan)
        causes: dict[tuple[str, str], set[str]] = defaultdict(set)
        for move in moves:
            causes[move.place.cell, move.primitive] |= self._causes_of(move)
        self._causes = causes
        self._moved = set[str]().union(*causes.values())
        self._moved.update(path for place in set(lost) for path in self._viewing(place.cell))

    def missing(self) -> Iterator[tuple[Origin, str, str]]:
        """(entry of the YAML, its operators without a copy, hint)."""
        sites: dict[Origin, list[Operator]] = defaultdict(list)
        asked: dict[Origin, dict[str, None]] = defaultdict(dict)
        for path, decision in self._plan.decisions.items():
            if path in self._swapped and (request := decision.requested) is not None:
                sites[request.origin].append(self._template.by_path[path])
                asked[request.origin][request.operator] = None
        for origin, operators in sites.items():
            if not any(operator.path in self._moved for operator in operators):
                read = [operator for operator in operators if operator.saved is not False]
                if read and self._are_merged(read):
                    continue
                yield origin, layer_words.names(asked[origin]), self._why(operators, read)
            elif self._exact and (silent := list(self._silent(operators))):
                yield origin, layer_words.names(silent), _NOT_FOUND

    def _are_merged(self, operators: Collection[Operator]) -> bool:
        """With kernels of other layers; one that is launched nowhere, with another one of its type that is."""
        kinds = {operator.type for operator in operators if self._launched.only_elsewhere(operator)}
        return all(
            self._launched.only_elsewhere(operator)
            or (operator.type in kinds and not self._launched.here_or_unknown(operator))
            for operator in operators
        )

    def _why(self, operators: Iterable[Operator], read: list[Operator]) -> str:
        """Why nothing is copied of these operators. ``read``: those that backward may read."""
        if not read:
            return _NOT_SAVED
        if all(operator.type in VIEWS and not self._launched.here_or_unknown(operator) for operator in operators):
            return _NO_VIEW
        if all(map(self._launched.lost_its_cell, read)):
            return _OUTSIDE
        if all(operator.saved is None and operator.type in COMMUNICATION for operator in read):
            return _NOT_READ
        return _NOT_FOUND

    def _silent(self, operators: Iterable[Operator]) -> Iterator[str]:
        """Cells from which backward reads something, and nothing is copied."""
        for cell, group in groupby(sorted(operators, key=_cell), key=_cell):
            members = list(group)
            read = any(map(self._is_read, members))
            if read and not any(operator.path in self._moved for operator in members):
                yield cell or ", ".join(operator.path for operator in members if operator.saved)

    def _is_read(self, operator: Operator) -> bool:
        here = self._launched.here_or_unknown(operator) and not self._launched.lost_its_cell(operator)
        return bool(operator.saved) and operator.executed is not False and here

    def unasked(self) -> str:
        """What is copied although none of its possible causes is swapped: cells, in the order of the template, with
        the primitive where another one of the cell is swapped."""
        strange = {
            (cell, primitive if any(layer_words.cell_of(path) == cell for path in self._swapped) else "")
            for (cell, primitive), causes in self._causes.items()
            if not causes & self._swapped
        }
        return layer_words.in_order(strange, self._template)

    def _causes_of(self, move: Move) -> frozenset[str]:
        """Sites that can be the cause of a copy. MindSpore also moves the result of communication that reads a
        swapped output, so that anything in the layer can be the cause of it."""
        if move.primitive in COMMUNICATION:
            return frozenset(operator.path for operator in self._template.primitives)
        around = layer_words.around(move.place.cell, self._template)
        if not self._exact:
            return frozenset(operator.path for operator in around)
        if move.primitive in _VIEWS:
            around = [*around, *self._handing(around)]
        kinds = (_VIEWS if move.primitive in _VIEWS else {move.primitive}) | move.beneath
        around = [operator for operator in around if operator.type in kinds] or around
        return frozenset(operator.path for operator in around)

    def _viewing(self, cell: str) -> Iterator[str]:
        """Views of what a cell hands out, or of such views. What is copied and bears no cell is one of them."""
        found = layer_words.around(cell, self._template)
        while found:
            read = {path for operator in found for path in operator.consumers}
            found = [view for view in self._template.primitives if view.type in VIEWS and view.path in read]
            yield from (view.path for view in found)

    def _handing(self, around: list[Operator]) -> Iterator[Operator]:
        """Views that hand a cell what that views once more: MindSpore makes one of the two, named after the second."""
        inside = {operator.path for operator in around}
        return (view for view in self._template.primitives if view.type in _VIEWS and inside & set(view.consumers))


def _cell(operator: Operator) -> str:
    return layer_words.cell_of(operator.path)


def _swapped(plan: LayerPlan) -> frozenset[str]:
    return frozenset(path for path, decision in plan.decisions.items() if isinstance(decision.action, Swap))


def _no_copy(hint: str) -> str:
    return hint if hint in LEFT_OPEN else _NO_COPY


def _missing(origin: Origin, operators: str, layers: Iterable[str], hint: str) -> Finding:
    what = phrase(
        "a swap of {operators} is decided in {layers}, but nothing of it is copied to the host",
        operators=operators,
        layers=layer_words.layers(layers),
    )
    return _finding(MISSING, origin, what, hint)


def _unasked(section: Origin, operators: str, layers: Iterable[str]) -> Finding:
    what = phrase(
        "{operators} in {layers}: copied to the host, but no swap is decided there",
        operators=operators,
        layers=layer_words.layers(layers),
    )
    return _finding(UNASKED, section, what, _OTHER_RUN)


def _finding(rule: str, origin: Origin, message: str, hint: str) -> Finding:
    return Finding(origin=origin, rule=rule, severity=Severity.WARNING, message=message, hint=hint)
