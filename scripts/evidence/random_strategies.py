r"""SEED + NETWORK -> STRATEGY: random sections ``swap_config`` and ``recompute_config`` for any family of the catalog.

Operator patterns are drawn from the templates of the network itself: cells, primitives, and regular expressions made of
them, as ``attention\.w.`` or ``.*norm``. Most strategies cover much of the model, so that the peak of memory moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from swapconf.decide.patterns import SEPARATOR, escaped
from swapconf.models.network import Network

PREFETCHES = (1, 1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000)
KINDS = {
    "default": 1,
    "layer": 12,
    "op": 6,
    "layer op": 10,
    "full": 9,
    "select": 4,
    "full select": 6,
    "layer full": 10,
    "layer select": 9,
    "op full": 8,
    "op select": 6,
    "layer op full select": 10,
}


@dataclass(frozen=True, kw_only=True)
class Drawing:
    rng: Random
    network: Network
    num_stages: int
    num_interleaves: int

    @property
    def num_layers(self) -> int:
        return self.network.num_layers


def strategy(rng: Random, network: Network, num_stages: int, num_interleaves: int) -> tuple[str, dict[str, Any]]:
    """(kind, dotted key -> value)."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    drawing = Drawing(rng=rng, network=network, num_stages=num_stages, num_interleaves=num_interleaves)
    parts = kind.split()
    swaps = bool({"default", "layer", "op"} & set(parts))
    return kind, {
        "swap_config": _swap(drawing, parts) if swaps else {"swap": False},
        **{f"recompute_config.{key}": value for key, value in _recompute(drawing, parts, swaps).items()},
    }


def _swap(drawing: Drawing, parts: list[str]) -> dict[str, Any]:
    rng = drawing.rng
    section: dict[str, Any] = {"swap": True}
    if "default" in parts:
        return {**section, "default_prefetch": rng.choice(PREFETCHES)}
    if "layer" in parts:
        section["layer_swap"] = [
            {"backward_prefetch": rng.choice(PREFETCHES), "layers": _layers(drawing, 0.75)}
            for _ in range(rng.choice([1, 1, 1, 2]))
        ]
        if len(section["layer_swap"]) > 1:  # mindformers refuses a list beside `True` with another prefetch
            for entry in section["layer_swap"]:
                entry["layers"] = _indices(drawing, 0.5)
    if "op" in parts:
        names = dict.fromkeys(_pattern(drawing, 0.8) for _ in range(rng.choice([1, 2, 2, 3, 4])))
        section["op_swap"] = [
            {"op_name": name, "backward_prefetch": rng.choice(PREFETCHES), "layers": _layers(drawing, 0.75)}
            for name in names
        ]
    return section


def _recompute(drawing: Drawing, parts: list[str], swaps: bool) -> dict[str, Any]:
    """With swap on, lists are indices of layers; without it, counts for each stage."""
    rng, section = drawing.rng, dict[str, Any]()
    if "full" in parts:
        section["recompute"] = _indices(drawing, 0.5) if swaps else rng.choice([True, _counts(drawing)])
    if "select" in parts:
        section["select_recompute"] = _selection(drawing, rng.choice([1, 1, 2, 3]), swaps, 0.8)
    if "select" in parts and rng.random() < 0.3:
        section["select_comm_recompute"] = _selection(drawing, 1, swaps, 0.0)
    recomputes = not {"select", "full"}.isdisjoint(parts)
    if recomputes and rng.random() < 0.25:
        section["select_recompute_exclude"] = _selection(drawing, rng.choice([1, 2]), swaps, 0.0)
    if recomputes and rng.random() < 0.2:
        section["mp_comm_recompute"] = False
    return section


def _selection(drawing: Drawing, count: int, swaps: bool, of_cells: float) -> dict[str, Any]:
    return {
        _pattern(drawing, of_cells): _layers(drawing, 0.7)
        if swaps
        else drawing.rng.choice([True, _counts(drawing, nested=False)])
        for _ in range(count)
    }


def _layers(drawing: Drawing, share: float) -> Any:
    return True if drawing.rng.random() < 0.45 else _indices(drawing, share)


def _indices(drawing: Drawing, share: float) -> list[int]:
    found = [layer for layer in range(drawing.num_layers) if drawing.rng.random() < share]
    return found or [drawing.rng.randrange(drawing.num_layers)]


def _counts(drawing: Drawing, nested: bool = True) -> list[Any]:
    rng, most = drawing.rng, max(drawing.num_layers // drawing.num_stages, 1)
    if nested and drawing.num_interleaves > 1 and rng.random() < 0.5:
        return [
            [rng.randint(0, max(most // 2, 1)) for _ in range(drawing.num_stages)]
            for _ in range(drawing.num_interleaves)
        ]
    return [rng.randint(max(most // 2, 1), most) for _ in range(drawing.num_stages)]


def _pattern(drawing: Drawing, of_cells: float) -> str:
    rng = drawing.rng
    template = rng.choice(drawing.network.templates)
    if rng.random() < of_cells:
        cells = [
            operator.path
            for operator in template.operators
            if operator.kind == "cell"
            and any(below.executed for below in template.primitives if below.path.startswith(f"{operator.path}."))
        ]
        highest = [path for path in cells if path.count(".") == min(map(len, (c.split(".") for c in cells))) - 1]
        path = rng.choice(highest if rng.random() < 0.7 else cells)
    else:
        path = rng.choice(
            [operator.path for operator in template.primitives if operator.executed is not False or rng.random() < 0.1]
        )
    return escaped(path) if rng.random() < 0.7 else _loosened(rng, path)


def _loosened(rng: Random, path: str) -> str:
    """The same with one name as a regular expression."""
    names = path.split(".")
    place = rng.randrange(len(names))
    name, cut = names[place], rng.randint(1, max(len(names[place]) - 1, 1))
    names[place] = rng.choice([".*" + name[-cut:], name[:cut] + ".*", name[:-1] + ".", f"({name}|none)"])
    return SEPARATOR.join(names)
