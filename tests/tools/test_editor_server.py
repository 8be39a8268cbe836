"""The schema in the real yaml-language-server: it completes, explains and checks.

Skipped where node or the server is missing; SWAPCONF_REQUIRE_EDITOR, which CI sets, makes that a failure. The server is
looked for in SWAPCONF_LANGUAGE_SERVER, then on PATH.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.decide.patterns import matches
from swapconf.models import catalog
from swapconf.models.network import LayerTemplate
from tests.tools.language_server import LanguageServer

SERVER = os.environ.get("SWAPCONF_LANGUAGE_SERVER") or shutil.which("yaml-language-server")
MODELS = {
    "llama": "{type: LlamaConfig, num_layers: 4}",
    "qwen3": "{model_type: qwen3, num_hidden_layers: 4}",
    "deepseek_v3": "{architectures: [DeepseekV3ForCausalLM], num_hidden_layers: 4}",
}
YAML = """\
callbacks: [{{type: Any, anything: 1}}]
model: {{model_config: {model}}}
swap_config:
  swap: True
  op_swap:
    - op_name: {name}
      backward_prefetch: {prefetch}
      layers: [0]
"""
NAME, PREFETCH = (5, 15), (6, 27)  # where the two values start, after the modeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("editor")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[LanguageServer]:
    if not SERVER or not Path(SERVER).exists() or not shutil.which("node"):
        if "SWAPCONF_REQUIRE_EDITOR" in os.environ:
            pytest.fail(f"no node, or no yaml-language-server at {SERVER}")
        pytest.skip("yaml-language-server is not installed")
    assert CliRunner().invoke(main, ["schema", "--write", str(folder)]).exit_code == 0
    with LanguageServer(["node", SERVER], folder) as running:
        yield running


def document(folder: Path, file: str, model: str = "llama", name: str = "attention", prefetch: str = "20") -> Path:
    """A YAML with the modeline that `swapconf modeline` writes."""
    path = folder / file
    path.write_text(YAML.format(model=MODELS[model], name=name, prefetch=prefetch), encoding="utf-8")
    assert CliRunner().invoke(main, ["modeline", str(path)]).exit_code == 0
    return path


def test_a_sound_yaml_has_no_diagnostics(server: LanguageServer, folder: Path) -> None:
    assert server.open(document(folder, "sound.yaml")) == []


def test_what_is_wrong_is_underlined(server: LanguageServer, folder: Path) -> None:
    (told,) = server.open(document(folder, "wrong.yaml", prefetch="'20'"))
    assert told["range"]["start"] == {"line": PREFETCH[0] + 1, "character": PREFETCH[1] - 2}
    assert "integer" in told["message"]


def test_an_unknown_key_is_underlined_in_our_sections_only(server: LanguageServer, folder: Path) -> None:
    file = document(folder, "unknown.yaml")
    file.write_text(file.read_text().replace("swap: True", "swap: True\n  swop: True") + "any_section: {swop: 1}\n")
    (told,) = server.open(file)
    assert "swop" in told["message"]


def inserted(item: dict[str, Any]) -> str:
    """What an editor puts into the text: snippets escape `$`, `}` and backslash, and mark where the cursor goes."""
    text = str(item["textEdit"]["newText"])
    return re.sub(r"\\([$}\\])|\$\{\d+:([^}]*)\}|\$\d", lambda m: m[1] or m[2] or "", text)


def templates(model: str) -> list[LayerTemplate]:
    return [template for variant in catalog.load(model).variants for template in variant.templates.values()]


@pytest.mark.parametrize("typed", ["", "fl"])
@pytest.mark.parametrize("model", MODELS)
def test_operator_names_of_the_model_are_offered(server: LanguageServer, folder: Path, model: str, typed: str) -> None:
    file = document(folder, f"complete_{model}{typed}.yaml", model, name=typed)
    server.open(file)
    offered = server.completions(file, NAME[0] + 1, NAME[1] + len(typed))
    written = [yaml.safe_load(inserted(item)) for item in offered.values()]
    assert [name for name in written if not any(matches(name, template) for template in templates(model))] == []
    assert catalog.load(model).flash_attention in written
    assert len(written) > 20


def test_another_model_has_other_operators(server: LanguageServer, folder: Path) -> None:
    names = {}
    for model in ("llama", "qwen3"):
        file = document(folder, f"other_{model}.yaml", model, name="")
        server.open(file)
        names[model] = {inserted(item) for item in server.completions(file, NAME[0] + 1, NAME[1]).values()}
    assert r"attention\.wq" in names["llama"]
    assert r"attention\.wq" not in names["qwen3"]


def test_an_unknown_model_is_offered_every_name_of_flash_attention(server: LanguageServer, folder: Path) -> None:
    file = document(folder, "unknown_model.yaml", name="")
    file.write_text(file.read_text().replace("LlamaConfig", "OwnConfig"))
    server.open(file)
    names = {inserted(item) for item in server.completions(file, NAME[0] + 1, NAME[1]).values()}
    assert {catalog.load(family).flash_attention for family in catalog.families()} <= names


def test_keys_are_offered(server: LanguageServer, folder: Path) -> None:
    file = document(folder, "keys.yaml")
    file.write_text(file.read_text() + "recompute_config:\n  \n")
    server.open(file)
    line = len(file.read_text().splitlines()) - 1
    offered = server.completions(file, line, 2)
    assert {"recompute", "select_recompute", "mp_comm_recompute"} <= offered.keys()
    assert "Operators" in str(offered["select_recompute"]["documentation"])


def test_mcore_spellings_are_known_in_the_model(server: LanguageServer, folder: Path) -> None:
    file = document(folder, "mcore.yaml", "qwen3")
    wrong = (
        "model:\n  model_config:\n    model_type: qwen3\n    cpu_offloading: 3\n    op_swap:\n"
        "      - op_name: \n        backward_prefetch: 1\n        layers: [0]\n"
    )
    file.write_text(file.read_text().splitlines()[0] + "\n" + wrong)
    told = server.open(file)
    assert [one["range"]["start"]["line"] for one in told if "boolean" in one["message"]] == [4]
    names = {inserted(item) for item in server.completions(file, 6, 17).values()}
    assert catalog.load("qwen3").flash_attention in {yaml.safe_load(name) for name in names}
    assert "Master switch" in server.hover(file, 4, 8)


def test_sections_of_pynative_are_known_in_their_own_yaml(server: LanguageServer, folder: Path) -> None:
    file = document(folder, "pynative.yaml")
    head = file.read_text().splitlines()[0]
    file.write_text(f"{head}\ntraining: {{steps: 1}}\nswap:\n  enable: True\n  default_prefetch: 0\n  \n")
    (told,) = server.open(file)
    assert told["range"]["start"]["line"] == 4
    assert {"layer_swap", "op_swap"} <= server.completions(file, 5, 2).keys()
    assert "Unit: layers" in server.hover(file, 4, 5)


def test_operators_are_offered_as_keys(server: LanguageServer, folder: Path) -> None:
    file = document(folder, "operator_keys.yaml")
    file.write_text(file.read_text() + "recompute_config:\n  select_recompute:\n    \n")
    server.open(file)
    line = len(file.read_text().splitlines()) - 1
    keys = {key for item in server.completions(file, line, 4).values() for key in yaml.safe_load(inserted(item))}
    assert {"feed_forward", r"feed_forward\.w1"} <= keys
    assert [key for key in keys if not any(matches(key, template) for template in templates("llama"))] == []


def test_hovering_explains_a_key(server: LanguageServer, folder: Path) -> None:
    file = document(folder, "hover.yaml")
    server.open(file)
    told = server.hover(file, PREFETCH[0] + 1, 10)
    assert "Unit: operators" in told
    assert "three times as many" in told
