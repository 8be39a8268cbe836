"""Releases that MindSpore did not write down, told by what is in use behind them."""

from __future__ import annotations

from swapconf.trace.blocks import Block, Blocks
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.running_sums import FILLED_AGAIN, used_bytes, with_releases

KIB = 1024


def row(start: int, size: int, used: int, task: str = FILLED_AGAIN, end: int | None = None) -> Block:
    return Block(
        start=start,
        end=end,
        address=0,
        size_bytes=size,
        stream=2 if task == FILLED_AGAIN else 0,
        pool="pool",
        kind="PyNativeOutput",
        task=None,
        task_name=task,
        node=task,
        users=(),
        is_persistent=False,
        used_bytes=used,
        pool_peak_bytes=used,
    )


def ends(*rows: Block) -> list[int]:
    found: list[int] = with_releases(Blocks.of(rows)).end.tolist()
    return found


def test_a_release_that_later_sums_show_is_right_before_the_first_that_does() -> None:
    rows = (
        row(1, 8 * KIB, 8 * KIB, "PyNative"),
        row(3, 2 * KIB, 10 * KIB),
        row(5, 3 * KIB, 13 * KIB),
        row(7, 2 * KIB, 15 * KIB),
        row(20, KIB, 13 * KIB, "PyNative", end=22),
    )
    found = with_releases(Blocks.of(rows))
    assert found.end.tolist() == [NEVER, NEVER, 19, NEVER, 22]
    assert used_bytes(found.start, found.end, found.size_bytes).tolist() == found.used_bytes.tolist()


def test_several_that_went_at_once_are_those_that_were_made_first() -> None:
    rows = (
        row(3, 5 * KIB, 5 * KIB),
        row(4, 3 * KIB, 8 * KIB),
        row(5, 5 * KIB, 13 * KIB),
        row(6, 5 * KIB, 18 * KIB),
        row(20, KIB, 9 * KIB, "PyNative"),
    )
    assert ends(*rows) == [19, NEVER, 19, NEVER, NEVER]


def test_what_more_than_one_choice_explains_is_not_told() -> None:
    rows = (row(3, KIB, KIB), row(4, 2 * KIB, 3 * KIB), row(5, 3 * KIB, 6 * KIB), row(20, KIB, 4 * KIB, "PyNative"))
    assert ends(*rows) == [NEVER] * 4


def test_nothing_else_is_ever_taken_to_be_released() -> None:
    rows = (row(3, KIB, KIB, "PyNative"), row(4, 2 * KIB, 3 * KIB), row(20, KIB, 3 * KIB, "PyNative"))
    assert ends(*rows) == [NEVER] * 3


def test_sums_that_are_right_change_nothing() -> None:
    rows = (row(3, KIB, KIB), row(4, 2 * KIB, 3 * KIB, end=6), row(20, KIB, 2 * KIB, "PyNative"))
    assert ends(*rows) == [NEVER, 6, NEVER]
