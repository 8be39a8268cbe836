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
    OpSwap,
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
    """What becomes of a layer. ``again``: paths of its modules that run once more; ``moved``: of those that are
    swapped; "" for the whole layer. None of them lies in another, and a layer has either."""

    again: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()

    @property
    def is_swapped(self) -> bool:
        return bool(self.moved)

    def within(self, paths: frozenset[str]) -> NativeMode:
        """The same in a layer that has these modules."""
        return NativeMode(self.again & (paths | {_WHOLE}), self.moved & (paths | {_WHOLE}))

    def joined(self, path: str) -> NativeMode | None:
        """With one more module; None where that lies in one of these, or is one."""
        if any(path == other or is_inside(path, other) for other in self.again):
            return None
        return NativeMode(frozenset({path, *(other for other in self.again if not is_inside(other, path))}))


KEEP = NativeMode()
FULL = NativeMode(frozenset({_WHOLE}))
SWAP = NativeMode(moved=frozenset({_WHOLE}))


@dataclass(frozen=True, order=True, slots=True)
class NativeEntry:
    """One entry of the YAML: the swap or the recompute of one module; ``path``: "" for whole layers."""

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
        layers: dict[tuple[bool, str], list[int]] = {}
        for index, mode in enumerate(self.modes):
            for is_swap, paths in ((False, mode.again), (True, mode.moved)):
                for path in paths:
                    layers.setdefault((is_swap, path), []).append(index)
        return tuple(NativeEntry(*key, tuple(found)) for key, found in sorted(layers.items()))

    def without(self, entry: NativeEntry) -> NativePlan:
        """The same, with one entry less."""
        less = {entry.path}
        modes = (
            NativeMode(mode.again, mode.moved - less) if entry.is_swap else NativeMode(mode.again - less, mode.moved)
            for mode in self.modes
        )
        return replace(self, modes=tuple(modes))

    def keeping(self, layers: Collection[int]) -> NativePlan:
        """The same, but for these layers, which are kept."""
        return replace(self, modes=tuple(KEEP if index in layers else mode for index, mode in enumerate(self.modes)))


def config_of(plan: NativePlan, base: Config) -> Config:
    """``base`` with swap and recompute as planned. Its recompute of communication stays; what it keeps from recompute
    goes, as it would keep parts of what the plan counts on."""
    full: FullRecompute | None = None
    select: list[SelectRecompute] = []
    whole: list[LayerSwap] = []
    single: list[OpSwap] = []
    places = {"origin": _PLANNED, "layers_origin": _PLANNED, "prefetch_origin": _PLANNED}
    for entry in plan.entries:
        layers = _selection(entry.layers, len(plan.modes))
        if entry.is_swap and entry.path == _WHOLE:
            whole.append(LayerSwap(layers=layers, prefetch=plan.prefetch, **places))
        elif entry.is_swap:
            single.append(OpSwap(pattern=entry.path, layers=layers, prefetch=plan.prefetch, **places))
        elif entry.path == _WHOLE:
            full = FullRecompute(layers=layers, origin=_PLANNED)
        else:
            select.append(SelectRecompute(pattern=entry.path, layers=layers, origin=_PLANNED))
    swap: Swap = SwapOff()
    if whole or single:
        swap = ListedSwap(layer_swap=tuple(whole), op_swap=tuple(single), given_entries=len(whole) + len(single))
    recompute = replace(base.recompute, full=full, select=tuple(select), select_exclude=(), kept_ops=())
    return replace(base, swap=swap, recompute=recompute)


def _selection(layers: Iterable[int], count: int) -> LayerSelection:
    """As the YAML is read."""
    found = tuple(layers)
    return EveryLayer() if len(found) == count else LayerIndices(found)
