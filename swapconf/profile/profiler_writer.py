"""STEP PROFILE -> FOLDER: ``WORKER_TIMESTAMP_ascend_ms/ASCEND_PROFILER_OUTPUT`` with the files of a simulated step.

The names are those of mindspore.profiler 2.9.0 (ProfilerPathManager, ProfilerOutputPath).
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from swapconf.files.writing import refuse_links, replace_text
from swapconf.profile import profiler_tables, trace_view_writer
from swapconf.profile.profile_files import METADATA
from swapconf.profile.profiler_folder import DETAILS, OUTPUT, VIEW
from swapconf.profile.step_profile import StepProfile


def write(profile: StepProfile, parent: Path, now: datetime) -> Path:
    """Write the files; the folder ASCEND_PROFILER_OUTPUT is returned. ``now``: in UTC, part of the name. Raises
    OSError."""
    stamp = now.strftime("%Y%m%d%H%M%S%f")[:-3]
    folder = parent / f"swapconf-rank{profile.rank}_{stamp}_ascend_ms"
    output = folder / OUTPUT
    output.mkdir(parents=True, exist_ok=True)
    refuse_links(folder, (OUTPUT,))
    files = {
        VIEW: trace_view_writer.text(profile),
        DETAILS: profiler_tables.kernel_details(profile),
        "operator_memory.csv": profiler_tables.operator_memory(profile),
        "memory_record.csv": profiler_tables.memory_record(profile),
        "step_trace_time.csv": profiler_tables.step_trace_time(profile),
    }
    for name, content in files.items():
        replace_text(output / name, content)
    told = {"swapconf": "simulated, not profiled", "hardware": profile.hardware, "rank": profile.rank}
    replace_text(folder / METADATA, json.dumps(told, indent=2) + "\n")
    return output
