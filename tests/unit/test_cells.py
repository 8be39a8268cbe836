"""What tells one cell of a layer from another has its name from models/cells.py, and so one place lists them all."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from swapconf.models import catalog, cells
from tests.helpers import ROOT

WHATIF = ROOT / "swapconf" / "whatif"


def cell_names() -> frozenset[str]:
    """What cells of the catalog are called, below a layer."""
    return frozenset(
        operator.path.rpartition(".")[2]
        for family in catalog.families()
        for variant in catalog.load(family).variants
        for template in variant.templates.values()
        for operator in template.operators
        if operator.kind == "cell"
    )


def names() -> frozenset[str]:
    """Of all cells and operators in the catalog of any release, and of their classes; but for numbers of a list."""
    found = set[str]()
    for file in (ROOT / "swapconf" / "models" / "families").rglob("*.json"):
        for path, of_class in _operators(json.loads(file.read_text(encoding="utf-8"))):
            found |= {*path.split("."), of_class}
    return frozenset(name for name in found if name.isidentifier())


def _operators(told: Any) -> Iterator[tuple[str, str]]:
    """(path, class), as they stand in families and in what differs from one in another release."""
    if isinstance(told, dict):
        yield str(told.get("path", "")), str(told.get("cell", ""))
    for below in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from _operators(below)


def words(text: str) -> Iterator[str]:
    """Of a text that is no sentence."""
    if " " not in text:
        yield from re.split(r"[./-]", text)


def test_what_if_names_no_cell_and_no_operator_of_a_family_itself() -> None:
    known = names()
    assert {
        "self_attention",
        "feed_forward",
        "linear_qkv",
        "wo",
        "mul_dp",
        "kv_transpose_back",
        "MLASelfAttention",
    } <= known
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in sorted(WHATIF.rglob("*.py"))
        if "pynative" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and known.intersection(words(node.value))
    ]
    assert not found


def test_the_cells_that_are_told_from_others_are_those_of_the_catalog() -> None:
    known = cell_names()
    named = {cells.INPUT_NORM, cells.MLP_NORM, cells.SELF_ATTENTION, cells.MLP, cells.QKV, cells.PROJECTION}
    named |= {cells.KEY_VALUE_UP, cells.QUERY_NORM, cells.KEY_NORM, cells.CORE_ATTENTION, cells.FIRST_LINEAR}
    named |= {cells.SECOND_LINEAR, cells.EXPERTS, cells.SHARED_EXPERTS, cells.ROUTER, cells.DENSE, *cells.KEY_AND_VALUE}
    assert named <= known
