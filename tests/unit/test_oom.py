"""`swapconf oom`: which rank failed first, for whom, what held the memory, and logs that mean harm."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from swapconf.files import log_pool
from swapconf.plan import planned
from swapconf.plan.planned import to_ask
from swapconf.postmortem import run_log, scan, tables
from swapconf.postmortem.answer import answer
from swapconf.postmortem.cause import Cause
from swapconf.postmortem.message import Framework
from swapconf.postmortem.run_log import RunLog
from swapconf.postmortem.whose import Moment, Use
from swapconf.words.findings import SwapconfError
from swapconf.words.units import GIB, MIB
from tests.helpers import ROOT, invoke

TRACES, YAML = ROOT / "tests/traces/llama_l2_none", ROOT / "tests/traces/llama.yaml"
CELLS = "Default/network-MFPipelineWithLossScaleCell/network-PipelineCell/model-LlamaModel"
KERNEL = f"{CELLS}/layers-CellList/3-LLamaDecodeLayer/feed_forward-LlamaFeedForward/w1-Linear/MatMul-op12"


def prefix(second: int, part: int = 0, pid: int = 7) -> str:
    return f"[ERROR] PRE_ACT({pid},ffff01,python):2026-11-02-10:00:{second:02}.{part:03}.001 [mindspore/a.cc:3] F] "


def above(used: int, asked: int, limit: int = 60 * GIB) -> str:
    return (
        f"TotalUsedMemStatistics : {used} plus TotalUsedByEventMemStatistics : 0 and plus alloc size : {asked} is more "
        f"than total mem size : {limit}."
    )


def kernel(name: str, asked: int, device: int = 0) -> str:
    return f"Device(id:{device}) memory isn't enough and alloc failed, kernel name: {name}, alloc size: {asked}B."


def read(folder: Path, *lines: str, name: str = "worker_0.log") -> RunLog:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return run_log.read(folder / name)


def told(*words: str | Path) -> dict[str, Any]:
    result = invoke("oom", *words, "--format", "json")
    assert result.exit_code == 0, result.output
    record: dict[str, Any] = json.loads(result.stdout)
    return record


# --- one failure, several messages ----------------------------------------------------------------------------------


def test_the_messages_about_one_failure_are_one_failure(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        f"{prefix(1)}Memory not enough: current free memory size[0] is smaller than required size[{GIB}].",
        prefix(1) + above(59 * GIB + 5 * MIB, GIB + 512),
        "Traceback (most recent call last):",
        '  File "/x/mindspore/train/model.py", line 1, in train',
        "RuntimeError: " + kernel(KERNEL, GIB, device=2),
        "RuntimeError: " + kernel(KERNEL, GIB, device=2),
        "Device HBM memory size: 65536M",
        "MindSpore Used memory size: 61440M",
    )
    (failure,) = log.failures
    assert log.num_others == 0
    assert (failure.asked_bytes, failure.size("device"), failure.line) == (GIB, 2, 2)
    assert {"above-limit", "kernel", "no-room"} <= set(failure.messages)
    found = answer(log)
    assert (found.whose.layer, found.whose.operator) == ("3", "feed_forward.w1.MatMul")
    assert (found.diagnosis.cause, found.diagnosis.short_bytes) == (Cause.FULL, 5 * MIB)
    assert found.diagnosis.device_bytes == 64 * GIB


def test_the_first_failure_is_told_and_the_others_are_counted(tmp_path: Path) -> None:
    lines = [prefix(second) + above(59 * GIB, 2 * GIB + second * 8 * MIB) for second in range(1, 6)]
    log = read(tmp_path, *lines, *lines)
    assert [failure.time for failure in log.failures] == ["2026-11-02 10:00:01.000"]
    assert log.num_others == 4


def test_an_attempt_alone_is_no_failure(tmp_path: Path) -> None:
    attempt = "Memory not enough: current free memory size[0] is smaller than required size[512]."
    log = read(tmp_path, attempt, "epoch 1 step 1")
    assert not log.failures
    result = invoke("oom", tmp_path)
    assert result.exit_code == 1
    assert "one attempt of the pool failed" in result.stdout


def test_the_rank_that_failed_first_is_told_first(tmp_path: Path) -> None:
    for rank, second in ((0, 9), (1, 3), (2, 3), (3, 8)):
        read(tmp_path, "INFO", prefix(second, part=rank) + above(59 * GIB, 2 * GIB), name=f"worker_{rank}.log")
    read(tmp_path, "all is well", name="worker_4.log")
    (tmp_path / "scheduler.log").write_text(kernel("x", 5))
    record = told(tmp_path)
    assert (record["failure"]["rank"], record["ranks"], record["ranks_in_order"]) == (1, [1, 2, 3, 0], True)
    assert "first of 4 ranks" in invoke("oom", tmp_path).stdout


def test_many_logs_are_read_by_processes_with_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(3):
        read(tmp_path, prefix(9 - rank) + above(59 * GIB, 2 * GIB), kernel(KERNEL, 2 * GIB), name=f"worker_{rank}.log")
    alone = run_log.read(tmp_path)
    monkeypatch.setattr(log_pool, "POOL_FROM_BYTES", 1)
    assert run_log.read(tmp_path, jobs=2) == alone
    assert [failure.rank for failure in alone.failures] == [2, 1, 0]


def test_one_rank_with_two_logs_failed_once(tmp_path: Path) -> None:
    (tmp_path / "rank_3").mkdir()
    read(tmp_path, prefix(5) + above(59 * GIB, 2 * GIB), name="worker_3.log")
    read(tmp_path / "rank_3", prefix(5) + above(59 * GIB, 2 * GIB), name="error.log")
    assert told(tmp_path)["ranks"] == [3]


def test_ranks_that_share_a_log_are_told_apart(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "[1,2]<stderr>:" + prefix(5) + above(59 * GIB, 2 * GIB),
        "[1,0]<stderr>:" + prefix(4) + above(58 * GIB, 4 * GIB),
        name="all.log",
    )
    assert [(failure.rank, failure.asked_bytes) for failure in log.failures] == [(0, 4 * GIB), (2, 2 * GIB)]


def test_a_log_with_its_own_word_for_its_rank_is_believed(tmp_path: Path) -> None:
    assert read(tmp_path, "local rank id: 1, rank id: 9", prefix(1) + above(59 * GIB, 2 * GIB)).failures[0].rank == 9


def test_a_number_in_the_name_of_a_log_is_no_rank(tmp_path: Path) -> None:
    assert read(tmp_path, kernel("x", 5), name="train_2.log").failures[0].rank is None


# --- whose, when and why --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "layer", "operator", "moment", "use"),
    [
        (KERNEL, "3", "feed_forward.w1.MatMul", Moment.FORWARD, Use.TENSOR),
        (f"Gradients/{KERNEL}", "3", "feed_forward.w1.MatMul", Moment.BACKWARD, Use.TENSOR),
        (f"{CELLS}/lm_head-Linear/MatMul-op1", "", "lm_head.MatMul", Moment.FORWARD, Use.TENSOR),
        (
            "Default/network-A/mtp-MTP/layers-CellList/0-L/attention-A/Add-op1",
            "mtp0",
            "attention.Add",
            Moment.FORWARD,
            Use.TENSOR,
        ),
        ("Default/network-A/optimizer-AdamW/AdamW-op1", "", "optimizer.AdamW", Moment.OPTIMIZER, Use.TENSOR),
        ("kernel_graph_1_DataPrepareActor", "", "kernel_graph_1_DataPrepareActor", Moment.LOADING, Use.WEIGHT),
        ("@graph_1:param_model.layers.7.attention.wq.weight", "7", "attention.wq.weight", Moment.UNKNOWN, Use.TENSOR),
    ],
)
def test_the_name_of_a_kernel_tells_whose_it_was(
    name: str, layer: str, operator: str, moment: Moment, use: Use, tmp_path: Path
) -> None:
    found = answer(read(tmp_path, kernel(name, GIB))).whose
    assert (found.layer, found.operator, found.moment) == (layer, operator, moment)
    assert found.use in (use, Use.WEIGHT)


@pytest.mark.parametrize(
    ("frames", "moment"),
    [
        ([("torch/autograd/__init__.py", "backward")], Moment.BACKWARD),
        ([("train.py", "train_step"), ("torch/optim/adamw.py", "step")], Moment.OPTIMIZER),
        ([("torch/optim/adamw.py", "step"), ("modeling_qwen.py", "forward")], Moment.FORWARD),
        ([("modeling_utils.py", "from_pretrained"), ("a.py", "helper")], Moment.LOADING),
        ([("mindspore/common/api.py", "compile")], Moment.COMPILE),
        ([("distributed_c10d.py", "init_process_group")], Moment.CONNECTING),
        ([("nothing.py", "known")], Moment.UNKNOWN),
    ],
)
def test_the_traceback_tells_the_phase(frames: Sequence[tuple[str, str]], moment: Moment, tmp_path: Path) -> None:
    lines = [f'[rank0]:   File "/x/{file}", line 3, in {function}\n    code()' for file, function in frames]
    message = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity;"
    found = answer(read(tmp_path, "Traceback (most recent call last):", *lines, message)).whose
    assert found.moment is moment


@pytest.mark.parametrize(
    ("file", "remedy"), [("mindspore/train/model.py", "max_device_memory"), ("torch/nn/module.py", "under PyTorch")]
)
def test_where_cann_alone_speaks_the_traceback_tells_the_framework(file: str, remedy: str, tmp_path: Path) -> None:
    frame = f'  File "/x/{file}", line 3, in f'
    message = "EL0004: [PID: 3] Failed to allocate memory requested by GE module."
    found = answer(read(tmp_path, "Traceback (most recent call last):", frame, message))
    assert remedy in found.remedies[0]
    assert set(answer(read(tmp_path, message)).remedies) > set(found.remedies)


def test_whose_call_of_cann_failed_tells_the_framework(tmp_path: Path) -> None:
    called = "[ERROR] 2026-11-02-10:00:05 (PID:7, Device:2, RankID:2) ERR00100 PTA call acl api failed"
    launched = "rtFftsPlusTaskLaunch execute failed, reason=[driver error:out of memory][FUNC:F]"
    message = "EL0004: 2026-11-02-10:00:05.358 Failed to allocate memory."
    found = answer(read(tmp_path, called, message, launched))
    assert found.failure.framework is Framework.TORCH_NPU
    assert found.diagnosis.cause is Cause.BESIDE  # a launch takes memory of the runtime, not of the pool
    assert not any("MindSpore" in remedy for remedy in found.remedies)
    assert any("smaller micro-batch" in remedy for remedy in found.remedies)
    assert not read(tmp_path, called).failures  # alone it is of any call, whatever failed


def test_an_operator_that_cann_ran_is_named(tmp_path: Path) -> None:
    refused = "Call rtMalloc fail, purpose: page caching, type = 2, size:4110811136, device_id:0[FUNC:Alloc]"
    ran = "[Exec][Op]Execute op failed. op type = ScatterElements, ge result = 4294967295[FUNC:ReportCallError]"
    found = answer(read(tmp_path, "EL0004: Failed to allocate memory.", refused, ran))
    assert (found.whose.operator, found.diagnosis.cause) == ("ScatterElements", Cause.BESIDE)


def test_a_traceback_far_above_is_of_something_else(tmp_path: Path) -> None:
    frame = '  File "/x/a.py", line 3, in backward'
    log = read(tmp_path, "Traceback (most recent call last):", frame, *["step"] * 600, kernel("x", 5))
    assert answer(log).whose.moment is Moment.UNKNOWN


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["Device HBM memory size: 65536M", above(39 * GIB, 2 * GIB, 40 * GIB)], Cause.SETTING),
        (["Device HBM memory size: 65536M", above(57 * GIB, 2 * GIB, 58 * GIB)], Cause.FULL),
        ([above(10 * GIB, 61 * GIB)], Cause.TOO_LARGE),
        (
            [
                "The dynamic memory pool total size is 58000M, total used size is 40000M, used peak size is 50000M.",
                "MindSpore Used memory size: 59392M",
                kernel("x", 8 * GIB),
            ],
            Cause.FRAGMENTS,
        ),
        (["Allocate pin memory failed, size: 512"], Cause.HOST),
        (
            ["The Free Device Memory Size is 30.5 GB, max_device_memory should be in range (0-30.5]GB, but got 1MB"],
            Cause.SETTING_TOO_HIGH,
        ),
        ([kernel("x", 5)], Cause.UNTOLD),
        (["EL0004: [PID: 3] Failed to allocate memory requested by HCCL module."], Cause.COMMUNICATION),
    ],
)
def test_the_cause_follows_from_the_figures(lines: Sequence[str], cause: Cause, tmp_path: Path) -> None:
    found = answer(read(tmp_path, *lines))
    assert found.diagnosis.cause is cause
    assert found.remedies


def test_a_limit_below_the_card_is_said_to_be_the_setting(tmp_path: Path) -> None:
    read(tmp_path, "Device HBM memory size: 65536M", above(39 * GIB, 2 * GIB, 40 * GIB))
    text = invoke("oom", tmp_path).stdout
    assert "raise context.max_device_memory" in text
    assert "up to 58GB" in text


# --- the plan that would fit ----------------------------------------------------------------------------------------


def test_the_next_command_has_the_budget_of_the_log_and_the_yaml_that_it_names(tmp_path: Path) -> None:
    log = read(tmp_path, "run --config configs/a.yaml --x", above(59 * GIB, 2 * GIB, 61079552000))
    assert answer(log).next_command == "swapconf plan configs/a.yaml --budget 56.88GB --beside 0"
    assert answer(log, config="b c.yaml").next_command == "swapconf plan 'b c.yaml' --budget 56.88GB --beside 0"


@pytest.mark.parametrize("name", ["--write.yaml", "a;reboot.yaml", "$(reboot).yaml", "a b.yaml"])
def test_a_name_in_a_log_becomes_no_other_command(name: str, tmp_path: Path) -> None:
    words = answer(read(tmp_path, f"run --config={name} x", above(59 * GIB, 2 * GIB))).plan_words
    assert words[0] == "train.yaml"


def test_with_traces_the_plan_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "to_ask", lambda judge, effort: to_ask(judge, 0.1))  # any plan will do
    read(tmp_path, prefix(1) + above(300 * MIB, 30 * MIB, 322 * MIB))
    words = ("--config", YAML, "--from", TRACES)
    plan = told(tmp_path, *words)["plan"]
    assert plan["budget_bytes"] == 322 * MIB
    assert plan["verdict"] in ("planned", "not-needed")
    text = invoke("oom", tmp_path, *words).stdout
    assert "what fits, as `swapconf plan" in text
    assert "no swap, no recompute" in text


def test_no_plan_is_made_where_none_helps(tmp_path: Path) -> None:
    read(tmp_path, "Allocate pin memory failed, size: 512")
    record = told(tmp_path, "--config", YAML, "--from", TRACES)
    assert (record["next_command"], "plan" in record) == (None, False)
    assert "no plan was made" in invoke("oom", tmp_path, "--config", YAML).stdout


def test_the_setting_of_the_yaml_is_told(tmp_path: Path) -> None:
    read(tmp_path, above(59 * GIB, 2 * GIB))
    yaml = tmp_path / "train.yaml"
    text = YAML.read_text(encoding="utf-8")
    yaml.write_text(text.replace("context:\n", "context:\n  max_device_memory: 30GB\n", 1), encoding="utf-8")
    assert "the YAML sets context.max_device_memory to 30GB" in invoke("oom", tmp_path, "--config", yaml).stdout


# --- what is no log of a failure ------------------------------------------------------------------------------------


def test_a_log_without_a_failure_says_so(tmp_path: Path) -> None:
    read(tmp_path, "epoch 3, loss 2.1")
    result = invoke("oom", tmp_path / "worker_0.log")
    assert result.exit_code == 1
    assert "no failed allocation is told in 1 log" in result.stdout
    assert "the log of another rank" in result.stdout
    record = json.loads(invoke("oom", tmp_path, "--format", "json").stdout)
    assert (record["failure"], record["endings"], record["ended"]) == (None, [], [])


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "worker_0.log")
    result = invoke("oom", tmp_path / "worker_0.log")
    assert (result.exit_code, "a pipe, not a file" in result.stderr) == (2, True)
    assert invoke("oom", tmp_path / "gone.log").exit_code == 2
    (tmp_path / "worker_1.log.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "worker_2.log").write_text(kernel("x", 5))
    result = invoke("oom", tmp_path)
    assert result.exit_code == 0
    assert "compressed" in result.stderr


# --- harm -----------------------------------------------------------------------------------------------------------

HARM = "\x1b[2J\x1b]0;owned\x07\u202eexe\r\x00"


def test_nothing_that_a_log_holds_commands_the_terminal(tmp_path: Path) -> None:
    name = f"Default/a-B/{HARM}/MatMul-op1[bold]"
    (tmp_path / "worker_0.log").write_text(
        kernel(name, 5) + f"\nrun --config {HARM}.yaml\n", encoding="utf-8", newline=""
    )
    for form in ("text", "json"):
        output = invoke("oom", tmp_path, "--format", form).output
        assert not any(char in output for char in "\x1b\x07\u202e\r\0")
    assert "[bold]" in invoke("oom", tmp_path).output


@pytest.mark.parametrize("size", ["1e999", "-5", "99999999999999999999999", "0x10", "nan", "", "9223372036854775807"])
def test_a_size_that_is_none_is_not_told(size: str, tmp_path: Path) -> None:
    log = read(tmp_path, f"Device(id:0) memory isn't enough and alloc failed, kernel name: x, alloc size: {size}B.")
    assert log.failures[0].asked_bytes is None
    result = invoke("oom", tmp_path)
    assert (result.exit_code, result.exception) == (0, None) or isinstance(result.exception, SystemExit)
    text = f"NPU out of memory. Tried to allocate {size or 'x'} GiB (NPU 0; {size or 'x'} GiB total capacity; 1.0 GiB"
    assert read(tmp_path, text).failures[0].size("tensor", "device_total") is None


@pytest.mark.parametrize(
    "piece", [b"memory ", b"x", b"\0", b"alloc size: ", b"NPU out of memory. Tried to allocate ", b"[1,", b"\x1b["]
)
def test_a_line_without_end_is_read_in_pieces(piece: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many blocks, so that whatever grew with the line would grow here; the failure behind it is found."""
    path = tmp_path / "worker_0.log"
    path.write_bytes(piece * (2**22 // len(piece)) + b"\n" + kernel("x", 5).encode() + b"\n")
    largest = 0
    real = scan._hits

    def watched(data: bytes, *rest: Any) -> Any:
        nonlocal largest
        largest = max(largest, len(data))
        return real(data, *rest)

    monkeypatch.setattr(scan, "_hits", watched)
    log = run_log.read(path)
    assert largest <= 2 * (scan.BLOCK_BYTES + scan.BEFORE_BYTES + scan.WINDOW_BYTES)
    assert log.failures[-1].asked_bytes == 5 or log.num_others


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    (tmp_path / "worker_0.log").write_bytes(b"\xff\xfe\0" + kernel("a\u0416", 5).encode("cp1251") + b"\n")
    assert invoke("oom", tmp_path).exit_code == 0


# --- tables ---------------------------------------------------------------------------------------------------------


def test_a_trace_tells_what_filled_the_memory() -> None:
    record = told(TRACES)
    assert record == told(TRACES / "memory_block.csv")
    memory = json.loads(invoke("memory", TRACES, "--format", "json").stdout)[0]
    assert record["peak_bytes"] == memory["used_peak_bytes"] == sum(one["bytes"] for one in record["at_peak"])
    assert {one["name"]: one["bytes"] for one in record["at_peak"]} == {
        name: size for name, size in memory["categories"].items() if size
    }
    assert max(one["used_peak_bytes"] for one in record["phases"]) == record["peak_bytes"]
    sizes = [one["bytes"] for one in record["largest_blocks"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_table_alone_is_told_by_its_names(tmp_path: Path) -> None:
    (tmp_path / "blocks.csv").write_bytes((TRACES / "memory_block.csv").read_bytes())
    whole, alone = told(TRACES), told(tmp_path / "blocks.csv")
    for key in ("peak_bytes", "pool_bytes", "made_by", "blocks"):
        assert alone[key] == whole[key]
    by_name = {one["name"]: one["bytes"] for one in alone["at_peak"]}
    assert by_name["optimizer state"] == {one["name"]: one["bytes"] for one in whole["at_peak"]}["optimizer state"]


def test_a_profile_tells_the_fullest_device(tmp_path: Path) -> None:
    (tmp_path / "operator_memory.csv").write_text(
        "Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),Allocation Total Allocated(MB),"
        "Allocation Total Reserved(MB),Release Total Allocated(MB),Release Total Reserved(MB),Device Type\n"
        "aten::mm,4096,10,50,40,4,6,0,6,NPU:0\n"
        "aten::add,2048,20,,,6,10,,,NPU:0\n"
        "aten::mm,1024,10,,,1,2,,,NPU:1\n"
    )
    held = tables.read(tmp_path / "operator_memory.csv")
    assert (held.device, held.num_devices, held.peak_bytes, held.pool_bytes) == ("NPU:0", 2, 6 * MIB, 10 * MIB)
    assert (held.pieces_bytes, held.made_by.name, held.alive_at_end_bytes) == (4 * MIB, "aten::add", 2 * MIB)
    assert held.by_category == (("aten::mm", 4 * MIB), ("aten::add", 2 * MIB))
    assert told(tmp_path)["peak_bytes"] == 6 * MIB


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "start_time_stamp\n", "Name,Size(KB),Allocation Time(us),Duration(us)\n"]
)
def test_a_table_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(SwapconfError):
        tables.read(tmp_path / "a.csv")
    assert invoke("oom", tmp_path / "a.csv").exit_code == 2
