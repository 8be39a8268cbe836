"""Copies to the host and who waits for them, on graphs made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from swapconf.whatif.graph.moves import MoveTos

RUNGS = 12


class Users(list[list[int]]):
    """What is looked up in it is counted."""

    asked = 0

    def __getitem__(self, node: Any) -> Any:
        self.asked += 1
        return super().__getitem__(node)


def rungs() -> Iterator[list[int]]:
    """Each node is read by both of the next two, so that the ways through them are many."""
    for node in range(2 * RUNGS):
        behind = node - node % 2 + 2
        yield [behind, behind + 1]


def test_when_a_node_is_launched_is_asked_once_of_each_that_reads_it() -> None:
    users = Users([*rungs(), [], []])
    run = SimpleNamespace(kernel_of={2 * RUNGS: 7, 2 * RUNGS + 1: 5}, users=users, saved=frozenset())
    asked: Any = SimpleNamespace(run=run)
    nothing: Any = None
    moves = MoveTos(asked, nothing, nothing, {}, nothing)
    assert moves._turn(0) == 5
    assert users.asked <= 2 * RUNGS
