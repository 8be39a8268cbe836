"""PROCESS -> what it holds behind a step: device memory, memory of its own, and Tensors that Python knows. [mindspore]

Python's garbage is collected first, which may give memory back earlier than a training does.
"""

from __future__ import annotations

import gc
from pathlib import Path

_STATUS = Path("/proc/self/status")
_OWN = "RssAnon:"  # what is not of files, in kB


def left_behind() -> tuple[int, int, int, int]:
    """(used peak until now, device memory in use, memory of the process, Tensors); the first three in bytes."""
    import mindspore

    mindspore.runtime.synchronize()
    gc.collect()
    tensors = sum(issubclass(type(one), mindspore.Tensor) for one in gc.get_objects())
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    own = next(line.split()[1] for line in lines if line.startswith(_OWN))
    peak, used = mindspore.runtime.max_memory_allocated(), mindspore.runtime.memory_allocated()
    return int(peak), int(used), int(own) << 10, tensors
