"""NATIVE PLAN -> CONFIG: what a PyNative plan says of each layer, and the sections of a YAML that ask for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from swapconf.config.config import (
    Config,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    SelectRecompute,
    Swap,
    SwapOff,
)
from swapconf.decide.module_outcomes import is_inside
from swapconf.words.findings import Origin

_PLANNED = Origin(file="<plan>")
_WHOLE = ""  # the path of a layer itself


@dataclass(frozen=True, slots=True)
class NativeMode:
    """What becomes of a layer. ``again``: paths of its modules that run once more, "" for the whole layer; none of them
    lies in another. A swapped layer has none."""

    again: frozenset[str] = frozenset()
    is_swapped: bool = False

    def within(self, paths: frozenset[str]) -> NativeMode:
        """The same in a layer that has these modules."""
        return NativeMode(self.again & (paths | {_WHOLE}), self.is_swapped)

    def joined(self, path: str) -> NativeMode | None:
        """With one more module; None where that lies in one of these, or is one."""
        if any(path == other or is_inside(path, other) for other in self.again):
            return None
        return NativeMode(frozenset({path, *(other for other in self.again if not is_inside(other, path))}))


KEEP = NativeMode()
FULL = NativeMode(frozenset({_WHOLE}))
SWAP = NativeMode(is_swapped=True)


@dataclass(frozen=True, order=True, slots=True)
class NativeEntry:
    """One entry of the YAML: the swap of layers, or the recompute of one module; ``path``: "" for whole layers."""

    is_swap: bool
    path: str
    layers: tuple[int, ...]


@dataclass(frozen=True)
class NativePlan:
    """``modes``: by layer. ``prefetch``: of all swaps, in layers."""

    modes: tuple[NativeMode, ...]
    prefetch: int = 1

    @cached_property
    def entries(self) -> tuple[NativeEntry, ...]:
        """What the YAML has to say: recompute, whole layers first, then the swap."""
        paths = sorted({path for mode in self.modes for path in mode.again})
        found = [NativeEntry(False, path, self._layers(path)) for path in paths]
        swapped = tuple(index for index, mode in enumerate(self.modes) if mode.is_swapped)
        return (*found, NativeEntry(True, _WHOLE, swapped)) if swapped else tuple(found)

    def _layers(self, path: str) -> tuple[int, ...]:
        return tuple(index for index, mode in enumerate(self.modes) if path in mode.again)

    def without(self, entry: NativeEntry) -> NativePlan:
        """The same, with one entry less."""
        modes = tuple(
            NativeMode(mode.again - {entry.path}, mode.is_swapped)
            if not entry.is_swap
            else replace(mode, is_swapped=False)
            for mode in self.modes
        )
        return replace(self, modes=modes)

    def keeping(self, layers: Collection[int]) -> NativePlan:
        """The same, but for these layers, which are kept."""
        return replace(self, modes=tuple(KEEP if index in layers else mode for index, mode in enumerate(self.modes)))


def config_of(plan: NativePlan, base: Config) -> Config:
    """``base`` with swap and recompute as planned. Its recompute of communication stays; what it keeps from recompute
    goes, as it would keep parts of what the plan counts on."""
    full: FullRecompute | None = None
    select: list[SelectRecompute] = []
    swap: Swap = SwapOff()
    for entry in plan.entries:
        layers = _selection(entry.layers, len(plan.modes))
        if entry.is_swap:
            places = {"origin": _PLANNED, "layers_origin": _PLANNED, "prefetch_origin": _PLANNED}
            swap = ListedSwap(layer_swap=(LayerSwap(layers=layers, prefetch=plan.prefetch, **places),), given_entries=1)
        elif entry.path == _WHOLE:
            full = FullRecompute(layers=layers, origin=_PLANNED)
        else:
            select.append(SelectRecompute(pattern=entry.path, layers=layers, origin=_PLANNED))
    recompute = replace(base.recompute, full=full, select=tuple(select), select_exclude=(), kept_ops=())
    return replace(base, swap=swap, recompute=recompute)


def _selection(layers: Iterable[int], count: int) -> LayerSelection:
    """As the YAML is read."""
    found = tuple(layers)
    return EveryLayer() if len(found) == count else LayerIndices(found)
