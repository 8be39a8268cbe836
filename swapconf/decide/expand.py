"""CONFIG + NETWORK -> STRATEGY: one decision for every site, and the reason for it.

The order is MindSpore's: what is recomputed is never swapped (R1), a later request overrides an earlier one, and
an exclusion overrides every request to recompute.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple, TypeAlias

from swapconf.config.config import Config
from swapconf.decide.lazy_inline import RUNS_ALONE, lazily_inlined, makes_several
from swapconf.decide.patterns import primitives_below
from swapconf.decide.requests import Requests
from swapconf.decide.strategy import (
    Decision,
    Keep,
    LayerPlan,
    LayerStrategy,
    Reason,
    Recompute,
    Request,
    RequestOutcome,
    Strategy,
    Swap,
    excluded,
    handed_on,
)
from swapconf.models.network import LayerTemplate, Network, Operator
from swapconf.upstream import dropped
from swapconf.upstream.facts import Versions
from swapconf.upstream.primitives import MAKE_SEVERAL, NORM
from swapconf.words.phrases import phrase

R1 = "R1-recompute-wins"
R2 = "R2-recomputed-consumer"
RECOMPUTE_VOID, RECOMPUTE_NOTHING = "recompute-void", "recompute-nothing"
PLAIN_DIFFERS = "plain-mindformers-differs"

# A flag that switches recompute off is a flag, too, where a primitive has one output: measured with MindSpore 2.9.0 for
# Cast, MatMul and Add, which stay, and for these two of several outputs, which move. What such a primitive reads stays,
# too: measured for Cast, MatMul, SiLU, ReduceMean and flash attention, and not for an operator of several outputs,
# which moves; of a norm it is one of two casts of its cell (`on_device` in whatif).
_EXCLUDED = Reason(R1, phrase("its recompute is excluded, and MindSpore swaps nothing that has a flag for recompute"))
# The same flag, set by the model itself, counts where what is around it runs again: the primitive is then one more
# output of a graph that MindSpore inlines later than it looks for what to swap. Where nothing runs again, it moves:
# measured for the Div of routers (never copied in 12 recomputed layers) and for TopkExt, of two outputs (always).
OF_SEVERAL_OUTPUTS = MAKE_SEVERAL | {"Split", "SplitWithSize", "TopK", "TopkExt"}
_DROPPED = Reason(
    PLAIN_DIFFERS, phrase("mindformers alone drops it, and so it does not count here; `apply` has it count")
)
_NOT_ASKED = Reason("not-asked", phrase("nothing was asked here"))
_AS_ASKED = phrase("as asked")


Plans: TypeAlias = dict[tuple[LayerTemplate, tuple[Request, ...]], LayerPlan]


def expand(config: Config, network: Network, versions: Versions, known: Plans | None = None) -> Strategy:
    """The strategy that a config means for a network. Total: whatever is unusable asks for nothing. ``known``: what was
    decided for other configs with the same versions, and is added to."""
    requests, decider = Requests(config, network), Decider(config, versions, known)
    layers = tuple(LayerStrategy(layer, decider.plan(layer.template, requests.at(layer))) for layer in network.layers)
    return Strategy(
        network=network,
        layers=layers,
        swap_on=config.swap_on,
        recompute_options=decider.recompute_options,
        lazy_inline=lazily_inlined(config, versions),
        casts_stay=bool(versions.fact("casts_for_products_stay").value),
    )


class Decider:
    """Decides layer by layer; equal layers with equal requests share one plan."""

    def __init__(self, config: Config, versions: Versions, known: Plans | None = None) -> None:
        self.recompute_options = recompute_options(config)
        self._consumer_voids = versions.fact("recomputed_consumer_voids_swap")
        self._runs_alone = versions.fact(RUNS_ALONE)
        self._version = f"MindSpore {versions.mindspore}"
        self._plans: Plans = {} if known is None else known

    def plan(self, template: LayerTemplate, asked: tuple[Request, ...]) -> LayerPlan:
        key = template, asked
        if key not in self._plans:
            self._plans[key] = decide(
                template,
                asked,
                bool(self._consumer_voids.value),
                self._version,
                self._consumer_voids.source,
                runs_alone=bool(self._runs_alone.value),
            )
        return self._plans[key]


def recompute_options(config: Config) -> dict[str, bool]:
    """Keyword arguments of ``Cell.recompute``: what differs from MindSpore's defaults and is not dropped."""
    recompute = config.recompute
    chosen = {}
    if not recompute.mp_comm_recompute and not config.drops_communication:
        chosen[dropped.MP_COMM] = False
    if recompute.recompute_slice_activation and not config.drops_slices:
        chosen[dropped.SLICE] = True
    return chosen


