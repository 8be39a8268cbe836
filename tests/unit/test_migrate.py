"""swapconf migrate: what is written, what stays untouched, what is refused."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.config.config import Config, Dialect, LayerIndices, ListedSwap, RecomputeConfig, SwapOff
from swapconf.config.dialects import dialect_of
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.config.yaml_lines import comments
from swapconf.files.replace import rewrite_text
from swapconf.migrate import migrate as module
from swapconf.migrate.migrate import Migration, MigrationOrder, migrate
from swapconf.migrate.report import Fate, Item
from swapconf.migrate.rewrite_lines import STALE
from swapconf.upstream.facts import Versions
from swapconf.words.findings import SwapconfError
from tests.helpers import ROOT

CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
MCORE = """\
use_legacy: False
model:
  model_config:
    num_layers: 4   # few
    cpu_offloading: True   # the switch
    # two entries
    cpu_offloading_num_layers:
      - {backward_prefetch: 5, layers: [0, 2]}
    op_swap:
    - op_name: 'mlp'
      backward_prefetch: 5
      layers: [1]
"""


def done(text: str, target: Dialect, **order: Any) -> Migration:
    return migrate(text, "train.yaml", MigrationOrder(target=target, versions=Versions(), **order))


def told(migration: Migration, fate: Fate) -> list[str]:
    return [item.text for item in migration.items if item.fate is fate]


# --- what is written ------------------------------------------------------------------------------------------------


def test_lines_of_an_mcore_model_move_with_their_comments_and_get_the_names_of_swap_config() -> None:
    expected = """\
use_legacy: False
model:
  model_config:
    num_layers: 4   # few
swap_config:
  swap: True   # the switch
  # two entries
  layer_swap:
    - {backward_prefetch: 5, layers: [0, 2]}
  op_swap:
  - op_name: 'mlp'
    backward_prefetch: 5
    layers: [1]
"""
    assert done(MCORE, Dialect.LEGACY).text == expected


def test_the_mcore_names_that_every_mindformers_reads_are_written() -> None:
    model = "use_legacy: False\nmodel:\n  model_config:\n    num_layers: 4\n"
    assert (
        done(f"{model}# why\nswap_config:\n  swap: True\n  layer_swap: []\n", Dialect.MCORE).text
        == f"{model}    # why\n    swap: True\n    layer_swap: []\n"
    )


def test_pynative_gets_ranges_one_prefetch_and_the_comments_of_what_it_replaces() -> None:
    expected = """\
use_legacy: False
model:
  model_config:
    num_layers: 4   # few
# comments of the form before the migration; keep those that still hold:
# the switch
# two entries
swap:
  enable: True
  default_prefetch: 1
  layer_swap:
    - layers: ['0', '2']
  op_swap:
    - op_name: mlp
      layers: ['1']
"""
    assert done(MCORE, Dialect.PYNATIVE, prefetch=1).text == expected


def test_layers_for_multi_token_prediction_follow_the_last_decoder_layer() -> None:
    graph = "model: {model_config: {num_layers: 4, mtp_depth: 1}}\nrecompute_config:\n  recompute: True\n"
    there = done(graph, Dialect.PYNATIVE)
    assert "full_recompute_layer: ['0-4']" in there.text
    assert done(there.text, Dialect.LEGACY).after.recompute == done(graph, Dialect.LEGACY).after.recompute


def test_pynative_may_set_them_apart_which_graph_mode_cannot() -> None:
    text = (
        "model: {num_hidden_layers: 4, num_nextn_predict_layers: 1}\nrecompute:\n  mode: full\n"
        "  full_recompute_layer: ['0-3']\n"
    )
    assert any("multi-token" in text for text in told(done(text, Dialect.LEGACY), Fate.LOST))


def test_recomputed_layers_that_no_count_can_name_keep_their_meaning() -> None:
    text = "model: {num_hidden_layers: 4}\nrecompute:\n  mode: full\n  full_recompute_layer: ['1', '3']\n"
    after = done(text, Dialect.LEGACY).after
    assert after.swap == ListedSwap()
    assert after.recompute.full is not None
    assert after.recompute.full.layers == LayerIndices((1, 3))


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ("swap_config: {swap: True}", "no default strategy"),
        ("swap_config: {swap: True, layer_swap: [{backward_prefetch: 1, layers: [3]}]}", "cannot swap layer 3"),
        (
            "swap_config: {swap: True, layer_swap: [{backward_prefetch: 1, layers: [0]}, {backward_prefetch: 2, "
            "layers: [1]}]}",
            "one prefetch",
        ),
        ("recompute_config: {recompute: True, mp_comm_recompute: False}", "mp_comm_recompute"),
        ("recompute_config: {recompute: True, select_recompute_exclude: {'a': True}}", "no exclusion by path"),
        ("recompute_config: {select_recompute: {'[ab]': [2]}}", "no PyNative form"),
    ],
)
def test_what_pynative_cannot_say_is_named(section: str, word: str) -> None:
    lost = told(done(f"model: {{model_config: {{num_layers: 4}}}}\n{section}\n", Dialect.PYNATIVE), Fate.LOST)
    assert any(word in text for text in lost), lost


def test_modules_of_a_layer_that_is_swapped_as_a_whole_are_not_listed() -> None:
    swap = done(
        """\
