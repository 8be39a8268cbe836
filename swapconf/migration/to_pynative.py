"""GRAPH CONFIG -> PYNATIVE CONFIG, and what became of each thing in it.

Where both dialects can say the same, the result says it; docs/dialects.md gives the source of every difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from swapconf.config import (
    Config,
    DefaultSwap,
    Dialect,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    Recompute,
    SelectRecompute,
    Swap,
    SwapOff,
)
from swapconf.errors import Origin
from swapconf.formats.layer_ranges import spell
from swapconf.migration.patterns import to_module_path
from swapconf.migration.report import Item, carried, changed, lost, to_check
from swapconf.resolve.module_paths import inside, literal, meet
from swapconf.resolve.requests import stage_map
from swapconf.resolve.stages import BadDeal


def to_pynative(config: Config, prefetch_layers: int = 1) -> tuple[Config, tuple[Item, ...]]:
    """The config in PyNative's form; ``prefetch_layers`` is its one prefetch for everything that is swapped."""
    work = _Work(config, prefetch_layers)
    recompute = work.recompute()
    swap = work.swap(recompute)
    made = replace(config, dialect=Dialect.PYNATIVE, swap=swap, recompute=recompute, origins={})
    if swap != SwapOff() or recompute != Recompute():
        work.items.append(to_check(
            Origin(file=config.file), "only swap and recompute are rewritten; PyNative training reads `training`, "
            "`parallelism` and a flat `model` instead of `runner_config`, `parallel_config` and `model_config`",
            "move the rest of the YAML to that form too, and set context.mode: 1"))
    return made, tuple(work.items)


