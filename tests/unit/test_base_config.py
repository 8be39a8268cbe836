"""base_config: the files that a YAML includes are read as mindformers merges them, and findings point into them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.config import base_config, overrides
from swapconf.config.nodes import Document
from swapconf.config.rewriting import CannotRewrite
from swapconf.plan.written import write
from swapconf.study import handed_over
from swapconf.study.settings import NONE
from swapconf.study.study import Study, study_document, study_file
from swapconf.train.session import Session
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, SwapconfError

Written = Callable[[Mapping[str, str]], Path]

MODEL = "model: {arch: {type: LlamaForCausalLM}, model_config: {type: LlamaConfig, num_layers: 8}}\n"
SWAP = "swap_config:\n  swap: True\n  layer_swap:\n    - {backward_prefetch: 3, layers: [8]}\n"
TRAIN = {
    "train.yaml": "base_config: parts/model.yaml\nuse_parallel: True\nparallel_config: {pipeline_stage: 2}\n",
    "parts/model.yaml": "base_config: ['../context.yaml', swap.yaml]\n" + MODEL,
    "parts/swap.yaml": SWAP,
    "context.yaml": "context: {mode: 0, memory_optimize_level: O0}\n",
}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def make(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / "train.yaml"

    return make


def read(path: Path) -> Document:
    return base_config.of_file(path)


def plain(path: Path) -> Any:
    return read(path).root.plain()


def wrong(document: Document) -> list[Finding]:
    return [found for found in document.findings if found.rule == "base-config"]


def places(study: Study, above: Path) -> set[tuple[str, int, int, str]]:
    return {
        (os.path.relpath(found.origin.file, above), found.origin.line, found.origin.column, found.rule)
        for found in study.findings
    }


def invoked(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"SWAPCONF_LANG": "en"})


def test_a_path_means_the_folder_of_the_file_that_names_it(written: Written) -> None:
    document = read(written(TRAIN))
    assert set(document.root.entries) == {"context", "swap_config", "model", "use_parallel", "parallel_config"}
    assert not document.findings


def test_a_later_file_replaces_whole_sections_and_the_file_itself_is_merged_into_them(written: Written) -> None:
    merged = plain(
        written(
            {
                "train.yaml": "base_config: [a.yaml, b.yaml]\nx: {one: 10, inner: {c: 3}}\nz: 9\n",
                "a.yaml": "x: {one: 1, two: 2}\ny: {gone: 1}\n",
                "b.yaml": "y: {kept: 2}\nx: {inner: {a: 1, c: 2}, three: 3}\n",
            }
        )
    )
    assert merged == {"x": {"one": 10, "inner": {"a": 1, "c": 3}, "three": 3}, "y": {"kept": 2}, "z": 9}


def test_a_value_that_is_no_section_replaces_one_and_lists_are_not_joined(written: Written) -> None:
    merged = plain(
        written(
            {
                "train.yaml": "base_config: a.yaml\nx: {list: [3], off: False, none: null, kept: {}}\n",
                "a.yaml": "x: {list: [1, 2], off: {a: 1}, none: {b: 2}, kept: {c: 3}}\n",
            }
        )
    )
    assert merged == {"x": {"list": [3], "off": False, "none": None, "kept": {"c": 3}}}


@pytest.mark.parametrize("below", ["5", "a", "[1]", "''"])
def test_a_section_over_what_is_none_is_told_where_it_stands(written: Written, below: str) -> None:
    document = read(written({"train.yaml": "base_config: a.yaml\nx:\n  y: {z: 1}\n", "a.yaml": f"x: {{y: {below}}}\n"}))
    (found,) = wrong(document)
    assert (found.origin.line, found.origin.column, found.origin.path) == (3, 3, "x.y")
    assert "a.yaml" in found.message


@pytest.mark.parametrize(
    ("named", "line", "column"),
    [
        ("base_config: nowhere.yaml\n", 1, 14),
        ("base_config: [here.yaml, nowhere.yaml]\n", 1, 26),
        ("base_config: parts\n", 1, 14),
        ("base_config: 5\n", 1, 14),
        ("base_config: {a: b}\n", 1, 14),
        ("base_config: [here.yaml, null]\n", 1, 26),
        ('base_config: "here.yaml\\0"\n', 1, 14),
        ("base_config:\n", 1, 13),
        ("base_config: train.yaml\n", 1, 14),
    ],
)
def test_what_cannot_be_included_is_told_where_it_is_named(
    written: Written, named: str, line: int, column: int
) -> None:
    document = read(written({"train.yaml": named + "a: 1\n", "here.yaml": "b: 2\n", "parts/x.yaml": "c: 3\n"}))
    (found,) = wrong(document)
    assert (found.origin.line, found.origin.column) == (line, column)
    assert plain(Path(document.file))["a"] == 1


def test_files_that_include_each_other_end_where_the_first_is_named_again(written: Written) -> None:
    document = read(written({"train.yaml": "base_config: a.yaml\n", "a.yaml": "base_config: train.yaml\nx: 1\n"}))
    (found,) = wrong(document)
    assert Path(found.origin.file).name == "a.yaml"
    assert document.root.plain() == {"x": 1}


def test_one_file_may_be_included_on_two_ways(written: Written) -> None:
    files = {"a.yaml": "base_config: c.yaml\n", "b.yaml": "base_config: c.yaml\n", "c.yaml": "x: 1\n"}
    document = read(written({"train.yaml": "base_config: [a.yaml, b.yaml]\n", **files}))
    assert not document.findings
    assert [Path(one.file).name for one in document.included] == ["a.yaml", "c.yaml", "b.yaml"]


def test_files_without_end_are_refused_within_bounds(written: Written) -> None:
    names = [f"f{number}.yaml" for number in range(8)]
    files = {name: f"base_config: [{', '.join(names[number + 1 :])}]\n" for number, name in enumerate(names[:-1])}
    document = read(written({"train.yaml": f"base_config: [{', '.join(names)}]\n", **files, names[-1]: "x: 1\n"}))
    assert wrong(document)
    deep = {f"d{number}.yaml": f"base_config: d{number + 1}.yaml\n" for number in range(40)}
    (found,) = wrong(read(written({"train.yaml": "base_config: d0.yaml\n", **deep, "d40.yaml": "x: 1\n"})))
    assert "16 levels" in found.message
    large = {f"l{number}.yaml": "a: " + "x" * 90_000 for number in range(5)}
    (found,) = wrong(read(written({"train.yaml": f"base_config: [{', '.join(large)}]\n", **large})))
    assert found.origin.path == "base_config[4]"


def test_an_included_file_that_is_no_yaml_is_told_of_where_it_breaks(written: Written) -> None:
    document = read(written({"train.yaml": "base_config: a.yaml\nb: 1\n", "a.yaml": "x: 1\ny: [\n"}))
    (found,) = document.findings
    assert (Path(found.origin.file).name, found.rule) == ("a.yaml", "yaml-syntax")
    assert document.root.plain() == {"b": 1}


def test_pynative_training_reads_one_file(written: Written) -> None:
    document = read(written({"train.yaml": "base_config: a.yaml\ntraining: {steps: 1}\n", "a.yaml": "swap: {}\n"}))
    (found,) = wrong(document)
    assert (found.origin.line, found.origin.column) == (1, 1)


@pytest.mark.parametrize("given", ["base_configs: a.yaml\n", "base-config: [a.yaml, a.yaml]\n"])
def test_a_misspelt_key_is_told_of(written: Written, given: str) -> None:
    (found,) = read(written({"train.yaml": given + "a: 1\n", "a.yaml": "x: 1\n"})).findings
    assert (found.rule, found.origin.line, found.origin.column) == ("unknown-section", 1, 1)
    assert "`base_config`" in found.hint


def test_below_a_section_nothing_is_included(written: Written) -> None:
    (found,) = read(written({"train.yaml": "model:\n  base_config: a.yaml\n", "a.yaml": "x: 1\n"})).findings
    assert (found.rule, found.origin.path, found.origin.column) == ("section-misplaced", "model.base_config", 3)


def test_findings_point_into_the_included_file_and_comments_there_silence_them(
    written: Written, tmp_path: Path
) -> None:
    file = written(TRAIN)
    study = study_file(file, Versions(), {})
    assert places(study, tmp_path) == {("parts/swap.yaml", 4, 38, "layer-out-of-range")}
    silenced = SWAP.replace("[8]}", "[8]}  # swapconf: ignore[layer-out-of-range, op-no-match] to come")
    written({**TRAIN, "parts/swap.yaml": silenced})
    assert not study_file(file, Versions(), {}).findings, "nor is the unused rule told: others may include the file"


def test_another_file_is_named_beside_its_line(written: Written) -> None:
    own = "swap: {enable: True, default_prefetch: 1, op_swap: [{op_name: mlp, layers: ['0']}]}\n"
    file = written({"train.yaml": f"base_config: a.yaml\n{own}", "a.yaml": "b: 1\nrecompute_config: {}\n"})
    (found,) = [one for one in study_file(file, Versions(), {}).findings if one.rule == "two-dialects"]
    assert f"line 2 ({file.with_name('a.yaml')})" in found.message


def test_overrides_hold_over_what_is_included(written: Written) -> None:
    file = written(TRAIN)
    assert invoked("check", file).exit_code == 1
    assert invoked("check", file, "--set", "swap_config.swap=False").exit_code == 0
    document = overrides.read(["--config", str(file), "--swap_config.swap", "False"])
    assert document is not None
    assert not study_document(document, Versions(), {}).config.swap_on


def test_the_run_decides_what_the_check_says(written: Written, tmp_path: Path) -> None:
    file = written(TRAIN)
    session = Session(read(file))
    with pytest.raises(SwapconfError) as error:
        session.review(plain(file))
    told = {(found.origin.file, found.origin.line, found.rule) for found in error.value.findings}
    assert told == {(str(tmp_path / "parts/swap.yaml"), 4, "layer-out-of-range")}


def test_the_child_of_a_dry_run_has_the_places_without_the_files(written: Written, tmp_path: Path) -> None:
    file = written(TRAIN)
    handed_over.write(tmp_path / handed_over.FILE, read(file), NONE)
    made = base_config.of_text(yaml.safe_dump(plain(file)), "copy.yaml")
    for name in TRAIN:
        (tmp_path / name).unlink()
    document, _ = handed_over.read(tmp_path / handed_over.FILE, made)
    assert places(study_document(document, Versions(), {}), tmp_path) == {
        ("parts/swap.yaml", 4, 38, "layer-out-of-range")
    }


def test_a_source_without_its_included_files_is_read_as_far_as_it_goes(written: Written, tmp_path: Path) -> None:
    file = written(TRAIN)
    handed_over.write(tmp_path / handed_over.FILE, read(file), NONE)
    source = json.loads((tmp_path / handed_over.FILE).read_text())
    (tmp_path / handed_over.FILE).write_text(json.dumps({**source, "included": None}))
    document, _ = handed_over.read(tmp_path / handed_over.FILE, base_config.of_text("a: 1\n", "copy.yaml"))
    assert document.root.plain() == {"a": 1}


# --- writing it back ------------------------------------------------------------------------------------------------


def planned(file: Path, asks: str) -> str:
    made = study_document(base_config.of_text(MODEL + asks, "made.yaml"), Versions(), {}).config
    return write(file.read_text(), read(file), made, "for a test")


def test_a_plan_is_written_over_what_is_included(written: Written) -> None:
    file = written(TRAIN)
    text = planned(file, SWAP.replace("[8]", "[2]"))
    again = base_config.of_text(text, str(file)).root.plain()
    assert isinstance(again, dict)
    assert again["swap_config"] == {"swap": True, "layer_swap": [{"backward_prefetch": 3, "layers": [2]}]}
    assert "parts/model.yaml" in text
    assert "num_layers" not in text


def test_what_stands_in_an_included_mapping_cannot_be_written_away(written: Written) -> None:
    recompute = "recompute_config: {select_recompute: {'feed_forward': True}}\n"
    file = written({"train.yaml": "base_config: a.yaml\n", "a.yaml": MODEL + recompute})
    with pytest.raises(CannotRewrite) as error:
        planned(file, recompute.replace("feed_forward", "attention"))
    assert "a.yaml" in str(error.value)


def test_a_migration_names_the_file_that_holds_the_sections(written: Written) -> None:
    done = invoked("migrate", written(TRAIN), "--to", "pynative")
    assert done.exit_code == 2
    assert "swap.yaml" in done.output


def test_repairs_stay_in_the_file_itself(written: Written, tmp_path: Path) -> None:
    swap = SWAP.replace("[8]", "[1]") + "  default_prefetch: 3\n"
    file = written({**TRAIN, "parts/swap.yaml": swap})
    assert "default-prefetch-ignored" in invoked("check", file).output
    assert invoked("check", file, "--fix", "--yes").exit_code == 0
    assert (tmp_path / "parts/swap.yaml").read_text() == swap
    assert file.read_text() == TRAIN["train.yaml"]
