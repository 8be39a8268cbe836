"""NETWORK + JUDGE -> MENU: the modes that are worth deciding between, each tried in all layers at once.

A mode judged on one layer is misleading: the copies of one layer always look free. What is not slower and holds no more
on any rank than another mode stays; of the rest nothing is lost, as a search starts from the best of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swapconf.models.network import COMMUNICATION, LayerTemplate, Network, Operator
from swapconf.plan.judge import Judge
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, uniform
from swapconf.whatif.evaluate import Evaluation

PREFETCHES = (1, 2, 5, 10, 20, 50, 100)
_DEPTH = 2  # of names: attention.wq
_WORTH = 0.002  # of what full recompute saves
_NOISE = 0.0001
_BEAM, _LONGEST = 10, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A mode in all layers."""

    mode: Mode
    found: Evaluation

    @property
    def used_bytes(self) -> tuple[int, ...]:
        return tuple(rank.used_peak_bytes for rank in self.found.ranks)


def menu(judge: Judge, most: int) -> list[Tried]:
    """Modes that no other is better than in everything, the fastest first. ``most``: how many may be asked for."""
    stop = judge.asked + most
    keep, full = _tried(judge, KEEP), _tried(judge, RECOMPUTED)
    prefetches = _prefetches(judge)
    tried = {KEEP: keep, RECOMPUTED: full}
    for atom in _atoms(judge.network, prefetches[:1]):
        if judge.asked >= stop:
            break
        tried[frozenset({atom})] = _tried(judge, frozenset({atom}))
    atoms = [atom for mode in tried for atom in mode if mode != RECOMPUTED and _is_worth(tried[mode], keep, full, atom)]
    for prefetch in prefetches[1:]:
        for atom in [atom for atom in atoms if atom.kind == "swap"]:
            other = frozenset({Atom("swap", atom.path, prefetch)})
            if judge.asked < stop:
                tried[other] = _tried(judge, other)
    grown: list[Tried] = front(tried.values())
    for _ in range(_LONGEST - 1):
        fresh = []
        for one in _spread([item for item in grown if item.mode != RECOMPUTED], _BEAM):
            for atom in atoms:
                mode = _joined(one.mode, atom)
                if mode is not None and mode not in tried and judge.asked < stop:
                    tried[mode] = _tried(judge, mode)
                    fresh.append(tried[mode])
        if not fresh:
            break
        grown = front([*grown, *fresh])
    return front(tried.values())


def front(tried: Iterable[Tried]) -> list[Tried]:
    """Those that no other is better than, or as good with fewer entries; what MindSpore dies of is not among them."""
    ordered = sorted(
        (item for item in tried if not item.found.crashes),
        key=lambda item: (item.found.step_us, sum(item.used_bytes), len(item.mode), sorted(item.mode)),
    )
    left: list[Tried] = []
    for item in ordered:  # a later one is slower than all that are left
        if not any(
            all(mine >= size * (1 - _NOISE) for mine, size in zip(item.used_bytes, other.used_bytes, strict=True))
            and len(other.mode) <= len(item.mode)
            for other in left
        ):
            left.append(item)
    return left


def _tried(judge: Judge, mode: Mode) -> Tried:
    return Tried(mode=mode, found=judge.evaluation(uniform(mode, judge.network)))


def _prefetches(judge: Judge) -> list[int]:
    """Those with which swapping whole layers is fastest, the best first; of equals the smallest."""
    tried = [(_tried(judge, frozenset({Atom("swap", "", prefetch)})).found, prefetch) for prefetch in PREFETCHES]
    timed = sorted((found.step_us, prefetch) for found, prefetch in tried if not found.crashes)
    return [prefetch for _, prefetch in timed[:2]] or [PREFETCHES[0]]


def _atoms(network: Network, prefetches: Sequence[int]) -> list[Atom]:
    """What can be asked of operators right below a layer, and one level deeper; flash attention wherever it is."""
    found: dict[Atom, None] = {Atom("swap", "", prefetch): None for prefetch in prefetches}
    for template in network.templates:
        for operator in template.operators:
            is_flash = operator.type == "FlashAttentionScore"
            if operator.path.count(".") >= _DEPTH and not is_flash:
                continue
            below = [operator] if operator.kind == "primitive" else _primitives(template, operator.path)
            if any(item.executed is not False for item in below):
                found[Atom("recompute", operator.path)] = None
                if any(item.saved is not False for item in below):
                    found.update({Atom("swap", operator.path, prefetch): None for prefetch in prefetches})
    return list(found)


def _primitives(template: LayerTemplate, path: str) -> list[Operator]:
    return [item for item in template.primitives if item.path.startswith(f"{path}.") and item.type not in COMMUNICATION]


def _is_worth(item: Tried, keep: Tried, full: Tried, atom: Atom) -> bool:
    """It saves something, or is a part of the layer that others may need to save something."""
    saved = max(
        (kept - size) / max(kept - least, 1)
        for kept, size, least in zip(keep.used_bytes, item.used_bytes, full.used_bytes, strict=True)
    )
    return not item.found.crashes and (saved > _WORTH or ("." not in atom.path and saved >= 0))


def _joined(mode: Mode, atom: Atom) -> Mode | None:
    """Both, where neither makes the other void: what is recomputed is not asked for again, inside or around it."""
    for other in mode:
        if other.path == atom.path:
            return None
        if other.kind == atom.kind == "recompute" and (
            _inside(other.path, atom.path) or _inside(atom.path, other.path)
        ):
            return None
        swap, again = (other, atom) if other.kind == "swap" else (atom, other)
        if swap.kind == "swap" and again.kind == "recompute" and _inside(swap.path, again.path):
            return None
    return mode | {atom}


def _inside(path: str, around: str) -> bool:
    return not around or path.startswith(f"{around}.")


def _spread(tried: Sequence[Tried], most: int) -> list[Tried]:
    """So many of them, at even distances."""
    if len(tried) <= most:
        return list(tried)
    return [tried[round(place * (len(tried) - 1) / (most - 1))] for place in range(most)]
