"""A section with more mistakes than anybody reads."""

from __future__ import annotations

from swapconf.config import yaml_config
from swapconf.config.config import SwapOff
from swapconf.config.structure import MAX_MISTAKES
from swapconf.config.yaml_document import parse
from swapconf.words.findings import Severity

MODEL = "model: {model_config: {type: LlamaConfig, num_layers: 4}}\n"
EMPTY, UNKNOWN = "  layer_swap: [" + "{}," * MAX_MISTAKES + "]\n", "".join(f"  k{n}: 1\n" for n in range(MAX_MISTAKES))


def test_a_section_with_too_many_mistakes_is_given_up() -> None:
    for mistakes in (EMPTY, UNKNOWN):
        config, found = yaml_config.from_document(parse(MODEL + "swap_config:\n  swap: True\n" + mistakes, "f.yaml"))
        assert len(found) == MAX_MISTAKES + 1
        (last,) = (finding for finding in found if finding.rule == "too-many-mistakes")
        assert (last.severity, last.origin.path, last.origin.line) == (Severity.ERROR, "swap_config", 3)
        assert isinstance(config.swap, SwapOff)  # what was not looked at is not used


def test_one_mistake_less_is_told_whole_and_the_rest_is_used() -> None:
    text = MODEL + "swap_config:\n  swap: True\n" + UNKNOWN.partition("\n")[2]
    config, found = yaml_config.from_document(parse(text, "f.yaml"))
    assert {finding.rule for finding in found} == {"unknown-key"}
    assert len(found) == MAX_MISTAKES - 1
    assert config.swap_on
