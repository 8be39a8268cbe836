"""CONFIG + LAYER -> REQUESTS: what the YAML asks for at one layer, entry by entry, patterns turned into operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from swapconf.config.config import Config, DefaultSwap, Dialect, LayerSelection, ListedSwap, SelectRecompute
from swapconf.decide.patterns import BadPattern, matches, repeats
from swapconf.decide.stages import BadDeal, StageMap, deal, guess
from swapconf.decide.strategy import Request, RequestKind
from swapconf.models.network import Layer, LayerTemplate, Network
from swapconf.upstream import dropped

FLASH = "FlashAttentionScore"  # type of the primitive


class OpGroup(NamedTuple):
    """All entries of ``op_swap`` with one name: for a layer, the first that names it counts (mindformers groups
    entries by name, in the order in which names first appear)."""

    pattern: str
    entries: tuple[int, ...]  # positions in ListedSwap.op_swap


def op_groups(swap: ListedSwap) -> tuple[OpGroup, ...]:
    """The names of ``op_swap`` in the order in which they are applied; a later one overrides where both match."""
    groups: dict[str, list[int]] = {}
    for position, entry in enumerate(swap.op_swap):
        groups.setdefault(entry.pattern, []).append(position)
    return tuple(OpGroup(pattern, tuple(positions)) for pattern, positions in groups.items())


class Requests:
    """Answers, for every layer of a network, which requests the config makes there, in the order of application."""

    def __init__(self, config: Config, network: Network) -> None:
        if config.dialect is Dialect.PYNATIVE:
            raise ValueError("a PyNative config decides modules (resolve.modules), not operators of a graph")
        self.config = config
        self.flash_attention = network.flash_attention
        self._stages = stage_map(config, network.num_layers)
        self._chosen: dict[LayerSelection, frozenset[int]] = {}
        self._selections = tuple(dict.fromkeys(_selections(config)))
        self._repeated = {kind: repeated(config, kind) for kind in dropped.EXCLUDES}
        self._known: dict[tuple[LayerTemplate, tuple[bool, ...]], tuple[Request, ...]] = {}

    def at(self, layer: Layer) -> tuple[Request, ...]:
        """Equal layers that the same entries select share one answer."""
        key = layer.template, tuple(self.selects(selection, layer) for selection in self._selections)
        if key not in self._known:
            self._known[key] = tuple([*self._recompute(layer), *self._swap(layer)])
        return self._known[key]

    def selects(self, layers: LayerSelection, layer: Layer) -> bool:
        if layers not in self._chosen:
            try:
                self._chosen[layers] = self._stages.selected(layers)
            except BadDeal:
                self._chosen[layers] = frozenset()  # the rule recompute-count reports it
        return layer.index in self._chosen[layers]

    def _swap(self, layer: Layer) -> Iterator[Request]:
        swap = self.config.swap
        if isinstance(swap, DefaultSwap):
            for operator in flash_attention(self.flash_attention, layer.template) or _unseen(
                self.flash_attention, layer.template
            ):
                yield Request("default", operator, swap.origin, swap.prefetch, self.flash_attention)
        elif isinstance(swap, ListedSwap):
            for entry in swap.layer_swap:
                if self.selects(entry.layers, layer):
                    yield Request("layer_swap", "", entry.origin, entry.prefetch)
                    break  # the first entry that names the layer counts
            for group in op_groups(swap):
                for position in group.entries:
                    op = swap.op_swap[position]
                    if self.selects(op.layers, layer):
                        for operator in operators(op.pattern, layer.template) or _unseen(op.pattern, layer.template):
                            yield Request("op_swap", operator, op.origin, op.prefetch, op.pattern)
                        break

    def _recompute(self, layer: Layer) -> Iterator[Request]:
        recompute = self.config.recompute
        full = recompute.full is not None and self.selects(recompute.full.layers, layer)
        if full and recompute.full is not None:
            yield Request("recompute", "", recompute.full.origin)
        else:  # a layer that is recomputed as a whole needs no selection
            yield from self._select("select_recompute", recompute.select, layer)
            yield from self._select("select_comm_recompute", recompute.select_comm, layer)
        yield from self._select("select_recompute_exclude", recompute.select_exclude, layer)
        yield from self._select("select_comm_recompute_exclude", recompute.select_comm_exclude, layer)

    def _select(self, kind: RequestKind, entries: tuple[SelectRecompute, ...], layer: Layer) -> Iterator[Request]:
        of = kind.removesuffix("_exclude")
        drops_all, repeats = of != kind and self.config.drops_exclusions(of), self._repeated.get(kind, ())
        for entry in entries:
            if self.selects(entry.layers, layer):
                for operator in operators(entry.pattern, layer.template) or _unseen(entry.pattern, layer.template):
                    is_dropped = drops_all or entry.pattern in repeats
                    yield Request(kind, operator, entry.origin, pattern=entry.pattern, is_dropped=is_dropped)


def repeated(config: Config, kind: str) -> frozenset[str]:
    """Patterns of a list that mindformers takes out of all layers, as an exclusion repeats them; none where exclusions
    are asked to count as they are written."""
    if dropped.EXCLUDES[kind] in config.applied:
        return frozenset()
    recompute = config.recompute
    selected, excluded = {
        "select_recompute": (recompute.select, recompute.select_exclude),
        "select_comm_recompute": (recompute.select_comm, recompute.select_comm_exclude),
    }[kind]
    left = dict.fromkeys(entry.pattern for entry in selected)
    for pattern in dict.fromkeys(entry.pattern for entry in excluded):
        found = next((one for one in left if repeats(pattern, one)), None)
        if found is not None:
            del left[found]
    return frozenset(entry.pattern for entry in selected) - set(left)


def _selections(config: Config) -> Iterator[LayerSelection]:
    recompute = config.recompute
    if isinstance(config.swap, ListedSwap):
        yield from (entry.layers for entry in config.swap.layer_swap)
        yield from (entry.layers for entry in config.swap.op_swap)
    if recompute.full is not None:
        yield recompute.full.layers
    yield from (
        entry.layers
        for entry in (
            *recompute.select,
            *recompute.select_comm,
            *recompute.select_exclude,
            *recompute.select_comm_exclude,
        )
    )


def operators(pattern: str, template: LayerTemplate) -> tuple[str, ...]:
    """Paths that a pattern selects; none for a pattern that is unusable (the rule bad-pattern reports it)."""
    try:
        return tuple(operator.path for operator in matches(pattern, template))
    except BadPattern:
        return ()


def _unseen(pattern: str, template: LayerTemplate) -> tuple[str, ...]:
    """The pattern itself, in a layer of which no operator is known: what was asked for is told, and not dropped."""
    return () if template.operators else (pattern,)


def flash_attention(pattern: str, template: LayerTemplate) -> tuple[str, ...]:
    """The flash attention of a layer: by the family's pattern, else (a multi-token prediction layer, an unknown
    family) by the type of the primitive."""
    return operators(pattern, template) or tuple(
        primitive.path for primitive in template.primitives if primitive.type == FLASH
    )


def stage_map(config: Config, num_layers: int) -> StageMap:
    """The stages of the layers; a guess when the offset does not fit (the rule stage-offset reports it)."""
    try:
        return deal(num_layers, config.pipeline)
    except BadDeal:
        return guess(num_layers, config.pipeline)
