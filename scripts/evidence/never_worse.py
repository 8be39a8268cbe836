#!/usr/bin/env python3
"""docs/evidence/never-worse.md: training YAMLs of others, dry-run by mindformers alone and under swapconf.

    python scripts/evidence/never_worse.py FOLDER... --keep DIR [--only NAME...] [--as-published NAME...] [--out PAGE]

Each YAML of the folders that trains is run twice on a rank of every stage, with two layers of each kind (or as many as
there are places in the pipeline) and two micro-batches more than stages; those of --as-published with all of them, by
a fold. Of stages in the middle whose layers are asked for the same, one is run. Runs that are in DIR are not run again;
--out writes the page from all that is there. A minute for each run; REGISTER_PATH names the code of research models.
Exit code 1 where swapconf needs more memory (0.1 % of the used peak), takes longer, or does not complete where
mindformers does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from published_yamls import TRAINS, fewer

from swapconf.config import overrides, pretrained
from swapconf.config.nodes import Document
from swapconf.decide.log_lines import of_options
from swapconf.dryrun.fold import folded
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.study.study import Study, study_for_run
from swapconf.timing import costing, hardware, program, timeline
from swapconf.trace import trace_folder
from swapconf.words.findings import SwapconfError
from swapconf.words.units import show_bytes

MOST = 0.001  # of the used peak: less is no difference
MOST_TIME = 1e-6  # of the step: MindSpore orders the inputs of its optimizer otherwise in two runs of one YAML
TIMEOUT_SECONDS = 1800.0
NOT_RUN = "not run"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """``step_us``: estimated for the generic card, None where the run left no trace of a whole step."""

    outcome: str
    used_peak_bytes: int | None
    step_us: float | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One stage of one YAML. ``alike``: further stages that it stands for. ``drops``: keys that do not count."""

    name: str
    stage: int
    alike: tuple[int, ...]
    drops: tuple[str, ...]
    plain: Ran
    ours: Ran

    @property
    def compared(self) -> bool:
        return self.plain.used_peak_bytes is not None

    @property
    def more_memory(self) -> float:
        """Of the used peak; what does not run at all is infinitely worse."""
        if self.plain.used_peak_bytes is None or self.ours.used_peak_bytes is None:
            return float("inf") if self.compared else 0.0
        return self.ours.used_peak_bytes / self.plain.used_peak_bytes - 1

    @property
    def more_time(self) -> float | None:
        if self.plain.step_us is None or self.ours.step_us is None:
            return None
        return self.ours.step_us / self.plain.step_us - 1

    @property
    def is_worse(self) -> bool:
        return self.more_memory > MOST or (self.more_time or 0.0) > MOST_TIME


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", type=Path, nargs="+")
    options.add_argument("--keep", type=Path, required=True)
    options.add_argument("--only", nargs="*", default=())
    options.add_argument("--as-published", nargs="*", default=())
    options.add_argument("--again", action="store_true", help="tell of the runs that are there, and run nothing")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    rows: list[Row] = []
    for path in (path for folder in given.folders for path in sorted(folder.rglob("*.yaml"))):
        if not given.only or any(word in path.name for word in given.only):
            whole = any(word in path.name for word in given.as_published)
            for row in of_file(path, given.keep.resolve() / path.stem, whole=whole, again=given.again):
                rows.append(row)
                print(line(row), flush=True)
    if given.out is not None:
        given.out.write_text("\n".join(page(rows)) + "\n", encoding="utf-8")
    sys.exit(any(row.is_worse for row in rows))


def of_file(path: Path, keep: Path, *, whole: bool = False, again: bool = False) -> Iterator[Row]:
    """The rows of a YAML; none of what is no training YAML, or takes its model or code from where nothing is."""
    try:
        document = overrides.of_file(str(path))
        study = study_for_run(document, os.environ)
    except SwapconfError:
        return
    mode = document.root.get("run_mode")
    named = document.root.get("model") is not None or document.root.get(pretrained.KEY) is not None
    if not named or mode is None or mode.scalar not in TRAINS or study.config.model.num_layers is None:
        return
    if "auto_register" in document.text and not os.environ.get("REGISTER_PATH"):
        return
    changes = () if whole else fewer(document, study)
    changed = overrides.of_file(str(path), changes)
    for stage, alike in stages(study_for_run(changed, os.environ), changed):
        rank = cluster_of(changed).first_ranks()[stage]
        folder = keep / "whole" if whole else keep
        plain, ours = (_ran(changed, rank, folder / kind, again=again) for kind in ("plain", "swapconf"))
        yield Row(
            name=path.name + (" as published" if whole else ""),
            stage=stage,
            alike=alike,
            drops=tuple(text for text in of_options(study.config) if "does not count" in text),
            plain=plain,
            ours=ours,
        )


