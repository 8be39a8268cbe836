"""CONFIG -> MODULE DECISIONS: what a PyNative config means, entry by entry, in the layers for which it holds.

Source: mindformers 2.0.0, pynative/distributed/activation_checkpoint.py, apply_recompute and apply_swap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swapconf.config.config import (
    Config,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    SelectRecompute,
)
from swapconf.decide.module_outcomes import AS_ASKED, Entries, outcomes
from swapconf.decide.module_paths import meet
from swapconf.decide.strategy import ModuleDecision, ModuleOutcome, Reason, RequestKind
from swapconf.models.pynative_modules import Known, LayerModules, known_modules, unknown
from swapconf.words.phrases import phrase

ONE_CARD = "pynative-one-card"


def modules_of(config: Config, mindformers: str) -> Known:
    """What can be named in the layers of the config's model, as the catalog knows it."""
    return known_modules(config.model.section, config.model.num_layers, mindformers)


def layers_of(layers: LayerSelection, count: int | None) -> frozenset[int]:
    """The layers that PyNative's form can name: indices, or all of a known number."""
    if isinstance(layers, EveryLayer):
        return frozenset(range(count or 0))
    return frozenset(layers.indices) if isinstance(layers, LayerIndices) else frozenset()


def overlaps(config: Config) -> Iterator[tuple[LayerSwap | OpSwap, FullRecompute | SelectRecompute]]:
    """Each swap with each recompute of the same layer, or surely of the same module."""
    swap, recompute, count = config.swap, config.recompute, config.num_named_layers
    if not isinstance(swap, ListedSwap):
        return
    entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap)
    others: tuple[FullRecompute | SelectRecompute, ...] = (
        *((recompute.full,) if recompute.full is not None else ()),
        *recompute.select,
    )
    for entry in entries:
        for other in others:
            whole = isinstance(entry, LayerSwap) or isinstance(other, FullRecompute)
            if layers_of(entry.layers, count) & layers_of(other.layers, count) and (
                whole or meet(_pattern(entry), _pattern(other))
            ):
                yield entry, other


def decide(config: Config, known: Known = unknown) -> tuple[ModuleDecision, ...]:
    """One decision for each entry, and one more for the layers of it where something else holds. On one card nothing
    of it happens. ``known``: what can be named in a layer, for patterns that only a model can resolve."""
    return _grouped(config, by_layer(config, known))


def decide_parallel(config: Config, known: Known = unknown) -> tuple[ModuleDecision, ...]:
    """The same of a run on several cards."""
    return _grouped(config, by_layer_in_parallel(config, known))


def by_layer(config: Config, known: Known = unknown) -> Iterator[tuple[int, tuple[ModuleOutcome, ...]]]:
    """(layer, what becomes of each entry there), for the layers that any entry names, in order."""
    found = by_layer_in_parallel(config, known)
    return applied_nowhere(found, not_on_one_card()) if config.pipeline.is_one_card else found


def by_layer_in_parallel(config: Config, known: Known = unknown) -> Iterator[tuple[int, tuple[ModuleOutcome, ...]]]:
    """The same of a run on several cards."""
    count, recompute, swap = config.num_named_layers, config.recompute, config.swap
    full = layers_of(recompute.full.layers, count) if recompute.full is not None else frozenset()
    lists: dict[str, tuple[SelectRecompute | LayerSwap | OpSwap, ...]] = {
        "select": recompute.select,
        "select_exclude": recompute.select_exclude,
        "select_comm": recompute.select_comm,
        "layer_swap": swap.layer_swap if isinstance(swap, ListedSwap) else (),
        "op_swap": swap.op_swap if isinstance(swap, ListedSwap) else (),
    }
    layers = {entry: layers_of(entry.layers, count) for entries in lists.values() for entry in entries}
    made: dict[tuple[Entries, LayerModules | None], tuple[ModuleOutcome, ...]] = {}  # of layers that are alike
    for layer in sorted(full.union(*layers.values())):
        here = {name: tuple(one for one in entries if layer in layers[one]) for name, entries in lists.items()}
        key = Entries(full=layer in full, **here), known(layer)  # type: ignore[arg-type]  # each by its name
        if key not in made:
            made[key] = outcomes(*key)
        yield layer, made[key]


def applied_nowhere(
    found: Iterable[tuple[int, tuple[ModuleOutcome, ...]]], reason: Reason
) -> Iterator[tuple[int, tuple[ModuleOutcome, ...]]]:
    """The same where mindformers does nothing of it."""
    for layer, here in found:
        yield layer, tuple(one._replace(effect="nothing", reason=reason) for one in here)


def not_on_one_card() -> Reason:
    return Reason(ONE_CARD, phrase("mindformers applies it on several cards only"))


def _grouped(config: Config, found: Iterable[tuple[int, tuple[ModuleOutcome, ...]]]) -> tuple[ModuleDecision, ...]:
    """Layers of which the same is said, together, in the order of the file; what is void or covered comes before the
    rest of its entry."""
    layers: dict[ModuleDecision, dict[int, None]] = {}
    for layer, here in found:
        for one in here:
            said = ModuleDecision(one.kind, one.module, (), one.effect, one.prefetch_layers, one.reason)
            layers.setdefault(said, {})[layer] = None
    names = [("recompute", ""), ("layer_swap", "")]
    names += [(kind, entry.pattern) for kind, entries in by_pattern(config) for entry in entries]
    place = {name: index for index, name in reversed(list(enumerate(names)))}
    order = sorted(
        layers, key=lambda said: (_ORDER.index(said.kind), place[said.kind, said.module], said.reason.text == AS_ASKED)
    )
    return tuple(said._replace(layers=tuple(layers[said])) for said in order)


def by_pattern(config: Config) -> Iterator[tuple[RequestKind, tuple[OpSwap | SelectRecompute, ...]]]:
    """The entries that name modules, by kind."""
    yield "select_recompute", config.recompute.select
    yield "select_recompute_exclude", config.recompute.select_exclude
    yield "select_comm_recompute", config.recompute.select_comm
    yield "op_swap", config.swap.op_swap if isinstance(config.swap, ListedSwap) else ()


_ORDER: tuple[RequestKind, ...] = (
    "recompute",
    "select_recompute",
    "select_recompute_exclude",
    "select_comm_recompute",
    "layer_swap",
    "op_swap",
)


def _pattern(entry: LayerSwap | OpSwap | FullRecompute | SelectRecompute) -> str:
    return entry.pattern if isinstance(entry, (OpSwap, SelectRecompute)) else ""
