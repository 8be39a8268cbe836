#!/usr/bin/env python3
"""ROWS -> PAGE: how near what-if came to true runs, a row for each release, ``jit_level`` and seed.

    python scripts/evidence/agreement_rows.py [--rows FILE] [--out docs/evidence/what-if-releases.md]

``agreement.py --row FILE`` puts a row into the file, in the place of an older one of the same release, level and seed.
The page opens with the newest seed of each release and level; without ``--out`` it is printed.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from statistics import median
from typing import NamedTuple

from agreement_judge import Verdict
from evidence_page import kept, opening, table

from swapconf.upstream.launch_orders import Order
from swapconf.upstream.versions import release

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "docs" / "evidence" / "agreement-rows.csv"
TOLD = "docs/evidence/what-if-releases.md"  # as upstream/launch_orders.py names the page
PAGE = ROOT / TOLD
WORST = 1.0  # percent
HEAD = (
    "MindSpore + mindformers",
    "level",
    "cases",
    "peaks: median, worst",
    "more than 1 % off",
    "copies as predicted",
    "bound below",
    "disagree",
    "crashes not foreseen",
    "how blind",
)


class Setting(NamedTuple):
    """Of what a row tells. ``level``: of jit_level."""

    mindspore: str
    mindformers: str
    level: str
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Counts of the cases of one seed; errors in percent.

    Attributes:
        numbers: Which cases of the seed, such as ``0-1 6-7``.
        ran: That MindSpore did not die of; the figures behind it are of these.
        in_order: Predicted in MindSpore's own order of launches.
        far, far_inside: Peaks more than 1 % off; inside of layers.
        moves, host: As many copies, and as much host memory, as predicted.
        below: Where the bound of ``--safe`` is below the truth; ``over``: how far over it in the median.
        missed: Crashes of MindSpore that were not foreseen.
        note: How blind the cases are.
    """

    mindspore: str
    mindformers: str
    level: str
    seed: int
    numbers: str
    cases: int
    ran: int
    in_order: int
    median: float
    worst: float
    far: int
    far_inside: int
    moves: int
    host: int
    below: int
    over: float
    disagree: int
    missed: int
    note: str = ""

    @property
    def setting(self) -> Setting:
        return Setting(self.mindspore, self.mindformers, self.level, self.seed)


def row_of(verdicts: Sequence[Verdict], setting: Setting, note: str = "") -> Row:
    """Raises ValueError where no case ran."""
    figures = [verdict.figures for verdict in verdicts if verdict.figures is not None]
    if not figures:
        raise ValueError(f"no case of seed {setting.seed} ran")
    errors = [abs(entry.error) for entry in figures]
    return Row(
        **setting._asdict(),
        numbers=ranges([verdict.case.number for verdict in verdicts]),
        cases=len(verdicts),
        ran=len(figures),
        in_order=sum(entry.order is Order.MINDSPORE for entry in figures),
        median=round(median(errors), 3),
        worst=round(max(errors), 3),
        far=sum(error > WORST for error in errors),
        far_inside=sum(abs(entry.inside_error) > WORST for entry in figures),
        moves=sum(entry.moves == entry.predicted_moves for entry in figures),
        host=sum(entry.host == entry.predicted_host for entry in figures),
        below=sum(entry.safe < entry.peak for entry in figures),
        over=round(median([entry.over for entry in figures]), 1),
        disagree=sum(bool(verdict.disagreements) for verdict in verdicts),
        missed=sum(bool(verdict.misses) for verdict in verdicts),
        note=note,
    )


def ranges(numbers: Sequence[int]) -> str:
    """``0-2 6`` of 0, 1, 2 and 6."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return " ".join("-".join(map(str, ends)) for ends in found)


def read(file: Path) -> list[Row]:
    """None where there is no file."""
    if not file.exists():
        return []
    kinds = {"str": str, "int": int, "float": float}
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Row(**{field.name: kinds[str(field.type)](line[field.name]) for field in fields(Row)})
            for line in csv.DictReader(lines)
        ]


def add(file: Path, row: Row) -> None:
    """In the place of an older one of the same setting, else behind all."""
    rows = read(file)
    places = [place for place, one in enumerate(rows) if one.setting == row.setting]
    if places:
        rows[places[0]] = row
    else:
        rows.append(row)
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(asdict(row))
        writer.writerows(astuple(one) for one in rows)


def newest(rows: Sequence[Row]) -> list[Row]:
    """The last row of each release and level, by release."""
    found = {(row.mindspore, row.mindformers, row.level): row for row in rows}
    return sorted(found.values(), key=lambda row: (release(row.mindspore), release(row.mindformers), row.level))


def cells(row: Row) -> tuple[str, ...]:
    """As HEAD."""
    of = f"of {row.ran}"
    return (
        f"{row.mindspore} + {row.mindformers}",
        row.level,
        str(row.cases) + f", {row.ran - row.in_order} by the quick way" * (row.in_order < row.ran),
        f"{row.median:.3f} %, {row.worst:.3f} %",
        f"{row.far} {of}",
        f"{row.moves} {of}",
        f"{row.below} {of}",
        f"{row.disagree} of {row.cases}",
        str(row.missed),
        row.note,
    )


def page(rows: Sequence[Row]) -> Iterator[str]:
    """Lines."""
    last = newest(rows)
    told = (
        f"Of {sum(row.ran for row in last)} random strategies with {len({row.mindspore for row in last})} releases of "
        f"MindSpore {sum(row.far for row in last)} have a peak more than {WORST:.0f} % off, the worst "
        f"{max(row.worst for row in last):.3f} %. The bound of `--safe` is below the truth in "
        f"{sum(row.below for row in last)}."
    )
    yield from opening("What-if by release and level", told, HEAD, [cells(row) for row in last])
    yield "Each row is one seed of `scripts/evidence/agreement.py`: random shapes of all families, layouts, ranks and"
    yield "strategies; each case is one true dry run and what `whatif` predicts for it from a run without swap and"
    yield "recompute. *By the quick way*: in the order of launches of that run, where MindSpore's own is not found."
    yield ""
    yield "## Every seed"
    yield ""
    head = (
        "MindSpore + mindformers",
        "level",
        "seed: cases",
        "median, worst %",
        "inside far",
        "host memory",
        "bound over",
    )
    yield from table(
        head,
        [
            (
                *cells(row)[:2],
                f"{row.seed}: {row.numbers}",
                f"{row.median:.3f}, {row.worst:.3f}",
                f"{row.far_inside} of {row.ran}",
                f"{row.host} of {row.ran}",
                f"{row.over:.1f} %",
            )
            for row in rows
        ],
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=Path, default=ROWS, metavar="FILE")
    options.add_argument("--out", type=Path, metavar="PAGE", help="write it, and keep the history of what is there")
    given = options.parse_args()
    text = "\n".join(page(read(given.rows))).rstrip()
    if given.out is None:
        print(text)
    else:
        given.out.write_text("\n".join([text, *kept(given.out)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
