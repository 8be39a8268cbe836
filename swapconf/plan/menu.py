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
from swapconf.whatif.evaluation import Evaluation

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
    trial = _Trial(judge, judge.asked + most)
    keep, full = trial.of(KEEP), trial.of(RECOMPUTED)
    assert keep is not None
    assert full is not None
    prefetches = _prefetches(judge)
    atoms = []
    for atom in _atoms(judge.network, prefetches[:1]):
        found = trial.of(frozenset({atom}))
        if found is not None and _is_worth(found, keep, full, atom):
            atoms.append(atom)
    for prefetch in prefetches[1:]:
        for atom in atoms:
            if atom.kind == "swap":
                trial.of(frozenset({Atom("swap", atom.path, prefetch)}))
    grown = front(trial.tried.values())
    for _ in range(_LONGEST - 1):
        fresh = _grown(trial, [item.mode for item in grown if item.mode != RECOMPUTED], atoms)
        if not fresh:
            break
        grown = front([*grown, *fresh])
    return front(trial.tried.values())


class _Trial:
    """Modes that were tried, as long as plans may be asked for."""

    def __init__(self, judge: Judge, stop: int) -> None:
        self._judge, self._stop = judge, stop
        self.tried: dict[Mode, Tried] = {}

    def of(self, mode: Mode) -> Tried | None:
        """None where no more may be asked for."""
        if mode not in self.tried:
            if len(self.tried) > 1 and self._judge.asked >= self._stop:
                return None
            self.tried[mode] = _tried(self._judge, mode)
        return self.tried[mode]


def _grown(trial: _Trial, modes: Sequence[Mode], atoms: Sequence[Atom]) -> list[Tried]:
    """Some of the modes with one atom more each, as far as that was not tried."""
    found = []
    for mode in _spread(modes, _BEAM):
        for atom in atoms:
            larger = _joined(mode, atom)
            if larger is not None and larger not in trial.tried:
                tried = trial.of(larger)
                found += [tried] if tried is not None else []
    return found


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


def _spread(modes: Sequence[Mode], most: int) -> list[Mode]:
    """So many of them, at even distances."""
    if len(modes) <= most:
        return list(modes)
    return [modes[round(place * (len(modes) - 1) / (most - 1))] for place in range(most)]
