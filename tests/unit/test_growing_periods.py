"""What two steps of different length repeat, and where: rows of letters in the place of launches."""

from __future__ import annotations

import numpy as np
import pytest

from swapconf.dryrun.growing.periods import Period, launch_the_same, periods
from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.same_layers import same_layers
from swapconf.dryrun.growing.shuffles import reach, shuffled
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.columns import Flags

LAYER = "abcdefghijklmnop"


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_a_period_is_what_more_layers_add_and_reaches_as_far_as_the_step_repeats_itself() -> None:
    (fewer,), (more,) = periods(f"<{LAYER * 4}>", f"<{LAYER * 6}>")
    assert (fewer.low, fewer.high, fewer.length) == (1, 65, 32)
    assert (more.low, more.high, more.length) == (1, 97, 32)
    assert (more.start, more.stop) == (33, 65)


def test_the_copied_period_stands_in_the_middle_where_the_first_layer_is_like_no_other() -> None:
    (fewer,), _ = periods(f"<xyz{LAYER[3:]}{LAYER * 3}>", f"<xyz{LAYER[3:]}{LAYER * 5}>")
    assert fewer.low == 4
    assert fewer.start - fewer.low == fewer.high - fewer.stop or fewer.high - fewer.stop - fewer.start + fewer.low == 1


def test_launches_of_a_layer_that_does_one_more_belong_to_it_as_far_as_they_are_like_the_others() -> None:
    first = f"{LAYER[:8]}!{LAYER[9:]}"
    (fewer,), _ = periods(f"<{first}{LAYER * 3}>", f"<{first}{LAYER * 5}>")
    assert fewer.low == 10
    assert fewer.fringe == tuple(range(1, 9))


def test_single_launches_outside_that_are_alike_by_chance_belong_to_no_layer() -> None:
    (fewer,), _ = periods(f"<abc!{LAYER * 4}>", f"<abc!{LAYER * 6}>")
    assert fewer.fringe == ()


@pytest.mark.parametrize(("small", "big"), [("<abab>", "<abXab>"), ("<ab>", "<abcdcdab>")])
def test_what_is_not_repeated_is_no_period(small: str, big: str) -> None:
    with pytest.raises(CannotGrow):
        periods(small, big)


LAST = {"small": "abcdefghXiYjklmnopqr", "big": "abcdefghiXjYkmlnopqr"}


def test_what_is_more_stands_before_a_last_layer_that_launches_the_same_in_another_order() -> None:
    (fewer,), (more,) = periods(f"<{LAYER * 3}{LAST['small']}>", f"<{LAYER * 4}{LAST['big']}>")
    assert (fewer.length, more.length) == (16, 16)
    assert 49 <= fewer.high <= 57
    assert more.high == fewer.high + 16


def test_passes_are_gone_through_although_launches_that_are_near_each_other_change_places() -> None:
    small, big = f"<{LAYER * 3}dcxyz{LAYER.upper() * 3}>", f"<{LAYER * 4}cdyxz{LAYER.upper() * 4}>"
    found, _ = periods(small, big)
    assert [period.length for period in found] == [16, 16]


@pytest.mark.parametrize(
    ("small", "big", "fewer", "more"),
    [
        ("wwwwtxyz", "txyzwwwwww", "wwww", "wwwwww"),  # as copies of weights on the last stage of Qwen2.5 32B
        ("wwwwtSRC", "SRCwwwwwwt", "wwww", "wwwwww"),  # as those on a middle stage of GLM-4 9B
    ],
)
def test_few_launches_are_more_among_some_that_stand_in_another_order(
    small: str, big: str, fewer: str, more: str
) -> None:
    head, tail = f"<{LAYER * 2}", f"!{LAYER.upper() * 2}>"
    longer, longer_tail = f"<{LAYER * 3}", f"!{LAYER.upper() * 3}>"
    ones, twos = periods(f"{head}{small}{tail}", f"{longer}{big}{longer_tail}")
    assert [period.length for period in twos] == [16, 2, 16]
    assert f"{head}{small}{tail}"[ones[1].low : ones[1].high] == fewer
    assert f"{longer}{big}{longer_tail}"[twos[1].low : twos[1].high] == more


def test_what_stands_in_another_order_and_is_more_than_once_more_is_no_period() -> None:
    with pytest.raises(CannotGrow):
        periods(f"<{LAYER * 2}wwwtSRC!{LAYER.upper() * 2}>", f"<{LAYER * 3}SRCwwwwwvt!{LAYER.upper() * 3}>")


