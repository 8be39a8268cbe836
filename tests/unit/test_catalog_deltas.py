"""What the catalog says of other releases: which one answers for a version, and what its delta changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catalog_delta
import generations
import pytest

from swapconf.models import catalog, store
from swapconf.models.deltas import applied
from swapconf.study.study import study_file
from swapconf.upstream.facts import Versions
from tests.helpers import ROOT, invoke

FOLDER = ROOT / "swapconf/models/families"
DELTAS = sorted(FOLDER.glob("*/*.json"))
QWEN3 = ROOT / "configs/small/qwen3_default_swap.yaml"
MSCALE = "self_attention.apply_rotary_pos_emb.mul_mscale"
RELEASES = ("1.8.0", "1.9.0", "2.1.0")


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def operators(*rows: str) -> dict[str, Any]:
    return {"cell": "Layer", "operators": [{"path": path, "primitive": path.upper()} for path in rows]}


FAMILY: dict[str, Any] = {
    "schema": 1,
    "family": "toy",
    "made_with": {"mindformers": "1.9.0"},
    "layout": {"templates": ["dense", "moe"]},
    "variants": [
        {"when": [{"flag": flag}], "templates": {"dense": operators("a", "b", "c"), "moe": operators("b", "d")}}
        for flag in (False, True)
    ],
}


# --- which release --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("1.8.0", "1.8.0"),
        ("1.8", "1.8.0"),
        ("1.9.0", "1.9.0"),
        ("1.9.1", "1.9.0"),
        ("2.0.0", "1.9.0"),
        ("2.1.0+own", "2.1.0"),
        ("3.0.0", "2.1.0"),
        ("nightly", "2.1.0"),
        ("1.6.0", "1.8.0"),
    ],
)
def test_the_nearest_release_that_is_not_newer_answers(version: str, release: str) -> None:
    assert store.chosen(RELEASES, version) == release


def test_a_study_takes_the_operators_of_its_versions() -> None:
    networks = {version: study_file(QWEN3, Versions(mindformers=version), {}).network for version in ("1.8.0", "1.9.0")}
    types = {
        version: (
            network.made_with,
            network.templates[0].by_path["self_attention.apply_rotary_pos_emb.mul_mscale"].type,
        )
        for version, network in networks.items()
        if network is not None
    }
    assert types == {"1.8.0": ("1.8.0", "Mul"), "1.9.0": ("1.9.0", "Muls")}


def test_a_release_reads_its_family_and_one_delta_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    read_file = store._read

    def noted(name: str) -> Any:
        names.append(name)
        return read_file(name)

    monkeypatch.setattr(store, "_read", noted)
    store._load.cache_clear()
    catalog.load("qwen3")
    assert names == ["qwen3.json"]
    catalog.load("qwen3", "1.8.0")
    assert names == ["qwen3.json", "qwen3.json", "1.8.0/qwen3.json"]


def test_the_page_of_generations_counts_what_the_deltas_say() -> None:
    page = (ROOT / "docs/evidence/generations.md").read_text(encoding="utf-8")
    assert page.endswith(generations.operators_section())


def test_families_names_the_versions_that_each_was_made_from() -> None:
    lines = {line.split()[0]: line for line in invoke("families").stdout.splitlines()}
    assert "from 1.8.0+2.7.2, 1.9.0+2.9.0" in lines["qwen3"]
    assert "1.8.0" not in lines["telechat3"]  # it came with 1.9.0


# --- what a delta changes -------------------------------------------------------------------------------------------


def test_deepseek_of_1_8_0_has_other_operators_in_every_layer() -> None:
    for variant in catalog.load("deepseek_v3", "1.8.0").variants:
        for name, template in variant.templates.items():
            below = "transformer_layer.self_attention" if name == "mtp" else "self_attention"
            assert f"{below}.add_loss" not in template.by_path
            paths = list(template.by_path)
            assert paths.index(f"{below}.pe_tnd_concat") == paths.index(f"{below}.pe_concat") + 1


@pytest.mark.parametrize("file", DELTAS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_shipped_delta_is_what_its_release_has_otherwise(file: Path) -> None:
    family, delta = read(FOLDER / file.name), read(file)
    assert (delta["family"], delta["made_with"]["mindformers"]) == (file.stem, file.parent.name)
    assert catalog_delta.delta(family, applied(family, delta)) == delta


def _gone(release: Any) -> None:
    del release["variants"][0]["templates"]["dense"]["operators"][1]


def _replaced_everywhere(release: Any) -> None:
    for variant in release["variants"]:
        for template in variant["templates"].values():
            next(row for row in template["operators"] if row["path"] == "b")["saved"] = True


def _new(release: Any) -> None:
    for variant in release["variants"]:
        variant["templates"]["moe"]["operators"][:0] = [{"path": "y", "cell": "Y"}, {"path": "z", "cell": "Z"}]


def _moved(release: Any) -> None:
    release["variants"][1]["templates"]["dense"]["operators"].reverse()


def _setting(release: Any) -> None:
    release["layout"] = {"templates": ["dense"]}


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (_gone, [{"path": "b", "gone": True, "templates": ["dense"], "variants": [0]}]),
        (_replaced_everywhere, [{"path": "b", "primitive": "B", "saved": True}]),
        (
            _new,
            [
                {"path": "y", "cell": "Y", "after": "", "templates": ["moe"]},
                {"path": "z", "cell": "Z", "after": "y", "templates": ["moe"]},
            ],
        ),
        (_moved, None),
        (_setting, []),
    ],
)
def test_a_delta_gives_the_release_again(change: Callable[[Any], None], rows: list[dict[str, Any]] | None) -> None:
    release = copy.deepcopy({**FAMILY, "made_with": {"mindformers": "1.8.0"}})
    change(release)
    delta = catalog_delta.delta(FAMILY, release)
    assert applied(FAMILY, delta) == release
    assert rows is None or delta["operators"] == rows


def test_what_a_delta_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="toy: other variants"):
        catalog_delta.delta(FAMILY, {**FAMILY, "variants": FAMILY["variants"][:1]})
