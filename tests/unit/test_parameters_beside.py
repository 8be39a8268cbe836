"""In which order the parameters of a grown trace are made: each layer beside those next to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swapconf.dryrun.growing.beside import in_order

Made = tuple[str, int]


def made(*parts: list[Made]) -> list[Made]:
    return [one for part in parts for one in part]


def whole(layers: range) -> list[Made]:
    """Weights of the forward pass, the head, those that only the backward pass reads, then moments."""
    return made(
        [("table", -1)],
        [(kind, layer) for layer in layers for kind in ("query", "key")],
        [("head", -1)],
        [(kind, layer) for layer in reversed(layers) for kind in ("norm",)],
        [(kind, layer) for layer in reversed(layers) for kind in ("first moment", "second moment")],
    )


def grown(known: list[Made], new: list[Made]) -> list[Made]:
    rows = [*range(len(known)), *(next(row for row, one in enumerate(known) if one[0] == kind) for kind, _ in new)]
    every = known + new
    copies = [-1] * len(known) + [layer for _, layer in new]
    turns = in_order(rows, copies, [layer for _, layer in every], [kind for kind, _ in every], len(known))
    return [every[index] for index in sorted(range(len(every)), key=lambda index: turns[index])]


@given(st.integers(2, 9), st.sets(st.integers(0, 8), max_size=7))
def test_parameters_of_new_layers_stand_where_all_layers_make_them(count: int, left_out: set[int]) -> None:
    all_of_them = whole(range(count))
    known = [one for one in all_of_them if one[1] not in left_out or one[1] in (0, count - 1)]
    assert grown(known, [one for one in all_of_them if one not in known]) == all_of_them


def test_at_the_end_of_a_stage_without_a_head_those_that_go_up_stay_before_those_that_go_down() -> None:
    known: list[Made] = [("query", 0), ("query", 1), ("norm", 1), ("norm", 0)]
    assert grown(known, [("query", 2), ("norm", 2)]) == [
        ("query", 0),
        ("query", 1),
        ("query", 2),
        ("norm", 2),
        ("norm", 1),
        ("norm", 0),
    ]


def test_kinds_in_no_order_of_layers_stay_behind_what_they_are_made_from() -> None:
    known: list[Made] = [("query", 1), ("query", 0), ("query", 3), ("head", -1)]
    assert grown(known, [("query", 2)])[:2] == [("query", 1), ("query", 2)]
