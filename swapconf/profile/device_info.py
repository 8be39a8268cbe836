"""INFO.JSON -> DEVICE: the card of a profile, where msprof's raw data are still beside what was made of them.

``PROF_*/device_N/info.json.N`` has ``DeviceInfo``, a list of objects with ``ai_core_num``, a number, and
``aic_frequency``, megahertz as text. Source: older releases of MindSpore's own profiler read them so (its
peak of operations is frequency times cores times 4096 times 2), and so does msprof (``DeviceInfo`` in its sources).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swapconf.files.opening import is_readable, read_bytes
from swapconf.timing.measurements import Device

MAX_BYTES = 2**20
_MOST_CORES, _MOST_MHZ = 1024, 10_000.0
_PLACES = ("PROF_*/device_*/info.json.*", "device_*/info.json.*")


def beside(output: Path) -> Device | None:
    """``output``: ASCEND_PROFILER_OUTPUT of MindSpore or torch_npu, or mindstudio_profiler_output of msprof. None where
    nothing beside it tells both cores and clock."""
    for place in _PLACES:
        for file in sorted(output.resolve().parent.glob(place)):
            if file.suffix[1:].isdigit() and is_readable(file):
                for device in _devices(file):
                    return device
    return None


def _devices(file: Path) -> Iterator[Device]:
    try:
        text = read_bytes(file, MAX_BYTES)
        told = json.loads(text) if len(text) <= MAX_BYTES else {}
    except (OSError, ValueError, RecursionError):
        return
    listed: Any = told.get("DeviceInfo") if isinstance(told, dict) else None
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict):
            continue
        cores, clock = item.get("ai_core_num"), _number(item.get("aic_frequency"))
        if (
            isinstance(cores, int)
            and not isinstance(cores, bool)
            and 0 < cores <= _MOST_CORES
            and 0 < clock <= _MOST_MHZ
        ):
            yield Device(cube_cores=cores, clock_mhz=clock)


def _number(told: Any) -> float:
    try:
        return float(told)
    except (TypeError, ValueError, OverflowError):
        return 0.0
