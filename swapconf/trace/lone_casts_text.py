"""GRAPH_BUILD_0_*.IR -> FUSED KERNELS of one Cast each, that MindSpore chose and then launches as it is.

Such a Cast has lost its cell; where it was put in the place of a call, ``need_inline`` tells what it was named before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from swapconf.files.table_lines import Damage, lines
from swapconf.trace.func_graph_text import Argument, Kind, types
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.launch_graph_text import arguments

_CAST = re.compile(r" *%\d+\(.*?\) = (?:PrimFunc_)?Cast\(")
_BEFORE = re.compile(r'[{ ]need_inline: "([^"]*)"')
_UNIQUE = re.compile(r'[{ ]unique_id: "(\d+)"')
_FORWARD_UNIQUE = re.compile(r'[{ ]forward_unique_id: "(\d+)"')
_COPY = re.compile(r"[{ ]duplicated: Bool\(1\)")
_NAME = re.compile(r" +# Fullname with scope: \((.*)\)")
_TYPES = "      : "


def lone_casts(last_graph: Path) -> Iterator[tuple[str, FusedKernel]]:
    """(its name in the last graph, the operator that it was). Raises SwapconfError."""
    head = told = ""
    for _, text in lines(last_graph, Damage(last_graph)):
        if _CAST.match(text):
            head, told = text, ""
        elif head and not told and text.startswith(_TYPES):
            told = text[len(_TYPES) :]
        elif head and (match := _NAME.fullmatch(text)):
            if found := _operator(head, told, match[1]):
                yield match[1], FusedKernel(operators=(found,), outputs=(0,))
            head = ""


def _operator(head: str, told: str, name: str) -> FusedOperator | None:
    """None of one that has its cell, or had none before."""
    match = _CAST.match(head)
    assert match is not None
    given, attributes = arguments(head, match.end())
    before = _BEFORE.search(attributes)
    made = types(told)[1]
    if before is None or name.count("/") > 1 or before[1].count("/") < 2 or len(made) != 1 or made[0] is None:
        return None
    unique, forward_unique = _UNIQUE.search(attributes), _FORWARD_UNIQUE.search(attributes)
    return FusedOperator(
        name=before[1],
        primitive="Cast",
        arguments=(Argument(Kind.PARAMETER, 0), *(Argument(Kind.CONSTANT, text=text) for text in given[1:])),
        made=made[0],
        is_copy=bool(_COPY.search(attributes)),
        unique=unique[1] if unique else "",
        forward_unique=forward_unique[1] if forward_unique else "",
    )
