"""The shipped catalog against the real cells: every tree, and the graph facts of one legacy and one mcore family."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.mindspore

CATALOG = ROOT / "swapconf" / "models" / "families"
GRAPH_FACTS = {"executed", "saved", "consumers"}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trees")
    _build(out, "--trees-only")
    return out


def test_families_are_those_shipped(trees: Path) -> None:
    assert {path.name for path in trees.glob("*.json")} == {path.name for path in CATALOG.glob("*.json")}
    assert _read(trees / "families.json") == _read(CATALOG / "families.json")


@pytest.mark.parametrize("family", sorted(_path.stem for _path in CATALOG.glob("*.json") if _path.stem != "families"))
def test_operator_trees_are_those_of_the_real_cells(trees: Path, family: str) -> None:
    shipped = _read(CATALOG / f"{family}.json")
    for operator in _operators(shipped):
        for fact in GRAPH_FACTS:
            operator.pop(fact, None)
    assert _read(trees / f"{family}.json") == shipped


@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_graph_facts_are_those_of_a_real_compile(tmp_path: Path, family: str) -> None:
    _build(tmp_path, "--family", family, "--first-variant")
    built, shipped = _read(tmp_path / f"{family}.json"), _read(CATALOG / f"{family}.json")
    assert built["variants"] == shipped["variants"][:1]


def _build(out: Path, *flags: str) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "build_families.py"), "--out", str(out), *flags],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _operators(family: Any) -> list[dict[str, Any]]:
    return [
        operator
        for variant in family["variants"]
        for template in variant["templates"].values()
        for operator in template["operators"]
    ]
