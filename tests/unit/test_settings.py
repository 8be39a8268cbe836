from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.config.nodes import from_plain, nowhere
from swapconf.config.yaml_document import parse
from swapconf.dryrun.rank_order import RankOrder
from swapconf.models import own_layers
from swapconf.models.network import LayerTemplate, Operator
from swapconf.models.own_layers import OwnLayers
from swapconf.study import handed_over, settings
from swapconf.study.settings import Settings, settings_in, settings_of
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity

RULES = frozenset({"bad-type", "mcore", "R3-list-meaning"})
FAMILIES = frozenset({"llama", "qwen3"})


def read(folder: Path, text: str, name: str = ".swapconf.toml") -> tuple[Settings, list[tuple[int, int, str]]]:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    chosen, findings = settings.read(file, RULES, FAMILIES)
    return chosen, [(f.origin.line, f.origin.column, f.origin.path) for f in findings]


GOOD = """\
mindspore = "2.7.2"
mindformers = "1.6.0"
families = {OwnConfig = "llama"}
[severity]
bad-type = "warning"
R3-list-meaning = "off"
"""


@pytest.mark.parametrize("name", [".swapconf.toml", "pyproject.toml"])
def test_both_files_say_the_same(tmp_path: Path, name: str) -> None:
    text = (
        GOOD
        if name != "pyproject.toml"
        else "[tool.swapconf]\n" + GOOD.replace("[severity]", "[tool.swapconf.severity]")
    )
    chosen, wrong = read(tmp_path, text, name)
    assert wrong == []
    assert Path(chosen.file).name == name
    assert chosen == Settings(
        file=chosen.file,
        severity={"bad-type": Severity.WARNING, "R3-list-meaning": None},
        families={"OwnConfig": "llama"},
        mindspore="2.7.2",
        mindformers="1.6.0",
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("\n  mindspor = '2.9.0'\n", (2, 3, "mindspor")),
        ("mindspore = 2.9\n", (1, 1, "mindspore")),
        ("mindformers = '1.9.0'\nmindspore = '99'\n", (2, 1, "mindspore")),
        ("mindformers = 'latest'\n", (1, 1, "mindformers")),
        ("mindformers = '0.8.0'\n", (1, 1, "mindformers")),
        ("[severity]\nbad-type = 'error'\n\nbad-tipe = 'error'\n", (4, 1, "severity.bad-tipe")),
        ("[severity]\n\"bad-type\" = 'fatal'\n", (2, 1, "severity.bad-type")),
        ("severity.bad-type = 'fatal'\n", (1, 1, "severity.bad-type")),
        ("severity = {mcore = 'off', bad-type = 3}\n", (1, 28, "severity.bad-type")),
        ("mindspore = '2.9.0'\n[families]\nOwnConfig = 'lama'\n", (3, 1, "families.OwnConfig")),
        ("severity = 'off'\n", (1, 1, "severity")),
    ],
)
def test_what_is_wrong_is_found_at_its_line(tmp_path: Path, text: str, place: tuple[int, int, str]) -> None:
    assert read(tmp_path, text)[1] == [place]


def test_what_is_wrong_does_not_spoil_the_rest(tmp_path: Path) -> None:
    chosen, wrong = read(tmp_path, "mindspor = '2'\n[severity]\nmcore = 'off'\nbad-type = 'fatal'\n")
    assert len(wrong) == 2
    assert chosen.severity == {"mcore": None}


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    chosen, ((line, column, _),) = read(tmp_path, "mindspore = '2.9.0'\nseverity = off\n")
    assert chosen == Settings()
    assert (line, column) == (2, 12)


def test_in_pyproject_only_our_table_counts(tmp_path: Path) -> None:
    text = "[tool.other]\nseverity = 1\n[tool.swapconf]\nunknown = 1\n"
    assert read(tmp_path, text, "pyproject.toml")[1] == [(4, 1, "tool.swapconf.unknown")]


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.swapconf]\n")
    assert settings.find(inner) == tmp_path / "pyproject.toml"
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert settings.find(inner) == tmp_path / "pyproject.toml"
    (tmp_path / "a" / ".swapconf.toml").write_text("")
    assert settings.find(inner) == tmp_path / "a" / ".swapconf.toml"


def test_other_commands_know_the_families_and_silence_what_check_silences(tmp_path: Path) -> None:
    (tmp_path / ".swapconf.toml").write_text('[families]\nOurConfig = "llama"\n[severity]\nop-no-match = "note"\n')
    config = tmp_path / "train.yaml"
    config.write_text(
        "swap_config:\n  swap: True\n  op_swap:\n"
        "    - {op_name: 'attention\\.wq', backward_prefetch: 1, layers: [0]}\n"
        "    - {op_name: 'nowhere', backward_prefetch: 1, layers: [0]}\n"
        "model:\n  model_config: {type: OurConfig, num_layers: 2}\n  arch: {type: OurForCausalLM}\n"
    )
    done = CliRunner().invoke(main, ["explain", str(config), "--format", "json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["family"] == "llama"
    assert "note: 'nowhere' matches no operator" in done.stderr
    document = parse(config.read_text(), str(config))
    settings, _ = settings_of(document.file)
    assert settings.families == {"OurConfig": "llama"}
    network = RankOrder(document=document, rank=0, settings=settings).study(document).network
    assert network is not None
    assert network.family == "llama"


def test_the_layers_of_a_model_of_ones_own_are_those_that_a_dry_run_has_read(tmp_path: Path) -> None:
    operators = (
        Operator(path="mixer", kind="cell", type="Mixer"),
        Operator(path="mixer.mul", kind="primitive", type="Mul"),
    )
    layer = LayerTemplate(name="own", cell="OwnBlock", operators=operators)
    (tmp_path / "run/rank_0").mkdir(parents=True)
    own_layers.write(OwnLayers(templates={0: layer}), tmp_path / "run/rank_0" / own_layers.FILE)
    (tmp_path / ".swapconf.toml").write_text('[layers]\nOwnModel = "run/rank_0"\nOther = "run/rank_1"\n')
    settings, (wrong,) = settings_in(str(tmp_path))
    assert (wrong.origin.line, wrong.origin.path) == (3, "layers.Other")
    op_swap = [{"op_name": name, "layers": [1], "backward_prefetch": 1} for name in ("mixer", "mix")]
    model = {"model_config": {"type": "OwnConfig", "num_layers": 2}, "arch": {"type": "OwnModel"}}
    values = {"model": model, "swap_config": {"swap": True, "op_swap": op_swap}, "context": {"mode": 0}}
    study = study_document(from_plain(values, nowhere("train.yaml")), Versions(), {}, settings)
    assert study.strategy is not None
    missed = [found.origin.path for found in study.findings if found.rule == "op-no-match"]
    assert missed == ["swap_config.op_swap[1].op_name"]
    assert not [found for found in study.findings if found.rule == "unknown-family"]
    assert study.strategy.layers[1].plan.prefetches == {"mixer.mul": 1}
    handed_over.write(tmp_path / "source.json", parse("model: {}\n", "train.yaml"), settings)
    _, handed = handed_over.read(tmp_path / "source.json", nowhere("train.yaml"))
    assert {name: Path(folder) for name, folder in handed.layers.items()} == {"OwnModel": tmp_path / "run/rank_0"}
