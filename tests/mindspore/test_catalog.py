"""The shipped catalog against the real cells: every tree, and the graph facts of one legacy and one mcore family.

Those of other releases than the installed one are built where scripts/generations.sh left their environments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import generations
import pytest

from swapconf.models.deltas import applied
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
    assert _read(trees / f"{family}.json") == _without_facts(_read(CATALOG / f"{family}.json"))


@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_graph_facts_are_those_of_a_real_compile(tmp_path: Path, family: str) -> None:
    _build(tmp_path, "--family", family, "--first-variant")
    built, shipped = _read(tmp_path / f"{family}.json"), _read(CATALOG / f"{family}.json")
    assert built["variants"] == shipped["variants"][:1]


OTHERS = [pair for pair in generations.PAIRS if (CATALOG / pair.mindformers).is_dir()]


@pytest.mark.thorough
@pytest.mark.parametrize("pair", OTHERS, ids=lambda pair: pair.name)
def test_a_delta_gives_what_the_cells_of_its_release_are(tmp_path: Path, pair: generations.Pair) -> None:
    place = generations.Place(pair, Path(os.environ.get("SWAPCONF_GENERATIONS") or generations.kept_in()))
    if not (place.environment / "complete").exists():
        pytest.skip(f"scripts/generations.sh --catalog {pair.name} makes its environment")
    families = sorted(path.stem for path in CATALOG.glob(f"{pair.mindformers}/*.json"))
    chosen = [flag for family in families for flag in ("--family", family)]
    _build(tmp_path, "--trees-only", *chosen, python=place.python, variables=place.variables())
    for family in families:
        file = f"{family}.json"
        shipped = applied(_read(CATALOG / file), _read(CATALOG / pair.mindformers / file))
        assert _read(tmp_path / file) == _without_facts(shipped)
    sample = "qwen3_moe" if "qwen3_moe" in families else "llama"
    _build(tmp_path, "--first-variant", "--family", sample, python=place.python, variables=place.variables())
    shipped = applied(_read(CATALOG / f"{sample}.json"), _read(CATALOG / pair.mindformers / f"{sample}.json"))
    assert _read(tmp_path / f"{sample}.json")["variants"] == shipped["variants"][:1]


def _build(out: Path, *flags: str, python: str = sys.executable, variables: Mapping[str, str] = os.environ) -> None:
    subprocess.run(
        [python, str(ROOT / "scripts" / "build_families.py"), "--out", str(out), "--whole", *flags],
        env={"PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        check=True,
    )


def _without_facts(family: Any) -> Any:
    for operator in _operators(family):
        for fact in GRAPH_FACTS:
            operator.pop(fact, None)
    return family


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _operators(family: Any) -> list[dict[str, Any]]:
    return [
        operator
        for variant in family["variants"]
        for template in variant["templates"].values()
        for operator in template["operators"]
    ]
