"""What a profiler tells of real steps: which part waits for another stage, and what ran again."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from swapconf.profile import kernel_details, measured_step, profiler_folder, profiler_writer, step_trace, trace_view
from swapconf.profile.measured_step import MeasuredStep, Repeated, repeated
from swapconf.profile.step_profile import length_ns
from swapconf.timing import costing, hardware
from swapconf.timing.costing import Signature, Workload
from swapconf.timing.measurements import Measured, MeasuredKernel
from swapconf.trace.trace import Tensor
from swapconf.upstream.device_kernels import is_between_stages
from tests.helpers import NAMES, TRACES, invoke
from tests.unit.profile_folders import TORCH_STEPS, WAITING, kernels, profile, ranks
from tests.unit.test_profiler_writer import profile as simulated

US = 1000


def told(*words: str | Path) -> Any:
    result = invoke("timeline", *words, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def steps(tmp_path: Path, text: str) -> tuple[MeasuredStep, ...]:
    return measured_step.read(measured_step.KERNELS, profile(tmp_path, {"k.csv": text}) / "k.csv")


def parts(step: MeasuredStep) -> tuple[int, ...]:
    return (step.computing_ns, step.waiting_ns, step.exchanging_ns, step.free_ns)


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_messages_between_stages_are_waiting_and_the_parts_of_a_step_add_up(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, WAITING)
    assert parts(step) == (30 * US, 320 * US, 100 * US, 50 * US)
    assert sum(parts(step)) == step.span_ns == 500 * US
    assert step.communicating_ns == 420 * US
    assert [(one.type, one.count, one.waits) for one in step.exchanges] == [
        ("hcom_batchSendRecv_", 2, True),
        ("hcom_reduceScatter_", 1, False),
    ]
    assert (step.exchanges[0].longest_ns, step.exchanges[0].shortest_ns) == (300 * US, 20 * US)


def test_what_runs_beside_a_message_is_no_waiting(tmp_path: Path) -> None:
    """Kernels compute during half of it, another collective runs during a quarter."""
    text = kernels(
        ("hcom_receive_", "COMMUNICATION", 0, 80),
        ("MatMulV3", "AI_CORE", 0, 40),
        ("hcom_allReduce_", "COMMUNICATION", 60, 20),
    )
    (step,) = steps(tmp_path, text)
    assert parts(step) == (40 * US, 20 * US, 20 * US, 0)
    assert step.overlapped_ns == 40 * US


@pytest.mark.parametrize(
    ("name", "is_message"),
    [
        *((name, True) for name in ("hcom_send_", "hcom_receive_", "hcom_batchSendRecv_", "Receive", "hcom_recv_")),
        *((name, False) for name in ("hcom_allReduce_", "hcom_reduceScatter_", "MatMulV3", "AppendScatter")),
        ("Default/network/Receive-op0", True),
        ("Default/Receive/MatMul-op0", False),
    ],
)
def test_messages_are_told_by_their_type(name: str, is_message: bool) -> None:
    assert is_between_stages(name) is is_message


def test_steps_and_devices_are_told_apart_in_the_order_of_the_clock(tmp_path: Path) -> None:
    later = kernels(("Add", "AI_VECTOR_CORE", 2000, 7), step="9").partition("\n")[2]
    other = kernels(("Add", "AI_VECTOR_CORE", 0, 5), step="9", device="1").partition("\n")[2]
    found = steps(tmp_path, kernels(("Add", "AI_VECTOR_CORE", 0, 3), step="10") + later + other)
    assert [(one.device, one.step, one.span_ns) for one in found] == [
        ("0", "10", 3 * US),
        ("0", "9", 7 * US),
        ("1", "9", 5 * US),
    ]


def test_a_summary_of_msprof_tells_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "PROF_1" / "mindstudio_profiler_output"
    profile(
        folder,
        {
            "op_summary_20260102030405.csv": "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),"
            "Task Duration(us)\n0,mm,MatMulV2,AI_CORE,100.0\t,30\n0,hcom_send__1,hcom_send_,HCCL,130.0\t,50\n"
        },
    )
    (found,) = told(tmp_path)
    (step,) = found["steps"]
    assert (step["computing_us"], step["waiting_us"], step["step"]) == (30.0, 50.0, None)


def test_a_kernel_without_a_start_is_told_with_its_line(tmp_path: Path) -> None:
    profile(tmp_path, {"kernel_details.csv": WAITING.replace("1764246877000010.000", "")})
    result = invoke("timeline", tmp_path)
    assert result.exit_code == 2
    assert "kernel_details.csv:3:1" in result.output.replace("\n", "")


# --- the profiler's own sums ------------------------------------------------------------------------------------------


def test_where_the_profiler_calls_waiting_communication_it_is_said(tmp_path: Path) -> None:
    profile(tmp_path, {"kernel_details.csv": WAITING, "step_trace_time.csv": TORCH_STEPS})
    output = invoke("timeline", tmp_path).output
    assert "0.320 ms of 0.420 ms of communication are waiting for another stage" in output
    assert "step_trace_time.csv has 0.000 ms of that as the bubble of step 13" in output


def test_a_bubble_that_has_it_all_is_not_disputed(tmp_path: Path) -> None:
    """MindSpore counts batches, too."""
    own = (
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive),Preparing\n13,30.0,420.0,0.0,420.0,50.0,180,320.0,100.0,0\n"
    )
    profile(tmp_path, {"kernel_details.csv": WAITING, "step_trace_time.csv": own})
    output = invoke("timeline", tmp_path).output
    assert "are waiting for another stage" in output
    assert "as the bubble" not in output
    (row,) = step_trace.read(tmp_path / "step_trace_time.csv")
    assert (row.bubble_ns, row.device, row.counts_batches) == (320 * US, "", True)


def test_alone_the_sums_are_told_as_they_are_with_what_they_lack(tmp_path: Path) -> None:
    path = profile(tmp_path, {"step_trace_time.csv": TORCH_STEPS}) / "step_trace_time.csv"
    output = " ".join(invoke("timeline", path).output.split())
    assert "0.420" in output
    assert "what of it is waiting only kernel_details.csv tells" in output
    (found,) = told(path)
    assert found["steps"] == []
    assert found["told"][0]["communicating_us"] == 420.0


def test_a_damaged_sum_is_told_with_its_line(tmp_path: Path) -> None:
    path = profile(tmp_path, {"step_trace_time.csv": TORCH_STEPS.replace("420.0", "-1")}) / "step_trace_time.csv"
    result = invoke("timeline", path)
    assert result.exit_code == 2
    assert "step_trace_time.csv:2:1" in result.output.replace("\n", "")


# --- which stage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["pt", "ms"])
def test_the_stage_that_waits_least_is_the_one_that_others_wait_for(ending: str, tmp_path: Path) -> None:
    busy = kernels(("MatMulV3", "AI_CORE", 0, 480), ("hcom_send_", "COMMUNICATION", 480, 20))
    ranks(tmp_path, ending, {0: {"kernel_details.csv": WAITING}, 4: {"kernel_details.csv": busy}})
    assert [one["rank"] for one in told(tmp_path)] == [0, 4]
    output = " ".join(invoke("timeline", tmp_path).output.split())
    assert "rank 4 waits least (4% of its time), rank 0 most (64%)" in output


# --- what ran again ---------------------------------------------------------------------------------------------------


def test_more_launches_than_gradients_are_recomputed() -> None:
    counts = [("FlashAttentionScore", 56), ("FlashAttentionScoreGrad", 28), ("RmsNorm", 4), ("RmsNormGradV2", 4)]
    assert repeated(counts) == (
        Repeated(operator="FlashAttentionScore", forward=56, gradient=28),
        Repeated(operator="RmsNorm", forward=4, gradient=4),
    )


def test_only_what_ran_again_is_named_as_recomputed(tmp_path: Path) -> None:
    text = kernels(
        ("FlashAttentionScore", "MIX_AIC", 0, 1),
        ("FlashAttentionScore", "MIX_AIC", 1, 1),
        ("FlashAttentionScoreGrad", "MIX_AIC", 2, 1),
        ("RmsNorm", "AI_VECTOR_CORE", 3, 1),
        ("RmsNormGrad", "AI_VECTOR_CORE", 4, 1),
    )
    output = invoke("timeline", profile(tmp_path, {"kernel_details.csv": text})).output
    assert "recomputed: FlashAttentionScore ran 2 times, its gradient 1\n" in output


def test_without_gradients_nothing_is_said_of_recompute(tmp_path: Path) -> None:
    text = kernels(("MatMulV3", "AI_CORE", 0, 1))
    assert "recomputed" not in invoke("timeline", profile(tmp_path, {"kernel_details.csv": text})).output


# --- a simulated step, read as a measured one -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_a_simulated_step_are_those_that_were_simulated(name: str, tmp_path: Path) -> None:
    found = simulated(name)
    output = profiler_writer.write(found, tmp_path, datetime(2026, 1, 1))
    (step,) = measured_step.read(measured_step.KERNELS, output / "kernel_details.csv")
    assert step.computing_ns == length_ns(found.computing)
    assert step.communicating_ns == length_ns(found.communicating)
    (own,) = step_trace.read(output / "step_trace_time.csv")
    assert own.computing_ns == step.computing_ns
    assert "a simulated step, not a card" in invoke("timeline", output).output


def test_options_that_estimate_are_of_no_use_for_a_profile(tmp_path: Path) -> None:
    profile(tmp_path, {"kernel_details.csv": WAITING})
    result = invoke("timeline", tmp_path, "--hardware", "ascend_910b2", "--host-memory", "1TB")
    assert result.exit_code == 2
    assert "--hardware, --host-memory: of no use for a profile" in " ".join(result.output.split())


# --- --measured -------------------------------------------------------------------------------------------------------


def message(name: str, took: float) -> MeasuredKernel:
    return MeasuredKernel(
        kernel=name, device_name="hcom_receive__1", type="hcom_receive_", inputs=(), outputs=(), duration_us=took
    )


def test_a_message_takes_as_long_as_the_shortest_of_its_kind_as_the_others_waited() -> None:
    """Launched in two steps and by two kernels; another shape is another kind."""
    small, large = (Signature("Receive", (), (Tensor("BFloat16", (size, 8)),), (0, 1)) for size in (16, 64))
    names = ("net/Receive-op0", "net/Receive-op1", "net/Receive-op2")
    load = Workload(names=names, signatures=(small, large), index=measured_index(0, 0, 1))
    profiled = Measured(
        kernels=(message(names[0], 900.0), message(names[0], 700.0), message(names[1], 5.0), message(names[2], 40.0))
    )
    costs = costing.costs(load, hardware.load("generic"), measured=profiled)
    assert costs.duration_us.tolist() == [5.0, 5.0, 40.0]


def measured_index(*places: int) -> Any:
    import numpy as np

    return np.array(places, dtype=np.int64)


def test_averages_of_messages_are_the_shortest_of_them(tmp_path: Path) -> None:
    statistic = "OP Type,Count,Total Time(us),Min Time(us)\nhcom_receive_,4,4000,3\nhcom_allReduce_,4,4000,3\n"
    path = profile(tmp_path, {"op_statistic.csv": statistic}) / "op_statistic.csv"
    assert kernel_details.read_statistic(path) == {"hcom_receive_": 3.0, "hcom_allReduce_": 1000.0}
    older = profile(tmp_path, {"old.csv": "OP Type,Count,Total Time(us)\nhcom_receive_,4,4000\n"}) / "old.csv"
    assert kernel_details.read_statistic(older) == {"hcom_receive_": 1000.0}
    events = [
        {"ph": "X", "name": f"hcom_{kind}__628_{number}_1", "dur": took}
        for kind in ("receive", "allReduce")
        for number, took in enumerate((900.0, 100.0))
    ]
    (tmp_path / "trace_view.json").write_text(json.dumps(events))
    assert trace_view.read(tmp_path / "trace_view.json").average_us == {
        "hcom_receive_": 100.0,
        "hcom_allReduce_": 500.0,
    }


def test_beside_measured_times_the_waiting_of_the_profile_is_told(tmp_path: Path) -> None:
    profile(tmp_path, {"kernel_details.csv": WAITING, "step_trace_time.csv": TORCH_STEPS})
    words = ("timeline", TRACES / "llama_l2_none", "--measured", tmp_path)
    output = invoke(*words).output
    assert "0.320 ms of 0.420 ms of communication are waiting for another stage" in output
    record = told(*words[1:])
    assert record["profile"][0]["steps"][0]["waiting_us"] == 320.0


def test_the_folder_above_the_output_is_taken_for_measured_times_too(tmp_path: Path) -> None:
    profile(tmp_path / "ASCEND_PROFILER_OUTPUT", {"kernel_details.csv": WAITING})
    assert len(profiler_folder.read(tmp_path).kernels) == 5


def test_a_profile_that_waits_for_nobody_says_nothing_of_it(tmp_path: Path) -> None:
    profile(tmp_path, {"kernel_details.csv": kernels(("MatMulV3", "AI_CORE", 0, 1))})
    assert "the profile:" not in invoke("timeline", TRACES / "llama_l2_none", "--measured", tmp_path).output
