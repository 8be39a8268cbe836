#!/usr/bin/env python3
"""Do `explain`, the cells, the graph, the log and `whatif` agree? On random strategies that nobody chose.

    python scripts/evidence/agreement.py --seed S --cases N --folder DIR [--out docs/evidence/agreement.md]
    python scripts/evidence/agreement.py --case S:I --folder DIR
    python scripts/evidence/agreement.py --seed S --cases N --again DIR [--row docs/evidence/agreement-rows.csv]

Each case is one real dry run of one rank, and one without swap and recompute for every few cases, which share their
shape. DIR keeps the traces; ``--again`` only predicts and compares again. For each case:

- what `explain` decides = the flags on the cells that the run built = what its graph copies and runs again = its log;
- what `whatif` predicts from the run without a strategy, against the run with it.

Of another release than that of .venv: ENVIRONMENT/bin/python instead, as `scripts/generations.sh --install` makes it.

Exit code 1 where the first disagrees, or MindSpore crashes and that is not predicted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import agreement_rows
from agreement_cases import AS_WRITTEN, Case, case, cases
from agreement_judge import Verdict, judge
from agreement_page import line, page
from agreement_rows import Setting, row_of
from evidence_page import kept

from swapconf.config.nodes import Document
from swapconf.config.yaml_document import parse_value
from swapconf.dryrun.fold import folded
from swapconf.dryrun.rank_order import RankOrder
from swapconf.trace import run_record
from swapconf.upstream.facts import Versions
from swapconf.upstream.launch_orders import UNFUSED_LEVEL


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--cases", type=int, default=60, metavar="N")
    options.add_argument("--case", metavar="S:I", help="one case again, with everything that was found")
    options.add_argument("--folder", type=Path, help="where traces are (output/agreement); none is run twice")
    options.add_argument("--again", type=Path, metavar="DIR", help="run nothing: judge the traces in DIR")
    options.add_argument("--jit-level", default="", metavar="O1", help="with fused kernels; DIR is of one level")
    options.add_argument("--tokens", type=int, default=0, metavar="32768", help="of a sequence; DIR is of one length")
    options.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="of all shapes; DIR is of these"
    )
    options.add_argument("--run-only", action="store_true", help="judge nothing: --again does that later")
    options.add_argument("--out", type=Path, help="write the table to this page")
    options.add_argument("--row", type=Path, metavar="FILE", help="put a row for this release, level and seed there")
    options.add_argument("--note", default="", help="a sentence on how blind these cases are")
    options.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="of one dry run")
    given = options.parse_args()
    changed = {key: parse_value(value) for key, _, value in (one.partition("=") for one in given.set)}
    if given.jit_level:
        changed["context.jit_config.jit_level"] = given.jit_level
    folder = (given.again or given.folder or Path("output/agreement")).resolve()
    if given.case:
        seed, _, number = given.case.partition(":")
        asked: Iterable[Case] = [case(int(seed), int(number), given.tokens, changed)]
    else:
        asked = cases(given.seed, given.cases, given.tokens, changed)
    if given.run_only:
        for one in asked:
            run(one, folder, given.timeout)
        return
    judged = list(verdicts(asked, folder, given.timeout, runs=given.again is None))
    if given.case:
        print("\n".join(told for verdict in judged for told in verdict.details))
    command = f"--seed {given.seed} --cases {given.cases}" + f" --jit-level {given.jit_level}" * bool(given.jit_level)
    command += f" --tokens {given.tokens}" * bool(given.tokens)
    command += "".join(f" --set {one}" for one in given.set)
    text = page(judged, command, given.note, kept(given.out) if given.out is not None else ())
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    if given.row is not None:
        versions = Versions.in_use()
        level = given.jit_level or UNFUSED_LEVEL
        setting = Setting(versions.mindspore, versions.mindformers, level, judged[0].case.seed)
        agreement_rows.add(given.row, row_of(judged, setting, given.note))
    print(text.partition("\nMade by")[0])
    sys.exit(any(verdict.disagreements or verdict.misses for verdict in judged))


def verdicts(asked: Iterable[Case], folder: Path, timeout: float, runs: bool = True) -> Iterator[Verdict]:
    for one in asked:
        if runs:
            run(one, folder, timeout)
        elif not (
            _is_there(folder / one.baseline, one.without_strategy) and _is_there(folder / one.name, one.document)
        ):
            continue
        verdict = judge(one, folder)
        print(line(verdict), flush=True)
        yield verdict


def run(one: Case, folder: Path, timeout: float) -> None:
    """A case and its baseline, as far as the folder does not have them."""
    _run(one, folder / one.baseline, timeout, with_strategy=False)
    _run(one, folder / one.name, timeout, with_strategy=True)


def _run(one: Case, target: Path, timeout: float, *, with_strategy: bool) -> None:
    """Into a folder that appears only when it is whole."""
    asked = one.document if with_strategy else one.without_strategy
    if _is_there(target, asked):
        return
    work = target.with_name(f".{target.name}")
    shutil.rmtree(work, ignore_errors=True)
    start = time.monotonic()
    report = folded.dry_run(
        RankOrder(document=asked, rank=one.shape.rank, keep=work, timeout_seconds=timeout, settings=AS_WRITTEN)
    )
    (inner,) = work.glob("rank_*")
    shutil.rmtree(target, ignore_errors=True)
    inner.rename(target)
    shutil.rmtree(work)
    print(f"  {target.name}: {report.outcome.value}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def _is_there(target: Path, asked: Document) -> bool:
    """Not what another state of these scripts drew for the same seed, nor what another release left."""
    if not (target / run_record.FILE).exists():
        return False
    record, versions = run_record.read(target), Versions.in_use()
    made_with = [record["environment"][package] for package in ("mindspore", "mindformers")]
    return record["settings"] == asked.root.plain() and made_with == [versions.mindspore, versions.mindformers]


if __name__ == "__main__":
    main()