def decide(
    template: LayerTemplate,
    asked: tuple[Request, ...],
    consumer_voids: bool,
    version: str,
    source: str = "",
    *,
    runs_alone: bool = True,
) -> LayerPlan:
    """The plan of one layer from the requests made there, in their order of application.

    ``consumer_voids``: rule R2 as documented (a recomputed consumer voids the swap) or as measured (it does not), in
    ``version``; ``source``: where that is known from. ``runs_alone``: flash attention and norms run again where they
    are selected by themselves.
    """
    nothing = {} if runs_alone else _for_nothing(asked, template, version)
    told, asked = asked, tuple(item for item in asked if not item.is_dropped and item not in nothing)
    if not template.operators:
        return LayerPlan({}, tuple(_dropped(request) or _unseen(request, asked) for request in told))
    recomputed, rule = _recomputed(template, asked), _ConsumerRule(consumer_voids, version, source)
    wanted = {
        primitive.path: request
        for request in asked
        if request.is_swap
        for primitive in primitives_below(request.operator, template)
    }  # the last request stays
    decisions = {
        primitive.path: _decision(primitive, wanted.get(primitive.path), recomputed, rule)
        for primitive in template.primitives
    }
    decisions |= _kept(decisions, asked, recomputed.left_out, template)
    outcomes = tuple(
        _dropped(request) or nothing.get(request) or _outcome(request, template, decisions, recomputed, wanted)
        for request in told
    )
    comm = {
        request.operator: request.kind == "select_comm_recompute"
        for request in asked
        if "comm" in request.kind and template.by_path[request.operator].kind == "primitive"
    }
    return LayerPlan(decisions, outcomes, comm)


def _kept(
    decisions: Mapping[str, Decision], asked: tuple[Request, ...], left_out: Mapping[str, str], template: LayerTemplate
) -> dict[str, Decision]:
    """Those that MindSpore does not swap although a swap is asked of them."""
    flagged, through = excluded(asked) & set(decisions), handed_on(asked)
    found = {}
    for path, decision in decisions.items():
        if isinstance(decision.action, Swap):
            primitive = template.by_path[path]
            reason = _handed_on(primitive, through) or _kept_in_place(primitive, flagged, left_out, template)
            if reason is not None:
                found[path] = Decision(Keep(), reason, decision.requested)
    return found


def _handed_on(primitive: Operator, through: Mapping[str, str]) -> Reason | None:
    """Of the two sums of a layer the second one moves nevertheless, where no cast follows it."""
    cell, around = through.get(primitive.path), primitive.path.rpartition(".")[0]
    if cell is None or (around, "cast") not in {consumer.rpartition(".")[::2] for consumer in primitive.consumers}:
        return None
    text = phrase(
        "it is handed on by {cell}, which has no operators and is recomputed, and MindSpore swaps nothing that a "
        "recompute hands on",
        cell=cell,
    )
    return Reason(R1, text)


def _kept_in_place(
    primitive: Operator, flagged: Set[str], left_out: Mapping[str, str], template: LayerTemplate
) -> Reason | None:
    """Why MindSpore does not swap a primitive for which a swap is asked, as far as flags of recompute are the cause.

    ``flagged``: primitives whose recompute the YAML excludes; ``left_out``: see `_Recomputed`.
    """
    if primitive.path in flagged and primitive.type not in MAKE_SEVERAL:
        return _EXCLUDED
    if primitive.type in OF_SEVERAL_OUTPUTS:
        return None
    reader = _first_flagged(primitive, flagged, template)
    if reader:
        return Reason(
            R1,
            phrase(
                "its output is read by {reader}, whose recompute is excluded, and MindSpore swaps nothing "
                "that something with such a flag reads",
                reader=reader,
            ),
        )
    if primitive.path in left_out:
        return Reason(
            R1,
            phrase(
                "{cause}, but for this operator, which the model itself excludes, and MindSpore swaps "
                "nothing that a recompute leaves out",
                cause=_cause(left_out[primitive.path], False),
            ),
        )
    return None


def _first_flagged(primitive: Operator, flagged: Set[str], template: LayerTemplate) -> str:
    """The reader for which a primitive stays; "" for none. Beside what flash attention reads, or a norm, which has two
    casts of one primitive, there may be what moves."""
    readers = [reader for reader in primitive.consumers if reader in flagged]
    plain = [reader for reader in readers if template.by_path[reader].type not in MAKE_SEVERAL]
    if not plain and len(readers) == len(primitive.consumers):
        plain = [reader for reader in readers if template.by_path[reader].type != NORM]
    return plain[0] if plain else ""


class _ConsumerRule(NamedTuple):
    """R2 in a version, and where that is known from."""

    voids: bool
    version: str
    source: str


class _Recomputed(NamedTuple):
    """``roots``: recomputed primitive -> the operator that causes it; ``by_model``: those that no request asked for;
    ``left_out``: primitive that stays inside what is recomputed, as the model excludes it -> the operator around it."""

    roots: dict[str, str]
    by_model: frozenset[str]
    left_out: dict[str, str]

    def asked_for(self, path: str) -> bool:
        return path in self.roots and path not in self.by_model