def test_two_steps_launch_the_same_but_for_the_order_of_neighbours() -> None:
    assert launch_the_same("abcdef", "abdcef")
    assert launch_the_same("abcdef", "fabcde")
    assert not launch_the_same("abcdef", "abcdeg")
    assert not launch_the_same("abcdef", "abcdeff")
    assert not launch_the_same("abccef", "abceef")


def test_the_shortest_stretch_in_another_order_is_gone_over() -> None:
    assert shuffled(ints(3, 2, 1, 4), ints(1, 2, 3, 4)) == 3
    assert shuffled(ints(3, 2, 1), ints(1, 2, 5)) == 0
    assert reach(ints(1, 2, 3, 4, 5), ints(2, 1, 3, 5, 6)) == 3


def test_the_copied_periods_of_all_passes_have_the_same_layers() -> None:
    layers = [layer for layer in range(6) for _ in range(4)] + [layer for layer in reversed(range(4)) for _ in range(4)]
    forward, backward = same_layers((Period(0, 24, 8, 8), Period(24, 40, 8, 28)), layers)
    assert set(layers[forward.start : forward.stop]) == set(layers[backward.start : backward.stop])


def test_what_tells_no_layer_stays_in_the_middle() -> None:
    assert same_layers((Period(0, 24, 8, 8),), [-1] * 24) == (Period(0, 24, 8, 8),)


def none(count: int) -> Flags:
    return np.zeros(count, dtype=np.bool_)


def unrolled() -> Unrolled:
    """A forward pass of three periods, the loss, a backward pass of three, and the optimizer's of three."""
    return Unrolled(
        length=40,
        more=2,
        upwards=(True, False, True),
        periods=(Period(1, 13, 4, 5), Period(14, 26, 4, 18), Period(27, 39, 4, 31)),
    )


def test_copies_count_upwards_in_the_forward_pass_and_downwards_in_the_backward_pass() -> None:
    step = unrolled()
    turns = step.turn(step.source, step.copy)
    assert turns[step.source == 5].tolist() == [0, 1, 2]
    assert turns[step.source == 18].tolist() == [2, 1, 0]


def test_a_launch_finds_the_copy_of_its_own_layer_in_another_pass() -> None:
    step = unrolled()
    found = step.seen(ints(5, 5, 5), ints(0, 1, 2), ints(18, 18, 18), none(3), ints(NONE, NONE, NONE))
    assert step.source[found].tolist() == [18, 18, 18]
    assert step.copy[found].tolist() == [2, 1, 0]


def test_what_is_shared_is_found_where_it_is() -> None:
    step = unrolled()
    found = step.seen(ints(5, 5), ints(0, 2), ints(2, 2), np.array([True, False]), ints(NONE, NONE))
    assert found[0] == step.natural[2]
    assert found[1] != found[0]


def test_what_stands_between_forward_and_backward_belongs_to_the_last_layers() -> None:
    step = unrolled()
    assert step.side[13] == step.more
    (found,) = step.seen(ints(13), ints(NONE), ints(8), none(1), ints(NONE))
    assert (step.source[found], step.copy[found]) == (8, 2)


def test_between_passes_that_end_and_begin_with_other_layers_nothing_tells() -> None:
    step = Unrolled(length=27, more=1, upwards=(True, True), periods=(Period(1, 13, 4, 5), Period(14, 26, 4, 18)))
    assert step.side[13] == NONE
    assert step.is_sum([2, 6, 10])
    assert not step.is_sum([6])


def test_every_place_of_the_new_step_is_made_from_one_of_the_old_one() -> None:
    step = unrolled()
    assert len(step.source) == 40 + 3 * 2 * 4
    assert (step.source[step.natural] == np.arange(40)).all()


def test_a_release_more_than_a_period_behind_follows_its_own_layer() -> None:
    """Of two blocks born before what is copied and released behind it: the twin of one is released a period later, that
    of the other at the same place."""
    step = unrolled()
    place, other = ints(4, 4), ints(9, 9)
    of_twin = ints(13, 9)
    assert step.follows(place, other, of_twin).tolist() == [True, False]
    found = step.seen(place, ints(NONE, NONE), other, none(2), of_twin)
    assert found.tolist() == [9, step.natural[9]]


def test_what_follows_a_twin_of_the_backward_pass_goes_the_other_way() -> None:
    step = unrolled()
    assert step.follows(ints(2, 2), ints(23, 23), ints(19, 27)).tolist() == [True, False]
    assert step.follows(ints(2), ints(23), ints(NONE)).tolist() == [False]
