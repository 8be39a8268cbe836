"""The columns and units of the profiler's files, as the installed MindSpore writes them."""

from __future__ import annotations

import pytest

from swapconf.profile import profiler_tables, trace_view_writer
from tests.unit.test_profiler_files import FULL, RECORD

pytestmark = pytest.mark.mindspore


def test_operator_memory() -> None:
    viewer = pytest.importorskip("mindspore.profiler.analysis.viewer.ascend_op_memory_viewer").AscendOpMemoryViewer
    assert ",".join(viewer.HEADERS) == FULL
    assert (viewer.BYTES_TO_KB, viewer.BYTES_TO_MB, viewer.NS_TO_US) == (1024, 1024**2, 1000)


def test_memory_record() -> None:
    """A MB of this file is 1000 KB."""
    module = pytest.importorskip("mindspore.profiler.analysis.viewer.ascend_memory_viewer")
    assert ",".join(module.AscendMemoryViewer.TARGET_MEMORY_RECORD_HEADERS) == RECORD
    assert module.MemoryRecordBean.KB_TO_MB == 1000


def test_step_trace_time() -> None:
    module = pytest.importorskip("mindspore.profiler.analysis.viewer.ascend_step_trace_time_viewer")
    assert tuple(module.AscendStepTraceTimeViewer.STEP_TRACE_TIME_HEADERS) == profiler_tables.STEP_TRACE_TIME


def test_kernel_details() -> None:
    """Columns that are written are ones that the profiler writes, under the names that it gives them."""
    constant = pytest.importorskip("mindspore.profiler.common.constant")
    viewer = pytest.importorskip("mindspore.profiler.analysis.viewer.ascend_kernel_details_viewer")
    renamed = viewer.AscendKernelDetailsViewer.RENAME_HEADERS
    known = {renamed.get(header.value, header.value) for header in constant.OpSummaryHeaders}
    assert set(profiler_tables.KERNEL_DETAILS) <= known


def test_what_is_written_has_the_same_columns() -> None:
    assert (",".join(profiler_tables.OPERATOR_MEMORY), ",".join(profiler_tables.MEMORY_RECORD)) == (FULL, RECORD)


def test_layers_of_the_view() -> None:
    constant = pytest.importorskip("mindspore.profiler.common.constant")
    layers, threads = constant.TimelineLayerName, constant.OverlapAnalysisTidName
    written = trace_view_writer
    assert [written.HARDWARE[0], written.HCCL[0], written.OVERLAP[0], written.MEMORY[0]] == [
        layers.ASCEND_HARDWARE.value,
        layers.HCCL.value,
        layers.OVERLAP_ANALYSIS.value,
        layers.NPU_MEM.value,
    ]
    names = [written.COMPUTING, written.COMMUNICATION, written.NOT_OVERLAPPED, written.FREE]
    assert names == [
        threads.COMPUTING.value,
        threads.COMMUNICATION.value,
        threads.COMMUNICATION_NOT_OVERLAP.value,
        threads.FREE.value,
    ]
