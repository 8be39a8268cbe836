"""The card that workspace is told for: from the hardware profile, the release of CANN and the YAML."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from swapconf.config import yaml_config
from swapconf.config.config import Config
from swapconf.config.yaml_document import parse
from swapconf.memory.cann.card import A2
from swapconf.study.card import card_of, words
from swapconf.timing import hardware
from swapconf.timing.cost import CARD_FIGURES, Machine
from swapconf.timing.hardware_names import names
from swapconf.words.findings import SwapconfError
from swapconf.words.units import MIB


def config(text: str) -> Config:
    found, _ = yaml_config.from_document(parse(text, "train.yaml"))
    return found


def test_the_generic_card_is_the_one_that_rules_are_for() -> None:
    plain = config("context:\n  mode: 0\n")
    assert card_of(Machine(hardware=hardware.load("generic")), plain) == A2 == card_of(None, plain)


@pytest.mark.parametrize(
    ("name", "cores", "cache_mib"),
    [
        ("ascend_910b1", 24, 192),
        ("ascend_910b2", 24, 192),
        ("ascend_910b3", 20, 192),
        ("ascend_910b4", 20, 96),
        ("ascend_910_93", 24, 192),
    ],
)
def test_cores_and_cache_are_those_of_the_hardware_profile(name: str, cores: int, cache_mib: int) -> None:
    card = card_of(Machine(hardware=hardware.load(name), cann="8.5"), config("context:\n  mode: 0\n"))
    assert (card.cube_cores, card.vector_cores, card.cache_bytes) == (cores, 2 * cores, cache_mib * MIB)
    assert words(card).startswith(f"CANN 8.5, an Atlas A2 with {cores} cube cores, ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("context:\n  mode: 0\n", None),
        ("context:\n  deterministic: 'ON'\n", True),
        ("context:\n  deterministic: 'OFF'\n", False),
        ("context:\n  deterministic: maybe\n", None),
        ("train_precision_sync: False\ncontext:\n  deterministic: 'ON'\n", False),
        ("context:\n  train_precision_sync: True\n", True),
        ("training:\n  deterministic: True\n", True),
    ],
)
def test_the_yaml_says_whether_sums_have_a_fixed_order(text: str, expected: bool | None) -> None:
    assert card_of(None, config(text)).deterministic is expected


def test_every_shipped_profile_has_the_figures_of_a_card_with_sources() -> None:
    for name in names():
        card = hardware.load(name).card
        assert card.keys() == CARD_FIGURES.keys()
        assert all(figure.source for figure in card.values())


def test_every_shipped_card_has_its_memory() -> None:
    assert {name: hardware.load(name).card["memory_gib"].value for name in names()} == {
        "ascend_910_93": 64,  # of one die
        "ascend_910a": 32,
        "ascend_910b1": 64,
        "ascend_910b2": 64,
        "ascend_910b3": 64,
        "ascend_910b4": 32,
        "generic": 64,
    }


def test_a_profile_of_ones_own_may_name_them_and_mistakes_are_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    mine = {"name": "mine", "figures": {}, "card": {"cube_cores": {"value": 20, "source": "npu-smi"}}}
    file.write_text(json.dumps(mine))
    found = hardware.load(str(file))
    assert card_of(Machine(hardware=found), config("context:\n  mode: 0\n")) == replace(A2, cube_cores=20)
    mine["card"] = {"cube_cores": {"value": 1e12, "source": "npu-smi"}}
    file.write_text(json.dumps(mine))
    with pytest.raises(SwapconfError, match=r"card\.cube_cores\.value"):
        hardware.load(str(file))
