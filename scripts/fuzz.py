"""Fuzz everything that reads files of others. A table is printed; every input that fails is saved as a file.

    python scripts/fuzz.py --inputs 100000
    python scripts/fuzz.py --target yaml --inputs 5000 --seed 7

The same seed gives the same inputs. Exit codes: 0 nothing failed; 1 something did.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz import campaign
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only this one; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="targets at once (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("output/fuzz"), help="failing inputs (default: %(default)s)")
    options = parser.parse_args()
    counts = (
        dict.fromkeys(options.target, options.inputs // len(options.target))
        if options.target
        else campaign.shares(options.inputs)
    )
    row = "{:<16} {:>8} {:>10} {:>8} {:>7}".format
    print(row("target", "inputs", "slowest ms", "peak MB", "failed"), flush=True)
    total = failed = 0
    for figures in campaign.run_all(counts, options.seed, options.out, options.jobs):
        print(
            row(
                figures.target,
                figures.inputs,
                f"{figures.slowest_ms:.0f}",
                f"{figures.peak_mb:.0f}",
                len(figures.failed),
            ),
            flush=True,
        )
        for file, what in figures.failed.items():
            print(f"    {file}: {what}", flush=True)
        total, failed = total + figures.inputs, failed + len(figures.failed)
    print(row("all", total, "", "", failed))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
