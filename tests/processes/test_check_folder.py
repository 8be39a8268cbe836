"""`swapconf check FOLDER`: which files, under which settings, and that many processes say the same as one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.checking.find import yaml_files
from swapconf.config.yaml_document import MAX_BYTES
from tests.helpers import ROOT, invoke

EXAMPLE = ROOT / "configs/llama2_7b/example2_layer_swap.yaml"
MODEL = "model: {model_config: {type: LlamaConfig, num_layers: 4}, arch: {type: LlamaForCausalLM}}\n"
WRONG = MODEL + "swap_config:\n  swap: True\n  op_swap: [{op_name: Attention, backward_prefetch: 2, layers: [0]}]\n"
SERVING = MODEL + "infer: {prefill_model_path: x}\n"


def run(*words: str | Path) -> Result:
    return invoke("check", *words)


def records(*words: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("--format", "json", *words).stdout)
    return found


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        assert (folder / name).is_relative_to(folder), f"{name} is outside"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def rules(found: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(Path(record["file"]).name, record["rule"]) for record in found}


# --- which files ------------------------------------------------------------------------------------------------------


def test_training_yamls_are_told_by_their_content(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "a/train.yaml": WRONG,
            "b.yml": WRONG,
            "c.txt": WRONG,
            "workflow.yaml": "on: push\njobs: {}\n",
            "serve.yaml": SERVING,
            "model_only.yaml": "model_config: 1\n",
            "list.yaml": "- swap_config\n",
            "broken.yaml": "swap_config: {\n",
            "other.yaml": "a: {model_config\n",
            "plain.yaml": MODEL + "trainer: {type: x}\nseed: 1\n",
            "balance.yaml": "pipeline_config: {pipeline_num: 2}\nrecompute_config: {recompute: [1, 2, 3]}\n",
            "native.yaml": "model: {a: 1}\ntraining: {}\nrecompute: True\n",
            "section.yaml": "recompute_config: {recompute: 1}\n",
        },
    )
    assert {name for name, _ in rules(records(tmp_path))} == {
        "train.yaml",
        "b.yml",
        "broken.yaml",
        "section.yaml",
        "native.yaml",
    }
    assert "in 6 files" in run(tmp_path).output


def test_a_file_that_is_named_is_checked_whatever_it_holds(tmp_path: Path) -> None:
    tree(tmp_path, {"list.yaml": "- swap_config\n"})
    assert rules(records(tmp_path / "list.yaml", tmp_path)) >= {("list.yaml", "yaml-not-mapping")}


def test_a_folder_without_training_yamls_is_told(tmp_path: Path) -> None:
    tree(tmp_path, {"a/workflow.yaml": "on: push\n", "b/train.yaml": MODEL + "trainer: {}\n"})
    assert rules(records(tmp_path / "a", tmp_path / "b")) == {("a", "no-training-yaml")}


def test_what_is_no_training_yaml_may_be_large_or_no_text(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "train.yaml": MODEL + "trainer: {}\n",
            "large.yaml": "kind: List\n" + "- a\n" * MAX_BYTES,
            "section.yaml": "swap_config: {}\n" + "#" * MAX_BYTES,
        },
    )
    (tmp_path / "latin.yaml").write_bytes("name: Müller\n".encode("latin-1"))
    assert rules(records(tmp_path)) == {("section.yaml", "yaml-too-large")}
    assert rules(records(tmp_path / "latin.yaml")) == {("latin.yaml", "yaml-encoding")}


def test_what_others_include_is_checked_with_them(tmp_path: Path) -> None:
    head = "base_config: [parts/model.yaml, parts/swap.yaml]\n"
    tree(
        tmp_path,
        {
            "one.yaml": head + "parallel_config: {pipeline_stage: 2}\n",
            "two.yaml": head + "parallel_config: {pipeline_stage: 1}\n",
            "parts/model.yaml": MODEL,
            "parts/swap.yaml": WRONG.removeprefix(MODEL),
            "grpo.yaml": "actor_config: {recompute_config: {recompute: [1, 1]}, parallel_config: {a: 1}}\n",
        },
    )
    found = [(Path(one["file"]).name, one["rule"]) for one in records(tmp_path)]
    assert found.count(("swap.yaml", "op-no-match")) == 1
    assert ("grpo.yaml", "recompute-count") in found
    assert "in 3 files" in run(tmp_path).output
    alone = records(tmp_path / "parts/swap.yaml")
    assert ("swap.yaml", "unknown-family") in rules(alone), "named, it is read as what it is"


def test_a_whole_training_yaml_that_others_include_is_checked_by_itself_too(tmp_path: Path) -> None:
    whole = WRONG + "parallel_config: {pipeline_stage: 2}\n"
    mended = "base_config: pretrain.yaml\nswap_config: {swap: False, op_swap: []}\n"
    tree(tmp_path, {"pretrain.yaml": whole, "finetune.yaml": mended})
    assert ("pretrain.yaml", "op-no-match") in rules(records(tmp_path))
    assert rules(records(tmp_path / "finetune.yaml")) == {("finetune.yaml", "swap-is-off")}


def test_a_file_is_checked_once(tmp_path: Path) -> None:
    tree(tmp_path, {"train.yaml": WRONG})
    assert len(records(tmp_path, tmp_path / "train.yaml")) == len(records(tmp_path))


NAMES = ("a", "b", "build", "x.yaml", "y.yaml", "keep.yaml")
PATTERNS = (
    "*.yaml",
    "!keep.yaml",
    "build/",
    "/a",
    "a/x.yaml",
    "b/**",
    "**/y.yaml",
    "!/b/keep.yaml",
    "x.*",
    "# none",
    "!a",
    "build/*",
    "!build/keep.yaml",
    "\\!x.yaml",
    "[xy].yaml ",
    "**",
    "a/**/x.yaml",
    "/**/b",
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=50)
@given(
    st.lists(st.lists(st.sampled_from(NAMES[:3]), max_size=2).map("/".join), min_size=1, max_size=4, unique=True),
    st.dictionaries(
        st.sampled_from(["", "a", "b", "a/b"]), st.lists(st.sampled_from(PATTERNS), max_size=4), max_size=3
    ),
    st.lists(st.sampled_from(PATTERNS), max_size=2),
)
def test_what_git_ignores_is_not_checked(
    tmp_path_factory: pytest.TempPathFactory, folders: list[str], ignores: dict[str, list[str]], own: list[str]
) -> None:
    top = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", top], check=True)
    tree(top, {str(Path(folder, name)): "a: 1\n" for folder in folders for name in NAMES[3:]})
    tree(top, {str(Path(folder, ".gitignore")): "\n".join(lines) + "\n" for folder, lines in ignores.items()})
    (top / ".git/info").mkdir(exist_ok=True)
    (top / ".git/info/exclude").write_text("\n".join(own) + "\n")
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=top,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = {name for name in listed.split("\0") if name.endswith(".yaml")}
    assert {str(Path(file).relative_to(top)) for file in yaml_files(str(top))} == expected


def test_nothing_is_found_in_an_ignored_folder(tmp_path: Path) -> None:
    tree(tmp_path, {".gitignore": "output/\n", "output/run/train.yaml": WRONG, "train.yaml": WRONG})
    (tmp_path / ".git").mkdir()
    assert list(yaml_files(str(tmp_path / "output" / "run"))) == []
    assert len(list(yaml_files(str(tmp_path)))) == 1


def test_an_ignore_file_counts_in_its_repository_only(tmp_path: Path) -> None:
    tree(tmp_path, {".gitignore": "*.yaml\n", "project/train.yaml": WRONG})
    assert len(list(yaml_files(str(tmp_path / "project")))) == 1
    (tmp_path / ".git").mkdir()
    assert list(yaml_files(str(tmp_path / "project"))) == []
    (tmp_path / "project" / ".git").mkdir()
    assert len(list(yaml_files(str(tmp_path / "project")))) == 1


# --- settings and comments --------------------------------------------------------------------------------------------


def test_settings_weigh_and_silence(tmp_path: Path) -> None:
    tree(tmp_path, {"train.yaml": WRONG, ".swapconf.toml": "[severity]\nop-no-match = 'note'\nmcore = 'off'\n"})
    assert run(tmp_path).exit_code == 0
    assert {r["severity"] for r in records(tmp_path) if r["rule"] == "op-no-match"} == {"note"}
    (tmp_path / "sub").mkdir()
    tree(tmp_path, {"sub/train.yaml": WRONG, "sub/.swapconf.toml": "[severity]\nop-no-match = 'off'\n"})
    assert not [r for r in records(tmp_path / "sub") if r["rule"] == "op-no-match"]


def test_wrong_settings_fail_the_check_once(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "a.yaml": MODEL + "trainer: {}\n",
            "b.yaml": MODEL + "trainer: {}\n",
            ".swapconf.toml": "mindspore = '2.9.0'\nseveritty = {}\n",
        },
    )
    found = records(tmp_path)
    assert [(r["rule"], r["line"], Path(r["file"]).name) for r in found] == [("settings", 2, ".swapconf.toml")]
    assert run(tmp_path).exit_code == 1


def test_a_family_of_ones_own_is_checked(tmp_path: Path) -> None:
    tree(tmp_path, {"train.yaml": WRONG.replace("LlamaConfig", "OwnConfig")})
    assert ("train.yaml", "unknown-family") in rules(records(tmp_path))
    tree(tmp_path, {".swapconf.toml": "families = {OwnConfig = 'llama'}\n"})
    assert ("train.yaml", "op-no-match") in rules(records(tmp_path))


def test_versions_of_the_settings_count_unless_given(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "train.yaml": WRONG.replace("Attention", "ffn_norm")
            + "recompute_config: {select_recompute: {feed_forward: [0]}}\n",
            ".swapconf.toml": "mindspore = '2.7.2'\n",
        },
    )
    assert "2.7.2" in run(tmp_path).stdout
    assert "2.7.2" not in run("--mindspore-version", "2.9.0", tmp_path).stdout


def test_a_comment_silences(tmp_path: Path) -> None:
    text = WRONG.replace("  op_swap:", "  # swapconf: ignore[op-no-match] renamed in the next release\n  op_swap:")
    tree(tmp_path, {"train.yaml": text})
    assert run(tmp_path).exit_code == 0


# --- many files -------------------------------------------------------------------------------------------------------


def test_processes_say_what_one_says(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    for number in range(60):
        odd = text.replace("layers: [", f"layers: [{number}, ", 1)
        (tmp_path / f"{number:02}.yaml").write_text(odd, encoding="utf-8")
    alone, together = run("--jobs", "1", tmp_path), run("--jobs", "2", tmp_path)
    assert alone.output == together.output
    assert "in 60 files" in alone.output


def test_a_report_can_go_to_a_file(tmp_path: Path) -> None:
    tree(tmp_path, {"train.yaml": WRONG})
    result = run(tmp_path, "--format", "sarif", "--output", tmp_path / "out.sarif")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert json.loads((tmp_path / "out.sarif").read_text())["version"] == "2.1.0"


def test_named_files_can_be_told_apart_as_well(tmp_path: Path) -> None:
    tree(tmp_path, {"train.yaml": WRONG, "list.yaml": "- a\n", "workflow.yaml": "on: push\n"})
    files = [tmp_path / name for name in ("train.yaml", "list.yaml", "workflow.yaml")]
    assert {name for name, _ in rules(records("--only-training", *files))} == {"train.yaml"}
    assert run("--only-training", *files[1:]).exit_code == 0
