"""Allocators: rules of MindSpore's pool, kinds of tensors, and how close each policy comes to the lower bound."""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swapconf.memory.allocators import POLICIES, default_policy, expandable, lifetime, mindspore, offline, place
from swapconf.memory.allocators.lifetime import PoolKind
from swapconf.memory.allocators.mindspore import Pool
from swapconf.memory.free_space import FreeSpace
from swapconf.memory.offline_search import NEAR, search
from swapconf.trace.lifetimes import CATEGORIES, NEVER, Category, Lifetimes
from swapconf.words.units import GIB, MIB
from tests.helpers import NAMES, columns

FOLDER = Path(mindspore.__file__).parent
Row = tuple[int, int, int] | tuple[int, int, int, Category]


def blocks(*rows: Row, persistent: Sequence[int] = ()) -> Lifetimes:
    """From (start, end, size_bytes[, category]), in order of birth; ``persistent``: which of them are."""
    kinds = [row[3] if len(row) > 3 else Category.ACTIVATION for row in rows]
    return Lifetimes(
        start=np.array([row[0] for row in rows], dtype=np.int64),
        end=np.array([row[1] for row in rows], dtype=np.int64),
        size_bytes=np.array([row[2] for row in rows], dtype=np.int64),
        is_persistent=np.array([index in persistent for index in range(len(rows))], dtype=np.bool_),
        category=np.array([CATEGORIES.index(kind) for kind in kinds], dtype=np.uint8),
        layer=np.full(len(rows), -1, dtype=np.int32),
        name=np.zeros(len(rows), dtype=np.int32),
        names=("x",),
    )


def test_policies_never_import_each_other() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert names == set(POLICIES)
    for name in names:
        tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not any(module and module.startswith("swapconf.memory.allocators") for module in imported)


def test_a_pool_that_is_set_otherwise_moves_no_allocator_but_its_own() -> None:
    live, pool = blocks((0, NEVER, MIB)), Pool(growth_bytes=4 * GIB, first_bytes=0)
    plain = {name: policy(live).reserved_bytes for name, policy in POLICIES.items()}
    assert {name: place(name, live, pool).reserved_bytes for name in POLICIES} == {**plain, "mindspore": 4 * GIB}
    assert plain["mindspore"] != 4 * GIB


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_needs_nothing(name: str) -> None:
    placement = POLICIES[name](blocks())
    at_the_start = 3 * GIB if name == "mindspore" else 0  # a piece for each manager
    assert (placement.mapped_bytes, placement.reserved_bytes, placement.gap_bytes) == (0, at_the_start, 0)
    assert placement.fragmentation_ratio == 0


# --- holes ----------------------------------------------------------------------------------------------------------


def test_the_smallest_hole_that_fits_is_taken_and_of_several_the_lowest() -> None:
    free = FreeSpace()
    for address, size in ((0, 30), (100, 20), (200, 20), (300, 10)):
        free.give(address, size)
    assert [free.take(15), free.take(15), free.take(15), free.take(15)] == [100, 200, 0, 15]
    assert free.take(15) is None


def test_no_bytes_are_no_hole_wherever_they_are_given_back() -> None:
    free = FreeSpace()
    free.give(100, 20)
    free.give(10, 0)
    free.give(110, 0)  # in the middle of a hole
    assert [free.take(10), free.take(0), free.take(10), free.take(0)] == [100, 110, 110, None]
    free.give(100, 20)
    assert free.take(20) == 100


def test_neighbours_join() -> None:
    free = FreeSpace()
    for address in (10, 0, 20):
        free.give(address, 10)
    assert free.take(30) == 0
    free.give(0, 30)
    free.remove(0, 30)
    assert free.take(1) is None
    with pytest.raises(KeyError):
        free.remove(0, 30)


# --- mindspore ------------------------------------------------------------------------------------------------------


def test_what_is_released_before_it_is_born_stays() -> None:
    early, kept = (
        mindspore.place(blocks((5, 3, GIB), (6, 7, GIB))),
        mindspore.place(blocks((5, NEVER, GIB), (6, 7, GIB))),
    )
    assert early.offset.tolist() == kept.offset.tolist()
    assert early.mapped_bytes == kept.mapped_bytes


def test_blocks_of_no_bytes_change_nothing() -> None:
    """Of what operators hand on inside a fused kernel; one is given back in the middle of what has become a hole."""
    real = [(1, 8, GIB), (2, 4, 3 * MIB), (3, 5, MIB), (7, 9, 2 * MIB)]
    nothing = [(4, 6, 0), (6, 8, 0)]
    alone = mindspore.place(blocks(*real))
    mixed = mindspore.place(blocks(*sorted([*real, *nothing])))
    is_real = np.array([row in real for row in sorted([*real, *nothing])])
    assert mixed.offset[is_real].tolist() == alone.offset.tolist()
    assert (mixed.mapped_bytes, mixed.reserved_bytes) == (alone.mapped_bytes, alone.reserved_bytes)
    assert mindspore.place(blocks((1, 3, 0)), Pool(first_bytes=0)).mapped_bytes == 0


