"""PYNATIVE CONFIG -> GRAPH CONFIG (legacy or mcore), and what became of each thing in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from swapconf.config.config import (
    Config,
    Dialect,
    EveryLayer,
    FullRecompute,
    LayerCounts,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    Swap,
    SwapOff,
)
from swapconf.decide.modules import layers_of, overlaps
from swapconf.decide.requests import stage_map
from swapconf.decide.stages import BadDeal
from swapconf.migrate.pattern_forms import to_elements
from swapconf.migrate.report import Item, carried, changed, lost, to_check
from swapconf.migrate.sentences import (
    NOT_RECOMPUTED,
    RECOMPUTED,
    cells_are_excluded,
    in_words,
    recomputed,
    rest_stays,
    swapped,
)
from swapconf.words.findings import Origin
from swapconf.words.phrases import phrase


def to_graph(config: Config, dialect: Dialect, prefetch_operators: int = 1) -> tuple[Config, tuple[Item, ...]]:
    """A PyNative config in graph mode's form; ``prefetch_operators`` becomes the prefetch of every entry."""
    work = _Work(config, prefetch_operators)
    swap = work.swap()
    listed = not isinstance(swap, SwapOff)
    if not listed and not work.countable():
        swap, listed = ListedSwap(), True
        work.items.append(
            to_check(
                config.origin("recompute.mode"),
                phrase(
                    "with swap off, graph mode counts layers per stage and cannot name these; so swap is on with an "
                    "empty list, which swaps nothing"
                ),
            )
        )
    recompute = work.recompute(by_index=listed)
    made = replace(config, dialect=dialect, swap=swap, recompute=recompute, origins={})
    work.items += rest_stays(
        made,
        phrase(
            "only swap and recompute are rewritten; graph mode reads `runner_config`, `parallel_config` and "
            "`model_config` instead of `training`, `parallelism` and a flat `model`"
        ),
        phrase("move the rest of the YAML to that form too, and set context.mode: 0"),
    )
    return made, tuple(work.items)


