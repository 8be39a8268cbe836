"""OPERATORS + LAYERS -> WORDS: as findings about a dry run name them; and the operators that a kernel can belong to."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from swapconf.models.network import LayerTemplate, Operator
from swapconf.words.phrases import joined, phrase, plural

_SHOWN = 8


def around(cell: str, template: LayerTemplate) -> list[Operator]:
    """The primitives of a cell; of a cell that the template does not have, those below the nearest one above it."""
    if direct := [operator for operator in template.primitives if cell_of(operator.path) == cell]:
        return direct
    while cell and cell not in template.by_path:
        cell = cell.rpartition(".")[0]
    return [operator for operator in template.primitives if not cell or operator.path.startswith(f"{cell}.")]


def cell_of(path: str) -> str:
    return path.rpartition(".")[0]


def part(cell: str, primitive: str) -> str:
    return phrase("{cell} ({primitive})", cell=cell, primitive=primitive) if primitive else cell


def in_order(parts: Iterable[tuple[str, str]], template: LayerTemplate) -> str:
    """Cells with a primitive ("" for none), in the order of the template."""
    order = {operator.path: index for index, operator in enumerate(template.operators)}
    known = sorted(parts, key=lambda item: (order.get(item[0], -1), item))
    return names(part(cell or phrase("the layer itself"), primitive) for cell, primitive in known)


def names(operators: Iterable[str]) -> str:
    given = list(dict.fromkeys(operator or phrase("the whole layer") for operator in operators))
    rest = [phrase("{count} more", count=len(given) - _SHOWN)] if len(given) > _SHOWN + 1 else given[_SHOWN:]
    return joined(", ", [*given[:_SHOWN], *rest])


def layers(given: Iterable[str]) -> str:
    """``layer 3``, ``layers 0-2, 5, mtp0``, in the order of the model; equal neighbours as a range."""
    ordered = list(dict.fromkeys(given))
    runs = groupby(enumerate(ordered), lambda item: int(item[1]) - item[0] if item[1].isdigit() else item[1])
    parts = [[name for _, name in run] for _, run in runs]
    text = ", ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in parts)
    return (
        plural(len(ordered), "layer {layers}", "layers {layers}", layers=text) if text else phrase("no decoder layer")
    )
