"""CONFIG -> TEXT: the sections swap_config and recompute_config as YAML that means the same again."""

from __future__ import annotations

from typing import Any

import yaml

from swapconf.config import (
    Config,
    DefaultSwap,
    EveryLayer,
    LayerCounts,
    LayerIndices,
    LayerSelection,
    ListedSwap,
    Recompute,
    SelectRecompute,
)


def format_config(config: Config) -> str:
    """YAML text of the two sections. Reading it gives an equal swap and recompute, places aside."""
    sections = {"swap_config": _swap(config), "recompute_config": _recompute(config.recompute)}
    return yaml.safe_dump(sections, sort_keys=False, default_flow_style=None, width=110)


def _swap(config: Config) -> dict[str, Any]:
    swap = config.swap
    if isinstance(swap, DefaultSwap):
        return {"swap": True, "default_prefetch": swap.prefetch}
    if isinstance(swap, ListedSwap):
        section: dict[str, Any] = {"swap": True}
        if swap.layer_swap or not swap.op_swap:
            section["layer_swap"] = [{"backward_prefetch": entry.prefetch, "layers": _selection(entry.layers)}
                                     for entry in swap.layer_swap]
        if swap.op_swap:
            section["op_swap"] = [{"op_name": entry.pattern, "backward_prefetch": entry.prefetch,
                                   "layers": _selection(entry.layers)} for entry in swap.op_swap]
        return section
    return {"swap": False}


def _recompute(recompute: Recompute) -> dict[str, Any]:
    return {
        "recompute": _selection(recompute.full.layers) if recompute.full else False,
        "select_recompute": _named(recompute.select),
        "select_comm_recompute": _named(recompute.select_comm),
        "select_recompute_exclude": _named(recompute.select_exclude),
        "select_comm_recompute_exclude": _named(recompute.select_comm_exclude),
        "mp_comm_recompute": recompute.mp_comm_recompute,
        "recompute_slice_activation": recompute.recompute_slice_activation,
        "parallel_optimizer_comm_recompute": recompute.parallel_optimizer_comm_recompute,
    }


def _named(entries: tuple[SelectRecompute, ...]) -> Any:
    if not entries:
        return False
    if all(entry.builtin for entry in entries):
        return _selection(entries[0].layers)
    return {entry.pattern: _selection(entry.layers) for entry in entries}


def _selection(layers: LayerSelection) -> Any:
    if isinstance(layers, EveryLayer):
        return True
    if isinstance(layers, LayerIndices):
        return list(layers.indices)
    return _counts(layers)


def _counts(layers: LayerCounts) -> list[Any]:
    rows = [[True if count is None else count for count in row] for row in layers.counts]
    return rows if layers.per_interleave else rows[0]
