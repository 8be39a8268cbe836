"""What the schemas for editors say, and that they say the same as the check."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from swapconf.checking.editor import NAMES, SECTIONS, editor_schema
from swapconf.config.dialects import PYNATIVE_SECTIONS
from swapconf.decide.patterns import matches, primitives_below
from swapconf.files.schemas import schema
from swapconf.models import catalog
from swapconf.models.network import COMMUNICATION
from swapconf.models.store import index
from tests.helpers import ROOT
from tests.unit.upstream_cases import CASES, Case

TRAINING = editor_schema("training")
LLAMA = {"model_config": {"type": "LlamaConfig", "num_layers": 4}}
PYNATIVE = tuple(f"pynative_{section}" for section in PYNATIVE_SECTIONS)
UNSEEN = {"ls_layers_float"}  # JSON Schema takes 0.0 for an integer


def keys_of(section: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every key of a section, its schema with the definition it refers to, and whether it is required."""
    whole = schema(section)
    entries = [part["items"] for part in whole["properties"].values() if "properties" in part.get("items", {})]
    for owner in (whole, *entries, *whole.get("definitions", {}).values()):
        for key, given in owner.get("properties", {}).items():
            meant = whole["definitions"][given["$ref"].rpartition("/")[2]] if "$ref" in given else {}
            yield key, {**meant, **given}, key in owner.get("required", ())


@pytest.mark.parametrize(
    ("key", "told", "required"),
    [case for section in (*SECTIONS, *PYNATIVE) for case in keys_of(section)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_key_is_told(key: str, told: dict[str, Any], required: bool) -> None:
    assert len(told["description"]) > 40
    assert any("\u4e00" <= character <= "\u9fff" for character in told["x-description-zh"])
    assert told["examples"]
    assert required or "default" in told
    assert ("Required." if required else "Default: ") in told["description"]
    counted = told.get("type") == "integer" or key == "layers" or ("recompute" in key and "type" not in told)
    assert not counted or told["x-unit"]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_schemas(name: str) -> None:
    Draft7Validator.check_schema(editor_schema(name))
    assert "schema.json" not in str(editor_schema(name).get("properties"))


@pytest.mark.parametrize("family", catalog.families())
def test_a_condition_holds_for_its_family_only(family: str) -> None:
    known = index()[family]
    sections = (
        [{"type": name} for name in known["config_types"]]
        if known["legacy"]
        else [
            *({"model_type": name} for name in known["model_types"]),
            *({"architectures": [name]} for name in known["architectures"]),
            *({"architectures": name} for name in known["architectures"]),
        ]
    )
    for model_config in sections:
        model = {"model_config": model_config}
        assert catalog.identify(model, use_legacy=known["legacy"]) == family
        holds = [Draft7Validator(case["if"]).is_valid({"model": model}) for case in TRAINING["allOf"]]
        assert holds == [*(name == family for name in catalog.families()), False, True]


@pytest.mark.parametrize("family", catalog.families())
def test_what_is_offered_exists_and_moves_something(family: str) -> None:
    offered = TRAINING["definitions"][f"{family}_op_name"]["anyOf"][0]["enum"]
    templates = [template for variant in catalog.load(family).variants for template in variant.templates.values()]
    assert catalog.load(family).flash_attention in offered
    for pattern in offered:
        found = [(operator, template) for template in templates for operator in matches(pattern, template)]
        assert found, pattern
        assert (
            any(
                primitive.saved is not False
                for operator, template in found
                for primitive in primitives_below(operator.path, template)
            )
            or found[0][0].kind == "cell"
        )
    keys = TRAINING["definitions"][f"{family}_communication"]
    for pattern in (*keys["properties"], *(snippet["label"] for snippet in keys["defaultSnippets"])):
        assert any(operator.type in COMMUNICATION for template in templates for operator in matches(pattern, template))


@pytest.mark.parametrize("file", sorted((ROOT / "configs").rglob("*.yaml")), ids=lambda file: file.stem)
def test_our_configs_follow_the_schema(file: Path) -> None:
    assert list(Draft7Validator(TRAINING).iter_errors(yaml.safe_load(file.read_text(encoding="utf-8")))) == []


STRUCTURAL = {"bad-type", "bad-value", "missing-key", "unknown-key"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_editor_refuses_what_the_check_refuses(case: Case) -> None:
    config = json.loads(json.dumps({"model": LLAMA, "swap_config": case.swap, "recompute_config": case.recompute}))
    checked = {rule for _, rule, _ in case.findings if rule in STRUCTURAL}
    refused = not Draft7Validator(TRAINING).is_valid(config)
    assert refused == bool(checked) or case.name in UNSEEN


def test_the_operator_names_do_not_make_an_editor_stricter() -> None:
    sections = {key: value for key, value in TRAINING.items() if key != "allOf"}
    for case in CASES:
        config = json.loads(json.dumps({"model": LLAMA, "swap_config": case.swap, "recompute_config": case.recompute}))
        assert Draft7Validator(TRAINING).is_valid(config) == Draft7Validator(sections).is_valid(config), case.name


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("base_config: ./base.yaml", True),
        ("base_config: [./context.yaml, ./model.yaml]", True),
        ("base_config: 5", False),
        ("actor_config: {model_config: ./m.yaml, recompute_config: {recompute: [1, 2]}}", True),
        ("actor_config: {recompute_config: {recompute: 'True'}}", False),
        ("critic_config: {recompute_config: {recomptue: True}}", False),
        ("ref_config: {model_config: 5}", False),
    ],
)
def test_an_editor_knows_what_stands_elsewhere(text: str, is_valid: bool) -> None:
    assert Draft7Validator(TRAINING).is_valid(yaml.safe_load(text)) == is_valid
