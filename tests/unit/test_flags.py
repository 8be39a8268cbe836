"""Flags that a dry run reads back from cells: stand-ins with what MindSpore's own cells have."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from swapconf.dryrun import flags


@dataclass
class Primitive:
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Cell:
    scope: str | None = None
    _primitives: dict[str, Primitive | None] = field(default_factory=dict)

    def get_scope(self) -> str | None:
        return self.scope


@dataclass
class Network:
    cells: dict[str, Cell]

    def cells_and_names(self) -> list[tuple[str, Cell]]:
        return list(self.cells.items())


NETWORK = Network(
    {
        "": Cell(),
        "model.layers.0.attention": Cell(
            _primitives={"mul": Primitive({"offload": True, "backward_prefetch": 7}), "add": Primitive(), "none": None}
        ),
        "model.layers.1.attention": Cell(
            scope="recompute_x", _primitives={"mul": Primitive(), "add": Primitive({"recompute": False})}
        ),
        "model.mtp.layers.0.transformer_layer": Cell(_primitives={"add": Primitive({"recompute": True})}),
        "model.norm": Cell(_primitives={"cast": Primitive({"recompute": True})}),
    }
)


def written(folder: Path) -> flags.Flags:
    path = folder / "flags.json"
    path.write_text(json.dumps(flags.of_network(NETWORK)), encoding="utf-8")
    return flags.read(path)


def test_a_swap_has_its_prefetch(tmp_path: Path) -> None:
    assert written(tmp_path).swapped == {("0", "attention.mul"): 7}


def test_recompute_of_a_cell_holds_for_what_is_below_and_not_flagged_off(tmp_path: Path) -> None:
    assert written(tmp_path).recomputed == {("1", "attention.mul"), ("mtp0", "transformer_layer.add")}


@pytest.mark.parametrize(
    ("path", "site"),
    [
        ("model.decoder.layers.12.mlp.mul", ("12", "mlp.mul")),
        ("transformer.encoder.layers.0.add", ("0", "add")),
        ("model.mtp.layers.1.hnorm.norm", ("mtp1", "hnorm.norm")),
        ("model.norm.cast", None),
    ],
)
def test_a_path_of_the_network_is_a_site_of_a_layer(path: str, site: tuple[str, str] | None) -> None:
    assert flags.site_of(path) == site
