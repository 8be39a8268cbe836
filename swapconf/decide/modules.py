"""CONFIG -> MODULE DECISIONS: what a PyNative config means, layer by layer, as far as it can be said without a model.

Source: mindformers 2.0.0, pynative/distributed/activation_checkpoint.py, apply_recompute and apply_swap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
from swapconf.decide.module_paths import compiled, meet
from swapconf.decide.patterns import BadPattern
from swapconf.decide.strategy import ModuleDecision, ModuleEffect, Reason, RequestKind
from swapconf.words.phrases import phrase

OVERLAP = "pynative-overlap"
ONE_CARD = "pynative-one-card"
_COVERED = Reason("covered", phrase("the whole layer is named already"))


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


def decide(config: Config) -> tuple[ModuleDecision, ...]:
    """One decision for each entry, and one more for the layers of it where something else holds. On one card nothing
    of it happens."""
    found = decide_parallel(config)
    if config.pipeline.is_one_card:
        reason = Reason(ONE_CARD, phrase("mindformers applies it on several cards only"))
        return tuple(replace(decision, effect="nothing", reason=reason) for decision in found)
    return found


def decide_parallel(config: Config) -> tuple[ModuleDecision, ...]:
    """The same of a run on several cards."""
    return tuple([*_recompute(config), *_swap(config)])


def _recompute(config: Config) -> Iterator[ModuleDecision]:
    recompute, count = config.recompute, config.num_named_layers
    whole = layers_of(recompute.full.layers, count) if recompute.full is not None else frozenset()
    if recompute.full is not None:
        yield from _split("recompute", "", whole, {}, "recompute", None)
    for entry in filter(_usable, recompute.select):
        layers = layers_of(entry.layers, count)
        yield from _split("select_recompute", entry.pattern, layers, {_COVERED: whole}, "recompute", None)
    for entry in filter(_usable, recompute.select_exclude):
        yield from _split("select_recompute_exclude", entry.pattern, layers_of(entry.layers, count), {}, "keep", None)
    for entry in filter(_usable, recompute.select_comm):
        layers = layers_of(entry.layers, count)
        yield from _split("select_comm_recompute", entry.pattern, layers, {_COVERED: whole}, "recompute", None)


def _swap(config: Config) -> Iterator[ModuleDecision]:
    swap, count = config.swap, config.num_named_layers
    if not isinstance(swap, ListedSwap):
        return
    both: dict[LayerSwap | OpSwap, set[int]] = {}
    for entry, other in overlaps(config):
        both.setdefault(entry, set()).update(layers_of(entry.layers, count) & layers_of(other.layers, count))
    undecided = Reason(OVERLAP, phrase("also recomputed; which of the two holds is not known"))
    whole = frozenset().union(*(layers_of(entry.layers, count) for entry in swap.layer_swap))
    for layer_swap in swap.layer_swap:
        yield from _split(
            "layer_swap",
            "",
            layers_of(layer_swap.layers, count),
            {undecided: frozenset(both.get(layer_swap, ()))},
            "swap",
            layer_swap.prefetch,
        )
    for op_swap in filter(_usable, swap.op_swap):
        yield from _split(
            "op_swap",
            op_swap.pattern,
            layers_of(op_swap.layers, count),
            {undecided: frozenset(both.get(op_swap, ())), _COVERED: whole},
            "swap",
            op_swap.prefetch,
        )


def _split(
    kind: RequestKind,
    module: str,
    layers: frozenset[int],
    except_for: dict[Reason, frozenset[int]],
    effect: ModuleEffect,
    prefetch: int | None,
) -> Iterator[ModuleDecision]:
    left = layers
    for reason, exceptions in except_for.items():
        if here := left & exceptions:
            word: ModuleEffect = "unknown" if reason.rule == OVERLAP else effect
            yield ModuleDecision(kind, module, tuple(sorted(here)), word, prefetch, reason)
            left -= here
    if left:
        yield ModuleDecision(kind, module, tuple(sorted(left)), effect, prefetch, Reason(kind, phrase("as asked")))


def _usable(entry: OpSwap | SelectRecompute) -> bool:
    """An entry whose path is no regular expression asks for nothing (the rule pynative-bad-pattern reports it)."""
    try:
        compiled(entry.pattern)
    except BadPattern:
        return False
    return True


def _pattern(entry: LayerSwap | OpSwap | FullRecompute | SelectRecompute) -> str:
    return entry.pattern if isinstance(entry, (OpSwap, SelectRecompute)) else ""
