"""model-not-named: mindformers takes a model from two names, which must both be there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from swapconf.words.findings import Finding, Severity
from tests.helpers import study_of_values

NAME = "Qwen3ForCausalLM"
SIZES = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8}
# what names the model -> the keys at fault; tests/mindspore asks mindformers the same
NAMED: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    ({}, ("model_type", "architectures")),
    ({"type": "PretrainedConfig"}, ("model_type", "architectures")),
    ({"model_type": "qwen3"}, ("architectures",)),
    ({"architectures": NAME}, ("model_type",)),
    ({"model_type": "", "architectures": NAME}, ("model_type",)),
    ({"model_type": 3, "architectures": NAME}, ("model_type",)),
    ({"model_type": ["qwen3"], "architectures": NAME}, ("model_type",)),
    *(
        ({"model_type": "qwen3", "architectures": wrong}, ("architectures",))
        for wrong in (None, "", 3, [], [3], {"name": NAME})
    ),
    *(({"model_type": "qwen3", "architectures": right}, ()) for right in (NAME, [NAME], [NAME, 3])),
)


def told(named: dict[str, Any], **others: Any) -> list[Finding]:
    values = {"use_legacy": False, "pretrained_model_dir": "", "model": {"model_config": {**SIZES, **named}}, **others}
    return [finding for finding in study_of_values(values).findings if finding.rule == "model-not-named"]


@pytest.mark.parametrize(("named", "missing"), NAMED, ids=lambda value: json.dumps(value))
def test_each_name_that_mindformers_needs_is_asked_for(named: dict[str, Any], missing: tuple[str, ...]) -> None:
    assert [
        tuple(key for key in ("model_type", "architectures") if f"`model_config.{key}`" in finding.message)
        for finding in told(named)
    ] == [missing] * bool(missing)
    assert all(finding.severity is Severity.WARNING for finding in told(named))


def test_a_wrong_name_is_told_where_it_stands_and_a_missing_one_at_the_section() -> None:
    (wrong,) = told({"model_type": "qwen3", "architectures": 3})
    (missing,) = told({"model_type": "qwen3"})
    assert wrong.origin.path == "model.model_config.architectures"
    assert missing.origin.path == "model.model_config"


@pytest.mark.parametrize("named", [{"model_type": "deepseek_v3"}, {"architectures": ["DeepseekV3ForCausalLM"]}])
def test_what_the_hint_of_a_known_model_asks_for_is_enough(named: dict[str, Any]) -> None:
    (finding,) = told(named)
    line = finding.hint.split("`")[1].removeprefix("model_config.")
    assert not told({**named, **yaml.safe_load(line)})


def test_a_config_json_that_is_read_is_asked_and_one_that_is_not_may_name_the_model(tmp_path: Path) -> None:
    assert not told({}, pretrained_model_dir=str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    (finding,) = told({}, pretrained_model_dir=str(tmp_path))
    assert "`model_config.architectures`" in finding.message
    assert "`model_config.model_type`" not in finding.message
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "architectures": [NAME]}))
    assert not told({}, pretrained_model_dir=str(tmp_path))


# what names a legacy model, by part of ``model`` -> the parts at fault; tests/mindspore asks mindformers the same
LEGACY: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    ({}, ("model_config.type", "arch.type")),
    ({"arch": None}, ("model_config.type", "arch.type")),
    ({"model_config": {"type": "LlamaConfig"}}, ("arch.type",)),
    ({"model_config": {"type": "LlamaConfig"}, "arch": {}}, ("arch.type",)),
    ({"arch": {"type": "LlamaForCausalLM"}}, ("model_config.type",)),
    *(
        ({"model_config": {"type": "LlamaConfig"}, "arch": {"type": wrong}}, ("arch.type",))
        for wrong in (None, "", 3, ["LlamaForCausalLM"])
    ),
    ({"model_config": {"type": "LlamaConfig"}, "arch": {"type": "LlamaForCausalLM"}}, ()),
    ({"model_config": {"model_type": "qwen3", "architectures": NAME}}, ("model_config.type", "arch.type")),
)
LEGACY_SIZES = {"hidden_size": 256, "num_layers": 4, "num_heads": 8}


def legacy_model(named: dict[str, Any]) -> dict[str, Any]:
    return {**named, "model_config": {**LEGACY_SIZES, **named.get("model_config", {})}}


@pytest.mark.parametrize(("named", "missing"), LEGACY, ids=lambda value: json.dumps(value))
def test_a_legacy_model_has_a_type_of_its_config_and_one_of_its_network(
    named: dict[str, Any], missing: tuple[str, ...]
) -> None:
    found = told({}, use_legacy=True, model=legacy_model(named), pretrained_model_dir="not/read")
    assert [
        tuple(path for path in ("model_config.type", "arch.type") if f"`{path}`" in finding.message)
        for finding in found
    ] == [missing] * bool(missing)


def test_what_the_hint_of_a_legacy_model_asks_for_is_enough() -> None:
    model = legacy_model({"arch": {"type": "ChatGLM2ForConditionalGeneration"}})
    (finding,) = told({}, use_legacy=True, model=model)
    path, _, name = finding.hint.split("`")[1].partition(": ")
    assert (path, name) == ("model_config.type", "ChatGLM2Config")
    model["model_config"]["type"] = name
    assert not told({}, use_legacy=True, model=model)


def test_a_part_of_a_yaml_names_no_model() -> None:
    assert not told({}, use_legacy=True, model={"arch": {}})
