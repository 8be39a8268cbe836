"""Where in a schedule of micro-batches a copy can come back at the earliest."""

from __future__ import annotations

import numpy as np
import pytest

from swapconf.trace.columns import Kernels
from swapconf.whatif.baseline import Baseline
from tests.unit.baselines import of_kernels

# A capital is one layer of the forward pass of that micro-batch, two kernels, the second reading the first; a small
# letter is a gradient that reads what these made; < receives, > sends. Beside: what the copies of each wait for.
PRIMITIVES = {"<": "Receive", ">": "Send"}
SCHEDULES = {
    "one after the other": ("AAaaaBBBbbb", {"A": 2, "B": 8}),
    "1F1B, the first stage: warm-up, and two backward passes in a row at the end": (
        "AABBaaCCbbDDccdd",
        {"A": 4, "B": 8, "C": 12, "D": 14},
    ),
    "1F1B, the last stage": ("AAaaBBbb", {"A": 2, "B": 6}),
    "all forward passes first": ("AABBCCccbbaa", {"A": 10, "B": 8, "C": 6}),
    "a stage in the middle": ("<AA<BB<aa<CC><bb><cc", {"A": 6, "B": 12, "C": 16}),
}


def baseline(schedule: str) -> Baseline:
    kernels = [
        (letter, schedule[:place].count(letter), half)
        for place, letter in enumerate(schedule)
        for half in range(1 + letter.isupper())
    ]
    size = len(kernels)
    node = np.array([letter.isupper() for letter, _, _ in kernels])
    layer = np.where(node, [number for _, number, _ in kernels], -1)
    passes = {
        key: number
        for number, key in enumerate(
            dict.fromkeys((letter, number) for letter, number, _ in kernels if letter.isupper())
        )
    }
    passing = np.array([passes.get((letter, number), -1) for letter, number, _ in kernels])
    reads = []  # (block, kernel); kernel i makes block i
    for index, (letter, _, half) in enumerate(kernels):
        reads += [(index - 1, index)] if half else []
        reads += [(made, index) for made, (other, _, _) in enumerate(kernels) if other == letter.upper() != letter]
    return of_kernels(
        Kernels(
            name=tuple(map(str, range(size))),
            layer=layer,
            cell=("",) * size,
            primitive=tuple(PRIMITIVES.get(letter, "Add") for letter, _, _ in kernels),
            stream=np.zeros(size, dtype=np.int64),
            backward=~node,
            passing=passing,
            before=np.arange(size + 1),
        ),
        reads,
    )


@pytest.mark.parametrize("case", SCHEDULES)
def test_no_copy_comes_back_before_the_last_forward_pass_ahead_of_its_own_backward_pass(case: str) -> None:
    schedule, expected = SCHEDULES[case]
    begins = np.cumsum([0, *(1 + letter.isupper() for letter in schedule)])  # the first kernel of each letter
    found = baseline(schedule).returnable
    for place, letter in enumerate(schedule):
        wanted = begins[expected[letter]] if letter.isupper() else 0
        assert set(found[begins[place] : begins[place + 1]].tolist()) == {wanted}
