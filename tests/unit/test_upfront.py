"""Where the casts of weights that move run, by the copies of the weights of norms: two layers of one micro-batch."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif import predict, rerun
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import recompute
from swapconf.whatif.swap import Unread, Windows, swap
from swapconf.whatif.weight_copies import upfront
from tests.unit import test_whatif_mcore as qwen
from tests.unit.test_whatif_graphs import Item, baseline, gradient, node

CAST, LAST = 13, 16  # two casts
FIRST, SECOND = 2, 12  # the first kernels of the layers


def graph(*, has_room: bool) -> Baseline:
    """1 copies the weight of a norm, or 14 does, right before it; the first layer is a chain. The norm reads what the
    first cast makes, and a Linear with the second cast the norm."""
    copy, other = node(1, 15, primitive="TensorMove"), Item()
    return baseline(
        Item(),
        copy if has_room else other,
        *(node(0, FIRST, 0 if index == FIRST else index - 1) for index in range(FIRST, SECOND)),
        node(1, 15, 11),
        node(1, 15, primitive="Cast"),
        other if has_room else copy,
        node(1, 15, SECOND, CAST, 1 if has_room else 14, primitive="RmsNorm"),
        node(1, 15, primitive="Cast"),
        node(1, 15, 15, LAST, primitive="MatMul"),
        gradient(CAST, 17),
    )


@pytest.mark.parametrize(("has_room", "place"), [(True, FIRST), (False, -1)])
def test_casts_stand_behind_the_copy_that_is_read_next_or_last_if_it_has_room(has_room: bool, place: int) -> None:
    assert graph(has_room=has_room).upfront[[CAST, LAST]].tolist() == [place, place]


@pytest.mark.parametrize(("whole", "place"), [((), FIRST), (("0",), SECOND), (("1",), FIRST)])
def test_casts_stand_behind_a_layer_in_front_of_theirs_that_is_recomputed_as_a_whole(
    whole: tuple[str, ...], place: int
) -> None:
    assert upfront(graph(has_room=True), whole)[[CAST, LAST]].tolist() == [place, place]
    assert upfront(graph(has_room=False), whole)[[CAST, LAST]].tolist() == [-1, -1]


def windows(found: Baseline, places: Ints | None) -> Windows:
    size, nothing = len(found.kernels), np.full(len(found.reads.block), -1, dtype=np.int64)
    none, still = np.zeros(0, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    of_moved = np.full(size, -1, dtype=np.int64)
    program = recompute(found, nothing, still, np.zeros(len(nothing), dtype=np.bool_), of_moved)
    moving = found.kernels.backward[program.reader] & (program.block == CAST)
    unread = Unread(block=none, face=none, site=none, prefetch=none)
    return swap(found, program, moving, np.ones(len(moving), dtype=np.int64), of_moved, unread, upfront=places)


def test_copies_of_such_casts_are_launched_there() -> None:
    found = graph(has_room=True)
    first, second = (windows(found, upfront(found, whole)) for whole in ((), ("0",)))
    assert [int(copies.copied[0]) // TICKS for copies in (first, second)] == [FIRST - 1, SECOND - 1]
    assert windows(found, None).copied.tolist() == first.copied.tolist()


@pytest.mark.parametrize(
    ("asked", "whole"),
    [("recompute_config.recompute=[1]", {"0"}), (r"recompute_config.select_recompute={'self_attention': True}", set())],
)
def test_a_layer_is_recomputed_as_a_whole_where_itself_is_asked_for(
    asked: str, whole: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []

    def told(found: Baseline, layers: Collection[str]) -> Ints:
        seen.append(set(layers))
        return found.upfront

    monkeypatch.setattr(rerun, "upfront", told)
    found = qwen.baseline()
    found.reruns.clear()  # other tests ask the same of it
    predict.schedule(found, qwen.strategy("swap_config={swap: False}", asked))
    found.reruns.clear()
    assert seen == [whole]
