"""Messages of real failures (tests/oom/SOURCES.md): what is read out of each, and the known forms themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from swapconf.postmortem import run_log
from swapconf.postmortem.answer import answer
from swapconf.postmortem.cause import Cause
from swapconf.postmortem.codes import CODES
from swapconf.postmortem.endings import END_ANCHORS, ENDINGS
from swapconf.postmortem.families import Family
from swapconf.postmortem.message import VALUES, Memory, Message, Says
from swapconf.postmortem.messages import ANCHORS, MESSAGES
from swapconf.postmortem.whose import Moment, Use
from swapconf.words.units import GIB, MIB
from tests.helpers import ROOT

LOGS = ROOT / "tests/oom"


def gib(size: float) -> int:
    return round(size * GIB)


def mib(size: float) -> int:
    return round(size * MIB)


# cause, asked, and what else the message tells: of the diagnosis, the failure or its owner
EXPECTED: dict[str, tuple[Cause, int | None, dict[str, Any]]] = {
    "mindnlp-1761": (
        Cause.FULL,
        301990400,
        {
            "limit_bytes": 29464985600,
            "in_use_bytes": 29356337664,
            "by_event_bytes": 0,
            "short_bytes": 193342464,
            "time": "2024-10-22 11:24:55.301",
        },
    ),
    "mindone-820": (Cause.TOO_LARGE, 100555779072, {"limit_bytes": 61079552000, "line": 2}),
    "mindspore_offload": (
        Cause.TOO_LARGE,
        33100113920,
        {"limit_bytes": mib(30684), "device_bytes": mib(32768), "use": Use.GRAPH},
    ),
    "mindspore_offload_limited": (Cause.SETTING, 1088627200, {"limit_bytes": GIB, "device_bytes": 32 * GIB}),
    "mindspore_faq": (Cause.TOO_LARGE, 32611480064, {"limit_bytes": 3212254720, "pool_bytes": 524288000}),
    "mindspore_ee9999": (Cause.OTHERS, 32212254720, {"device": 6, "use": Use.POOL}),
    "mindspore_hostds": (
        Cause.UNTOLD,
        8192,
        {"device": 0, "operator": "kernel_graph_@ HostDSActor", "moment": Moment.INPUT},
    ),
    "mindspore-172": (Cause.HOST, None, {"memory": Memory.HOST}),
    "vllm_ascend-19": (Cause.OTHERS, mib(22), {"others_bytes": gib(60.97) - gib(10.65) - mib(19.52), "device": 0}),
    "llamafactory-5491": (Cause.FULL, mib(386), {"moment": Moment.LOADING, "device": 2}),
    "touchnet-100": (Cause.FRAGMENTS, gib(5.03), {"fragments_bytes": gib(57.55) - gib(49.47), "device": 3}),
    "sglang-29838": (Cause.FRAGMENTS, mib(72), {"pool_bytes": gib(58.39), "in_use_bytes": gib(56.05)}),
    "sglang-15453": (Cause.FULL, mib(226), {"device_free_bytes": mib(97.16)}),
    "ms_swift-9403": (Cause.FRAGMENTS, gib(26.44), {"device_free_bytes": gib(25.36), "rank": 18}),
    "vllm_omni-1199": (Cause.FULL, mib(52), {"device_bytes": gib(60.96), "in_use_bytes": gib(59.36)}),
    "helios-62": (Cause.BESIDE, 3221291008, {"device": 0, "module": "GE", "purpose": "page caching"}),
    "vllm_ascend-3141": (
        Cause.COMMUNICATION,
        2147483648,
        {"operator": "aclnnMoeDistributeDispatchV2", "rank": 7, "use": Use.COMMUNICATION},
    ),
    "ptoas-341": (Cause.OTHERS, None, {"moment": Moment.STARTING}),
    "lmcache-242": (Cause.HOST, None, {"memory": Memory.HOST, "use": Use.PINNED}),
    "hixl-links": (
        Cause.COMMUNICATION,
        2122688,
        {"module": "HCCL", "device": 7, "use": Use.COMMUNICATION, "time": "2026-02-27 16:24:15.595"},
    ),
    "cann-0050": (Cause.CARD, 20971520, {"device": 0, "use": Use.POOL, "memory": Memory.DEVICE, "line": 2}),
    "rollout-dispatch": (Cause.CARD, 20971520, {"use": Use.POOL, "time": "2026-04-23 23:34:33.485"}),
    "deployment-aicpu": (Cause.BESIDE, 831782912, {"time": "2026-10-10 12:07:40.000"}),
    "vllm_ascend-1993": (Cause.UNTOLD, None, {"memory": Memory.DEVICE}),
    "flash_linear_attention-149": (Cause.UNREAL, None, {"unreal_size": "more than 1EB"}),
    "accelerate-2868": (Cause.UNREAL, None, {"unreal_size": "[1, 4623015400198258675]"}),
    "torchrec-1008": (Cause.UNREAL, None, {"unreal_size": "-3516029179369850022: [-3516029179369850022]", "rank": 7}),
    "pytorch-139181": (Cause.UNREAL, None, {"unreal_size": "[1, 4605674770382112385, 4128, 128]"}),
}
OTHERS = {"mindone-820": 1, "helios-62": 1, "hixl-links": 1}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_message_is_understood(name: str) -> None:
    log = run_log.read(LOGS / f"{name}.log")
    found = answer(log)
    cause, asked, more = EXPECTED[name]
    told = {
        **{key: getattr(found.diagnosis, key) for key in more if hasattr(found.diagnosis, key)},
        **{key: getattr(found.whose, key) for key in more if hasattr(found.whose, key)},
        **{key: getattr(found.failure, key) for key in more if hasattr(found.failure, key)},
        **{key: found.failure.values[key] for key in more if key in found.failure.values},
    }
    assert (found.diagnosis.cause, found.diagnosis.asked_bytes, told) == (cause, asked, more)
    assert log.num_others == OTHERS.get(name, 0)
    assert found.remedies


def test_each_log_has_its_source_and_each_source_its_log() -> None:
    table = (LOGS / "SOURCES.md").read_text(encoding="utf-8")
    named = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][1:]
    assert sorted(named) == sorted(path.stem for path in LOGS.glob("*.log")) == sorted(EXPECTED)


@pytest.mark.parametrize("message", [*MESSAGES, *ENDINGS], ids=lambda message: message.name)
def test_a_form_can_be_found_and_its_values_have_a_meaning(message: Message) -> None:
    anchors = ANCHORS if message in MESSAGES else END_ANCHORS
    assert any(anchor in text for anchor in anchors for text in message.always)
    assert set(message.values) <= set(VALUES)
    assert message.source
    assert message.versions


def test_names_are_unique() -> None:
    both = (*MESSAGES, *ENDINGS)
    assert len({message.name for message in both}) == len(both)


@pytest.mark.parametrize(("anchors", "messages"), [(ANCHORS, MESSAGES), (END_ANCHORS, ENDINGS)])
def test_no_anchor_is_looked_for_in_vain(anchors: Sequence[bytes], messages: Sequence[Message]) -> None:
    """Each costs a search through a whole log."""
    for anchor in anchors:
        assert any(anchor in text for message in messages for text in message.always), anchor


def test_a_message_of_an_end_tells_its_family_or_what_decides_it() -> None:
    for message in ENDINGS:
        decides = {"code", "reason", "exit"} & set(message.values)
        assert message.says is not Says.ENDED or (message.family is not None) or decides
    assert all(isinstance(code.family, Family) and 100_000 <= number < 1_000_000 for number, code in CODES.items())


WORDINGS = [
    ("kernel", "Device(id:3) memory isn't enough and alloc failed, kernel name: Default/a-B/C-op0, alloc size: 512B."),
    ("kernel", "Device(id:3) memory isn't enough and alloc failed in output actor, kernel name: x, alloc size: 512B."),
    ("kernel-without-device", "Memory isn't enough and alloc failed, kernel name: x, alloc size: 512B."),
    ("no-kernel", "Device(id:3) memory isn't enough and alloc failed, alloc size: 512"),
    ("above-limit", "TotalUsedMemStatistics : 9 plus alloc size : 512 is more than total mem size : 10."),
    ("static", "Out of Memory!!! Request memory size: 512 failed! Please"),
    ("total", "Out of memory!!! total[10] (dynamic[0] memory pool[5]) malloc [512] failed! Please"),
    ("total", "Out of memory!!! total[10](dynamic[0] static[5]) malloc [512] failed!"),
    ("device", "Malloc device memory failed, size[512], ret[207001], Device 3 Available MOC size:9 free size:1 may be"),
    ("device", "Device 3 is occupied, malloc device memory failed, size[512], ret[207001]"),
    ("maybe-device", "Allocate memory failed, maybe device memory(device id:3) isn't enough. Allocate size: 512"),
    ("pynative-tensor", "Allocate device memory failed, alloc size:512B"),
    ("pynative-workspace", "Allocate dynamic workspace memory failed, alloc size: 512B"),
    ("graph-engine", "Out of memory, Alloc GE memory failed, size: 512"),
    ("feature-memory", "AllocFeatureMemory error, memory not enough, memory size: 512"),
    ("pinned", "Allocate pin memory failed, size: 512"),
    ("no-room", "Memory not enough: current free memory size[1] is smaller than required size[512]."),
    ("no-room-ascend", "The device memory is not enough, the free memory size is 1, but the alloc size is 512"),
    ("hal", "halMemAlloc failed:size=512(bytes), type=2, moduleId=3, drvRetCode=6, device_id 3, ErrCode=207001"),
    ("hal-call", "Call driver api halMemAlloc failed, drvRetCode=6, size=512(bytes), type=2, moduleId=33, drvFlag=0x1, "
     "drvDevId=3, ErrCode=207001"),
    ("hal-physical", "[drv api]halMemCreate failed drvRetCode=6, size=512(bytes), flags=0, ErrCode=207001"),
    ("driver-create", "Mem create failed. (ret=6; size=512; side=1; devid=3)"),
    ("graph-engine-malloc", "[Malloc][Memory] failed, rt_ret:207001, device_id:3, size:512"),
    ("hccl", "aclrtMallocWithCfg failed, Reason: out of memory, return[207001], para: devPtrAddr[0x0], size[512]"),
    ("rtMalloc", "Call rtMalloc fail, purpose: page caching, type = 2, size:512, device_id:3[FUNC:Alloc]"),
    ("resource", "Failed to allocate resource[A] with info [size:512]. Reason: Memory resources are exhausted."),
    ("npu", "NPU out of memory. Tried to allocate 512 bytes (NPU 3; 9 bytes total capacity; 8 bytes already allocated; "
     "1 bytes free; 8 bytes allowed; 9 bytes reserved in total by PyTorch)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), WORDINGS, ids=[f"{name}-{at}" for at, (name, _) in enumerate(WORDINGS)])
def test_a_wording_tells_the_size_that_was_asked(name: str, text: str, tmp_path: Path) -> None:
    (message,) = (one for one in MESSAGES if one.name == name)
    values = message.read(f"[ERROR] prefix] {text}".encode())
    assert values is not None
    assert 512 in (values.get("tensor"), values.get("asked"), values.get("device_asked"))
    assert values.get("device", 3) == 3
    if message.says is Says.FAILED:
        (tmp_path / "a.log").write_text(f"before\n{text}\n")
        (failure,) = run_log.read(tmp_path / "a.log").failures
        assert (failure.asked_bytes, failure.line) == (512, 2)


def test_what_a_pool_and_a_card_hold_is_read() -> None:
    texts = {
        "pool-total": (
            "The dynamic memory pool total size is 100M, total used size is 90M, used peak size is 95M.",
            {"pool_total": mib(100), "in_use": mib(90), "used_peak": mib(95)},
        ),
        "pool-sums": (
            "The dynamic memory pool total allocated mem:100M, peak used mem:95M, actual peak used mem:99M, in used "
            "mem:90M, total used by event mem:1M, total idle mem:9M, total eager free mem:0M.",
            {"pool_total": mib(100), "used_peak": mib(95), "in_use": mib(90), "idle": mib(9)},
        ),
        "limits": (
            "Device MOC Size:65536M, Device free MOC Size:62432M, Reserved MOC size for Other Components"
            "(HCCL/rts/etc.):3072M, Recommend Reserved MOC size for Other Components:4096M, User define MindSpore MOC "
            "Size:58G, MindSpore Used MOC Size:59392M.",
            {"reserved_others": mib(3072), "user_limit": 58 * GIB, "limit": mib(59392)},
        ),
        "setting-too-high": (
            "The Free Device Memory Size is 30.5 GB, max_device_memory should be in range (0-30.5]GB, but got 62000MB",
            {"device_free": gib(30.5)},
        ),
    }
    for message in MESSAGES:
        if message.name in texts:
            text, values = texts.pop(message.name)
            assert message.read(text.encode()) == values
    assert not texts
