"""CODE or REASON of CANN -> FAMILY: what a call of the runtime returns when a task on the device fails.

Source: rt_error_codes.h and errcode_manage.cc of hicann/runtime (CANN 9), whose texts are these; MindSpore 2.9.0 has a
like table in libmindspore_ascend_res_manager.so. What is not here is not about how a run ends, as 207001, memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from swapconf.postmortem.families import Family


class Code(NamedTuple):
    text: str
    family: Family


CODES: Mapping[int, Code] = {
    107019: Code("wait timeout", Family.WAIT),
    107020: Code("task timeout", Family.WAIT),
    107022: Code("device task abort", Family.STOPPED),
    107023: Code("stream abort", Family.STOPPED),
    507001: Code("task exception", Family.TASK),
    507010: Code("lost heartbeat", Family.DEVICE_LOST),
    507011: Code("model execute failed", Family.TASK),
    507012: Code("report timeout", Family.KERNEL_TIMEOUT),
    507013: Code("sys dma error", Family.COPY),
    507014: Code("aicore timeout", Family.KERNEL_TIMEOUT),
    507015: Code("aicore exception", Family.KERNEL),
    507016: Code("aicore trap exception", Family.KERNEL),
    507017: Code("aicpu timeout", Family.KERNEL_TIMEOUT),
    507018: Code("aicpu exception", Family.KERNEL),
    507033: Code("device setup error", Family.DEVICE_LOST),
    507034: Code("vector core timeout", Family.KERNEL_TIMEOUT),
    507035: Code("vector core exception", Family.KERNEL),
    507036: Code("vector core trap exception", Family.KERNEL),
    507042: Code("aicore trap read overflow", Family.KERNEL),
    507043: Code("aicore trap write overflow", Family.KERNEL),
    507044: Code("vector core trap read overflow", Family.KERNEL),
    507045: Code("vector core trap write overflow", Family.KERNEL),
    507046: Code("stream sync timeout", Family.WAIT),
    507047: Code("event sync timeout", Family.WAIT),
    507048: Code("fftsplus timeout", Family.WAIT),
    507049: Code("fftsplus exception", Family.KERNEL),
    507050: Code("fftsplus trap exception", Family.KERNEL),
    507052: Code("copy data fail", Family.COPY),
    507053: Code("device mem error", Family.DEVICE_MEMORY),
    507054: Code("hbm Multi-bit ECC error", Family.DEVICE_MEMORY),
    507055: Code("suspect device mem error", Family.DEVICE_MEMORY),
    507056: Code("device network link error", Family.LINK),
    507057: Code("suspect remote error", Family.LINK),
    507901: Code("hdc disconnect", Family.DEVICE_LOST),
    507904: Code("hccl op retry failed", Family.LINK),
    507914: Code("l3 port error", Family.LINK),
    507915: Code("ccu timeout", Family.WAIT),
    507916: Code("ccu exception", Family.KERNEL),
}
# texts of the same table that have no code of their own, and how CANN names a core that failed
_OTHERS: Mapping[str, Family] = {
    "the model stream execute failed": Family.TASK,
    "device local mem error": Family.DEVICE_MEMORY,
    "device remote mem error": Family.LINK,
    "sdma copy error": Family.COPY,
    "sdma reduce error": Family.COPY,
    "sdma error": Family.COPY,
    "fftsplus aicore error": Family.KERNEL,
    "fftsplus aivector error": Family.KERNEL,
    "aicore error": Family.KERNEL,
    "aivec error": Family.KERNEL,
}
_BY_REASON = {**{code.text.lower(): code.family for code in CODES.values()}, **_OTHERS}


def of_code(code: int) -> Family | None:
    return CODES[code].family if code in CODES else None


def of_reason(reason: str) -> Family | None:
    return _BY_REASON.get(reason.strip("[] ").lower())