@dataclass(slots=True)
class _Work:
    config: Config
    prefetch_operators: int
    items: list[Item] = field(default_factory=list)

    # --- layers -----------------------------------------------------------------------------------------------------

    def layers(self, layers: LayerSelection, origin: Origin) -> frozenset[int]:
        """Decoder layers. What names the layers for multi-token prediction has to agree with the last of them."""
        count, extra = self.config.model.num_layers, self.config.model.num_mtp_layers
        chosen = layers_of(layers, self.config.num_named_layers)
        if count is None:
            return chosen
        behind = {layer for layer in chosen if layer >= count}
        if behind != (set(range(count, count + extra)) if count - 1 in chosen else set()):
            self.items.append(
                lost(
                    origin,
                    phrase(
                        "in graph mode the layers for multi-token prediction always have the settings of layer {layer}",
                        layer=count - 1,
                    ),
                    phrase("give both the same settings first"),
                )
            )
        return frozenset(layer for layer in chosen if layer < count)

    def selection(self, layers: frozenset[int]) -> LayerSelection:
        every = self.config.model.num_layers is not None and len(layers) == self.config.model.num_layers
        return EveryLayer() if every and layers else LayerIndices(tuple(sorted(layers)))

    def counts(self, layers: frozenset[int]) -> LayerSelection | None:
        """The layers as the first so many of each stage, None when they are others."""
        count = self.config.model.num_layers
        selection = self.selection(layers)
        if isinstance(selection, EveryLayer):
            return selection
        if count is None:
            return None
        stages = stage_map(self.config, count)
        rows = tuple(
            tuple(
                sum(1 for layer in layers if stages.places[layer] == (interleave, stage)) for stage in range(len(row))
            )
            for interleave, row in enumerate(stages.shares)
        )
        found = LayerCounts(counts=rows, per_interleave=len(rows) > 1)
        try:
            return found if stages.selected(found) == layers else None
        except BadDeal:
            return None

    def countable(self) -> bool:
        recompute = self.config.recompute
        entries = (
            *((recompute.full,) if recompute.full else ()),
            *recompute.select,
            *recompute.select_comm,
            *recompute.select_exclude,
        )
        limit = self.config.model.num_layers
        return all(
            self.counts(
                frozenset(
                    layer
                    for layer in layers_of(entry.layers, self.config.num_named_layers)
                    if limit is None or layer < limit
                )
            )
            is not None
            for entry in entries
        )

    # --- recompute --------------------------------------------------------------------------------------------------

    def recompute(self, *, by_index: bool) -> RecomputeConfig:
        asked = self.config.recompute
        if asked.kept_ops:
            self.items.append(
                lost(
                    self.config.origin("recompute.exclude_op"),
                    phrase(
                        "graph mode excludes operators by path, not by type ({types})", types=", ".join(asked.kept_ops)
                    ),
                    phrase("name their paths in select_recompute_exclude; for collectives, see mp_comm_recompute"),
                )
            )
        full = None
        if asked.full is not None:
            layers = self.layers(asked.full.layers, asked.full.origin)
            full = FullRecompute(layers=self._said(layers, by_index), origin=asked.full.origin) if layers else None
            self.items.append(recomputed(asked.full.origin, layers))
        if asked.select_exclude:
            self.items.append(
                cells_are_excluded(asked.select_exclude[0].origin, phrase("name the operators of the cell"))
            )
        return RecomputeConfig(
            full=full,
            select=tuple(self._modules(asked.select, by_index)),
            select_comm=tuple(self._modules(asked.select_comm, by_index)),
            select_exclude=tuple(self._modules(asked.select_exclude, by_index, NOT_RECOMPUTED)),
        )

    def _modules(
        self, entries: tuple[SelectRecompute, ...], by_index: bool, what: str = RECOMPUTED
    ) -> Iterator[SelectRecompute]:
        for entry in entries:
            pattern = self._pattern(entry.pattern, entry.origin)
            layers = self.layers(entry.layers, entry.origin)
            if pattern is not None and layers:
                self.items.append(carried(entry.origin, phrase(what, path=pattern, layers=in_words(layers))))
                yield SelectRecompute(pattern=pattern, layers=self._said(layers, by_index), origin=entry.origin)

    def _said(self, layers: frozenset[int], by_index: bool) -> LayerSelection:
        return self.selection(layers) if by_index else self.counts(layers) or self.selection(layers)

    # --- swap -------------------------------------------------------------------------------------------------------

    def swap(self) -> Swap:
        swap = self.config.swap
        if not isinstance(swap, ListedSwap) or not (swap.layer_swap or swap.op_swap):
            return SwapOff()
        for entry, other in overlaps(self.config):
            self.items.append(
                changed(
                    entry.origin,
                    phrase(
                        "line {line} recomputes a part of it: PyNative takes no both; in graph mode recompute wins",
                        line=other.origin.line,
                    ),
                )
            )
        first: LayerSwap | OpSwap = swap.layer_swap[0] if swap.layer_swap else swap.op_swap[0]
        layer_swap, op_swap = tuple(self._layer_swaps(swap)), tuple(self._op_swaps(swap))
        if not layer_swap and not op_swap:
            return SwapOff()
        self.items.append(
            changed(
                first.prefetch_origin,
                phrase(
                    "default_prefetch {layers} (layers) becomes backward_prefetch {operators} (operators) of every "
                    "entry; there is no rule that turns one into the other",
                    layers=first.prefetch,
                    operators=self.prefetch_operators,
                ),
                phrase("choose it with --prefetch, in operators"),
            )
        )
        return ListedSwap(layer_swap=layer_swap, op_swap=op_swap, given_entries=len(layer_swap) + len(op_swap))

    def _layer_swaps(self, swap: ListedSwap) -> Iterator[LayerSwap]:
        for entry in swap.layer_swap:
            if layers := self.layers(entry.layers, entry.layers_origin):
                self.items.append(swapped(entry.origin, layers))
                yield replace(entry, layers=self.selection(layers), prefetch=self.prefetch_operators)

    def _op_swaps(self, swap: ListedSwap) -> Iterator[OpSwap]:
        for entry in swap.op_swap:
            pattern = self._pattern(entry.pattern, entry.origin)
            layers = self.layers(entry.layers, entry.layers_origin)
            if pattern is not None and layers:
                self.items.append(swapped(entry.origin, layers, pattern))
                yield replace(entry, pattern=pattern, layers=self.selection(layers), prefetch=self.prefetch_operators)

    def _pattern(self, path: str, origin: Origin) -> str | None:
        pattern = to_elements(path)
        if pattern is None:
            self.items.append(
                lost(
                    origin,
                    phrase("'{path}' can match paths of any depth; graph mode matches name by name", path=path),
                    phrase("write each level, with \\. between names and [^.]* for a part of a name"),
                )
            )
        elif pattern != path:
            self.items.append(changed(origin, phrase("'{old}' is written as '{new}'", old=path, new=pattern)))
        return pattern
