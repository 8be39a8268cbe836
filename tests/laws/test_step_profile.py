"""Intervals of a step: what is taken away and what is left add up, moment by moment."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swapconf.profile.step_profile import Intervals, length_ns, union, without

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


def intervals(spans: list[tuple[int, int]]) -> Intervals:
    return np.array([(start, start + length) for start, length in spans], dtype=np.int64).reshape(-1, 2)


def moments(spans: Intervals) -> set[int]:
    return {moment for start, end in spans.tolist() for moment in range(start, end)}


def is_apart(spans: Intervals) -> bool:
    flat = spans.ravel().tolist()
    return all(before < after for before, after in pairwise(flat))


@given(SPANS)
def test_a_union_holds_the_same_moments_once(spans: list[tuple[int, int]]) -> None:
    joined = union(intervals(spans))
    assert moments(joined) == moments(intervals(spans))
    assert is_apart(joined)
    assert length_ns(joined) == len(moments(joined))


@given(SPANS, SPANS)
def test_what_is_left_is_what_was_not_taken(spans: list[tuple[int, int]], taken: list[tuple[int, int]]) -> None:
    whole, gone = union(intervals(spans)), union(intervals(taken))
    left = without(whole, gone)
    assert moments(left) == moments(whole) - moments(gone)
    assert is_apart(left)
