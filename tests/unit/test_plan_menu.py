"""Which modes are worth deciding between."""

from __future__ import annotations

from swapconf.plan.menu import Tried, front, menu
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, num_ranges, uniform
from swapconf.whatif.evaluation import Evaluation, RankMemory
from tests.unit.networks import config
from tests.unit.planning import made_up_judge, real_judge

ONE: Mode = frozenset({Atom("recompute", "attention")})
TWO: Mode = frozenset({Atom("recompute", "attention"), Atom("recompute", "feed_forward")})
SWAPPED: Mode = frozenset({Atom("swap", "", 20)})


def tried(mode: Mode, step_us: float, *used_bytes: int, crashes: bool = False) -> Tried:
    ranks = tuple(
        RankMemory(used_peak_bytes=size, host_peak_bytes=0, moved_bytes=0, recomputed=0, crashes=crashes)
        for size in used_bytes
    )
    return Tried(mode=mode, found=Evaluation(ranks=ranks, step_us=step_us))


def kept(*items: Tried) -> list[Mode]:
    assert [item.mode for item in front(items)] == [item.mode for item in front(reversed(items))]
    return [item.mode for item in front(items)]


def test_what_is_slower_and_holds_as_much_is_left_out() -> None:
    assert kept(tried(KEEP, 100, 1000), tried(ONE, 101, 1000), tried(RECOMPUTED, 120, 500)) == [KEEP, RECOMPUTED]


def test_one_rank_on_which_it_holds_less_is_enough() -> None:
    assert kept(tried(KEEP, 100, 1000, 1000), tried(ONE, 101, 1000, 900)) == [KEEP, ONE]


def test_what_needs_fewer_entries_stays_beside_what_is_faster() -> None:
    assert kept(tried(TWO, 100, 500), tried(ONE, 101, 500)) == [TWO, ONE]
    assert kept(tried(ONE, 100, 500), tried(TWO, 101, 500)) == [ONE]


def test_what_mindspore_dies_of_is_left_out() -> None:
    assert kept(tried(KEEP, 100, 1000), tried(SWAPPED, 90, 100, crashes=True)) == [KEEP]


def test_a_menu_holds_the_fastest_first_and_nothing_twice() -> None:
    found = menu(real_judge(), 200)
    steps = [item.found.step_us for item in found]
    assert steps == sorted(steps)
    assert len({item.mode for item in found}) == len(found) > 5
    assert found[0].found.step_us <= real_judge().evaluation(uniform(KEEP, real_judge().network)).step_us


def test_a_menu_has_modes_that_save_more_than_full_recompute_and_none_that_crash() -> None:
    judge = made_up_judge(3)
    found = menu(judge, 200)
    least = min(sum(item.used_bytes) for item in found)
    assert least < judge.evaluation(uniform(RECOMPUTED, judge.network)).ranks[0].used_peak_bytes
    assert not any(item.found.crashes for item in found)
    assert not any(atom.prefetch == 1 for item in found for atom in item.mode)


def test_what_is_recomputed_is_not_asked_for_again_inside_or_around_it() -> None:
    for item in menu(made_up_judge(3), 300):
        again = sorted(atom.path for atom in item.mode if atom.kind == "recompute")
        assert not any(
            other != path and (not path or other.startswith(f"{path}.")) for path in again for other in again
        ), item.mode
        assert len({atom.path for atom in item.mode}) == len(item.mode)


def test_no_more_is_asked_for_than_allowed() -> None:
    judge = made_up_judge(3)
    before = judge.asked
    menu(judge, 30)
    assert judge.asked - before <= 30


def test_ranges_of_layers_are_counted_for_each_entry_and_all_layers_are_none() -> None:
    first, second = Atom("swap", "attention", 2), Atom("recompute", "")
    assert num_ranges((KEEP, KEEP), config(2)) == 0
    assert num_ranges((frozenset({first}), frozenset({first})), config(2)) == 0
    assert num_ranges((frozenset({first}), KEEP, frozenset({first, second})), config(3)) == 3
