#!/usr/bin/env python3
"""Recorded runs that `tests/traces` does not keep: make them again, and hold what what-if tells against them.

    python scripts/evidence/recorded.py FOLDER [--only TEXT]
    python scripts/evidence/recorded.py --pack RUN TARGET

`recorded_runs.json` tells of each the YAML, as what differs from an example, the rank, and of true runs with a strategy
(MindSpore 2.9.0, MindSpore Transformers 1.9.0) the peaks and, where what-if has it, the order of launches. FOLDER gets
the run without a strategy of each, half a minute of MindSpore; what is there is not run again. A line tells how far the
predicted peak of each strategy is off. ``--pack`` makes a folder of `tests/traces/in_order` of the run that
`swapconf dryrun --keep` left: its trace without the stacks of the machine, and its YAML.

Exit code 1 where more is off than when the run was recorded.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import lzma
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from agreement_cases import AS_WRITTEN
from whatif_table import graphed

from swapconf.config import overrides
from swapconf.config.nodes import Document
from swapconf.dryrun.fold import folded
from swapconf.dryrun.rank_order import RankOrder
from swapconf.study.study import study_document
from swapconf.trace import fused_kernels, launch_graph, trace_folder
from swapconf.upstream.facts import Versions
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.memory import lives
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.graph.strategy_graph import strategy_graph
from swapconf.whatif.predict import schedule

FILE = Path(__file__).with_name("recorded_runs.json")
ROOT = Path(__file__).parents[2]
RECORDED_WITH = Versions(mindspore="2.9.0", mindformers="1.9.0")
CLOSE = 0.0005  # as a share of the true peak, where nothing else is known
# of text: an eighth smaller than what xz does without being told
_TEXT = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
_FILES = (trace_folder.ORDER, trace_folder.BLOCKS, trace_folder.GRAPH, launch_graph.FILE, fused_kernels.FILE)
_OF_THE_MACHINE = ("file_name", "python_stack", "")  # columns of blocks


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """``settings``: dotted key -> value, over ``config``. ``runs``: strategies, each with what its true run had."""

    name: str
    config: str
    settings: Mapping[str, Any]
    rank: int
    runs: tuple[Mapping[str, Any], ...]

    def document(self, strategy: Mapping[str, Any] | None = None) -> Document:
        """Of the run without a strategy, or with one."""
        asked = {**self.settings, **(strategy or {})}
        changes = [f"{key}={json.dumps(value)}" for key, value in asked.items()]
        found = overrides.read(["--config", str(ROOT / self.config)], changes)
        assert found is not None
        return found


def recorded() -> tuple[Recorded, ...]:
    told = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(Recorded(name=name, **{**case, "runs": tuple(case["runs"])}) for name, case in told.items())


# --- make again -------------------------------------------------------------------------------------------------------


def make(case: Recorded, target: Path) -> None:
    """Into a folder that appears only when it is whole."""
    work = target.with_name(f".{target.name}")
    shutil.rmtree(work, ignore_errors=True)
    folded.dry_run(RankOrder(document=case.document(), rank=case.rank, keep=work, settings=AS_WRITTEN))
    (inner,) = work.glob("rank_*")
    inner.rename(target)
    shutil.rmtree(work)


def judged(case: Recorded, folder: Path) -> Iterator[tuple[str, bool]]:
    """Of each strategy a line, and whether more is off than when it was recorded."""
    network = study_document(case.document(), RECORDED_WITH, {}, AS_WRITTEN).network
    assert network is not None
    baseline = graphed(trace_folder.read(folder, rank=0), network)
    for number, run in enumerate(case.runs):
        asked = {key: run[key] for key in ("swap_config", "recompute_config")}
        strategy = study_document(case.document(asked), RECORDED_WITH, {}, AS_WRITTEN).strategy
        assert strategy is not None
        error = baseline.predict(strategy).used_peak_bytes / run["used_peak_bytes"] - 1
        told, is_worse = f"{case.name}-{number}: {error:+.3%}", abs(error) > run.get("off", CLOSE)
        if "launches" in run:
            is_known = launches(baseline, strategy) == run["launches"]
            told, is_worse = told + ("" if is_known else ", in another order"), is_worse or not is_known
        yield told, is_worse


def launches(baseline: GraphedBaseline, strategy: Any) -> str:
    """The hash of the primitives in the order of their launches, but for views."""
    assert baseline.run is not None
    asked = Asked(prepared=baseline.prepared, run=baseline.run, plan=schedule(baseline.prepared, strategy))
    graph = strategy_graph(asked)
    primitives = (graph.nodes.primitive[node] for node in lives(graph).order)
    return hashlib.sha256("\n".join(one for one in primitives if one not in VIEWS).encode()).hexdigest()


# --- pack -------------------------------------------------------------------------------------------------------------


def pack(run: Path, target: Path) -> int:
    """The bytes that the trace takes."""
    target.mkdir(parents=True, exist_ok=True)
    archive = target / "trace.tar.xz"
    with lzma.open(archive, "wb", filters=[_TEXT]) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name in _FILES:
            path = trace_folder.order_file(run) if name == trace_folder.ORDER else run / name
            if path.exists():
                data = _without_stacks(name, path.read_bytes())
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    settings = json.loads((run / "run.json").read_text(encoding="utf-8"))["settings"]
    (target / "model.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return archive.stat().st_size


def _without_stacks(name: str, data: bytes) -> bytes:
    if name == trace_folder.GRAPH:
        return b"".join(line for line in data.splitlines(keepends=True) if not line.lstrip(b" #").startswith(b"File:"))
    if name != trace_folder.BLOCKS:
        return data
    rows = list(csv.reader(io.StringIO(data.decode("utf-8"))))
    kept = [place for place, title in enumerate(rows[0]) if title not in _OF_THE_MACHINE]
    told = io.StringIO()
    csv.writer(told, lineterminator="\n").writerows([row[place] for place in kept] for row in rows)
    return told.getvalue().encode("utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where runs are; none is made twice")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has this text")
    parser.add_argument("--pack", type=Path, nargs=2, metavar=("RUN", "TARGET"))
    options = parser.parse_args()
    if options.pack:
        print(f"{pack(*options.pack):,} bytes")
        return 0
    if options.folder is None:
        parser.error("name the folder for the runs")
    options.folder.mkdir(parents=True, exist_ok=True)
    worse = 0
    for case in recorded():
        if options.only in case.name:
            if not (options.folder / case.name).exists():
                make(case, (options.folder / case.name).resolve())
            for told, is_worse in judged(case, options.folder / case.name):
                print(told + " (more than when it was recorded)" * is_worse, flush=True)
                worse += is_worse
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