def test_persistent_blocks_have_one_piece_of_their_own() -> None:
    """The second persistent piece belongs to the common manager."""
    live = blocks(
        (1, NEVER, 900 * MIB),
        (2, NEVER, GIB),
        (3, NEVER, 200 * MIB),
        (4, NEVER, GIB),
        (5, NEVER, 100 * MIB),
        persistent=(0, 2, 4),
    )
    placement = mindspore.place(live, Pool(growth_bytes=GIB))
    assert placement.segment.tolist() == [0, 1, 2, 3, 0]
    assert placement.offset.tolist() == [0, 0, 0, 0, 900 * MIB]
    assert (placement.reserved_bytes, placement.device_requests) == (4 * GIB, 4)
    assert placement.mapped_bytes == 2 * GIB + 1200 * MIB
    beside = blocks((1, NEVER, 900 * MIB), (2, NEVER, 200 * MIB), (3, NEVER, 500 * MIB), persistent=(0, 1))
    assert mindspore.place(beside, Pool(growth_bytes=GIB)).segment.tolist() == [0, 1, 1]


def test_a_stream_never_takes_what_another_has_free_even_if_it_is_persistent() -> None:
    live = blocks((1, 2, 100 * MIB), (3, NEVER, MIB), (4, NEVER, MIB), (5, 6, MIB), (7, NEVER, MIB), persistent=(2,))
    placement = mindspore.place(replace(live, stream=np.array([0, 2, 0, 2, 2])), Pool(growth_bytes=GIB, first_bytes=0))
    assert placement.segment.tolist() == [0, 1, 2, 1, 1]
    assert placement.offset.tolist() == [0, 0, 0, MIB, MIB]
    assert placement.mapped_bytes == 103 * MIB
    assert mindspore.place(live, Pool(growth_bytes=GIB, first_bytes=0)).mapped_bytes == 101 * MIB


def test_the_first_piece_is_of_its_own_size_where_it_is_asked_for_before_the_unit_is_set() -> None:
    live = blocks((1, NEVER, MIB), (2, NEVER, GIB), (3, NEVER, GIB), (4, NEVER, MIB), persistent=(3,))
    assert mindspore.piece_bytes(live, mindspore.PYNATIVE) == (GIB, 2 * GIB, GIB)
    assert mindspore.piece_bytes(live, Pool(first_bytes=0)) == (2 * GIB, 2 * GIB, GIB)


def test_a_common_block_never_goes_to_the_persistent_manager() -> None:
    live = blocks((1, NEVER, 2 * GIB), (2, NEVER, MIB))
    assert mindspore.place(live).segment.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("pool", "segments", "reserved"),
    [(Pool(), [1, 0], 3 * GIB), (Pool(growth_bytes=GIB, first_bytes=0), [0, 1], 2 * GIB)],
)
def test_each_manager_has_a_piece_from_the_start_where_the_pool_is_set(
    pool: Pool, segments: list[int], reserved: int
) -> None:
    """Where nobody sets it, each asks for one when it needs it."""
    placement = mindspore.place(blocks((1, NEVER, 512), (2, NEVER, 512), persistent=(1,)), pool)
    assert placement.segment.tolist() == segments
    assert placement.reserved_bytes == reserved


@pytest.mark.parametrize(
    ("size", "growth", "piece"),
    [
        (GIB, GIB, 0),
        (GIB + 512, GIB, 2 * GIB),
        (2 * GIB, 2 * GIB, 0),
        (2 * GIB + 512, 2 * GIB, 4 * GIB),
        (5 * GIB, 2 * GIB, 8 * GIB),
        (5 * GIB, 3 * GIB, 6 * GIB),
        (7 * GIB, 3 * GIB, 12 * GIB),
    ],
)
def test_a_piece_is_the_unit_doubled_until_it_fits(size: int, growth: int, piece: int) -> None:
    at_the_start = GIB + growth
    assert mindspore.place(blocks((1, 2, size)), Pool(growth_bytes=growth)).reserved_bytes == at_the_start + piece


