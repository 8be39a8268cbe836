"""EXPERT LOAD: how many of the tokens each expert gets, which a simulated device cannot count.

A router sends each token to several different experts. Of all that it sends in a step, which stay as many, each expert
has a share: the same, or the experts of the first rank so many times theirs and the others share the rest, or as a file
tells. With safe tokens, which mindformers adds, each expert gets some more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from swapconf.words.phrases import phrase

EVENLY = "even"  # as the command line and records say it
_EVEN = Fraction(1)


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """``factor``: what the experts of the first rank get, in even shares. ``shares``: of each expert, in any unit,
    which count instead of that where there are some; ``file`` and ``lines``: where they stand."""

    factor: Fraction = _EVEN
    shares: tuple[Fraction, ...] = ()
    file: str = field(default="", compare=False)
    lines: tuple[int, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """``even``, the factor, or the file."""
        return self.file if self.shares else EVENLY if self.factor == _EVEN else f"{float(self.factor):g}"

    def of(self, experts: int, ranks: int) -> list[Fraction]:
        """The parts of all tokens that the experts get, in order; together 1. ``ranks``: that share out the experts."""
        if self.shares:
            whole = sum(self.shares)
            return [share / whole for share in self.shares]
        if ranks == 1:
            return [Fraction(1, experts)] * experts
        own, others = self.factor, (ranks - self.factor) / (ranks - 1)
        return [(own if expert < experts // ranks else others) / experts for expert in range(experts)]

    def times(self, experts: int, ranks: int, rank: int) -> float:
        """What the experts of a rank get, in even shares."""
        own = experts // ranks
        return float(sum(self.of(experts, ranks)[rank * own : (rank + 1) * own]) * ranks)

    def tokens(self, sent: int, experts: int, ranks: int, *, safe: int = 0) -> list[int]:
        """Of each expert. ``sent``: all together, each token as often as it is sent; ``safe``: those among them that
        are added for each expert. What is left over by rounding goes where most is missing, first experts first."""
        routed = sent - safe * experts
        exact = [part * routed for part in self.of(experts, ranks)]
        found = [int(part) for part in exact]
        missing = sorted(range(experts), key=lambda expert: found[expert] - exact[expert])
        for expert in missing[: routed - sum(found)]:
            found[expert] += 1
        return [tokens + safe for tokens in found]


EVEN = ExpertLoad()


def as_record(load: ExpertLoad) -> dict[str, Any]:
    """Exact, for the child and for ``run.json``."""
    return {"factor": str(load.factor), "shares": [str(share) for share in load.shares], "file": load.file}


def of_record(record: object) -> ExpertLoad:
    """An even one where none was recorded, as of runs that knew no other. Raises ValueError for what is no record."""
    if record is None:
        return EVEN
    if not isinstance(record, Mapping) or not isinstance(record.get("shares"), Sequence):
        raise ValueError("no record of an expert load")
    shares = tuple(Fraction(str(share)) for share in record["shares"])
    return ExpertLoad(Fraction(str(record.get("factor"))), shares, str(record.get("file", "")))


def told(name: str, ranks: int, times: float) -> str:
    """Of which load a figure is. ``name``: of the load, "" of a model without experts; ``ranks``: that share out the
    experts; ``times``: what those of this rank get, in even shares."""
    if not name:
        return ""
    if ranks == 1:
        return phrase("each rank has all experts, which get all of its tokens however they are spread")
    if name == EVENLY:
        return phrase("tokens spread evenly over the experts of {ranks} ranks", ranks=ranks)
    return phrase(
        "of {ranks} ranks that share out the experts this one gets {times:.4g} times its even share of tokens "
        "(expert load {name})",
        ranks=ranks,
        times=times,
        name=name,
    )


def told_by(folder: Path) -> str:
    """Of which load a kept trace is; "" of a model without experts, or of a run that recorded none."""
    from swapconf.trace import run_record  # which loads numpy, and every command's help is told without

    report = run_record.report(folder)
    return told(
        str(report.get("expert_load", "")), int(report.get("expert_ranks", 1)), float(report.get("expert_times", 1.0))
    )
