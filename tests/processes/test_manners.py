"""What a command line owes its user: exit codes, interrupts, closed pipes, colours, widths, encodings."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapconf.cli.main import COMMANDS, main
from tests.helpers import ROOT, heed_ctrl_c
from tests.processes.terminal import COLOUR, ESCAPE, PROGRAM, environment, on_terminal, piped

GOOD = "configs/llama2_7b/example4_swap_with_recompute.yaml"
SMALL = "configs/small/example2_layer_swap.yaml"
BAD = "docs/mistakes.yaml"
BROKEN = "tests/examples/broken_yaml.yaml"
NONE, SWAP = "tests/traces/llama_l2_none", "tests/traces/llama_l2_layerswap_n1"
OF_TRACES = "tests/traces/llama.yaml"
ASK = f"whatif {NONE}"
OOM = "tests/oom/mindnlp-1761.log"
PLAN = f"plan {OF_TRACES} --from {NONE}"

# {tmp}: an empty folder; {bare}: a YAML without layers; {logs}: logs of a rank that say nothing; {locked}: no folder
CASES = [
    ("--help", 0),
    ("--version", 0),
    ("", 2),
    ("--nope", 2),
    ("nope", 2),
    (f"check {GOOD}", 0),
    (f"check {BAD}", 1),
    (f"check {GOOD} --output {{locked}}/x", 2),
    (f"check {BROKEN}", 2),
    ("check {tmp}/missing.yaml", 2),
    ("check", 2),
    ("check {warned}", 0),
    ("check --strict {warned}", 1),
    (f"explain {GOOD}", 0),
    (f"explain {BAD}", 1),
    (f"explain {GOOD} --layer 9", 2),
    ("explain {bare}", 2),
    (f"explain {BROKEN}", 2),
    ("migrate {plain} --to pynative", 0),
    (f"migrate {GOOD} --to pynative --diff", 1),
    (f"migrate {GOOD} --to pynative --accept-loss", 0),
    (f"migrate {GOOD} --to pynative --out {{locked}}/x --accept-loss", 2),
    (f"migrate {BROKEN} --to mcore", 2),
    ("rules", 0),
    ("rules op-no-match", 0),
    ("rules nope", 2),
    ("families", 0),
    ("families nope", 2),
    (f"dryrun {BAD}", 1),
    (f"dryrun {BROKEN}", 2),
    ("dryrun", 2),
    (f"dryrun {SMALL} --budget much", 2),
    (f"compare {NONE} {SWAP}", 0),
    (f"compare {BAD}", 1),
    (f"compare {BROKEN}", 2),
    ("compare {tmp}", 2),
    (f"compare {NONE} {SWAP} --html {{locked}}/x", 2),
    (f"memory {NONE}", 0),
    ("memory {tmp}", 2),
    (f"memory {NONE} --html {{locked}}/x", 2),
    (f"{ASK} --config {OF_TRACES}", 0),
    (f"{ASK} --config {BROKEN}", 2),
    (f"{ASK} --config {BAD}", 1),
    (f"whatif {SWAP} --config {OF_TRACES}", 2),
    (f"{ASK} --config {SMALL}", 2),
    (f"{ASK} --config {OF_TRACES} --set 'swap_config.layer_swap=[{{{{backward_prefetch: 400, layers: True}}}}]'", 1),
    (f"{PLAN} --budget 1TB", 0),
    (f"{PLAN} --budget 1MB --effort 0.05", 3),
    (f"{PLAN} --budget much", 2),
    (f"plan {BROKEN} --from {NONE} --budget 1GB", 2),
    (f"layout {BAD} --cards 8 --budget 1GB --hardware generic", 1),
    (f"layout {BROKEN} --cards 8 --budget 1GB --hardware generic", 2),
    (f"plan {BAD} --from {NONE} --budget 1GB", 1),
    (f"fragmentation {NONE}", 0),
    ("fragmentation {tmp}", 2),
    (f"fragmentation {NONE} --confirm {BROKEN}", 2),
    (f"timeline {SWAP}", 0),
    (f"timeline {SWAP} --host-memory 1KB", 1),
    (f"timeline {SWAP} --hardware nope", 2),
    (f"timeline {SWAP} --trace-view {{locked}}/x", 2),
    ("timeline {tmp}", 2),
    ("calibrate {measured} --hardware ascend_910b2 -o {tmp}/mine.json", 0),
    ("calibrate {tmp} --hardware ascend_910b2 -o {tmp}/mine.json", 2),
    ("calibrate {plain} --hardware ascend_910b2 -o {tmp}/mine.json", 2),
    ("calibrate {measured} --hardware nope -o {tmp}/mine.json", 2),
    ("calibrate {measured} --hardware ascend_910b2 -o {locked}/x", 2),
    ("run {script} 0", 0),
    ("run {script} 7", 7),
    (f"run {{script}} --config {BAD}", 1),
    ("run {tmp}/missing.py", 2),
    (f"run {{script}} --config {BROKEN}", 2),
    ("register-path", 0),
    ("register-path nope", 2),
    (f"verify {{logs}} --config {SMALL}", 1),
    (f"verify {{tmp}} --config {SMALL}", 2),
    (f"verify {{logs}} --config {BROKEN}", 2),
    ("verify {logs} --config {bare}", 2),
    (f"oom {OOM}", 0),
    ("oom {logs}", 1),
    (f"oom {OOM} --config {BAD}", 1),
    ("oom {tmp}/missing.log", 2),
    ("oom {tmp}", 2),
    (f"oom {OOM} --config {BROKEN}", 2),
    (f"oom {OOM} --from {NONE}", 2),
    (f"oom {OOM} --budget much", 2),
    (f"oom {OOM} --config {OF_TRACES} --from {NONE} --budget 1TB", 0),
    (f"oom {OOM} --config {OF_TRACES} --from {NONE} --budget 1MB", 3),
    ("schema", 0),
    ("schema --write {locked}", 2),
    ("schema nope", 2),
    ("modeline {bare} --schema s.json", 0),
    ("modeline {tmp}/missing.yaml", 2),
    ("modeline {plain}", 2),
    ("completion bash", 0),
    ("completion tcsh", 2),
    ("completion", 2),
]
CODES = {
    command: {code for line, code in CASES if line.split(" ")[0] == command}
    for command in (name.replace("_", "-") for name in COMMANDS)
}
# tested with MindSpore, beside what it takes to provoke them, or the script's own
ELSEWHERE = {"dryrun": {0, 3}, "fragmentation": {1}, "verify": {0}, "run": {0, 7}, "layout": {0, 3}}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    files = {
        "bare": "swap_config: {swap: True}\n",
        "warned": "swap_config: {layer_swap: [{backward_prefetch: 1, layers: True}]}\n",
        "plain": "model:\n  model_config: {type: LlamaConfig, num_layers: 4}\nrecompute_config:\n  recompute: True\n",
        "measured": "Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
        "a,Add,5,4096,FLOAT,4096,FLOAT\nb,Add,9,8192,FLOAT,8192,FLOAT\n",
        "script": "import sys\nsys.exit(int(sys.argv[1]))\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "locked").write_text("a file")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker_0.log").write_text("INFO - nothing of interest\n")
    return {name: str(tmp_path / name) for name in (*files, "tmp", "locked", "logs")}


@pytest.mark.parametrize(("line", "code"), CASES, ids=[line or "no command" for line, _ in CASES])
def test_exit_codes(line: str, code: int, places: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("swapconf.train.session.install", lambda *_: None)
    result = CliRunner().invoke(main, shlex.split(line.format(**places)))
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("command", [name.replace("_", "-") for name in COMMANDS])
def test_the_help_names_these_exit_codes(command: str) -> None:
    text = " ".join(CliRunner().invoke(main, [command, "--help"]).stdout.split())
    told = {int(code) for code in re.findall(r"[:;] (\d)(?= )", text[text.index("Exit codes") :].split(". ")[0])}
    assert told | ELSEWHERE.get(command, set()) == CODES[command] | ELSEWHERE.get(command, set())


# --- ends -----------------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_quietly() -> None:
    with subprocess.Popen(
        [*PROGRAM, "schema"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=heed_ctrl_c,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # it now waits for someone to read the rest
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told.decode().strip()) == (130, "")


def test_an_interrupt_that_the_shell_had_it_ignore_stays_ignored() -> None:
    """So a job in the background of a script lives on when the script is interrupted."""
    line = f"trap '' INT; exec {shlex.join(PROGRAM)} schema"
    with subprocess.Popen(
        ["bash", "-c", line], cwd=ROOT, bufsize=0, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(first + rest)


def test_an_interrupt_at_a_question(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("swap_config: {swap: yes}\n")
    with subprocess.Popen(
        [*PROGRAM, "check", "--fix", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=heed_ctrl_c,
    ) as process:
        assert process.stderr is not None
        told = b""
        while b"[y/N]" not in told:
            told += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told.decode().strip()) == (130, "")
    assert file.read_text() == "swap_config: {swap: yes}\n"


def test_a_question_that_nobody_answers(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("swap_config: {swap: yes}\n")
    done = piped("check", "--fix", tmp_path / "a.yaml")
    assert done.returncode == 2
    assert b"nobody answered" in done.stderr


@pytest.mark.parametrize("command", ["schema", f"memory {NONE}", "rules", "--help", f"explain {GOOD} --format json"])
def test_a_closed_pipe_ends_quietly(command: str) -> None:
    line = f"exec 3>&1; {{ {shlex.join(PROGRAM)} {command} 2>&3; echo $? >&3; }} | true"
    done = subprocess.run(
        ["bash", "-c", line.replace("| true", "| (exec 0<&-; sleep 0.01)")],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    *told, code = done.stdout.splitlines()
    assert code in ("141", "0")  # 0: all was in the pipe before it was closed
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stdout + done.stderr
    assert command != "schema" or code == "141"
    assert all("note: " in line for line in told)


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, "rules"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == ["the output cannot be written (No space left on device)"]


def test_an_error_of_the_script_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    monkeypatch.setattr("swapconf.train.session.install", lambda *_: None)
    for error in ("BrokenPipeError(32, 'gone')", "EOFError('short')"):
        script.write_text(f"raise {error}\n")
        result = CliRunner().invoke(main, ["run", str(script)])
        assert result.exit_code == 1
        assert "Traceback" in result.stderr


# --- colours, widths, encodings -------------------------------------------------------------------------------------

SHOWN = (
    f"check {BAD}",
    f"explain {GOOD}",
    f"memory {NONE}",
    f"timeline {SWAP}",
    f"compare {NONE} {SWAP}",
    f"migrate {GOOD} --to pynative --diff",
    f"fragmentation {NONE}",
    f"{ASK} --config {OF_TRACES}",
    "--help",
    "check --help",
    "rules",
    "families",
    "rules nope",
    f"oom {OOM}",
    f"oom {NONE}",
)


@pytest.mark.parametrize("line", SHOWN)
@pytest.mark.parametrize("variables", [{}, {"TERM": "xterm-256color", "COLUMNS": "40"}])
def test_nothing_but_whole_lines_goes_through_a_pipe(line: str, variables: dict[str, str]) -> None:
    done = piped(*shlex.split(line), **variables) if variables else plain(line)
    assert b"\x1b" not in done.stdout + done.stderr
    if "--help" not in line and "COLUMNS" in variables and line != "rules nope":
        assert done.stdout == plain(line).stdout


@cache
def plain(line: str) -> subprocess.CompletedProcess[bytes]:
    """With nothing that decides on the look."""
    return piped(*shlex.split(line))


@pytest.mark.parametrize("line", [f"check {BAD}", f"explain {BAD}", f"memory {NONE}", f"migrate {GOOD} --to legacy"])
def test_no_color_is_respected(line: str) -> None:
    words = shlex.split(line)
    assert not COLOUR.search(on_terminal(*words, NO_COLOR="1"))
    assert not COLOUR.search(on_terminal(*words, TERM="dumb"))
    if "migrate" not in line:
        assert COLOUR.search(on_terminal(*words))


def test_a_narrow_terminal_breaks_no_table_and_no_word() -> None:
    table = ESCAPE.sub("", on_terminal("explain", GOOD, columns=60)).partition("Log lines")[0].splitlines()
    assert max(map(len, table)) <= 60
    assert {"operator", "prefetch", "feed_forward", "attention", "recompute", "(select)", "(op_swap)"} <= {
        word for line in table for word in line.split()
    }
    for line in (f"memory {NONE}", f"timeline {SWAP}", f"compare {NONE} {SWAP}"):
        shown = ESCAPE.sub("", on_terminal(*shlex.split(line), columns=60)).splitlines()
        assert [row for row in shown if len(row) > 60 and re.search("[^ ]  +[^ ]", row)] == []


NARROW = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LANG": "C"},
]


# each stream with a command that prints findings and one that prints help; every other command with the first
@pytest.mark.parametrize(
    ("line", "variables"),
    [
        *((line, narrow) for line in (f"check {BAD} --lang zh", "--help --lang zh") for narrow in NARROW),
        (f"--lang zh explain {GOOD}", NARROW[0]),
        (f"memory {NONE} --lang zh", NARROW[0]),
        (f"--lang zh {ASK} --config {OF_TRACES} --sweep backward_prefetch=1..9", NARROW[0]),
        ("schema", NARROW[0]),
        ("rules nope --lang zh", NARROW[0]),
    ],
)
def test_what_the_stream_cannot_show_stops_nothing(line: str, variables: dict[str, str]) -> None:
    done = piped(*shlex.split(line), **variables)
    assert b"Traceback" not in done.stderr
    assert done.returncode == {"check": 1, "rules": 2}.get(line.split()[0], 0)
    if "LANG" not in variables:
        (done.stdout + done.stderr).decode(variables.get("PYTHONIOENCODING", "ascii"))


def test_a_yaml_on_the_standard_output_is_utf_8_whatever_a_terminal_can_show(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("# 中文\nmodel:\n  model_config: {type: LlamaConfig, num_layers: 4}\n", encoding="utf-8")
    done = piped("migrate", file, "--to", "legacy", PYTHONIOENCODING="ascii")
    assert done.stdout == file.read_bytes()


def test_closed_streams_do_no_harm() -> None:
    line = f"{shlex.join(PROGRAM)} explain {GOOD} >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment(), timeout=60, check=False).returncode == 0
