"""What holds of every log: where it is cut into parts, and where blocks end, does not matter."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.files.log_folder import Stream
from swapconf.verify import worker_logs
from swapconf.verify.worker_logs import Said, read

LINES = st.sampled_from(
    [
        b"2026 - INFO - Set op_swap at layer 1: .attention, value=20, .feed_forward, value=15",
        b"7: rank id: 3, rank id: 4",
        b"[1,2]<stdout>:Set full recompute at layer 5",
        b"Set layer swap at layer 2                             and value is: 1",
        b"Skip op_swap at layer 1: .attention, recomputed [R1-recompute-wins]",
        b"",
        b"\r\r",
        b"Used peak memory usage (without fragments): 7M",
        b"3: Actual peak memory usage (with fragments): 9M",
        b"x] Offload does not take effect outside the scope of the lazy_inline Cell. NOde: y",
        b"\xff\0 at layer \xfe",
        b"Set full recompute at layer 1 Set full recompute at layer 2",
        b"z" * 5000,
        b"rank 5: Set full recompute at layer 6",
    ]
)
ENDS = st.sampled_from([b"\n", b"\n", b"", b"z" * 100, b"z" * 300]) | st.integers(90, 140).map(
    lambda n: b"z" * n + b"\n"
)
LOGS = st.lists(st.tuples(LINES | st.binary(max_size=40), ENDS).map(b"".join), max_size=12).map(b"".join)


def told(parts: list[bytes], block: int, limit: int) -> dict[int | None, Said]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        paths = tuple(Path(folder) / str(index) for index in range(len(parts)))
        for path, part in zip(paths, parts, strict=True):
            path.write_bytes(part)
        patch.setattr(worker_logs, "BLOCK_BYTES", block)
        patch.setattr(worker_logs, "MAX_LINE_BYTES", limit)
        patch.setattr(worker_logs, "_BEFORE_BYTES", limit)
        return read(Stream(paths=paths, rank=None, own_rank=True)).by_rank


@settings(max_examples=400)
@given(
    log=LOGS,
    cuts=st.lists(st.integers(0, 2000), max_size=5),
    block=st.sampled_from([3, 50, 999]),
    limit=st.sampled_from([128, 2**16]),
)
def test_where_a_log_is_cut_does_not_matter(log: bytes, cuts: list[int], block: int, limit: int) -> None:
    places = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    parts = [log[begin:end] for begin, end in pairwise(places)]
    assert told(parts, block, limit) == told([log], 2**18, limit)