def stages(study: Study, document: Document) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The stages to run, and those of the middle that each stands for, as their layers are asked for the same."""
    count = cluster_of(document).num_stages
    if study.strategy is None:
        yield from ((stage, ()) for stage in range(count))
        return
    asked = {
        stage: tuple(
            (entry.layer.template, entry.plan.meaning) for entry in study.strategy.layers if entry.layer.stage == stage
        )
        for stage in range(count)
    }
    for stage in range(count):
        middle = 0 < stage < count - 1
        if middle and any(asked[stage] == asked[other] for other in range(1, stage)):
            continue
        yield stage, tuple(other for other in range(stage + 1, count - 1) if middle and asked[other] == asked[stage])


def _ran(document: Document, rank: int, keep: Path, *, again: bool) -> Ran:
    """What became of a run, which is kept; its trace is not."""
    known = keep / f"rank_{rank}.json"
    if not known.exists():
        if again:
            return Ran(outcome=NOT_RUN, used_peak_bytes=None, step_us=None)
        report = folded.dry_run(
            RankOrder(
                document=document,
                rank=rank,
                keep=keep,
                timeout_seconds=TIMEOUT_SECONDS,
                plain=keep.name == "plain",
                fold="whole" in keep.parts,
            )
        )
        outcome = report.outcome.value + (f": {report.detail[:200]}" if report.detail else "")
        ran = Ran(outcome=outcome, used_peak_bytes=report.used_peak_bytes, step_us=step_us(keep / f"rank_{rank}", rank))
        shutil.rmtree(keep / f"rank_{rank}", ignore_errors=True)
        keep.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(asdict(ran)), encoding="utf-8")
    return Ran(**json.loads(known.read_text(encoding="utf-8")))


def step_us(folder: Path, rank: int) -> float | None:
    try:
        trace = trace_folder.read(folder, rank)
        steps = program.program(trace)
    except (SwapconfError, ValueError):
        return None
    known = costing.costs(costing.workload(trace), hardware.load(hardware.GENERIC))
    return float(timeline.replay(steps, known.duration_us).step_us)


def line(row: Row) -> str:
    if not row.compared:
        return f"{row.name} stage {row.stage}: mindformers alone: {row.plain.outcome}"
    time = "no step" if row.more_time is None else f"{row.more_time:+.4%}"
    return (
        f"{row.name} stage {row.stage}: {row.plain.used_peak_bytes} -> {row.ours.used_peak_bytes} "
        f"({row.more_memory:+.4%}), step {time}{' WORSE' * row.is_worse} {row.ours.outcome if row.is_worse else ''}"
    )


def page(rows: list[Row]) -> Iterator[str]:
    compared = [row for row in rows if row.compared]
    yield "# Never worse than mindformers alone"
    yield ""
    yield (
        f"{len(compared)} stages of {len({row.name for row in compared})} training YAMLs of others were dry-run by "
        f"mindformers alone and under swapconf; {sum(row.is_worse for row in compared)} need more memory or time."
    )
    yield f"At most the used peak is {_most_memory(compared):+.4%}, the step {_most_time(compared):+.4%}."
    yield ""
    yield "| what of the YAML does not count | YAMLs | stages | used peak, at most | step, at most |"
    yield "|---|---:|---:|---:|---:|"
    for drops in sorted({_drops(row) for row in compared}):
        those = [row for row in compared if _drops(row) == drops]
        yield (
            f"| {drops or 'all counts'} | {len({row.name for row in those})} | {len(those)} | "
            f"{_most_memory(those):+.4%} | {_most_time(those):+.4%} |"
        )
    yield ""
    yield "What does not count are keys that mindformers itself drops ([what differs](../reference/mindformers.md))."
    yield ""
    yield "## All of them"
    yield ""
    yield "The used peak of a dry run (level 1), and what swapconf takes more; the step is estimated for the generic"
    yield "card. Two layers of each kind, or as many as there are places in the pipeline; those *as published* are"
    yield "folded. A stage in brackets is asked for the same as the one in front of it. Made by"
    yield "`scripts/evidence/never_worse.py` with MindSpore 2.9.0 and mindformers 1.9.0."
    yield ""
    yield "| YAML | stage | alone | under swapconf | used peak | step | does not count |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for row in compared:
        alike = f" ({', '.join(map(str, row.alike))})" if row.alike else ""
        ours = row.ours.outcome if row.ours.used_peak_bytes is None else show_bytes(row.ours.used_peak_bytes)
        step = "-" if row.more_time is None else f"{row.more_time:+.4%}"
        yield (
            f"| {row.name} | {row.stage}{alike} | {show_bytes(row.plain.used_peak_bytes)} | {ours} | "
            f"{row.more_memory:+.4%} | {step} | {_drops(row)} |"
        )
    yield from _not_compared(rows)


def _not_compared(rows: list[Row]) -> Iterator[str]:
    """Lines of the page about what was not run, and what mindformers alone does not run."""
    left = [f"- {row.name}, stage {row.stage}" for row in rows if row.plain.outcome == NOT_RUN]
    broken = [
        f"- {row.name}, stage {row.stage}: {row.plain.outcome}"
        for row in rows
        if not row.compared and row.plain.outcome != NOT_RUN
    ]
    for heading, lines in (("What was not run", left), ("What mindformers alone does not run", broken)):
        if lines:
            yield from ("", f"## {heading}", "", *lines)


def _drops(row: Row) -> str:
    return ", ".join(f"`{text.split()[1].rstrip(':')}`" for text in row.drops)


def _most_memory(rows: list[Row]) -> float:
    return max((row.more_memory for row in rows), default=0.0)


def _most_time(rows: list[Row]) -> float:
    return max((row.more_time for row in rows if row.more_time is not None), default=0.0)


if __name__ == "__main__":
    main()
