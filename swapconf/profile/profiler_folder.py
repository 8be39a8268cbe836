"""ASCEND_PROFILER_OUTPUT -> MEASURED: what the profiler of one rank left behind, as far as it tells times."""

from __future__ import annotations

from pathlib import Path

from swapconf.files.table_lines import NOT_FOUND
from swapconf.profile import device_info, kernel_details, trace_view
from swapconf.profile.profiler_csv import profiler_damage
from swapconf.timing.measurements import Measured
from swapconf.words.phrases import phrase

DETAILS, STATISTIC, VIEW = "kernel_details.csv", "op_statistic.csv", "trace_view.json"
OUTPUT = "ASCEND_PROFILER_OUTPUT"


def read(folder: str | Path) -> Measured:
    """Of the folder of output, or the one above it. Any of the three files may be missing, but not all. Raises
    SwapconfError."""
    above = Path(folder)
    output = above / OUTPUT if not any((above / name).exists() for name in (DETAILS, STATISTIC, VIEW)) else above
    details, statistic, view = (output / name for name in (DETAILS, STATISTIC, VIEW))
    if not (details.exists() or statistic.exists() or view.exists()):
        damage = profiler_damage(folder)
        damage.add(
            NOT_FOUND,
            phrase("has none of {details}, {statistic} and {view}", details=DETAILS, statistic=STATISTIC, view=VIEW),
        )
        damage.refuse()
    seen = trace_view.read(view) if view.exists() else Measured()
    averages = kernel_details.read_statistic(statistic) if statistic.exists() else {}
    return Measured(
        kernels=kernel_details.read(details) if details.exists() else (),
        copies=seen.copies,
        average_us={**seen.average_us, **averages},
        device=device_info.beside(Path(folder)),
    )
