"""docs/evidence/exactness.md: peaks replayed from traces of collect.py against what MindSpore itself says in the child.

    python scripts/evidence/collect.py FOLDER && python scripts/evidence/exactness_table.py FOLDER

With --add the rows of other cases stay on the page as they are, so that new cases can be added alone. Exit code 1 if
any peak differs by a byte.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from cases import ROOT, Case, cases
from evidence_page import opening

PAGE = ROOT / "docs/evidence/exactness.md"
HEAD = (
    "model and layout",
    "strategy",
    "rank",
    "replayed",
    "max_memory_allocated",
    "difference",
    "with fragments",
    "tensors moved",
)
SHORT = ("model, hidden size", "runs", "equal to the byte", "largest difference, B", "with a swap")
HOW = """\
Every row is one dry run of one rank at level 1 (operator workspace excluded) with mindspore 2.9.0 and mindformers
1.9.0. `replayed` is the peak that swapconf computes from the births and deaths of the blocks in the memory tracker's
file; `max_memory_allocated` is what MindSpore's own function returns in the child. The configs are in
`scripts/evidence/cases.py`; `scripts/evidence/collect.py` runs them, `scripts/evidence/exactness_table.py` makes this
page.
"""


def row(case: Case, folder: Path) -> tuple[str, bool]:
    """A line of the table, and whether the peaks are equal."""
    report = json.loads((folder / case.name / "run.json").read_text(encoding="utf-8"))["report"]
    own = json.loads((folder / case.name / "result.json").read_text(encoding="utf-8"))
    replayed, measured = report["used_peak_bytes"], own["max_memory_allocated_bytes"]
    tensors = sum(move["tensors"] for move in report["moved"])
    cells = (
        case.model,
        case.strategy,
        str(case.rank),
        f"{replayed:,}",
        f"{measured:,}",
        str(replayed - measured),
        f"{report['with_fragments_peak_bytes']:,}",
        str(tensors),
    )
    return "| " + " | ".join(cells) + " |", replayed == measured


def _key(case: Case) -> tuple[str, int, str]:
    return case.model, case.rank, case.strategy


def kept() -> dict[tuple[str, int, str], tuple[str, bool]]:
    """The rows of the page, whatever they were made from."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = cells_of(line)
        if len(cells) == len(HEAD) and cells[2].isdigit():
            found[(cells[0], int(cells[2]), cells[1])] = line, cells[5] == "0"
    return found


def _page(told: str, lines: list[str]) -> Iterator[str]:
    yield from opening("Peaks against MindSpore's own", told, SHORT, list(_by_model(lines)))
    yield from (HOW, "## Every run", "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|", *lines)


def _by_model(lines: list[str]) -> Iterator[tuple[str, ...]]:
    """Rows of SHORT."""
    rows = [dict(zip(HEAD, cells_of(line), strict=True)) for line in lines]
    for model, group in groupby(rows, key=lambda item: item[HEAD[0]].partition("-")[0]):
        runs = list(group)
        off = [abs(int(item["difference"])) for item in runs]
        yield (
            model,
            str(len(runs)),
            str(off.count(0)),
            f"{max(off):,}",
            str(sum(item["tensors moved"] != "0" for item in runs)),
        )


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--add", action="store_true", help="keep what the page has of other cases")
    options = parser.parse_args()
    found = kept() if options.add else {}
    found |= {
        _key(case): row(case, options.folder)
        for case in cases()
        if (options.folder / case.name / "result.json").exists()
    }
    rows = [found[key] for key in sorted(found)]
    equal = sum(same for _, same in rows)
    told = f"Peaks of dry runs, replayed, beside MindSpore's own: {equal} of {len(rows)} equal to the byte."
    PAGE.write_text("\n".join(_page(told, [line for line, _ in rows])) + "\n", encoding="utf-8")
    print(told)
    raise SystemExit(equal != len(rows))


if __name__ == "__main__":
    main()
