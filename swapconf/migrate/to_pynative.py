"""GRAPH CONFIG -> PYNATIVE CONFIG, and what became of each thing in it.

Where both dialects can say the same, the result says it; the source of every difference: docs/reference/dialects.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from swapconf.config.config import (
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
    RecomputeConfig,
    SelectRecompute,
    Swap,
    SwapOff,
)
from swapconf.decide.module_paths import inside, literal, meet
from swapconf.decide.requests import stage_map
from swapconf.decide.stages import BadDeal
from swapconf.migrate.pattern_forms import to_module_path
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
from swapconf.upstream.versions import EXCLUDE_BY_PATH, PYNATIVE, reached
from swapconf.words.findings import Origin
from swapconf.words.phrases import mark, phrase, plural


def to_pynative(
    config: Config, prefetch_layers: int = 1, mindformers: str = PYNATIVE, *, is_whole: bool = False
) -> tuple[Config, tuple[Item, ...]]:
    """The config in PyNative's form; ``prefetch_layers`` is its one prefetch for everything that is swapped.

    ``mindformers``: the version that shall read it; one before PyNative stands for the first with it. ``is_whole``: the
    rest of the YAML is written in that form, too.
    """
    work = _Work(config, prefetch_layers, excludes_paths=reached(mindformers, EXCLUDE_BY_PATH))
    recompute = work.recompute()
    swap = work.swap(recompute)
    made = replace(config, dialect=Dialect.PYNATIVE, swap=swap, recompute=recompute, origins={})
    if not is_whole:
        work.items += rest_stays(
            made,
            phrase(
                "only swap and recompute are rewritten; PyNative training reads `training`, `parallelism` and a "
                "flat `model` instead of `runner_config`, `parallel_config` and `model_config`"
            ),
            phrase("--whole writes the rest of the YAML in that form, too"),
        )
    return made, tuple(work.items)


@dataclass(slots=True)
class _Work:
    config: Config
    prefetch_layers: int
    excludes_paths: bool
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
                self.items.append(
                    changed(
                        origin,
                        phrase("layer {layers} does not exist and is left out", layers=", ".join(map(str, wrong))),
                    )
                )
        elif count is None:
            self.items.append(
                lost(
                    origin,
                    phrase("PyNative lists layers, and the YAML does not say how many there are"),
                    phrase("give num_layers in the model section"),
                )
            )
            return frozenset()
        else:
            try:
                real = set(stage_map(self.config, count).selected(layers))
            except BadDeal as error:
                self.items.append(
                    lost(
                        origin,
                        phrase("the counts do not fit the stages: {why}", why=error),
                        phrase("correct the list first"),
                    )
                )
                return frozenset()
        follow = range(count, count + extra) if count is not None and count - 1 in real else ()
        return frozenset(real | set(follow))

    def selection(self, layers: frozenset[int]) -> LayerSelection:
        count = self.config.model.num_layers
        whole = count is not None and layers == frozenset(range(count + self.config.model.num_mtp_layers))
        return EveryLayer() if whole and layers else LayerIndices(tuple(sorted(layers)))

    # --- recompute --------------------------------------------------------------------------------------------------

    def recompute(self) -> RecomputeConfig:
        asked = self.config.recompute
        whole = self.layers(asked.full.layers, asked.full.origin) if asked.full is not None else frozenset()
        if whole and asked.full is not None:
            self.items.append(recomputed(asked.full.origin, whole))
        self._not_carried()
        select = tuple(self._modules(asked.select, whole, RECOMPUTED))
        return RecomputeConfig(
            full=FullRecompute(layers=self.selection(whole), origin=asked.full.origin)
            if whole and asked.full is not None
            else None,
            select=select,
            select_comm=tuple(
                self._modules(asked.select_comm, whole, mark("recompute of communication of '{path}' in {layers}"))
            ),
            select_exclude=tuple(self._excluded()) if whole or select else (),
        )

    def _modules(
        self, entries: tuple[SelectRecompute, ...], whole: frozenset[int], what: str
    ) -> Iterator[SelectRecompute]:
        merged: dict[str, tuple[frozenset[int], Origin]] = {}
        for entry in entries:
            path = self._path(entry.pattern, entry.origin)
            layers = self.layers(entry.layers, entry.origin) - whole  # a layer that is recomputed covers its modules
            if path is None or not layers:
                continue
            before, origin = merged.get(path, (frozenset(), entry.origin))
            merged[path] = before | layers, origin
            if entry.builtin:
                self.items.append(
                    changed(
                        entry.origin, phrase("the built-in pattern '{pattern}' is written out", pattern=entry.pattern)
                    )
                )
            self.items.append(carried(entry.origin, phrase(what, path=path, layers=in_words(layers))))
        for path, (layers, origin) in merged.items():
            yield SelectRecompute(pattern=path, layers=self.selection(layers), origin=origin)

    def _excluded(self) -> Iterator[SelectRecompute]:
        given = self.config.recompute.select_exclude if self.excludes_paths else ()
        yield from self._modules(given, frozenset(), NOT_RECOMPUTED)
        if given:
            self.items.append(cells_are_excluded(given[0].origin, phrase("leave out cells that do nothing")))

    def _not_carried(self) -> None:
        recompute, origin = self.config.recompute, self.config.origin
        for entry in recompute.select_exclude if not self.excludes_paths else ():
            self.items.append(
                lost(
                    entry.origin,
                    phrase("PyNative has no exclusion by path ('{pattern}')", pattern=entry.pattern),
                    phrase(
                        "name the modules to recompute one by one, or keep operators by type in "
                        "`exclude_op`; mindformers {version} takes paths there "
                        "(--mindformers-version)",
                        version=EXCLUDE_BY_PATH,
                    ),
                )
            )
        for entry in recompute.select_comm_exclude:
            self.items.append(
                lost(
                    entry.origin,
                    phrase(
                        "PyNative has no exclusion by path ('{pattern}') from communication recompute",
                        pattern=entry.pattern,
                    ),
                    phrase("name the communication to recompute operator by operator"),
                )
            )
        switches = (
            (
                "mp_comm_recompute",
                recompute.mp_comm_recompute,
                True,
                phrase(
                    "nothing to do: mindformers drops it in graph mode, too; to have it, name the collectives in "
                    "`exclude_op`, by path"
                )
                if self.excludes_paths
                else phrase(
                    "nothing to do: mindformers drops it in graph mode, too; to have it, list the collectives in "
                    "`exclude_op`, such as ['AllGather', 'ReduceScatter', 'AllReduce']"
                ),
            ),
            (
                "recompute_slice_activation",
                recompute.recompute_slice_activation,
                False,
                phrase("nothing does this there"),
            ),
            (
                "parallel_optimizer_comm_recompute",
                recompute.parallel_optimizer_comm_recompute,
                False,
                phrase("see `parallelism.reshard_after_forward_policy`"),
            ),
        )
        for key, value, default, remedy in switches:
            if value != default and _recomputes(recompute):
                self.items.append(
                    lost(
                        origin(f"recompute_config.{key}"),
                        phrase("{key}: {value} has no PyNative form", key=key, value=value),
                        remedy,
                    )
                )

    # --- swap -------------------------------------------------------------------------------------------------------

    def swap(self, recompute: RecomputeConfig) -> Swap:
        swap = self.config.swap
        if isinstance(swap, SwapOff):
            return swap
        if self.config.pipeline.num_stages > 1:
            self.items.append(
                lost(
                    self.config.origin("swap_config.swap"),
                    phrase(
                        "PyNative refuses swap with {stages} pipeline stages", stages=self.config.pipeline.num_stages
                    ),
                    phrase("use recompute there"),
                )
            )
            return SwapOff()
        if isinstance(swap, DefaultSwap):
            self.items.append(
                lost(
                    swap.origin,
                    phrase("PyNative has no default strategy"),
                    phrase(
                        "list the attention module in op_swap; mindformers 2.0.0 calls it self_attention.core_attention"
                    ),
                )
            )
            return SwapOff()
        listed = self._listed(swap, recompute)
        if not listed.layer_swap and not listed.op_swap:
            return SwapOff()
        self._prefetch(swap)
        return listed

    def _listed(self, swap: ListedSwap, recompute: RecomputeConfig) -> ListedSwap:
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
        made = tuple(
            replace(op, pattern=path, layers=self.selection(layers), prefetch=self.prefetch_layers)
            for path, (layers, op) in modules.items()
            if layers
        )
        one = (replace(first, layers=self.selection(whole), prefetch=self.prefetch_layers),) if first and whole else ()
        return ListedSwap(layer_swap=one, op_swap=made, given_entries=len(one) + len(made))

    def _free(
        self, path: str, layers: frozenset[int], recompute: RecomputeConfig, entry: LayerSwap | OpSwap
    ) -> frozenset[int]:
        """The layers in which PyNative can swap this: not recomputed, and with a layer that calls them back."""
        full = self._again(recompute.full.layers) if recompute.full else frozenset()
        if taken := layers & full:
            self.items.append(
                changed(
                    entry.origin,
                    phrase(
                        "{layers} left out: recomputed as a whole, and recompute wins over swap in graph mode, too "
                        "(but for operators that the model never recomputes)",
                        layers=in_words(taken),
                    ),
                )
            )
        left = layers - full
        for other in recompute.select:
            here = left & self._again(other.layers)
            if here and path and literal(path) is None and literal(other.pattern) is None and path != other.pattern:
                self.items.append(
                    to_check(
                        entry.origin,
                        phrase(
                            "'{path}' and the recomputed '{other}' may match the same modules in {layers}, which "
                            "PyNative does not allow",
                            path=path,
                            other=other.pattern,
                            layers=in_words(here),
                        ),
                    )
                )
            elif here and (not path or meet(path, other.pattern)):
                self.items.append(_left_out(entry.origin, path, other.pattern, here))
                left -= here
        count = self.config.model.num_layers
        end = count + self.config.model.num_mtp_layers - self.prefetch_layers if count is not None else None
        if late := frozenset(layer for layer in left if end is not None and layer >= end):
            self.items.append(
                lost(
                    entry.layers_origin,
                    plural(
                        self.prefetch_layers,
                        "PyNative cannot swap {layers}: with a prefetch of {count} layer there is none behind that "
                        "calls them back",
                        "PyNative cannot swap {layers}: with a prefetch of {count} layers there is none behind that "
                        "calls them back",
                        layers=in_words(late),
                    ),
                    phrase("keep or recompute them"),
                )
            )
        left -= late
        if left:
            self.items.append(swapped(entry.origin, left, path))
        return left

    def _again(self, layers: LayerSelection) -> frozenset[int]:
        if isinstance(layers, LayerIndices):
            return frozenset(layers.indices)
        return frozenset(range((self.config.model.num_layers or 0) + self.config.model.num_mtp_layers))

    def _prefetch(self, swap: ListedSwap) -> None:
        entries: tuple[LayerSwap | OpSwap, ...] = (*swap.layer_swap, *swap.op_swap)
        given = list(dict.fromkeys(entry.prefetch for entry in entries))
        origin = entries[0].prefetch_origin
        remedy = phrase("choose it with --prefetch, in layers")
        if len(given) > 1:
            self.items.append(
                lost(
                    origin,
                    phrase(
                        "PyNative has one prefetch for everything; backward_prefetch {operators} (operators) become "
                        "default_prefetch {layers} (layers)",
                        operators=", ".join(map(str, given)),
                        layers=self.prefetch_layers,
                    ),
                    remedy,
                )
            )
        else:
            self.items.append(
                changed(
                    origin,
                    phrase(
                        "backward_prefetch {operators} (operators) becomes default_prefetch {layers} (layers); there "
                        "is no rule that turns one into the other",
                        operators=given[0],
                        layers=self.prefetch_layers,
                    ),
                    remedy,
                )
            )

    def _path(self, pattern: str, origin: Origin) -> str | None:
        path = to_module_path(pattern)
        if path is None:
            self.items.append(
                lost(
                    origin,
                    phrase("'{pattern}' has no PyNative form that is known to match the same paths", pattern=pattern),
                    phrase("write it with names, `.*`, groups and alternatives only"),
                )
            )
            return None
        if path not in self.named:
            self.named.add(path)
            text = (
                phrase(
                    "'{old}' is written as '{new}': an operator path of graph mode, and swapconf has no catalog "
                    "of PyNative modules",
                    old=pattern,
                    new=path,
                )
                if path != pattern
                else phrase(
                    "'{pattern}' keeps its text: an operator path of graph mode, and swapconf has no catalog of "
                    "PyNative modules",
                    pattern=pattern,
                )
            )
            self.items.append(to_check(origin, text, phrase("compare it with the modules of the PyNative model")))
        return path


def _left_out(origin: Origin, path: str, recomputed: str, layers: frozenset[int]) -> Item:
    if path == recomputed or inside(path, recomputed):
        return changed(
            origin,
            phrase(
                "{layers} left out: '{path}' is recomputed there, and recompute wins over swap in graph mode, too",
                layers=in_words(layers),
                path=recomputed,
            ),
        )
    return lost(
        origin,
        phrase(
            "{layers} left out: '{path}' is recomputed there, and PyNative cannot swap the rest of it",
            layers=in_words(layers),
            path=recomputed,
        ),
        phrase("name the modules that shall be swapped one by one"),
    )


def _recomputes(recompute: RecomputeConfig) -> bool:
    return recompute.full is not None or bool(recompute.select) or bool(recompute.select_comm)
