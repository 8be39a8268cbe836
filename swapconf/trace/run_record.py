"""RUN.JSON -> REPORT: what ``swapconf dryrun --keep`` recorded of a run, as far as it is in its form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapconf.files import json_object
from swapconf.files.schemas import schema, validator
from swapconf.trace.lifetimes import PoolRecord
from swapconf.upstream.conditional import INTERLEAVE
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import parse_bytes

FILE = "run.json"
OF_A_MICRO_BATCH = "used_peak_bytes_of_a_micro_batch"  # of a grown trace, what each more adds
_SCHEMA = "run_report"


def read(folder: Path) -> dict[str, Any]:
    """The whole record; empty where there is none, or it is damaged."""
    return json_object.read(folder / FILE)


def report(folder: Path) -> dict[str, Any]:
    """What came of the run, without the values that are of another type than swapconf writes; empty where another
    program made the trace."""
    found = read(folder).get("report")
    if not isinstance(found, dict):
        return {}
    wrong = {error.absolute_path[0] for error in validator(_SCHEMA).iter_errors(found) if error.absolute_path}
    # to JSON Schema 1.0 is an integer; one is a float only where the schema says number
    wrong |= {
        key
        for key, kind in schema(_SCHEMA)["properties"].items()
        if isinstance(found.get(key), float) and kind.get("type") != "number"
    }
    return {key: value for key, value in found.items() if key not in wrong}


def pool(folder: Path) -> PoolRecord:
    """What a run said of MindSpore's pool, as far as it is recorded."""
    return pool_of(read(folder).get("settings"), report(folder))


def pool_of(settings: Any, record: Mapping[str, Any]) -> PoolRecord:
    """The same of a YAML as plain values, and of a report in its form. mindformers sets the unit of the pool's pieces
    only in a YAML that has a limit, too. A simulated device heeds that limit up to 32 GB; what it does heed it logs."""
    context = settings.get("context") if isinstance(settings, Mapping) else None
    growth: int | None = None
    if (
        isinstance(context, Mapping)
        and context.get("max_device_memory")
        and isinstance(text := context.get("mempool_block_size"), str)
    ):
        try:
            growth = parse_bytes(text) or None
        except ValueError:  # the run will have said so
            growth = None
    return PoolRecord(
        reserved_bytes=record.get("reserved_bytes"), limit_bytes=record.get("usable_bytes"), growth_bytes=growth
    )


def origin(record: Mapping[str, Any]) -> str:
    """Where the figures of a report come from, "" where that is not told. It is recorded in English; the parts that
    are known texts can be shown in another language."""
    return joined(", ", [phrase(part) if part else "" for part in _parts(str(record.get("origin") or ""))])


def _parts(told: str) -> list[str]:
    """As templates of phrases without values."""
    return told.replace("{", "{{").replace("}", "}}").split(", ")


def grown(record: Mapping[str, Any]) -> str:
    """From what a trace of the whole model was made, "" of one that a run left behind."""
    sentence = str(record.get("grown") or "")
    return joined(", ", [phrase(part) for part in _parts(sentence)]) if sentence else ""


def micro_batches(folder: Path) -> tuple[int, int]:
    """How many the grown trace in a folder has, and how many the step of its model; zeros of a trace that has all, or
    of an interleaved pipeline, whose rounds are of several of them."""
    return _micro_batches(read(folder))


def _micro_batches(record: Mapping[str, Any]) -> tuple[int, int]:
    facts, parallel = record.get("grown"), (record.get("settings") or {}).get("parallel")
    pipeline = parallel.get("pipeline_config") if isinstance(parallel, dict) else None
    if not isinstance(facts, dict) or (isinstance(pipeline, dict) and pipeline.get(INTERLEAVE) is True):
        return 0, 0
    few, count = facts.get("micro_batches"), facts.get("of_micro_batches")
    return (few, count) if isinstance(few, int) and isinstance(count, int) and 0 < few < count else (0, 0)


def of_other_micro_batches(folder: Path) -> int:
    """Bytes that the micro-batches which the grown trace in a folder lacks would hold at its peak: mostly inputs of the
    step, whatever the strategy."""
    record = read(folder)
    few, count = _micro_batches(record)
    return (count - few) * _of_a_micro_batch(record)


def of_a_micro_batch(folder: Path) -> int:
    """The same of each, as far as the fold told it."""
    return _of_a_micro_batch(read(folder))


def _of_a_micro_batch(record: Mapping[str, Any]) -> int:
    facts = record.get("grown")
    each = facts.get(OF_A_MICRO_BATCH) if isinstance(facts, dict) else None
    return each if isinstance(each, int) and each > 0 else 0


def is_whole(record: dict[str, Any]) -> bool:
    """Whether a report has all that a comparison of runs needs."""
    needed: list[str] = schema(_SCHEMA)["required"]
    return all(key in record for key in needed)
