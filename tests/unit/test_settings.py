from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.config.yaml_document import parse
from swapconf.dryrun.rank_order import RankOrder
from swapconf.study import settings
from swapconf.study.settings import Settings, settings_of
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