@dataclass(slots=True)
class _Work:
    config: Config
    prefetch_layers: int
    items: list[Item] = field(default_factory=list)
    named: set[str] = field(default_factory=set)

    # --- layers -----------------------------------------------------------------------------------------------------

    def layers(self, layers: LayerSelection, origin: Origin) -> frozenset[int]:
        """Layers by PyNative's index: decoder layers, then those for multi-token prediction, which graph mode gives
        the settings of the last decoder layer."""
        count, extra = self.config.model.num_layers, self.config.model.num_mtp_layers
        if isinstance(layers, LayerIndices):
            real = {index for index in layers.indices if index >= 0 and (count is None or index < count)}
            if wrong := sorted(set(layers.indices) - real):
                self.items.append(changed(origin, f"layer {', '.join(map(str, wrong))} does not exist and is left out"))
        elif count is None:
            self.items.append(lost(origin, "PyNative lists layers, and the YAML does not say how many there are",
                                   "give num_layers in the model section"))
            return frozenset()
        else:
            try:
                real = set(stage_map(self.config, count).selected(layers))
            except BadDeal as error:
                self.items.append(lost(origin, f"the counts do not fit the stages: {error}", "correct the list first"))
                return frozenset()
        follow = range(count, count + extra) if count is not None and count - 1 in real else ()
        return frozenset(real | set(follow))

    def selection(self, layers: frozenset[int]) -> LayerSelection:
        count = self.config.model.num_layers
        whole = count is not None and layers == frozenset(range(count + self.config.model.num_mtp_layers))
        return EveryLayer() if whole and layers else LayerIndices(tuple(sorted(layers)))

    # --- recompute --------------------------------------------------------------------------------------------------

    def recompute(self) -> Recompute:
        asked = self.config.recompute
        whole = self.layers(asked.full.layers, asked.full.origin) if asked.full is not None else frozenset()
        if whole and asked.full is not None:
            self.items.append(carried(asked.full.origin, f"recompute of {_words(whole)}"))
        self._not_carried()
        return Recompute(
            full=FullRecompute(layers=self.selection(whole), origin=asked.full.origin)
            if whole and asked.full is not None else None,
            select=tuple(self._modules(asked.select, whole, "recompute")),
            select_comm=tuple(self._modules(asked.select_comm, whole, "recompute of communication")))

    def _modules(self, entries: tuple[SelectRecompute, ...], whole: frozenset[int],
                 what: str) -> Iterator[SelectRecompute]:
        merged: dict[str, tuple[frozenset[int], Origin]] = {}
        for entry in entries:
            path = self._path(entry.pattern, entry.origin)
            layers = self.layers(entry.layers, entry.origin) - whole  # a layer that is recomputed covers its modules
            if path is None or not layers:
                continue
            before, origin = merged.get(path, (frozenset(), entry.origin))
            merged[path] = before | layers, origin
            if entry.builtin:
                self.items.append(changed(entry.origin, f"the built-in pattern '{entry.pattern}' is written out"))
            self.items.append(carried(entry.origin, f"{what} of '{path}' in {_words(layers)}"))
        for path, (layers, origin) in merged.items():
            yield SelectRecompute(pattern=path, layers=self.selection(layers), origin=origin)

    def _not_carried(self) -> None:
        recompute, origin = self.config.recompute, self.config.origin
        for entry in (*recompute.select_exclude, *recompute.select_comm_exclude):
            self.items.append(lost(entry.origin, f"PyNative has no exclusion by path ('{entry.pattern}')",
                                   "name the modules to recompute one by one, or keep operators by type in "
                                   "`exclude_op`"))
        switches = (("mp_comm_recompute", recompute.mp_comm_recompute, True,
                     "list the collectives in `exclude_op`, such as ['AllGather', 'ReduceScatter', 'AllReduce']"),
                    ("recompute_slice_activation", recompute.recompute_slice_activation, False,
                     "nothing does this there"),
                    ("parallel_optimizer_comm_recompute", recompute.parallel_optimizer_comm_recompute, False,
                     "see `parallelism.reshard_after_forward_policy`"))
        for key, value, default, remedy in switches:
            if value != default and _recomputes(recompute):
                self.items.append(lost(origin(f"recompute_config.{key}"), f"{key}: {value} has no PyNative form",
                                       remedy))

    # --- swap -------------------------------------------------------------------------------------------------------

    def swap(self, recompute: Recompute) -> Swap:
        swap = self.config.swap
        if isinstance(swap, SwapOff):
            return swap
        if self.config.pipeline.num_stages > 1:
            self.items.append(lost(self.config.origin("swap_config.swap"),
                                   f"PyNative refuses swap with {self.config.pipeline.num_stages} pipeline stages",
                                   "use recompute there"))
            return SwapOff()
        if isinstance(swap, DefaultSwap):
            self.items.append(lost(swap.origin, "PyNative has no default strategy",
                                   "list the attention module in op_swap; mindformers 2.0.0 calls it "
                                   "self_attention.core_attention"))
            return SwapOff()
        listed = self._listed(swap, recompute)
        if not listed.layer_swap and not listed.op_swap:
            return SwapOff()
        self._prefetch(swap)
        return listed

    def _listed(self, swap: ListedSwap, recompute: Recompute) -> ListedSwap:
        whole: frozenset[int] = frozenset()
        for entry in swap.layer_swap:
            whole |= self._free("", self.layers(entry.layers, entry.layers_origin), recompute, entry)
        modules: dict[str, tuple[frozenset[int], OpSwap]] = {}
        for op in swap.op_swap:
            path = self._path(op.pattern, op.origin)
            if path is not None:
                before = modules.get(path, (frozenset(), op))
                layers = self._free(path, self.layers(op.layers, op.layers_origin), recompute, op)
                modules[path] = before[0] | (layers - whole), before[1]
        first = swap.layer_swap[0] if swap.layer_swap else None
        made = tuple(replace(op, pattern=path, layers=self.selection(layers), prefetch=self.prefetch_layers)
                     for path, (layers, op) in modules.items() if layers)
        one = (replace(first, layers=self.selection(whole), prefetch=self.prefetch_layers),) if first and whole else ()
        return ListedSwap(layer_swap=one, op_swap=made, given_entries=len(one) + len(made))

    def _free(self, path: str, layers: frozenset[int], recompute: Recompute,
              entry: LayerSwap | OpSwap) -> frozenset[int]:
        """The layers in which PyNative can swap this: not recomputed, and with a layer that calls them back."""
        full = self._again(recompute.full.layers) if recompute.full else frozenset()
        if taken := layers & full:
            self.items.append(changed(entry.origin, f"{_words(taken)} left out: recomputed as a whole, and recompute "
                                                    "wins over swap in graph mode, too (but for operators that the "
                                                    "model never recomputes)"))
        left = layers - full
        for other in recompute.select:
            here = left & self._again(other.layers)
            if here and path and literal(path) is None and literal(other.pattern) is None and path != other.pattern:
                self.items.append(to_check(entry.origin, f"'{path}' and the recomputed '{other.pattern}' may match the "
                                           f"same modules in {_words(here)}, which PyNative does not allow"))
            elif here and (not path or meet(path, other.pattern)):
                same = path == other.pattern or inside(path, other.pattern)
                text = f"{_words(here)} left out: '{other.pattern}' is recomputed there"
                self.items.append(changed(entry.origin, f"{text}, and recompute wins over swap in graph mode, too")
                                  if same else
                                  lost(entry.origin, f"{text}, and PyNative cannot swap the rest of it",
                                       "name the modules that shall be swapped one by one"))
                left -= here
        count = self.config.model.num_layers
        end = count + self.config.model.num_mtp_layers - self.prefetch_layers if count is not None else None
        if late := frozenset(layer for layer in left if end is not None and layer >= end):
            self.items.append(lost(entry.layers_origin, f"PyNative cannot swap {_words(late)}: with a prefetch of "
                                   f"{self.prefetch_layers} layer{'s' * (self.prefetch_layers > 1)} there is none "
                                   "behind that calls them back", "keep or recompute them"))
        left -= late
        if left:
            self.items.append(carried(entry.origin, f"swap of {f'{path!r} in ' if path else ''}{_words(left)}"))
        return left

    def _again(self, layers: LayerSelection) -> frozenset[int]:
        if isinstance(layers, LayerIndices):
            return frozenset(layers.indices)
        return frozenset(range((self.config.model.num_layers or 0) + self.config.model.num_mtp_layers))

    def _prefetch(self, swap: ListedSwap) -> None:
        entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap)
        given = list(dict.fromkeys(entry.prefetch for entry in entries))
        origin = entries[0].prefetch_origin
        after = f"default_prefetch {self.prefetch_layers} (layers)"
        if len(given) > 1:
            self.items.append(lost(origin, f"PyNative has one prefetch for everything; backward_prefetch "
                                   f"{', '.join(map(str, given))} (operators) become {after}",
                                   "choose it with --prefetch, in layers"))
        else:
            self.items.append(changed(origin, f"backward_prefetch {given[0]} (operators) becomes {after}; there is no "
                                      "rule that turns one into the other", "choose it with --prefetch, in layers"))

    def _path(self, pattern: str, origin: Origin) -> str | None:
        path = to_module_path(pattern)
        if path is None:
            self.items.append(lost(origin, f"'{pattern}' has no PyNative form that is known to match the same paths",
                                   "write it with names, `.*`, groups and alternatives only"))
            return None
        if path not in self.named:
            self.named.add(path)
            text = f"'{pattern}' is written as '{path}'" if path != pattern else f"'{pattern}' keeps its text"
            self.items.append(to_check(origin, f"{text}: an operator path of graph mode, and swapconf has no catalog "
                                       "of PyNative modules", "compare it with the modules of the PyNative model"))
        return path


def _recomputes(recompute: Recompute) -> bool:
    return recompute.full is not None or bool(recompute.select) or bool(recompute.select_comm)


def _words(layers: frozenset[int]) -> str:
    return f"layer{'s' * (len(layers) > 1)} {', '.join(spell(layers))}"