model: {model_config: {num_layers: 4}}
swap_config:
  swap: True
  layer_swap: [{backward_prefetch: 1, layers: [0, 1]}]
  op_swap: [{op_name: 'mlp', backward_prefetch: 1, layers: [1, 2]}]
""",
        Dialect.PYNATIVE,
    ).after.swap
    assert isinstance(swap, ListedSwap)
    assert [entry.layers for entry in swap.op_swap] == [LayerIndices((2,))]


def test_with_swap_off_the_first_layers_of_a_stage_are_counted() -> None:
    text = "model: {num_hidden_layers: 4}\nrecompute: {mode: full, full_recompute_layer: ['0-1']}\n"
    assert "recompute: [2]" in done(text, Dialect.LEGACY).text


def test_layers_that_do_not_exist_are_left_out_and_named() -> None:
    text = (
        "model: {model_config: {num_layers: 4}}\n"
        "swap_config: {swap: True, layer_swap: [{backward_prefetch: 1, layers: [-1, 0, 9]}]}\n"
    )
    there = done(text, Dialect.PYNATIVE)
    assert "layers: ['0']" in there.text
    assert any("layer -1, 9 does not exist" in text for text in told(there, Fate.CHANGED))


def test_with_swap_on_recomputed_layers_are_written_as_indices() -> None:
    text = (
        "model: {num_hidden_layers: 4}\nswap: {enable: True, layer_swap: [{layers: ['2']}]}\n"
        "recompute: {mode: full, full_recompute_layer: ['0-1']}\n"
    )
    full = done(text, Dialect.LEGACY).after.recompute.full
    assert full is not None
    assert full.layers == LayerIndices((0, 1))


def test_a_layer_that_is_recomputed_and_swapped_stays_recomputed_only() -> None:
    """R1 in graph mode; PyNative takes no both."""
    text = (
        "model: {model_config: {num_layers: 4}}\n"
        "swap_config: {swap: True, layer_swap: [{backward_prefetch: 1, layers: [0, 1, 2]}]}\n"
        "recompute_config: {recompute: [1]}\n"
    )
    there = done(text, Dialect.PYNATIVE)
    assert not there.lost
    assert isinstance(there.after.swap, ListedSwap)
    assert there.after.swap.layer_swap[0].layers == LayerIndices((0, 2))


def test_a_converter_that_forgets_something_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(config: Config, order: MigrationOrder) -> tuple[Config, tuple[Item, ...]]:
        return replace(config, dialect=order.target, swap=SwapOff(), recompute=RecomputeConfig()), ()

    monkeypatch.setattr(module, "_converted", forgetful)
    text = (ROOT / "configs/small/example2_layer_swap.yaml").read_text(encoding="utf-8")
    lost = told(done(text, Dialect.PYNATIVE), Fate.LOST)
    assert len(lost) == 1
    assert "operators are decided otherwise" in lost[0]


# --- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "legacy", "dialect"),
    [
        ("swap_config: {swap: True}", True, Dialect.LEGACY),
        ("model: {model_config: {cpu_offloading: True}}", True, Dialect.LEGACY),
        ("model: {model_config: {cpu_offloading: True}}", False, Dialect.MCORE),
        ("recompute: {mode: None}", True, Dialect.PYNATIVE),
        ("parallelism: {tensor_parallel: 2}", True, Dialect.PYNATIVE),
        ("training: {steps: 1}\nswap_config: {swap: True}", True, Dialect.PYNATIVE),
        ("swap_config: {swap: True}\nswap: {enable: True}", True, Dialect.LEGACY),
    ],
)
def test_which_dialect_a_file_uses(text: str, legacy: bool, dialect: Dialect) -> None:
    assert dialect_of(parse(text, "train.yaml"), legacy=legacy) is dialect


def test_pynative_reads_the_first_entry_of_layer_swap_only() -> None:
    text = "swap: {enable: True, default_prefetch: 3, layer_swap: [{layers: ['0-1', 3]}, {layers: ['5']}]}"
    config, _ = from_document(parse(text, "train.yaml"))
    assert isinstance(config.swap, ListedSwap)
    assert [(entry.layers, entry.prefetch) for entry in config.swap.layer_swap] == [(LayerIndices((0, 1, 3)), 3)]
    assert config.dialect.prefetch_unit == "layers"


@pytest.mark.parametrize("ranges", ["['3', '3-4']", "['4', '1']", "['1-']", "['2-1']", "['-1']"])
def test_ranges_that_mindformers_refuses(ranges: str) -> None:
    _, findings = from_document(parse(f"recompute: {{mode: full, full_recompute_layer: {ranges}}}", "train.yaml"))
    assert [finding.rule for finding in findings] == ["bad-value"]


# --- what stays -----------------------------------------------------------------------------------------------------


def blocks(text: str) -> dict[str, str]:
    """The text of each top-level section, up to the next; comments and blank lines between two are left out."""
    parts = re.split(r"^(?=[\w]+:)", text, flags=re.MULTILINE)
    trimmed = [re.sub(r"(\n#[^\n]*|\n\s*)*\Z", "", part) for part in parts]
    return {part.partition(":")[0]: part for part in trimmed if part}


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: f"{file.parent.name}/{file.stem}")
@pytest.mark.parametrize("target", [Dialect.MCORE, Dialect.PYNATIVE])
def test_every_other_section_and_every_comment_stays_as_it_is(file: Path, target: Dialect) -> None:
    text = file.read_text(encoding="utf-8")
    written = done(text, target).text
    before, after = blocks(text), blocks(written)
    sections = {"swap_config", "recompute_config", "swap", "recompute", "recompute_comm"}
    for name in before.keys() - sections - {"model"}:
        assert after[name] == before[name]
    if target is Dialect.MCORE:
        assert [line for line in before["model"].splitlines() if line not in after["model"]] == []
    else:
        assert after["model"] == before["model"]
        names = {"swap_config": "swap", "recompute_config": "recompute"}
        assert [names.get(name, name) for name in before] == list(after)
    told = [comment for comment in comments(written.splitlines()) if comment != STALE]
    assert sorted(told) == sorted(comments(text.splitlines()))


def test_line_ends_stay_as_they_are() -> None:
    text = MCORE.replace("\n", "\r\n")
    assert done(text, Dialect.LEGACY).text == done(MCORE, Dialect.LEGACY).text.replace("\n", "\r\n")


def test_a_missing_line_end_at_the_end_of_the_file_does_no_harm() -> None:
    assert done(MCORE.rstrip("\n"), Dialect.LEGACY).text == done(MCORE, Dialect.LEGACY).text


@pytest.mark.parametrize(
    "text",
    [
        "{swap_config: {swap: True, layer_swap: []}, model: {model_config: {num_layers: 4}}}\n",
        "swap_config: &both\n  swap: True\n  layer_swap: []\nmodel: {model_config: {num_layers: 4, other: *both}}\n",
        "swap_config:\n  swap: True\n  layer_swap: []\nuse_legacy: False\nmodel: {model_config: {num_layers: 4}}\n",
    ],
)
def test_what_cannot_be_rewritten_line_by_line_is_refused(text: str) -> None:
    with pytest.raises(SwapconfError, match="migrate-layout"):
        done(text, Dialect.MCORE)


def test_a_section_that_is_merged_in_from_elsewhere_is_refused() -> None:
    text = (
        "use_legacy: False\nbase: &base\n  swap: True\n  layer_swap: []\n  other: 1\n"
        "model:\n  model_config:\n    <<: *base\n    num_layers: 4\n"
    )
    with pytest.raises(SwapconfError, match="would change another section"):
        done(text, Dialect.LEGACY)


def test_a_file_with_errors_is_refused_with_all_of_them() -> None:
    with pytest.raises(SwapconfError) as refused:
        done("swap_config: {swap: 1, op_swap: 5}\n", Dialect.PYNATIVE)
    assert [finding.rule for finding in refused.value.findings] == ["bad-type", "bad-type"]


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def train(tmp_path: Path) -> Path:
    file = tmp_path / "train.yaml"
    file.write_text((ROOT / "configs/llama2_7b/example2_layer_swap.yaml").read_text(encoding="utf-8"))
    return file


def test_nothing_is_written_where_something_is_lost(train: Path) -> None:
    before = train.read_text()
    ran = CliRunner().invoke(main, ["migrate", str(train), "--to", "pynative", "--in-place"])
    assert ran.exit_code == 1
    assert "cannot swap layer 3" in ran.output
    assert train.read_text() == before


def test_accepted_loss_is_written(train: Path) -> None:
    ran = CliRunner().invoke(main, ["migrate", str(train), "--to", "pynative", "--in-place", "--accept-loss"])
    assert ran.exit_code == 0
    assert CliRunner().invoke(main, ["check", str(train)]).exit_code == 1  # context.mode is still 0: said, and found
    assert "pynative-runtime" in CliRunner().invoke(main, ["check", str(train)]).output


def test_the_diff_leaves_the_file_alone(train: Path) -> None:
    before = train.read_text()
    ran = CliRunner().invoke(main, ["migrate", str(train), "--to", "mcore", "--diff"])
    assert "-swap_config:" in ran.output
    assert train.read_text() == before


def test_the_same_dialect_changes_nothing(train: Path) -> None:
    ran = CliRunner().invoke(main, ["migrate", str(train), "--to", "legacy", "--in-place"])
    assert ran.exit_code == 0
    assert "nothing to change" in ran.output


# --- writing --------------------------------------------------------------------------------------------------------


def test_permissions_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfold: 1\n")
    file.chmod(0o640)
    rewrite_text(file, "new: 1\r\n")
    assert file.read_bytes() == b"\xef\xbb\xbfnew: 1\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside.yaml", tmp_path / "folder"
    folder.mkdir()
    outside.write_text("old: 1\n")
    (folder / "link.yaml").symlink_to(outside)
    with pytest.raises(PermissionError, match="outside its folder"):
        rewrite_text(folder / "link.yaml", "new: 1\n")
    assert outside.read_text() == "old: 1\n"


def test_a_link_within_the_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("old: 1\n")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    rewrite_text(tmp_path / "link.yaml", "new: 1\n")
    assert (tmp_path / "link.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text() == "new: 1\n"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("old: 1\n")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        rewrite_text(file, "new: 1\n")
    assert file.read_text() == "old: 1\n"
    assert os.listdir(tmp_path) == ["a.yaml"]


# --- exclude_op, which mindformers 2.1.0 writes otherwise than 2.0.0 ------------------------------------------------

EXCLUDING = """\
model: {model_config: {num_layers: 4}}
swap_config: {swap: True, layer_swap: []}
recompute_config:
  select_recompute: {'attention': [0, 1, 2]}
  select_recompute_exclude: {'attention\\.wq': [1]}
