"""STRATEGY: one decision per site, with its reason, and what became of each request of the YAML."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from swapconf.models.network import Layer, Network, Operator
from swapconf.words.findings import Origin

# --- actions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Keep:
    """The activation stays on the device."""


@dataclass(frozen=True, slots=True)
class Swap:
    """The activation goes to the host and starts to return ``prefetch`` operators before its first use."""

    prefetch: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """The activation is dropped and computed again. ``root``: path of the operator whose recompute causes it
    ("" for the whole layer)."""

    root: str


Action: TypeAlias = "Keep | Swap | Recompute"

# --- requests -----------------------------------------------------------------------------------------------------

RequestKind = Literal[
    "default",
    "layer_swap",
    "op_swap",
    "recompute",
    "select_recompute",
    "select_recompute_exclude",
    "select_comm_recompute",
    "select_comm_recompute_exclude",
]


@dataclass(frozen=True, slots=True)
class Request:
    """What one entry of the YAML asks for at one operator of a layer (``operator`` "": the whole layer).

    ``is_dropped``: nothing comes of it, as with mindformers alone (`upstream.dropped`).
    """

    kind: RequestKind
    operator: str
    origin: Origin
    prefetch: int = 0
    pattern: str = ""
    is_dropped: bool = False

    @property
    def is_swap(self) -> bool:
        return self.kind in ("default", "layer_swap", "op_swap")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a decision is as it is: a rule's name (or what asked for it) and a sentence."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What takes effect at a site. ``requested``: the swap that was asked for there, in effect or not."""

    action: Action
    reason: Reason
    requested: Request | None = None


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """What became of a request. ``void`` says why when nothing of it is in effect; ``sites``: primitives it decides."""

    request: Request
    sites: tuple[str, ...]
    void: Reason | None = None


def excluded(asked: Iterable[Request]) -> frozenset[str]:
    """The operators whose recompute is excluded."""
    return frozenset(request.operator for request in asked if request.kind == "select_recompute_exclude")


# Cells of mcore layers without operators -> the sum that they hand on to the next norm (TransformerLayer of 1.9.0).
_HANDS_ON = {"pre_cross_attn_layernorm": "add", "cross_attention": "add"}


def handed_on(asked: Iterable[Request]) -> dict[str, str]:
    """By operator the cell that hands on its output and whose recompute is asked for: the backward pass then reads the
    output of that cell, which is no swapped primitive's (measured with MindSpore 2.9.0)."""
    found: dict[str, str] = {}
    for request in asked:
        around, _, name = request.operator.rpartition(".")
        if request.kind == "select_recompute" and name in _HANDS_ON:
            found[f"{around}.{_HANDS_ON[name]}" if around else _HANDS_ON[name]] = request.operator
    return found


# --- strategy -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """The part of a strategy that equal layers share: decisions and outcomes for one template.

    Equal to itself alone, as `Decider` makes one for all equal layers; so it is a key of what is said of all of them.
    """

    decisions: Mapping[str, Decision]
    outcomes: tuple[RequestOutcome, ...]
    comm_recompute: Mapping[str, bool] = field(default_factory=dict)

    def actions(self) -> dict[str, Action]:
        return {path: decision.action for path, decision in self.decisions.items()}

    @cached_property
    def asked(self) -> tuple[Request, ...]:
        """The requests that are not dropped."""
        return tuple(outcome.request for outcome in self.outcomes if not outcome.request.is_dropped)

    @cached_property
    def excluded(self) -> frozenset[str]:
        """The operators whose recompute is excluded."""
        return excluded(self.asked)

    @cached_property
    def handed_on(self) -> dict[str, str]:
        """See the function of this name."""
        return handed_on(self.asked)

    @cached_property
    def selected(self) -> frozenset[str]:
        """Operators that entries of ``select_recompute`` name, whatever else runs them again."""
        in_effect = (outcome.request for outcome in self.outcomes if outcome.void is None)
        return frozenset(request.operator for request in in_effect if request.kind == "select_recompute")

    @cached_property
    def prefetches(self) -> dict[str, int]:
        """Of what moves."""
        return {path: action.prefetch for path, action in self.actions().items() if isinstance(action, Swap)}

    @cached_property
    def meaning(self) -> Hashable:
        """Equal for plans that ask the same of MindSpore, for whatever reasons."""
        return frozenset(self.prefetches.items()), self.recomputed

    @cached_property
    def recomputed(self) -> Hashable:
        """Equal for plans that run the same again, whatever moves."""
        asked = {
            path: action
            for path, action in self.actions().items()
            if isinstance(action, Recompute) or path in self.comm_recompute
        }
        told: tuple[Mapping[str, Hashable], ...] = asked, self.handed_on, self.comm_recompute
        return self.excluded, self.selected, *(frozenset(one.items()) for one in told)


@dataclass(frozen=True)
class LayerStrategy:
    layer: Layer
    plan: LayerPlan


@dataclass(frozen=True)
class Strategy:
    """One LayerStrategy per layer of the network, in order. ``swap_on``: the YAML's master switch.

    ``recompute_options``: keyword arguments of ``Cell.recompute`` that the YAML sets. ``lazy_inline``: the model is
    compiled with it. ``casts_stay``: MindSpore keeps what it casts for a product of two types, whatever is recomputed.
    """

    network: Network
    layers: tuple[LayerStrategy, ...]
    swap_on: bool
    recompute_options: Mapping[str, bool] = field(default_factory=dict)
    lazy_inline: bool = True
    casts_stay: bool = False

    @cached_property
    def operators(self) -> dict[str, dict[str, Operator]]:
        """By name of a layer its operators by path."""
        return {entry.layer.name: entry.layer.template.by_path for entry in self.layers}

    @property
    def longest_prefetch(self) -> int:
        """Of all that moves; 0 where nothing does."""
        return max((action.prefetch for action in self.actions().values() if isinstance(action, Swap)), default=0)

    @property
    def options(self) -> Hashable:
        """What it asks besides its layers."""
        return self.swap_on, self.lazy_inline, self.casts_stay, *self.recompute_options.items()

    def actions(self) -> dict[tuple[str, str], Action]:
        """The action at every site (layer name, primitive path)."""
        return {
            (entry.layer.name, path): decision.action
            for entry in self.layers
            for path, decision in entry.plan.decisions.items()
        }


# --- PyNative -----------------------------------------------------------------------------------------------------

ModuleEffect = Literal["swap", "recompute", "keep", "nothing"]


class ModuleDecision(NamedTuple):
    """What a PyNative config decides for a module (a path as the YAML writes it, "" for the whole layer) in some
    layers. ``prefetch_layers``: how many layers ahead a swap returns, None for a recompute."""

    kind: RequestKind
    module: str
    layers: tuple[int, ...]
    effect: ModuleEffect
    prefetch_layers: int | None
    reason: Reason


class ModuleOutcome(NamedTuple):
    """What becomes of one entry of a PyNative config in one layer. ``module``: as the YAML writes it; ``paths``: what
    that means here, outermost modules only, none where nothing is left of it, and "" for the whole layer."""

    kind: RequestKind
    module: str
    paths: tuple[str, ...]
    effect: ModuleEffect
    prefetch_layers: int | None
    reason: Reason
