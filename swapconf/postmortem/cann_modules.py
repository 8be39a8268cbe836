"""NUMBER of a module of CANN -> its NAME, as the driver's statistics print it: who asked for memory.

Source: the driver's public header with HCCL_HAL_MODULE_ID, which says that the numbers stay as they are, and its names
in SVM_DECLARE_MODULE_NAME. Only those that ask for memory of a device or pin memory of the host.
"""

from __future__ import annotations

from collections.abc import Mapping

APP = "APP"  # the process itself, through aclrtMalloc: the pool of MindSpore or of torch_npu
HCCL = "HCCL"

MODULES: Mapping[int, str] = {
    3: HCCL,
    4: "FMK",
    5: "HIAIENGINE",
    6: "DVPP",
    7: "RUNTIME",
    8: "CCE",
    22: "DEVMM",
    24: "LIBMEDIA",
    25: "CCECPU",
    27: "HCCP_SCHEDULE",
    28: "HCCP",
    29: "ROCE",
    30: "TEFUSION",
    31: "PROFILING",
    32: "DP",
    33: APP,
    35: "TSDUMP",
    36: "AICPU",
    37: "AICPU_SCHEDULE",
    38: "TDT",
    39: "FE",
    40: "MD",
    42: "ME",
    45: "GE",
    48: "ASCENDCL",
    57: "TBE",
    62: "FFTS",
    63: "OP",
    64: "UDF",
    75: "MBUFF",
}


def module_name(text: bytes) -> str | None:
    """``3`` -> ``HCCL``; None for a number that is no known module."""
    return MODULES.get(int(text)) if text.isdigit() else None
