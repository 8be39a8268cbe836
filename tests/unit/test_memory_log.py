"""Excerpts of real logs of MindSpore 2.9.0 and mindformers 1.9.0; paths are shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapconf.dryrun import memory_log
from swapconf.trace.trace import Notice, WorkerLog
from swapconf.words.findings import SwapconfError

POOL = (
    "[WARNING] DEVICE(29406,7f4efa073b80,python):2026-11-20-15:01:24.092.024 [mindspore/ccsrc/plugin/ascend/"
    "res_manager/mem_manager/abstract_ascend_memory_pool_support.cc:48] SetMemPoolBlockSize] Memory pool block "
    "size 2147483648 is bigger than currently available maximum memory 1073741824, and the actual effective value "
    "will be 1073741824"
)
OUTSIDE = (
    "[WARNING] PARALLEL(29406,7f4efa073b80,python):2026-11-20-15:01:36.411.094 [mindspore/ccsrc/frontend/"
    "parallel/pass/offload_activation.cc:252] WarningOffloadOutsideLazyInline] Offload does not take effect "
    "outside the scope of the lazy_inline Cell. NOde: @129_construct_102:CNode_106{[0]: ValueNode<Primitive> "
    "PrimFunc_FlashAttentionScore, [1]: xq_out}, trace info: In file flash_attention.py:337~346, 26~64"
)
BOTH = (
    "[WARNING] PARALLEL(28964,7f7715a35b80,python):2026-11-20-15:00:58.673.030 [mindspore/ccsrc/frontend/parallel/"
    "pass/offload_activation.cc:127] GetActivationOffloadInfo] Node can not be recomputed and offloaded at the "
    "same time, ignore offload fot it. Node: In file flash_attention.py:337~346, 26~64"
)
UTILS = "mindformers/run/output/log[mindformers/parallel_core/training_graph/transformer/utils.py:339] - INFO - "
HOOK = "mindformers/run/output/log[swapconf/train/hook.py:116] - INFO - "

ENDED = f"""\
2026-11-20 15:01:24,070 - {UTILS}Formative op swap: {{'.*\\\\.flash_attention': [{{'backward_prefetch': 10}}]}}
{POOL}
2026-11-20 15:01:24,195 - {UTILS}Set op_swap at layer 0:  attention.flash_attention, value=10
2026-11-20 15:01:24,258 - {UTILS}Set layer swap at layer 2                             and value is: 1
2026-11-20 15:01:24,300 - {HOOK}Skip op_swap at layer 1: attention.flash_attention, recomputed [R1-recompute-wins]
2026-11-20 15:01:24,301 - {HOOK}Set select recompute at layer 3: feed_forward
2026-11-20 15:01:24,302 - {HOOK}Set full recompute at layer 5
[WARNING] RUNTIME_FRAMEWORK(11722,7ff787fff6c0,python):2026-11-20-14:20:08.404.887 [async_rqueue.cc:61] \
BindCoreForThread] Skip to bind thread core for 'pynative' as no available core assigned.
{OUTSIDE}
        _, _, _, output = self.flash_attention(query,

{OUTSIDE}
{BOTH}
[WARNING] DEVICE(29406,7f4efa073b80,python):2026-11-20-15:02:40.773.020 [mindspore/ccsrc/plugin/ascend/res_manager/\
mem_manager/ascend_memory_adapter.cc:269] DeInitialize] Ascend Memory Adapter deinitialize success, statistics:
Device MOC memory size: 65536M
MindSpore Used memory size: 1024M
MindSpore memory base address: 0x7ffc67319d87
Used peak memory usage (without fragments): 7M
Actual peak memory usage (with fragments): 9M

"""

FAILED = """\
Traceback (most recent call last):
  File "mindformers/tools/utils.py", line 636, in ensure_divisibility
    raise ValueError(f"{numerator} is not divisible by {denominator}")
ValueError: 128 is not divisible by 3

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "run_mindformer.py", line 41, in <module>
    Trainer(config).train()
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
[WARNING] PRE_ACT(4884,7f0b96681b80,python):2026-11-20-15:17:21.844.079 [mem_tracker.cc:534] Dump] Dump start
2026-11-20 15:17:21,839 - mindformers[utils.py:213] - INFO - Formative layer swap: []
ValueError: LlamaForCausalLM: 128 is not divisible by 3
Device MOC memory size: 65536M
Used peak memory usage (without fragments): 0M
"""

MIB = 2**20


def test_a_run_that_ended() -> None:
    assert memory_log.parse(ENDED.splitlines()) == WorkerLog(
        device_bytes=65536 * MIB,
        usable_bytes=1024 * MIB,
        base_address=0x7FFC67319D87,
        used_peak_bytes=7 * MIB,
        with_fragments_peak_bytes=9 * MIB,
        strategy=(
            "Set op_swap at layer 0: attention.flash_attention, value=10",
            "Set layer swap at layer 2 and value is: 1",
            "Skip op_swap at layer 1: attention.flash_attention, recomputed [R1-recompute-wins]",
            "Set select recompute at layer 3: feed_forward",
            "Set full recompute at layer 5",
        ),
        notices={Notice.POOL_BLOCK_CUT: 1, Notice.OUTSIDE_LAZY_INLINE: 2, Notice.RECOMPUTE_WINS: 1},
    )


def test_a_run_that_failed() -> None:
    log = memory_log.parse(FAILED.splitlines())
    assert log.error == "ValueError: LlamaForCausalLM: 128 is not divisible by 3"
    assert (log.device_bytes, log.used_peak_bytes) == (65536 * MIB, 0)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("RuntimeError: ", "RuntimeError:"),
        ("mindspore.common.MyError: no: such thing", "mindspore.common.MyError: no: such thing"),
    ],
)
def test_forms_of_an_exception(last: str, error: str) -> None:
    lines = ["ERROR - Traceback (most recent call last):", "  File x", last, "after it: words"]
    assert memory_log.parse(lines).error == error


def test_a_dead_interpreter() -> None:
    assert (
        memory_log.parse(["x", "Fatal Python error: Segmentation fault"]).error
        == "Fatal Python error: Segmentation fault"
    )


def test_nothing_is_known_of_an_empty_log() -> None:
    assert memory_log.parse([]) == WorkerLog()


def test_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "worker_0.log"
    path.write_bytes(b"\xff\xfe\0\n" + b"a" * 200_000 + b"\nUsed peak memory usage (without fragments): 7M")
    assert memory_log.read(path) == WorkerLog(used_peak_bytes=7 * MIB)


def test_the_last_value_counts(tmp_path: Path) -> None:
    path = tmp_path / "worker_0.log"
    path.write_text(FAILED + ENDED, encoding="utf-8")
    assert memory_log.read(path).used_peak_bytes == 7 * MIB


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(SwapconfError) as caught:
        memory_log.read(tmp_path / "worker_0.log")
    assert [finding.rule for finding in caught.value.findings] == ["file-not-found"]
