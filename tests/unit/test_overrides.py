from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.config import overrides
from swapconf.words.findings import SwapconfError
from tests.helpers import EXAMPLE

YAML = "use_parallel: False\nswap_config:\n  swap: True\n  default_prefetch: 3\ncontext: {mode: 0}\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "train.yaml"
    path.write_text(YAML)
    return str(path)


def test_no_config_no_document() -> None:
    assert overrides.read(["--run_mode", "train"]) is None


def test_overrides_in_both_forms_keep_the_places_of_the_file(file: str) -> None:
    document = overrides.read(
        [
            "--config",
            file,
            "--swap_config.default_prefetch=20",
            "--context.mode",
            "1",
            "--use_parallel",
            "True",
            "--swap_config.op_swap",
            "[{op_name: a, backward_prefetch: 1, layers: [0]}]",
        ]
    )
    assert document is not None
    assert document.root.plain() == {
        "use_parallel": True,
        "context": {"mode": 1},
        "swap_config": {
            "swap": True,
            "default_prefetch": 20,
            "op_swap": [{"op_name": "a", "backward_prefetch": 1, "layers": [0]}],
        },
    }
    assert document.root.entries["swap_config"].value.entries["default_prefetch"].line == 4


def test_what_the_script_has_to_judge_is_left_alone(file: str) -> None:
    words = [f"--config={file}", "--epochs", "3", "--a.b.c=1", "--swap_config.swap=[", "positional", "--last"]
    document = overrides.read(words)
    assert document is not None
    assert document.root.plain()["swap_config"] == {"swap": True, "default_prefetch": 3}  # type: ignore[index,call-overload]


def test_a_missing_file_is_a_finding() -> None:
    with pytest.raises(SwapconfError):
        overrides.read(["--config", "missing.yaml"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("swap_config.swap", "gives no value; write A.B.C=VALUE"),
        ("=1", "has an empty name before the `=`"),
        ("swap_config.=1", "has an empty name before the `=`"),
        ("swap_config..swap=1", "has an empty name before the `=`"),
        ("swap_conf.swap=True", "the file has no section `swap_conf`; `swap_config` was probably meant"),
        ("nowhere.swap=True", "the file has no section `nowhere`; it has swap_config, context"),
        ("context.ascend.level=1", "the file has no section `context.ascend`; there is none at that place"),
        ("context.mode.level=1", "`context.mode` is no section but a single value; set it as a whole"),
        ("swap_config.swop=", "the file has no key `swap_config.swop` to leave out; `swap` was probably meant"),
        ("swap_config.swap=[", "the value cannot be read: not valid YAML"),
        (
            "swap_config.swap=!!python/name:os.system",
            "the value cannot be read: mindformers' safe loader refuses the tag",
        ),
    ],
)
def test_a_change_that_cannot_be_made_is_told_precisely(file: str, change: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"^'") as caught:
        overrides.read(["--config", file], [change])
    assert told in str(caught.value)


def test_without_a_value_a_key_is_left_out(file: str) -> None:
    document = overrides.read(["--config", file], ["swap_config.default_prefetch="])
    assert document is not None
    assert document.root.plain()["swap_config"] == {"swap": True}  # type: ignore[index,call-overload]


def test_an_option_of_its_own_leaves_keys_out(file: str) -> None:
    asked = ["check", file, "--unset", "swap_config.default_prefetch", "--set", "swap_config.swap=[1]"]
    told = CliRunner().invoke(main, asked)
    assert "swap_config.swap: error" in told.output
    assert CliRunner().invoke(main, ["check", file, "--unset", "nothing"]).exit_code == 2


def test_a_change_may_add_a_key_and_a_section_as_a_whole(file: str) -> None:
    document = overrides.read(["--config", file], ["swap_config.new=1", "recompute_config={recompute: [0]}"])
    assert document is not None
    values = document.root.plain()
    assert isinstance(values, dict)
    assert values["recompute_config"] == {"recompute": [0]}
    assert values["swap_config"] == {"swap": True, "default_prefetch": 3, "new": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-06", 1e-06),
        ("-2E5", -2e5),
        ("[1e-6, {eps: 1.5e8}]", [1e-6, {"eps": 1.5e8}]),
        ("'1e-6'", "1e-6"),
        ("1e-6x", "1e-6x"),
        ("e5", "e5"),
        ("08", "08"),
    ],
)
def test_a_power_of_ten_on_the_command_line_is_a_number_as_for_mindformers_own_script(
    file: str, text: str, value: object
) -> None:
    for words, changes in (([], [f"context.eps={text}"]), ([f"--context.eps={text}"], [])):
        document = overrides.read(["--config", file, *words], changes)
        assert document is not None
        assert document.root.plain()["context"] == {"mode": 0, "eps": value}  # type: ignore[index,call-overload]


def test_in_a_file_it_is_text_as_for_mindformers(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(YAML + "eps: 1e-6\n")
    changed = overrides.of_file(str(tmp_path / "train.yaml"), ["context.eps=1e-6"])
    assert changed.root.plain()["eps"] == "1e-6"  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("words", "changes"), [(["--recompute_config.recompute=[0]"], []), ([], ["recompute_config.recompute=[0]"])]
)
def test_an_override_makes_the_section_that_the_file_lacks_as_mindformers_does(
    file: str, words: list[str], changes: list[str]
) -> None:
    document = overrides.read(["--config", file, *words], changes)
    assert document is not None
    assert document.root.plain()["recompute_config"] == {"recompute": [0]}  # type: ignore[index,call-overload]


def test_an_override_makes_the_section_of_the_form_that_the_yaml_has(tmp_path: Path) -> None:
    native = tmp_path / "native.yaml"
    native.write_text("training: {local_batch_size: 1}\n")
    document = overrides.read(["--config", str(native)], ["recompute.mode=full", "swap.enable=True"])
    assert document is not None
    assert document.root.plain()["recompute"] == {"mode": "full"}  # type: ignore[index,call-overload]
    with pytest.raises(ValueError, match="no section `recomputes`; `recompute` was probably meant"):
        overrides.read(["--config", str(native)], ["recomputes.mode=full"])


def test_of_a_section_that_is_not_there_nothing_is_left_out(file: str) -> None:
    with pytest.raises(ValueError, match="the file has no section `recompute_config`"):
        overrides.read(["--config", file], ["recompute_config.recompute="])


def test_where_nothing_is_asked_for_no_log_lines_are_expected(tmp_path: Path) -> None:
    plain = "swap_config.swap=False", "swap_config.default_prefetch="
    told = CliRunner().invoke(main, ["explain", str(EXAMPLE), *(word for one in plain for word in ("--set", one))])
    assert "No log lines to expect" in told.output
    assert "Log lines to expect:" not in told.output


def test_an_override_of_nearly_our_section_starts_nothing(file: str) -> None:
    with pytest.raises(ValueError, match="no section `swap_conf`; `swap_config` was probably meant"):
        overrides.read(["--config", file, "--swap_conf.swap=True"])
    script = Path(file).with_name("script.py")
    script.write_text("print('started')")
    result = CliRunner().invoke(main, ["run", str(script), "--config", file, "--swap_conf.swap=True"])
    assert result.exit_code == 2
    assert "`swap_config` was probably meant" in result.output
    assert "started" not in result.output


def test_what_the_reading_found_is_still_told_after_an_override(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text(YAML + "use_parallel: True\n")
    document = overrides.read(["--config", str(tmp_path / "twice.yaml")], ["context.mode=1"])
    assert document is not None
    assert [finding.rule for finding in document.findings] == ["yaml-duplicate-key"]
