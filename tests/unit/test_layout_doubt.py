"""Which measurement would tell two layouts apart that may be equally fast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from swapconf.report.layout_doubt import what_decides
from swapconf.timing import hardware
from swapconf.timing.costing import COMMON_GROUPS, COPIES, EXCHANGES
from swapconf.timing.parts import GRADIENTS, HIDDEN_MOST, OWN, StepParts, doubts_us

SPREAD = tuple((0.9, 1.2) if name != EXCHANGES else (0.4, 1.4) for name in COMMON_GROUPS)


class Made:
    """In place of a row."""

    def __init__(self, gradients_us: float = 0.0, own_us: float = 0.0, **groups: float) -> None:
        us = [groups.get(name, 100.0) for name in COMMON_GROUPS]
        self.parts = StepParts(
            step_us=sum(us),
            of_group_us=np.array([*us, own_us]),
            spread=(*SPREAD, (0.8, 1.2)),
            gradients_us=gradients_us,
            collectives_us=0.0,
            copies_us=0.0,
            bubble_us=0.0,
        )


def told(one: Any, other: Any) -> str:
    return str(what_decides(one, other))


def test_a_doubt_is_as_wide_as_the_spread_of_the_group_that_differs() -> None:
    found = doubts_us(Made().parts, Made(gradients_us=10.0, matmul=150.0, collectives=120.0, own_us=30.0).parts)
    assert found["matmul"] == pytest.approx(50 * 0.3)
    assert found[EXCHANGES] == pytest.approx(20 * 1.0)
    assert found[OWN] == pytest.approx(30 * 0.4)
    assert found[GRADIENTS] == pytest.approx(10 * HIDDEN_MOST)
    assert found[COPIES] == 0


def test_the_groups_of_a_card_are_the_common_ones_and_its_own_kinds() -> None:
    card = hardware.load("ascend_910b2")
    assert len(COMMON_GROUPS) + len(card.kinds) == len(set(COMMON_GROUPS) | set(card.kinds))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Made(matmul=200.0, collectives=120.0), "family `matmul`"),
        (Made(matmul=120.0, collectives=120.0), "how long collectives take"),
        (Made(copies=200.0), "how fast copies between card and host are"),
        (Made(gradients_us=100.0), "adding up gradients"),
        (Made(own_us=100.0), "a profile has not seen"),
        (Made(calibrated=200.0), "a profile has not seen"),
    ],
)
def test_what_is_widest_decides(other: Any, words: str) -> None:
    assert words in told(Made(), other)