def _recomputed(template: LayerTemplate, asked: tuple[Request, ...]) -> _Recomputed:
    """A flag on the primitive itself is stronger than the recompute of a cell above it (MindSpore, Cell.recompute)."""
    roots: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for request in asked:
        if request.kind in ("recompute", "select_recompute"):
            for primitive in primitives_below(request.operator, template):
                stays = primitive.path != request.operator and primitive.preset_recompute is False
                (left_out if stays else roots).setdefault(primitive.path, request.operator)
    by_model = {primitive.path for primitive in template.primitives if primitive.preset_recompute} - set(roots)
    roots.update((path, path) for path in by_model)
    for request in asked:
        if request.kind == "select_recompute_exclude":
            roots.pop(request.operator, None)
    return _Recomputed(roots, frozenset(by_model & set(roots)), left_out)


def _decision(primitive: Operator, request: Request | None, recomputed: _Recomputed, rule: _ConsumerRule) -> Decision:
    root = recomputed.roots.get(primitive.path)
    if root is not None:
        cause = _cause(root, primitive.path in recomputed.by_model)
        if request is None:
            return Decision(Recompute(root), Reason("recompute", cause))
        wins = phrase("{cause}, and recompute wins over swap", cause=cause)
        return Decision(Recompute(root), Reason(R1, wins), request)
    if request is None:
        return Decision(Keep(), _NOT_ASKED)
    # what the model recomputes by itself is part of every run; R2 is about what the YAML adds
    consumers = [path for path in primitive.consumers if recomputed.asked_for(path)]
    if not consumers:
        return Decision(Swap(request.prefetch), Reason(request.kind, _AS_ASKED), request)
    if rule.voids:
        return Decision(
            Keep(),
            Reason(
                R2,
                phrase(
                    "its output is read by the recomputed {reader}, which voids the swap in {version} ({source})",
                    reader=consumers[0],
                    version=rule.version,
                    source=rule.source,
                ),
            ),
            request,
        )
    return Decision(
        Swap(request.prefetch),
        Reason(
            R2,
            phrase(
                "its output is read by the recomputed {reader}; in {version} the swap takes effect all the same "
                "({source})",
                reader=consumers[0],
                version=rule.version,
                source=rule.source,
            ),
        ),
        request,
    )


def _cause(root: str, by_model: bool) -> str:
    if by_model:
        return phrase("the model itself recomputes this operator")
    return phrase("{operator} is recomputed", operator=root) if root else phrase("the whole layer is recomputed")


def _dropped(request: Request) -> RequestOutcome | None:
    return RequestOutcome(request, (), _DROPPED) if request.is_dropped else None


def _for_nothing(asked: tuple[Request, ...], template: LayerTemplate, version: str) -> dict[Request, RequestOutcome]:
    """What selects a primitive of several outputs that is not run again by itself: it gets no flag."""
    text = phrase("{version} does not run it again by itself; select the cell around it", version=version)
    return {
        request: RequestOutcome(request, (), Reason(RECOMPUTE_NOTHING, text))
        for request in asked
        if request.kind == "select_recompute" and not request.is_dropped and makes_several(request.operator, template)
    }


def _outcome(
    request: Request,
    template: LayerTemplate,
    decisions: dict[str, Decision],
    recomputed: _Recomputed,
    wanted: dict[str, Request],
) -> RequestOutcome:
    below = primitives_below(request.operator, template)
    if request.is_swap:
        sites = tuple(p.path for p in below if isinstance(decisions[p.path].action, Swap) and wanted[p.path] is request)
        return RequestOutcome(
            request, sites, None if sites or not below else _why_void(request, below, decisions, wanted)
        )
    if request.kind in ("recompute", "select_recompute"):
        sites = tuple(p.path for p in below if recomputed.roots.get(p.path) == request.operator)
        gone = not sites and below and not any(recomputed.asked_for(p.path) for p in below)
        return RequestOutcome(
            request, sites, Reason(RECOMPUTE_VOID, phrase("every operator of it is excluded")) if gone else None
        )
    is_cell = bool(request.operator) and template.by_path[request.operator].kind == "cell"
    void = (
        Reason(
            RECOMPUTE_VOID, phrase("{operator} is a cell; this list takes single operators", operator=request.operator)
        )
        if is_cell
        else None
    )
    return RequestOutcome(request, () if is_cell else (request.operator,), void)


def _unseen(request: Request, asked: tuple[Request, ...]) -> RequestOutcome:
    """The outcome in a layer of which no operator is known: a layer that is recomputed as a whole swaps nothing."""
    whole = request.is_swap and any(other.kind == "recompute" for other in asked)
    return RequestOutcome(
        request,
        (),
        Reason(R1, phrase("{cause}, and recompute wins over swap", cause=_cause("", False))) if whole else None,
    )


def _why_void(
    request: Request, below: tuple[Operator, ...], decisions: dict[str, Decision], wanted: dict[str, Request]
) -> Reason:
    """The reason that stands first in the layer among those that took something from this request."""
    for primitive in below:
        decision = decisions[primitive.path]
        if wanted[primitive.path] is request:
            return decision.reason
    other = wanted[below[0].path]
    return Reason(
        "entry-shadowed",
        phrase(
            "{operator} with prefetch {prefetch} overrides it",
            operator=other.operator or phrase("the layer"),
            prefetch=other.prefetch,
        ),
    )
