"""A pipe, a socket or a device in the place of a file is told, and nothing waits for it or reads it without end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swapconf.files import opening
from swapconf.files.opening import open_binary, read_bytes
from swapconf.study import settings
from tests.helpers import ROOT, invoke

CONFIG = "configs/small/example1_default_swap.yaml"
TRACE = Path("tests/traces/llama_l2_none")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may have 107 bytes
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


Make = Callable[[Path], None]
no_files = pytest.mark.parametrize("make", [_fifo, _socket, _device], ids=["pipe", "socket", "device"])


@pytest.fixture(autouse=True)
def _in_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def hangs(*_: object) -> None:
        raise AssertionError("it hangs")

    monkeypatch.chdir(ROOT)
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@no_files
def test_what_is_no_file_is_told_by_every_command_that_reads_a_yaml(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "x.yaml")
    for words in (
        ["check"],
        ["explain"],
        ["migrate", "--to", "pynative"],
        ["modeline", "--schema", "x.json"],
        ["whatif", TRACE, "--config"],
        ["verify", tmp_path, "--config"],
        ["compare"],
        ["dryrun"],
    ):
        result = invoke(*words, tmp_path / "x.yaml")
        assert result.exit_code == 2, (words, result.output)
        assert "not a file" in result.output, (words, result.output)


@no_files
def test_what_is_no_file_in_a_folder_is_passed_over_as_git_does(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "x.yaml")
    make(tmp_path / ".swapconf.toml")
    (tmp_path / ".git").mkdir()
    make(tmp_path / ".gitignore")
    shutil.copy(CONFIG, tmp_path / "y.yaml")
    result = invoke("check", tmp_path)
    assert result.exit_code == 0, result.output
    assert "1 file" in result.output


@no_files
def test_what_is_no_file_among_those_of_a_card_or_a_profile_is_told(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "card.json")
    assert "not a file" in invoke("timeline", TRACE, "--hardware", tmp_path / "card.json").output
    for name in ("kernel_details.csv", "op_statistic.csv", "trace_view.json"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        make(folder / name)
        result = invoke("timeline", TRACE, "--measured", folder)
        assert result.exit_code == 2
        assert "not a file" in result.output, result.output


@no_files
@pytest.mark.parametrize("name", ["memory_block.csv", "tracker_graph.ir", "execute_order.csv", "task.csv", "run.json"])
def test_what_is_no_file_in_a_trace_is_told_or_counts_as_absent(tmp_path: Path, make: Make, name: str) -> None:
    shutil.copytree(TRACE, tmp_path / "trace")
    (tmp_path / "trace" / name).unlink(missing_ok=True)
    make(tmp_path / "trace" / name)
    for command in ("memory", "timeline", "fragmentation"):
        result = invoke(command, tmp_path / "trace")
        if name == "run.json":
            assert result.exit_code == 0, result.output
        else:
            assert result.exit_code == 2
            assert "not a file" in result.output, result.output


@no_files
def test_what_is_no_file_among_logs_and_predictions_hangs_nothing(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "worker_0.log")
    make(tmp_path / "peaks.json")
    assert invoke("verify", tmp_path, "--config", CONFIG).exit_code == 2
    assert "not a file" in invoke("verify", tmp_path, "--config", CONFIG, "--predicted", tmp_path / "peaks.json").output


def test_what_the_shell_holds_open_is_still_read() -> None:
    command = f"{sys.executable} -m swapconf"
    for line in (
        f"{command} check /dev/stdin < {CONFIG}",
        f"cat {CONFIG} | {command} check /dev/stdin",
        f"{command} check <(cat {CONFIG})",
        f"{command} explain <(cat {CONFIG})",
    ):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, (line, done.stderr)


def test_what_the_shell_holds_open_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/zero", "rb") as zero:
        assert len(read_bytes(f"/dev/fd/{zero.fileno()}", 1000)) == 1001
        monkeypatch.setattr(opening, "MAX_STREAM_BYTES", 5000)
        with pytest.raises(OSError, match="more than 5,000 bytes"):
            open_binary(f"/proc/self/fd/{zero.fileno()}")
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    with open_binary(f"/dev/fd/{reader}") as stream:
        assert stream.read() == b"text"
    os.close(reader)


def test_a_file_opened_by_name_and_a_folder_are_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    with open_binary(tmp_path / "file") as stream:
        assert stream.read() == b"text"
        assert os.get_blocking(stream.fileno())
        assert not os.get_inheritable(stream.fileno())
    with pytest.raises(IsADirectoryError):
        open_binary(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_binary(tmp_path / "none")


def test_settings_that_are_huge_or_nested_without_end_are_a_finding(tmp_path: Path) -> None:
    for text, reason in (("#" * 2**21, "larger than"), ("a = " + "[" * 100_000, "recursion")):
        (tmp_path / ".swapconf.toml").write_text(text)
        found = settings.read(tmp_path / ".swapconf.toml", (), ())[1]
        assert [finding.rule for finding in found] == ["settings"]
        assert reason in found[0].message
