"""docs/evidence/plain-against-swapconf.md: the four documented examples, dry-run by plain mindformers and by swapconf.

    python scripts/evidence/plain_table.py FOLDER

Every example as it is and with one gradient accumulation step. ``FOLDER`` keeps the logs; what is there is not run
again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
from cases import ROOT
from evidence_page import opening

from swapconf.config import overrides
from swapconf.dryrun.capacity import jobs_at_once
from swapconf.dryrun.fold.folded import dry_run
from swapconf.dryrun.rank_order import RankOrder
from swapconf.words.units import show_bytes

PAGE = ROOT / "docs/evidence/plain-against-swapconf.md"
SHORT = ("accumulation steps", "by", "examples", "log a swap", "move tensors", "stop with an error")
HOW = """\
The four documented examples at Llama2-7B shape (4 layers, 8 devices: data parallel 2 x model parallel 4), each
dry-run twice on the same YAML: by mindformers alone (`swapconf dryrun --plain`) and with swapconf. The lines are those
of the worker's log; tensors and bytes are what the executed graph of rank 0 copies to the host in one training step;
the peaks are MindSpore's own, from a dry run at level 1 (operator workspace excluded). Made by
`python scripts/evidence/plain_table.py FOLDER` with mindspore 2.9.0 and mindformers 1.9.0.

Where `moved` is 0 although the log says `Set`, the log is wrong: with `pipeline_stage: 1` and one accumulation step
mindformers turns lazy inline off, and MindSpore then ignores every swap. swapconf keeps lazy inline on, and the same
lines come true. One of the examples MindSpore 2.9.0 cannot compile like this (`The pointer[ker_ptr] is null`;
[Limits](../reference/mindformers.md#limits)); the dry run tells before a card does. With two steps both are the same,
because nothing hinders mindformers there.
"""


@dataclass(frozen=True, slots=True)
class Run:
    example: Path
    steps: int
    plain: bool

    @property
    def name(self) -> str:
        return f"{self.example.stem}.steps{self.steps}.{'plain' if self.plain else 'swapconf'}"


def runs() -> list[Run]:
    examples = sorted((ROOT / "configs/llama2_7b").glob("example*.yaml"))
    return [Run(example, steps, plain) for example in examples for steps in (2, 1) for plain in (True, False)]


def record(run: Run, folder: Path) -> dict[str, Any]:
    """The report of one run, from the folder where it is already there."""
    path = folder / f"{run.name}/rank_0/run.json"
    if not path.exists():
        document = overrides.read(
            ["--config", str(run.example.relative_to(ROOT))], [f"runner_config.gradient_accumulation_steps={run.steps}"]
        )
        assert document is not None
        dry_run(RankOrder(document=document, rank=0, plain=run.plain, keep=folder / run.name))
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["report"]
    return found


def row(run: Run, report: dict[str, Any]) -> str:
    lines = [line for line in report["strategy_lines"] if line.startswith("Set")]
    swap = sum("swap" in line for line in lines)
    moved = report["moved"]
    tensors = sum(move["tensors"] for move in moved)
    size = show_bytes(sum(move["bytes"] or 0 for move in moved))
    ended = report["outcome"] if report["outcome"] != "stopped with an error" else f"stopped: {report['detail'][:120]}"
    done = _is_done(report)
    cells = (
        run.example.stem.replace("_", " "),
        str(run.steps),
        "mindformers" if run.plain else "swapconf",
        f"{len(lines)} ({swap} of swap)",
        f"{tensors} tensors, {size}" if done else "-",
        show_bytes(report["used_peak_bytes"]),
        show_bytes(report["with_fragments_peak_bytes"]),
        show_bytes(report["host_bytes"]),
        ended,
    )
    return "| " + " | ".join(cells) + " |"


def page(reports: dict[Run, dict[str, Any]]) -> str:
    head = (
        "example",
        "accumulation steps",
        "by",
        "`Set` lines",
        "moved in a step",
        "used peak",
        "with fragments",
        "host",
        "ended",
    )
    table = [
        "## Every run",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *(row(run, report) for run, report in reports.items()),
    ]
    wrong = [
        f"- {run.example.stem}, {run.steps} step{'s' * (run.steps > 1)}: `{line}`"
        for run, report in reports.items()
        if run.plain and not report["moved"]
        for line in [line for line in report["strategy_lines"] if "swap" in line][:1]
    ]
    lies = ["", "## Lines of plain mindformers for a swap that moves nothing", "", *wrong] if wrong else []
    samples = ["", "## The lines of both", ""]
    for run, report in reports.items():
        if run.steps == max(other.steps for other in reports):
            samples += [
                f"{run.example.stem}, {'mindformers' if run.plain else 'swapconf'}:",
                "",
                "```",
                *report["strategy_lines"],
                "```",
                "",
            ]
    told = opening("Plain mindformers against swapconf", _result(reports), SHORT, list(_short(reports)))
    return "\n".join([*told, HOW, *table, *lies, *samples]).rstrip() + "\n"


def _is_untrue(report: dict[str, Any]) -> bool:
    """The log tells of a swap, and nothing moves."""
    return _sets_swap(report) and _is_done(report) and not report["moved"]


def _sets_swap(report: dict[str, Any]) -> bool:
    return any(line.startswith("Set") and "swap" in line for line in report["strategy_lines"])


def _is_done(report: dict[str, Any]) -> bool:
    return report["used_peak_bytes"] is not None


def _result(reports: dict[Run, dict[str, Any]]) -> str:
    untrue = {plain: [_is_untrue(of) for run, of in reports.items() if run.plain is plain] for plain in (True, False)}
    return (
        f"In {sum(untrue[True])} of {len(untrue[True])} runs of plain mindformers the log tells of a swap, and the "
        f"graph moves nothing. Under swapconf that is so in {sum(untrue[False])} of {len(untrue[False])}."
    )


def _short(reports: dict[Run, dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Rows of SHORT."""
    for steps, plain in dict.fromkeys((run.steps, run.plain) for run in reports):
        told = [of for run, of in reports.items() if (run.steps, run.plain) == (steps, plain)]
        yield (
            str(steps),
            "mindformers" if plain else "swapconf",
            str(len(told)),
            str(sum(map(_sets_swap, told))),
            str(sum(bool(of["moved"]) for of in told)),
            str(sum(not _is_done(of) for of in told)),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    folder, todo = options.folder.resolve(), runs()
    found = joblib.Parallel(n_jobs=jobs_at_once((), options.jobs), batch_size=1)(
        joblib.delayed(record)(run, folder) for run in todo
    )
    PAGE.write_text(page(dict(zip(todo, found, strict=True))), encoding="utf-8")


if __name__ == "__main__":
    main()
