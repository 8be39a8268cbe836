"""The order in which what runs again and the gradients are launched, on graphs that fit on a line."""

from __future__ import annotations

from collections.abc import Sequence

from swapconf.whatif.launch_order import UNKNOWN, Region, order


def ordered(
    needs: Sequence[Sequence[int]],
    *,
    late: Sequence[int] = (),
    single: Sequence[int] = (),
    talks: Sequence[int] = (),
    ahead: Sequence[int] = (),
) -> list[int]:
    items = range(len(needs))
    return order(
        Region(
            needs=needs,
            late=frozenset(late),
            single=[item in single for item in items],
            talks=[item in talks for item in items],
            ahead=frozenset(ahead),
        )
    )


def test_what_is_ready_queues_up() -> None:
    assert ordered([[], [], [0], [1]]) == [0, 1, 2, 3]


def test_an_only_reader_follows_at_once() -> None:
    assert ordered([[], [], [0], [1]], single=(0, 1)) == [0, 2, 1, 3]


def test_what_waits_for_communication_comes_when_nothing_else_is_ready() -> None:
    """0 sends what 3 waits for; 1 and 2 need nothing of it."""
    assert ordered([[], [], [1], [0]], talks=(0,), single=(1,)) == [0, 1, 2, 3]


def test_readers_of_earlier_communication_come_first_then() -> None:
    """4 reads what came before the region, 3 what 0 sends."""
    assert ordered([[], [], [1], [0], []], talks=(0,), late=(4,)) == [0, 1, 2, 4, 3]


def test_readers_of_communication_that_runs_again_first_come_before_those_of_the_gradient_s() -> None:
    """0 and 1 run again ahead of the communication that 5 waits for; 2 communicates in the region itself."""
    assert ordered([[], [], [], [2], [0], [], [1]], talks=(0, 1, 2), late=(5,), ahead=(0, 1)) == [0, 1, 2, 4, 6, 5, 3]


def test_of_two_readers_the_one_nearer_to_the_end_comes_first() -> None:
    """Both 1 and 2 read 0; 2 is read by nothing, 1 by 3."""
    assert ordered([[], [0], [0], [1]]) == [0, 2, 1, 3]


def test_of_readers_as_near_the_one_of_the_earlier_end_comes_first() -> None:
    """1 and 2 read 0; the ends 3 and 4 read 2 and 1."""
    assert ordered([[], [0], [0], [2], [1]]) == [0, 2, 1, 3, 4]


def test_how_far_the_end_is_counts_what_is_read_outside() -> None:
    """As above, but 3 is read by others, which is farther from the end of the step than 4."""
    region = Region(
        needs=[[], [0], [0], [2], [1]],
        late=frozenset(),
        single=[False] * 5,
        talks=[False] * 5,
        depth=[UNKNOWN, UNKNOWN, UNKNOWN, 5, 0],
    )
    assert order(region) == [0, 1, 2, 4, 3]


def test_of_two_outputs_the_farther_one_is_served_first() -> None:
    """4 and 5 show the outputs of 0, which 1 and 2 read; 3 reads 1, so that 2 is nearer to the end. What reads an
    output alone follows at once."""
    needs = [[], [4], [5], [1], [0], [0]]
    region = Region(
        needs=needs, late=frozenset(), single=[False, True, False, False, True, True], talks=[False] * 6, num_real=4
    )
    assert order(region) == [0, 1, 3, 2]


def test_a_gate_that_waits_for_what_it_gates_does_not_hold_the_rest_up() -> None:
    """0 waits for 1, which reads 2, which waits for 0 again; 3 reads all of them."""
    circle = Region(needs=[[1], [2], [0], [0, 1, 2]], late=frozenset(), single=[False] * 4, talks=[False] * 4)
    assert order(circle) == [0, 2, 1, 3]
