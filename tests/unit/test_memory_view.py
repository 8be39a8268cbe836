"""The figures that the pictures show, before anything is drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swapconf.memory.allocators import mindspore
from swapconf.memory.memory_view import Holding, MemoryView
from swapconf.memory.replay import replay
from swapconf.memory.view import NUM_SPANS, block_map, of_trace, timeline, view
from swapconf.trace.lifetimes import CATEGORIES, NEVER, Category, Lifetimes, PoolRecord
from tests.helpers import NAMES, columns, golden
from tests.unit.test_policies import blocks


def view_of(live: Lifetimes) -> MemoryView:
    placement = mindspore.place(live)
    return view(
        live,
        placement,
        title="t",
        rank=0,
        origin="made by hand",
        reserved_bytes=placement.reserved_bytes,
        with_fragments_peak_bytes=placement.mapped_bytes,
    )


@pytest.mark.parametrize("name", NAMES)
def test_everything_adds_up_to_mindspores_peaks(name: str) -> None:
    found = of_trace(golden(name), "t", "measured")
    assert found.used_peak_bytes == golden(name).used_peak_bytes
    assert found.with_fragments_peak_bytes == golden(name).with_fragments_peak_bytes == sum(found.blocks.piece_bytes)
    assert sum(found.category_bytes.values()) == found.used_peak_bytes
    assert sum(sum(row.values()) for row in found.layer_bytes.values()) == found.used_peak_bytes
    assert sum(total.size_bytes for total in found.operators) == found.used_peak_bytes
    assert found.timeline.used_bytes.max() == found.used_peak_bytes
    assert found.peak_time in found.timeline.time
    assert found.notes == ()


def test_reserved_is_what_mindspore_said_where_it_did() -> None:
    trace = golden(NAMES[0])
    assert of_trace(trace, "t", "o", reported=PoolRecord(reserved_bytes=7)).reserved_bytes == 7
    assert of_trace(trace, "t", "o").reserved_bytes == replay(trace, columns(NAMES[0])).placement.reserved_bytes


def test_a_moment_shows_what_is_alive_then() -> None:
    live = columns("llama_l3_ffnnorm_swap_ffn_recompute")
    line = timeline(live, num_spans=40)
    assert Category.SWAP in line.by_category
    for index, moment in enumerate(line.time.tolist()):
        alive = (live.start <= moment) & (live.end > moment)
        assert line.used_bytes[index] == live.size_bytes[alive].sum()
        for category, used in line.by_category.items():
            of_it = alive & (live.category == CATEGORIES.index(category))
            assert used[index] == live.size_bytes[of_it].sum()


def test_a_spike_of_one_event_is_not_lost() -> None:
    rows = [(2 * step, 2 * step + 1, 512) for step in range(5000)]
    rows[3210] = (6420, 6421, 10**6)
    line = timeline(blocks(*rows))
    assert len(line.time) <= 2 * NUM_SPANS + 1
    assert int(line.time[line.used_bytes.argmax()]) == 6420
    assert line.used_bytes.max() == 10**6


def test_at_one_time_releases_and_births_are_one_moment() -> None:
    line = timeline(blocks((0, 5, 100), (5, 9, 100)))
    assert dict(zip(line.time.tolist(), line.used_bytes.tolist(), strict=True)) == {0: 100, 5: 100, 9: 0}


def test_a_category_that_comes_later_holds_nothing_before() -> None:
    line = timeline(blocks((0, 9, 512), (4, 6, 1024, Category.SWAP)))
    assert line.by_category[Category.SWAP].tolist() == [0, 1024, 0, 0]


def test_the_picture_keeps_the_largest_and_says_what_is_left_out() -> None:
    live = blocks((0, 100, 4096), (1, 2, 512), (3, 99, 1024), (50, 51, 2048))
    found = block_map(live, mindspore.place(live), num_drawn=2)
    assert found.size_bytes.tolist() == [4096, 1024]
    assert (len(found), found.num_blocks, found.largest_left_out_bytes) == (2, 4, 2048)
    assert found.drawn_share == pytest.approx((409600 + 98304) / (409600 + 512 + 98304 + 2048))


def test_a_large_block_is_drawn_however_short_it_lives() -> None:
    small = [(10 * step, 10 * step + 9, 512) for step in range(200)]
    live = blocks(*sorted([*small, (1001, 1002, 10**8)]))
    assert 10**8 in block_map(live, mindspore.place(live), num_drawn=5).size_bytes


def test_what_is_thinner_than_a_pixel_counts_by_its_life() -> None:
    live = blocks((0, 1000, 2**30), (1, 1000, 512), (2, 102, 8192))
    assert block_map(live, mindspore.place(live), num_drawn=2).size_bytes.tolist() == [2**30, 512]


def test_blocks_that_live_together_never_overlap_in_the_picture() -> None:
    found = of_trace(golden("llama_l2_none"), "t", "o").blocks
    top = found.bottom + found.size_bytes
    assert top.max() == sum(found.piece_bytes)
    for index in range(len(found)):
        together = (found.start < found.end[index]) & (found.end > found.start[index])
        crossing = together & (found.bottom < top[index]) & (top > found.bottom[index])
        assert np.flatnonzero(crossing).tolist() == [index]


def test_what_is_never_released_reaches_the_end() -> None:
    live = blocks((0, NEVER, 512), (1, 7, 512))
    found = block_map(live, mindspore.place(live))
    assert found.end.tolist() == [7, 7]
    assert found.is_released.tolist() == [False, True]


def test_operators_are_summed_over_layers() -> None:
    holdings = [
        Holding(category=Category.ACTIVATION, layer=layer, operator="a.MatMul", num_blocks=2, size_bytes=size)
        for layer, size in ((1, 10), (0, 20), (3, 5))
    ]
    other = Holding(category=Category.WEIGHT, layer=-1, operator="w", num_blocks=1, size_bytes=30)
    found = replace(view_of(blocks((0, 1, 512))), held_at_peak=(other, *holdings))
    assert [(total.operator, total.layers, total.num_blocks, total.size_bytes) for total in found.operators] == [
        ("a.MatMul", (0, 1, 3), 6, 35),
        ("w", (-1,), 1, 30),
    ]
    assert list(found.layer_bytes) == [-1, 0, 1, 3]


def test_no_block_at_all_is_a_view_too() -> None:
    found = view_of(blocks())
    assert (found.used_peak_bytes, len(found.timeline.time), len(found.blocks)) == (0, 0, 0)


def test_what_is_not_exact_is_said() -> None:
    trace = golden("llama_l2_none")
    moved = replace(trace.blocks, address=trace.blocks.address + 512 * (np.arange(len(trace.blocks)) % 2))
    (note,) = of_trace(replace(trace, blocks=moved), "t", "o").notes
    assert "approximate" in note
    (note,) = of_trace(replace(trace, tasks=()), "t", "o").notes
    assert "temporaries" in note


def test_another_policy_places_the_same_blocks_otherwise() -> None:
    trace = golden("llama_l2_recompute")
    own, pools = (of_trace(trace, "t", "o", policy=policy) for policy in ("mindspore", "lifetime"))
    assert own.used_peak_bytes == pools.used_peak_bytes <= pools.with_fragments_peak_bytes
    assert pools.with_fragments_peak_bytes < own.with_fragments_peak_bytes
    assert pools.origin == "o, placed by the policy lifetime"
