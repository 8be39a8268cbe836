"""ARRANGED -> where in the new step stands what a launch refers to.

What a launch refers to is so many rounds back: the forward pass of its own micro-batch always as many as are in flight,
less one, however many that are; else its own round, or the one before. What launches of two passes refer to alike is
there once, for all. In another pass the same launch is that of the same name and form, with as many such before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import TypeAlias

from swapconf.dryrun.composing.arranged import Arranged, cut_key, place_keys
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.words.phrases import phrase

NEAR = 1  # rounds apart, within which it is not the forward pass of the same micro-batch
_Launch: TypeAlias = tuple[bool, Hashable, int]  # in a round: whether backward, its key, how many such are before


class Counterparts:
    """Places of the run -> places of the new step."""

    def __init__(self, made: Arranged) -> None:
        self.made = made
        self._number, self._round = made.passes.number.tolist(), made.passes.round.tolist()
        self._new_round, self._new_number = made.round.tolist(), made.number.tolist()
        self._source = made.source.tolist()
        self.keys = place_keys(made.steps)
        self._launch, self._old = self._index([*range(len(self._number))], self._round)
        _, self._new = self._index(self._source, self._new_round)
        self._where: dict[tuple[int, int], int] = {}
        self._last: dict[int, int] = {}
        self._cuts: dict[tuple[str, int], int] = {}
        kernels = made.steps.kernels
        for new, (source, cut) in enumerate(zip(self._source, made.cut.tolist(), strict=True)):
            self._where.setdefault((self._new_number[new], source), new)
            self._last[source] = new
            if made.at_once[source] != NONE:
                self._cuts[cut_key(kernels[source].name), cut] = new

    def _index(self, source: list[int], rounds: list[int]) -> tuple[list[_Launch], dict[tuple[int, _Launch], int]]:
        """[places] what each is in its round; and where that is, by round."""
        sides = self.made.is_backward.tolist()
        before: defaultdict[Hashable, int] = defaultdict(int)
        launches, where = [], {}
        for place, (row, at) in enumerate(zip(source, rounds, strict=True)):
            side, key = sides[row], self.keys[row]
            launch = side, key, before[at, side, key]
            before[at, side, key] += 1
            launches.append(launch)
            where[at, launch] = place
        return launches, where

    def twin(self, place: int) -> int:
        """The same launch for another micro-batch, NONE where there is none."""
        at, launch = self._round[place], self._launch[place]
        if at == NONE:
            return NONE
        return self._old.get((at + 1, launch), self._old.get((at - 1, launch), NONE))

    def seen(self, new: int, place: int, *, is_shared: bool = False, source: int = NONE) -> int:
        """The new place of what stands at ``place`` for the launch at ``new``: as for that which it is made from, or
        for another one like it in the run (``source``). Raises CannotCompose."""
        source = self._source[new] if source == NONE else source
        here, there = self._round[source], self._round[place]
        if (cut := self.made.at_once[place]) != NONE:
            return self._cut(new, place, cut)
        if self._number[source] == self._number[place] and source == self._source[new]:
            return self._where[self._new_number[new], place]
        if there == NONE or here == NONE or is_shared:
            return self.natural(place)
        return self._in_round(place, self._new_round[new] - self.moved(here - there))

    def natural(self, place: int) -> int:
        """Where it is as it was; where its pass is left out, as far from the end as before. Raises CannotCompose."""
        if place in self._last:
            return self._last[place]
        made = self.made
        return self._in_round(place, int(made.round.max() - made.passes.round.max()) + self._round[place])

    def moved(self, rounds: int) -> int:
        """How many rounds apart it is in the new step, by how many it is in the run."""
        more = self.made.in_flight - self.made.passes.in_flight
        return rounds if abs(rounds) <= NEAR else rounds + more if rounds > 0 else rounds - more

    def _cut(self, new: int, place: int, cut: int) -> int:
        here, key = self._round[self._source[new]], cut_key(self.made.steps.kernels[place].name)
        own = int(self.made.cut[new])
        at = own if own != NONE else cut if here == NONE else self._new_round[new] - self.moved(here - cut)
        if (key, at) not in self._cuts:
            raise CannotCompose(phrase("the micro-batch {number} is not cut out of the batch", number=at))
        return self._cuts[key, at]

    def _in_round(self, place: int, new_round: int) -> int:
        """Raises CannotCompose."""
        found = self._new.get((new_round, self._launch[place]))
        if found is None:
            raise CannotCompose(
                phrase(
                    "the launch {name} is not in every pass of a micro-batch",
                    name=self.made.steps.kernels[place].name.rpartition("/")[2],
                )
            )
        return found
