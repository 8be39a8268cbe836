"""In which language swapconf speaks: the option, the variable, the locale."""

from __future__ import annotations

import io
import subprocess

import pytest
from click.testing import CliRunner

from swapconf.cli.language import of_environment
from swapconf.cli.main import main
from tests.helpers import ROOT
from tests.processes.terminal import PROGRAM, environment, piped

UTF_8 = io.TextIOWrapper(io.BytesIO(), "utf-8")


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "zh_CN.UTF-8", "LANG": "C"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_MESSAGES": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "zh"),
        ({"LC_CTYPE": "zh_CN.UTF-8"}, "en"),
        ({"SWAPCONF_LANG": "zh"}, "zh"),
        ({"SWAPCONF_LANG": "zh", "LC_ALL": "C"}, "zh"),
        ({"SWAPCONF_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"SWAPCONF_LANG": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"SWAPCONF_LANG": "xx", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"SWAPCONF_LANG": "xx"}, "en"),
    ],
)
def test_the_environment_decides(variables: dict[str, str], language: str) -> None:
    assert of_environment(variables, UTF_8) == language


def test_a_locale_does_not_ask_for_what_the_stream_cannot_show() -> None:
    locale = {"LANG": "zh_CN.UTF-8"}
    assert of_environment(locale, io.TextIOWrapper(io.BytesIO(), "ascii")) == "en"
    assert of_environment(locale, io.TextIOWrapper(io.BytesIO(), "latin-1")) == "en"
    assert of_environment(locale, io.TextIOWrapper(io.BytesIO(), "gb18030")) == "zh"
    assert of_environment(locale, None) == "en"
    assert of_environment({"SWAPCONF_LANG": "zh"}, io.TextIOWrapper(io.BytesIO(), "ascii")) == "zh"


SOUND = "configs/llama2_7b/example3_op_swap.yaml"
ENGLISH, CHINESE = "nothing found in 1 file\n", "在1个文件中没有发现问题\n"


@pytest.mark.parametrize(
    ("words", "variables", "expected"),
    [
        (["--lang", "zh", "check", SOUND], {}, CHINESE),
        (["check", SOUND, "--lang", "zh"], {}, CHINESE),
        (["check", "--lang=zh", SOUND], {}, CHINESE),
        (["check", SOUND], {}, ENGLISH),
        (["check", SOUND, "--lang", "en"], {"SWAPCONF_LANG": "zh"}, ENGLISH),
        (["--lang", "zh", "check", SOUND, "--lang", "en"], {}, ENGLISH),
        (["--lang", "zh", "check", SOUND], {"LC_ALL": "C"}, CHINESE),
        (["check", SOUND], {"LC_ALL": "C"}, ENGLISH),
        (["check", SOUND], {"LC_ALL": "zh_CN.UTF-8", "PYTHONIOENCODING": "utf-8"}, CHINESE),
        (["check", SOUND], {"LC_ALL": "zh_CN.UTF-8", "PYTHONIOENCODING": "ascii"}, ENGLISH),
        (["check", SOUND], {"SWAPCONF_LANG": "xx"}, ENGLISH),
        (["check", SOUND], {"SWAPCONF_LANG": "zh"}, CHINESE),
    ],
)
def test_the_option_wins_over_the_variable_and_the_variable_over_the_locale(
    words: list[str], variables: dict[str, str], expected: str
) -> None:
    settings = {"PYTHONIOENCODING": "utf-8", **variables}
    assert piped(*words, **settings).stderr.decode() == expected


def test_one_call_does_not_decide_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert CliRunner().invoke(main, ["check", SOUND, "--lang", "zh"]).stderr == CHINESE
    assert CliRunner().invoke(main, ["check", SOUND]).stderr == ENGLISH


def test_another_language_is_refused() -> None:
    result = CliRunner().invoke(main, ["--lang", "xx", "check", SOUND])
    assert result.exit_code == 2
    assert "'xx' is not one of 'en', 'zh'" in result.stderr


def test_what_follows_run_is_the_scripts(tmp_path: object) -> None:
    script = f"{tmp_path}/script.py"
    with open(script, "w", encoding="utf-8") as stream:
        stream.write("import sys\nprint(sys.argv[1:])\n")
    code = "from swapconf.train import session; session.install = print; from swapconf.cli.main import main; main()"
    words = ["--lang", "zh", "--help"]
    done = subprocess.run(
        [PROGRAM[0], "-c", code, "run", script, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == str(words)
