"""The columns and units of the profiler's files, as the installed MindSpore writes them."""

from __future__ import annotations

import pytest

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
