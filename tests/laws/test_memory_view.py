"""What holds of every picture: the chosen moments are real, and the highest of each span is among them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swapconf.memory.view import timeline
from swapconf.trace.lifetimes import Lifetimes
from tests.laws.test_placement import lives


@given(live=lives(), num_spans=st.integers(1, 90))
def test_the_highest_and_the_lowest_moment_of_each_span_is_kept(live: Lifetimes, num_spans: int) -> None:
    times = np.unique(np.concatenate([live.start, live.end[live.end < 2**63 - 1]]))
    used = {time: int(live.size_bytes[(live.start <= time) & (live.end > time)].sum()) for time in times.tolist()}
    line = timeline(live, num_spans)
    shown = dict(zip(line.time.tolist(), line.used_bytes.tolist(), strict=True))
    assert shown.items() <= used.items()
    assert max(shown.values()) == live.used_peak_bytes
    first, last = int(times[0]), int(times[-1])
    spans: dict[int, list[int]] = {}
    for time in used:
        spans.setdefault((time - first) * num_spans // (last - first + 1), []).append(time)
    for inside in spans.values():
        kept = [shown[time] for time in inside if time in shown]
        assert max(kept) == max(used[time] for time in inside)
        assert min(kept) == min(used[time] for time in inside)
