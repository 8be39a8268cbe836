"""CANN's own logs (plog): what failed, for which module, what each held; alone, and beside the log of MindSpore."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapconf.postmortem import holders, run_log
from swapconf.postmortem.answer import answer
from swapconf.postmortem.cann_modules import MODULES
from swapconf.postmortem.cause import Cause
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.message import Framework, Memory
from swapconf.postmortem.whose import Use
from swapconf.report import oom_text
from swapconf.words.phrases import show
from swapconf.words.units import GIB, MIB
from tests.helpers import invoke

PID = 4176881
# PaddlePaddle/PaddleCustomDevice issue 690 (2023), and CANN 8.5, maintenance reference, troubleshooting_0055
OLD_STATISTICS = (
    "[EVENT] DRV({pid},python):{time} [ascend][curpid: 1, 1][drv][devmm][_devmm_mem_stats_show 152]DEV_MEM dev2 "
    "mem stats(Bytes): module_name=RUNTIME, module_id=7 current_alloced_size=27332608, alloced_peak_size=65650688.",
    "[EVENT] DRV({pid},python):{time} [ascend][curpid: 1, 1][drv][devmm][_devmm_mem_stats_show 152]DEV_MEM dev2 "
    "mem stats(Bytes): module_name=APP, module_id=33 current_alloced_size=29984933312, alloced_peak_size=29984937408.",
    "[EVENT] DRV({pid},python):{time} [ascend][curpid: 1, 1][drv][devmm][_devmm_mem_stats_show 152]DEV_MEM dev2 "
    "mem stats(Bytes): module_name=GE, module_id=45 current_alloced_size=0, alloced_peak_size=1297368064.",
)
STATISTICS = (
    "[INFO] DRV({pid},python3.7):{time} [ascend][curpid: 1, 4185695][drv][devmm][_svm_mem_stats_show 148]SVM_MEM Mem "
    "stats (Bytes). (module_name=RUNTIME; module_id=7; current_alloced_size=19927040; alloced_peak_size=19927040;",
    "[INFO] DRV({pid},python3.7):{time} [ascend][curpid: 1, 4185695][drv][devmm][_svm_mem_stats_show 148]DEV_MEM dev6 "
    "Mem stats (Bytes). (module_name=HCCL; module_id=3; current_alloced_size=419467264; alloced_peak_size=419500032;",
    "[INFO] DRV({pid},python3.7):{time} [ascend][curpid: 1, 4185695][drv][devmm][_svm_mem_stats_show 148]DEV_MEM dev6 "
    "Mem stats (Bytes). (module_name=APP; module_id=33; current_alloced_size=64680361984; alloced_peak_size=1;",
)
TIME = "2024-06-29-16:19:28.{part:03}.386"
ASKED = (
    "halMemAlloc failed:size={size}(bytes), type=2, moduleId={module}, drvFlag=1, drvRetCode=6, device_id {device}, "
    "ErrCode=207001, desc=[driver error:out of memory], InnerCode=0x7020016"
)


def line(text: str, *, level: str = "ERROR", component: str = "RUNTIME", pid: int = PID, part: int = 520) -> str:
    return f"[{level}] {component}({pid},python3.7):{TIME.format(part=part)} [npu_driver.cc:1534]34603 Func:{text}\n"


def asked(module: int, size: int = 2 * MIB, device: int = 6) -> str:
    return "[drv api] " + ASKED.format(size=size, module=module, device=device)


def printed(lines: tuple[str, ...], *, pid: int = PID, part: int = 436) -> str:
    return "".join(text.format(pid=pid, time=TIME.format(part=part)) + "\n" for text in lines)


def put(folder: Path, name: str, *texts: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(texts))
    return path


def only(path: Path) -> Failure:
    (failure,) = run_log.read(path).failures
    return failure


# --- one file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "cause", "use"),
    [
        (3, Cause.COMMUNICATION, Use.COMMUNICATION),
        (28, Cause.COMMUNICATION, Use.COMMUNICATION),
        (33, Cause.CARD, Use.POOL),
        (45, Cause.BESIDE, Use.UNKNOWN),
        (7, Cause.BESIDE, Use.UNKNOWN),
    ],
)
def test_the_module_that_asked_tells_what_for(module: int, cause: Cause, use: Use, tmp_path: Path) -> None:
    log = run_log.read(put(tmp_path, "plog-1_20240629161928520.log", line(asked(module))))
    found = answer(log)
    assert (found.diagnosis.cause, found.whose.use) == (cause, use)
    assert found.failure.word("module") == MODULES[module]
    assert (found.failure.asked_bytes, found.failure.size("device")) == (2 * MIB, 6)
    assert (found.failure.process.pid, found.failure.process.thread) == (str(PID), "34603")


def test_a_module_without_a_name_is_not_told(tmp_path: Path) -> None:
    failure = only(put(tmp_path, "plog-1_20240629161928520.log", line(asked(999))))
    assert failure.word("module") == ""
    assert failure.asked_bytes == 2 * MIB


@pytest.mark.parametrize(
    "text",
    [
        "HostMemAlloc:[drv api] Call driver api halMemAlloc failed, drvRetCode=6, size=4096(bytes), drvDevId=0, "
        "drvFlag=0x1, moduleId=33.",
        "Mem create failed. (ret=6; size=4096; side=0; devid=65)",
        "alloc host memory failed, runtime result = 207001",
        "rtMallocHost execute failed, reason=[driver error:out of memory]",
    ],
)
def test_memory_of_the_host_is_told_apart(text: str, tmp_path: Path) -> None:
    found = answer(run_log.read(put(tmp_path, "plog-1_20240629161928520.log", line(text))))
    assert found.failure.memory is Memory.HOST
    assert found.diagnosis.cause is Cause.HOST
    assert found.failure.asked_bytes == (4096 if "4096" in text else None)


def test_another_code_of_the_driver_is_no_failure_of_memory(tmp_path: Path) -> None:
    text = asked(33).replace("drvRetCode=6", "drvRetCode=46").replace("207001", "207000")
    log = run_log.read(
        put(tmp_path, "plog-1_20240629161928520.log", line(text.replace("out of memory", "internal error")))
    )
    assert log.failures == ()


@pytest.mark.parametrize(("level", "num_failures"), [("ERROR", 1), ("WARNING", 0), ("INFO", 0)])
def test_what_cann_only_warns_of_is_an_attempt(level: str, num_failures: int, tmp_path: Path) -> None:
    """It asks for smaller pages then."""
    log = run_log.read(put(tmp_path, "plog-1_20240629161928520.log", line(asked(33), level=level)))
    assert (len(log.failures), len(log.tried)) == (num_failures, 1 - num_failures)


def test_hccl_tells_what_it_wanted(tmp_path: Path) -> None:
    text = (
        "[Malloc][Mem] rtMalloc failed, Reason: out of memory, return[207001], para: devPtrAddr[0xfff], "
        "size[419430400 Byte]."
    )
    found = answer(run_log.read(put(tmp_path, "plog-1_20240629161928520.log", line(text, component="HCCL"))))
    assert (found.diagnosis.cause, found.failure.asked_bytes) == (Cause.COMMUNICATION, 419430400)


# --- who held it ------------------------------------------------------------------------------------------------------


def test_statistics_beside_the_failure_tell_who_held_the_card(tmp_path: Path) -> None:
    log = run_log.read(
        put(tmp_path, "plog-1_20240629161928520.log", printed(OLD_STATISTICS), line(asked(33, device=2)))
    )
    found = answer(log)
    held = [(one.module, one.device, one.size_bytes) for one in found.failure.holders]
    assert held == [("APP", 2, 29984933312), ("RUNTIME", 2, 27332608)]
    assert found.diagnosis.pool_bytes == 29984933312
    assert found.plan_words[:3] == ("train.yaml", "--budget", "27.92GB")
    row = next(text for head, text in oom_text.failure_table(log, found).rows if show(head) == "held")
    assert show(row) == "the framework (APP) 27.93G, RUNTIME 26.1M"


def test_statistics_stand_in_another_file_of_the_process(tmp_path: Path) -> None:
    """run/plog and debug/plog, as CANN writes them; other processes and later printings do not count."""
    freed = tuple(text.replace("64680361984", "1024") for text in STATISTICS)
    put(tmp_path, "debug/plog/plog-1_20240629161928520.log", line(asked(3)))
    put(tmp_path, "run/plog/plog-1_20240629161928520.log", printed(STATISTICS), printed(freed, part=900))
    put(tmp_path, "run/plog/plog-3_20240629161928520.log", printed(freed, pid=3, part=520))
    failure = only(tmp_path)
    assert [(one.module, one.size_bytes) for one in failure.holders] == [("APP", 64680361984), ("HCCL", 419467264)]
    record = oom_text.as_record(run_log.read(tmp_path), answer(run_log.read(tmp_path)))
    assert record["holders"][0] == {"module": "APP", "device": 6, "bytes": 64680361984}


def test_statistics_of_another_time_are_not_told(tmp_path: Path) -> None:
    late = tuple(text.replace("{time}", "2024-06-29-16:29:28.436.386") for text in STATISTICS)
    put(tmp_path, "a.log", line(asked(3)))
    put(tmp_path, "b.log", printed(late))
    assert only(tmp_path).holders == ()


def test_small_and_huge_pages_are_one_sum_and_memory_of_the_devices_own_system_is_none(tmp_path: Path) -> None:
    kinds = ("MEM_DEV_SMALL_HBM dev6", "MEM_DEV_HUGE_HBM dev6", "MEM_DEV_SMALL_DDR dev6", "HOST_MEM")
    lines = tuple(STATISTICS[2].replace("DEV_MEM dev6", kind).replace("64680361984", "1024") for kind in kinds)
    failure = only(put(tmp_path, "plog-1_20240629161928520.log", printed(lines), line(asked(3))))
    assert [(one.device, one.size_bytes) for one in failure.holders] == [(6, 2048), (None, 1024)]


def test_what_a_flood_of_statistics_takes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "_MOST_PRINTINGS", 3)
    path = put(tmp_path, "plog-1_20240629161928520.log", *(printed(STATISTICS) for _ in range(50)), line(asked(3)))
    assert only(path).holders[0].size_bytes == 64680361984


# --- with the log of the framework ------------------------------------------------------------------------------------


def mindspore(pid: int, part: int = 530, rank: int = 0) -> str:
    return (
        f"[ERROR] PRE_ACT({pid},ffff01,python):{TIME.format(part=part)} [mindspore/a.cc:3] F] TotalUsedMemStatistics : "
        f"{59 * GIB} plus TotalUsedByEventMemStatistics : 0 and plus alloc size : {2 * GIB} is more than total mem "
        f"size : {60 * GIB}.\n"
    )


def test_both_logs_of_a_process_tell_of_one_failure(tmp_path: Path) -> None:
    put(tmp_path, "plog/plog-1_20240629161928520.log", line(asked(33)), printed(STATISTICS))
    put(tmp_path, "worker_5.log", mindspore(PID))
    failure = only(tmp_path)
    assert (failure.rank, failure.framework, failure.path.name) == (5, Framework.MINDSPORE, "worker_5.log")
    assert (failure.size("device"), failure.word("module"), failure.asked_bytes) == (6, "APP", 2 * GIB)
    assert failure.holders[0].module == "APP"
    assert answer(run_log.read(tmp_path)).diagnosis.cause is Cause.FULL


def test_another_process_is_another_failure(tmp_path: Path) -> None:
    put(tmp_path, "plog-1_20240629161928520.log", line(asked(33), part=100))
    put(tmp_path, "worker_5.log", mindspore(PID + 1))
    log = run_log.read(tmp_path)
    assert [one.rank for one in log.failures] == [None, 5]


def test_processes_without_ranks_are_counted_and_named(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"plog-{number}_20240629161928520.log", line(asked(33), pid=100 + number, part=500 + number))
    log = run_log.read(tmp_path)
    table = oom_text.failure_table(log, answer(log))
    text = " ".join(show(part) for row in (table.head, *table.rows) for part in row)
    assert "first of 3 processes" in text
    assert "processes 101, 102 ran out of memory, too" in text


def test_parts_of_one_plog_failed_once(tmp_path: Path) -> None:
    put(tmp_path, "plog-1_20240629161928520.log", line(asked(33)))
    put(tmp_path, "plog-1_20240629161958520.log", line(asked(33, size=4 * MIB), part=900))
    assert only(tmp_path).asked_bytes == 2 * MIB


# --- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]0;owned\x07" + asked(33),
        "\0" * 5000 + asked(33),
        asked(33) + "x" * 300_000,
        asked(33, size=10**18),
        asked(33).replace("device_id 6", "device_id 99999999999999999999"),
    ],
)
def test_a_hostile_plog_commands_nothing(text: str, tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "plog-1_20240629161928520.log",
        line(text),
        "[" * 10_000,
        printed(STATISTICS).replace("dev6", "dev" + "9" * 30),
    )
    result = invoke("oom", path)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "\0" not in result.output


def test_times_that_are_none_join_nothing(tmp_path: Path) -> None:
    path = put(tmp_path, "plog-1_20240629161928520.log", printed(STATISTICS).replace("06-29", "99-99"), line(asked(3)))
    assert only(path).holders == ()
