"""scripts/run_mindformer.py: its command line, without MindSpore."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import run_mindformer
from run_mindformer import OverrideError

from tests.helpers import ROOT

SCRIPT = ROOT / "scripts" / "run_mindformer.py"


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["--a.b.c=1"], ("a", "b", "c"), 1),
        (["--a.b.c", "1"], ("a", "b", "c"), 1),
        (["--a.b", "-1"], ("a", "b"), -1),
        (["--a=True"], ("a",), True),
        (["--a=x=y"], ("a",), "x=y"),
        (["--a="], ("a",), None),
        (["--a=two words"], ("a",), "two words"),
        (["--a=[0, 3]"], ("a",), [0, 3]),
        (["--a={b: [1]}"], ("a",), {"b": [1]}),
        (
            ["--swap_config.op_swap", "[{op_name: 'attention', backward_prefetch: 5, layers: [0]}]"],
            ("swap_config", "op_swap"),
            [{"op_name": "attention", "backward_prefetch": 5, "layers": [0]}],
        ),
        ([r"--a='.*\.norm'"], ("a",), r".*\.norm"),
        (["--optimizer.eps=1e-06"], ("optimizer", "eps"), 1e-06),
        (["--optimizer.eps", "'1e-06'"], ("optimizer", "eps"), "1e-06"),
    ],
)
def test_an_override_is_a_path_and_a_yaml_value(words: list[str], path: tuple[str, ...], value: Any) -> None:
    assert run_mindformer.parse_overrides(words) == [(words[0].partition("=")[0], path, value)]


def test_overrides_keep_their_order() -> None:
    overrides = run_mindformer.parse_overrides(["--a=1", "--b", "2", "--a=3"])
    assert [(path, value) for _, path, value in overrides] == [(("a",), 1), (("b",), 2), (("a",), 3)]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["a.b=1"], "a.b=1"),
        (["-a.b=1"], "-a.b=1"),
        (["--a=1", "2"], "2"),
        (["--a.b"], "--a.b"),
        (["--a.b", "--c=1"], "--a.b"),
        (["--a..b=1"], "--a..b"),
        (["--=1"], "--"),
        (["--a.b=[1"], "--a.b"),
        (["--a.b={c: d: e}"], "--a.b"),
        (["--a.b=!!python/object/apply:os.getcwd []"], "--a.b"),
    ],
)
def test_a_malformed_override_is_refused_by_name(words: list[str], named: str) -> None:
    with pytest.raises(OverrideError) as refusal:
        run_mindformer.parse_overrides(words)
    assert str(refusal.value).startswith(f"{named}:")


def config() -> dict[str, Any]:
    return {
        "seed": 0,
        "swap_config": {"swap": False, "op_swap": None},
        "model": {"model_config": {"num_layers": 4}},
        "callbacks": [{"type": "MFLossMonitor"}],
    }


@pytest.mark.parametrize(
    "path",
    [
        ("seed",),
        ("swap_config", "op_swap"),
        ("model", "model_config", "num_layers"),
        ("model", "model_config", "use_rope_slice"),  # a model has more settings than any YAML spells out
        ("swap_config",),
    ],
)
def test_an_override_sets_its_key_and_nothing_else(path: tuple[str, ...]) -> None:
    changed = config()
    run_mindformer.apply_override(changed, "--x", path, "new")
    expected = config()
    node = expected
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = "new"
    assert changed == expected


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (("sede",), "has no sede; did you mean seed?"),
        (("swap_config", "op_swpa"), "has no swap_config.op_swpa; did you mean op_swap?"),
        (("nothing_like_it",), "has no nothing_like_it"),
        (("swap", "op_swap"), "has no swap"),
        (("model", "config", "num_layers"), "has no model.config"),
        (("seed", "x"), "seed is no mapping but of type int"),
        (("callbacks", "0"), "callbacks is no mapping but of type list"),
        (("swap_config", "op_swap", "x"), "swap_config.op_swap is no mapping but of type NoneType"),
    ],
)
def test_an_override_of_something_that_is_not_there_is_refused_by_name(path: tuple[str, ...], reason: str) -> None:
    unchanged = config()
    option = "--" + ".".join(path)
    with pytest.raises(OverrideError, match="^" + option) as refusal:
        run_mindformer.apply_override(unchanged, option, path, 1)
    assert reason in str(refusal.value)
    assert unchanged == config()


def parse(*words: str) -> tuple[argparse.Namespace, list[str]]:
    return run_mindformer.make_parser().parse_known_args(["--config", "a.yaml", *words])


def test_named_options_stand_for_overrides() -> None:
    args, rest = parse("--run_mode", "train", "--use_parallel", "True", "--epochs=2", "--train_dataset_dir", "1: 2")
    assert rest == []
    assert run_mindformer.named_overrides(args) == [
        ("--run_mode", ("run_mode",), "train"),
        ("--train_dataset_dir", ("train_dataset", "data_loader", "dataset_dir"), "1: 2"),
        ("--use_parallel", ("use_parallel",), True),
        ("--epochs", ("runner_config", "epochs"), 2),
    ]


def test_the_other_arguments_stay_overrides() -> None:
    _, rest = parse("--a.b", "-1", "--run_mode", "train", "--c.d=[{e: f}]", "--g.h", "i j")
    assert rest == ["--a.b", "-1", "--c.d=[{e: f}]", "--g.h", "i j"]


def test_an_option_is_never_abbreviated() -> None:
    args, rest = parse("--see=1")
    assert args.seed is None
    assert rest == ["--see=1"]


@pytest.mark.parametrize(("text", "value"), [("True", True), ("false", False), ("yes", True)])
def test_build_only_is_a_boolean(text: str, value: bool) -> None:
    args, _ = parse("--build_only", text)
    assert args.build_only is value


def test_build_only_refuses_anything_else() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="maybe"):
        run_mindformer._read_bool("maybe")


def test_register_path_is_made_importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGISTER_PATH", "")  # so that the old value comes back afterwards
    (tmp_path / "research").mkdir()
    for _ in range(2):
        run_mindformer.register_external_code("research")
    folder = str((tmp_path / "research").resolve())
    assert os.environ["REGISTER_PATH"] == folder
    assert sys.path.count(folder) == 1


def run_script(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the script where importing mindspore or mindformers fails."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import runpy, sys; sys.modules.update(mindspore=None, mindformers=None);"
            " sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
            str(SCRIPT),
            *args,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_needs_no_mindspore() -> None:
    result = run_script("--help")
    assert result.returncode == 0
    assert "--register_path" in result.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "--config"),
        (("--config", "no such file.yaml"), "no such file.yaml"),
        (("--config", __file__, "--a.b"), "--a.b: a value is missing"),
        (("--config", __file__, "--epochs", "[1"), "--epochs: '[1' is not YAML"),
    ],
)
def test_wrong_arguments_are_refused_before_mindspore_is_imported(args: tuple[str, ...], message: str) -> None:
    result = run_script(*args)
    assert result.returncode == 2
    assert message in result.stderr
