"""OUTCOMES -> TEXT: the lines that a PyNative run logs for a layer: `Set` as mindformers words them, then `Skip`.

mindformers writes the former itself, when it has put its cells around what they name; swapconf adds the latter. Source:
mindformers 2.0.0 and 2.1.0, pynative/distributed/activation_checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.decide.module_outcomes import in_order
from swapconf.decide.strategy import ModuleOutcome, RequestKind

_SET: tuple[tuple[RequestKind, str], ...] = (
    ("select_recompute_exclude", "exclude recompute"),
    ("recompute", "full recompute"),
    ("select_recompute", "select recompute"),
    ("select_comm_recompute", "select comm recompute"),
    ("layer_swap", "layer swap"),
    ("op_swap", "select swap"),
)
_SKIP = {"recompute": "full recompute", "select_recompute_exclude": "exclude recompute", "op_swap": "op_swap"}


def lines(layer: int, outcomes: Sequence[ModuleOutcome]) -> tuple[str, ...]:
    """All of a layer, without the logger's prefix."""
    return (*set_lines(layer, outcomes), *skip_lines(layer, outcomes))


def set_lines(layer: int, outcomes: Sequence[ModuleOutcome]) -> Iterator[str]:
    for kind, words in _SET:
        paths = in_order(path for one in outcomes if one.kind == kind and one.effect != "nothing" for path in one.paths)
        if paths:
            named = ", ".join(filter(None, paths))
            yield f"Set {words} at layer {layer}" + (f": {named}" if named else "")


def skip_lines(layer: int, outcomes: Sequence[ModuleOutcome]) -> Iterator[str]:
    for one in outcomes:
        if one.effect == "nothing":
            words = _SKIP.get(one.kind, one.kind.replace("_", " "))
            named = ", ".join(filter(None, one.paths)) or one.module
            what = f"{named}, " if named else ""
            yield f"Skip {words} at layer {layer}: {what}{one.reason.text} [{one.reason.rule}]"
