"""CONFIG -> TEXT: the sections for swap and recompute as YAML that means the same again, in each dialect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, TypeAlias

import yaml

from swapconf.config import layer_ranges
from swapconf.config.config import (
    Config,
    DefaultSwap,
    Dialect,
    EveryLayer,
    LayerCounts,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    SwapOff,
)

Sections: TypeAlias = "dict[str, dict[str, Any]]"  # name of a section -> what stands in it


def format_config(config: Config) -> str:
    """YAML text of the sections. Reading it gives an equal swap and recompute, places aside."""
    sections = {**swap_section(config), **recompute_sections(config)}
    if config.dialect is Dialect.MCORE:
        inner = sections.pop("swap_config")
        return dump({"use_legacy": False, "model": {"model_config": inner}, **sections})
    return dump(sections)


def dump(sections: dict[str, Any]) -> str:
    """YAML as mindformers writes it: a line for each key, in order, True and False, lists of numbers in one line."""
    return str(yaml.dump(sections, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=110))


def dump_inline(value: Any) -> str:
    """A value as it stands inside of braces, on one line."""
    text = yaml.dump(value, Dumper=_InlineDumper, sort_keys=False, default_flow_style=True, width=2**31)
    return str(text).removesuffix("\n").removesuffix("\n...")


def swap_section(config: Config) -> Sections:
    """The section that swaps, by its name at the top level (mcore models take its content in model_config)."""
    if config.dialect is Dialect.PYNATIVE:
        return {"swap": _pynative_swap(config)}
    return {"swap_config": _swap(config)}


def recompute_sections(config: Config) -> Sections:
    """The section that recomputes, by its name at the top level; PyNative has another one for communication."""
    if config.dialect is Dialect.PYNATIVE:
        comm = config.recompute.select_comm
        return {
            "recompute": _pynative_recompute(config),
            **({"recompute_comm": {"enable": True, "select_module": _modules(config, comm)}} if comm else {}),
        }
    return {"recompute_config": _recompute(config.recompute)}


class _Quoted(str):
    """Text that is quoted, though YAML would not ask for it: '0-3' looks like a subtraction."""


class _Dumper(yaml.SafeDumper):
    """Lists are indented below their key; two entries with equal lists are written out, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    plain = not any(isinstance(item, dict) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=plain)


class _InlineDumper(_Dumper):
    """No list is on lines of its own."""


_Dumper.add_representer(list, _list)
_Dumper.add_representer(
    _Quoted, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style="'")
)
_Dumper.add_representer(bool, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:bool", str(value)))
_InlineDumper.add_representer(list, yaml.SafeDumper.represent_list)


def _swap(config: Config) -> dict[str, Any]:
    swap = config.swap
    if isinstance(swap, DefaultSwap):
        return {"swap": True, "default_prefetch": swap.prefetch}
    if isinstance(swap, ListedSwap):
        section: dict[str, Any] = {"swap": True}
        if swap.layer_swap or not swap.op_swap:
            section["layer_swap"] = [
                {"backward_prefetch": entry.prefetch, "layers": _selection(entry.layers)} for entry in swap.layer_swap
            ]
        if swap.op_swap:
            section["op_swap"] = [
                {"op_name": names, "backward_prefetch": prefetch, "layers": _selection(layers)}
                for names, prefetch, layers in _entries(swap.op_swap)
            ]
        return section
    return {"swap": False}


def _entries(op_swap: tuple[OpSwap, ...]) -> Iterator[tuple[str | list[str], int, LayerSelection]]:
    """Names that follow each other with one prefetch in the same layers stand in one entry."""
    for (prefetch, layers), group in groupby(op_swap, key=lambda entry: (entry.prefetch, entry.layers)):
        names = [entry.pattern for entry in group]
        yield names if names[1:] else names[0], prefetch, layers


def _recompute(recompute: RecomputeConfig) -> dict[str, Any]:
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


# --- PyNative -----------------------------------------------------------------------------------------------------


def _pynative_swap(config: Config) -> dict[str, Any]:
    swap = config.swap
    if isinstance(swap, SwapOff):
        return {"enable": False}
    assert isinstance(swap, ListedSwap), "PyNative has no default strategy"
    section: dict[str, Any] = {"enable": True}
    if swap.layer_swap or swap.op_swap:
        first: LayerSwap | OpSwap = swap.layer_swap[0] if swap.layer_swap else swap.op_swap[0]
        section["default_prefetch"] = first.prefetch
    if swap.layer_swap:
        section["layer_swap"] = [{"layers": _ranges(config, swap.layer_swap[0].layers)}]
    if swap.op_swap:
        section["op_swap"] = [
            {"op_name": entry.pattern, "layers": _ranges(config, entry.layers)} for entry in swap.op_swap
        ]
    return section


def _pynative_recompute(config: Config) -> dict[str, Any]:
    recompute = config.recompute
    mode = "select" if recompute.select else "full" if recompute.full else "None"
    section: dict[str, Any] = {"mode": mode}
    if recompute.full:
        section["full_recompute_layer"] = _ranges(config, recompute.full.layers)
    if recompute.select:
        section["select_module"] = _modules(config, recompute.select)
    if recompute.kept_ops:
        section["exclude_op"] = list(recompute.kept_ops)
    elif recompute.select_exclude:
        section["exclude_op"] = _modules(config, recompute.select_exclude)
    return section


def _modules(config: Config, entries: tuple[SelectRecompute, ...]) -> dict[str, Any]:
    return {entry.pattern: _ranges(config, entry.layers) for entry in entries}


def _ranges(config: Config, layers: LayerSelection) -> list[_Quoted]:
    """PyNative lists layers; every one of them needs their number, and counts per stage have no form there."""
    if isinstance(layers, EveryLayer):
        assert config.num_named_layers is not None, "the number of layers is not known"
        return list(map(_Quoted, layer_ranges.spell(range(config.num_named_layers))))
    assert isinstance(layers, LayerIndices), "PyNative takes no counts per stage"
    return list(map(_Quoted, layer_ranges.spell(layers.indices)))
