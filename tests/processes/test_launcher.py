"""scripts/msrun_launcher.sh, with an ``msrun`` on PATH that only writes down how it was called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

LAUNCHER = ROOT / "scripts" / "msrun_launcher.sh"
SCRIPT = str(ROOT / "scripts" / "run_mindformer.py")

FAKE_MSRUN = """#!/bin/sh
printf '%s\\0' "$@" > "$RECORD"
printf '%s' "${PYTHONPATH:-}" > "$RECORD.pythonpath"
printf '%s' "${FROM_SWAPCONF:-}" > "$RECORD.environment"
exit "${FAKE_MSRUN_EXIT:-0}"
"""


# Answers what the launcher asks swapconf for a dry run; the real answer needs mindspore.
FAKE_PYTHON = f"""#!/bin/sh
case "$*" in
  "-m swapconf dryrun --env --level 9") echo "Error: no such level" >&2; exit 1 ;;
  "-m swapconf dryrun --env --level"*) echo "export FROM_SWAPCONF='a b'"; exit ;;
esac
exec {sys.executable} "$@"
"""


def put_environment(folder: Path) -> Path:
    """A ``bin`` folder as an installed MindSpore would leave it: python and msrun."""
    folder.mkdir(parents=True)
    python = folder / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    msrun = folder / "msrun"
    msrun.write_text(FAKE_MSRUN)
    msrun.chmod(0o755)
    return folder


class Launch:
    """What one start of the launcher did."""

    def __init__(self, completed: subprocess.CompletedProcess[str], record: Path) -> None:
        self.code = completed.returncode
        self.stdout = completed.stdout
        self.stderr = completed.stderr
        self.argv = record.read_text().split("\0")[:-1] if record.exists() else None
        path_record = record.with_name("argv.pythonpath")
        self.pythonpath = path_record.read_text() if path_record.exists() else None
        environment_record = record.with_name("argv.environment")
        self.environment = environment_record.read_text() if environment_record.exists() else None

    @property
    def options(self) -> list[str]:
        """The options given to msrun itself, before the program it starts."""
        assert self.argv is not None
        program = next(i for i, word in enumerate(self.argv) if not word.startswith("--"))
        return self.argv[:program]

    @property
    def program(self) -> list[str]:
        assert self.argv is not None
        return self.argv[len(self.options) :]


class Launcher:
    """``launch(WORD...)`` starts the launcher in the folder ``work``."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.record = folder / "argv"
        self.path = f"{put_environment(folder / 'env' / 'bin')}:/usr/bin:/bin"

    def __call__(self, *args: str, path: str = "", **environment: str) -> Launch:
        completed = subprocess.run(
            ["/bin/bash", str(LAUNCHER), *args],
            cwd=self.work,
            env={"PATH": path or self.path, "RECORD": str(self.record), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return Launch(completed, self.record)


@pytest.fixture
def launch(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def test_one_argument_means_eight_workers_on_this_machine(launch: Launcher) -> None:
    assert launch("run_mindformer.py --config a.yaml").options == [
        "--worker_num=8",
        "--local_worker_num=8",
        "--master_port=8118",
        "--log_dir=output/msrun_log",
        "--join=False",
        "--cluster_time_out=7200",
    ]


def test_second_argument_is_the_number_of_workers(launch: Launcher) -> None:
    options = launch("run_mindformer.py", "4").options
    assert options[:2] == ["--worker_num=4", "--local_worker_num=4"]


def test_six_arguments_describe_one_machine(launch: Launcher) -> None:
    assert launch("run_mindformer.py", "2", "9000", "logs/a b", "True", "60").options == [
        "--worker_num=2",
        "--local_worker_num=2",
        "--master_port=9000",
        "--log_dir=logs/a b",
        "--join=True",
        "--cluster_time_out=60",
    ]


def test_nine_arguments_describe_several_machines(launch: Launcher) -> None:
    assert launch("run_mindformer.py", "16", "8", "10.0.0.1", "9000", "1", "logs", "False", "300").options == [
        "--worker_num=16",
        "--local_worker_num=8",
        "--master_port=9000",
        "--master_addr=10.0.0.1",
        "--node_rank=1",
        "--log_dir=logs",
        "--join=False",
        "--cluster_time_out=300",
    ]


@pytest.mark.parametrize("count", [0, 3, 4, 5, 7, 8, 10])
def test_any_other_number_of_arguments_prints_the_usage(launch: Launcher, count: int) -> None:
    result = launch(*["1"] * count)
    assert result.code == 1
    assert result.argv is None
    assert "Usage:" in result.stderr


@pytest.mark.parametrize(
    ("args", "culprit"),
    [
        (("eight",), "WORKER_NUM"),
        (("8", "port", "logs", "False", "300"), "MASTER_PORT"),
        (("8", "8118", "logs", "300", "False"), "CLUSTER_TIME_OUT"),
        (("8", "8118", "logs", "yes", "300"), "JOIN"),
        (("8", "8", "127.0.0.1", "8118", "first", "logs", "False", "300"), "NODE_RANK"),
    ],
)
def test_a_value_in_the_wrong_place_is_named(launch: Launcher, args: tuple[str, ...], culprit: str) -> None:
    result = launch("run_mindformer.py", *args)
    assert result.code == 1
    assert result.argv is None
    assert culprit in result.stderr


def test_the_script_runs_under_swapconf(launch: Launcher) -> None:
    result = launch("run_mindformer.py --config a.yaml", "1", PYTHONPATH="/elsewhere")
    assert result.program == ["python", "-m", "swapconf", "run", SCRIPT, "--config", "a.yaml"]
    assert result.pythonpath == f"{ROOT}:/elsewhere"


def test_swapconf_can_be_left_out(launch: Launcher) -> None:
    assert launch("run_mindformer.py --config a.yaml", "1", SWAPCONF_DISABLE="1").program == [
        SCRIPT,
        "--config",
        "a.yaml",
    ]


def test_a_script_in_the_working_folder_comes_first(launch: Launcher) -> None:
    (launch.work / "run_mindformer.py").touch()
    assert launch("run_mindformer.py").program[-1] == "run_mindformer.py"


def test_a_script_that_is_nowhere_is_named(launch: Launcher) -> None:
    result = launch("train.py --config a.yaml")
    assert result.code == 1
    assert result.argv is None
    assert "train.py" in result.stderr


def test_words_are_split_as_a_shell_would(launch: Launcher) -> None:
    command = """run_mindformer.py  --config 'my config.yaml' \\
        --swap_config.op_swap="[{op_name: 'attention', layers: [0, 1]}]" --a.b='.*\\.norm' --empty ''"""
    assert launch(command, "1").program[5:] == [
        "--config",
        "my config.yaml",
        "--swap_config.op_swap=[{op_name: 'attention', layers: [0, 1]}]",
        "--a.b=.*\\.norm",
        "--empty",
        "",
    ]


def test_nothing_in_the_command_is_executed_or_expanded(launch: Launcher) -> None:
    result = launch("run_mindformer.py --a $(touch pwned) `touch pwned` ; touch pwned & $HOME * > pwned", "1")
    assert result.program[5:] == [
        *("--a", "$(touch", "pwned)", "`touch", "pwned`", ";", "touch", "pwned", "&", "$HOME", "*", ">", "pwned")
    ]
    assert list(launch.work.iterdir()) == []


def test_an_open_quote_is_reported(launch: Launcher) -> None:
    result = launch("run_mindformer.py --config 'a.yaml")
    assert result.code == 1
    assert result.argv is None
    assert "No closing quotation" in result.stderr


def test_an_empty_command_prints_the_usage(launch: Launcher) -> None:
    result = launch("  ", "2")
    assert result.code == 1
    assert "Usage:" in result.stderr


def test_the_exit_code_is_that_of_msrun(launch: Launcher) -> None:
    assert launch("run_mindformer.py", "2", "8118", "logs", "True", "60", FAKE_MSRUN_EXIT="7").code == 7


def test_the_command_is_shown_so_that_it_can_be_pasted(launch: Launcher) -> None:
    result = launch("run_mindformer.py --config 'my config.yaml'", "1")
    assert "--config my\\ config.yaml" in result.stdout


def test_a_dry_run_tells_msrun_so(launch: Launcher) -> None:
    assert launch("run_mindformer.py", "8", MS_SIMULATION_LEVEL="1").options[-1] == "--sim_level=1"


def test_a_dry_run_gets_the_environment_that_swapconf_prepares(launch: Launcher) -> None:
    assert launch("run_mindformer.py", "8", MS_SIMULATION_LEVEL="1").environment == "a b"
    assert launch("run_mindformer.py", "8").environment == ""


def test_a_dry_run_that_cannot_be_prepared_starts_nothing(launch: Launcher) -> None:
    result = launch("run_mindformer.py", "8", MS_SIMULATION_LEVEL="9")
    assert result.code == 1
    assert "no such level" in result.stderr
    assert result.argv is None


def test_a_dry_run_of_one_rank(launch: Launcher) -> None:
    options = launch("run_mindformer.py", "8", MS_SIMULATION_LEVEL="1", RANK_ID="3").options
    assert options[-2:] == ["--sim_level=1", "--sim_rank_id=3"]


def test_a_real_run_ignores_a_left_over_rank(launch: Launcher) -> None:
    assert not any("sim_" in option for option in launch("run_mindformer.py", "8", RANK_ID="3").options)


def test_msrun_is_found_beside_the_interpreter(launch: Launcher, tmp_path: Path) -> None:
    elsewhere = put_environment(tmp_path / "elsewhere" / "bin")
    result = launch("run_mindformer.py", "1", path="/usr/bin:/bin", PYTHON=os.fspath(elsewhere / "python"))
    assert result.code == 0
    assert f"{elsewhere}/msrun" in result.stdout


def test_a_missing_msrun_is_reported(launch: Launcher) -> None:
    result = launch("run_mindformer.py", "1", path="/usr/bin:/bin")
    assert result.code == 1
    assert "msrun" in result.stderr
    assert "PYTHON" in result.stderr
