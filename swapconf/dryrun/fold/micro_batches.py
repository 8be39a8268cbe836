"""DOCUMENT -> MICRO-BATCHES: into how many a step is cut, in which schedule, and the same YAML with fewer of them.

From some number on a schedule only repeats itself, and memory at each place of the step is a straight line in the
number of micro-batches. From which number on was measured for each schedule with MindSpore 2.9.0
(docs/explanation/folding.md); a schedule that is not among them is run as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swapconf.config.config import Pipeline
from swapconf.config.nodes import Document, from_plain
from swapconf.upstream.conditional import INTERLEAVE, SCHEDULER
from swapconf.words.phrases import phrase

ONE_F_ONE_B = "1f1b"
_LEAST_ACCUMULATED = 3
_PIPELINED, _ACCUMULATED = ("parallel_config", "micro_batch_num"), ("runner_config", "gradient_accumulation_steps")


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatches:
    """``count``: in one step. ``key``: section and key of the YAML that says so. ``least``: the fewest from which on
    every ``stride`` more memory is on a line with ``count``, None where that was not measured, for the reason in
    ``why_not``. ``why_check``: why a further run has to confirm the line, "" where it need not."""

    count: int
    key: tuple[str, str] = _PIPELINED
    least: int | None = None
    stride: int = 1
    why_check: str = ""
    why_not: str = ""


def micro_batches(document: Document, pipeline: Pipeline) -> MicroBatches:
    """``pipeline``: of the same document."""
    settings: Any = document.root.plain()
    key = _PIPELINED if pipeline.num_stages > 1 else _ACCUMULATED
    count = _count(_section(settings, key[0]).get(key[1]))
    for name, value in (
        ("micro_batch_interleave_num", settings.get("micro_batch_interleave_num")),
        ("seq_split_num", _section(settings, "parallel_config").get("seq_split_num")),
    ):
        if _count(value) > 1:
            return MicroBatches(
                count=count,
                key=key,
                why_not=phrase("whether a step repeats itself with {key} above 1 was not measured", key=name),
            )
    if pipeline.num_stages == 1:
        return MicroBatches(
            count=count,
            key=key,
            least=_LEAST_ACCUMULATED,
            why_check=phrase("gradients are accumulated without a pipeline"),
        )
    told = _section(_section(settings, "parallel"), "pipeline_config")
    is_interleaved = told.get(INTERLEAVE) is True
    scheduler = str(told.get(SCHEDULER) or ONE_F_ONE_B) if is_interleaved else ONE_F_ONE_B
    if scheduler != ONE_F_ONE_B:
        return MicroBatches(
            count=count,
            key=key,
            why_not=phrase("whether the schedule {scheduler} repeats itself was not measured", scheduler=scheduler),
        )
    stages = pipeline.num_stages
    if not is_interleaved:
        return MicroBatches(count=count, key=key, least=stages + 1)
    # an interleaved stage takes as many micro-batches as there are stages through one of its shares, then the next one
    return MicroBatches(
        count=count,
        key=key,
        least=3 * stages + count % stages,
        stride=stages,
        why_check=phrase("the schedule is interleaved"),
    )


def with_micro_batches(document: Document, found: MicroBatches, count: int) -> Document:
    """The YAML with ``count`` of them; mindformers and the stand-in data reckon the batch of a step from them."""
    if count == found.count:
        return document
    settings: Any = document.root.plain()
    section, key = found.key
    return from_plain({**settings, section: {**_section(settings, section), key: count}}, document)


def _section(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