"""


def to(target: Dialect, text: str, mindformers: str) -> Migration:
    return migrate(text, "train.yaml", MigrationOrder(target=target, versions=Versions(mindformers=mindformers)))


def test_exclusion_by_path_has_a_form_from_2_1_0_on_and_comes_back() -> None:
    made = to(Dialect.PYNATIVE, EXCLUDING, "2.1.0")
    assert told(made, Fate.LOST) == []
    assert "  exclude_op:\n    attention\\.wq: ['1']\n" in made.text
    assert any("is not recomputed in layer 1" in text for text in told(made, Fate.CARRIED))
    back = to(Dialect.LEGACY, made.text, "2.1.0").after
    assert [(entry.pattern, entry.layers) for entry in back.recompute.select_exclude] == [
        ("attention\\.wq", LayerIndices((1,)))
    ]


@pytest.mark.parametrize("mindformers", ["1.9.0", "2.0.0"])
def test_before_2_1_0_exclusion_by_path_is_lost_with_the_version_that_has_it(mindformers: str) -> None:
    made = to(Dialect.PYNATIVE, EXCLUDING, mindformers)
    (item,) = (item for item in made.items if item.fate is Fate.LOST)
    assert "no exclusion by path" in item.text
    assert "mindformers 2.1.0 takes paths there" in item.remedy
    assert "exclude_op" not in made.text


def test_the_form_of_the_other_version_is_refused() -> None:
    text = "model: {num_hidden_layers: 4}\nrecompute:\n  mode: full\n  full_recompute_layer: ['0-1']\n  exclude_op: "
    by_name, by_path = f"{text}[AllGather]\n", f"{text}{{'mlp': ['0']}}\n"
    for wrong, mindformers in ((by_path, "2.0.0"), (by_name, "2.1.0"), (by_name, "2.2.0")):
        with pytest.raises(SwapconfError, match="exclude_op: error: mindformers 2"):
            to(Dialect.LEGACY, wrong, mindformers)
    assert any(
        "by path, not by type (AllGather)" in text for text in told(to(Dialect.LEGACY, by_name, "2.0.0"), Fate.LOST)
    )
    assert to(Dialect.LEGACY, by_path, "2.1.0").after.recompute.select_exclude
