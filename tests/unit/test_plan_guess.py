"""What a search asks next: plans that are guessed to fit and to be fast come first; nothing is judged by it."""

from __future__ import annotations

import itertools
import random

import numpy as np

from swapconf.plan.guess import Guess
from swapconf.plan.judge import Judge, Scored
from swapconf.plan.modes import KEEP, RECOMPUTED, Plan
from tests.unit.planning import made_up_judge
from tests.unit.test_plan_search import MODES, under


def halves(judge: Judge) -> tuple[list[Scored], list[Plan]]:
    """Of all plans of a small judge some that were asked, and the others."""
    plans: list[Plan] = list(itertools.product(MODES, repeat=len(judge.layers)))
    random.Random(3).shuffle(plans)
    return [judge.score(plan) for plan in plans[:120]], plans[120:]


def test_what_promises_most_is_better_than_what_promises_least() -> None:
    judge = under(made_up_judge(4, max_entries=99), 0.4)
    asked, others = halves(judge)
    fitting = sorted((item for item in asked if item.fits), key=lambda item: item.rank)
    best = fitting[len(fitting) // 2]
    promise = Guess(judge, asked, best).promise(others)
    order = np.argsort(-promise)
    first, last = ([judge.score(others[index]) for index in part] for part in (order[:20], order[-20:]))
    assert sum(item.rank < best.rank for item in first) > 10
    assert not any(item.rank < best.rank for item in last)


def test_where_nothing_fits_what_is_likeliest_to_fit_comes_first() -> None:
    judge = under(made_up_judge(4, max_entries=99), -0.2)
    asked = [judge.score(plan) for plan in itertools.product([KEEP, RECOMPUTED], repeat=4)]
    best = min(asked, key=lambda item: item.rank)
    assert not best.fits
    promise = Guess(judge, asked, best).promise(
        [(RECOMPUTED, RECOMPUTED, RECOMPUTED, MODES[2]), (KEEP, KEEP, KEEP, MODES[2])]
    )
    assert 1 >= promise[0] > promise[1] >= 0


def test_modes_that_no_asked_plan_has_can_be_guessed() -> None:
    judge = under(made_up_judge(4, num_stages=2), 0.4)
    asked = [judge.score((mode,) * 4) for mode in (KEEP, RECOMPUTED)]
    promise = Guess(judge, asked, min(asked, key=lambda item: item.rank)).promise(
        [(MODES[3],) * 4, (KEEP, *[MODES[4]] * 3)]
    )
    assert promise.shape == (2,)
    assert np.isfinite(promise).all()
