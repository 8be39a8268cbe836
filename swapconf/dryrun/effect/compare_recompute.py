"""STRATEGY against EFFECT -> FINDINGS: was everything recomputed that is decided, and nothing else?

MindSpore drops what nobody in the backward pass reads, so not every decided site is recomputed. What can be told for
sure is what a recompute is for: a decided site must not leave its tensor to the backward pass. The output of a cell
that is recomputed stays, though, and so does communication with ``mp_comm_recompute: False``. The other way round, a
kernel that is recomputed must belong to a decided site of its cell, or to one that the model itself recomputes.

``select_comm_recompute`` names operators next to which parallelism inserts communication: where the primitive that
makes the tensor or, first, the one that reads it carries ``recompute_comm_op`` (MindSpore, StepRedistribution; a
Reshape between them is a primitive, too). The executed graph names communication after the cell that reads it, and has
lost Reshapes, so that it does not tell which communication belongs to which operator. What it does tell:
that a layer recomputes no communication at all, although the backward pass reads some. So it is with the norms of a
legacy Llama under sequence parallelism (measured with MindSpore 2.9.0). ``parallel_optimizer_comm_recompute`` is not
compared: MindSpore 2.9.0 takes no notice of it (Cell.recompute).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from swapconf.decide.lazy_inline import outputs_left, recomputes_nothing
from swapconf.decide.strategy import LayerStrategy, Recompute, Strategy
from swapconf.dryrun.effect import layer_words
from swapconf.dryrun.effect.effect import Effect, Held, Launch
from swapconf.models.network import COMMUNICATION
from swapconf.upstream.primitives import CAST, PRODUCT, RESHAPE, VIEWS, plain
from swapconf.upstream.scopes import Place, descends
from swapconf.words.findings import Finding, Origin, Severity, in_order
from swapconf.words.phrases import phrase

MISSING, UNDECIDED = "recompute-not-in-effect", "recompute-not-decided"


_NEVER = frozenset({"TensorMove", "Receive", "Send"})  # MindSpore puts them in after recompute
_PARTS_OF_LAYOUTS = frozenset({"Concat", "Split", "SplitWithSize", "StridedSlice"})  # beside communication
_OTHER_RUN = phrase(
    "the run used another YAML or other versions than `swapconf explain`, or the model sets a recompute by itself"
)
_NOT_BEHIND = phrase("recompute the cell around it, or take it out: the communication stands behind another operator")


def compare(strategy: Strategy, effect: Effect, section: Origin) -> tuple[Finding, ...]:
    """Where strategy and effect differ, on the layers that this rank computes; equal layers are told together.

    ``section``: the place in the YAML to point at where no entry is the cause. Nothing is compared without the
    tracker's graph, nor where the catalog does not know the model.
    """
    if effect.recomputed is None:
        return ()
    again: dict[str, set[Launch]] = defaultdict(set)
    held: dict[str, set[Held]] = defaultdict(set)
    for launch in effect.recomputed:
        again[launch.place.layer].add(launch)
    for tensor in effect.held:
        held[tensor.place.layer].add(tensor)
    missing: dict[tuple[Origin, str, bool], list[str]] = defaultdict(list)
    silent: dict[tuple[Origin, str], list[str]] = defaultdict(list)
    undecided: dict[str, list[str]] = defaultdict(list)
    for entry in strategy.layers:
        name = entry.layer.name
        if name in effect.layers and entry.layer.template.operators:
            view = _LayerView(entry, again[name], strategy)
            for origin, operators, whole in view.missing(held[name]):
                missing[origin, operators, whole].append(name)
            for origin, operators in view.silent_communication(held[name]):
                silent[origin, operators].append(name)
            if strange := view.undecided():
                undecided[strange].append(name)
    return in_order(
        [
            *(_missing(origin, operators, names, whole) for (origin, operators, whole), names in missing.items()),
            *(_silent(origin, operators, names) for (origin, operators), names in silent.items()),
            *(_undecided(section, operators, names) for operators, names in undecided.items()),
        ]
    )


class _LayerView:
    """One layer: what is decided in it and what is recomputed of it."""

    def __init__(self, entry: LayerStrategy, again: Iterable[Launch], strategy: Strategy) -> None:
        self._layer, self._template, self._plan = entry.layer.name, entry.layer.template, entry.plan
        self._exact = not strategy.network.approximated
        self._lazy_inline, self._casts_stay = strategy.lazy_inline, strategy.casts_stay
        self._keeps_communication = strategy.recompute_options.get("mp_comm_recompute") is False
        self._recomputed = frozenset(
            path for path, decision in entry.plan.decisions.items() if isinstance(decision.action, Recompute)
        )
        self._entries = [
            outcome
            for outcome in entry.plan.outcomes
            if outcome.sites and outcome.void is None and outcome.request.kind in ("recompute", "select_recompute")
        ]
        self._selected_cells = {
            operator
            for entry in self._entries
            if not (operator := entry.request.operator) or self._template.by_path[operator].kind == "cell"
        }
        self._outputs_left = {
            path for entry in self._entries for path in outputs_left(entry.request.operator, self._template)
        }
        self._again = {launch: self._sites_of(launch) for launch in again}

    def missing(self, held: Iterable[Held]) -> Iterator[tuple[Origin, str, bool]]:
        """(entry of the YAML, its operators that the backward pass reads all the same, whether nothing of it is
        recomputed)."""
        done = {
            path
            for sites in self._again.values()
            for path in sites
            if not any(self._template.by_path[site].preset_recompute for site in sites)
        }
        tensors = [(tensor, self._sites_of(Launch(tensor.place, tensor.primitive), strict=True)) for tensor in held]
        found: dict[Origin, tuple[dict[str, None], set[tuple[str, str]], set[bool]]] = {}
        for outcome in self._entries:
            sites, operator = frozenset(outcome.sites), outcome.request.operator
            if not self._lazy_inline and recomputes_nothing(operator, self._template):
                continue  # `check` says that it recomputes nothing
            kept = {
                (tensor.place.cell, tensor.primitive)
                for tensor, causes in tensors
                if causes and causes <= sites and not self._may_stay(tensor, operator)
            }
            if kept:
                names, parts, is_whole = found.setdefault(outcome.request.origin, ({}, set(), set()))
                names[operator] = None
                parts |= kept
                is_whole.add(not done & sites)
        for origin, (names, parts, is_whole) in found.items():
            if is_whole == {True}:
                yield origin, layer_words.names(names), True
            elif self._exact:
                yield origin, layer_words.in_order(parts, self._template), False

    def silent_communication(self, held: Iterable[Held]) -> Iterator[tuple[Origin, str]]:
        """(entry of the YAML, its operators) where no communication is recomputed, and the backward pass reads some."""
        if any(launch.primitive in COMMUNICATION for launch in self._again) or not any(
            tensor.primitive in COMMUNICATION for tensor in held
        ):
            return
        asked: dict[Origin, dict[str, None]] = defaultdict(dict)
        for outcome in self._plan.outcomes:
            request = outcome.request
            asked_for = request.kind == "select_comm_recompute" and self._plan.comm_recompute.get(request.operator)
            if asked_for and not self._is_handed(request.operator):
                asked[request.origin][request.operator] = None
        for origin, operators in asked.items():
            yield origin, layer_words.names(operators)

    def _is_handed(self, path: str) -> bool:
        """A Reshape of what runs again: MindSpore marks it, too, so that nobody needs what it showed."""
        return self._template.by_path[path].type == RESHAPE and any(
            path in self._template.by_path[maker].consumers for maker in self._recomputed
        )

    def undecided(self) -> str:
        """What is recomputed although none of its possible sites is decided."""
        asked = bool(self._entries) or any(self._plan.comm_recompute.values())
        strange = {
            (launch.place.cell, launch.primitive)
            for launch, sites in self._again.items()
            if launch.primitive not in _NEVER
            and not (asked and launch.primitive in COMMUNICATION)
            and not self._changes_layout(launch, sites)
            and not sites & self._recomputed
        }
        return layer_words.in_order(strange, self._template) if strange else ""

    def _changes_layout(self, launch: Launch, sites: Iterable[str]) -> bool:
        """What parallelism puts beside communication in front of an operator of which that was asked for (measured:
        slices in front of flash attention of ChatGLM)."""
        of_type = any(plain(self._template.by_path[site].type) == plain(launch.primitive) for site in sites)
        is_asked = any(self._plan.comm_recompute.get(site) for site in sites)
        return launch.primitive in _PARTS_OF_LAYOUTS and is_asked and not of_type

    def _may_stay(self, tensor: Held, operator: str) -> bool:
        """What is seen through a view that is not recomputed, the output of a recomputed cell, what MindSpore casts for
        a product and keeps, and what it never recomputes."""
        if tensor.primitive in _NEVER or (tensor.primitive in COMMUNICATION and self._keeps_communication):
            return True
        if not self._lazy_inline and self._is_left_then(tensor):
            return True
        if self._casts_stay and tensor.primitive == CAST and all(one.primitive == PRODUCT for one in tensor.readers):
            return True
        views = [reader for reader in tensor.readers if reader.primitive in VIEWS]
        if not all(self._is_decided(view) and self._ends_decided(tensor, view) for view in views):
            return True
        # the output of a cell stays also where an operator in it is selected by itself
        return any(
            not all(self._is_inside(reader.place, cell) for reader in tensor.readers)
            for cell in self._selected_cells
            if descends(operator, {cell})
        )

    def _is_left_then(self, tensor: Held) -> bool:
        """Whether MindSpore leaves it without lazy inline: weights, and outputs among others."""
        made = self._sites_of(Launch(tensor.place, tensor.primitive), strict=True)
        return tensor.of_weights or (bool(made) and made <= self._outputs_left)

    def _is_decided(self, view: Launch) -> bool:
        if self._keeps_communication:
            return False  # without mp_comm_recompute most views do not run again
        sites = self._sites_of(view) if view.place.layer == self._layer else frozenset()
        # of one head a Transpose is launched as a Reshape
        turned = {
            operator.path
            for operator in layer_words.around(view.place.cell, self._template)
            if operator.type == "Transpose" and view.place.layer == self._layer
        }
        return bool(sites) and sites <= self._recomputed and not turned & self._plan.excluded

    def _ends_decided(self, tensor: Held, view: Launch) -> bool:
        """Of two views in a row MindSpore keeps the second: the cell of the tensor may have had one of its own."""
        own = self._sites_of(Launch(tensor.place, view.primitive), strict=True)
        return view.place.cell == tensor.place.cell or own <= self._recomputed

    def _is_inside(self, place: Place, cell: str) -> bool:
        return place.layer == self._layer and descends(place.cell, {cell})

    def _sites_of(self, launch: Launch, strict: bool = False) -> frozenset[str]:
        """Sites that a kernel can be; of one that parallelism inserted all of its cell, or none if it is to be one of
        them (``strict``) and no communication. Where the catalog only approximates the model, primitives are not told
        apart."""
        around = layer_words.around(launch.place.cell, self._template)
        if self._exact:
            same = [operator for operator in around if plain(operator.type) == plain(launch.primitive)]
            is_own = any(operator.executed is not False for operator in same)
            if is_own:
                around = same
            elif strict and launch.primitive not in COMMUNICATION:
                around = []
        return frozenset(operator.path for operator in around)


def _missing(origin: Origin, operators: str, layers: Iterable[str], whole: bool) -> Finding:
    message = (
        phrase(
            "a recompute of {operators} is decided in {layers}, but nothing of it is recomputed",
            operators=operators,
            layers=layer_words.layers(layers),
        )
        if whole
        else phrase(
            "{operators} in {layers}: a recompute is decided, but the backward pass reads what the forward pass "
            "computed",
            operators=operators,
            layers=layer_words.layers(layers),
        )
    )
    return _finding(MISSING, origin, message)


def _silent(origin: Origin, operators: str, layers: Iterable[str]) -> Finding:
    message = phrase(
        "a recompute of the communication behind {operators} is decided in {layers}, but no communication "
        "is recomputed there",
        operators=operators,
        layers=layer_words.layers(layers),
    )
    return _finding(MISSING, origin, message, _NOT_BEHIND)


def _undecided(section: Origin, operators: str, layers: Iterable[str]) -> Finding:
    return _finding(
        UNDECIDED,
        section,
        phrase(
            "{operators} in {layers}: recomputed, but no recompute is decided there",
            operators=operators,
            layers=layer_words.layers(layers),
        ),
    )


def _finding(rule: str, origin: Origin, message: str, hint: str = _OTHER_RUN) -> Finding:
    return Finding(origin=origin, rule=rule, severity=Severity.WARNING, message=message, hint=hint)