@pytest.mark.parametrize(
    ("size", "growth", "piece"),
    [
        (GIB, GIB, GIB),
        (2 * GIB + 512, GIB, 3 * GIB),
        (5 * GIB, 2 * GIB, 6 * GIB),
        (6 * GIB, 2 * GIB, 6 * GIB),
        (7 * GIB, 3 * GIB, 9 * GIB),
    ],
)
def test_a_piece_of_a_pynative_run_is_as_many_units_as_it_takes(size: int, growth: int, piece: int) -> None:
    pool = replace(mindspore.PYNATIVE, growth_bytes=growth)
    assert mindspore.piece_bytes(blocks((1, NEVER, MIB), (2, NEVER, GIB), (3, NEVER, size)), pool)[-1] == piece


def test_the_device_cuts_such_a_piece_to_what_is_left_or_to_the_request() -> None:
    """DeepSeek-V4 of the wheel of mindformers 2.1.0: behind the limit as much as is asked for."""
    live = blocks((1, NEVER, MIB), (2, NEVER, 5 * GIB // 2), (3, NEVER, 5 * GIB // 2))
    for limit, pieces in ((8, (1, 3, 3)), (7, (1, 3, 3)), (6, (1, 3, 2.5)), (27 / 4, (1, 3, 2.75))):
        pool = replace(mindspore.PYNATIVE, growth_bytes=GIB, limit_bytes=int(limit * GIB))
        assert mindspore.piece_bytes(live, pool) == tuple(int(piece * GIB) for piece in pieces)


def test_a_unit_that_nobody_set_is_not_cut() -> None:
    """Of 1.75 GiB that are left a piece takes its whole GiB; a unit that was set leaves one of them."""
    live = blocks((1, NEVER, GIB), (2, NEVER, 3 * GIB), (3, NEVER, 3 * GIB // 4))
    pool = replace(mindspore.PYNATIVE, growth_bytes=GIB, limit_bytes=23 * GIB // 4)
    assert mindspore.piece_bytes(live, pool) == (GIB, 3 * GIB, GIB)
    assert mindspore.piece_bytes(live, replace(pool, growth_bytes=3 * GIB)) == (GIB, 3 * GIB, 3 * GIB // 4)


def test_of_two_equal_holes_the_later_piece_wins() -> None:
    live = blocks((1, 3, GIB), (2, 4, GIB), (5, 6, 512))
    assert mindspore.place(live, Pool(growth_bytes=GIB)).segment.tolist() == [1, 2, 2]


def test_what_is_left_of_the_device_cuts_the_pieces() -> None:
    """At the start 1 + 2 of 16 GiB; then 8 for 5, all 5 that are left for 4.5, and behind the limit as much as is
    asked for, as a dry run goes on."""
    pool = Pool(limit_bytes=16 * GIB)
    sizes = (5 * GIB, 9 * GIB // 2, 4 * GIB, 3 * GIB)
    reserved = [
        mindspore.place(blocks(*((time, NEVER, size) for time, size in enumerate(sizes[:count]))), pool).reserved_bytes
        // GIB
        for count in range(5)
    ]
    assert reserved == [3, 11, 16, 20, 20]


def test_what_is_left_of_the_device_but_one_gib_cuts_the_unit() -> None:
    assert mindspore.place(blocks(), Pool(growth_bytes=56 * GIB, limit_bytes=40 * GIB)).reserved_bytes == 39 * GIB


def test_the_peak_with_fragments_counts_the_highest_byte_ever_used() -> None:
    live = blocks((1, 4, 10 * MIB), (2, 3, 5 * MIB), (5, 6, MIB))
    placement = mindspore.place(live)
    assert (placement.mapped_bytes, placement.gap_bytes) == (15 * MIB, 0)
    fragmented = mindspore.place(blocks((1, 3, 10 * MIB), (2, NEVER, MIB), (4, 5, 12 * MIB)))
    assert fragmented.gap_bytes == 10 * MIB


def test_three_hundred_thousand_blocks_in_seconds() -> None:
    generator = np.random.default_rng(7)
    count = 300_000
    start = np.arange(count, dtype=np.int64) * 2
    end = start + 1 + 2 * generator.integers(1, 2000, count)
    size = 512 * generator.integers(1, 4000, count)
    zeros = np.zeros(count, dtype=np.int32)
    live = Lifetimes(
        start=start,
        end=end,
        size_bytes=size,
        is_persistent=zeros.astype(bool),
        layer=zeros,
        category=zeros.astype(np.uint8),
        name=zeros,
        names=("x",),
    )
    before = time.process_time()
    mindspore.place(live)
    assert time.process_time() - before < 30


# --- lifetime -------------------------------------------------------------------------------------------------------


def test_kinds() -> None:
    crowd: list[Row] = [(time, time + 1, 512) for time in range(10, 10 + 2 * lifetime.SHORT_LIFE, 2)]
    last = 10 + 2 * lifetime.SHORT_LIFE
    live = blocks(
        (1, NEVER, 512, Category.WEIGHT),
        (2, NEVER, 512, Category.OPTIMIZER),
        (3, NEVER, 512),
        (4, last + 5, 512),
        (5, last - 1, 512),
        *crowd,
        (last, last + 9, 512),
        persistent=(0, 1),
    )
    kinds = [PoolKind(kind) for kind in lifetime.kinds(live)]
    assert kinds[:5] == [PoolKind.INITIAL, PoolKind.OPTIMIZER, PoolKind.KEPT, PoolKind.WAITING, PoolKind.SHORT]
    assert set(kinds[5:]) == {PoolKind.SHORT}


def test_a_large_long_lived_tensor_has_a_piece_of_exactly_its_size() -> None:
    live = blocks((1, NEVER, 96 * MIB), (2, NEVER, 33 * MIB + 512), persistent=(0, 1))
    placement = lifetime.place(live)
    assert placement.segment.tolist() == [0, 1]
    assert placement.reserved_bytes == placement.mapped_bytes == 129 * MIB + 512


def test_a_free_piece_is_used_again_or_given_back() -> None:
    same = lifetime.place(blocks((1, 2, 8 * MIB), (3, 4, 8 * MIB)))
    assert (same.mapped_bytes, same.device_requests) == (8 * MIB, 1)
    other = lifetime.place(blocks((1, 2, 8 * MIB), (3, 4, 9 * MIB)))
    assert (other.mapped_bytes, other.device_requests) == (9 * MIB, 2)
    kept = lifetime.place(blocks((1, 2, 8 * MIB), (3, 4, 9 * MIB)), gives_back=False)
    assert (kept.mapped_bytes, kept.device_requests) == (17 * MIB, 2)


# --- expandable -----------------------------------------------------------------------------------------------------


def test_only_granules_that_blocks_touch_are_mapped() -> None:
    live = blocks((1, 3, 20 * MIB), (2, NEVER, 2 * MIB), (4, 5, 22 * MIB))
    assert mindspore.place(live).gap_bytes == 20 * MIB
    assert expandable.place(live).gap_bytes == 0


def test_a_small_block_maps_a_whole_granule() -> None:
    assert expandable.place(blocks((1, 2, 512), (3, 4, 512))).mapped_bytes == 2 * MIB
    assert expandable.place(blocks((1, 2, 512), (3, 4, 512))).device_requests == 2


# --- how good -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_lifetime_needs_at_most_a_third_of_the_gap_of_mindspore(name: str) -> None:
    assert 0 <= lifetime.place(columns(name)).gap_bytes <= mindspore.place(columns(name)).gap_bytes / 3


@pytest.mark.parametrize("name", NAMES)
def test_offline_is_within_one_percent_of_the_lower_bound(name: str) -> None:
    assert offline.place(columns(name)).mapped_bytes <= 1.01 * columns(name).used_peak_bytes


def test_a_longer_search_finds_a_lower_plan_and_places_no_two_blocks_at_once() -> None:
    random = np.random.default_rng(0)
    start = np.sort(random.integers(0, 2000, 300))
    rows = zip(
        start.tolist(),
        (start + random.integers(1, 400, 300)).tolist(),
        (512 * random.integers(1, 90, 300)).tolist(),
        strict=True,
    )
    live = blocks(*rows)
    first = offline.place(live)
    worse = replace(first, offset=np.cumsum(live.size_bytes) - live.size_bytes, mapped_bytes=int(live.size_bytes.sum()))
    found = search(live, worse)
    assert live.used_peak_bytes <= found.mapped_bytes < worse.mapped_bytes
    assert found.mapped_bytes == (found.offset + live.size_bytes).max()
    for one in range(300):
        meets = (live.start < live.end[one]) & (live.end > live.start[one])
        meets[one] = False
        apart = (found.offset + live.size_bytes <= found.offset[one]) | (
            found.offset >= found.offset[one] + live.size_bytes[one]
        )
        assert apart[meets].all()
    assert search(live, found) is found or found.mapped_bytes > live.used_peak_bytes * NEAR


def test_the_same_blocks_give_the_same_plan() -> None:
    live = columns("llama_l2_recompute")
    assert (offline.place(live).offset == offline.place(live).offset).all()


@pytest.mark.parametrize(
    ("environment", "policy"),
    [({}, "mindspore"), ({"MEMORY_FRAGMENTATION": "1"}, "lifetime"), ({"MEMORY_FRAGMENTATION": "0"}, "mindspore")],
)
def test_the_policy_in_use(environment: dict[str, str], policy: str) -> None:
    assert default_policy(environment) == policy
