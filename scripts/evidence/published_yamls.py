#!/usr/bin/env python3
"""Do published training YAMLs of mindformers run as they are? One dry run each, of fewer layers and micro-batches.

    python scripts/evidence/published_yamls.py FOLDER --keep DIR [--only NAME...] [--again] [--out PAGE]

Nothing is changed but the number of layers (two of each kind, or as many as there are pipeline stages), their offset
and the number of micro-batches (two more than stages). A YAML that takes its model from a Hugging Face folder that is
not there, or its code from a repository that is not there, cannot train here either; it is told so. Rank 0 is run.
--again only tells of the runs that are in DIR.
Exit code 1 where a run does not complete, or its peak is not that of MindSpore itself to the byte.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evidence_page import opening, paragraph

from swapconf.config import overrides, pretrained
from swapconf.config.config import Config
from swapconf.config.nodes import Document
from swapconf.config.surroundings import NUM_LAYERS
from swapconf.dryrun.fold import folded
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.files import json_object
from swapconf.study.study import Study, study_for_run
from swapconf.trace import run_record
from swapconf.words.findings import SwapconfError

TRAINS = ("train", "finetune")
OF_EACH_KIND = 2


@dataclass(frozen=True, kw_only=True)
class Row:
    """``report``: None where nothing was run, for a reason."""

    name: str
    model: str
    changes: tuple[str, ...] = ()
    report: RankReport | None = None
    own_peak: int | None = None
    reason: str = ""

    @property
    def is_exact(self) -> bool:
        return self.report is not None and self.report.used_peak_bytes == self.own_peak is not None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--keep", type=Path, required=True)
    options.add_argument("--only", nargs="*", default=())
    options.add_argument("--again", action="store_true")
    options.add_argument("--out", type=Path)
    options.add_argument("--note", default="", help="a sentence to stand on the page")
    options.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS")
    given = options.parse_args()
    rows = []
    for path in sorted(given.folder.rglob("*.yaml")):
        if given.only and not any(word in path.name for word in given.only):
            continue
        if (row := of_file(path, given.keep.resolve() / path.stem, given.timeout, again=given.again)) is not None:
            rows.append(row)
            print(_line(row), flush=True)
    if given.out is not None:
        given.out.write_text("\n".join(_page(rows, given.note)) + "\n", encoding="utf-8")
    sys.exit(any(row.report is not None and not row.is_exact for row in rows))


def of_file(path: Path, keep: Path, timeout: float, *, again: bool = False) -> Row | None:
    """None for what is no training YAML."""
    try:
        document = overrides.of_file(str(path))
    except SwapconfError:
        return None
    if document.root.get("model") is None and document.root.get(pretrained.KEY) is None:
        return None
    if (mode := document.root.get("run_mode")) is None or mode.scalar not in TRAINS:
        return None
    study = study_for_run(document, os.environ)
    model = str(_at(document, "model.arch.type") or _at(document, "model.model_config.model_type") or "?")
    blank = Row(name=path.name, model=model)
    if study.config.model.num_layers is None:
        return Row(name=path.name, model=model, reason="its model comes from a folder that is not here")
    if _at(document, "model.arch.auto_register") and not os.environ.get("REGISTER_PATH"):
        return Row(name=path.name, model=model, reason="the code of its model comes from a folder that is not here")
    changes = fewer(document, study)
    order = RankOrder(document=overrides.of_file(str(path), changes), rank=0, keep=keep, timeout_seconds=timeout)
    report = _kept(order) if again else folded.dry_run(order)
    own = keep / "rank_0" / "result.json"
    peak = json_object.read(own).get("max_memory_allocated_bytes") if own.exists() else None
    return replace(blank, changes=changes, report=report, own_peak=peak)


def fewer(document: Document, study: Study) -> tuple[str, ...]:
    """The changes for fewer layers and micro-batches."""
    config, kinds = study.config, 1
    if study.network is not None and study.network.layers:
        kinds = len({id(layer.template) for layer in study.network.layers if layer.name.isdigit()})
    places = config.pipeline.num_stages * config.pipeline.num_interleaves
    asked = -(-OF_EACH_KIND * kinds // places) * places
    changes = [f"{_key(document, config)}={min(asked, config.model.num_layers or asked)}"]
    sizes = "model.model_config"
    if (_at(document, f"{sizes}.first_k_dense_replace") or 0) > 1 and kinds > 1:
        changes.append(f"{sizes}.first_k_dense_replace={OF_EACH_KIND}")
    if _at(document, f"{sizes}.offset"):
        changes.append(f"{sizes}.offset=0")
    if config.pipeline.num_stages > 1:
        changes.append(f"parallel_config.micro_batch_num={config.pipeline.num_stages + 2}")
    return tuple(changes)


def _key(document: Document, config: Config) -> str:
    return next(
        (
            f"model.model_config.{name}"
            for name in NUM_LAYERS
            if _at(document, f"model.model_config.{name}") is not None
        ),
        "model.model_config.num_layers",
    )


def _at(document: Document, path: str) -> Any:
    node: Any = document.root.plain()
    for step in path.split("."):
        node = node.get(step) if isinstance(node, dict) else None
    return node


def _kept(order: RankOrder) -> RankReport:
    """Of a run that is there already."""
    assert order.keep is not None
    found = run_record.report(order.keep / "rank_0")
    return RankReport(
        file=order.document.file,
        rank=order.rank,
        stage=found["stage"],
        level=found["level"],
        outcome=RankOutcome(found["outcome"]),
        detail=found["detail"],
        seconds=found["seconds"],
        used_peak_bytes=found["used_peak_bytes"],
    )


def _line(row: Row) -> str:
    if row.report is None:
        return f"{row.name}: not run: {row.reason}"
    return (
        f"{row.name}: {row.report.outcome.value}, {row.report.seconds:.0f} s, peak {row.report.used_peak_bytes}, "
        f"MindSpore's own {row.own_peak} {'' if row.is_exact else row.report.detail[:400]}"
    )


def _became(row: Row) -> str:
    return f"not run: {row.reason}" if row.report is None else row.report.outcome.value


def _page(rows: list[Row], note: str) -> Iterator[str]:
    done = [row for row in rows if row.report is not None]
    counts = Counter(_became(row) for row in rows)
    yield from opening(
        "Published YAMLs, as they are",
        f"{sum(row.report is not None and row.report.outcome.good for row in done)} of {len(done)} runs completed, "
        f"{sum(row.is_exact for row in done)} of them with a peak equal to MindSpore's own to the byte.",
        ("what became of it", "YAMLs"),
        [(became, str(count)) for became, count in counts.most_common()],
    )
    yield "Made by `scripts/evidence/published_yamls.py` from the training YAMLs of mindformers r1.8.0 with MindSpore"
    yield "2.9.0 and MindSpore Transformers 1.9.0: one dry run (level 1) of rank 0 each. Nothing is changed but what"
    yield "the third column says. *Peak* is replayed from the trace; *own* is MindSpore's `max_memory_allocated`."
    yield ""
    if note:
        yield from paragraph(note)
    yield from ("## Every YAML", "")
    yield "| YAML | model | changed | outcome | peak | own | seconds |"
    yield "|---|---|---|---|---:|---:|---:|"
    for row in rows:
        start = f"| {row.name} | {row.model} |"
        if row.report is None:
            yield f"{start} | not run: {row.reason} | | | |"
        else:
            changed = "; ".join(change.removeprefix("model.model_config.") for change in row.changes)
            yield (
                f"{start} {changed} | {row.report.outcome.value} | {row.report.used_peak_bytes:,} | "
                f"{row.own_peak:,} | {row.report.seconds:.0f} |"
                if row.is_exact
                else f"{start} {changed} | {row.report.outcome.value}: {row.report.detail[:200]} | "
                f"{row.report.used_peak_bytes} | {row.own_peak} | {row.report.seconds:.0f} |"
            )


if __name__ == "__main__":
    main()
