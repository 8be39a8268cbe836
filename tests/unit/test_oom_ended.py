"""Runs that something else than memory ended (tests/oom/ended/SOURCES.md): what did, where, on which rank first."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from swapconf.memory.figures import Figures, impossible
from swapconf.postmortem import ends, run_log, scan
from swapconf.postmortem.advice import advice
from swapconf.postmortem.cause import Cause
from swapconf.postmortem.ending import Ending, Steps
from swapconf.postmortem.families import Family
from swapconf.postmortem.run_log import RunLog
from swapconf.postmortem.whose import Moment
from swapconf.report import ending_text
from swapconf.words.phrases import phrase
from swapconf.words.units import GIB, MIB
from tests.helpers import ROOT, invoke

LOGS = ROOT / "tests/oom/ended"
STEP = "[INFO] ME [mindformers] - INFO - {{ Epoch:[  1/  1], step:[{:5d}/  100], loss: 11.832 }}"
CELLS = "Default/network-MFTrainOneStepCell/model-GPTModel/decoder-TransformerBlock/layers-CellList/3-TransformerLayer"
TRACEBACK = ("Traceback (most recent call last):", '  File "train.py", line 3, in main', "    run()")


def prefix(second: int, pid: int = 7, level: str = "ERROR") -> str:
    return f"[{level}] DEVICE({pid},ffff01,python):2026-11-02-10:00:{second:02}.000.001 [mindspore/a.cc:3] F] "


def task(second: int, code: int = 507015, device: int = 0) -> str:
    return (
        f"{prefix(second)}Run Task failed, task_id: 1, stream_id: 3, tid: 7, device_id: {device}, retcode: {code} (x)"
    )


def waited(second: int, remote: int) -> str:
    return (
        f"EI0002: [PID: 7] 2026-11-02-10:00:{second:02}.000 The wait execution of the Notify register times out. "
        f"Reason: The Notify register has not received the Notify record from remote rank: [{remote}]. base information"
    )


def failed(second: int, size: str = "2147483648") -> str:
    return f"{prefix(second)}Device(id:0) memory isn't enough and alloc failed, kernel name: x, alloc size: {size}B."


def read(folder: Path, *lines: str, name: str = "worker_0.log") -> RunLog:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return run_log.read(folder / name)


def ending(folder: Path, *lines: str, name: str = "worker_0.log") -> Ending:
    log = read(folder, *lines, name=name)
    assert not log.failures
    return log.endings[0]


# --- public reports ---------------------------------------------------------------------------------------------------

# family, rank, and what else is told
EXPECTED: dict[str, tuple[Family, int | None, dict[str, Any]]] = {
    "kernel-recomputed": (
        Family.KERNEL,
        0,
        {"code": 507015, "device": 8, "after": Steps(done=1, total=100), "owner": "mlp.linear_fc1.MatMul of layer 3",
         "detail": "The DDR address of the MTE instruction is out of range", "time": "2026-07-01 10:03:00.100"},
    ),
    "vllm_ascend-3263": (
        Family.KERNEL,
        0,
        {"reason": "fftsplus aicore error", "detail": "The DDR address of the MTE instruction is out of range"},
    ),
    "vllm_ascend-2763": (Family.KERNEL, None, {"code": 507035, "time": "2025-09-04 09:50:11.954"}),
    "mindact-1752": (Family.KERNEL, None, {"owner": "Reshape", "reason": "aicpu exception"}),
    "llamafactory-3670": (Family.KERNEL, None, {"reason": "aicore exception"}),
    "pytorch-66": (Family.KERNEL, None, {"code": 507035, "device": 1, "time": "2025-04-29 18:46:11"}),
    "vllm_ascend-116": (Family.COPY, 0, {"code": 507001}),
    "mindocr-615": (Family.DATA_LATE, None, {"owner": "GetNext", "device": 0}),
    "process-busy": (Family.DEVICE_BUSY, 3, {"device": 3, "time": "2026-05-21 11:57:54.167"}),
    "verl-332": (Family.DEVICE_BUSY, 2, {"device": 0}),
    "mindspore-hccp": (Family.DEVICE_BUSY, None, {}),
    "mindspore-graph_adapter": (Family.DEVICE_BUSY, None, {"time": "2022-12-01 03:02:29.002"}),
    "vllm_ascend-3413": (Family.WAIT, 101, {"awaited": 24, "device": 0}),
    "pytorch-54": (Family.WAIT, None, {"time": "2024-10-21 10:42:00.358"}),
    "pytorch-43": (Family.WAIT, None, {"code": 107020}),
    "lmdeploy-3354": (Family.WAIT, None, {"code": 507048}),
    "vllm_ascend-486": (Family.CONNECT, 1, {"device": 1}),
    "llamafactory-5071": (Family.CONNECT, None, {"time": "2024-08-05 18:15:21.270"}),
    "vllm_ascend-5461": (Family.CONNECT, None, {}),
    "cann-ei0013": (Family.LINK, None, {"time": "2025-09-15 08:38:12.776"}),
    "mindact-1983": (Family.CLUSTER, None, {"awaited": 3}),
    "mindact-1893": (Family.EXITED, None, {"pid": 130673}),
    "speculators-1115": (Family.EXITED, 1, {"exit": 1}),
    "hallo2-56": (Family.CRASH, None, {"exit": -11}),
    "pai_megatron-366": (Family.VALUES, 11, {"after": Steps(done=12, total=10000)}),
    "ms_swift-9791": (Family.VALUES, 14, {}),
    "llamafactory-3796": (Family.COMPILE, None, {}),
}  # fmt: skip
FIGURES = {
    "impossible-peaks": "the peak with fragments (54.04G) is below the one without (54.09G)",
    "pipeline-balance": "the peak (143.54G) is above the card (60.97G)",
    "ms_swift-9801": "memory(GiB) tells 91.97G of a card of 61.27G",
}


def place(name: str) -> Path:
    return LOGS / name if (LOGS / name).is_dir() else LOGS / f"{name}.log"


@pytest.mark.parametrize("name", EXPECTED)
def test_a_public_report_is_told_as_what_it_was(name: str) -> None:
    family, rank, more = EXPECTED[name]
    found = run_log.read(place(name))
    first = found.endings[0]
    told = {
        **first.values,
        "device": first.device,
        "after": first.after,
        "time": first.time,
        "owner": ending_text.owner(first),
        "awaited": first.awaited,
    }
    assert (first.family, first.rank, {key: told.get(key) for key in more}) == (family, rank, more)
    assert (found.failures, found.is_memory) == ((), False)
    assert advice(first)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_that_cannot_be_is_told(name: str) -> None:
    for form in ("text", "json"):
        assert FIGURES[name] in invoke("oom", place(name), "--format", form).stdout


@pytest.mark.parametrize("path", sorted((ROOT / "tests/oom").rglob("*.log")), ids=lambda path: path.stem)
def test_figures_of_other_public_reports_are_not_doubted(path: Path) -> None:
    assert path.stem in FIGURES or not list(ending_text.strange_figures(run_log.read(path)))


def test_each_log_has_its_source_and_each_source_its_log() -> None:
    table = (LOGS / "SOURCES.md").read_text(encoding="utf-8")
    named = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][1:]
    assert sorted(named) == sorted(path.stem for path in LOGS.iterdir() if path.suffix != ".md")
    assert sorted(named) == sorted([*EXPECTED, *FIGURES])


# --- what the person asked --------------------------------------------------------------------------------------------


def test_a_kernel_that_failed_is_said_to_be_no_question_of_memory_or_recompute() -> None:
    result = invoke("oom", place("kernel-recomputed"))
    assert result.exit_code == 1
    for words in (
        "rank 0",
        "ended by an exception of a kernel on the device",
        "it is not memory",
        "to use less of it, by swap or recompute, does not help",
        "mlp.linear_fc1.MatMul of layer 3",
        "its cell is recomputed, so that its kernels run again there",
        "device 8",
        "507015, aicore exception: The DDR address of the MTE instruction is out of range",
        "step 1 of 100",
        "launch_blocking",
        "custom operators first",
        "plog-4711_*.log",
    ):
        assert words in result.stdout
    record = json.loads(invoke("oom", place("kernel-recomputed"), "--format", "json").stdout)
    (told,) = record["endings"]
    assert (told["family"], told["rank"], told["device"], told["code"]) == ("kernel", 0, 8, 507015)
    assert (told["layer"], told["operator"], told["moment"]) == ("3", "mlp.linear_fc1.MatMul", "backward")
    assert (told["is_recomputed_cell"], told["step"], record["failure"]) == (True, 1, None)


def test_an_earlier_process_is_to_be_ended() -> None:
    text = invoke("oom", place("process-busy")).stdout
    assert "a device that an earlier process still holds" in text
    assert "it is not memory" in text
    assert "end the earlier process" in text


def test_with_the_peak_at_hand_it_is_shown_that_memory_was_left(tmp_path: Path) -> None:
    lines = ["MindSpore Used memory size: 59392M", "Used peak memory usage (without fragments): 40960M"]
    read(tmp_path, task(5), *lines)
    assert "it is not memory: 40.00G of 58.00G were in use at most" in invoke("oom", tmp_path).stdout


def test_who_waited_alone_does_not_know_whether_it_was_memory(tmp_path: Path) -> None:
    read(tmp_path, waited(5, remote=3))
    text = invoke("oom", tmp_path).stdout
    assert "not told: no allocation failed in these logs" in text
    assert "no log here tells of rank 3, for which others waited" in text


@pytest.mark.parametrize(
    ("line", "family"),
    [
        (task(5, 507014), Family.KERNEL_TIMEOUT),
        (task(5, 507018), Family.KERNEL),
        (task(5, 507054), Family.DEVICE_MEMORY),
        (task(5, 507010), Family.DEVICE_LOST),
        (task(5, 507056), Family.LINK),
        (task(5, 507046), Family.WAIT),
        (task(5, 507011), Family.TASK),
        (task(5, 107022), Family.STOPPED),
        ("rtDeviceSynchronize execute failed, reason=[hbm Multi-bit ECC error][FUNC:F]", Family.DEVICE_MEMORY),
        ("rtStreamSynchronize execution failed, reason=vector core timeout[FUNC:F]", Family.KERNEL_TIMEOUT),
        ("errcode:(0x100, 0, 0) errorStr: ecc error, hardware fault.", Family.DEVICE_MEMORY),
        ("Aicore kernel execute failed, device_id=0, fault kernel_name=Add_ab_0, fault kernel info", Family.KERNEL),
        ("[ERROR] HCCL Cluster Exception: Stuck Occurred", Family.WAIT),
        ("[ERROR] HCCL Cluster Exception: Heartbeat Lost Occurred", Family.CLUSTER),
        ("The node: 3 is timed out. It may exit with exception, please check this node's log.", Family.CLUSTER),
        ("Failed to connect to the meta server. Maybe it has exited. Please check scheduler's log.", Family.CLUSTER),
        ("EI0004: The ranktable or rank is invalid", Family.COMM_SETTING),
        ("Config_Error(EI0005): The arguments are inconsistent between ranks", Family.COMM_SETTING),
        ("EJ0003: Failed to bind the IP port.", Family.PORT),
        ("RuntimeError: UCE ERROR.", Family.DEVICE_MEMORY),
        ("[drv] Device lost heartbeat", Family.DEVICE_LOST),
        ("bash: line 1:  4711 Killed                  python run.py", Family.KILLED),
        ("Killed", Family.KILLED),
        ("Segmentation fault (core dumped)", Family.CRASH),
        ("[Sat] Out of memory: Killed process 4711 (python) total-vm:1kB", Family.HOST_MEMORY),
        ("terminate called after throwing an instance of 'std::bad_alloc'", Family.HOST_MEMORY),
        ("OSError: [Errno 28] No space left on device", Family.DISK),
        ("E40021: Failed to compile Op [Add]", Family.COMPILE),
        ("RuntimeError: Exception thrown from dataset pipeline. Refer to it", Family.DATA),
        ("E30008: AI CPU operator execution time out.", Family.DATA_LATE),
        ("ValueError: There is nan in loss with value [nan], terminate training.", Family.VALUES),
        ("RuntimeError: TREError occurred......", Family.VALUES),
        ("torch.distributed.elastic.SignalException: Process 7 got signal: 15", Family.STOPPED),
        ("[ERROR] ME [_api.py:364] Worker process 4711 exit with exception. Error code: -9.", Family.KILLED),
        ("[ERROR] ME [_api.py:364] Worker process 4711 exit with exception. Error code: -11.", Family.CRASH),
        ("[ERROR] ME [_api.py:364] Worker process 4711 exit with exception. Error code: 1.", Family.EXITED),
        ("[ERROR] TBE Subprocess[task_distribute] raise error[], main process disappeared!", Family.GONE),
    ],
)  # fmt: skip
def test_each_family_is_known_by_its_words(line: str, family: Family, tmp_path: Path) -> None:
    found = ending(tmp_path, "before", line, "after")
    assert (found.family, found.line) == (family, 2)
    result = invoke("oom", tmp_path)
    assert result.exit_code == 1
    assert f"ended by {phrase(family.value)}" in result.stdout


# --- one rank ---------------------------------------------------------------------------------------------------------


def test_messages_about_one_end_are_one_end(tmp_path: Path) -> None:
    kernel = f"Gradients/recompute_{CELLS}/mlp-MLP/linear_fc1-ColumnParallelLinear/MatMul-op9"
    log = read(
        tmp_path,
        task(5, device=8),
        f"{prefix(5)}Failed to launch kernel: {kernel}",
        "EZ9999: there is an exception of fftsplus aicore error, core id is 0, error code = 0x800000",
        "errcode:(0x800000, 0, 0) errorStr: The DDR address of the MTE instruction is out of range.",
        *TRACEBACK,
        "RuntimeError: Sync stream error!",
        "Segmentation fault (core dumped)",
    )
    (found,) = log.endings
    assert (found.family, found.device, found.number("code"), found.word("kernel")) == (
        Family.KERNEL,
        8,
        507015,
        kernel,
    )
    assert found.word("detail") == "The DDR address of the MTE instruction is out of range"


def test_what_was_survived_is_no_end(tmp_path: Path) -> None:
    lines = (*TRACEBACK, "ValueError: not this one", STEP.format(4), "Segmentation fault")
    found = ending(tmp_path, task(1), STEP.format(3), *lines)
    assert (found.family, found.after) == (Family.CRASH, Steps(done=4, total=100))
    assert not read(tmp_path, task(1), STEP.format(3)).endings


def test_workers_that_miss_their_process_tell_nothing_where_more_is_told_or_training_was_over(tmp_path: Path) -> None:
    missed = "[ERROR] TBE Subprocess[task_distribute] raise error[], main process disappeared!"
    assert ending(tmp_path, missed, "Segmentation fault", missed).family is Family.CRASH
    assert ending(tmp_path, *TRACEBACK, "ValueError: not this shape", missed).family is Family.PYTHON
    log = read(tmp_path, failed(5), missed)
    assert (len(log.failures), log.is_memory, log.endings) == (1, True, ())
    assert not read(
        tmp_path, STEP.format(9), "2026-11-02 - INFO - .........Training Over!.............", missed
    ).endings


@pytest.mark.parametrize(
    ("line", "is_told"), [(".............Start load checkpoint from a....", True), (STEP.format(3), False)]
)
def test_a_process_that_is_gone_while_it_reads_weights_is_told_what_they_take_of_the_host(
    line: str, is_told: bool, tmp_path: Path
) -> None:
    for last in ("[ERROR] TBE Subprocess[a] raise error[], main process disappeared!", "Killed"):
        advised = " ".join(advice(ending(tmp_path, line, last)))
        assert ("auto_trans_ckpt: False" in advised) is is_told


def test_an_exception_of_python_counts_where_it_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (*TRACEBACK, "ValueError: For 'MatMul', the shapes do not fit", "after")
    found = ending(tmp_path, STEP.format(1), *lines)
    assert (found.family, ending_text.reasons(found)) == (
        Family.PYTHON,
        "ValueError: For 'MatMul', the shapes do not fit",
    )
    monkeypatch.setattr(ends, "END_BYTES", 10)
    assert not read(tmp_path, STEP.format(1), *lines).endings


@pytest.mark.parametrize(
    "lines",
    [
        ("ValueError: no traceback above",),
        (f"{prefix(5, level='WARNING')}EI0006: Getting socket times out, retry",),
        ("2026-11-02 10:00:00,000 - mindformers - WARNING - Segmentation fault is what this avoids",),
        ("Exception ignored in: <function f>", *TRACEBACK, "AttributeError: 'NoneType'"),
        ("rtMalloc execute failed, reason=[something else][FUNC:F]",),
        (task(5, 100000),),
        ("the word Killed in a line", "KeyboardInterrupt without a traceback"),
    ],
)
def test_what_ends_nothing_is_no_end(lines: tuple[str, ...], tmp_path: Path) -> None:
    assert not read(tmp_path, *lines).endings


def test_a_traceback_that_carries_an_error_of_cann_is_that_error(tmp_path: Path) -> None:
    error = "RuntimeError: NPU function error: c10_npu::f(), error code is 507035"
    assert ending(tmp_path, *TRACEBACK, error).family is Family.KERNEL
    assert ending(tmp_path, *TRACEBACK, "MemoryError: cannot allocate").family is Family.HOST_MEMORY


def test_what_comes_after_the_end_of_training_is_told_as_such(tmp_path: Path) -> None:
    over = "[INFO] ME [mindformers] - INFO - .........Training Over!............."
    found = ending(tmp_path, STEP.format(100), over, "Segmentation fault")
    assert found.is_over
    assert "the training, which had ended as it should" in invoke("oom", tmp_path).stdout


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("{ step:[    7/  300], loss:   1.000000, per_step_time:   900ms }", Steps(done=7, total=300)),
        ("epoch: 1 step: 7, loss is 2.3", Steps(done=7)),
        (" iteration        7/    2000 | consumed samples:          896 |", Steps(done=7, total=2000)),
        ("{'loss': 0.61, 'learning_rate': 2.9e-05, 'epoch': 0.09}", Steps()),
    ],
)
def test_the_last_step_is_told_in_each_way_of_writing_it(line: str, steps: Steps, tmp_path: Path) -> None:
    assert ending(tmp_path, task(1), line, "Segmentation fault").after == steps


def test_the_end_of_a_log_alone_tells_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "END_BYTES", 2**14)
    monkeypatch.setattr(scan, "BLOCK_BYTES", 2**10)
    read(tmp_path, "Segmentation fault", *["all is well"] * 20_000, task(5))
    whole, end = run_log.read(tmp_path), run_log.read(tmp_path, only_end=True)
    assert (end.endings, end.size_bytes) == (whole.endings, whole.size_bytes)
    assert end.endings[0].line == 20_002
    read(tmp_path, failed(1), *["all is well"] * 20_000)
    assert run_log.read(tmp_path).failures
    assert not run_log.read(tmp_path, only_end=True).failures


def test_only_the_end_of_a_log_is_searched_for_how_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "END_BYTES", 2**12)
    monkeypatch.setattr(scan, "BLOCK_BYTES", 2**10)
    noise = ["all is well"] * 2000
    found = ending(tmp_path, "Segmentation fault", *noise, task(5))
    assert (found.family, found.line) == (Family.KERNEL, 2002)
    assert not read(tmp_path, "Segmentation fault", *noise).endings


# --- several ranks ----------------------------------------------------------------------------------------------------


def test_the_rank_that_died_by_itself_began_and_the_others_waited_for_it(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        read(tmp_path, STEP.format(6), waited(3 + rank, remote=3), name=f"worker_{rank}.log")
    read(tmp_path, STEP.format(6), task(9, device=3), name="worker_3.log")  # it tells of it later than they do
    log = run_log.read(tmp_path)
    assert [one.rank for one in log.endings] == [3, 0, 1, 2]
    text = invoke("oom", tmp_path).stdout
    assert "first of 4 ranks" in text
    assert "ranks 0-2 waited in vain for another rank" in text


def test_of_ranks_that_died_by_themselves_the_earliest_began(tmp_path: Path) -> None:
    for rank, second in ((0, 9), (1, 4), (2, 6)):
        read(tmp_path, task(second), name=f"worker_{rank}.log")
    assert [one.rank for one in run_log.read(tmp_path).endings] == [1, 2, 0]


def test_where_all_waited_the_log_without_a_word_is_suspected(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        read(tmp_path, STEP.format(7), waited(5, remote=3), name=f"worker_{rank}.log")
    read(tmp_path, STEP.format(6), "nothing more", name="worker_3.log")
    assert "it may have begun where a log ends without a word: rank 3 (after step 6)" in invoke("oom", tmp_path).stdout
    assert json.loads(invoke("oom", tmp_path, "--format", "json").stdout)["silent_ranks"] == [3]


def test_memory_that_ran_out_first_stays_the_cause_of_all(tmp_path: Path) -> None:
    read(tmp_path, failed(3), f"{prefix(3)}Launch kernel failed: x", "Segmentation fault", name="worker_0.log")
    read(tmp_path, waited(9, remote=0), name="worker_1.log")
    log = run_log.read(tmp_path)
    assert (log.is_memory, [one.rank for one in log.failures], [one.rank for one in log.endings]) == (True, [0], [1])
    result = invoke("oom", tmp_path)
    assert result.exit_code == 0
    assert "rank 1 waited in vain for another rank" in result.stdout


def test_memory_that_ran_out_after_another_rank_had_died_did_not_begin_it(tmp_path: Path) -> None:
    read(tmp_path, failed(9), name="worker_0.log")
    read(tmp_path, task(3), name="worker_1.log")
    assert not run_log.read(tmp_path).is_memory
    assert "rank 1  ended by an exception of a kernel" in invoke("oom", tmp_path).stdout


def test_a_failure_that_was_caught_did_not_end_the_run(tmp_path: Path) -> None:
    log = read(tmp_path, failed(1), STEP.format(5), task(9))
    assert (log.failures, log.endings[0].family) == ((), Family.KERNEL)
    assert read(tmp_path, failed(1), STEP.format(5)).failures  # nothing else is told


def test_a_launcher_knows_who_was_first(tmp_path: Path) -> None:
    for rank in (0, 1):
        read(tmp_path, f"{prefix(5)}", *TRACEBACK, "ValueError: x", name=f"worker_{rank}.log")
    rows = ("Root Cause (first observed failure):", "[0]:", "  time      : x", "  host      : y")
    read(tmp_path, *rows, "  rank      : 1 (local_rank: 1)", "  exitcode  : 1 (pid: 9)", name="torchrun.log")
    assert [one.rank for one in run_log.read(tmp_path).endings] == [1, 0]


# --- several ranks in one stream --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["[rank{}]: ", "[1,{}]<stderr>:", "{}: "])
def test_ranks_with_tags_are_told_apart(tag: str, tmp_path: Path) -> None:
    lines = [
        tag.format(3) + task(4),
        *[tag.format(rank) + waited(5 + rank, remote=3) for rank in (0, 1)],
        *[tag.format(rank) + waited(8, remote=3) for rank in (2,)],
    ]
    log = read(tmp_path, *lines, name="all.log")
    assert [(one.rank, one.family) for one in log.endings] == [
        (3, Family.KERNEL),
        *((rank, Family.WAIT) for rank in (0, 1, 2)),
    ]


def marker(rank: int, device: int, pid: int) -> str:
    return f"[ERROR] 2026-11-02-10:00:05 (PID:{pid}, Device:{device}, RankID:{rank}) ERR00100 PTA call acl api failed"


def test_reports_of_torch_npu_are_told_apart_by_rank_or_else_by_device(tmp_path: Path) -> None:
    error = "RuntimeError: NPU function error: f(), error code is {}"
    lines = [
        error.format(507015), marker(5, 1, 21),
        error.format(507048), marker(6, 2, 22),
        "EI0002: [PID: 21] of the first again",
        "EI0006: [PID: 22] of the second again",
    ]  # fmt: skip
    log = read(tmp_path, *lines, name="all.log")
    assert [(one.rank, one.family) for one in log.endings] == [(5, Family.KERNEL), (6, Family.WAIT)]
    lines = [error.format(507015), marker(-1, 1, 21), error.format(507048), marker(-1, 2, 22)]
    log = read(tmp_path, *lines, name="all.log")
    assert [(one.rank, one.device, one.family) for one in log.endings] == [
        (None, 1, Family.KERNEL),
        (None, 2, Family.WAIT),
    ]


def test_memory_of_two_ranks_in_one_stream_is_told_apart(tmp_path: Path) -> None:
    message = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU {}; 60.97 GiB total capacity; 59.00 GiB"
    log = read(tmp_path, message.format(0), marker(8, 0, 21), message.format(1), marker(9, 1, 22), name="all.log")
    assert [(one.rank, one.size("device")) for one in log.failures] == [(8, 0), (9, 1)]


# --- sizes and figures that cannot be ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["-512", "18446744073709551104", "4398046511104"])
def test_a_size_that_no_card_has_is_not_told_as_a_full_card(size: str, tmp_path: Path) -> None:
    read(tmp_path, failed(1, size))
    record = json.loads(invoke("oom", tmp_path, "--format", "json").stdout)
    assert (record["cause"], record["next_command"]) == (Cause.UNREAL.name.lower(), None)
    text = invoke("oom", tmp_path).stdout
    assert "asked for memory of a size that cannot be" in text
    assert "neither swap nor recompute helps" in text
    assert "mindspore.runtime.launch_blocking()" in text
    assert "ran out of device memory" not in text


def test_a_size_that_was_never_received_is_told_after_the_wait(tmp_path: Path) -> None:
    """As in NVIDIA/nccl issue 1284: the communication had timed out before."""
    size = "[rank2]: torch.OutOfMemoryError: NPU out of memory. Tried to allocate more than 1EB memory"
    log = read(tmp_path, f"[rank2]: {waited(3, remote=1)}", size, name="all.log")
    assert (log.is_memory, log.endings[0].family) == (False, Family.WAIT)
    assert read(tmp_path, size, f"[rank2]: {waited(9, remote=1)}", name="all.log").is_memory


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (Figures(used_peak=3 * GIB, mapped_peak=2 * GIB), "below the one without"),
        (Figures(used_peak=65 * GIB, device=64 * GIB), "above the card"),
        (Figures(mapped_peak=60 * GIB, limit=58 * GIB, device=64 * GIB), "above what the pool may take"),
        (Figures(limit=58 * GIB, device=32 * GIB), "may take 58.00G of a card of 32.00G"),
        (Figures(in_use=3 * GIB, pool=2 * GIB), "3.00G are in use in a pool of 2.00G"),
        (Figures(pool=65 * GIB, device=64 * GIB), "the pool has taken 65.00G of a card of 64.00G"),
        (Figures(free=65 * GIB, device=64 * GIB), "65.00G are free of a card of 64.00G"),
        (Figures(summed_peak=128 * GIB, device=64 * GIB), "memory(GiB) tells 128.00G"),
    ],
)
def test_figures_that_contradict_each_other_are_said(figures: Figures, said: str) -> None:
    ((what, hint),) = impossible(figures)
    assert said in what
    assert hint


def test_what_rounding_makes_of_equal_figures_is_not_doubted() -> None:
    assert not list(impossible(Figures(used_peak=2 * MIB, mapped_peak=MIB, limit=2 * MIB, device=2 * MIB)))
    assert not list(impossible(Figures(in_use=GIB + 10 * MIB, pool=GIB, free=GIB, device=GIB)))


# --- weights ----------------------------------------------------------------------------------------------------------

ABOVE = (
    "TotalUsedMemStatistics : 63350767616 plus TotalUsedByEventMemStatistics : 0 and plus alloc size : 2147483648 is "
    "more than total mem size : 64424509440."
)


@pytest.mark.parametrize(
    "lines",
    [
        (".........Start load checkpoint from safetensors..........",),
        ("..........Start Load Checkpoint..........",),
        ("[INFO] - Begin to load ckpt",),
        ("Loading checkpoint shards:  42%|####      | 16/38 [00:14<00:19,  1.13it/s]",),
    ],
)
def test_memory_that_runs_out_while_weights_load_is_told_as_that(lines: tuple[str, ...], tmp_path: Path) -> None:
    read(tmp_path, *lines, ABOVE)
    record = json.loads(invoke("oom", tmp_path, "--format", "json").stdout)
    assert (record["failure"]["moment"], record["next_command"]) == (Moment.LOADING.name.lower(), None)
    text = invoke("oom", tmp_path).stdout
    assert "loading weights" in text
    assert "weights alone fill the card" in text
    assert "swapconf plan" not in text


@pytest.mark.parametrize(
    "after", [STEP.format(1), ".........Starting Training Model..........", "[INFO] End to load ckpt"]
)
def test_weights_that_were_loaded_are_not_blamed(after: str, tmp_path: Path) -> None:
    read(tmp_path, "..........Start Load Checkpoint..........", after, ABOVE)
    assert "swapconf plan" in invoke("oom", tmp_path).stdout


def test_while_weights_load_no_other_cause_promises_help_of_swap(tmp_path: Path) -> None:
    read(tmp_path, "..........Start Load Checkpoint..........", "Device HBM memory size: 65536M", failed(1))
    text = invoke("oom", tmp_path).stdout
    assert "no step had begun: swap and recompute of activations do not help here" in text


# --- harm -------------------------------------------------------------------------------------------------------------


def test_nothing_that_an_end_holds_commands_the_terminal(tmp_path: Path) -> None:
    harm = "\x1b[2J\x1b]0;owned\x07\u202eexe\r\x00[bold]"
    kernel = f"{prefix(5)}Failed to launch kernel: Default/a-B/{harm}/MatMul-op1"
    lines = (task(5), kernel, f"errorStr: {harm}.", *TRACEBACK, f"ValueError: {harm}")
    (tmp_path / "worker_0.log").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    for form in ("text", "json"):
        output = invoke("oom", tmp_path, "--format", form).output
        assert not any(char in output for char in "\x1b\x07\u202e\r\0")


def test_of_ends_without_number_the_first_and_the_last_are_kept(tmp_path: Path) -> None:
    log = read(tmp_path, *["EI0006: retried"] * 200, "EI0002: x", *["EI0006: retried"] * 200, task(9))
    (found,) = log.endings
    assert (found.family, found.line) == (Family.KERNEL, 402)
    assert read(tmp_path, *["EI0006: retried"] * 200).endings[0].line == 1


WITHOUT_END = '\nTraceback (most recent call last):\n  File "a", line 1, in f\nAError: x'


@pytest.mark.parametrize("piece", ["AError: x ", "Error: ", "aError: ", "[rank1]: ", "EI0002 ", WITHOUT_END])
def test_no_line_slows_the_reading_down(piece: str, tmp_path: Path) -> None:
    (tmp_path / "worker_0.log").write_text(piece * (2**18 // len(piece)))
    begin = time.process_time()
    run_log.read(tmp_path / "worker_0.log")
    assert time.process_time() - begin < 10  # takes less than one


@pytest.mark.parametrize(
    "error",
    [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "RuntimeError: Distributed job exited with exception. Please check logs in directory: output.",
    ],
)
def test_the_exception_of_a_launcher_is_no_cause(error: str, tmp_path: Path) -> None:
    assert ending(tmp_path, *TRACEBACK, error, name="job.log").family is Family.EXITED
    lines = ("[rank1]: " + line for line in (*TRACEBACK, "ValueError: x"))
    found = ending(tmp_path, *lines, *TRACEBACK, error, name="job.log")
    assert (found.rank, found.family) == (1, Family.PYTHON)
